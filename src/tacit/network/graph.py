"""A network of agents: an undirected, connected graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from jaxtyping import Int
from scipy.sparse.csgraph import connected_components

from tacit import checks
from tacit.errors import InputError
from tacit.typing import HostArray


@dataclass(frozen=True, eq=False)
class Graph:
    """Agents 0..A-1 and the undirected edges along which they communicate, connected, no loops.

    Attributes
    ----------
    agents
        A >= 2.
    edges
        `(E, 2)` pairs of agents, given in any order and orientation; kept once each with the
        smaller agent first, in ascending order.

    Raises
    ------
    InputError
        If an edge is a loop or names an agent that does not exist, an agent has no edge, or the
        graph falls into several parts.

    Examples
    --------
    >>> Graph(3, np.array([(2, 1), (0, 1)])).edges.tolist()
    [[0, 1], [1, 2]]
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
        _check_ends(agents, edges)
        edges = np.unique(np.sort(edges, axis=1), axis=0).astype(np.int32)
        edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)
        self._check_connected()

    def _check_connected(self) -> None:
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

    def neighbours(self) -> tuple[Int[HostArray, " _d"], ...]:
        """Return the neighbours of each agent, in ascending order."""
        matrix = self.adjacency()
        matrix.sort_indices()
        return tuple(np.split(matrix.indices, matrix.indptr[1:-1]))


def _check_ends(agents: int, edges: HostArray) -> None:
    outside = edges[(edges < 0) | (edges >= agents)]
    if outside.size:
        raise InputError(f"an edge names agent {outside[0]}; agents are 0 to {agents - 1}")
    loops = edges[edges[:, 0] == edges[:, 1]]
    if len(loops):
        raise InputError(f"agent {loops[0, 0]} is joined to itself; leave such edges out")
