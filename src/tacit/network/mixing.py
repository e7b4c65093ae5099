"""Mixing matrices: the weights of an agent's neighbours."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float, Int
from scipy.sparse.csgraph import shortest_path

from tacit.errors import InputError
from tacit.network.graph import Graph
from tacit.typing import HostArray

_DENSE = 600
_TOL = 1e-9


@dataclass(frozen=True, eq=False)
class Mixing:
    """A symmetric matrix W on the edges of a graph; the diagonal makes its rows sum to 1.

    Mixing replaces the values v_i of the agents by v_i + sum_j w_ij (v_j - v_i). W is then doubly
    stochastic: the mean is kept, and agreement is a fixed point.

    Attributes
    ----------
    graph
        Where weights may stand.
    weights
        w_e > 0 of each edge, in the order of `graph.edges`.

    Raises
    ------
    InputError
        If a weight is not above 0, or the weights of an agent's edges exceed 1 (its own would be
        negative).
    """

    graph: Graph
    weights: Float[HostArray, " E"]

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        if weights.shape != (len(self.graph.edges),):
            raise InputError(
                f"there are {weights.size} weights for {len(self.graph.edges)} edges; give as many"
            )
        if not np.all((weights > 0) & np.isfinite(weights)):
            raise InputError("a mixing weight is 0, negative or not a number; it must be above 0")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        worst = int(np.argmax(self._leaving))
        if not self._leaving[worst] <= 1 + _TOL:
            raise InputError(
                f"the mixing weights of agent {worst}'s edges sum to {self._leaving[worst]:g}; "
                "they must not exceed 1"
            )

    @property
    def _leaving(self) -> HostArray:
        """The sum of the weights of each agent's edges."""
        return np.bincount(
            self.graph.edges.T.ravel(), np.tile(self.weights, 2), minlength=self.graph.agents
        )

    @property
    def lazy(self) -> Mixing:
        """(I + W) / 2, whose eigenvalues are not negative."""
        return dataclasses.replace(self, weights=self.weights / 2)

    @property
    def fixed_rounds(self) -> None:
        """How many rounds a plan must have: any number."""
        return None

    def reach(self, rounds: int, *, tells_neighbours: bool) -> Int[HostArray, "A A"]:
        """Return how many of the first rounds' messages of agent i can have reached agent j.

        A message moves one link a round, so those of the first T - d(i, j) + 1 rounds have, with d
        the number of links between the two. All agents send to their neighbours in every round.
        """
        del tells_neighbours
        links = shortest_path(self.graph.adjacency(), unweighted=True)
        return np.clip(rounds - links + 1, 0, rounds).astype(int)

    def matrix(self) -> scipy.sparse.csr_array:
        """Return W, `(A, A)`, sparse."""
        i, j = self.graph.edges.T
        agents = np.arange(self.graph.agents)
        values = np.concatenate([self.weights, self.weights, 1 - self._leaving])
        where = (np.concatenate([i, j, agents]), np.concatenate([j, i, agents]))
        return scipy.sparse.csr_array((values, where), shape=(len(agents), len(agents)))

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The least and the second largest eigenvalue of W."""
        if self.graph.agents <= _DENSE:
            values = scipy.linalg.eigvalsh(self.matrix().toarray())
            return float(values[0]), float(values[-2])
        return float(self._lanczos(1, "SA")[0]), float(np.min(self._lanczos(2, "LA")))

    def _lanczos(self, count: int, which: Literal["SA", "LA"]) -> HostArray:
        """Return the few least or largest eigenvalues; the same ones every time."""
        first = np.arange(self.graph.agents) + 1.0
        values: HostArray = scipy.sparse.linalg.eigsh(
            self.matrix(), k=count, which=which, v0=first, return_eigenvectors=False
        )
        return values

    @property
    def least_eigenvalue(self) -> float:
        """The least eigenvalue of W, at least -1."""
        return self.ends[0]

    @property
    def spectral_gap(self) -> float:
        """1 - max(|second largest|, |least|) of W's eigenvalues: disagreement left by a mixing."""
        least, second = self.ends
        return 1 - max(abs(least), abs(second))


def metropolis(graph: Graph) -> Mixing:
    """Return the Metropolis weights w_ij = 1 / (1 + max(d_i, d_j)).

    Examples
    --------
    >>> from tacit.network import ring
    >>> round(metropolis(ring(4)).spectral_gap, 9)
    0.666666667
    """
    i, j = graph.edges.T
    return Mixing(graph, 1 / (1.0 + np.maximum(graph.degrees[i], graph.degrees[j])))


def mixing_from_matrix(graph: Graph, matrix: Float[HostArray, "A A"]) -> Mixing:
    """Return the mixing given as a whole matrix.

    Raises
    ------
    InputError
        If it is not square, symmetric, non-negative and doubly stochastic, puts weight where the
        graph has no edge, or leaves an edge without weight.
    """
    matrix = np.asarray(matrix, np.float64)
    if matrix.shape != (graph.agents, graph.agents):
        raise InputError(
            f"the mixing matrix is {matrix.shape}; it must be square, one row an agent"
        )
    if not np.all(matrix >= 0):
        raise InputError("the mixing matrix has a negative entry or one that is not a number")
    sums = np.concatenate([matrix.sum(axis=0), matrix.sum(axis=1)])
    if not np.all(np.abs(sums - 1) <= _TOL):
        raise InputError(
            "the mixing matrix is not doubly stochastic: a row or column sums to "
            f"{sums[np.argmax(np.abs(sums - 1))]:g}, it must be 1"
        )
    if not np.all(np.abs(matrix - matrix.T) <= _TOL):
        raise InputError("the mixing matrix is not symmetric; use metropolis weights, for example")
    allowed = graph.adjacency().toarray() + np.eye(graph.agents)
    if np.any(matrix[allowed == 0] > 0):
        raise InputError("the mixing matrix has weight where the network has no edge; remove it")
    i, j = graph.edges.T
    return Mixing(graph, matrix[i, j])
