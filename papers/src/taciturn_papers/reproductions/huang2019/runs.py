"""All runs of the reproduction, before anything is drawn of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.engine import Plan, records_for_door, reproduction, simulate
from taciturn.errors import InputError
from taciturn.problems import Problem, minimise
from taciturn.typing import HostArray
from taciturn_papers.reproductions.arms import Arm
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.huang2019 import arms
from taciturn_papers.reproductions.huang2019.arms import (
    DP_ADMM,
    DVP,
    EXACT,
    OURS,
    PUBLIC,
    PVP,
    Outcome,
    Records,
    errors,
    losses,
)
from taciturn_papers.reproductions.huang2019.settings import (
    NO_NOISE,
    Kind,
    Scale,
    all_budgets,
    by_epsilon,
    equal_totals,
    published,
    shared,
)
from taciturn_papers.reproductions.portions import Arrays, Portion, Results, Work


@dataclass(frozen=True)
class Optimum:
    """The centralised non-private optimum on the records of the first repetition."""

    error: float
    loss: float
    objective: float
    norm: float


@dataclass(frozen=True)
class Half:
    """Everything of one regulariser: Figures 1 to 3, or 4 to 6.

    Attributes
    ----------
    outcomes
        By method, with the agents of the paper's main budget.
    divided
        DP-ADMM as published and our noisy gradient, by number of agents.
    labels
        Of the published test records of the first repetition.
    dimension
        Columns of the records.
    """

    kind: Kind
    outcomes: dict[str, Outcome]
    divided: dict[int, dict[str, Outcome]]
    optimum: Optimum
    labels: Float[HostArray, " N"]
    dimension: int


# from a number of agents and the seed of a repetition to its records
Dealt = Callable[[int, int], Records]


def half_of(kind: Kind, dealt: Dealt, scale: Scale) -> Work[Half]:
    """Return all runs of one regulariser."""
    problem, everyone = scale.problem(kind), partial(dealt, scale.agents)
    outcomes = {}
    for arm, budgets in _competitors(kind, scale):
        slow = arm.name in {EXACT, PVP, DVP}
        repetitions = scale.solver_repetitions if slow else scale.repetitions
        watched = _followed(arm, scale)
        outcomes[arm.name] = arms.measured(
            arm, problem, budgets, everyone, repetitions, where=kind, rho=scale.rho,
            followed=watched,
        )  # fmt: skip
    others = [agents for agents in scale.divisions if agents != scale.agents]
    divided = {agents: _divided(kind, partial(dealt, agents), scale, agents) for agents in others}
    optimum = _optimum(kind, everyone, scale)
    works = (*outcomes.values(), *(work for pair in divided.values() for work in pair.values()))

    def whole(results: Results) -> Half:
        competitors = {name: work.whole(results) for name, work in outcomes.items()}
        shown = {
            agents: {name: work.whole(results) for name, work in divided[agents].items()}
            if agents in divided
            else {name: competitors[name] for name in (DP_ADMM, OURS)}
            for agents in scale.divisions
        }
        first = everyone(0)
        labels, dimension = np.asarray(first.test.targets), first.shards.dimension
        return Half(kind, competitors, shown, optimum.whole(results), labels, dimension)

    portions = (portion for work in works for portion in work.portions)
    return Work((*optimum.portions, *portions), whole)


def _competitors(kind: Kind, scale: Scale) -> list[tuple[Arm, tuple[Budget, ...]]]:
    """Return the arms of one regulariser and their budgets; l2 has those of our table too."""
    budgets = all_budgets(scale)
    if kind == "l2":
        budgets = (*budgets, *equal_totals(scale))
    private = [
        arms.published_arm(kind, scale),
        arms.descent_arm(scale),
        arms.public_arm(PUBLIC, scale),
        arms.public_arm(OURS, scale),
    ]
    if kind == "l2":
        private += [arms.exact_arm(PVP, scale), arms.exact_arm(DVP, scale)]
    return [(arms.exact_arm(EXACT, scale), (NO_NOISE,)), *((arm, budgets) for arm in private)]


def _followed(arm: Arm, scale: Scale) -> Callable[[Budget], bool]:
    """Return which budgets' convergence is drawn for an arm."""
    drawn = {
        DP_ADMM: set(all_budgets(scale)),
        PUBLIC: {shared(scale)},
    }.get(arm.name, set())
    return lambda budget: budget in drawn


