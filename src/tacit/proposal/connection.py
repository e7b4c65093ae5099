"""The network of a request: by name or from a file, with the walk of its token, as content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacit import checks
from tacit.algorithms import METHODS, Method
from tacit.errors import InputError
from tacit.network import (
    SUFFIXES,
    Graph,
    cyclic_walk,
    network_named,
    read_network,
    uniform_walk,
)
from tacit.proposal.parts import Connection

DEFAULT_NETWORK, DEFAULT_WALK = "ring", "cyclic"
WALKS = ("cyclic", "random")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked of the network of a method without aggregator; None for the default.

    Attributes
    ----------
    network
        A name (`tacit.network.network_named`) or a file of edges.
    walk
        On a relay: "cyclic", a short closed route, or "random", to a neighbour drawn uniformly.
    cap
        On a relay: an agent who has answered that often passes the token on and answers nothing.
    """

    network: str | None = None
    walk: str | None = None
    cap: int | None = None

    def check(self, name: str, method: Method) -> None:
        """Raise `InputError` unless the method called `name` can be asked for these."""
        if method.network is None:
            self._refuse(name, ("network", "walk", "cap"), "has an aggregator", "relay", "gossip")
        if method.network == "gossip":
            self._refuse(name, ("walk", "cap"), "asks all agents in every round", "relay")
        if self.walk is not None and self.walk not in WALKS:
            raise InputError(f"walk is {self.walk!r}; choose from {', '.join(WALKS)}")
        if self.cap is not None:
            checks.at_least("cap", self.cap, 1)

    def _refuse(self, name: str, options: tuple[str, ...], why: str, *kinds: str) -> None:
        given = [option for option in options if getattr(self, option) is not None]
        if given:
            suited = ", ".join(other for other, one in METHODS.items() if one.network in kinds)
            raise InputError(
                f"{name} {why}, so leave the {given[0]} out; those who take one are {suited}"
            )


def connected(
    wanted: Wanted, method: Method, agents: int, rounds: int, *, seed: int
) -> Connection | None:
    """Return how so many agents are connected in so many rounds; None if there is an aggregator.

    Parameters
    ----------
    seed
        Public; of a random walk.

    Raises
    ------
    InputError
        If the network is none (`tacit.network.network_named`), or has another number of agents.
    """
    if method.network is None:
        return None
    name = wanted.network or DEFAULT_NETWORK
    graph = _graph(name, agents)
    holders, walk = None, None
    if method.network == "relay":
        walk = wanted.walk or DEFAULT_WALK
        cyclic = walk == "cyclic"
        route = cyclic_walk(graph, rounds) if cyclic else uniform_walk(graph, rounds, seed=seed)
        holders = tuple(route.holders.tolist())
    edges = tuple((int(one), int(other)) for one, other in graph.edges.tolist())
    return Connection(name=name, edges=edges, walk=walk, holders=holders, cap=wanted.cap)


def _graph(text: str, agents: int) -> Graph:
    if not text.lower().endswith(SUFFIXES):
        return network_named(text, agents)
    graph = read_network(Path(text))
    if graph.agents != agents:
        raise InputError(
            f"the network in {text} has {graph.agents} agents, the data {agents}; make them equal"
        )
    return graph
