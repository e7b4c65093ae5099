"""Linearised ADMM with local updates (Ryu & Kim 2023, Algorithm 3.1), and its schedules."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import (
    Noise,
    StarAlgorithm,
    check_growth,
    smoothness_of,
    tail_average,
)
from taciturn.kernel.door import Turn
from taciturn.kernel.questions import Point, Step
from taciturn.kernel.records import Spec
from taciturn.problems import Problem
from taciturn.typing import Array, HostArray, Model


class Settings(eqx.Module):
    """Schedules of rho, 1/eta and the averaging weights, `(T,)` each, in units of the library."""

    @property
    def averages_queries(self) -> bool:
        """Whether the points of the questions are averaged instead of the solutions."""
        return False

    @abstractmethod
    def rho(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        """Return rho_t; `size` is (T, E), `noise` that on the weighted gradients."""

    @abstractmethod
    def inverse_step(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        """Return 1 / eta_t."""

    @abstractmethod
    def averaging(self, rounds: int, noise: Noise) -> HostArray:
        """Return a_t of xbar <- xbar + a_t (x_t - xbar)."""


class PublicSettings(Settings):
    """Constant rho and eta from public facts, derived in docs/explanation/step-sizes.md.

    With n = T E updates, nu the noise on the mean gradient per coordinate and R the record norm,

        rho + 1/eta = c = max((1 + k) L, sqrt(n) nu R),  rho = k c / (1 + k),  k = `consensus` / E,

    so that E updates pull an agent towards the consensus by a fixed factor, whatever E. With noise
    the last half of the rounds is averaged, without it nothing is.
    """

    consensus: float = eqx.field(static=True, default=0.5)

    def __check_init__(self) -> None:
        checks.positive("consensus", self.consensus)

    @override
    def rho(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        share = self.consensus / size[1]
        return self.inverse_step(spec, size, noise) * share

    @override
    def inverse_step(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        smoothness, share = smoothness_of(spec), 1 + self.consensus / size[1]
        reach = math.sqrt(math.prod(size)) * noise.of_mean * spec.record_norm
        return np.full(size[0], max(smoothness, reach / share))

    @override
    def averaging(self, rounds: int, noise: Noise) -> HostArray:
        if noise.of_mean == 0 and not noise.sampled:
            return np.ones(rounds)
        return tail_average(rounds)


class StatedSettings(PublicSettings):
    """Settings of which the user states rho, eta or both: constant rho, eta_t = eta or eta/sqrt(t).

    What is not stated follows `PublicSettings`: without `stated_rho` the ratio of rho to 1/eta,
    without `stated_step` its 1/eta. Both are in units of the mean loss of an agent, A times those
    of Ryu and Kim 2023 for A agents with equally many records. `stated_step`: eta.
    """

    stated_rho: float | None = eqx.field(static=True, default=None)
    stated_step: float | None = eqx.field(static=True, default=None)
    decays: bool = eqx.field(static=True, default=False)

    @override
    def rho(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        if self.stated_rho is None:
            return super().rho(spec, size, noise)
        return np.full(size[0], self.stated_rho)

    @override
    def inverse_step(self, spec: Spec, size: tuple[int, int], noise: Noise) -> HostArray:
        if self.stated_step is None:
            inverse = super().inverse_step(spec, size, noise)
        else:
            inverse = np.full(size[0], 1 / self.stated_step)
        if self.decays:
            inverse = inverse * np.sqrt(np.arange(1, size[0] + 1))
        rho = self.stated_rho or inverse * self.consensus / size[1]
        check_growth(spec, 1 / (rho + inverse), coupled=rho, times=size[1])
        return inverse


Arm = Literal["objective", "output", "projected-output"]
Weighting = Literal["agents", "records"]


class LocalState(NamedTuple):
    """An agent's local solution and dual, and this round's sums of solutions and of queries."""

    iterate: Model
    dual: Model
    solutions: Model
    queries: Model


class LocalMessage(NamedTuple):
    """The means of an agent's E solutions and, if they are averaged, of its E queries."""

    solution: Model
    query: Model | None


class LocalPublic(NamedTuple):
    """The aggregator's value: w, the mean dual, and averages: of solutions (the model) and of w."""

    consensus: Model
    dual: Model
    average: Model
    consensus_average: Model


