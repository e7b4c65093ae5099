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
from taciturn.network import metropolis, spanning_tree
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
    Case,
    Printed,
    cases_of,
    printed,
)
from taciturn_papers.reproductions.wang2024.settings import NO_NOISE, Scale

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
    printed, cases
        The published methods by name, and their cases.
    """

    facts: Facts
    outcomes: dict[tuple[str, Budget], Outcome]
    printed: dict[str, Printed]
    cases: dict[str, tuple[Case, ...]]

    def case(self, name: str, case: Case) -> tuple[Printed, int]:
        """Return the runs of a published method, and the place of a case among them."""
        return self.printed[name], self.cases[name].index(case)


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
            return solved(task(name, loss, scale), scale)

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
    if "ijcnn1" not in scale.rival_sets or "linear" not in scale.losses:
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
    methods = METHODS if case[0] in scale.rival_sets else METHODS[:1]

    def facts() -> dict[str, HostArray]:
        one = get()
        wrong, norm = error_of(one, one.optimum), float(np.linalg.norm(one.optimum))
        labels = np.asarray(one.test.targets)
        return arrays_of(Facts(*case, one.shards.counts[0], norm, one.slope, wrong, labels))

    def whole(results: Results) -> Cell:
        outcomes = {
            (method, budget): record_of(Outcome, _under(results[*case, method], f"{place} "))
            for method in methods
            for place, budget in enumerate(_budgets(method, case[1], scale))
        }
        theirs = {name: record_of(Printed, results[*case, name]) for name in PRINTED}
        cases = {name: cases_of(name, scale) for name in PRINTED}
        return Cell(record_of(Facts, results[*case, "facts"]), outcomes, theirs, cases)

    where = ", ".join(case)
    portions = [
        Portion(f"{where}: {method}", (*case, method), partial(_outcomes, get, method, scale))
        for method in methods
    ]
    portions += [
        Portion(f"{where}: {name}", (*case, name), partial(_printed, get, name, scale))
        for name in PRINTED
    ]
    portions += [Portion(f"{where}: public facts", (*case, "facts"), facts)]
    return Work(tuple(portions), whole)


def _outcomes(get: Callable[[], Task], method: str, scale: Scale) -> dict[str, HostArray]:
    """Return what a method achieves under every budget."""
    one = get()
    found: dict[str, HostArray] = {}
    for place, budget in enumerate(_budgets(method, one.loss, scale)):
        reached = arrays_of(outcome(one, method, budget, scale))
        found |= {f"{place} {name}": values for name, values in reached.items()}
    return found


def _under(found: Arrays, prefix: str) -> dict[str, HostArray]:
    return {name.removeprefix(prefix): found[name] for name in found if name.startswith(prefix)}


def _printed(get: Callable[[], Task], name: str, scale: Scale) -> dict[str, HostArray]:
    return arrays_of(printed(get(), name, scale))


def _budgets(name: str, loss: str, scale: Scale) -> tuple[Budget, ...]:
    """Return the budgets of a method: the paper's, and for one loss those of our table."""
    paper = (*scale.paper_budgets, NO_NOISE) if name == "RECAL" else ()
    return (*paper, scale.at_equal, *(scale.our_budgets if loss == "logistic" else ()))


def _solved(name: str, one: Task, scale: Scale) -> dict[str, HostArray]:
    """Return what `Solved` holds; l2 only, as MR-ADMM."""
    problem = Problem(one.problem.loss, L2(scale.l2), WholeSpace())
    best = minimise(problem, one.shards, tol=scale.optimum_tol)
    reference = replace(one, problem=problem, optimum=np.asarray(best.w), value=best.value)
    algorithm, asked, network = _solving(name, problem, scale)
    made = plan(
        public_facts(problem, one.shards, clip=one.clip), algorithm,
        (ProximalStep(asked, one.clip, RHO, 1.0, EXACTNESS),), scale.at_equal.terms,
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


def _solving(name: str, problem: Problem, scale: Scale) -> tuple[Algorithm, Problem, Network]:
    """Return the method, the problem of its question, and where it runs."""
    if name == FIXED_POINT:  # the regulariser is the aggregator's
        alone = Problem(problem.loss, NoRegulariser(), WholeSpace())
        return FixedPointADMM(problem, RHO), alone, spanning_tree(scale.graph)
    gossip = (RecycledADMM if name == RECYCLED else GossipADMM)(problem, RHO)
    return gossip, problem, metropolis(scale.graph)
