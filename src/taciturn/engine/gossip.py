"""Gossip: each agent hears how its neighbours' messages differ from its own."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn.algorithms import GossipAlgorithm, Turn
from taciturn.engine.network import Together, Traffic, check_agents
from taciturn.network import Mixing
from taciturn.typing import Array, PyTree

_FEW = 8  # neighbours: each is a separate gather in the compiled program


class Neighbours(eqx.Module):
    """Neighbours of every agent with weights, `(K, A)`; padded with the agent at weight 0."""

    agents: Int[Array, "K A"]
    weights: Float[Array, "K A"]


class Chebyshev(eqx.Module):
    """How several exchanges of a round are weighted (`taciturn.network.Mixing`)."""

    pace: Float[Array, ""]
    momentum: Float[Array, " K"]


class Gossip(Together):
    """Agent i hears sum_j w_ij (m_j - m_i); all are asked in every round.

    With K exchanges a round w_ij are the entries of P_K(W) (`taciturn.network.Mixing`): agents send
    what they have after each exchange.

    **Guarantee.** What is sent in the first exchange are the messages, functions of noised answers;
    what is sent in later ones are public linear functions of these. Nothing is asked in between.

    Attributes
    ----------
    first, second, weights
        Agent `first[e]` and agent `second[e]` weigh each other by w_e.
    neighbours
        The same by agent, which is quicker, unless an agent has more than eight neighbours.
    """

    algorithms: ClassVar[type] = GossipAlgorithm
    data: ClassVar[str] = "a Mixing"
    inbox_axis: ClassVar[int | None] = 0

    first: Int[Array, " L"]
    second: Int[Array, " L"]
    weights: Float[Array, " L"]
    neighbours: Neighbours | None = eqx.field(default=None, repr=False)
    chebyshev: Chebyshev | None = None

    @classmethod
    @override
    def connect(cls, data: Mixing, agents: int, rounds: int) -> Gossip:
        check_agents(data.graph.agents, agents)
        first, second = (jnp.asarray(end, jnp.int32) for end in data.graph.edges.T)
        weights, further = jnp.asarray(data.weights), None
        if data.exchanges > 1:
            further = Chebyshev(jnp.asarray(data.pace), jnp.asarray(data.momentum))
        return cls(agents, first, second, weights, neighbours_of(data), further)

    @override
    def first_inboxes(self, algorithm: GossipAlgorithm, template: Array) -> PyTree:
        return self._copies(algorithm.first_inbox(template))

    @override
    def inbox(self, inboxes: PyTree, agent: int) -> PyTree:
        return jax.tree.map(lambda x: x[agent], inboxes)

    @override
    def deliver(
        self, algorithm: GossipAlgorithm, inboxes: PyTree, messages: PyTree, server: Turn
    ) -> PyTree:
        return jax.tree.map(self.mixed, messages)

    @override
    def model(self, algorithm: GossipAlgorithm, states: PyTree, inboxes: PyTree) -> Array:
        """Return the mean of the agents' models."""
        mean: Array = jnp.mean(jax.vmap(algorithm.model)(states), axis=0)
        return mean

    @override
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return a message in both directions of every edge, in every exchange of every round."""
        exchanges = 1 if self.chebyshev is None else len(self.chebyshev.momentum)
        messages = 2 * len(self.first) * exchanges * rounds
        return Traffic(messages, messages * message)

    def mixed(self, messages: Float[Array, "A ..."]) -> Float[Array, "A ..."]:
        """Return how all exchanges of a round move the messages; exactly 0 at agreement."""
        if self.chebyshev is None:
            return self.differences(messages)
        pace = self.chebyshev.pace

        def exchange(moved: tuple[Array, Array], factor: Array) -> tuple[tuple[Array, Array], None]:
            now, before = moved
            flow = now + pace * self.differences(messages + now)
            return (factor * flow + (1 - factor) * before, now), None

        start = (jnp.zeros_like(messages), jnp.zeros_like(messages))
        (moved, _), _ = jax.lax.scan(exchange, start, self.chebyshev.momentum)
        return moved

    def differences(self, messages: Float[Array, "A ..."]) -> Float[Array, "A ..."]:
        """Return sum_j w_ij (m_j - m_i) for every agent i.

        What an edge brings to its two ends differs in sign alone, so that the sum over all agents
        is 0 up to rounding, and every flow is exactly 0 at agreement.
        """
        ones = (1,) * (messages.ndim - 1)
        if self.neighbours is not None:  # a scatter of edges costs several times these gathers
            lists = zip(self.neighbours.agents, self.neighbours.weights, strict=True)
            flows = (w.reshape(-1, *ones) * (messages[others] - messages) for others, w in lists)
            return sum(flows, jnp.zeros_like(messages))
        width = self.weights.reshape(-1, *ones)
        flow = width * (messages[self.second] - messages[self.first])
        return jnp.zeros_like(messages).at[self.first].add(flow).at[self.second].add(-flow)


def neighbours_of(mixing: Mixing) -> Neighbours | None:
    """Return the neighbours by agent, or None if an agent has more than eight."""
    graph = mixing.graph
    most = int(np.max(graph.degrees))
    if most > _FEW:
        return None
    agents = np.tile(np.arange(graph.agents), (most, 1))
    weights, filled = np.zeros(agents.shape), np.zeros(graph.agents, int)
    for pair, weight in zip(graph.edges.tolist(), mixing.weights, strict=True):
        for agent, other in (pair, pair[::-1]):
            agents[filled[agent], agent] = other
            weights[filled[agent], agent] = weight
            filled[agent] += 1
    return Neighbours(jnp.asarray(agents, jnp.int32), jnp.asarray(weights))
