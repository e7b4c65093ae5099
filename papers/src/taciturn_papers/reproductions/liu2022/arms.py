"""The competitors: Algorithms 1 and 2 as printed, and what `taciturn train` runs; their runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.algorithms import (
    AcceleratedADMM,
    AcceleratedRenyiADMM,
    AcceleratedVRADMM,
    NoisyGradient,
    StarAlgorithm,
    variance_reduction,
)
from taciturn.calibration import multiplier_for_all
from taciturn.engine import Plan, plan
from taciturn.kernel.privacy import Event, GaussianAnswer, Sampled
from taciturn.kernel.questions import Gradient, MinibatchGradient, Oracle
from taciturn.problems import L1, NoRegulariser, Problem, WholeSpace, public_facts
from taciturn.typing import HostArray
from taciturn_papers.as_published import Constants, Method, PublishedADMM, graph_smoother, smoother
from taciturn_papers.reproductions.arms import repeated
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.liu2022.settings import Divided, Reading, Scale, Task
from taciturn_papers.reproductions.portions import Arrays, Portion, Work

Along = Literal["columns", "shuffled", "graph"]
# algorithm, questions and rounds
Parts = tuple[StarAlgorithm, tuple[Oracle, ...], int]


@dataclass(frozen=True)
class SoundArm:
    """A competitor in sound form, with settings from public facts.

    Attributes
    ----------
    parts
        From the task and the scale.
    asks
        What it asks; methods that ask the same need the same noise.
    """

    name: str
    parts: Callable[[Task, Scale], Parts]
    asks: Literal["gradients", "differences", "full gradients"]


@dataclass(frozen=True)
class PublishedArm:
    """A competitor as printed.

    Attributes
    ----------
    strength
        v.
    along
        What is smoothed over: neighbouring columns, columns in a random order, or the graph.
    shorter
        A factor of the step.
    reference
        Whether it is run without noise.
    """

    name: str
    method: Method
    strength: float = 0.0
    along: Along = "columns"
    shorter: float = 1.0
    reference: bool = False


Arm = SoundArm | PublishedArm


def published(method: Method, strength: float = 0.0, along: Along = "columns") -> PublishedArm:
    """Return DP-VRADMM, DP-SADMM or the DP-ADMM of Chen and Lee as printed."""
    names = {"vradmm": "DP-VRADMM", "sadmm": "DP-SADMM", "renyi": "Renyi-DP ADMM"}
    how = {"columns": "", "shuffled": ", columns shuffled", "graph": ", along the graph"}[along]
    v = f", v = {strength:g}{how}" if strength else ""
    return PublishedArm(f"{names[method]} as published{v}", method, strength, along)


def shortened(factor: float) -> PublishedArm:
    """Return DP-VRADMM as printed without smoothing, all steps times a factor."""
    name = f"DP-VRADMM as published, steps times {factor:g}"
    return PublishedArm(name, "vradmm", shorter=factor)


def accelerated_sadmm(strength: float = 0.0) -> SoundArm:
    """Return DP-SADMM with momentum and public steps: one noised mini-batch gradient a step."""

    def parts(task: Task, scale: Scale) -> Parts:
        algorithm = AcceleratedADMM(task.problem, strength)
        return algorithm, _batches(task, scale), scale.epochs * task.inner

    return SoundArm(_ours("accelerated DP-SADMM", strength), parts, "gradients")


def accelerated_vradmm(strength: float = 0.0) -> SoundArm:
    """Return DP-VRADMM with momentum: a noised gradient an epoch, noised differences from it."""

    def parts(task: Task, scale: Scale) -> Parts:
        oracles, noise = variance_reduction(
            task.problem.loss, clip=scale.clip, spread=scale.clip, rate=task.rate, inner=task.inner
        )
        algorithm = AcceleratedVRADMM(
            task.problem, strength, inner=task.inner, snapshot_noise=noise
        )
        return algorithm, oracles, scale.epochs * algorithm.epoch

    return SoundArm(_ours("accelerated DP-VRADMM", strength), parts, "differences")


def accelerated_renyi() -> SoundArm:
    """Return Renyi-DP ADMM with momentum, for the lasso."""

    def parts(task: Task, scale: Scale) -> Parts:
        algorithm = AcceleratedRenyiADMM(task.problem)
        return algorithm, _batches(task, scale), scale.epochs * task.inner

    return SoundArm(_ours("accelerated Renyi-DP ADMM", 0.0), parts, "gradients")


def proximal() -> SoundArm:
    """Return DP proximal SGD, for the lasso."""

    def parts(task: Task, scale: Scale) -> Parts:
        plain = Problem(task.problem.loss, L1(scale.lasso_weight), WholeSpace())
        return NoisyGradient(plain), _batches(task, scale), scale.epochs * task.inner

    return SoundArm("DP proximal SGD", parts, "gradients")


def noisy_gradient() -> SoundArm:
    """Return the default of `taciturn train`: full gradients, the structure as a regulariser."""

    def parts(task: Task, scale: Scale) -> Parts:
        algorithm = NoisyGradient(task.problem.composed)
        return algorithm, (Gradient(task.problem.loss, scale.clip),), scale.rounds

    return SoundArm("noisy gradient (ours)", parts, "full gradients")


def _batches(task: Task, scale: Scale) -> tuple[Oracle, ...]:
    return (MinibatchGradient(task.problem.loss, scale.clip, task.rate),)


def _ours(name: str, strength: float) -> str:
    return f"{name} (ours)" + (f", v = {strength:g}" if strength else "")


@dataclass(frozen=True)
class Scores:
    """Objective gap and test error over the seeds, at one budget."""

    gap: Measured
    error: Measured


def search(title: str, settings: tuple[object, ...], compute: Callable[[], float]) -> Work[float]:
    """Return the work of one search for the noise of a budget."""
    portion = Portion(title, settings, lambda: {"noise": np.array(compute())})
    return Work.of(portion, lambda found: float(found["noise"]))


def noise_of_plan(task: Task, arm: SoundArm, scale: Scale, name: str, budget: float) -> Work[float]:
    """Return the noise multiplier of what a sound arm asks on a data set."""
    title = f"{name}: noise of {arm.asks} at epsilon {budget:g}"
    return search(
        title,
        (name, arm.asks, budget),
        lambda: planned(task, arm, scale, [(budget, None)])[0].multiplier,
    )


def noise_as_printed(
    task: Task, method: Method, reading: Reading, scale: Scale, name: str, budget: float
) -> Work[float]:
    """Return sigma of u_t on a data set under a reading.

    Of the accountant: for DP-SADMM the least that the budget allows on Poisson batches. In (6) u
    must cover a gradient on all records, which one record moves by 2 l / n, and the change on a
    batch, by 2 l / b: it is regarded as the sum of two noises of equal variance, one for each, of
    which the two answers together fit the budget. Post-processing allows to add them up.
    """
    asks, epochs = "sums (6)" if method == "vradmm" else "gradients as published", reading.epochs
    title = f"{name}: noise of {asks} at epsilon {budget:g}, {epochs} epochs, {reading.noise}"
    settings = (name, asks, budget, epochs, reading.noise)
    steps, bound = epochs * task.inner, scale.lipschitz

    def events(multiplier: float) -> list[tuple[Event, int]]:
        found: list[tuple[Event, int]] = [(Sampled(GaussianAnswer(multiplier), task.rate), steps)]
        if method == "vradmm":
            found.append((GaussianAnswer(multiplier / task.rate), steps))
        return found

    def compute() -> float:
        if reading.noise == "theorems":
            return _of_theorem(task, method, steps, scale, budget)
        terms = Budget(budget, scale.delta).terms
        least = multiplier_for_all(
            events, epsilon=budget, delta=scale.delta, relation=terms.adjacency.relation
        )
        return least * 2 * bound / task.batch * (math.sqrt(2) if method == "vradmm" else 1)

    return search(title, settings, compute)


def _of_theorem(task: Task, method: Method, steps: int, scale: Scale, epsilon: float) -> float:
    """Return sigma of Theorem 1 (DP-VRADMM) or 2."""
    log, records = math.log(1 / scale.delta), task.train.counts[0]
    if method == "vradmm":
        return scale.lipschitz * math.sqrt(scale.constant * steps * log) / (records * epsilon)
    order = log / ((1 - scale.theta) * epsilon) + 1
    variance = 20 * order * steps / (scale.theta * epsilon)
    return scale.lipschitz * math.sqrt(variance) / records


def scored_as_printed(
    task: Task, parts: Divided, arm: PublishedArm, scale: Scale, noises: Sequence[Sequence[float]]
) -> dict[str, HostArray]:
    """Return gaps and errors `(R, B, S)` of a printed arm under every reading.

    Parameters
    ----------
    noises
        sigma under every reading at every budget, `(R, B)`.
    """
    size = task.train.dimension
    matrix = None if arm.strength == 0 else smoother(size, arm.strength)
    largest = 1 + 4 * arm.strength
    if arm.along == "shuffled" and matrix is not None:
        order = np.random.default_rng(0).permutation(size)
        matrix = matrix[np.ix_(order, order)]
    if arm.along == "graph":
        matrix = graph_smoother(parts.edges, size, arm.strength)
        largest = float(1 / np.linalg.eigvalsh(matrix)[0])
    smoothing = None if matrix is None else jnp.asarray(matrix)
    models: dict[int, Float[HostArray, "S D"]] = {}
    for epochs in sorted({reading.epochs for reading in scale.readings}):
        places = [k for k, each in enumerate(scale.readings) if each.epochs == epochs]
        method = PublishedADMM(
            task.problem, arm.method, task.batch, task.inner, epochs, smoothing, largest
        )
        given = _constants(task, arm, [scale.readings[k] for k in places], noises, places)
        found = method.run(task.train.shard(0), given, range(scale.seeds))
        models |= dict(zip(places, np.split(found, len(places)), strict=True))
    each = [models[k] for k in range(len(scale.readings))]
    return _scores(task, np.stack(each))


def _constants(
    task: Task, arm: PublishedArm, readings: Sequence[Reading], noises: Sequence[Sequence[float]],
    places: Sequence[int],
) -> Constants:  # fmt: skip
    norm = task.problem.forward.norm_squared()
    rows = [
        (
            noise,
            each.rho / norm if each.per_norm else each.rho,
            norm if each.gamma == "bound" else 0.0,
            each.step * arm.shorter,
        )
        for each, place in zip(readings, places, strict=True)
        for noise in noises[place]
    ]
    return Constants(*jnp.asarray(rows, jnp.float32).T)


def scored(task: Task, arm: SoundArm, scale: Scale, known: Sequence[float]) -> dict[str, HostArray]:
    """Return gaps and errors `(1, B, S)`, all budgets and seeds as one compiled program."""
    plans = planned(task, arm, scale, list(zip(scale.budgets, known, strict=True)))
    models = repeated(plans, task.train, seeds=range(scale.seeds), keep=frozenset())[0]
    return _scores(task, np.asarray(models, np.float64)[None])


def _scores(task: Task, models: Float[HostArray, "R B S D"]) -> dict[str, HostArray]:
    flat = models.reshape(-1, models.shape[-1])
    shape = models.shape[:-1]
    return {"gap": task.gaps(flat).reshape(shape), "error": task.errors(flat).reshape(shape)}


def scores_of(found: Arrays) -> tuple[tuple[Scores, ...], ...]:
    """Return the scores under every reading at every budget, of what `scored` returned."""
    return tuple(
        tuple(Scores(Measured.of(g), Measured.of(e)) for g, e in zip(gaps, errors, strict=True))
        for gaps, errors in zip(found["gap"], found["error"], strict=True)
    )


def planned(
    task: Task, arm: SoundArm, scale: Scale, budgets: Sequence[tuple[float, float | None]]
) -> list[Plan]:
    """Return a plan for every budget, replace-one.

    A multiplier that is known spares the search for it; the certificate is computed afresh.

    Parameters
    ----------
    budgets
        Epsilon with the multiplier, where it is known.
    """
    algorithm, oracles, rounds = arm.parts(task, scale)
    bare = Problem(task.problem.loss, NoRegulariser(), WholeSpace())
    facts = public_facts(bare, task.train, clip=scale.clip)
    return [
        plan(
            facts,
            algorithm,
            oracles,
            Budget(budget, scale.delta).terms,
            rounds=rounds,
            precision="float32",
            multiplier=multiplier,
        )
        for budget, multiplier in budgets
    ]
