"""The competitors: DP-VRADMM, DP-SADMM, Renyi-DP ADMM and DP proximal SGD; their runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from taciturn.algorithms import (
    SADMM,
    VRADMM,
    NoisyGradient,
    RenyiADMM,
    StarAlgorithm,
    variance_reduction,
)
from taciturn.engine import Plan, plan
from taciturn.kernel.questions import Gradient, MinibatchGradient, Oracle
from taciturn.problems import L1, NoRegulariser, Problem, WholeSpace, public_facts
from taciturn.typing import HostArray
from taciturn_papers.reproductions.arms import repeated
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.liu2022.settings import (
    CLIP,
    DELTA,
    LASSO_WEIGHT,
    ROUNDS,
    Scale,
    Task,
)
from taciturn_papers.reproductions.portions import Arrays, Portion, Work

Steps = Literal["published", "public"]
# algorithm, questions, and rounds for a number of epochs
Parts = tuple[StarAlgorithm, tuple[Oracle, ...], int]


@dataclass(frozen=True)
class StructuredArm:
    """A competitor.

    Attributes
    ----------
    name
        As readers see it.
    parts
        From the task, the number of epochs and the bound on a record's coefficient.
    asks
        What it asks; methods that ask the same need the same noise.
    order
        The columns as given, or shuffled.
    reference
        Whether it is run without noise.
    """

    name: str
    parts: Callable[[Task, int, float], Parts]
    asks: Literal["gradients", "differences", "full gradients"]
    order: Literal["given", "shuffled"] = "given"
    reference: bool = False


def sadmm(steps: Steps, smoothing: float = 0.0) -> StructuredArm:
    """Return DP-SADMM: one noised mini-batch gradient a step."""

    def parts(task: Task, epochs: int, clip: float) -> Parts:
        algorithm = SADMM(task.problem, smoothing, step_rule=steps)
        return algorithm, _batches(task, clip), epochs * task.inner

    return StructuredArm(f"DP-SADMM{_how(steps, smoothing)}", parts, "gradients")


def vradmm(steps: Steps, smoothing: float = 0.0, *, shuffled: bool = False) -> StructuredArm:
    """Return DP-VRADMM: a noised full gradient an epoch, noised differences from it."""

    def parts(task: Task, epochs: int, clip: float) -> Parts:
        oracles, noise = variance_reduction(
            task.problem.loss, clip=clip, spread=clip, rate=task.rate, inner=task.inner
        )
        algorithm = VRADMM(
            task.problem, smoothing, inner=task.inner, snapshot_noise=noise, step_rule=steps
        )
        return algorithm, oracles, epochs * algorithm.epoch

    name = f"DP-VRADMM{_how(steps, smoothing)}"
    if shuffled:
        return StructuredArm(f"{name}, columns shuffled", parts, "differences", "shuffled")
    return StructuredArm(name, parts, "differences")


def renyi(steps: Steps) -> StructuredArm:
    """Return Renyi-DP ADMM, the paper's DP-ADMM, for the lasso."""

    def parts(task: Task, epochs: int, clip: float) -> Parts:
        algorithm = RenyiADMM(task.problem, step_rule=steps)
        return algorithm, _batches(task, clip), epochs * task.inner

    return StructuredArm(f"Renyi-DP ADMM{_how(steps, 0.0)}", parts, "gradients")


def proximal() -> StructuredArm:
    """Return DP proximal SGD, for the lasso."""

    def parts(task: Task, epochs: int, clip: float) -> Parts:
        plain = Problem(task.problem.loss, L1(LASSO_WEIGHT), WholeSpace())
        return NoisyGradient(plain), _batches(task, clip), epochs * task.inner

    return StructuredArm("DP proximal SGD", parts, "gradients")


