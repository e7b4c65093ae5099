"""Consensus ADMM by gossip with exact steps (PVP, DVP), and with recycled answers."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from taciturn.algorithms import GossipAlgorithm, Noise, Turn, averaging
from taciturn.checks import positive
from taciturn.errors import InputError
from taciturn.kernel.questions import Centre
from taciturn.kernel.records import Spec
from taciturn.problems import Problem, WholeSpace
from taciturn.typing import HostArray, Model


class ADMMState(NamedTuple):
    """An agent's model x_i, scaled dual mu_i, last centre and revealed gradient, and average."""

    model: Model
    dual: Model
    centre: Model
    slope: Model
    average: Model


class GossipADMM(GossipAlgorithm):
    r"""Decentralised consensus ADMM with exact steps (Zhang and Zhu 2017).

    Agents minimise f_i(x) + 2 lambda_i'x + eta sum_j w_ij |x - (x_i + x_j)/2|^2, then move
    lambda_i by (eta / 2) sum_j w_ij (x_i - x_j). With d_i = sum_j w_ij (x_j - x_i), which agents
    receive, eta = rho / 2, mu_i = 2 lambda_i / rho, and the additional term (rho/2) (1 - sum_j
    w_ij) |x - x_i|^2, which makes the curvature rho on every graph (on a regular one it only
    rescales eta):

        mu_i <- mu_i - d_i / 2,    v_i = x_i + d_i / 2 - mu_i,
        x_i <- argmin f_i(x) + r(x) + (rho/2) |x - v_i|^2.

    The oracle determines the method, as for `taciturn.algorithms.ADMM`: `ProximalStep` without
    noise gives ADMM, with noise on its answer PVP; `PerturbedStep`, with noise inside the
    objective, gives DVP. The oracle must have the same rho, and the problem with its regulariser.

    **Guarantee.** State and messages are functions of noised answers and public constants alone.

    Attributes
    ----------
    problem
        For its regulariser; the oracle uses it.
    rho
        Curvature of the quadratic.
    """

    problem: Problem
    rho: float

    def __check_init__(self) -> None:
        positive("rho", self.rho)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {"averaging": averaging(rounds, noise)}

    @override
    def start(self, template: Model) -> ADMMState:
        return ADMMState(template, template, template, template, template)

    @override
    def first_inbox(self, template: Model) -> Model:
        return template

    @override
    def receive(self, state: ADMMState, inbox: Model, turn: Turn) -> ADMMState:
        dual = state.dual - inbox / 2
        return state._replace(dual=dual, centre=state.model + inbox / 2 - dual)

    @override
    def ask(self, state: ADMMState, inbox: Model, turn: Turn) -> Centre:
        return Centre(state.centre)

    @override
    def tell(self, state: ADMMState, inbox: Model, turn: Turn, answer: Model) -> ADMMState:
        return state._replace(model=answer)

    @override
    def send(self, state: ADMMState, inbox: Model, turn: Turn) -> tuple[ADMMState, Model]:
        change = turn.values["averaging"] * (state.model - state.average)
        state = state._replace(average=state.average + change)
        return state, state.model

    @override
    def model(self, state: ADMMState) -> Model:
        return state.average


class RecycledADMM(GossipADMM):
    r"""R-ADMM (Zhang, Khalili, Liu 2018): every other round reuses an answer and asks no question.

    Rounds 0, 2, ... are those of `GossipADMM`. Their optimality condition reveals a gradient,
    g_i = rho (v_i - x_i) with v_i the centre and x_i the noised answer. Rounds 1, 3, ... step
    along it,

        x_i <- (x_i + d_i/2 - mu_i) - g_i / rho,      mu_i <- mu_i - d_i / 2 before it,

    which is the linearised step: it has no question, no ledger entry and no cost.

    **Guarantee.** As for `GossipADMM`; g_i is a function of a noised answer and of what was sent.

    Raises
    ------
    InputError
        If the problem has a constraint or a nonsmooth regulariser (MR-ADMM allows neither).
    """

    def __check_init__(self) -> None:
        smooth = np.isfinite(self.problem.regulariser.smoothness)
        if not (smooth and isinstance(self.problem.constraint, WholeSpace)):
            raise InputError(
                "R-ADMM takes a smooth regulariser and no constraint; use GossipADMM, which asks "
                "in every round"
            )

    @override
    def questions(self, rounds: int) -> HostArray:
        return -(np.arange(rounds)[:, None] % 2)

    @override
    def tell(self, state: ADMMState, inbox: Model, turn: Turn, answer: Model) -> ADMMState:
        asked = turn.question >= 0
        slope = jnp.where(asked, self.rho * (state.centre - answer), state.slope)
        model = jnp.where(asked, answer, state.centre - slope / self.rho)
        return state._replace(model=model, slope=slope)
