"""Networks of agents: graphs, mixing matrices, walks, spanning trees. All of it is public."""

from typing import TypeAlias

from taciturn.network.graph import (
    SUFFIXES,
    Graph,
    complete,
    erdos_renyi,
    grid,
    network_named,
    path,
    random_regular,
    read_network,
    ring,
    star,
)
from taciturn.network.mixing import MOST_EXCHANGES, Mixing, metropolis
from taciturn.network.tree import Tree, spanning_tree
from taciturn.network.walk import Walk, closed_route, cyclic_walk, uniform_walk

Network: TypeAlias = Mixing | Walk | Tree | None
"""The network of a plan: gossip, a relay, a tree, or None for a star with an aggregator."""

__all__ = [
    "MOST_EXCHANGES", "SUFFIXES", "Graph", "Mixing", "Network", "Tree", "Walk", "closed_route",
    "complete", "cyclic_walk", "erdos_renyi", "grid", "metropolis", "network_named", "path",
    "random_regular", "read_network", "ring", "spanning_tree", "star", "uniform_walk",
]  # fmt: skip
