"""All runs of the reproduction, before anything is drawn of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

from tacit.datasets import Dataset
from tacit.problems import Problem, minimise
from tacit_papers.reproductions.arms import Arm
from tacit_papers.reproductions.huang2019 import arms
from tacit_papers.reproductions.huang2019.arms import (
    DP_ADMM,
    DVP,
    EXACT,
    OURS,
    PROBLEMS,
    PUBLIC,
    PVP,
)
from tacit_papers.reproductions.huang2019.measure import Records, errors, losses, records
from tacit_papers.reproductions.huang2019.settings import (
    DELTA,
    NO_NOISE,
    OUR_TOTAL,
    PER_ROUND,
    Kind,
    Scale,
    Setting,
    published,
)
from tacit_papers.reproductions.huang2019.trial import Outcome, trial

Report = Callable[[str], None]


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
        By method, with the agents of the paper's main setting.
    divided
        DP-ADMM as published and our noisy gradient, by number of agents.
    """

    kind: Kind
    outcomes: dict[str, Outcome]
    divided: dict[int, dict[str, Outcome]]
    optimum: Optimum


def by_epsilon(scale: Scale) -> tuple[Setting, ...]:
    """Return the settings of the panels over epsilon."""
    return tuple(published(each, DELTA, scale.rounds) for each in scale.per_round)


def by_delta(scale: Scale) -> tuple[Setting, ...]:
    """Return the settings of the panels over delta."""
    return tuple(published(PER_ROUND, delta, scale.rounds) for delta in scale.deltas)


def main_setting(scale: Scale) -> Setting:
    """Return the setting that both families of panels share."""
    return published(PER_ROUND, DELTA, scale.rounds)


def equal_totals(scale: Scale) -> tuple[Setting, ...]:
    """Return the settings of the table that we add."""
    totals = (main_setting(scale).total, OUR_TOTAL)
    return tuple(Setting(total, DELTA, seen) for seen in ("messages", "sum") for total in totals)


def measured_half(kind: Kind, dataset: Dataset, scale: Scale, report: Report) -> Half:
    """Return all runs of one regulariser."""
    problem = PROBLEMS[kind]
    report(f"{kind}: sharing out records")
    everyone = [
        records(dataset, scale.records, scale.agents, seed=seed)
        for seed in range(scale.repetitions)
    ]
    report(f"{kind}: centralised optimum")
    optimum = _optimum(problem, everyone[0], scale.optimum_tol)
    outcomes = {}
    for arm, settings in _competitors(kind, scale):
        slow = arm.name in {EXACT, PVP, DVP}
        repetitions = everyone[: scale.solver_repetitions] if slow else everyone
        report(f"{kind}: {arm.name}, {len(settings)} budgets, {len(repetitions)} repetitions")
        watched = _followed(arm, scale)
        outcomes[arm.name] = trial(arm, problem, settings, repetitions, followed=watched)
    divided = {scale.agents: {name: outcomes[name] for name in (DP_ADMM, OURS)}}
    for agents in scale.divisions:
        if agents != scale.agents:
            report(f"{kind}: {agents} agents")
            divided[agents] = _divided(kind, dataset, scale, agents)
    return Half(kind, outcomes, {n: divided[n] for n in scale.divisions}, optimum)


def _competitors(kind: Kind, scale: Scale) -> list[tuple[Arm, tuple[Setting, ...]]]:
    """Return the arms of one regulariser and their settings; l2 has those of our table too."""
    settings = (*by_epsilon(scale), *by_delta(scale))
    if kind == "l2":
        settings = (*settings, *equal_totals(scale))
    private = [
        arms.published_arm(kind, scale),
        arms.descent_arm(scale),
        arms.public_arm(PUBLIC, scale),
        arms.public_arm(OURS, scale),
    ]
    if kind == "l2":
        private += [arms.exact_arm(PVP, scale), arms.exact_arm(DVP, scale)]
    return [(arms.exact_arm(EXACT, scale), (NO_NOISE,)), *((arm, settings) for arm in private)]


def _followed(arm: Arm, scale: Scale) -> Callable[[Setting], bool]:
    """Return which settings' convergence is drawn for an arm."""
    drawn = {
        DP_ADMM: {*by_epsilon(scale), *by_delta(scale)},
        PUBLIC: {main_setting(scale)},
    }.get(arm.name, set())
    return lambda setting: setting in drawn


def _divided(kind: Kind, dataset: Dataset, scale: Scale, agents: int) -> dict[str, Outcome]:
    repetitions = [
        records(dataset, scale.records, agents, seed=seed)
        for seed in range(scale.division_repetitions)
    ]
    problem = PROBLEMS[kind]
    theirs = trial(arms.published_arm(kind, scale), problem, by_epsilon(scale), repetitions)
    ours = trial(arms.public_arm(OURS, scale), problem, (main_setting(scale),), repetitions)
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
