"""The question an algorithm may put to private data, and how far its answer can move.

An oracle is stateless. It computes one exact value on one agent's shard; the noise is added
outside, by the door. `bound` is the one place where a method's privacy is decided: everything after
the noise is post-processing.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Float

from tacit.privacy import Adjacency, Norm, SensitivityBound
from tacit.problems import Shard
from tacit.spec import Spec
from tacit.typing import Array, HostArray


class Point(NamedTuple):
    """A question about f_i at one point: `x`, of the model's shape."""

    x: Float[Array, "..."]


class Size(NamedTuple):
    """How many rounds and questions per round a bound is wanted for."""

    rounds: int
    questions: int


class Oracle(eqx.Module):
    """A question: its exact value on a shard, and the bound on its sensitivity."""

    @abstractmethod
    def exact(self, shard: Shard, count: Float[Array, ""], query: Any) -> Float[Array, "..."]:
        """Return the answer without noise.

        Parameters
        ----------
        shard
            One agent's padded records. Only a door may hand one over.
        count
            The agent's public number of records m_i.
        query
            What the algorithm asked; public.
        """

    @abstractmethod
    def bound(
        self,
        spec: Spec,
        adjacency: Adjacency,
        *,
        norm: Norm,
        size: Size,
        values: dict[str, HostArray],
    ) -> SensitivityBound:
        """Return how far the answer can move between neighbouring data sets, for every query.

        Parameters
        ----------
        values
            The schedules of the plan, each `(T,)` or `(A, T)`: a bound may depend on them.
        """
