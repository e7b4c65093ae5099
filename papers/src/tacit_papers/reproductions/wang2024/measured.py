"""All runs of the reproduction, before anything is drawn of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tacit.algorithms import Algorithm, GossipADMM, RecycledADMM
from tacit.engine import plan, run
from tacit.network import metropolis, ring
from tacit.oracles import ProximalStep
from tacit.problems import L2, Problem, WholeSpace, minimise, public_facts
from tacit_papers.reproductions.figure import Measured
from tacit_papers.reproductions.wang2024.methods import CENTRAL, METHODS
from tacit_papers.reproductions.wang2024.published import PRINTED, RECAL_PRINTED, Printed, printed
from tacit_papers.reproductions.wang2024.settings import (
    AGENTS,
    AT_TWELVE,
    BUDGETS,
    EQUAL,
    NO_NOISE,
    OUR_DELTA,
    OUR_TOTALS,
    OURS,
    Scale,
    Setting,
)
from tacit_papers.reproductions.wang2024.tasks import Task, above, error_of, task
from tacit_papers.reproductions.wang2024.trial import Outcome, most_asked, trial

Report = Callable[[str], None]
RHO, EXACTNESS = 0.5, 1e-3
EXACT_ADMM, RECYCLED = "gossip ADMM, exact steps (PVP)", "R-ADMM (MR-ADMM's rounds)"


@dataclass(frozen=True, eq=False)
class Facts:
    """What is public or an oracle metric of a task, without its records."""

    name: str
    loss: str
    agents_records: int
    norm: float
    slope: float
    optimum_error: float


@dataclass(frozen=True, eq=False)
class Cell:
    """Everything of one task.

    Attributes
    ----------
    outcomes
        By method and setting, with the weights whose optimum is not 0.
    at_zero
        |x| at the end with the published weights at epsilon 12, by method.
    printed
        The published methods, by name and claimed epsilon.
    """

    facts: Facts
    outcomes: dict[tuple[str, Setting], Outcome]
    at_zero: dict[str, float]
    printed: dict[tuple[str, float], Printed]


@dataclass(frozen=True)
class Solved:
    """Gossip ADMM with exact steps: answers of the agent asked most, errors, seconds."""

    asked: int
    rounds: int
    gap: Measured
    wrong: Measured
    seconds: float


def totals() -> tuple[Setting, ...]:
    """Return the settings of the table that we add."""
    return tuple(Setting(total, OUR_DELTA) for total in OUR_TOTALS)


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
                solved = {key: _solved(key, one, scale) for key in (EXACT_ADMM, RECYCLED)}
    return cells, solved


def _cell(one: Task, scale: Scale, report: Report) -> Cell:
    outcomes, at_zero = {}, {}
    for name in METHODS:
        report(f"{one.name}, {one.loss}: {name}")
        for setting in _settings(name, one.loss):
            outcomes[name, setting] = trial(one, one.problem, name, setting, scale)
        if name != CENTRAL:
            once = replace(scale, repetitions=1)
            at_zero[name] = float(trial(one, one.published, name, AT_TWELVE, once).norms[0])
    report(f"{one.name}, {one.loss}: as published")
    wanted = [(name, EQUAL) for name in PRINTED] + [(RECAL_PRINTED, BUDGETS[-1])]
    theirs = {(name, total): printed(one, name, total, scale) for name, total in wanted}
    wrong = error_of(one, one.optimum)
    facts = Facts(
        one.name, one.loss, one.shards.counts[0], float(np.linalg.norm(one.optimum)), one.slope,
        wrong,
    )  # fmt: skip
    return Cell(facts, outcomes, at_zero, theirs)


def _settings(name: str, loss: str) -> tuple[Setting, ...]:
    """Return the budgets of a method: the paper's, and for one loss those of our table."""
    paper = (*map(Setting, BUDGETS), NO_NOISE) if name == "RECAL" else ()
    return (*paper, AT_TWELVE, *(totals() if loss == "logistic" else ()))


def _solved(name: str, one: Task, scale: Scale) -> Solved:
    """Return ADMM by gossip whose agents solve a problem when asked; l2 only, as MR-ADMM."""
    problem = Problem(one.problem.loss, L2(OURS[1]), WholeSpace())
    algorithm: Algorithm = (RecycledADMM if name == RECYCLED else GossipADMM)(problem, RHO)
    best = minimise(problem, one.shards, tol=scale.optimum_tol)
    reference = replace(one, problem=problem, optimum=np.asarray(best.w), value=best.value)
    made = plan(
        public_facts(problem, one.shards, clip=one.clip), algorithm,
        (ProximalStep(problem, one.clip, RHO, 1.0, EXACTNESS),), AT_TWELVE.terms,
        rounds=scale.solver_rounds, precision="float32", network=metropolis(ring(AGENTS)),
    )  # fmt: skip
    gaps, wrong, seconds = [], [], 0.0
    for seed in range(scale.repetitions):
        began = time.perf_counter()
        model = run(made, one.shards, runtime="simulate", seed=seed).model
        seconds = time.perf_counter() - began
        gaps.append(above(reference, problem, model))
        wrong.append(error_of(one, model))
    return Solved(
        most_asked(made), scale.solver_rounds, Measured.of(gaps), Measured.of(wrong), seconds
    )
