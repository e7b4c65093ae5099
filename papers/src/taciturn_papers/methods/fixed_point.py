"""ADMM as a noisy fixed-point iteration (Cyffers, Bellet and Basu 2023)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
from typing_extensions import override

from taciturn.algorithms import Noise, StarAlgorithm, Turn
from taciturn.checks import fraction, positive
from taciturn.kernel.questions import Centre
from taciturn.kernel.records import Spec
from taciturn.problems import Problem
from taciturn.typing import HostArray, Model


class FixedPointState(NamedTuple):
    """An agent's variable u_i, and by how much it moved in the last round."""

    variable: Model
    change: Model


class FixedPointPublic(NamedTuple):
    """The mean of all u_i, and the model that follows from it."""

    mean: Model
    model: Model


class FixedPointADMM(StarAlgorithm):
    r"""Federated private ADMM, a lambda-averaged Douglas-Rachford iteration with noise.

    "From Noisy Fixed-Point Iterations to Private ADMM for Centralized and Federated Learning"
    (ICML 2023), the federated algorithm with every user taking part in every round. With the public
    model z, gamma = 1 / rho and 0 < lambda <= 1:

        x_i <- prox_{gamma f_i}(2 z - u_i),           noised
        u_i <- u_i + 2 lambda (x_i - z),              its change is what agent i sends
        z   <- prox_{gamma r}(mean_i u_i),            the aggregator's step

    from u_i = z = 0. Their noise eta / 2 stands beside x_i, as here; their prox of f_i is that of
    the mean over the agent's records. Without noise it converges for every lambda < 1 and rho > 0.

    **Guarantee.** Variables, changes and models are functions of noised answers and public
    constants. The question depends on the agent's own variable, so nothing is credited to
    summation, and each answer is accounted for by itself: the paper's amplification by hidden
    iterates, which needs users who keep what they hear to themselves, is not claimed.

    Attributes
    ----------
    problem
        Supplies the regulariser and the constraint; the oracle has neither.
    rho
        1 / gamma; the oracle's.
    relaxation
        lambda.
    """

    problem: Problem
    rho: float = eqx.field(static=True)
    relaxation: float = eqx.field(static=True, default=0.5)

    def __check_init__(self) -> None:
        positive("rho", self.rho)
        fraction("relaxation", self.relaxation)

    @property
    @override
    def step_rho(self) -> float:
        return self.rho

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {}

    @override
    def start(self, template: Model) -> FixedPointState:
        return FixedPointState(template, template)

    @override
    def ask(self, state: FixedPointState, inbox: FixedPointPublic, turn: Turn) -> Centre:
        return Centre(2 * inbox.model - state.variable)

    @override
    def tell(
        self, state: FixedPointState, inbox: FixedPointPublic, turn: Turn, answer: Model
    ) -> FixedPointState:
        change = 2 * self.relaxation * (answer - inbox.model)
        return FixedPointState(state.variable + change, change)

    @override
    def send(
        self, state: FixedPointState, inbox: FixedPointPublic, turn: Turn
    ) -> tuple[FixedPointState, Model]:
        return state, state.change

    @override
    def first_public(self, template: Model) -> FixedPointPublic:
        return FixedPointPublic(template, template)

    @override
    def combine(
        self, public: FixedPointPublic, mean_message: Model, turn: Turn
    ) -> FixedPointPublic:
        mean = public.mean + mean_message
        return FixedPointPublic(mean, self.problem.prox(mean, 1 / self.rho))

    @override
    def model(self, public: FixedPointPublic) -> Model:
        return public.model
