"""Consensus ADMM on a star, and its form with exact local steps."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import equinox as eqx
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms.algorithm import Noise, StarAlgorithm, Turn
from taciturn.errors import InputError
from taciturn.oracles import Centre
from taciturn.problems import NoRegulariser, Problem, WholeSpace
from taciturn.spec import Spec
from taciturn.typing import Model

Placement = Literal["agents", "server"]


class DualMessage(NamedTuple):
    """An agent's noised iterate w_i, and its dual gamma_i at the start of the round."""

    iterate: Model
    dual: Model


DualState = DualMessage


class ConsensusADMM(StarAlgorithm):
    """Consensus ADMM, with the agents' local step left to subclasses.

    With public value w, iterates w_i and duals gamma_i (Huang et al. 2019, Algorithm 1):

        gamma_i <- gamma_i - rho (w_i - w)          on receipt of w                 (10d)
        w_i     <- the agent's local step, in `ask` and `tell`
        w       <- mean(w_i) - mean(gamma_i) / rho                                  (10c)

    Attributes
    ----------
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
    def combine(self, public: Model, mean_message: DualMessage, turn: Turn) -> Model:
        centre = mean_message.iterate - mean_message.dual / self.rho
        if self.regulariser_at == "agents":
            return centre
        return self.problem.prox(centre, 1 / self.rho)


def at_agents(problem: Problem, regulariser_at: Placement) -> Problem:
    """Return the problem of the agents' steps: without regulariser if the server applies it."""
    if regulariser_at == "agents":
        return problem
    return Problem(problem.loss, NoRegulariser(), WholeSpace())


def steady_rho(facts: Spec, rounds: int, noise: Noise) -> float:
    """Return max(0.4 L, sqrt(T) nu R): noise on exact steps then moves a margin by about one unit.

    nu is the standard deviation of the mean answer in gradient units. Derived in
    docs/explanation/step-sizes.md.
    """
    margin = math.sqrt(rounds) * noise.of_mean * facts.record_norm
    return max(0.4 * facts.smoothness, margin)


class ADMM(ConsensusADMM):
    """Consensus ADMM whose agents ask for the minimiser of their augmented Lagrangian.

    The agents' step (Huang et al. 2019, Algorithm 1, step 4) is a proximal step of f_i, with the
    regulariser if agents have it, at a public centre:

        w_i <- argmin f_i(w_i) + r(w_i) - gamma_i'(w_i - w) + (rho/2) |w_i - w|^2
             = the proximal step at w + gamma_i / rho.

    The oracle decides the method:

    - `taciturn.oracles.ProximalStep` without noise: ADMM, Algorithm 1;
    - `ProximalStep` with noise on its answer: ADMM with primal variable perturbation (PVP),
      Algorithm 2, whose duals follow the noised iterates (step 9);
    - `taciturn.oracles.PerturbedStep`, noise inside the objective: dual variable perturbation
      (DVP), Zhang and Zhu 2017.

    The oracle must have the same rho, which a plan checks, and the regulariser if and only if
    `regulariser_at` is "agents": build both with `taciturn.algorithms.at_agents`.

    **Guarantee.** State, message and public value are functions of noised answers and public
    constants alone, so a run is post-processing of the adaptive composition of its answers. The
    question depends on the agent's dual or iterate, hence no credit is taken for summation.
    """

    @property
    @override
    def step_rho(self) -> float:
        return self.rho

    @override
    def ask(self, state: DualState, inbox: Model, turn: Turn) -> Centre:
        return Centre(inbox + state.dual / self.rho)

    @override
    def tell(self, state: DualState, inbox: Model, turn: Turn, answer: Model) -> DualState:
        return state._replace(iterate=answer)
