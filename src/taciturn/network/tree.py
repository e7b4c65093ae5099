"""Spanning trees, along whose edges agents add up their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int
from scipy.sparse.csgraph import shortest_path

from taciturn.errors import InputError
from taciturn.network.graph import Graph, OnGraph
from taciturn.typing import HostArray

# in the search for a centre: the most distances, and the least agents whose distances are computed
_MOST_DISTANCES, _LEAST_CANDIDATES = 10**6, 16


@dataclass(frozen=True, eq=False)
class Tree(OnGraph):
    """A rooted spanning tree of a network, along whose edges agents add up their messages.

    In a round every agent but the root waits for its children, adds their sums to its message and
    sends the result to its parent. The root then has the total, which goes down the same edges.
    This takes 2 (A - 1) messages in 2 `depth` steps, after which every agent has the total.

    **A lost agent.** No message passes it, and no total is formed without it: the round waits until
    it returns, or the run ends. The others' noise does not depend on it, so they may plan again on
    the rest of the network, if that is connected, and are charged as for any other run.
    """

    # the neighbour of each agent on the path to the root; for the root, the root
    parents: Int[HostArray, " A"]

    def __post_init__(self) -> None:
        parents = np.array(self.parents, np.int32)
        agents = np.arange(self.graph.agents)
        if parents.shape != agents.shape:
            raise InputError(
                f"there are {parents.size} parents for {len(agents)} agents; give one for each"
            )
        if np.sum(parents == agents) != 1:
            raise InputError("a tree has one root, an agent that is its own parent; name one")
        below = np.flatnonzero(parents != agents)
        along = self.graph.has_edges(np.stack([below, parents[below]], axis=1))
        if not np.all(along):
            agent = below[np.argmin(along)]
            raise InputError(
                f"the parent of agent {agent} is {parents[agent]}, who is no neighbour; a tree "
                "consists of edges of the network"
            )
        parents.setflags(write=False)
        object.__setattr__(self, "parents", parents)
        if np.any(self.depths < 0):
            raise InputError(
                f"the parents of agent {int(np.argmin(self.depths))} form a cycle; they must lead "
                "to the root"
            )

    @property
    def root(self) -> int:
        """The agent where the total is formed."""
        return int(np.argmax(self.parents == np.arange(self.graph.agents)))

    @cached_property
    def depths(self) -> Int[HostArray, " A"]:
        """The number of edges from each agent to the root, `(A,)`; -1 if no path leads there."""
        # after k steps `above` is the ancestor 2^k edges up; the root is its own parent
        above, edges = self.parents, (self.parents != np.arange(self.graph.agents)).astype(int)
        for _ in range(self.graph.agents.bit_length()):
            edges, above = edges + edges[above], above[above]
        return np.where(above == self.root, edges, -1)

    @property
    def depth(self) -> int:
        """The largest depth of an agent, the number of steps that form a total."""
        return int(np.max(self.depths))

    @property
    def along(self) -> Graph:
        """The edges of the tree alone, as a network."""
        return _edges_of(self.parents)

    def among(self, agents: Sequence[int]) -> Tree:
        """Return the tree among some agents, numbered in their order; the others pass sums on.

        An agent's parent is its nearest ancestor among them. Of agents without one, the one nearest
        to the root becomes the root.
        """
        place = {agent: number for number, agent in enumerate(agents)}
        top = min(place, key=lambda agent: int(self.depths[agent]))
        parents = np.zeros(len(place), np.int64)
        for agent, number in place.items():
            above = int(self.parents[agent])
            while above not in place and above != self.root:
                above = int(self.parents[above])
            parents[number] = place[top if agent == top or above not in place else above]
        return Tree(_edges_of(parents), parents)

    def levels(self) -> tuple[Int[HostArray, " _n"], ...]:
        """Return the agents by depth, the deepest first, without the root."""
        by_depth = np.argsort(self.depths, kind="stable")
        levels = np.split(by_depth, np.cumsum(np.bincount(self.depths))[:-1])
        return tuple(levels[:0:-1])

    def reach(self, rounds: int, *, tells_neighbours: bool) -> Int[HostArray, "A A"]:
        """Return how many of the first `rounds` answers of agent i can have reached agent j: all.

        Every agent receives the total of every round, of which an answer of agent i is part.
        """
        del tells_neighbours
        return np.full((self.graph.agents, self.graph.agents), rounds)


def _edges_of(parents: HostArray) -> Graph:
    below = np.flatnonzero(parents != np.arange(len(parents)))
    return Graph(len(parents), np.stack([below, parents[below]], axis=1))


def spanning_tree(graph: Graph) -> Tree:
    """Return a spanning tree of least depth.

    The root is a centre of the graph, an agent whose largest distance is least, and every path of
    the tree from the root is a shortest one. No spanning tree is shallower: its depth is at least
    the largest distance from its root. Ties go to the least number, so the tree follows from the
    graph alone. With more than a thousand agents, many of them nearly central, the best agent
    examined replaces the centre (`_centre`).
    """
    root = _centre(graph)
    near = shortest_path(graph.adjacency(), unweighted=True, indices=root)
    parents = np.arange(graph.agents)
    for agent, others in enumerate(graph.neighbours()):
        if agent != root:
            parents[agent] = others[np.argmax(near[others] == near[agent] - 1)]
    return Tree(graph, parents)


def _centre(graph: Graph) -> int:
    """Return the agent whose largest distance is least, the first of several.

    An agent d edges from one with largest distance e has a largest distance of at least
    max(d, e - d). So the agent with the least bound is examined until that agent's distance is
    known; few agents are examined unless all are equivalent, as on a ring. There the search ends
    after a million distances, with the best agent so far, so that its time is proportional to the
    number of agents.
    """
    matrix = graph.adjacency()
    least, known = np.zeros(graph.agents), np.zeros(graph.agents, bool)
    for _ in range(max(_LEAST_CANDIDATES, _MOST_DISTANCES // graph.agents)):
        agent = int(np.argmin(least))
        if known[agent]:
            return agent
        away = shortest_path(matrix, unweighted=True, indices=agent)
        least = np.maximum(least, np.maximum(away, np.max(away) - away))
        known[agent] = True
    return int(np.argmin(np.where(known, least, np.inf)))
