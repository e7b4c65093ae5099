"""The methods as the paper has them, noise on messages and state kept exact: runs, and Figure 9."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from taciturn.algorithms import RECAL
from taciturn.engine import plan, run
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import pack
from taciturn.network import metropolis, ring, uniform_walk
from taciturn.problems import Logistic, NoRegulariser, Problem, WholeSpace, public_facts
from taciturn.typing import HostArray
from taciturn_papers.as_published import NoisedStep
from taciturn_papers.as_published.dp_recal import claimed_epsilon, dp_recal
from taciturn_papers.as_published.exact_recovery import recover, unprox_none
from taciturn_papers.as_published.noisy_gossip import GossipMethod, noisy_gossip
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.wang2024.arms import POINTS, RECAL_HOP, Task, distances
from taciturn_papers.reproductions.wang2024.settings import (
    AGENTS,
    AT_TWELVE,
    DECAY,
    DELTA,
    EQUAL,
    NO_NOISE,
    Scale,
)

RECAL_PRINTED, EXTRA_PRINTED, NIDS_PRINTED = (
    "DP-RECAL as published", "DP-EXTRA as published", "DP-NIDS as published"
)  # fmt: skip
_GOSSIP: dict[str, GossipMethod] = {EXTRA_PRINTED: "extra", NIDS_PRINTED: "nids"}
PRINTED = (RECAL_PRINTED, EXTRA_PRINTED, NIDS_PRINTED)


@dataclass(frozen=True, eq=False)
class Printed:
    """What a published method reaches, over R repetitions, if it charges itself `claimed`.

    Attributes
    ----------
    sent, relative
        As of `arms.Outcome`; with the weights whose optimum is not 0, started at 0.
    zero
        `(R,)`: |x| / |x^1| at the end with the published weights, started at ones.
    """

    sent: Float[HostArray, " K"]
    relative: Float[HostArray, "R K"]
    zero: Float[HostArray, " R"]
    plf: tuple[int, ...]
    messages: int
    seconds: float

    @property
    def course(self) -> tuple[Measured, ...]:
        """The relative error at every look."""
        return Measured.columns(self.relative)


def printed(task: Task, name: str, claimed: float, scale: Scale) -> Printed:
    """Return the runs of a published method on a task."""
    relative, zero, plf, seconds = [], [], [], 0.0
    for seed in range(scale.published_repetitions):
        began = time.perf_counter()
        models, most = _course(task, name, claimed, scale, seed=seed, start=0.0)
        seconds = time.perf_counter() - began
        last, _ = _course(task, name, claimed, scale, seed=seed, start=1.0)
        looks = np.unique(np.linspace(0, len(models) - 1, POINTS).astype(int))
        relative.append(distances(task, models[looks]))
        zero.append(float(np.linalg.norm(last[-1])) / np.sqrt(last.shape[1]))
        plf.append(most)
    a_round = RECAL_HOP - 1 if name == RECAL_PRINTED else 2 * AGENTS
    messages = len(models) * (1 if name == RECAL_PRINTED else 2 * AGENTS)
    sent = (looks + 1) * a_round / 1000
    return Printed(sent, np.array(relative), np.array(zero), tuple(plf), messages, seconds)


def noise(name: str, bound: float, smoothness: float, claimed: float, plf: int) -> NoisedStep:
    """Return the setting with which a method charges itself `claimed` in all at `DELTA`.

    DP-RECAL by its Theorem 4 with c = `bound`. The gossip methods by the same theorem with the
    change of one step, 2 alpha c, in the place of its 4 alpha beta c, whose factor beta they do
    not have.
    """
    alpha = (1.8 if name == RECAL_PRINTED else 1.0) / (smoothness + 1)
    # 4 alpha beta c, 2 beta = 1 / (A + 1), against 2 alpha c
    factor = 1.0 if name == RECAL_PRINTED else AGENTS + 1.0

    def excess(log_scale: float) -> float:
        setting = NoisedStep(alpha, np.exp(log_scale), DECAY)
        return claimed_epsilon(setting, factor * bound, AGENTS, plf, DELTA) - claimed

    return NoisedStep(alpha, float(np.exp(brentq(excess, -30.0, 30.0))), DECAY)


def gradient_of(task: Task) -> Callable[[int, HostArray], HostArray]:
    """Return (agent, point) -> the exact gradient of f_i, by NumPy in single precision."""
    features, targets = (np.asarray(x) for x in (task.shards.stacked.features,
                                                 task.shards.stacked.targets))  # fmt: skip

    def gradient(agent: int, point: HostArray) -> HostArray:
        rows, y = features[agent], targets[agent]
        margins = rows @ point.astype(np.float32)
        slope = (
            margins - y
            if task.loss == "linear"
            else -y / (1 + np.exp(np.clip(y * margins, -80, 80)))
        )
        answer: HostArray = slope @ rows / len(y)
        return answer.astype(np.float64)

    return gradient


def elastic(weights: tuple[float, float], step: float, v: HostArray) -> HostArray:
    """Return the prox of step (l1 |x|_1 + l2/2 |x|^2), weights = (l1, l2)."""
    cut: HostArray = np.sign(v) * np.maximum(np.abs(v) - step * weights[0], 0)
    return cut / (1 + step * weights[1])


def _course(
    task: Task, name: str, claimed: float, scale: Scale, *, seed: int, start: float
) -> tuple[HostArray, int]:
    """Return the models `(T, D)` and the PLF: with the published weights if started at ones."""
    chosen = task.published if start else task.problem
    weights = (float(chosen.regulariser.l1), float(chosen.regulariser.l2))  # type: ignore[attr-defined]
    dimension = task.shards.dimension
    smoothness = chosen.loss.smoothness
    if name == RECAL_PRINTED:
        walk = uniform_walk(ring(AGENTS), scale.hops, seed=seed)
        plf = walk.privacy_leakage_frequency
        setting = noise(name, task.clip, smoothness, claimed, plf)
        links = dp_recal(
            gradient_of(task), partial(elastic, weights, AGENTS), walk, dimension, setting,
            variant="A", seed=seed, start=start,
        )  # fmt: skip
        return links.model[1:], plf
    rounds = scale.hops // AGENTS
    setting = noise(name, task.clip, smoothness, claimed, rounds)
    found = noisy_gossip(
        gradient_of(task), partial(elastic, weights, setting.alpha), metropolis(ring(AGENTS)),
        np.full(dimension, start), setting, method=_GOSSIP[name], rounds=rounds, seed=seed,
    )  # fmt: skip
    return found.models, rounds


ACTIVATIONS, LEAK_REPETITIONS = 12, 5


@dataclass(frozen=True, eq=False)
class Leak:
    """How far off the guesses are, by activation of the agent."""

    name: str
    budget: Budget
    visits: tuple[int, ...]
    errors: tuple[Measured, ...]


def leaks(features: Float[HostArray, "N D"], targets: Float[HostArray, " N"]) -> tuple[Leak, ...]:
    """Return the attack on RECAL without noise, DP-RECAL as published, and the sound form.

    Agent 0 of a ring has the first record; the loss is logistic, without a regulariser.
    """
    printed = [_printed_leak(features, targets, total) for total in (math.inf, EQUAL)]
    return (*printed, _sound_leak(features, targets))


def _printed_leak(features: HostArray, targets: HostArray, claimed: float) -> Leak:
    def gradient(agent: int, point: HostArray) -> HostArray:
        row, y = features[agent], targets[agent]
        slope: HostArray = -y * row / (1 + np.exp(y * (row @ point)))
        return slope

    errors = []
    for seed in range(LEAK_REPETITIONS):
        walk = uniform_walk(ring(AGENTS), 40 * ACTIVATIONS, seed=seed)
        noised = NoisedStep(1.0, 0.0, 1.0)
        if not math.isinf(claimed):
            noised = noise(RECAL_PRINTED, 1.0, 0.25, claimed, walk.privacy_leakage_frequency)
        links = dp_recal(
            gradient, lambda v: v, walk, features.shape[1], noised, variant="A", seed=seed
        )
        found = recover(links, walk, noised.alpha, unprox_none).gradients
        mine = found[np.flatnonzero(walk.holders == 0)[:ACTIVATIONS]]
        errors.append(_guess_errors(mine, features[0]))
    name = "RECAL, exact gradients" if math.isinf(claimed) else (
        f"{RECAL_PRINTED}, claims epsilon {claimed:g}"
    )  # fmt: skip
    return _leak(name, NO_NOISE, errors)


def _sound_leak(features: HostArray, targets: HostArray) -> Leak:
    """Return the same for noised gradients: the links tell the answers and no more."""
    problem = Problem(Logistic(), NoRegulariser(), WholeSpace())
    owners = [np.array([agent]) for agent in range(AGENTS)]
    shards = pack(
        features[:AGENTS], targets[:AGENTS], owners, record_norm=1.0, precision="float64",

    )  # fmt: skip
    errors = []
    for seed in range(LEAK_REPETITIONS):
        walk = uniform_walk(ring(AGENTS), 40 * ACTIVATIONS, seed=seed)
        made = plan(
            public_facts(problem, shards, clip=1.0), RECAL(problem),
            (Gradient(problem.loss, 1.0),), AT_TWELVE.terms, rounds=len(walk.holders),
            precision="float64", network=walk,
        )  # fmt: skip
        done = run(made, shards, runtime="simulate", seed=seed, keep=frozenset({"answers"}))
        hops = np.flatnonzero(walk.holders == 0)[:ACTIVATIONS]
        answers = np.asarray(done.trace.records.answer)[hops, 0, 0]
        errors.append(_guess_errors(answers, features[0]))
    return _leak("RECAL, noised gradients", AT_TWELVE, errors)


def _guess_errors(gradients: HostArray, record: HostArray) -> HostArray:
    """Return the error of +-g/|g| as a guess of the record, the better sign taken."""
    guesses = gradients / np.linalg.norm(gradients, axis=1, keepdims=True)
    truth = record / np.linalg.norm(record)
    both = [np.mean((sign * guesses - truth) ** 2, axis=1) for sign in (1, -1)]
    errors: HostArray = np.maximum(np.minimum(*both), 1e-33)
    return errors


def _leak(name: str, budget: Budget, errors: list[HostArray]) -> Leak:
    found = Measured.columns(np.array(errors))
    return Leak(name, budget, tuple(range(1, len(found) + 1)), found)
