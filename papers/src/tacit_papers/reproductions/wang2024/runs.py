"""All runs of the reproduction, before anything is drawn of them; the costs of Tables I to III."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from tacit.algorithms import Algorithm
from tacit.engine import Network, plan, run, traffic_of
from tacit.network import (
    Graph,
    complete,
    erdos_renyi,
    metropolis,
    ring,
    spanning_tree,
    uniform_walk,
)
from tacit.oracles import Gradient, ProximalStep
from tacit.privacy import epsilon_of
from tacit.problems import (
    L2,
    NoRegulariser,
    Problem,
    Shards,
    Squared,
    WholeSpace,
    minimise,
    pack,
    public_facts,
)
from tacit.typing import HostArray
from tacit_papers.methods import FixedPointADMM, GossipADMM, RecycledADMM
from tacit_papers.reproductions.figure import Budget, Measured
from tacit_papers.reproductions.reproduction import Report
from tacit_papers.reproductions.wang2024.arms import (
    CENTRAL,
    METHODS,
    Outcome,
    Task,
    above,
    error_of,
    most_asked,
    outcome,
    task,
)
from tacit_papers.reproductions.wang2024.as_printed import PRINTED, RECAL_PRINTED, Printed, printed
from tacit_papers.reproductions.wang2024.settings import (
    AGENTS,
    AT_TWELVE,
    BUDGETS,
    EQUAL,
    NO_NOISE,
    OUR_DELTA,
    OURS,
    Scale,
    our_budgets,
    paper_budgets,
)

RHO, EXACTNESS = 0.5, 1e-3
EXACT_ADMM, RECYCLED = "gossip ADMM, exact steps (PVP)", "R-ADMM (MR-ADMM's rounds)"
FIXED_POINT = "ADMM as a noisy fixed-point iteration, tree"


@dataclass(frozen=True, eq=False)
class Facts:
    """What is public or an oracle metric of a task, without its training records.

    Attributes
    ----------
    labels
        Of the published test records.
    """

    name: str
    loss: str
    agents_records: int
    norm: float
    slope: float
    optimum_error: float
    labels: Float[HostArray, " N"]


@dataclass(frozen=True, eq=False)
class Cell:
    """Everything of one task.

    Attributes
    ----------
    outcomes
        By method and budget, with the weights whose optimum is not 0.
    at_zero
        |x| at the end with the published weights at epsilon 12, by method.
    printed
        The published methods, by name and claimed epsilon.
    """

    facts: Facts
    outcomes: dict[tuple[str, Budget], Outcome]
    at_zero: dict[str, float]
    printed: dict[tuple[str, float], Printed]


@dataclass(frozen=True)
class Solved:
    """ADMM with exact steps: answers of the agent asked most, what it sent, errors, seconds."""

    asked: int
    rounds: int
    messages: int
    gap: Measured
    wrong: Measured
    seconds: float


def measured(scale: Scale, report: Report) -> tuple[list[Cell], dict[str, Solved]]:
    """Return the cells, and the ADMM with exact steps on ijcnn1 by name."""
    cells, solved = [], {}
    for name in scale.sets:
        for loss in scale.losses:
            report(f"{name}, {loss}: records and optimum")
            one = task(name, loss, scale)
            cells.append(_cell(one, scale, report))
            if name == "ijcnn1" and loss == "linear":
                report(f"{name}, {loss}: ADMM with exact steps")
                names = (EXACT_ADMM, RECYCLED, FIXED_POINT)
                solved = {key: _solved(key, one, scale) for key in names}
    return cells, solved


def _cell(one: Task, scale: Scale, report: Report) -> Cell:
    outcomes, at_zero = {}, {}
    for name in METHODS:
        report(f"{one.name}, {one.loss}: {name}")
        for budget in _budgets(name, one.loss):
            outcomes[name, budget] = outcome(one, one.problem, name, budget, scale)
        if name != CENTRAL:
            once = replace(scale, repetitions=1)
            at_zero[name] = float(outcome(one, one.published, name, AT_TWELVE, once).norms[0])
    report(f"{one.name}, {one.loss}: as published")
    wanted = [(name, EQUAL) for name in PRINTED] + [(RECAL_PRINTED, BUDGETS[-1])]
    theirs = {(name, total): printed(one, name, total, scale) for name, total in wanted}
    wrong = error_of(one, one.optimum)
    facts = Facts(
        one.name, one.loss, one.shards.counts[0], float(np.linalg.norm(one.optimum)), one.slope,
        wrong, np.asarray(one.test.targets),
    )  # fmt: skip
    return Cell(facts, outcomes, at_zero, theirs)


def _budgets(name: str, loss: str) -> tuple[Budget, ...]:
    """Return the budgets of a method: the paper's, and for one loss those of our table."""
    paper = (*paper_budgets(), NO_NOISE) if name == "RECAL" else ()
    return (*paper, AT_TWELVE, *(our_budgets() if loss == "logistic" else ()))


def _solved(name: str, one: Task, scale: Scale) -> Solved:
    """Return ADMM whose agents solve a problem when asked; l2 only, as MR-ADMM."""
    problem = Problem(one.problem.loss, L2(OURS[1]), WholeSpace())
    best = minimise(problem, one.shards, tol=scale.optimum_tol)
    reference = replace(one, problem=problem, optimum=np.asarray(best.w), value=best.value)
    algorithm, asked, network = _solving(name, problem)
    made = plan(
        public_facts(problem, one.shards, clip=one.clip), algorithm,
        (ProximalStep(asked, one.clip, RHO, 1.0, EXACTNESS),), AT_TWELVE.terms,
        rounds=scale.solver_rounds, precision="float32", network=network,
    )  # fmt: skip
    gaps, wrong, seconds = [], [], 0.0
    for seed in range(scale.repetitions):
        began = time.perf_counter()
        model = run(made, one.shards, runtime="simulate", seed=seed).model
        seconds = time.perf_counter() - began
        gaps.append(above(reference, problem, model))
        wrong.append(error_of(one, model))
    messages = traffic_of(made.program).messages
    return Solved(
        most_asked(made), scale.solver_rounds, messages, Measured.of(gaps), Measured.of(wrong),
        seconds,
    )  # fmt: skip


