"""Linearised consensus ADMM by gossip."""

from __future__ import annotations

from typing_extensions import override

from tacit.algorithms.algorithm import Turn
from tacit.algorithms.gossip import GossipState, NoisedGossip
from tacit.typing import Model


class LinearisedGossipADMM(NoisedGossip):
    r"""Decentralised linearised ADMM (IC-ADMM, Chang, Hong, Wang 2015) on noised gradients.

    With p_i the dual and beta, c the parameters of the paper,

        p_i <- p_i + c sum_j w_ij (x_i - x_j),
        x_i <- prox_{tau r}(x_i - tau (g_i + p_i + c sum_j w_ij (x_i - x_j))),

    tau = 1/(beta + 2 c), the curvature made the same on every graph by the term
    c (1 - sum_j w_ij) |x - x_i|^2. Here
    c tau = 1/4. Unlike PG-EXTRA its dual sums up the models themselves, so an agent sends x_i only.
    If all agents have one Hessian h, the mode of an eigenvalue l of W, s = (1 - l)/4, obeys
    m^2 - (2 - 2 s - tau h) m + 1 - s - tau h = 0, whose roots lie in the unit disc iff
    tau h < 2 - 3 s / 2; with s <= 1/2 the limit is 5 / (4 L), which is necessary.
    """

    @override
    def limit(self, smoothness: float) -> tuple[float, str]:
        return 1.25 / smoothness, "5 / (4 L)"

    @override
    def first_inbox(self, template: Model) -> Model:
        return template

    @override
    def receive(self, state: GossipState, inbox: Model, turn: Turn) -> GossipState:
        return state._replace(dual=state.dual - inbox / 4, first=state.model + inbox / 4)

    @override
    def tell(self, state: GossipState, inbox: Model, turn: Turn, answer: Model) -> GossipState:
        step = turn.values["step_size"]
        model = self.problem.prox(state.first - step * answer - state.dual, step)
        return state._replace(model=model)

    @override
    def send(self, state: GossipState, inbox: Model, turn: Turn) -> tuple[GossipState, Model]:
        return self.averaged(state, turn), state.model
