"""A network of agents: an undirected, connected graph."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Int
from scipy.sparse.csgraph import connected_components

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import HostArray


@dataclass(frozen=True, eq=False)
class Graph:
    """Agents 0..A-1, A >= 2, and the undirected edges along which they communicate, connected.

    Edges are pairs of agents, given in any order and orientation; each is kept once, the smaller
    agent first, in ascending order. Loops, unknown agents, agents without an edge and a
    disconnected graph raise `InputError`.
    """

    agents: int
    edges: Int[HostArray, "E 2"]

    def __post_init__(self) -> None:
        agents = checks.at_least("the number of agents of a network", self.agents, 2)
        edges = np.array(self.edges)
        if edges.ndim != 2 or edges.shape[1] != 2 or not np.issubdtype(edges.dtype, np.integer):
            raise InputError(
                f"edges have shape {edges.shape} and type {edges.dtype}; they must be pairs of "
                "whole numbers, one pair for each edge"
            )
        outside = edges[(edges < 0) | (edges >= agents)]
        if outside.size:
            raise InputError(f"an edge names agent {outside[0]}; agents are 0 to {agents - 1}")
        loops = edges[edges[:, 0] == edges[:, 1]]
        if len(loops):
            raise InputError(f"agent {loops[0, 0]} is joined to itself; leave such edges out")
        edges = np.unique(np.sort(edges, axis=1), axis=0).astype(np.int32)
        edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)
        alone = np.flatnonzero(self.degrees == 0)
        if alone.size:
            raise InputError(
                f"agent {alone[0]} has no neighbour; give it an edge or leave it out of the network"
            )
        parts, part = connected_components(self.adjacency(), directed=False)
        if parts > 1:
            other = int(np.argmax(part != part[0]))
            raise InputError(
                f"the network falls into {parts} parts: no path leads from agent 0 to agent "
                f"{other}; add edges between the parts"
            )

    def adjacency(self) -> scipy.sparse.csr_array:
        """Return the symmetric 0/1 matrix `(A, A)`, sparse."""
        i, j = self.edges.T
        ones = np.ones(2 * len(i))
        where = (np.concatenate([i, j]), np.concatenate([j, i]))
        return scipy.sparse.csr_array((ones, where), shape=(self.agents, self.agents))

    @property
    def degrees(self) -> Int[HostArray, " A"]:
        """Number of neighbours of each agent, `(A,)`."""
        return np.bincount(self.edges.ravel(), minlength=self.agents)

    def has_edges(self, pairs: Int[HostArray, "P 2"]) -> Bool[HostArray, " P"]:
        """Return whether each pair of agents, in any order, is an edge, `(P,)`."""
        code = np.array([self.agents, 1])  # one whole number for each pair of agents
        return np.isin(np.sort(pairs, axis=1) @ code, self.edges @ code)

    def neighbours(self) -> tuple[Int[HostArray, " _d"], ...]:
        """Return the neighbours of each agent, in ascending order."""
        matrix = self.adjacency()
        matrix.sort_indices()
        return tuple(np.split(matrix.indices, matrix.indptr[1:-1]))


@dataclass(frozen=True, eq=False)
class OnGraph:
    """Who sends to whom on a network; public and fixed before a run."""

    graph: Graph

    @property
    def along(self) -> Graph:
        """The edges along which messages travel: here any of the network."""
        return self.graph

    @property
    def fixed_rounds(self) -> int | None:
        """How many rounds a plan must have; None for any number."""
        return None

    def among(self, agents: Sequence[int]) -> Any:
        """Return the restriction to some agents; None if every answer goes to all that sum it."""
        del agents
        return None


_TRIES = 1000


def ring(agents: int) -> Graph:
    """Return the cycle 0, 1, ..., A-1, 0 (two agents: one edge)."""
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
    """Return the graph in which all agents are neighbours."""
    return Graph(agents, np.stack(np.triu_indices(len(_agents(agents)), k=1), axis=1))


def grid(rows: int, columns: int) -> Graph:
    """Return the rectangular grid; agent `columns * row + column` sits at (row, column)."""
    size = checks.at_least("rows", rows, 1) * checks.at_least("columns", columns, 1)
    place = _agents(size).reshape(rows, columns)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)
    down = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    return Graph(size, np.concatenate([across, down]))


def erdos_renyi(agents: int, probability: float, *, seed: int) -> Graph:
    """Return a graph with independently drawn edges, conditional on being connected.

    Graphs are drawn until one is connected, which gives the conditional law, at most 1,000 times.
    The seed is public.
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

    Half-edges are paired at random; pairs that form a loop or a double edge exchange an end with
    another random pair until none is left (the law is close to uniform, and exactly uniform only in
    the limit of many agents). The seed is public.
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
    """Return the network called `text`.

    Names: ring, path, star, complete, grid (as square as possible) or grid:RxC, erdos-renyi:P or
    erdos-renyi:P,SEED, regular:D or regular:D,SEED. The default seed is 0.
    """
    name, _, rest = text.partition(":")
    plain = {"ring": ring, "path": path, "star": star, "complete": complete}
    if name in plain and not rest:
        return plain[name](agents)
    if text == "grid":
        rows = next(r for r in range(math.isqrt(agents), 0, -1) if agents % r == 0)
        return grid(rows, agents // rows)
    whole, number = r"\d+", r"(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?"
    if name == "grid" and (sides := re.fullmatch(f"({whole})x({whole})", rest)):
        graph = grid(int(sides[1]), int(sides[2]))
        if graph.agents != agents:
            raise InputError(
                f"{text} has {graph.agents} nodes for {agents} agents; use equal numbers"
            )
        return graph
    if name == "erdos-renyi" and (law := re.fullmatch(f"({number})(?:,({whole}))?", rest)):
        return erdos_renyi(agents, float(law[1]), seed=int(law[2] or 0))
    if name == "regular" and (law := re.fullmatch(f"({whole})(?:,({whole}))?", rest)):
        return random_regular(agents, int(law[1]), seed=int(law[2] or 0))
    raise InputError(
        f"network is {text!r}; choose from ring, path, star, complete, grid, grid:RxC, "
        "erdos-renyi:P[,SEED], regular:D[,SEED], or a file of edges (.txt, .csv, .edges) or "
        ".graphml"
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
    """Return pairs drawn independently, agent by agent, without a list of all pairs."""
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
        # loops, and all but the first of equal pairs
        bad = ends[:, 0] == ends[:, 1]
        first = np.unique(np.sort(ends, axis=1), axis=0, return_index=True)[1]
        bad |= ~np.isin(np.arange(len(ends)), first)
        if not bad.any():
            return ends
        for pair in np.flatnonzero(bad):  # exchange one end with a pair drawn at random
            other = draw.integers(len(ends))
            ends[pair, 1], ends[other, 1] = ends[other, 1], ends[pair, 1]
    raise InputError("pairing failed")


SUFFIXES = (".txt", ".csv", ".edges", ".graphml")


def read_network(file: Path) -> Graph:
    """Return the network in `file`: GraphML if its name ends in .graphml, else one edge per line.

    A line holds two names, separated by a comma, semicolon or space; a # starts a comment. Agents
    are numbered 0, 1, ... in the order of their names: numerical if all are whole numbers, else
    alphabetical.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"network {file} cannot be read as text: {error}") from error
    nodes, pairs = _graphml(text) if file.suffix.lower() == ".graphml" else _lines(text)
    if not pairs:
        raise InputError(f"network {file} has no edge; give one edge per line, as in 'a b'")
    known = {*nodes, *(name for pair in pairs for name in pair)}
    whole = all(re.fullmatch(r"-?\d+", name) for name in known)
    names = sorted(known, key=int if whole else str)
    number = {name: place for place, name in enumerate(names)}
    return Graph(len(names), np.array([[number[a], number[b]] for a, b in pairs]))


def _lines(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    pairs = []
    for count, line in enumerate(text.splitlines(), start=1):
        names = re.split(r"[\s,;]+", line.split("#")[0].strip())
        if names == [""]:
            continue
        if len(names) != 2 or not all(names):
            raise InputError(f"line {count} of the network is {line!r}; it must hold two names")
        pairs.append((names[0], names[1]))
    return [], pairs


def _graphml(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    if "<!DOCTYPE" in text:  # entities may expand without bound
        raise InputError("the GraphML file declares a document type; remove the <!DOCTYPE ...>")
    try:
        root = Xml.fromstring(text)
    except Xml.ParseError as error:
        raise InputError(f"the GraphML file is not well-formed XML: {error}") from error
    graphs = root.findall("{*}graph")
    if len(graphs) != 1:
        raise InputError(f"the GraphML file holds {len(graphs)} graphs; it must hold one")
    graph, pairs = graphs[0], []
    default = "true" if graph.get("edgedefault") == "directed" else "false"
    nodes = [_attribute(node, "id") for node in graph.findall("{*}node")]
    for edge in graph.findall("{*}edge"):
        if edge.get("directed", default) == "true":
            raise InputError("the GraphML file has directed edges; a network must be undirected")
        pairs.append((_attribute(edge, "source"), _attribute(edge, "target")))
    return nodes, pairs


def _attribute(element: Xml.Element, name: str) -> str:
    value = element.get(name)
    if value is None:
        raise InputError(f"an element of the GraphML file has no {name!r}; add it")
    return value