def noisy_gradient() -> StructuredArm:
    """Return what `taciturn train` uses: 200 full gradients, the structure as a regulariser."""

    def parts(task: Task, epochs: int, clip: float) -> Parts:
        del epochs
        algorithm = NoisyGradient(task.problem.composed)
        return algorithm, (Gradient(task.problem.loss, clip),), ROUNDS

    return StructuredArm("noisy gradient (ours)", parts, "full gradients")


def without_noise(arm: StructuredArm, name: str) -> StructuredArm:
    """Return a method under its name in the paper for runs that protect nothing."""

    def parts(task: Task, epochs: int, clip: float) -> Parts:
        del clip
        return arm.parts(task, epochs, math.inf)

    return dataclasses.replace(arm, name=name, parts=parts, reference=True)


def _batches(task: Task, clip: float) -> tuple[Oracle, ...]:
    return (MinibatchGradient(task.problem.loss, clip, task.rate),)


def _how(steps: Steps, smoothing: float) -> str:
    return f", {steps} steps" + (f", v = {smoothing:g}" if smoothing else "")


@dataclass(frozen=True)
class Scores:
    """Objective gap and test error over the seeds, at one budget."""

    gap: Measured
    error: Measured


# noise multipliers by what is asked, one for each budget
Known = Mapping[str, tuple[float, ...]]


def multipliers(task: Task, arm: StructuredArm, scale: Scale, name: str) -> Work[tuple[float, ...]]:
    """Return the noise multipliers of what an arm asks on a data set, one for each budget."""

    def portion(budget: float) -> Portion:
        one = dataclasses.replace(scale, budgets=(budget,))

        def compute() -> dict[str, HostArray]:
            return {"multiplier": np.array(planned(task, arm, one, {})[0].multiplier)}

        title = f"{name}: noise of {arm.asks} at epsilon {budget:g}"
        return Portion(title, (name, arm.asks, budget), compute)

    return Work(
        tuple(map(portion, scale.budgets)),
        lambda found: tuple(
            float(found[name, arm.asks, budget]["multiplier"]) for budget in scale.budgets
        ),
    )


def scored(task: Task, arm: StructuredArm, scale: Scale, known: Known) -> dict[str, HostArray]:
    """Return gaps and errors `(B, S)`, all budgets and seeds as one compiled program."""
    plans = planned(task, arm, scale, known)
    seeds = range(scale.seeds)
    models = np.asarray(repeated(plans, task.train, seeds=seeds, keep=frozenset())[0], np.float64)
    return {
        "gap": np.array([task.gaps(each) for each in models]),
        "error": np.array([task.errors(each) for each in models]),
    }


def scores_of(found: Arrays) -> tuple[Scores, ...]:
    """Return the scores at every budget, of what `scored` returned."""
    pairs = zip(found["gap"], found["error"], strict=True)
    return tuple(Scores(Measured.of(gap), Measured.of(error)) for gap, error in pairs)


def planned(task: Task, arm: StructuredArm, scale: Scale, known: Known) -> list[Plan]:
    """Return a plan for every budget, delta 5e-4, replace-one; for a reference one without noise.

    A multiplier that is known spares the search for it; the certificate is computed afresh.

    Parameters
    ----------
    known
        Multipliers by what is asked, where they are.
    """
    clip = math.inf if arm.reference else CLIP
    algorithm, oracles, rounds = arm.parts(task, scale.epochs, clip)
    bare = Problem(task.problem.loss, NoRegulariser(), WholeSpace())
    facts = public_facts(bare, task.train, clip=clip)
    budgets = (math.inf,) if arm.reference else scale.budgets
    found: Sequence[float | None] = (None,) * len(budgets)
    if not arm.reference:
        found = known.get(arm.asks, found)
    return [
        plan(
            facts,
            algorithm,
            oracles,
            Budget(budget, DELTA).terms,
            rounds=rounds,
            precision="float32",
            multiplier=multiplier,
        )
        for budget, multiplier in zip(budgets, found, strict=True)
    ]
