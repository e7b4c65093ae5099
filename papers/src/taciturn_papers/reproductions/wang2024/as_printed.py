"""The methods as the paper has them, noise on messages and state kept exact: runs, and Figure 9."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from taciturn.algorithms import RECAL
from taciturn.engine import plan, run
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import pack
from taciturn.network import metropolis
from taciturn.problems import Logistic, NoRegulariser, Problem, WholeSpace, public_facts
from taciturn.typing import HostArray
from taciturn_papers.as_published import (
    GossipMethod,
    NoisedStep,
    claimed_epsilon,
    dp_recal,
    gossip_rounds,
    hops,
    recover,
    unprox_elastic,
    unprox_none,
)
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.wang2024.arms import POINTS, RECAL_HOP, Task
from taciturn_papers.reproductions.wang2024.settings import NO_NOISE, Bound, Scale

RECAL_PRINTED, EXTRA_PRINTED, NIDS_PRINTED = (
    "DP-RECAL as published", "DP-EXTRA as published", "DP-NIDS as published"
)  # fmt: skip
_GOSSIP: dict[str, GossipMethod] = {EXTRA_PRINTED: "extra", NIDS_PRINTED: "nids"}
PRINTED = (RECAL_PRINTED, EXTRA_PRINTED, NIDS_PRINTED)
Weights = Literal["ours", "paper"]
WEIGHTS: tuple[Weights, Weights] = ("ours", "paper")
NEAR = 1e-3  # the relative error below which a run has settled


@dataclass(frozen=True)
class Case:
    """One run of a published method: its weights, what it claims, and readings of c and R."""

    weights: Weights
    claimed: float
    bound: Bound
    decay: float


def cases_of(name: str, scale: Scale) -> tuple[Case, ...]:
    """Return the runs of a published method that share walks and noise."""
    bound, decay = scale.bounds[0], scale.decays[0]
    totals = (*scale.budgets, math.inf) if name == RECAL_PRINTED else (math.inf,)
    found = [Case(w, total, bound, decay) for w in WEIGHTS for total in totals]
    found += [Case(w, scale.equal, c, decay) for w in WEIGHTS for c in scale.bounds]
    if name == RECAL_PRINTED:
        found += [Case("paper", scale.equal, *each) for each in product(scale.bounds, scale.decays)]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, eq=False)
class Printed:
    """What a published method reaches in its cases, over R repetitions.

    Attributes
    ----------
    sent
        `(K,)`: thousands of vectors sent at the K looks.
    relative
        `(R, C, K)`: |x - x*| / |x^1 - x*|, started at 0, or at ones where 0 is the optimum.
    settled
        `(R, C)`: hops or rounds after which that stays below `NEAR`; one more than there are if it
        never does.
    seconds
        Of one run: the share of one of the runs computed together.
    """

    sent: Float[HostArray, " K"]
    relative: Float[HostArray, "R C K"]
    settled: Float[HostArray, "R C"]
    plf: tuple[int, ...]
    messages: int
    seconds: float

    def course(self, place: int) -> tuple[Measured, ...]:
        """Return the relative error of a case at every look."""
        return Measured.columns(self.relative[:, place])

    def last(self, place: int) -> Measured:
        """Return its relative error at the end."""
        return Measured.of(self.relative[:, place, -1])


def printed(task: Task, name: str, scale: Scale) -> Printed:
    """Return the runs of a published method on a task; repetition r draws walk and noise from r."""
    cases = cases_of(name, scale)
    relative, settled, plf = [], [], []
    began = time.perf_counter()
    for seed in range(scale.published_repetitions):
        course, most = _course(task, name, scale, seed)
        looks = np.unique(np.linspace(0, len(course) - 1, POINTS).astype(int))
        relative.append(course[looks].T)
        settled.append(_settled(course))
        plf.append(most)
    edges = len(scale.graph.edges)
    a_round = RECAL_HOP - 1 if name == RECAL_PRINTED else 2 * edges
    return Printed(
        sent=(looks + 1) * a_round / 1000,
        relative=np.array(relative),
        settled=np.array(settled),
        plf=tuple(plf),
        messages=len(course) * (1 if name == RECAL_PRINTED else 2 * edges),
        seconds=(time.perf_counter() - began) / scale.published_repetitions / len(cases),
    )


def _settled(course: Float[HostArray, "T C"]) -> Float[HostArray, " C"]:
    far = course >= NEAR
    last: HostArray = len(course) - np.argmax(far[::-1], axis=0)
    return np.where(far.any(axis=0), last + 1.0, 1.0)


def bound_of(task: Task, reading: Bound) -> float:
    """Return c of Assumption 3, the bound of every |grad f_i|, by a reading.

    "largest": of any record whose row has norm at most 1; "ones" and "zero": the largest of any
    agent at that point, which is not public.
    """
    if reading == "largest":
        return task.clip
    point = np.full(task.shards.dimension, 1.0 if reading == "ones" else 0.0)
    gradient = gradient_of(task)
    agents = range(len(task.shards.counts))
    return max(float(np.linalg.norm(gradient(agent, point))) for agent in agents)


def alpha_of(task: Task, name: str, scale: Scale) -> float | tuple[float, ...]:
    """Return the published step sizes: of all agents, or of each by the L_i of its records."""
    largest = float(task.problem.loss.smoothness)
    if name != RECAL_PRINTED:
        return 1.0 / (largest + 1)
    if scale.steps == "common":
        return scale.alpha / (largest + 1)
    rows = np.asarray(task.shards.stacked.features, float)
    return tuple(scale.alpha / (largest * _curvature(each) + 1) for each in rows)


def _curvature(rows: Float[HostArray, "M D"]) -> float:
    """Return the largest eigenvalue of B'B / M."""
    small = rows.T @ rows if rows.shape[1] < rows.shape[0] else rows @ rows.T
    return float(np.linalg.eigvalsh(small)[-1]) / len(rows)


