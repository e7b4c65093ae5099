"""A walk that goes where the token has been longest ago: a low PLF on any network."""

from __future__ import annotations

import numpy as np

from taciturn import checks
from taciturn.network import Graph, Walk


def balanced_walk(graph: Graph, hops: int, *, seed: int) -> Walk:
    """Return a walk that goes to the neighbour who has waited longest for the token.

    An answer to the outlook of Wang et al. 2024, which asks for the least PLF. T hops among A
    agents have a PLF of at least T/A; on a ring and on a complete graph this walk reaches it, and
    on others it comes near where the network allows (a star's centre holds every other token). No
    agent waits long, which RECAL needs to converge quickly. It needs no Hamiltonian cycle, unlike
    I-ADMM. The seed, of the start and the first ties, is public.
    """
    draw = np.random.default_rng(seed)
    last = (-1 - draw.random(graph.agents)).tolist()
    neighbours = [agents.tolist() for agents in graph.neighbours()]
    holders = [int(draw.integers(graph.agents))]
    for hop in range(checks.at_least("hops", hops, 1) - 1):
        last[holders[-1]] = hop
        holders.append(min(neighbours[holders[-1]], key=last.__getitem__))
    return Walk(graph, np.array(holders))
