"""Gossip with gradient tracking on noised gradients: DIGing."""

from __future__ import annotations

from typing_extensions import override

from taciturn.algorithms import Exchanged, GossipState, NoisedGossip, Turn
from taciturn.errors import InputError
from taciturn.problems import NoRegulariser, WholeSpace
from taciturn.typing import Model


class DIGing(NoisedGossip):
    r"""DIGing (Nedic, Olshevsky, Shi 2017): gradient tracking, for smooth problems.

        x_i <- sum_j W_ij x_j - tau s_i,    s_i <- sum_j W_ij s_j + g_i(new) - g_i(old).

    It is the kernel with M = W^2, B = I, C = (I - W)^2 and no prox. An agent sends x and s. If all
    agents have one Hessian h, the mode of an eigenvalue l of W obeys
    m^2 - (2 l - tau h) m + l^2 - tau h = 0, whose roots lie in the unit disc iff
    2 tau h < (1 + l)^2; hence the limit (1 + l)^2 / (2 L) with the least l, which is necessary.

    Raises
    ------
    InputError
        If the problem has a constraint or a regulariser that is not smooth.
    """

    def __check_init__(self) -> None:
        free = isinstance(self.problem.constraint, WholeSpace)
        if not (free and isinstance(self.problem.regulariser, NoRegulariser)):
            raise InputError(
                "DIGing takes no regulariser and no constraint; use NIDS or EXTRA, which do"
            )

    @override
    def limit(self, smoothness: float) -> tuple[float, str]:
        limit = (1 + self.least_eigenvalue) ** 2 / (2 * smoothness)
        return limit, "(1 + least eigenvalue of W)^2 / (2 L)"

    @override
    def receive(self, state: GossipState, inbox: Exchanged, turn: Turn) -> GossipState:
        moved = state.first + inbox.first - turn.values["step_size"] * state.second
        return state._replace(model=moved, first=moved, second=state.second + inbox.second)

    @override
    def tell(self, state: GossipState, inbox: Exchanged, turn: Turn, answer: Model) -> GossipState:
        # the dual's place holds the gradient that the tracker last took in
        return state._replace(second=state.second + answer - state.dual, dual=answer)
