"""Mixing matrices: the weights of an agent's neighbours."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float, Int
from scipy.sparse.csgraph import shortest_path

from taciturn import checks
from taciturn.errors import InputError
from taciturn.network.graph import Graph, OnGraph
from taciturn.typing import HostArray

MOST_EXCHANGES = 100
_DENSE = 600
_RESTARTS = 200
_TOL = 1e-9


@dataclass(frozen=True, eq=False)
class Mixing(OnGraph):
    """A symmetric matrix W on the edges of a graph, with rows that sum to 1.

    Mixing replaces the values v_i of the agents by v_i + sum_j w_ij (v_j - v_i). W is then doubly
    stochastic: the mean is kept, and agreement is a fixed point.

    **Several exchanges.** K exchanges for one question mix by P_K(W) instead of W, P_K a polynomial
    of degree K with P_K(1) = 1, so that the mean is kept and agreement is a fixed point. With all
    other eigenvalues of W in [a, b], b < 1, disagreement is least for the Chebyshev polynomial
    P_K(x) = T_K((2 x - a - b) / (b - a)) / T_K(t), t = (2 - a - b) / (b - a) > 1, which is between
    -1 / T_K(t) and 1 / T_K(t) on [a, b]. The three-term recurrence of T_K gives the values after
    each exchange, with D = W - I, p_0 = v, p_1 = v + pace D v and pace = 2 / (2 - a - b), as

        p_(k+1) = w_(k+1) (p_k + pace D p_k) + (1 - w_(k+1)) p_(k-1),
        w_(k+1) = 2 t T_k(t) / T_(k+1)(t) = 1 / (1 - w_k / (4 t^2)),    w_2 = 1 / (1 - 1 / (2 t^2)).

    a and b follow from the public graph. Exchanges send public linear functions of messages, so
    they cost messages and no privacy.
    """

    # w_e > 0 of each edge, in the order of `graph.edges`; those of an agent sum to at most 1
    weights: Float[HostArray, " E"]
    exchanges: int = 1  # K, at most `MOST_EXCHANGES`; with 1 it is W itself that mixes

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        if weights.shape != (len(self.graph.edges),):
            raise InputError(
                f"there are {weights.size} weights for {len(self.graph.edges)} edges; give as many"
            )
        if not np.all((weights > 0) & np.isfinite(weights)):
            raise InputError("a mixing weight is 0, negative or not a number; it must be above 0")
        if checks.at_least("exchanges", self.exchanges, 1) > MOST_EXCHANGES:
            raise InputError(
                f"exchanges is {self.exchanges}; it must be at most {MOST_EXCHANGES}, and a "
                "spanning tree gives the mean exactly"
            )
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

    def reach(self, rounds: int, *, tells_neighbours: bool) -> Int[HostArray, "A A"]:
        """Return how many of the first rounds' messages of agent i can have reached agent j.

        A message travels K links per round, so those of the first T - d + 1 rounds have arrived, d
        the number of links between the two over K, rounded up. All agents send to their neighbours
        in every round.
        """
        del tells_neighbours
        links = shortest_path(self.graph.adjacency(), unweighted=True)
        away: HostArray = np.ceil(links / self.exchanges).astype(int)
        reached: HostArray = np.clip(rounds - away + 1, 0, rounds)
        return reached

    @cached_property
    def pace(self) -> float:
        """The step of an exchange along D: 1 if there is only one."""
        low, high = self._ends_of_one
        return 1.0 if self.exchanges == 1 else 2 / (2 - low - high)

    @cached_property
    def momentum(self) -> Float[HostArray, " K"]:
        """w_1 = 1, w_2, ..., w_K of the exchanges, `(K,)`."""
        low, high = self._ends_of_one
        inverse, factors = (high - low) / (2 - low - high), [1.0]
        for k in range(1, self.exchanges):
            before = 2.0 if k == 1 else factors[-1]
            factors.append(1 / (1 - before * inverse**2 / 4))
        return np.array(factors)

    def matrix(self) -> scipy.sparse.csr_array:
        """Return W of one exchange, `(A, A)`, sparse."""
        i, j = self.graph.edges.T
        agents = np.arange(self.graph.agents)
        values = np.concatenate([self.weights, self.weights, 1 - self._leaving])
        where = (np.concatenate([i, j, agents]), np.concatenate([j, i, agents]))
        return scipy.sparse.csr_array((values, where), shape=(len(agents), len(agents)))

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Bounds on the eigenvalues of all exchanges together, except that of agreement, 1.

        For one exchange these are the least and the second largest eigenvalue of W; for several, -1
        / T_K(t) and 1 / T_K(t).
        """
        low, high = self._ends_of_one
        if self.exchanges == 1:
            return low, high
        # 1 / T_K(1 / r) with 1 / r = cosh(u): 2 e^(-K u) / (1 + e^(-2 K u)), e^(-u) = r / (1 + ...)
        ratio = (high - low) / (2 - low - high)
        power = (ratio / (1 + math.sqrt(1 - ratio**2))) ** self.exchanges
        left = 2 * power / (1 + power**2)
        return -left, left

    @cached_property
    def _ends_of_one(self) -> tuple[float, float]:
        return self._least_of_one, float(np.min(self._eigenvalues("LA", 2, None)))

    @cached_property
    def _least_of_one(self) -> float:
        """The least eigenvalue of W, or Gershgorin's bound on it where Lanczos' method is slow.

        On a long ring or a large grid many eigenvalues lie next to the least one, and the method
        takes time proportional to the square of the number of agents; the bound is close there.
        """
        try:
            return float(self._eigenvalues("SA", 1, _RESTARTS)[0])
        except scipy.sparse.linalg.ArpackNoConvergence:
            return 1 - 2 * float(np.max(self._leaving))

    def _eigenvalues(
        self, which: Literal["SA", "LA"], count: int, restarts: int | None
    ) -> HostArray:
        """Return the `count` least or largest eigenvalues of W, deterministically."""
        if self.graph.agents <= _DENSE:
            values: HostArray = scipy.linalg.eigvalsh(self.matrix().toarray())
            return values[:count] if which == "SA" else values[-count:]
        first = np.arange(self.graph.agents) + 1.0
        values = scipy.sparse.linalg.eigsh(
            self.matrix(), k=count, which=which, v0=first, maxiter=restarts,
            return_eigenvectors=False,
        )  # fmt: skip
        return np.asarray(values)

    @property
    def least_eigenvalue(self) -> float:
        """The least eigenvalue of the mixing, or a lower bound on it; at least -1."""
        return self._least_of_one if self.exchanges == 1 else self.ends[0]

    @property
    def spectral_gap(self) -> float:
        """1 - max(|second largest|, |least|) of `ends`: the fraction of disagreement removed."""
        least, second = self.ends
        return 1 - max(abs(least), abs(second))


def metropolis(graph: Graph, *, exchanges: int = 1) -> Mixing:
    """Return the mixing with Metropolis weights w_ij = 1 / (1 + max(d_i, d_j))."""
    i, j = graph.edges.T
    weights = 1 / (1.0 + np.maximum(graph.degrees[i], graph.degrees[j]))
    return Mixing(graph, weights, exchanges)
