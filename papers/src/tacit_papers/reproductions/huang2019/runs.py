"""All runs of the reproduction, before anything is drawn of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacit.datasets import Dataset
from tacit.engine import Live, Plan, behind_the_door, simulate
from tacit.errors import InputError
from tacit.problems import Problem, minimise
from tacit.typing import HostArray
from tacit_papers.reproductions.arms import Arm
from tacit_papers.reproductions.figure import Budget, Measured
from tacit_papers.reproductions.huang2019 import arms
from tacit_papers.reproductions.huang2019.arms import (
    DP_ADMM,
    DVP,
    EXACT,
    OURS,
    PROBLEMS,
    PUBLIC,
    PVP,
    Outcome,
    Records,
    errors,
    losses,
)
from tacit_papers.reproductions.huang2019.settings import (
    DELTA,
    NO_NOISE,
    Kind,
    Scale,
    by_delta,
    by_epsilon,
    equal_totals,
    published,
    shared,
)
from tacit_papers.reproductions.reproduction import Report


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
    """

    kind: Kind
    outcomes: dict[str, Outcome]
    divided: dict[int, dict[str, Outcome]]
    optimum: Optimum
    labels: Float[HostArray, " N"]


def half_of(kind: Kind, dataset: Dataset, scale: Scale, report: Report) -> Half:
    """Return all runs of one regulariser."""
    problem = PROBLEMS[kind]
    report(f"{kind}: sharing out records")
    everyone = [
        arms.records(dataset, scale.records, scale.agents, seed=seed)
        for seed in range(scale.repetitions)
    ]
    report(f"{kind}: centralised optimum")
    labels = np.asarray(everyone[0].test.targets)
    optimum = _optimum(problem, everyone[0], scale.optimum_tol)
    outcomes = {}
    for arm, budgets in _competitors(kind, scale):
        slow = arm.name in {EXACT, PVP, DVP}
        repetitions = everyone[: scale.solver_repetitions] if slow else everyone
        report(f"{kind}: {arm.name}, {len(budgets)} budgets, {len(repetitions)} repetitions")
        watched = _followed(arm, scale)
        outcomes[arm.name] = arms.measured(arm, problem, budgets, repetitions, followed=watched)
    divided = {scale.agents: {name: outcomes[name] for name in (DP_ADMM, OURS)}}
    for agents in scale.divisions:
        if agents != scale.agents:
            report(f"{kind}: {agents} agents")
            divided[agents] = _divided(kind, dataset, scale, agents)
    return Half(kind, outcomes, {n: divided[n] for n in scale.divisions}, optimum, labels)


def _competitors(kind: Kind, scale: Scale) -> list[tuple[Arm, tuple[Budget, ...]]]:
    """Return the arms of one regulariser and their budgets; l2 has those of our table too."""
    budgets = (*by_epsilon(scale), *by_delta(scale))
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
        DP_ADMM: {*by_epsilon(scale), *by_delta(scale)},
        PUBLIC: {shared(scale)},
    }.get(arm.name, set())
    return lambda budget: budget in drawn


def _divided(kind: Kind, dataset: Dataset, scale: Scale, agents: int) -> dict[str, Outcome]:
    repetitions = [
        arms.records(dataset, scale.records, agents, seed=seed)
        for seed in range(scale.division_repetitions)
    ]
    problem = PROBLEMS[kind]
    theirs = arms.measured(arms.published_arm(kind, scale), problem, by_epsilon(scale), repetitions)
    ours = arms.measured(arms.public_arm(OURS, scale), problem, (shared(scale),), repetitions)
    return {DP_ADMM: theirs, OURS: ours}


def _optimum(problem: Problem, one: Records, tol: float) -> Optimum:
    solution = minimise(problem, one.shards, tol=tol)
    models = jnp.asarray(solution.w, jnp.float32)[None]
    shared = jnp.broadcast_to(models[:, None], (1, one.shards.agents, models.shape[1]))
    return Optimum(
        error=100 * float(errors(problem, one.test, models)[0]),
        loss=float(losses(problem, one.shards.stacked, shared)[0]),
        objective=solution.value,
        norm=float(jnp.linalg.norm(solution.w)),
    )


Timings = dict[str, tuple[Measured | None, ...]]


def timings(one: Records, scale: Scale, report: Callable[[str], None]) -> Timings:
    """Return seconds of one run of every method at each of `scale.timed`, compilation not counted.

    None where a method cannot meet the budget. ADMM without noise knows no epsilon and is timed
    once.
    """
    if not scale.timed:
        return {}
    problem = PROBLEMS["l2"]
    budgets = [published(each, DELTA, scale.rounds) for each in scale.timed]
    table: Timings = {}
    for name in (arms.EXACT, arms.PVP, arms.DVP, arms.DP_ADMM):
        report(f"Table II: {name}")
        exact = name != arms.DP_ADMM
        arm = arms.exact_arm(name, scale) if exact else arms.published_arm("l2", scale)
        asked = [NO_NOISE] if name == arms.EXACT else budgets
        plans = [_plan(arm, problem, one, budget) for budget in asked]
        found = tuple(None if p is None else seconds(p, one, scale.timings) for p in plans)
        table[name] = found if len(found) > 1 else found * len(budgets)
    return table


def seconds(made: Plan, one: Records, times: int) -> Measured:
    """Return the wall time of a compiled run, measured `times` times after a first one."""
    program, private = made.program, behind_the_door(made, one.shards)
    door = Live(program.oracles, program.mechanism, jax.random.key(0))

    def once() -> float:
        began = time.perf_counter()
        model, _ = simulate(program, door, private, keep=frozenset())
        model.block_until_ready()
        return time.perf_counter() - began

    once()
    return Measured.of([once() for _ in range(times)])


def _plan(arm: Arm, problem: Problem, one: Records, budget: Budget) -> Plan | None:
    try:
        return arm.plan(problem, one.shards, budget.terms)
    except InputError:
        return None