def noise(
    name: str, alpha: float | tuple[float, ...], bound: float, case: Case, plf: int, scale: Scale
) -> NoisedStep:
    """Return the setting with which a method charges itself `case.claimed`; infinite: no noise.

    DP-RECAL by its Theorem 4 with c = `bound`. The gossip methods by the same theorem with the
    change of one step, 2 alpha c, in the place of its 4 alpha beta c, whose factor beta they do
    not have.
    """
    if math.isinf(case.claimed):
        return NoisedStep(alpha, 0.0, case.decay, scale.gamma)
    # 4 alpha beta c, 2 beta = 1 / (A + 1), against 2 alpha c
    factor = 1.0 if name == RECAL_PRINTED else scale.agents + 1.0

    def setting(log_scale: float) -> NoisedStep:
        return NoisedStep(alpha, float(np.exp(log_scale)), case.decay, scale.gamma)

    def excess(log_scale: float) -> float:
        each = setting(log_scale)
        return claimed_epsilon(each, factor * bound, scale.agents, plf, scale.delta) - case.claimed

    return setting(brentq(excess, -60.0, 200.0))


def gradient_of(task: Task) -> Callable[[int, HostArray], HostArray]:
    """Return (agent, points) -> exact gradients of f_i, by NumPy in single precision."""
    features, targets = (np.asarray(x) for x in (task.shards.stacked.features,
                                                 task.shards.stacked.targets))  # fmt: skip

    def gradient(agent: int, point: HostArray) -> HostArray:
        rows, y = features[agent], targets[agent]
        margins = point.astype(np.float32) @ rows.T
        slope = (
            margins - y
            if task.loss == "linear"
            else -y / (1 + np.exp(np.clip(y * margins, -80, 80)))
        )
        answer: HostArray = slope @ rows / len(y)
        return answer.astype(np.float64)

    return gradient


def elastic(
    weights: tuple[float | HostArray, float | HostArray], v: HostArray, step: float | HostArray
) -> HostArray:
    """Return the prox of step (l1 |x|_1 + l2/2 |x|^2), weights = (l1, l2)."""
    cut: HostArray = np.sign(v) * np.maximum(np.abs(v) - step * weights[0], 0)
    return cut / (1 + step * weights[1])


