"""How long a run will take on this machine: a little of everything is run and timed first."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from taciturn_papers.reproductions.ryu2023.federated import Records, simulated
from taciturn_papers.reproductions.ryu2023.learning import cases
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


def learning_seconds(run: Learning, one: Records) -> float:
    """Return the most seconds that `learned` takes; timed is a second round at every epsilon.

    The first also fetches memory. Arms whose constraint does not act are the same run.
    """
    trials = [Trial(run.arms[0], 1, each) for each in run.per_update]
    both = simulated(dataclasses.replace(run, rounds=2), one, trials, run.seeds)
    next(both)
    a_round = seconds(lambda: next(both))
    updates = sum(len(arms) * len(some) * some[0].updates for arms, some in cases(run))
    return a_round * run.rounds * updates / len(trials)


def grid_seconds(run: GridRuns) -> float:
    """Return the seconds of `published` and `answered` on one network.

    Timed are a round of the published method, compiling a run, and an attack.
    """
    short = dataclasses.replace(run, rounds=2, question_rounds=2)
    net, made = linearised(short), with_hessians(run)
    trial = Trial("ObjG", 1, run.per_update[0])
    a_round = seconds(lambda: published_run(net, trial, seed=0)) / 2
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
