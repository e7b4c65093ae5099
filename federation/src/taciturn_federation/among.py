"""How messages travel on networks without a coordinator's answers, and the table of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from taciturn.engine import Plan
from taciturn.engine.gossip import Gossip
from taciturn.engine.network import Star
from taciturn.engine.relay import Relay
from taciturn.engine.tree import OnTree
from taciturn.typing import PyTree
from taciturn_federation.along_tree import TreeExchange
from taciturn_federation.codec import Layout
from taciturn_federation.envelope import Kind
from taciturn_federation.exchange import AmongAgents, Exchange, Need, Past, StarExchange
from taciturn_federation.last_question import LastQuestion
from taciturn_federation.party import Packet, Released
from taciturn_federation.subjects import Subjects


class RelayExchange(AmongAgents):
    """The holder of the token hears it, and passes it on."""

    def __init__(
        self, plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
    ) -> None:
        super().__init__(plan, subjects, agent, last)
        network = cast(Relay, self.network)
        self._holders: list[int] = np.asarray(network.holders).tolist()

    @override
    def takes_part(self, turn: int) -> bool:
        return self._holders[turn] == self.agent

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        if turn == 0:
            return ()
        return (Need(Kind.MESSAGE, self._holders[turn - 1], turn - 1),)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        if turn == 0:
            return self.algorithm.first_token(self.plan.program.template)
        return bodies[0]

    @override
    def _layout(self, need: Need) -> Layout:
        return self.layouts.message

    @override
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        if turn + 1 == self.plan.rounds:
            return []
        return [Packet(self.subjects.edge(self.agent, self._holders[turn + 1]), sealed)]

    @property
    @override
    def finals(self) -> tuple[Need, ...]:
        return (Need(Kind.FINAL, self._holders[-1], self.plan.rounds),)

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        if self._holders[-1] != self.agent:
            return None
        return self.layouts.message.packed(past.own(self.plan.rounds - 1))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return Released(np.asarray(self.algorithm.model(jax.tree.map(jnp.asarray, finals[0]))))


class GossipExchange(AmongAgents):
    """All agents send to their neighbours in every round, and hear how these differ from them."""

    def __init__(
        self, plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
    ) -> None:
        super().__init__(plan, subjects, agent, last)
        network = cast(Gossip, self.network)
        ends = zip(
            np.asarray(network.first).tolist(),
            np.asarray(network.second).tolist(),
            np.asarray(network.weights).tolist(),
            strict=True,
        )
        around = [
            (second if first == agent else first, weight)
            for first, second, weight in ends
            if agent in (first, second)
        ]
        self._weights = dict(sorted(around))

    @override
    def takes_part(self, turn: int) -> bool:
        return True

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        if turn == 0:
            return ()
        return tuple(Need(Kind.MESSAGE, other, turn - 1) for other in self._weights)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        """Return sum_j w_ij (m_j - m_i) over the neighbours j, in ascending order."""
        if turn == 0:
            return self.algorithm.first_inbox(self.plan.program.template)
        mine, weights = past.own(turn - 1), tuple(self._weights.values())

        def difference(own_leaf: Any, *others: Any) -> Any:
            flows = (
                np.asarray(weight, own_leaf.dtype) * (other - own_leaf)
                for weight, other in zip(weights, others, strict=True)
            )
            return sum(flows, np.zeros_like(own_leaf))

        return jax.tree.map(difference, mine, *bodies)

    @override
    def _layout(self, need: Need) -> Layout:
        return self.layouts.model if need.kind == Kind.FINAL else self.layouts.message

    @override
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        if turn + 1 == self.plan.rounds:
            return []
        return [Packet(self.subjects.edge(self.agent, other), sealed) for other in self._weights]

    @property
    @override
    def finals(self) -> tuple[Need, ...]:
        agents = range(self.plan.program.agents)
        return tuple(Need(Kind.FINAL, agent, self.plan.rounds) for agent in agents)

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        return self.layouts.model.packed(self.algorithm.model(jax.tree.map(jnp.asarray, state)))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return Released(np.asarray(jnp.mean(jnp.stack(tuple(map(jnp.asarray, finals))), axis=0)))


def exchange_of(
    plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
) -> Exchange:
    """Return how messages travel in a plan, as an agent sees it, or `COORDINATOR`."""
    kinds: dict[type, type[Exchange]] = {
        Star: StarExchange,
        Relay: RelayExchange,
        Gossip: GossipExchange,
        OnTree: TreeExchange,
    }
    return kinds[type(plan.program.network)](plan, subjects, agent, last)
