"""How messages travel along a spanning tree: sums go up, the total comes down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import jax
import numpy as np
from typing_extensions import override

from taciturn.engine import Plan
from taciturn.engine.program import server_turns
from taciturn.engine.protocol import at
from taciturn.engine.tree import OnTree
from taciturn.typing import PyTree
from taciturn_federation.codec import Layout
from taciturn_federation.envelope import Kind
from taciturn_federation.exchange import AmongAgents, Need, Past, model_of
from taciturn_federation.last_question import LastQuestion
from taciturn_federation.masking import check_total
from taciturn_federation.party import Packet, Released
from taciturn_federation.subjects import Subjects


class TreeExchange(AmongAgents):
    """Sums go up a spanning tree; the total goes down it as its root signed it.

    In round t an agent hears the total of round t - 1 and the sums of round t of those just below
    it; it answers, adds, and sends the sum to its parent. Where answers are masked these are words,
    and what an agent sends is the sum of the masked words of all that are below it and of its own.

    **Guarantee.** What leaves an agent is a function of its masked or noised message and of what
    others sent it (`taciturn.engine.tree.OnTree`).
    """

    one_chain: ClassVar[bool] = True

    def __init__(
        self, plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
    ) -> None:
        super().__init__(plan, subjects, agent, last)
        network = cast(OnTree, self.network)
        ends = (np.asarray(end).ravel().tolist() for end in (network.senders, network.receivers))
        parents = dict(zip(*ends, strict=True))
        self._root, self._parent = int(network.root), parents.get(agent)
        self._below = tuple(sorted(one for one, parent in parents.items() if parent == agent))
        # on the host: on a device each leaf would be cut out by a program of its own
        self._server = jax.tree.map(np.asarray, server_turns(plan.program))

    @override
    def takes_part(self, turn: int) -> bool:
        return True

    @override
    def in_common(self, turn: int) -> tuple[Need, ...]:
        return () if turn == 0 else (Need(Kind.TOTAL, self._root, turn - 1),)

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        return (*self.in_common(turn), *(Need(Kind.MESSAGE, one, turn) for one in self._below))

    @override
    def _turn_of(self, need: Need) -> int | None:
        if need.kind != Kind.MESSAGE:
            return super()._turn_of(need)
        due = need.round < self.plan.rounds and need.sender in self._below
        return need.round if due else None

    @override
    def wish(self, need: Need) -> str:
        if need.kind == Kind.TOTAL:
            return self.subjects.edge(self.agent, self._parent or 0)
        return super().wish(need)

    @property
    @override
    def keeps(self) -> Layout:
        return self.layouts.inbox

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        if turn == 0:
            return self.network.first_inboxes(self.algorithm, self.plan.program.template)
        return self._after(turn - 1, past.heard, bodies[0])

    def _after(self, turn: int, public: PyTree, total: PyTree) -> PyTree:
        return _combined(self.network, self.algorithm, public, total, at(self._server, turn))

    @override
    def _layout(self, need: Need) -> Layout:
        return self.layouts.inbox if need.kind == Kind.FINAL else self.layouts.message

    @property
    @override
    def says(self) -> Kind:
        return Kind.MESSAGE if self._parent is not None else Kind.TOTAL

    @override
    def added(self, message: bytes, bodies: Sequence[PyTree]) -> bytes:
        layout, below = self.layouts.message, bodies[len(bodies) - len(self._below) :]
        total = layout.unpacked(message, "this site")
        for one in below:
            total = jax.tree.map(np.add, total, one)  # whole numbers are added up to 2^64
        if self._parent is None and self.plan.program.summed:
            check_total(total, self.plan.program.agents)
        return layout.packed(total)

    @override
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        if self._parent is not None:
            return [Packet(self.subjects.edge(self.agent, self._parent), sealed)]
        return [] if turn + 1 == self.plan.rounds else self.handed_on(sealed)

    @override
    def hands_on(self, turn: int) -> Need | None:
        inner = turn > 0 and self._parent is not None and self._below
        return self.in_common(turn)[0] if inner else None

    @override
    def handed_on(self, sealed: bytes) -> list[Packet]:
        return [Packet(self.subjects.edge(self.agent, one), sealed) for one in self._below]

    @property
    @override
    def finals(self) -> tuple[Need, ...]:
        return (Need(Kind.FINAL, self._root, self.plan.rounds),)

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        if self._parent is not None:
            return None
        turn = self.plan.rounds - 1
        return self.layouts.inbox.packed(self._after(turn, past.heard, past.own(turn)))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return model_of(self.plan, finals[0])


@jax.jit
def _combined(
    network: OnTree, algorithm: Any, public: PyTree, total: PyTree, server: Any
) -> PyTree:
    return network.combined(algorithm, public, total, server)
