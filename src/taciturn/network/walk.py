"""Walks: the holder of the token at each hop, public and fixed before a run."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from taciturn import checks
from taciturn.errors import InputError
from taciturn.network.graph import Graph, OnGraph
from taciturn.typing import HostArray

_ALL_STARTS = 64


@dataclass(frozen=True, eq=False)
class Walk(OnGraph):
    """The holders of a token, hop by hop, public and fixed before a run.

    An agent answers at most `cap` times, and then passes the token on unchanged. None for no limit.
    """

    holders: Int[HostArray, " T"]  # the agent of each hop; consecutive holders are neighbours
    cap: int | None = None

    def __post_init__(self) -> None:
        holders = np.array(self.holders, np.int32)
        if holders.ndim != 1 or not holders.size:
            raise InputError("a walk has no hop; ask for at least one")
        if holders.min() < 0 or holders.max() >= self.graph.agents:
            raise InputError(f"a walk visits agents 0 to {self.graph.agents - 1} only")
        along = self.graph.has_edges(np.stack([holders[:-1], holders[1:]], axis=1))
        if not np.all(along):
            hop = int(np.argmin(along))
            raise InputError(
                f"hop {hop} goes from agent {holders[hop]} to {holders[hop + 1]}, who are not "
                "neighbours; a token moves along edges"
            )
        if self.cap is not None and checks.at_least("cap", self.cap, 0) == 0:
            raise InputError("the cap is 0, so that no agent may answer; allow at least 1")
        holders.setflags(write=False)
        object.__setattr__(self, "holders", holders)

    @property
    def visits(self) -> Int[HostArray, " T"]:
        """How often the holder of each hop has held the token before, `(T,)`."""
        order = np.argsort(self.holders, kind="stable")
        sizes = np.bincount(self.holders, minlength=self.graph.agents)
        earlier = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        before = np.empty(len(order), np.int32)
        before[order] = earlier
        return before

    @property
    def awake(self) -> Bool[HostArray, " T"]:
        """Whether the holder takes part at each hop, `(T,)`; not after reaching the cap."""
        return np.ones(len(self.holders), bool) if self.cap is None else self.visits < self.cap

    @property
    def counts(self) -> Int[HostArray, " A"]:
        """How often each agent takes part, `(A,)`."""
        return np.bincount(self.holders[self.awake], minlength=self.graph.agents)

    @property
    def privacy_leakage_frequency(self) -> int:
        """PLF: how often the busiest agent takes part (Wang et al. 2024, Section II-D)."""
        return int(np.max(self.counts))

    @property
    def fixed_rounds(self) -> int:
        """How many rounds a plan must have: one for each hop."""
        return len(self.holders)

    def reach(self, rounds: int, *, tells_neighbours: bool) -> Int[HostArray, "A A"]:
        """Return how many of the first hops' answers of agent i can have reached agent j.

        The token carries all earlier answers, so they reach j until it holds the token for the last
        time. If holders send to their neighbours instead, an answer reaches j along agents that
        hold the token in turn, each a neighbour of the previous one, the last a neighbour of j.
        """
        agents = self.graph.agents
        if not tells_neighbours:
            latest = np.zeros(agents, int)
            latest[self.holders] = np.arange(rounds)  # of repeated assignments the last one counts
            return np.broadcast_to(latest, (agents, agents))
        # backwards in time: leads[j, k], whether what k knows after a hop reaches j
        leads, last = np.eye(agents, dtype=bool), np.zeros((agents, agents), int)
        receives = self.graph.adjacency().toarray().astype(bool) | leads
        for hop in range(len(self.holders) - 1, -1, -1):
            holder = self.holders[hop]
            reached = np.any(leads[:, receives[holder]], axis=1)
            last[holder] = np.maximum(last[holder], np.where(reached, hop + 1, 0))
            leads[reached, holder] = True
        return last

    def capped(self, cap: int) -> Walk:
        """Return the same walk with that cap."""
        return dataclasses.replace(self, cap=cap)


def uniform_walk(graph: Graph, hops: int, *, seed: int) -> Walk:
    """Return a walk that goes to a neighbour drawn uniformly (Wang et al. 2024, Assumption 2).

    The first holder is drawn uniformly among all agents. The seed is public.
    """
    draw = np.random.default_rng(seed)
    neighbours = [agents.tolist() for agents in graph.neighbours()]
    chances = draw.random(checks.at_least("hops", hops, 1)).tolist()
    holders = [int(draw.integers(graph.agents))]
    for chance in chances[:-1]:
        choices = neighbours[holders[-1]]
        holders.append(choices[int(chance * len(choices))])
    return Walk(graph, np.array(holders))


def cyclic_walk(graph: Graph, hops: int) -> Walk:
    """Return a walk that repeats one short closed route through all agents (`closed_route`)."""
    route = closed_route(graph)
    return Walk(graph, np.resize(route, checks.at_least("hops", hops, 1)))


def closed_route(graph: Graph) -> Int[HostArray, " R"]:
    """Return a closed route through all agents; its last agent is a neighbour of its first.

    From every start (the first 64 of many agents) it goes along a shortest path to the nearest
    agent not yet visited, and finally back; the shortest of these routes is returned. On a ring,
    and wherever it finds a Hamiltonian cycle, it has A hops; on a tree 2 (A - 1), which is optimal.
    """
    neighbours = [agents.tolist() for agents in graph.neighbours()]
    starts = range(min(graph.agents, _ALL_STARTS))
    return min((_greedy(neighbours, start) for start in starts), key=len)


def _greedy(neighbours: Sequence[list[int]], start: int) -> HostArray:
    route, unseen = [start], set(range(len(neighbours))) - {start}
    while unseen:
        path = _to_nearest(neighbours, route[-1], unseen)
        unseen.remove(path[-1])  # agents before it on the path were visited, being nearer
        route += path
    home = _to_nearest(neighbours, route[-1], {start})
    return np.array(route + home[:-1])


def _to_nearest(neighbours: Sequence[list[int]], source: int, targets: set[int]) -> list[int]:
    """Return a shortest path from `source` (excluded) to the nearest of `targets`.

    The search stops there, so that a step to a neighbour is cheap among many agents.
    """
    parent, waiting = {source: source}, deque([source])
    while True:
        agent = waiting.popleft()
        for other in neighbours[agent]:
            if other not in parent:
                parent[other] = agent
                waiting.append(other)
                if other in targets:
                    path = [other]
                    while parent[path[-1]] != source:
                        path.append(parent[path[-1]])
                    return path[::-1]
