"""Spanning trees: along which edges agents add up what they send."""

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

# distances that are computed in search of a centre, and agents whose farthest one is looked for
_MOST_DISTANCES, _LEAST_LOOKED_AT = 10**6, 16


@dataclass(frozen=True, eq=False)
class Tree(OnGraph):
    """A spanning tree of a network, rooted: agents add up what they send along its edges.

    In a round every agent but the root waits for those below it, adds what they send to its own
    message and sends the sum to its parent. The root then has the total, which goes down the same
    edges. That is 2 (A - 1) messages in 2 `depth` steps, after which every agent has the total.

    **A lost agent.** Nothing goes past it, and no total is formed without it: the round waits until
    it is back, or the run ends. The others' noise does not depend on it, so they may plan anew on
    what is left of the network, if that is connected, and pay for it as for any other run.
    """

    # the neighbour of each agent on its way to the root; the root has its own number
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
                "goes along edges"
            )
        parents.setflags(write=False)
        object.__setattr__(self, "parents", parents)
        if np.any(self.depths < 0):
            raise InputError(
                f"the parents of agent {int(np.argmin(self.depths))} lead round in a circle; they "
                "must lead to the root"
            )

    @property
    def root(self) -> int:
        """The agent where the total is formed."""
        return int(np.argmax(self.parents == np.arange(self.graph.agents)))

    @cached_property
    def depths(self) -> Int[HostArray, " A"]:
        """How many edges each agent is from the root, `(A,)`; -1 where none lead there."""
        # after k steps an agent knows its ancestor 2^k edges up; the root is its own
        above, edges = self.parents, (self.parents != np.arange(self.graph.agents)).astype(int)
        for _ in range(self.graph.agents.bit_length()):
            edges, above = edges + edges[above], above[above]
        return np.where(above == self.root, edges, -1)

    @property
    def depth(self) -> int:
        """The largest depth of an agent: a total is formed in so many steps."""
        return int(np.max(self.depths))

    @property
    def along(self) -> Graph:
        """The edges of the tree alone, as a network."""
        return _edges_of(self.parents)

    def among(self, agents: Sequence[int]) -> Tree:
        """Return the tree among some agents, numbered in their order; the others pass sums on.

        An agent's parent is the nearest of them on its way to the root. Where there is none, the
        one nearest to the root takes the root's place.
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
        """Return how many of the first rounds' answers of agent i can have reached agent j: all.

        Every agent hears the total of every round, and an answer of agent i is part of it.
        """
        del tells_neighbours
        return np.full((self.graph.agents, self.graph.agents), rounds)


def _edges_of(parents: HostArray) -> Graph:
    below = np.flatnonzero(parents != np.arange(len(parents)))
    return Graph(len(parents), np.stack([below, parents[below]], axis=1))


def spanning_tree(graph: Graph) -> Tree:
    """Return a spanning tree of least depth.

    The root is a centre of the graph, an agent whose farthest agent is nearest, and every path of
    the tree from the root is a shortest one. No spanning tree is less deep: its depth is at least
    the largest distance from its root. Ties go to the least number, so the tree follows from the
    graph alone. Among more than a thousand agents, where many are nearly as central as the centre,
    the best of those that are looked at stands for it (`_centre`).
    """
    root = _centre(graph)
    near = shortest_path(graph.adjacency(), unweighted=True, indices=root)
    parents = np.arange(graph.agents)
    for agent, others in enumerate(graph.neighbours()):
        if agent != root:
            parents[agent] = others[np.argmax(near[others] == near[agent] - 1)]
    return Tree(graph, parents)


def _centre(graph: Graph) -> int:
    """Return the agent whose farthest one is nearest, the first of several.

    An agent d edges from one whose farthest is e edges away has its own at least max(d, e - d)
    away. So the agent with the least bound is looked at until its distance is known; few are, but
    where all are alike, as on a ring. There the search ends after a million distances, with the
    best agent that was looked at, so that it takes no longer than in proportion to the agents.
    """
    matrix = graph.adjacency()
    least, known = np.zeros(graph.agents), np.zeros(graph.agents, bool)
    for _ in range(max(_LEAST_LOOKED_AT, _MOST_DISTANCES // graph.agents)):
        agent = int(np.argmin(least))
        if known[agent]:
            return agent
        away = shortest_path(matrix, unweighted=True, indices=agent)
        least = np.maximum(least, np.maximum(away, np.max(away) - away))
        known[agent] = True
    return int(np.argmin(np.where(known, least, np.inf)))
