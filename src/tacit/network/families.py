"""Families of graphs, and a network by its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from tacit import checks
from tacit.errors import InputError
from tacit.network.graph import Graph
from tacit.typing import HostArray

_TRIES = 1000
Number = TypeVar("Number", int, float)


def ring(agents: int) -> Graph:
    """Return the cycle 0, 1, ..., A-1, 0 (two agents: one edge).

    Examples
    --------
    >>> ring(4).edges.tolist()
    [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    i = _agents(agents)
    return Graph(agents, np.stack([i, (i + 1) % agents], axis=1))


def path(agents: int) -> Graph:
    """Return the path 0, 1, ..., A-1."""
    i = _agents(agents)
    return Graph(agents, np.stack([i[:-1], i[1:]], axis=1))


def star(agents: int) -> Graph:
    """Return the graph in which agent 0 is the neighbour of all others."""
    i = _agents(agents)
    return Graph(agents, np.stack([np.zeros_like(i[1:]), i[1:]], axis=1))


def complete(agents: int) -> Graph:
    """Return the graph in which all are neighbours."""
    return Graph(agents, np.stack(np.triu_indices(len(_agents(agents)), k=1), axis=1))


def grid(rows: int, columns: int) -> Graph:
    """Return the rectangular grid; agent `columns * row + column` sits at (row, column)."""
    size = checks.at_least("rows", rows, 1) * checks.at_least("columns", columns, 1)
    place = _agents(size).reshape(rows, columns)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)
    down = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    return Graph(size, np.concatenate([across, down]))


def erdos_renyi(agents: int, probability: float, *, seed: int) -> Graph:
    """Return a graph whose edges are drawn independently, given that it is connected.

    Draws are repeated until one is connected, which is the conditional law. The seed is public.

    Raises
    ------
    InputError
        If none of 1,000 draws is connected: the probability is too small.
    """
    _agents(agents)
    checks.fraction("the probability of an edge", probability)
    draw = np.random.default_rng(seed)
    return _first_connected(
        lambda: Graph(agents, _drawn_pairs(agents, probability, draw)),
        f"use a probability of at least ln(A)/A = {math.log(agents) / agents:.2g}",
    )


def random_regular(agents: int, degree: int, *, seed: int) -> Graph:
    """Return a connected graph in which every agent has `degree` neighbours, drawn at random.

    Half-edges are paired at random; pairs that make a loop or a double edge are paired anew with
    pairs drawn at random until none is left (the law is close to uniform, and exactly uniform only
    in the limit of many agents). The seed is public.

    Raises
    ------
    InputError
        If agents x degree is odd, or the degree is not from 1 to A - 1, or no connected graph of
        that kind was found.
    """
    _agents(agents)
    checks.at_least("degree", degree, 1)
    if degree >= agents or agents * degree % 2:
        raise InputError(
            f"no graph has {agents} agents with {degree} neighbours each; the degree must be below "
            "the number of agents, and their product even"
        )
    draw = np.random.default_rng(seed)
    return _first_connected(
        lambda: Graph(agents, _simple_pairs(agents, degree, draw)), "choose another degree"
    )


def network_named(text: str, agents: int) -> Graph:
    """Return the network called `text` for so many agents.

    Names: ring, path, star, complete, grid (as square as possible) or grid:RxC,
    erdos-renyi:P or erdos-renyi:P,SEED, regular:D or regular:D,SEED. The seed is 0 if not given.

    Raises
    ------
    InputError
        If there is none of that name, or it has another number of agents.
    """
    name, _, rest = text.partition(":")
    if name in _PLAIN and not rest:
        return _PLAIN[name](agents)
    if name == "grid":
        graph = grid(*(_near_square(agents) if not rest else _numbers(text, rest, "x", int)))
        if graph.agents != agents:
            raise InputError(f"{text} has {graph.agents} places for {agents} agents; change either")
        return graph
    if name == "erdos-renyi":
        probability, *seed = _numbers(text, rest, ",", float)
        return erdos_renyi(agents, probability, seed=int(seed[0]) if seed else 0)
    if name == "regular":
        degree, *more = _numbers(text, rest, ",", int)
        return random_regular(agents, int(degree), seed=int(more[0]) if more else 0)
    raise InputError(f"network is {text!r}; choose from {NAMES}")


NAMES = (
    "ring, path, star, complete, grid, grid:RxC, erdos-renyi:P[,SEED], regular:D[,SEED], or a file "
    "of edges (.txt, .csv, .edges) or .graphml"
)
_PLAIN: Mapping[str, Callable[[int], Graph]] = MappingProxyType(
    {"ring": ring, "path": path, "star": star, "complete": complete}
)


def _agents(count: int) -> HostArray:
    return np.arange(checks.at_least("the number of agents of a network", count, 2))


def _first_connected(draw: Callable[[], Graph], advice: str) -> Graph:
    for _ in range(_TRIES):
        try:
            return draw()
        except InputError:  # not connected: draw again
            continue
    raise InputError(f"none of {_TRIES} random networks was connected; {advice}")


def _drawn_pairs(agents: int, probability: float, draw: np.random.Generator) -> HostArray:
    """Return pairs drawn independently, those of one agent after the other: no list of all."""
    of_agents = [
        agent + 1 + np.flatnonzero(draw.random(agents - 1 - agent) < probability)
        for agent in range(agents - 1)
    ]
    first = np.repeat(np.arange(agents - 1), [len(others) for others in of_agents])
    return np.stack([first, np.concatenate(of_agents)], axis=1)


def _simple_pairs(agents: int, degree: int, draw: np.random.Generator) -> HostArray:
    """Return `(A d / 2, 2)` distinct pairs without loops in which every agent occurs d times."""
    ends = draw.permutation(np.repeat(np.arange(agents), degree)).reshape(-1, 2)
    for _ in range(100 * len(ends)):
        bad = _bad_pairs(ends)
        if not bad.size:
            return ends
        for pair in bad:  # exchange one end with a pair drawn at random
            other = draw.integers(len(ends))
            ends[pair, 1], ends[other, 1] = ends[other, 1], ends[pair, 1]
    raise InputError("pairing failed")


def _bad_pairs(ends: HostArray) -> HostArray:
    """Return the places of loops and of all but the first of equal pairs."""
    sorted_ends = np.sort(ends, axis=1)
    _, first = np.unique(sorted_ends, axis=0, return_index=True)
    repeated = np.ones(len(ends), bool)
    repeated[first] = False
    return np.flatnonzero(repeated | (ends[:, 0] == ends[:, 1]))


def _near_square(agents: int) -> tuple[int, int]:
    rows = next(r for r in range(math.isqrt(agents), 0, -1) if agents % r == 0)
    return rows, agents // rows


def _numbers(text: str, rest: str, separator: str, kind: type[Number]) -> list[Number]:
    try:
        values = [kind(part) for part in rest.split(separator)]
    except ValueError as error:
        raise InputError(f"network is {text!r}; choose from {NAMES}") from error
    if not (len(values) == 2 or (len(values) == 1 and separator == ",")):
        raise InputError(f"network is {text!r}; choose from {NAMES}")
    return values
