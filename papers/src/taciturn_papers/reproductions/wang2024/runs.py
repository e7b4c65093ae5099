"""All runs of the reproduction on data sets, before anything is drawn of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from jaxtyping import Float

from taciturn.algorithms import Algorithm
from taciturn.engine import Network, plan, run, traffic_of
from taciturn.kernel.questions import ProximalStep
from taciturn.network import metropolis, ring, spanning_tree
from taciturn.problems import L2, NoRegulariser, Problem, WholeSpace, minimise, public_facts
from taciturn.typing import HostArray
from taciturn_papers.methods import FixedPointADMM, GossipADMM, RecycledADMM
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.portions import (
    Arrays,
    Portion,
    Results,
    Work,
    arrays_of,
    record_of,
    together,
)
from taciturn_papers.reproductions.wang2024.arms import (
    CENTRAL,
    METHODS,
    Outcome,
    Task,
    above,
    error_of,
    most_asked,
    outcome,
    solved,
    task,
)
from taciturn_papers.reproductions.wang2024.as_printed import (
    PRINTED,
    RECAL_PRINTED,
    Printed,
    printed,
)
from taciturn_papers.reproductions.wang2024.settings import (
    AGENTS,
    AT_TWELVE,
    BUDGETS,
    EQUAL,
    NO_NOISE,
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


Tasks = Callable[[str, str], Task]


def optima(scale: Scale) -> Work[Tasks]:
    """Return what gives every task with its optimum, by data set and loss."""
    cases = [(name, loss) for name in scale.sets for loss in scale.losses]

    def portion(name: str, loss: str) -> Portion:
        def compute() -> dict[str, HostArray]:
            return solved(task(name, loss, scale), scale.optimum_tol)

        return Portion(f"{name}, {loss}: optimum", (name, loss, "optimum"), compute)

    def whole(results: Results) -> Tasks:
        @lru_cache(maxsize=2)  # the portions of a task follow one another
        def with_optimum(name: str, loss: str) -> Task:
            return task(name, loss, scale, results[name, loss, "optimum"])

        return with_optimum

    return Work(tuple(portion(*case) for case in cases), whole)


def cells(tasks: Tasks, scale: Scale) -> Work[list[Cell]]:
    """Return everything of every task."""
    return together(
        [
            _cell(partial(tasks, name, loss), (name, loss), scale)
            for name in scale.sets
            for loss in scale.losses
        ]
    )


def exactly_solved(tasks: Tasks, scale: Scale) -> Work[dict[str, Solved]]:
    """Return the ADMM with exact steps on ijcnn1 by name; none where that is not run."""
    if "ijcnn1" not in scale.sets or "linear" not in scale.losses:
        return Work((), lambda _: {})
    names = (EXACT_ADMM, RECYCLED, FIXED_POINT)

    def portion(name: str) -> Portion:
        def compute() -> dict[str, HostArray]:
            return _solved(name, tasks("ijcnn1", "linear"), scale)

        return Portion(f"ijcnn1, linear: {name}", name, compute)

    def one(found: Arrays) -> Solved:
        asked, rounds, messages = found["counts"].tolist()
        gap, wrong = Measured.of(found["gaps"]), Measured.of(found["wrong"])
        return Solved(asked, rounds, messages, gap, wrong, float(found["seconds"]))

    return Work(
        tuple(map(portion, names)), lambda results: {name: one(results[name]) for name in names}
    )


def _cell(get: Callable[[], Task], case: tuple[str, str], scale: Scale) -> Work[Cell]:
    wanted = [*((method, EQUAL) for method in PRINTED), (RECAL_PRINTED, BUDGETS[-1])]

    def facts() -> dict[str, HostArray]:
        one = get()
        wrong, norm = error_of(one, one.optimum), float(np.linalg.norm(one.optimum))
        labels = np.asarray(one.test.targets)
        return arrays_of(Facts(*case, one.shards.counts[0], norm, one.slope, wrong, labels))

    def whole(results: Results) -> Cell:
        outcomes, at_zero = {}, {}
        for method in METHODS:
            found = results[*case, method]
            for place, budget in enumerate(_budgets(method, case[1])):
                outcomes[method, budget] = record_of(Outcome, _under(found, f"{place} "))
            if method != CENTRAL:
                at_zero[method] = float(found[_AT_ZERO])
        theirs = {key: record_of(Printed, results[*case, *key]) for key in wanted}
        return Cell(record_of(Facts, results[*case, "facts"]), outcomes, at_zero, theirs)

    where = ", ".join(case)
    portions = [
        Portion(f"{where}: {method}", (*case, method), partial(_outcomes, get, method, scale))
        for method in METHODS
    ]
    portions += [
        Portion(
            f"{where}: {key[0]} as published, claims epsilon {key[1]:g}",
            (*case, *key),
            partial(_printed, get, *key, scale),
        )
        for key in wanted
    ]
    portions += [Portion(f"{where}: public facts", (*case, "facts"), facts)]
    return Work(tuple(portions), whole)


_AT_ZERO = "|x| with the published weights"


def _outcomes(get: Callable[[], Task], method: str, scale: Scale) -> dict[str, HostArray]:
    """Return what a method achieves under every budget, and |x| with the published weights."""
    one = get()
    found: dict[str, HostArray] = {}
    for place, budget in enumerate(_budgets(method, one.loss)):
        reached = arrays_of(outcome(one, one.problem, method, budget, scale))
        found |= {f"{place} {name}": values for name, values in reached.items()}
    if method != CENTRAL:
        once = replace(scale, repetitions=1)
        found[_AT_ZERO] = outcome(one, one.published, method, AT_TWELVE, once).norms[0]
    return found


def _under(found: Arrays, prefix: str) -> dict[str, HostArray]:
    return {name.removeprefix(prefix): found[name] for name in found if name.startswith(prefix)}


def _printed(
    get: Callable[[], Task], method: str, claimed: float, scale: Scale
) -> dict[str, HostArray]:
    return arrays_of(printed(get(), method, claimed, scale))


def _budgets(name: str, loss: str) -> tuple[Budget, ...]:
    """Return the budgets of a method: the paper's, and for one loss those of our table."""
    paper = (*paper_budgets(), NO_NOISE) if name == "RECAL" else ()
    return (*paper, AT_TWELVE, *(our_budgets() if loss == "logistic" else ()))


def _solved(name: str, one: Task, scale: Scale) -> dict[str, HostArray]:
    """Return what `Solved` holds; l2 only, as MR-ADMM."""
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
    counts = (most_asked(made), scale.solver_rounds, traffic_of(made.program).messages)
    return {
        "counts": np.array(counts),
        "gaps": np.array(gaps),
        "wrong": np.array(wrong),
        "seconds": np.array(seconds),
    }


def _solving(name: str, problem: Problem) -> tuple[Algorithm, Problem, Network]:
    """Return the method, the problem of its question, and where it runs."""
    if name == FIXED_POINT:  # the regulariser is the aggregator's
        alone = Problem(problem.loss, NoRegulariser(), WholeSpace())
        return FixedPointADMM(problem, RHO), alone, spanning_tree(ring(AGENTS))
    gossip = (RecycledADMM if name == RECYCLED else GossipADMM)(problem, RHO)
    return gossip, problem, metropolis(ring(AGENTS))
