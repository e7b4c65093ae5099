"""Batches: which records an answer is computed on, and the event it is charged as."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.oracles.draws import (
    Drawn,
    Words,
    distinct,
    filled_up,
    gathered,
    poisson_draw,
    poisson_slots,
)
from tacit.privacy import Adjacency, Event, ReplaceOne, SensitivityBound, ZeroOut, sampled
from tacit.problems import Shard
from tacit.problems.grid import gathering_slack
from tacit.spec import Spec
from tacit.typing import Array, HostArray, Key

# slots per expected record of a Poisson batch: about a twentieth of the slots stay empty
_SLOTS = 1.06
# counts up to here are whole numbers in single precision
_MOST_RECORDS = 2**24


# an answer without noise, of (shard, count, query)
Exact: TypeAlias = Callable[[Shard, Float[Array, ""], Any], Float[Array, "..."]]


class Sampling(eqx.Module):
    """Which records take part in an answer: the batches, their law and their charge.

    A plan accepts the three laws of this file and no other, since an accountant is known for these.
    """

    @property
    @abstractmethod
    def rate(self) -> float:
        """The rate at which every record takes part in an answer; 1: all of them, always."""

    @property
    def size(self) -> int | None:
        """The size of a batch if it is fixed; None if nothing is drawn, or Poisson."""
        return None

    @abstractmethod
    def words(self, rows: int) -> int:
        """Return how many random words of 64 bits a batch of so many rows takes; 0 for none."""

    @abstractmethod
    def draw(self, words: Words, rows: int, count: Float[Array, ""]) -> Drawn | None:
        """Return a batch of so many rows, `count` of them records; None for all of them.

        No record is seen, so it may be drawn ahead of the question.

        Parameters
        ----------
        words
            Uniform and independent, used for this batch only.
        """

    @abstractmethod
    def expected_size(self, count: float | Array | HostArray) -> Any:
        """Return the public number that a sum over a batch is divided by."""

    @abstractmethod
    def check(self, spec: Spec, adjacency: Adjacency) -> None:
        """Raise `InputError` unless an accountant of such batches is known for these terms."""

    def charged(self, event: Event) -> Event:
        """Return the event of a noised answer on such a batch."""
        return sampled(event, self.rate, self.size or 0)

    def share(self, spec: Spec) -> Float[HostArray, " A"]:
        """Return the expected size of a batch over m_i, for every agent."""
        counts = np.asarray(spec.counts, np.float64)
        return np.asarray(self.expected_size(counts) / counts)

    def slots(self, rows: int) -> int:
        """Return how many places a batch of so many rows gathers; 0 where rows stay in place."""
        del rows
        return 0

    @final
    def widened(self, bound: SensitivityBound, spec: Spec) -> SensitivityBound:
        """Return the bound of a sum over a batch, widened by what gathering its rows may do."""
        rows, outputs = max(spec.counts), spec.shape[-1] if len(spec.shape) > 1 else 1
        slack = gathering_slack(rows, self.slots(rows), outputs)
        if not slack:
            return bound
        reason = f"{bound.derivation}; times 1 + {slack:.2g} for gathered rows"
        return dataclasses.replace(bound, value=bound.value * (1 + slack), derivation=reason)

    def batch(self, shard: Shard, key: Key) -> Shard:
        """Return the records of one batch."""
        rows = shard.mask.shape[-1]
        words = jax.random.bits(key, (self.words(rows),), jnp.uint64)
        drawn = self.draw(words, rows, jnp.sum(shard.mask))
        return shard if drawn is None else gathered(shard, drawn)

    def piece_size(self, rows: int, slots: int) -> int:
        """Return how many slots of a batch are read at a time."""
        expected = self.rate * rows
        return min(slots, math.ceil(_SLOTS * expected + math.sqrt(expected)))

    def answer(
        self, exact: Exact, shard: Shard, drawn: Drawn | None, count: Float[Array, ""], query: Any
    ) -> Float[Array, "..."]:
        """Return `exact` on the batch, a sum over its records.

        Rows are read in pieces of about the expected size of a batch, until all of it is read: the
        capacity of a Poisson batch is several times that size.
        """
        if drawn is None:
            return exact(shard, count, query)
        if drawn.places is None:
            return exact(gathered(shard, drawn), count, query)
        rows = shard.mask.shape[-1]
        if shard.grid is not None:
            terms = self.slots(rows) or len(drawn.places)
            shard = dataclasses.replace(shard, grid=shard.grid.of_terms(terms))
        size = self.piece_size(rows, len(drawn.places))
        drawn = filled_up(drawn, size)
        slots: list[Any] = [drawn.places, drawn.taken]

        def piece(start: Array) -> Array:
            parts = [jax.lax.dynamic_slice_in_dim(part, start, size) for part in slots]
            return exact(gathered(shard, Drawn(*parts)), count, query)

        def more(at: tuple[Array, Array]) -> tuple[Array, Array]:
            return at[0] + size, at[1] + piece(at[0])

        start = jnp.zeros((), jnp.int32)
        last = len(drawn.taken) if drawn.used is None else drawn.used
        like = jax.eval_shape(piece, start)
        nothing = jnp.zeros(like.shape, like.dtype)
        return jax.lax.while_loop(lambda at: at[0] < last, more, (start, nothing))[1]


class AllRecords(Sampling):
    """Every record takes part in every answer."""

    @property
    @override
    def rate(self) -> float:
        return 1.0

    @override
    def words(self, rows: int) -> int:
        return 0

    @override
    def draw(self, words: Words, rows: int, count: Float[Array, ""]) -> Drawn | None:
        return None

    @override
    def expected_size(self, count: float | Array | HostArray) -> Any:
        """Return m_i."""
        return count

    @override
    def check(self, spec: Spec, adjacency: Adjacency) -> None:
        """Accept all terms: nothing is sampled."""


class PoissonBatches(Sampling):
    r"""Every record takes part independently with probability q; sums are divided by q m_i.

    **Guarantee.** `draw` sees how many records there are and none of them. Answers are charged as
    `Sampled` at rate q. Under replace_one that accountant takes an answer for a sum whose terms
    have norm at most Delta / 2; `Oracle.check` compares the oracle's bounds under both relations.

    Attributes
    ----------
    probability
        q, in (0, 1].
    """

    probability: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.fraction("rate", self.probability)

    @property
    @override
    def rate(self) -> float:
        return self.probability

    @override
    def slots(self, rows: int) -> int:
        return 0 if self.probability == 1 else poisson_slots(self.probability, rows)

    @override
    def words(self, rows: int) -> int:
        return 0 if self.probability == 1 else self.slots(rows) or rows

    @override
    def draw(self, words: Words, rows: int, count: Float[Array, ""]) -> Drawn | None:
        drawn = poisson_draw(words, self.probability, rows)
        if drawn.places is None:
            return drawn
        # here, and not for every answer: batches are drawn for many rounds at once
        return filled_up(drawn, self.piece_size(rows, self.slots(rows)))

    @override
    def expected_size(self, count: float | Array | HostArray) -> Any:
        """Return q m_i."""
        return self.probability * count

    @override
    def check(self, spec: Spec, adjacency: Adjacency) -> None:
        _check_hides(adjacency)


class FixedSizeBatches(Sampling):
    r"""Batches of b records out of an agent's m_i >= n, every set equally likely; divided by b.

    If b = n, nothing is drawn: the answer is the mean over all m_i.

    **Guarantee.** `draw` sees how many records there are and none of them. Answers are charged as
    `FixedSize(b, n)`. An agent with m_i > n records spends no more: the Renyi bound
    (`fixed_size_epsilon`) is a sum of powers of b/m with positive factors, so it falls in m. Under
    replace_one a record moves the answer by at most 2 c / b if c bounds one term; the counts, hence
    the draws, are the same on both data sets. Under zero_out no bound is known here: refused.

    Attributes
    ----------
    batch_size
        b.
    records
        n, the least number of records that an agent has.
    """

    batch_size: int = eqx.field(static=True)
    records: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.at_least("records", self.records, 1)
        checks.at_least("the size of a batch", self.batch_size, 1)

    @property
    def _whole(self) -> bool:
        """Whether a batch would be all of the smallest agent's records."""
        return self.batch_size == self.records

    @property
    @override
    def rate(self) -> float:
        """B / n."""
        return self.batch_size / self.records

    @property
    @override
    def size(self) -> int | None:
        return None if self._whole else self.batch_size

    @override
    def slots(self, rows: int) -> int:
        return 0 if self._whole else self.batch_size

    @override
    def words(self, rows: int) -> int:
        return 0 if self._whole else 2 * self.batch_size

    @override
    def draw(self, words: Words, rows: int, count: Float[Array, ""]) -> Drawn | None:
        if self._whole:
            return None
        places = distinct(words, self.batch_size, count)
        return Drawn(places, jnp.ones(self.batch_size, bool))

    @override
    def expected_size(self, count: float | Array | HostArray) -> Any:
        """Return b, or m_i where nothing is drawn."""
        return 1.0 * count if self._whole else self.batch_size + 0 * count

    @override
    def piece_size(self, rows: int, slots: int) -> int:
        return slots

    @override
    def check(self, spec: Spec, adjacency: Adjacency) -> None:
        _check_hides(adjacency)
        if not isinstance(adjacency.relation, ReplaceOne):
            raise InputError(
                f"batches of a fixed size are accounted for under replace_one only, not under "
                f"{adjacency.relation.name}; use Poisson batches or replace_one"
            )
        if not self.records <= min(spec.counts) <= max(spec.counts) <= _MOST_RECORDS:
            raise InputError(
                f"batches of {self.batch_size} are out of at least {self.records} records, but "
                f"agents have from {min(spec.counts)} to {max(spec.counts)}; give the least number "
                "of records (up to 2^24) or use Poisson batches"
            )


LAWS = (AllRecords, PoissonBatches, FixedSizeBatches)


def batches(rate: float, records: int | None) -> Sampling:
    """Return Poisson batches of that rate, or batches of max(1, round(rate n)) of n records.

    Parameters
    ----------
    records
        n, the least number of records of an agent, for batches of a fixed size; None for Poisson.
    """
    if records is None:
        return PoissonBatches(rate)
    size = max(1, round(checks.fraction("rate", rate) * checks.at_least("records", records, 1)))
    return FixedSizeBatches(size, records)


_WHOLE = {"agent": "an agent", "person": "all rows of a person"}


def _check_hides(adjacency: Adjacency) -> None:
    """Raise `InputError` unless sampling hides the unit and an accountant for it is known."""
    unit = adjacency.unit
    if unit != "record":
        raise InputError(
            f"sampling records does not hide {_WHOLE[unit]}, so nothing is gained for the unit "
            f"{unit}; use the full-batch Gradient"
        )
    if not isinstance(adjacency.relation, ReplaceOne | ZeroOut):
        raise InputError(
            f"no sound accountant is known for batches under {adjacency.relation.name}; use "
            "replace_one, zero_out or the full-batch Gradient"
        )
