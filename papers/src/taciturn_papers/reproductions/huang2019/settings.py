"""The numbers of the paper, and how many of them a run takes up."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from taciturn.calibration import mu_of
from taciturn_papers.claims.huang2019_thm2 import exact_epsilon
from taciturn_papers.reproductions.figure import Budget

ROUNDS, RHO, WEIGHT, CLIP = 100, 0.1, 1e-6, 1.0
PER_ROUND, DELTA = 0.1, 1e-5
RADIUS = {"l1": 23.0, "l2": 89.0}
LEARNING_RATE = 0.1
PUBLIC_ROUNDS, PUBLIC_CLIP = 200, 0.5
OUR_TOTAL = 1.0
TOLERANCE = 1e-6  # of the exact steps, relative to how far they can lead

Kind = Literal["l1", "l2"]


@dataclass(frozen=True)
class Scale:
    """How much is run.

    Attributes
    ----------
    kinds
        The regularisers: "l1" for Figures 1 to 3, "l2" for Figures 4 to 6 and our table.
    records, agents
        Training records in all, and agents in every figure but 1 and 4.
    per_round, deltas
        Epsilons a round (at `DELTA`), and deltas (at `PER_ROUND`); `PER_ROUND` and `DELTA` are
        among them.
    divisions
        Numbers of agents in Figures 1 and 4.
    rounds, public_rounds
        Of the paper's methods and of ours.
    repetitions, division_repetitions, solver_repetitions
        Of the methods that ask for gradients, of these at other numbers of agents, and of the
        methods whose agents solve a problem a round.
    optimum_tol
        Residual of the centralised optimum.
    timed, timings
        Epsilons a round of Table II (none: no table), and how often each is timed.
    """

    kinds: tuple[Kind, ...]
    records: int
    agents: int
    per_round: tuple[float, ...]
    deltas: tuple[float, ...]
    divisions: tuple[int, ...]
    rounds: int
    public_rounds: int
    repetitions: int
    division_repetitions: int
    solver_repetitions: int
    optimum_tol: float
    timed: tuple[float, ...]
    timings: int


FULL = Scale(
    kinds=("l1", "l2"),
    records=40_000,
    agents=100,
    per_round=(0.01, 0.05, 0.1, 0.2),
    deltas=(1e-3, 1e-4, 1e-5, 1e-6),
    divisions=(10, 50, 100, 200, 400),
    rounds=ROUNDS,
    public_rounds=PUBLIC_ROUNDS,
    repetitions=10,
    division_repetitions=5,
    solver_repetitions=3,
    optimum_tol=1e-4,
    timed=(0.01, 0.05, 0.1),
    timings=3,
)
QUICK = Scale(
    kinds=("l1", "l2"),
    records=10_000,
    agents=25,
    per_round=(0.05, 0.1),
    deltas=(1e-4, 1e-5),
    divisions=(5, 25),
    rounds=ROUNDS,
    public_rounds=PUBLIC_ROUNDS,
    repetitions=3,
    division_repetitions=2,
    solver_repetitions=1,
    optimum_tol=1e-3,
    timed=(0.1,),
    timings=1,
)


NO_NOISE = Budget(math.inf, DELTA)


def published(per_round: float, delta: float, rounds: int) -> Budget:
    """Return the exact total of rounds with the noise of (26), each (`per_round`, delta).

    Their law is mu = sqrt(t) epsilon / sqrt(2 ln(1.25/delta)), see
    `taciturn_papers.claims.huang2019_thm2.mu_after`; the total is the least epsilon of that mu.
    """
    return Budget(exact_epsilon(rounds, per_round, delta), delta)


def by_round(budget: Budget, rounds: int) -> Budget:
    """Return the budget with epsilon a round as (26) counts it: the inverse of `published`."""
    if math.isinf(budget.total):
        return budget
    mu = float(mu_of(budget.total, budget.delta))
    each = mu * math.sqrt(2 * math.log(1.25 / budget.delta) / rounds)
    return dataclasses.replace(budget, per_round=float(f"{each:.6g}"))


def by_epsilon(scale: Scale) -> tuple[Budget, ...]:
    """Return the budgets of the panels over epsilon."""
    return tuple(published(each, DELTA, scale.rounds) for each in scale.per_round)


def by_delta(scale: Scale) -> tuple[Budget, ...]:
    """Return the budgets of the panels over delta."""
    return tuple(published(PER_ROUND, delta, scale.rounds) for delta in scale.deltas)


def shared(scale: Scale) -> Budget:
    """Return the budget that both families of panels share."""
    return published(PER_ROUND, DELTA, scale.rounds)


def equal_totals(scale: Scale) -> tuple[Budget, ...]:
    """Return the budgets of the table that we add."""
    totals = (shared(scale).total, OUR_TOTAL)
    return tuple(Budget(total, DELTA, seen) for seen in ("messages", "sum") for total in totals)
