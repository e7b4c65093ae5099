"""How long a run will take on this machine: a little of everything is run and timed first."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from taciturn_papers.reproductions.arms import repeated
from taciturn_papers.reproductions.ryu2023.federated import Records
from taciturn_papers.reproductions.ryu2023.learning import OBJ, planned, trials
from taciturn_papers.reproductions.ryu2023.power_flow import (
    ASKED,
    RESIDUAL,
    attacked,
    flow_of,
    grid_trials,
    linearised,
    published_run,
    with_hessians,
)
from taciturn_papers.reproductions.ryu2023.settings import GridRuns, Learning, Trial
from taciturn_power import Flow

_FEW, _MANY = 2, 6  # rounds that are timed


def learning_seconds(run: Learning, one: Records) -> float:
    """Return the seconds of `learned`: timed is one update of all budgets and seeds.

    Compiling and packing do not grow with the rounds, so two lengths are timed.
    """

    def timed(rounds: int) -> tuple[float, float]:
        short = dataclasses.replace(run, rounds=rounds)
        plans = [planned(short, one, Trial(OBJ, 1, each)) for each in run.per_update]

        def once() -> None:
            repeated(plans, one.shards, seeds=range(run.seeds), keep=frozenset())

        return seconds(once), seconds(once)

    (first, few), (_, many) = timed(_FEW), timed(_MANY)
    update = max(many - few, 0.0) / (_MANY - _FEW)
    groups = trials(run)
    updates = sum(run.rounds * group[0].updates * len(group) for group in groups)
    return first * len(groups) + update * updates / len(run.per_update)


def grid_seconds(run: GridRuns) -> float:
    """Return the seconds of `published` and `answered` on one network.

    Timed are a round of the published method, compiling a run, and an attack.
    """
    net, made = linearised(run.case), with_hessians(run.case)
    trial = Trial("ObjG", 1, run.per_update[0])
    a_round = seconds(lambda: published_run(net, trial, 2, seed=0)) / 2
    short = dataclasses.replace(run, question_rounds=2)
    flows: list[Flow] = []
    compiled = seconds(lambda: flows.append(flow_of(made, short, RESIDUAL, 1.0, seed=0)))
    attack = seconds(lambda: attacked(flows[0], 1))
    runs = len(ASKED) * len(run.totals) * run.question_seeds
    rounds = runs * run.question_rounds
    rounds += run.rounds * run.seeds * sum(trial.updates for trial in grid_trials(run))
    return rounds * a_round + len(ASKED) * compiled + runs * run.readings * attack


def seconds(task: Callable[[], object]) -> float:
    """Return the wall time of a task."""
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def sentence(what: str, expected: float) -> str:
    """Return how long something will take, in words.

    Examples
    --------
    >>> sentence("mnist", 5400.0)
    'mnist will take about 1.5 hours on this machine'
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if expected >= 1.5 * size:
            return f"{what} will take about {expected / size:.2g} {unit} on this machine"
    return f"{what} will take about {expected:.0f} seconds on this machine"
