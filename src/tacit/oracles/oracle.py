"""The question an algorithm may put to private data, and how far its answer can move.

An oracle is stateless. It computes one exact value on one agent's shard; the noise is drawn by the
door, which also hands over the key of a sampled batch, and added to that value, unless the oracle
puts it inside what it minimises. `bound`, `sampling_rate` and `inside` are where a method's privacy
is decided: everything after the noise is post-processing.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Float

from tacit.privacy import (
    Adjacency,
    Event,
    Inside,
    Norm,
    SensitivityBound,
    mean_gradient_bound,
    sampled,
)
from tacit.problems import Shard
from tacit.spec import Spec
from tacit.typing import Array, HostArray, Key


class Centre(NamedTuple):
    """A question about the point near `v` at which f_i is small: `v`, of the model's shape."""

    v: Float[Array, "..."]


class Point(NamedTuple):
    """A question about f_i at one point: `x`, of the model's shape."""

    x: Float[Array, "..."]


class Size(NamedTuple):
    """How many rounds and questions per round a bound is wanted for."""

    rounds: int
    questions: int


class Oracle(eqx.Module):
    """A question: its exact value on a shard, and the bound on its sensitivity.

    All but `exact` and `bound` are those of a full-batch gradient with noise added to it, unless an
    oracle says otherwise.
    """

    @property
    def sampling_rate(self) -> float:
        """The rate at which every record takes part in an answer; 1: all of them, always."""
        return 1.0

    @property
    def batch_size(self) -> int | None:
        """The size of its batches if it is fixed; None if nothing is sampled, or Poisson."""
        return None

    @property
    def relative_multiplier(self) -> float:
        """The noise multiplier of its answers over that of the plan; the ledger has the product."""
        return 1.0

    def charged(self, event: Event) -> Event:
        """Return what is charged for a noised answer: itself, or that on a batch."""
        return sampled(event, self.sampling_rate, self.batch_size or 0)

    def batch(self, shard: Shard, key: Key) -> Shard:
        """Return the records that one answer is computed on, drawn with a key used for that only.

        `exact_on` calls it before `exact`, unless an oracle says otherwise.
        """
        del key
        return shard

    def draw(self, key: Key, rows: int, count: Float[Array, ""]) -> Any:
        """Return all that chance decides of a batch among so many rows, `count` of them records.

        No record is seen, so it may be drawn ahead of the question. Here it is the key itself.
        """
        del rows, count
        return key

    def exact_on(
        self, shard: Shard, drawn: Any, count: Float[Array, ""], query: Any
    ) -> Float[Array, "..."]:
        """Return the answer without noise on the batch that `draw` returned.

        The door calls it in place of `exact` where `sampling_rate` is below 1.
        """
        return self.exact(self.batch(shard, drawn), count, query)

    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an answer, given that of the model: here the same."""
        return model_shape

    def preview(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> Float[HostArray, " A"]:
        """Return how far an answer can move before any schedule is known: a mean gradient's bound.

        Schedules are told the noise that follows from it (`Noise.gradient_scale`); what is
        certified is `bound`.
        """
        bound = mean_gradient_bound(spec, adjacency, norm=norm, rounds=1, questions=1)
        return bound.value[:, 0, 0]

    def noise_shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the noise of one answer: here that of the answer."""
        return answer_shape

    def answer(
        self,
        shard: Shard,
        count: Float[Array, ""],
        query: Any,
        noise: Float[Array, "..."],
    ) -> Float[Array, "..."]:
        """Return the noised answer: here the exact one plus `noise`."""
        return self.exact(shard, count, query) + noise

    def inside(self, spec: Spec, adjacency: Adjacency) -> Inside | None:
        """Return what decides the law if the noise stands inside an objective; here it does not."""
        del spec, adjacency
        return None

    @abstractmethod
    def exact(self, shard: Shard, count: Float[Array, ""], query: Any) -> Float[Array, "..."]:
        """Return the answer without noise.

        Parameters
        ----------
        shard
            One agent's padded records, or what `batch` left of them. Only a door may hand one
            over.
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
