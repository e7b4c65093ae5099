"""The kind of the network that a user passes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tacit.algorithms import Algorithm
from tacit.engine.gossip import Gossip
from tacit.engine.network import NetworkKind
from tacit.engine.relay import Relay
from tacit.engine.star import Star
from tacit.errors import InputError
from tacit.network import Mixing, Network, Walk

KINDS: Mapping[type, type[NetworkKind]] = MappingProxyType(
    {type(None): Star, Mixing: Gossip, Walk: Relay}
)


def connect(network: Network, algorithm: Algorithm, agents: int, rounds: int) -> NetworkKind:
    """Return the network as arrays, once it suits the algorithm, the agents and the rounds.

    Raises
    ------
    InputError
        If it is no network, has another number of agents, a walk has another number of hops than
        there are rounds or leaves out an agent, or the algorithm is made for another kind.
    """
    kind = KINDS.get(type(network))
    if kind is None:
        raise InputError(
            f"network is {network!r}; pass None (an aggregator), a tacit.network.Mixing or a "
            "tacit.network.Walk"
        )
    if not isinstance(algorithm, kind.algorithms):
        needed = [other.data for other in KINDS.values() if isinstance(algorithm, other.algorithms)]
        given = "none" if network is None else kind.data
        raise InputError(
            f"{type(algorithm).__name__} needs {' or '.join(needed)}, the plan was given {given}; "
            "change either"
        )
    return kind.connect(network, agents, rounds)
