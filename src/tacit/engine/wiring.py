"""How a plan's agents are connected, as the compiled program sees it.

A star has an aggregator and asks all agents in every round. Gossip has none: all are asked, then
each agent learns what its neighbours' messages weigh against its own. On a relay one agent holds a
token: only it is asked, and what it sends is the next holder's inbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Num

from tacit.algorithms import Algorithm, GossipAlgorithm, RelayAlgorithm, StarAlgorithm
from tacit.errors import InputError
from tacit.network import Mixing, Walk
from tacit.privacy import NO_QUESTION
from tacit.typing import Array, HostArray

Network: TypeAlias = Mixing | Walk | None
_FEW = 8  # neighbours: each is a gather of its own in the compiled program


class Star(eqx.Module):
    """An aggregator and all agents."""


class Beside(eqx.Module):
    """Each agent's neighbours and their weights, K lists of A; filled up with itself, weight 0."""

    neighbours: Int[Array, "K A"]
    weights: Float[Array, "K A"]


class Gossip(eqx.Module):
    """Edges and their weights: agent `first[e]` and agent `second[e]` weigh each other by w_e.

    Attributes
    ----------
    beside
        The same by agent, where nobody has many neighbours: quicker then.
    """

    first: Int[Array, " L"]
    second: Int[Array, " L"]
    weights: Float[Array, " L"]
    beside: Beside | None = None


class Relay(eqx.Module):
    """Who holds the token at each hop, how often before, and whether it takes part."""

    holders: Int[Array, " T"]
    visits: Int[Array, " T"]
    awake: Bool[Array, " T"]


Wiring: TypeAlias = Star | Gossip | Relay


def wired(network: Network, algorithm: Algorithm, agents: int, rounds: int) -> Wiring:
    """Return the network as arrays, once it suits the algorithm, the agents and the rounds.

    Raises
    ------
    InputError
        If the network has another number of agents, a walk has another number of hops than there
        are rounds or leaves out an agent, or the algorithm is made for another kind of network.
    """
    _check_kind(network, algorithm)
    if network is None:
        return Star()
    if network.graph.agents != agents:
        raise InputError(
            f"the network has {network.graph.agents} agents, the data {agents}; make them equal"
        )
    if isinstance(network, Mixing):
        first, second = (jnp.asarray(end, jnp.int32) for end in network.graph.edges.T)
        return Gossip(first, second, jnp.asarray(network.weights), beside(network))
    if len(network.holders) != rounds:
        raise InputError(
            f"the walk has {len(network.holders)} hops, the plan {rounds} rounds; on a relay a "
            "round is one hop, so make them equal"
        )
    missing = np.flatnonzero(network.counts == 0)
    if missing.size:
        raise InputError(
            f"the walk never asks agent {missing[0]}, whose records would not count; allow more "
            "hops"
        )
    return Relay(*(jnp.asarray(x) for x in (network.holders, network.visits, network.awake)))


def beside(mixing: Mixing) -> Beside | None:
    """Return the neighbours by agent, or None if an agent has more than `_FEW`."""
    graph = mixing.graph
    if int(np.max(graph.degrees)) > _FEW:
        return None
    shape = (int(np.max(graph.degrees)), graph.agents)
    neighbours, weights = np.tile(np.arange(graph.agents), (shape[0], 1)), np.zeros(shape)
    filled = np.zeros(graph.agents, int)
    for pair, weight in zip(graph.edges.tolist(), mixing.weights, strict=True):
        for agent, other in (pair, pair[::-1]):
            neighbours[filled[agent], agent] = other
            weights[filled[agent], agent] = weight
            filled[agent] += 1
    return Beside(jnp.asarray(neighbours, jnp.int32), jnp.asarray(weights))


def _check_kind(network: Network, algorithm: Algorithm) -> None:
    suits = {
        "no network (an aggregator)": network is None and isinstance(algorithm, StarAlgorithm),
        "a Mixing": isinstance(network, Mixing) and isinstance(algorithm, GossipAlgorithm),
        "a Walk": isinstance(network, Walk) and isinstance(algorithm, RelayAlgorithm),
    }
    if not any(suits.values()):
        needs = next(
            name
            for name, kind in zip(
                suits, (StarAlgorithm, GossipAlgorithm, RelayAlgorithm), strict=True
            )
            if isinstance(algorithm, kind)
        )
        given = "none" if network is None else f"a {type(network).__name__}"
        raise InputError(
            f"{type(algorithm).__name__} needs {needs}, the plan was given {given}; change either"
        )


def asked_kinds(network: Network, kinds: Int[HostArray, "T E"], agents: int) -> HostArray:
    """Return the kind of every agent's questions, `(A, T, E)`; -1 where an agent is not asked."""
    everyone = np.broadcast_to(kinds, (agents, *kinds.shape))
    if not isinstance(network, Walk):
        return everyone
    holds = (network.holders == np.arange(agents)[:, None]) & network.awake
    return np.where(holds[:, :, None], everyone, NO_QUESTION)


def for_all_rounds(
    network: Network, rounds: int, schedule: Callable[[int], dict[str, HostArray]]
) -> dict[str, HostArray]:
    """Return schedules `(..., T)` made for as many rounds as somebody takes part in.

    At the hops of a relay that only pass the token on, nobody reads them: they repeat what is
    before.
    """
    if not isinstance(network, Walk):
        return schedule(rounds)
    own = np.cumsum(network.awake) - 1
    return {name: values[..., own] for name, values in schedule(int(own[-1]) + 1).items()}


def of_those_asked(network: Network, values: Float[HostArray, "A T E"]) -> HostArray:
    """Return `(T, E, S)`: the values of the S agents that may be asked in a round."""
    last = np.moveaxis(values, 0, -1)
    if not isinstance(network, Walk):
        return last
    return np.take_along_axis(last, network.holders[:, None, None], axis=-1)


def for_all_agents(
    wiring: Wiring, values: Array, agents: int, *, fill: int = 0
) -> Num[Array, "T E A ..."]:
    """Return recorded values `(T, E, S, ...)` with one place per agent; `fill` at the others."""
    if not isinstance(wiring, Relay):
        return values
    holds = wiring.holders[:, None, None] == jnp.arange(agents, dtype=jnp.int32)
    wide = holds.reshape(holds.shape + (1,) * (values.ndim - 3))
    return jnp.where(wide, values, jnp.asarray(fill, values.dtype))
