"""The numbers of the paper, each of which can be changed, and how much a run takes up."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from taciturn.calibration import mu_of
from taciturn.problems import L1, L2, Logistic, Problem, WholeSpace
from taciturn_papers.claims.huang2019_thm2 import exact_epsilon
from taciturn_papers.reproductions.figure import Budget

Kind = Literal["l1", "l2"]
Rule = Literal["nonsmooth", "smooth"]
Placement = Literal["agents", "server"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is run, and with which constants.

    Attributes
    ----------
    kinds
        The regularisers: "l1" for Figures 1 to 3, "l2" for Figures 4 to 6 and our table.
    records, agents
        Training records in all, at most those of the data set, and agents in every figure but 1
        and 4.
    per_round, deltas
        Epsilons a round at `main_delta`, and deltas at `main_epsilon` a round.
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
    data
        Binary, by the name that `dataset_named` takes: "adult", or "FILE.csv:TARGET".
    main_epsilon, main_delta
        The budget a round that all panels share.
    rho, weight, clip
        The penalty, lambda / n, and the bound c_1 on a record's gradient.
    c_w_l1, c_w_l2, steps_l1, steps_l2
        Of DP-ADMM by regulariser: the norm of the solution, and the step rule: (29) if "nonsmooth",
        (34) if "smooth".
    regulariser_at
        Where the methods of the paper apply the regulariser: "agents", as published, or "server".
    learning_rate
        Of DPSGD.
    tolerance
        Of the exact steps, relative to how far they can lead.
    public_clip, our_total
        The bound c_1 of our methods, and the larger total of our table.
    """

    kinds: tuple[Kind, ...]
    records: int
    agents: int
    per_round: tuple[float, ...]
    deltas: tuple[float, ...]
    divisions: tuple[int, ...]
    rounds: int = 100
    public_rounds: int = 200
    repetitions: int
    division_repetitions: int
    solver_repetitions: int
    optimum_tol: float
    timed: tuple[float, ...]
    timings: int
    data: str = "adult"
    main_epsilon: float = 0.1
    main_delta: float = 1e-5
    rho: float = 0.1
    weight: float = 1e-6
    clip: float = 1.0
    c_w_l1: float = 23.0
    c_w_l2: float = 89.0
    steps_l1: Rule = "nonsmooth"
    steps_l2: Rule = "smooth"
    regulariser_at: Placement = "agents"
    learning_rate: float = 0.1
    tolerance: float = 1e-6
    public_clip: float = 0.5
    our_total: float = 1.0

    def c_w(self, kind: Kind) -> float:
        """Return the assumed norm of the solution under a regulariser."""
        return self.c_w_l1 if kind == "l1" else self.c_w_l2

    def steps(self, kind: Kind) -> Rule:
        """Return the step rule under a regulariser."""
        return self.steps_l1 if kind == "l1" else self.steps_l2

    def problem(self, kind: Kind) -> Problem:
        """Return the regularised logistic regression."""
        regulariser = L1(self.weight) if kind == "l1" else L2(self.weight)
        return Problem(Logistic(), regulariser, WholeSpace())


FULL = Scale(
    kinds=("l1", "l2"),
    records=40_000,
    agents=100,
    per_round=(0.01, 0.05, 0.1, 0.2),
    deltas=(1e-3, 1e-4, 1e-5, 1e-6),
    divisions=(10, 50, 100, 200, 400),
    repetitions=10,
    division_repetitions=5,
    solver_repetitions=5,
    optimum_tol=1e-4,
    timed=(0.01, 0.05, 0.1),
    timings=5,
)
QUICK = Scale(
    kinds=("l1", "l2"),
    records=10_000,
    agents=25,
    per_round=(0.05, 0.1),
    deltas=(1e-4, 1e-5),
    divisions=(5, 25),
    repetitions=3,
    division_repetitions=2,
    solver_repetitions=2,
    optimum_tol=1e-3,
    timed=(0.1,),
    timings=2,
)


NO_NOISE = Budget(math.inf, 1e-5)


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
    return tuple(published(each, scale.main_delta, scale.rounds) for each in scale.per_round)


def by_delta(scale: Scale) -> tuple[Budget, ...]:
    """Return the budgets of the panels over delta."""
    return tuple(published(scale.main_epsilon, delta, scale.rounds) for delta in scale.deltas)


def shared(scale: Scale) -> Budget:
    """Return the budget that both families of panels share."""
    return published(scale.main_epsilon, scale.main_delta, scale.rounds)


def equal_totals(scale: Scale) -> tuple[Budget, ...]:
    """Return the budgets of the table that we add."""
    totals = (shared(scale).total, scale.our_total)
    return tuple(
        Budget(total, scale.main_delta, seen) for seen in ("messages", "sum") for total in totals
    )


def all_budgets(scale: Scale) -> tuple[Budget, ...]:
    """Return the budgets of all panels, each once; both families share one."""
    return tuple(dict.fromkeys((*by_epsilon(scale), *by_delta(scale), shared(scale))))


def noise_of_round(scale: Scale, budget: Budget) -> float:
    """Return s of (26) in units of a gradient, sigma (rho + 1/eta), for a `published` budget.

    s = 2 c_1 sqrt(2 ln(1.25/delta)) / (m epsilon), m the least number of records of an agent.
    """
    each = by_round(budget, scale.rounds).per_round or math.inf
    spread = 2 * scale.clip * math.sqrt(2 * math.log(1.25 / budget.delta))
    return spread / (scale.records // scale.agents * each)
