"""A random walk that goes where the token has been least: a low PLF on any network."""

from __future__ import annotations

import numpy as np

from taciturn import checks
from taciturn.network import Graph, Walk


def balanced_walk(graph: Graph, hops: int, *, seed: int) -> Walk:
    """Return a walk that goes to the neighbour who has held the token least; ties are drawn.

    An answer to the outlook of Wang et al. 2024, which asks for the least PLF. T hops among A
    agents have a PLF of at least T/A. On a ring and on a complete graph this walk reaches it, on
    others it comes near where the network allows: a star's centre holds every other token. It
    needs no Hamiltonian cycle, unlike I-ADMM, and no draw but the ties; the seed is public.
    """
    draw = np.random.default_rng(seed)
    neighbours = [agents.tolist() for agents in graph.neighbours()]
    counts, holders = [0] * graph.agents, [int(draw.integers(graph.agents))]
    for chances in draw.random((checks.at_least("hops", hops, 1) - 1, graph.agents)).tolist():
        counts[holders[-1]] += 1
        near = neighbours[holders[-1]]
        holders.append(
            min(near, key=[c + u for c, u in zip(counts, chances, strict=True)].__getitem__)
        )
    return Walk(graph, np.array(holders))
