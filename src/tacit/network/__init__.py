"""Networks of agents: graphs, mixing matrices, walks. All of it is public."""

from typing import TypeAlias

from tacit.network.families import (
    complete,
    erdos_renyi,
    grid,
    network_named,
    path,
    random_regular,
    ring,
    star,
)
from tacit.network.files import SUFFIXES, read_network
from tacit.network.graph import Graph
from tacit.network.mixing import Mixing, metropolis, mixing_from_matrix
from tacit.network.walk import Walk, closed_route, cyclic_walk, uniform_walk

Network: TypeAlias = Mixing | Walk | None
"""The network of a plan: gossip, a relay, or None for a star with an aggregator."""

__all__ = [
    "SUFFIXES",
    "Graph",
    "Mixing",
    "Network",
    "Walk",
    "closed_route",
    "complete",
    "cyclic_walk",
    "erdos_renyi",
    "grid",
    "metropolis",
    "mixing_from_matrix",
    "network_named",
    "path",
    "random_regular",
    "read_network",
    "ring",
    "star",
    "uniform_walk",
]