def _solving(name: str, problem: Problem) -> tuple[Algorithm, Problem, Network]:
    """Return the method, the problem of its question, and where it runs."""
    if name == FIXED_POINT:  # the regulariser is the aggregator's
        alone = Problem(problem.loss, NoRegulariser(), WholeSpace())
        return FixedPointADMM(problem, RHO), alone, spanning_tree(ring(AGENTS))
    gossip = (RecycledADMM if name == RECYCLED else GossipADMM)(problem, RHO)
    return gossip, problem, metropolis(ring(AGENTS))


RECORDS, FEATURES, CLOSE = 20, 5, 1e-2
MU = 0.1  # what one answer is taken to cost in the column of spending
GRAPHS: Mapping[str, Callable[[int], Graph]] = MappingProxyType(
    {
        "complete": complete,
        "ring": ring,
        "random": lambda agents: erdos_renyi(agents, 0.4, seed=0),
    }
)
_WALKS = ("RECAL", "RWADMM (reconstructed)")
COMPARED = (*_WALKS, "NIDS", "PG-EXTRA", "gossip ADMM (IC-ADMM)")
_VECTORS = {"RECAL": 3, "RWADMM (reconstructed)": 2, "NIDS": 2, "PG-EXTRA": 2}
LEAST_SQUARES = Problem(Squared(), NoRegulariser(), WholeSpace())


@dataclass(frozen=True)
class Cost:
    """What it took; all NaN if the run was given up.

    Attributes
    ----------
    gradients
        All agents together (the tables' computation).
    plf
        Of the agent asked most.
    messages, bytes
        In double precision.
    epsilon
        Of that agent at `OUR_DELTA`, if every answer were `MU`-GDP.
    """

    gradients: float
    plf: float
    messages: float
    bytes: float
    epsilon: float


def cost(name: str, graph: Graph, most_rounds: int) -> Cost:
    """Return the cost of a method on least squares (17), without noise."""
    shards = least_squares(graph.agents)
    walks = name in _WALKS
    rounds = 10 * most_rounds if walks else most_rounds
    network = uniform_walk(graph, rounds, seed=0) if walks else metropolis(graph)
    algorithm: Algorithm = METHODS[name].algorithm(LEAST_SQUARES)
    made = plan(
        public_facts(LEAST_SQUARES, shards, clip=np.inf), algorithm,
        (Gradient(LEAST_SQUARES.loss, np.inf),),
        NO_NOISE.terms, rounds=rounds, precision="float64", network=network,
    )  # fmt: skip
    done = run(made, shards, runtime="simulate", keep=frozenset({"models"}))
    took = hit(
        np.asarray(done.trace.models), np.asarray(minimise(LEAST_SQUARES, shards, tol=1e-10).w)
    )
    if took is None:
        return Cost(*[np.nan] * 5)
    per_agent = np.sum(made.ledger.asked[:, :took], axis=(1, 2))
    if walks and name != "RECAL":
        messages = 2 * int(np.sum(graph.degrees * per_agent))
    else:
        messages = took if walks else 2 * len(graph.edges) * took
    plf = int(np.max(per_agent))
    size = messages * _VECTORS.get(name, 1) * 8 * FEATURES
    spent = float(epsilon_of(OUR_DELTA, MU * np.sqrt(plf)))
    return Cost(float(np.sum(per_agent)), plf, messages, size, spent)


def hit(models: Float[HostArray, "T D"], truth: Float[HostArray, " D"]) -> int | None:
    """Return the number of rounds after which the relative error stays below `CLOSE`.

    Examples
    --------
    >>> hit(np.array([[0.0], [0.999], [0.5], [1.001], [1.0]]), np.ones(1))
    4
    """
    apart = np.linalg.norm(models - truth, axis=1) / np.linalg.norm(truth)
    far = np.flatnonzero(apart > CLOSE)
    first = int(far[-1]) + 2 if far.size else 1
    return first if first <= len(models) else None


def least_squares(agents: int) -> Shards:
    """Return `RECORDS` rows of norm at most 1 per agent, on one noisy linear model."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((agents * RECORDS, FEATURES))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    y = x @ draw.standard_normal(FEATURES) + 0.1 * draw.standard_normal(len(x))
    owners = np.split(np.arange(len(x)), agents)
    return pack(x, y, owners, record_norm=1.0, precision="float64", enforce="clip")


Scaling = dict[tuple[str, str, int], Cost]


def scaling(scale: Scale, report: Callable[[str], None]) -> Scaling:
    """Return the costs by graph, method and number of agents."""
    found: Scaling = {}
    for kind, made in GRAPHS.items():
        for name in COMPARED:
            report(f"Tables I to III: {kind}, {name}")
            for agents in scale.sizes:
                found[kind, name, agents] = cost(name, made(agents), scale.most_rounds)
    return found


def power_of(costs: Scaling, kind: str, name: str, sizes: tuple[int, ...], what: str) -> float:
    """Return p of the fit cost ~ agents^p; NaN if fewer than two runs came to an end."""
    values = np.array([getattr(costs[kind, name, n], what) for n in sizes])
    known = np.isfinite(values)
    if np.sum(known) < 2:
        return float("nan")
    logs = np.log(np.array(sizes)[known]), np.log(values[known])
    return float(np.polyfit(*logs, 1)[0])