def _divided(
    kind: Kind, dealt: Callable[[int], Records], scale: Scale, agents: int
) -> dict[str, Work[Outcome]]:
    problem, where = scale.problem(kind), f"{kind}, {agents} agents"
    theirs, ours = arms.published_arm(kind, scale), arms.public_arm(OURS, scale)
    asked = ((theirs, by_epsilon(scale)), (ours, (shared(scale),)))
    return {
        arm.name: arms.measured(
            arm, problem, budgets, dealt, scale.division_repetitions, where=where, rho=scale.rho
        )
        for arm, budgets in asked
    }


def _optimum(kind: Kind, dealt: Callable[[int], Records], scale: Scale) -> Work[Optimum]:
    problem, one = scale.problem(kind), dealt(0)

    def compute() -> dict[str, HostArray]:
        solution = minimise(problem, one.shards, tol=scale.optimum_tol)
        models = jnp.asarray(solution.w, jnp.float32)[None]
        iterates = jnp.broadcast_to(models[:, None], (1, one.shards.agents, models.shape[1]))
        error = 100 * float(errors(problem, one.test, models[:, None])[0])
        loss = float(losses(problem, one.shards.stacked, iterates)[0])
        norm = float(jnp.linalg.norm(solution.w))
        return {"optimum": np.array([error, loss, solution.value, norm])}

    portion = Portion(f"{kind}: centralised optimum", (kind, "optimum", one.digest), compute)
    return Work.of(portion, lambda found: Optimum(*found["optimum"].tolist()))


Timings = dict[str, tuple[Measured | None, ...]]
TIMED = (arms.EXACT, arms.PVP, arms.DVP, arms.DP_ADMM)


def timings(dealt: Dealt, scale: Scale) -> Work[Timings]:
    """Return seconds of one run of every method at each of `scale.timed`, compilation not counted.

    None where a method cannot meet the budget. ADMM without noise knows no epsilon and is timed
    once. It is one portion: while it is timed, no other process computes anything.
    """
    if not scale.timed:
        return Work((), lambda _: {})

    one = dealt(scale.agents, 0)

    def compute() -> dict[str, HostArray]:
        return {name: _timed(name, one, scale) for name in TIMED}

    def whole(found: Arrays) -> Timings:
        table = {}
        for name in TIMED:
            cells = tuple(None if np.isnan(took[0]) else Measured.of(took) for took in found[name])
            table[name] = cells if len(cells) > 1 else cells * len(scale.timed)
        return table

    return Work.of(Portion("Table II", ("Table II", one.digest), compute), whole)


def _timed(name: str, one: Records, scale: Scale) -> HostArray:
    """Return the seconds of every timing at every budget; NaN where there is no plan."""
    exact = name != arms.DP_ADMM
    arm = arms.exact_arm(name, scale) if exact else arms.published_arm("l2", scale)
    budgets = [published(each, scale.main_delta, scale.rounds) for each in scale.timed]
    found = []
    for budget in [NO_NOISE] if name == arms.EXACT else budgets:
        made = _plan(arm, scale.problem("l2"), one, budget)
        took = None if made is None else seconds(made, one, scale.timings)
        found.append((math.nan,) * scale.timings if took is None else took.values)
    return np.array(found)


def seconds(made: Plan, one: Records, times: int) -> Measured:
    """Return the wall time of a compiled run, measured `times` times after a first one."""
    program, private = made.program, records_for_door(made, one.shards)

    def once() -> float:
        began = time.perf_counter()
        model, _ = simulate(program, *reproduction(program, private, 0), keep=frozenset())
        model.block_until_ready()
        return time.perf_counter() - began

    once()
    return Measured.of([once() for _ in range(times)])


def _plan(arm: Arm, problem: Problem, one: Records, budget: Budget) -> Plan | None:
    try:
        return arm.plan(problem, one.shards, budget.terms)
    except InputError:
        return None