def _course(task: Task, name: str, scale: Scale, seed: int) -> tuple[HostArray, int]:
    """Return the relative errors of all cases after every hop or round, `(T, C)`, and the PLF."""
    cases = cases_of(name, scale)
    ours = (scale.l1, scale.l2)
    chosen = [ours if c.weights == "ours" else (scale.paper_l1, scale.paper_l2) for c in cases]
    first, second = np.array(chosen).T[:, :, None]
    truths = np.array(
        [task.optimum if c.weights == "ours" else task.published_optimum for c in cases], float
    )
    start = np.where(truths.any(axis=1, keepdims=True), 0.0, np.ones_like(truths))
    apart = np.linalg.norm(start - truths, axis=1)
    models, plf = _models(task, name, scale, seed, start, (first, second))
    course = [np.linalg.norm(model - truths, axis=1) / apart for model in models]
    return np.array(course), plf


def _models(
    task: Task, name: str, scale: Scale, seed: int, start: HostArray,
    weights: tuple[HostArray, HostArray],
) -> tuple[Iterator[HostArray], int]:  # fmt: skip
    alpha, cases = alpha_of(task, name, scale), cases_of(name, scale)
    bounds = {reading: bound_of(task, reading) for reading in scale.bounds}

    def settings(plf: int) -> list[NoisedStep]:
        return [noise(name, alpha, bounds[c.bound], c, plf, scale) for c in cases]

    if name == RECAL_PRINTED:
        walk = scale.walk_of(scale.hops, seed)
        plf = walk.privacy_leakage_frequency
        noised = settings(plf)
        prox = partial(elastic, weights, step=scale.agents)
        steps, scales = (_columns(each) for each in (
            [one.steps(walk) for one in noised], [one.scales(walk.visits) for one in noised]
        ))  # fmt: skip
        made = hops(
            gradient_of(task), prox, walk, start, steps, scales, variant=scale.variant, seed=seed
        )
        return (hop.model for hop in made), plf
    rounds = scale.hops // scale.agents
    noised, times = settings(rounds), np.arange(rounds)
    steps = _columns([one.largest_alpha * one.gamma**times for one in noised])
    scales = _columns([one.scales(times) for one in noised])
    sent = gossip_rounds(
        gradient_of(task), partial(elastic, weights), metropolis(scale.graph), start, steps, scales,
        method=_GOSSIP[name], seed=seed,
    )  # fmt: skip
    return (each.model for each in sent), rounds


def _columns(of_cases: list[HostArray]) -> Float[HostArray, "T C 1"]:
    return np.stack(of_cases, axis=1)[:, :, None]


ACTIVATIONS, LEAK_REPETITIONS = 12, 5
LEAK_HOPS = 40 * ACTIVATIONS
PAPERS_WEIGHTS = "the paper's weights"
NO_REGULARISER = "no regulariser"


@dataclass(frozen=True, eq=False)
class Leak:
    """How far off the guesses are, by activation of the agent.

    Attributes
    ----------
    read
        Share of the coordinates of gradients that the links determine.
    """

    name: str
    budget: Budget
    visits: tuple[int, ...]
    errors: tuple[Measured, ...]
    read: Measured


def leaks(
    features: Float[HostArray, "N D"], targets: Float[HostArray, " N"], scale: Scale
) -> tuple[Leak, ...]:
    """Return the attack on RECAL without noise, DP-RECAL as published (twice), and the sound form.

    Agent 0 of a network has the first record; the loss is logistic, without a regulariser, and
    once with the paper's weights.
    """
    exact, published, weighted = (
        _printed_leak(features, targets, scale, claimed=total, weighted=weights)
        for total, weights in ((math.inf, False), (scale.equal, False), (scale.equal, True))
    )
    return exact, published, weighted, _sound_leak(features, targets, scale)