class LinearisedADMM(StarAlgorithm):
    """Consensus ADMM on linearised objectives, E noised and constrained updates a round.

    With z an agent's local solution, w the consensus, lambda the dual, c = rho + 1/eta and a the
    agent's weight, each of the E updates of a round is (3.2), solved in closed form:

        s  = rho (z - w) - lambda                           slope of the public part
        z <- prox_{r/c}(z - (a g + s) / c)                  within the constraint W

    and the round ends with zbar = mean of the E solutions, lambda <- lambda + rho (w - zbar), and w
    <- mean_i(zbar_i - lambda_i / rho) at the aggregator. Without regulariser the prox is Proj_W.
    The arms differ in where the noise is:

    - `objective` (ObjG, ObjL): the answer to `taciturn.kernel.questions.Gradient` is noised, then
      the step is made. Every solution is feasible.
    - `output` (OutG, OutL): the answer to `taciturn.kernel.questions.ProjectedStep`, the solution,
      is noised (3.4) and may be infeasible.
    - `projected-output`: the same, and the noised solution is projected.

    At equal noise on g and away from the constraint the three are the same. `objective` is not
    `projected-output`: Proj(v + xi) and Proj(Proj(v) + xi) differ wherever v is outside W. Both
    oracles state their noise in units of the gradient, so plans of equal budget have equal gradient
    noise, which is also what the paper's calibrations, Delta_g and Delta_g / c, amount to.

    - `problem`: Supplies regulariser and constraint; its loss is not used.
    - `local_updates`: E.
    - `arm`: Decides which oracle the plan needs.
    - `weighting`: "agents": a = 1. "records": a = A m_i / I, which makes the objective the mean
      over all I records, as in the paper.

    **Guarantee.** Solutions, duals, messages and the consensus are functions of noised answers and
    public constants: a run is post-processing of the adaptive composition of its T E answers, each
    of them in the ledger. The questions depend on the agent's iterate, hence summation is not
    credited.
    """

    problem: Problem
    local_updates: int = eqx.field(static=True, default=1)
    arm: Arm = eqx.field(static=True, default="objective")
    settings: Settings = eqx.field(default_factory=PublicSettings)
    weighting: Weighting = eqx.field(static=True, default="agents")

    def __check_init__(self) -> None:
        checks.at_least("local_updates", self.local_updates, 1)

    @override
    def questions(self, rounds: int) -> HostArray:
        return np.zeros((rounds, self.local_updates), dtype=int)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        counts = np.asarray(spec.counts, dtype=np.float64)
        by_records = self.weighting == "records"
        weight = counts / np.mean(counts) if by_records else np.ones_like(counts)
        size = (rounds, self.local_updates)
        facts = dataclasses.replace(spec, smoothness=float(np.max(weight)) * spec.smoothness)
        weighted = dataclasses.replace(noise, gradient_scale=weight * noise.gradient_scale)
        rho = self.settings.rho(facts, size, weighted)
        return {
            "rho": rho,
            "next_rho": np.append(rho[1:], rho[-1]),
            "inverse_step": self.settings.inverse_step(facts, size, weighted),
            "averaging": self.settings.averaging(rounds, weighted),
            "weight": np.tile(weight[:, None], rounds),
        }

    @override
    def start(self, template: Model) -> LocalState:
        first = self.problem.constraint.project(template)
        return LocalState(first, template, template, template)

    @override
    def receive(self, state: LocalState, inbox: LocalPublic, turn: Turn) -> LocalState:
        zero = jnp.zeros_like(state.dual)
        return state._replace(solutions=zero, queries=zero)

    @override
    def ask(self, state: LocalState, inbox: LocalPublic, turn: Turn) -> Point | Step:
        if self.arm == "objective":
            return Point(state.iterate)
        curvature, slope = _curvature_and_slope(state, inbox, turn)
        weight = turn.values["weight"]
        return Step(state.iterate, slope / weight, curvature / weight, 1 / curvature)

    @override
    def tell(self, state: LocalState, inbox: LocalPublic, turn: Turn, answer: Model) -> LocalState:
        curvature, slope = _curvature_and_slope(state, inbox, turn)
        move = turn.values["weight"] * answer
        if self.arm == "objective":
            solution = self.problem.prox(state.iterate - (move + slope) / curvature, 1 / curvature)
        else:
            solution = state.iterate - move / curvature
        if self.arm == "projected-output":
            solution = self.problem.constraint.project(solution)
        return LocalState(
            solution, state.dual, state.solutions + solution, state.queries + state.iterate
        )

    @override
    def send(
        self, state: LocalState, inbox: LocalPublic, turn: Turn
    ) -> tuple[LocalState, LocalMessage]:
        solution = state.solutions / self.local_updates
        dual = state.dual + turn.values["rho"] * (inbox.consensus - solution)
        query = state.queries / self.local_updates if self.settings.averages_queries else None
        return state._replace(dual=dual), LocalMessage(solution, query)

    @override
    def first_public(self, template: Model) -> LocalPublic:
        first = self.problem.constraint.project(template)
        return LocalPublic(first, template, first, first)

    @override
    def combine(self, public: LocalPublic, mean_message: LocalMessage, turn: Turn) -> LocalPublic:
        values, solution = turn.values, mean_message.solution
        dual = public.dual + values["rho"] * (public.consensus - solution)
        new = solution if mean_message.query is None else mean_message.query
        average = public.consensus_average
        return LocalPublic(
            consensus=solution - dual / values["next_rho"],
            dual=dual,
            average=public.average + values["averaging"] * (new - public.average),
            consensus_average=average + values["averaging"] * (public.consensus - average),
        )


def _curvature_and_slope(state: LocalState, inbox: LocalPublic, turn: Turn) -> tuple[Array, Model]:
    rho = turn.values["rho"]
    return rho + turn.values["inverse_step"], rho * (state.iterate - inbox.consensus) - state.dual
