"""The question an algorithm may put to private data, and how far its answer can move.

An oracle is stateless. It computes one exact value on one agent's shard; the noise is drawn by the
door, which also hands over the key of a sampled batch, and added to that value, unless the oracle
puts it inside what it minimises. `bound`, `sampling_rate` and `inside` are where a method's privacy
is decided: everything after the noise is post-processing.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, final

import equinox as eqx
from jaxtyping import Float

from tacit.errors import InputError
from tacit.privacy import (
    Adjacency,
    Event,
    Inside,
    Norm,
    SensitivityBound,
    mean_gradient_bound,
    sampled,
)
from tacit.problems import Loss, Shard
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


class Assumptions(NamedTuple):
    """What a question takes for granted; None where it takes nothing.

    Attributes
    ----------
    loss
        The loss that it is about: the method must minimise the same one.
    coefficient_bound
        If the question is about the mean of record gradients: the bound that it enforces on the
        norm of a record's coefficient, min(lipschitz, clip). The public facts must have the record
        gradients and the smoothness that follow from it and from the loss.
    record_norm
        The bound on a record's norm, where the question holds one of its own.
    """

    loss: Loss | None = None
    coefficient_bound: float | None = None
    record_norm: float | None = None


class Oracle(eqx.Module):
    """A question: its exact value on a shard, and the bound on its sensitivity.

    All but `exact` and `bound` are those of a full-batch gradient with noise added to it, unless an
    oracle says otherwise.
    """

    @property
    def assumptions(self) -> Assumptions:
        """What the algorithm and the public facts must agree with; here nothing."""
        return Assumptions()

    @final
    def check(self, spec: Spec, loss: Loss | None) -> None:
        """Raise `InputError` unless the method's loss and the public facts are those assumed.

        Parameters
        ----------
        loss
            What the method minimises; None if it does not say.

        Notes
        -----
        **Guarantee.** `bound` is a number of this question, whatever the public facts say. But
        schedules follow from the public facts: with others the run would optimise something else.
        A model with more columns than the loss has margins would be worse: the coefficient of a
        record would reach the rows of others. All of it is refused before a record is touched.
        """
        own, name = self.assumptions, type(self).__name__
        if own.loss is not None:
            _check_loss(name, own.loss, spec, loss)
        if own.record_norm not in (None, spec.record_norm):
            raise InputError(
                f"the public facts promise record norm {spec.record_norm:g}, {name} assumes "
                f"{own.record_norm:g}; give both the same bound"
            )
        if own.coefficient_bound is not None:
            _check_gradients(name, own, spec)

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


def _check_loss(name: str, own: Loss, spec: Spec, loss: Loss | None) -> None:
    if loss is not None and not (type(own) is type(loss) and own == loss):
        raise InputError(
            f"{name} asks about the loss {own!r}, the algorithm minimises {loss!r}; give both the "
            "same loss"
        )
    needed = spec.shape[:1] if own.outputs is None else (spec.shape[0], own.outputs)
    if spec.shape != needed:
        raise InputError(
            f"the model has shape {spec.shape}; {type(own).__name__} needs {needed}: take the "
            "public facts from the same problem"
        )


def _check_gradients(name: str, own: Assumptions, spec: Spec) -> None:
    assert own.coefficient_bound is not None
    largest = spec.record_norm * own.coefficient_bound
    if spec.gradient_bound != largest:
        raise InputError(
            f"the public facts assume record gradients of norm {spec.gradient_bound:g}, {name} "
            f"allows {largest:g}; give both the same clip and the same record norm"
        )
    if own.loss is not None and spec.smoothness != own.loss.smoothness * spec.record_norm**2:
        raise InputError(
            f"the public facts assume gradients with Lipschitz constant {spec.smoothness:g}, those "
            f"of {own.loss!r} have {own.loss.smoothness * spec.record_norm**2:g}; take the public "
            "facts from the same problem"
        )