def _printed_leak(
    features: HostArray, targets: HostArray, scale: Scale, *, claimed: float, weighted: bool
) -> Leak:
    def gradient(agent: int, point: HostArray) -> HostArray:
        row, y = features[agent], targets[agent]
        slope: HostArray = -y * row / (1 + np.exp(y * (row @ point)))
        return slope

    weights = (scale.paper_l1, scale.paper_l2) if weighted else (0.0, 0.0)
    ridge, lasso = scale.agents * weights[1], scale.agents * weights[0]
    unprox = unprox_elastic(ridge, lasso) if weighted else unprox_none
    prox = partial(elastic, weights, step=scale.agents)
    errors, read = [], []
    for seed in range(LEAK_REPETITIONS):
        walk = scale.walk_of(LEAK_HOPS, seed)
        plf = walk.privacy_leakage_frequency
        alpha = scale.alpha / (0.25 + 1)
        case = Case("ours", claimed, "largest", scale.decays[0])
        noised = noise(RECAL_PRINTED, alpha, 1.0, case, plf, scale)
        links = dp_recal(
            gradient, prox, walk, features.shape[1], noised, variant=scale.variant, seed=seed,
            start=1.0 if weighted else 0.0,
        )  # fmt: skip
        found = recover(links, walk, noised.steps(walk), unprox)
        mine = np.flatnonzero(walk.holders == 0)
        seen = np.where(np.isnan(found.gradients), found.differences, found.gradients)[mine]
        errors.append(_guess_errors(seen[:ACTIVATIONS], features[0]))
        read.append(float(np.mean(np.isfinite(found.gradients[mine[:-1]]))))
    total = "RECAL, exact gradients" if math.isinf(claimed) else (
        f"{RECAL_PRINTED}, claims epsilon {claimed:g}"
    )  # fmt: skip
    name = f"{total}, {PAPERS_WEIGHTS}" if weighted else total
    return _leak(name, NO_NOISE, errors, read)


def _sound_leak(features: HostArray, targets: HostArray, scale: Scale) -> Leak:
    """Return the same for noised gradients: the links tell the answers and no more."""
    problem = Problem(Logistic(), NoRegulariser(), WholeSpace())
    owners = [np.array([agent]) for agent in range(scale.agents)]
    shards = pack(
        features[: scale.agents], targets[: scale.agents], owners, record_norm=1.0,
        precision="float64",
    )  # fmt: skip
    errors = []
    for seed in range(LEAK_REPETITIONS):
        walk = scale.walk_of(LEAK_HOPS, seed)
        made = plan(
            public_facts(problem, shards, clip=1.0), RECAL(problem),
            (Gradient(problem.loss, 1.0),), scale.at_equal.terms, rounds=len(walk.holders),
            precision="float64", network=walk,
        )  # fmt: skip
        done = run(made, shards, runtime="simulate", seed=seed, keep=frozenset({"answers"}))
        mine = np.flatnonzero(walk.holders == 0)[:ACTIVATIONS]
        answers = np.asarray(done.trace.records.answer)[mine, 0, 0]
        errors.append(_guess_errors(answers, features[0]))
    return _leak("RECAL, noised gradients", scale.at_equal, errors, [0.0] * LEAK_REPETITIONS)


def _guess_errors(gradients: HostArray, record: HostArray) -> HostArray:
    """Return the error of +-g/|g| as a guess of the record, the better sign taken.

    What is not known of g counts as 0.
    """
    known = np.nan_to_num(gradients)
    guesses = known / np.maximum(np.linalg.norm(known, axis=1, keepdims=True), 1e-300)
    truth = record / np.linalg.norm(record)
    both = [np.mean((sign * guesses - truth) ** 2, axis=1) for sign in (1, -1)]
    errors: HostArray = np.maximum(np.minimum(*both), 1e-33)
    return errors


def _leak(name: str, budget: Budget, errors: list[HostArray], read: list[float]) -> Leak:
    found = Measured.columns(np.array(errors))
    visits = tuple(range(1, len(found) + 1))
    return Leak(name, budget, visits, found, Measured.of(read))
