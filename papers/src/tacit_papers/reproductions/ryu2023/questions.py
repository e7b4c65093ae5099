"""Three questions about demand at equal total budgets, and what an attacker reads off messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tacit.power import (
    Flow,
    Grid,
    Question,
    Settings,
    bundled_case,
    chosen_zones,
    grid,
    infer_demand,
    network,
    relax,
    solve_privately,
)
from tacit.typing import HostArray
from tacit_papers.reproductions.figure import Budget, Measured
from tacit_papers.reproductions.ryu2023.settings import BETA, GRID_DELTA, GridRuns

NOISE, OBJECTIVE, APART = "noise magnitude", "objective, (per unit) squared", "consensus residual"
ATTACK, PATIENT = "error of the attacker's last reading", "error of the mean of its readings"


class Arm(NamedTuple):
    """A question, and whether the zones average the looks that its answers are."""

    question: Question
    average: bool


ARMS: dict[str, Arm] = {
    "demand, asked once": Arm("demand", average=True),
    "residual, averaged": Arm("residual", average=True),
    "residual, last look": Arm("residual", average=False),
    "gradient, averaged": Arm("gradient", average=True),
    "gradient, last look": Arm("gradient", average=False),
}
DEMAND, RESIDUAL, LAST_RESIDUAL, GRADIENT, LAST_GRADIENT = ARMS


@dataclass(frozen=True)
class Asked:
    """What was measured on one network.

    Attributes
    ----------
    samples
        By arm, total epsilon and metric: `(S,)`.
    floor
        The objective without noise after as many rounds.
    demand
        Root-mean-square of the true demand, per unit: the error of guessing 0.
    readable
        The share of the demands that an attacker's last reading determines, over all runs.
    """

    run: GridRuns
    samples: dict[tuple[str, float, str], Float[HostArray, " S"]]
    floor: float
    demand: float
    readable: float

    def at(self, arm: str, total: float, metric: str) -> Measured:
        """Return the mean and spread of a metric after the last round."""
        return Measured.of(self.samples[arm, total, metric])

    def budget(self, total: float) -> Budget:
        """Return the budget of a run."""
        return Budget(total, GRID_DELTA, "messages")


def asked(run: GridRuns, report: Callable[[str], None]) -> Asked:
    """Return every question's runs on one network, at every total."""
    made = prepared(run.case)
    samples, readable = {}, []
    for name in ARMS:
        report(f"{run.case}: {name}")
        for total in run.totals:
            found = [one_run(made, run, name, total, seed=s) for s in range(run.question_seeds)]
            for metric in found[0][0]:
                samples[name, total, metric] = np.array([values[metric] for values, _ in found])
            readable += [share for _, share in found]
    quiet = flow_of(made, run, DEMAND, math.inf, seed=0)
    demand = float(np.sqrt(np.mean(made.relaxation.demand**2)))
    return Asked(run, samples, float(quiet.objective[-1]), demand, float(np.mean(readable)))


def prepared(case: str) -> Grid:
    """Return a bundled network in its zones, with public Hessians."""
    net = network(bundled_case(case))
    return grid(relax(net), chosen_zones(net, None))


def flow_of(made: Grid, run: GridRuns, name: str, total: float, *, seed: int) -> Flow:
    """Return one run of an arm that spends `total`; infinite for a run without noise."""
    question, average = ARMS[name]
    settings = Settings(question, run.question_rounds, average=average)
    return solve_privately(made, settings, beta=BETA, epsilon=total, delta=GRID_DELTA, seed=seed)


def one_run(
    made: Grid, run: GridRuns, name: str, total: float, *, seed: int
) -> tuple[dict[str, float], float]:
    """Return the metrics of one run, and the share of the demands that can be read."""
    flow = flow_of(made, run, name, total, seed=seed)
    last, patient, readable = attacked(flow, run.readings)
    values = {
        NOISE: float(np.sum(flow.noise)),
        OBJECTIVE: float(flow.objective[-1]),
        APART: float(flow.consensus_residual[-1]),
        ATTACK: last,
        PATIENT: patient,
    }
    return values, readable


def attacked(flow: Flow, readings: int) -> tuple[float, float, float]:
    """Return the errors of the last reading and of the mean of several, and the share readable.

    Readings are of rounds that lie evenly up to the last one.
    """
    rounds = np.unique(np.linspace(0, flow.settings.rounds - 1, readings).round().astype(int))
    found = [infer_demand(flow, int(k)) for k in rounds]
    looks = np.sum([seen.readable for seen in found], axis=0)
    total = np.sum([seen.demand * seen.readable for seen in found], axis=0)
    truth = flow.grid.relaxation.demand
    gap = (total / np.maximum(looks, 1) - truth)[looks > 0]
    return found[-1].error, float(np.sqrt(np.mean(gap**2))), float(np.mean(found[-1].readable))
