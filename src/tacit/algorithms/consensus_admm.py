"""The rounds of consensus ADMM on a star, for exact and for linearised local steps."""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
from typing_extensions import override

from tacit import checks
from tacit.algorithms.algorithm import StarAlgorithm, Turn
from tacit.errors import InputError
from tacit.problems import NoRegulariser, Problem, WholeSpace
from tacit.typing import Model

Placement = Literal["agents", "server"]


class DualState(NamedTuple):
    """An agent's noised iterate w_i and its dual gamma_i."""

    iterate: Model
    dual: Model


class DualMessage(NamedTuple):
    """An agent's noised iterate, and its dual at the start of the round."""

    iterate: Model
    dual: Model


class ConsensusADMM(StarAlgorithm):
    r"""Consensus ADMM, with the agents' local step left to subclasses.

    With public value w, iterates w_i and duals gamma_i (Huang et al. 2019, Algorithm 1):

        gamma_i <- gamma_i - rho (w_i - w)          on receipt of w                 (10d)
        w_i     <- the agent's local step, in `ask` and `tell`
        w       <- mean(w_i) - mean(gamma_i) / rho                                  (10c)

    Attributes
    ----------
    problem
        Supplies the regulariser and the constraint.
    rho
        The ADMM parameter.
    regulariser_at
        "agents": the regulariser is part of the agents' step, as published. "server": exact prox,
        with the constraint, in (10c): w <- prox_{r/rho}(mean(w_i) - mean(gamma_i)/rho).
    """

    problem: Problem
    rho: float = eqx.field(static=True)
    regulariser_at: Placement = eqx.field(static=True, kw_only=True)

    def __check_init__(self) -> None:
        checks.positive("rho", self.rho)
        constrained = not isinstance(self.problem.constraint, WholeSpace)
        if self.regulariser_at == "agents" and constrained:
            raise InputError(
                f"{type(self).__name__} as published knows no constraint; pass "
                'regulariser_at="server" to have one'
            )

    @override
    def start(self, template: Model) -> DualState:
        return DualState(template, template)

    @override
    def receive(self, state: DualState, inbox: Model, turn: Turn) -> DualState:
        return state._replace(dual=state.dual - self.rho * (state.iterate - inbox))

    @override
    def send(self, state: DualState, inbox: Model, turn: Turn) -> tuple[DualState, DualMessage]:
        return state, DualMessage(state.iterate, state.dual)

    @override
    def first_public(self, template: Model) -> Model:
        return template

    @override
    def combine(self, public: Model, mean_message: DualMessage, turn: Turn) -> Model:
        centre = mean_message.iterate - mean_message.dual / self.rho
        if self.regulariser_at == "agents":
            return centre
        return self.problem.prox(centre, 1 / self.rho)

    @override
    def model(self, public: Model) -> Model:
        return public


def at_agents(problem: Problem, regulariser_at: Placement) -> Problem:
    """Return the problem of the agents' steps: without regulariser if the server applies it."""
    if regulariser_at == "agents":
        return problem
    return Problem(problem.loss, NoRegulariser(), WholeSpace())
