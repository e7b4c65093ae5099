"""The network of a request: by name or from a file, with its walk or its mixing matrix."""

from __future__ import annotations

from pathlib import Path

from tacit.algorithms import METHODS, method_named
from tacit.engine import Network
from tacit.errors import InputError
from tacit.network import (
    SUFFIXES,
    Graph,
    Walk,
    cyclic_walk,
    metropolis,
    network_named,
    read_network,
    uniform_walk,
)
from tacit.proposal.request import Request, rounds_of

DEFAULT_NETWORK, DEFAULT_WALK = "ring", "cyclic"
WALKS = ("cyclic", "random")


def network_for(request: Request) -> Network:
    """Return how the agents of a request are connected; None if there is an aggregator.

    On a relay the token takes `request.walk`: "cyclic" (a short closed route, if not given) or
    "random" (a neighbour drawn uniformly; the seed is `split_seed`, which is public). An agent that
    has answered `request.cap` times passes the token on and answers nothing. Gossip mixes with
    Metropolis weights.

    Raises
    ------
    InputError
        If the algorithm has an aggregator and a network, walk or cap is given, or it gossips and a
        walk or cap is given, or the network is none (`tacit.network.network_named`).
    """
    kind = method_named(request.algorithm).network
    if kind is None:
        _refuse(request, ("network", "walk", "cap"), "has an aggregator", ("relay", "gossip"))
        return None
    graph = _graph(request)
    if kind == "gossip":
        _refuse(request, ("walk", "cap"), "asks all agents in every round", ("relay",))
        return metropolis(graph)
    return _walk(request, graph)


def _walk(request: Request, graph: Graph) -> Walk:
    name, hops = request.walk or DEFAULT_WALK, rounds_of(request)
    if name not in WALKS:
        raise InputError(f"walk is {name!r}; choose from {', '.join(WALKS)}")
    if name == "cyclic":
        walk = cyclic_walk(graph, hops)
    else:
        walk = uniform_walk(graph, hops, seed=request.split_seed)
    return walk if request.cap is None else walk.capped(request.cap)


def _graph(request: Request) -> Graph:
    text = request.network or DEFAULT_NETWORK
    if not text.lower().endswith(SUFFIXES):
        return network_named(text, request.agents)
    graph = read_network(Path(text))
    if graph.agents != request.agents:
        raise InputError(
            f"the network in {text} has {graph.agents} agents, the data {request.agents}; make "
            "them equal"
        )
    return graph


def _refuse(request: Request, names: tuple[str, ...], why: str, kinds: tuple[str, ...]) -> None:
    given = [name for name in names if getattr(request, name) is not None]
    if given:
        suited = ", ".join(name for name, method in METHODS.items() if method.network in kinds)
        raise InputError(
            f"{request.algorithm} {why}, so leave the {given[0]} out; those who take one are "
            f"{suited}"
        )
