"""Batches: the records on which an answer is computed, and the event to account for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt, UInt64
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Event, ReplaceOne, ZeroOut, sampled
from taciturn.kernel.records import Shard, Spec
from taciturn.kernel.records.grid import gathering_slack
from taciturn.typing import Array, HostArray

# random words of 64 bits: from a cryptographic stream in a private run
Words: TypeAlias = UInt64[Array, "W"]


class Drawn(NamedTuple):
    """A batch: the row of every slot (None for a slot for each row), and which slots are used."""

    places: Int[Array, "K"] | None
    taken: Bool[Array, "K"]


def gathered(shard: Shard, drawn: Drawn) -> Shard:
    """Return the rows of a batch, with unused slots masked; gathered rows are widened."""
    places, taken = drawn
    if places is None:
        return dataclasses.replace(shard, mask=shard.mask * taken)

    def at_places(leaf: Array) -> Array:
        return leaf.at[places].get(mode="promise_in_bounds")

    mask = at_places(shard.mask) * taken
    features, targets = at_places(shard.features), at_places(shard.targets)
    return dataclasses.replace(shard, features=features, targets=targets, mask=mask).widened()


# the most probability that a batch does not fit its slots; see `poisson_draw`
OVERFLOW = 1e-40
_UNIT = 2**63
_LONGEST = 65_536
_MOST_GATHERED = 2**14


def poisson_draw(words: Words, rate: float, rows: int) -> Drawn:
    """Return which of `rows` rows are in a Poisson batch: each independently with probability q.

    If that is cheaper, the places of a batch are drawn, in K = `capacity(M, rate)` slots, at a cost
    that does not grow with M; else a coin is flipped for every row.

    **Guarantee.** A coin compares a uniform 63-bit integer with q 2^63, rounded down. Places follow
    from the gaps between records that take part. A gap follows from comparing one uniform 63-bit
    integer with integers T_k, T_0 = 2^63 and T_k+1 = ceil((1 - q) T_k): given that the records
    before it are skipped, record k takes part with probability (T_k - T_k+1) / T_k, which is q
    rounded down, by less than 2^-59. After G skipped records the draw starts again, which does not
    change that. So every record takes part with probability q to within that rounding,
    independently of all others.

    A batch that needs more than K slots loses its last records. This depends on the draw and the
    public M alone, and happens with probability p <= 1e-40. A run and a hypothetical run with the
    same draws but room for every batch differ with probability at most T p over T answers, on
    either data set; so if the latter is (epsilon, delta)-private, the former is (epsilon, delta +
    (1 + e^epsilon) T p)-private. The numerical accountant sets 1e-16 of delta per answer aside, of
    which its rounding was measured to use less than a quarter; for epsilon up to 50 the cost above
    is below 1e-18 per answer, within what is set aside. Beyond that no certificate is made
    (`taciturn.kernel.privacy.compose`).
    """
    draws = words >> jnp.uint64(1)
    if not poisson_slots(rate, rows):
        return Drawn(None, draws < jnp.uint64(int(Fraction(rate) * _UNIT)))
    passed = gaps(draws, survival(rate, rows), rate)
    taken = passed < _longest(rate, rows)
    after = jnp.cumsum((passed + taken).astype(jnp.int32))
    taken &= after <= rows
    return Drawn(jnp.minimum(after - 1, rows - 1), taken)


def poisson_slots(rate: float, rows: int) -> int:
    """Return the number of places that are drawn; 0 if a coin is flipped for every row instead.

    Coins are used where places would save less than half of the rows, and for batches so large that
    rows would have to be truncated to few digits (`taciturn.kernel.records.grid.row_digits`).
    """
    room = capacity(rows, rate)
    return room if 2 * room < rows and room <= _MOST_GATHERED else 0


def capacity(records: int, rate: float) -> int:
    """Return a number of slots that a batch exceeds with probability at most 1e-40.

    The least k with P(Binomial(M, q) >= k) <= exp(-M KL(k/M, q)) <= 1e-40 (Chernoff), and one slot
    for each restart after G skipped records.

    Examples
    --------
    >>> capacity(25_000, 20 / 25_000)
    114
    """
    most = np.arange(math.ceil(rate * records) + 1, records + 1)
    share = most / records
    missing = np.maximum(1 - share, np.finfo(float).tiny)
    divergence = share * np.log(share / rate) + (1 - share) * np.log(missing / (1 - rate))
    enough = most[records * divergence >= -math.log(OVERFLOW)]
    least = int(enough[0]) if enough.size else records
    return least + 1 + records // _longest(rate, records)


def survival(rate: float, records: int) -> HostArray:
    """Return T_G, ..., T_1: T_k is 2^63 times the probability that k records are skipped."""
    stay = 1 - Fraction(rate)
    table, left = [], _UNIT
    for _ in range(_longest(rate, records)):
        left = -(-left * stay.numerator // stay.denominator)
        table.append(left)
    return np.array(table[::-1], dtype=np.uint64)


def _longest(rate: float, records: int) -> int:
    """Return G = 3 / q, which one gap in twenty exceeds; at most the records or 65,536."""
    return min(math.ceil(3 / rate), records, _LONGEST)


def gaps(draws: UInt[Array, "K"], ends: HostArray, rate: float) -> Int[Array, "K"]:
    """Return how many of T_G, ..., T_1 (`survival`) each 63-bit integer lies below.

    Computed from its logarithm, which is right to within one (rounding moves it by less than
    2^-50 / q), and then one integer comparison on either side, so that the result is exact.
    """
    falling = jnp.asarray(np.array([_UNIT, *ends[::-1].tolist(), 0], dtype=np.uint64))
    share = jnp.maximum(draws, 1).astype(jnp.float64) / float(_UNIT)
    place = jnp.ceil(jnp.log(share) / math.log1p(-rate)).astype(jnp.int32) - 1
    near = jnp.clip(place, 0, len(ends))
    below = falling.at[near].get(mode="promise_in_bounds") <= draws
    beyond = falling.at[near + 1].get(mode="promise_in_bounds") > draws
    return near - below.astype(jnp.int32) + beyond.astype(jnp.int32)


def distinct(words: Words, size: int, count: float | Float[Array, ""]) -> Int[Array, "b"]:
    """Return b different numbers below m, every set of b equally likely (Floyd).

    For j = m - b, ..., m - 1 a number t is drawn uniformly from 0, ..., j, and t is added to the
    set, or j if t is in it already. Costs b^2 comparisons, whatever m.

    **Guarantee.** Suppose that after the step for j - 1 every set of k numbers below j is equally
    likely. A set S of k + 1 numbers below j + 1 then arises in one step as follows: if j is not in
    S, from S without t, for each of its k + 1 members t; if j is, from S without j, with t = j or
    one of the k members of that. Either way in k + 1 ways of probability 1 / (binom(j, k) (j + 1))
    each, which make 1 / binom(j + 1, k + 1). Numbers below j + 1, at most 2^24 of them, are the
    remainders of 128 random bits, so each is uniform to within 2^-104.
    """
    tops = jnp.asarray(count, jnp.int64) - size + jnp.arange(size, dtype=jnp.int64)
    below = (tops + 1).astype(jnp.uint64)
    high, low = (part % below for part in jnp.split(words, 2))
    wrap = (jnp.uint64(2**32) % below) ** 2 % below  # 2^64 modulo each, without overflow
    picks = ((high * wrap + low) % below).astype(jnp.int64)

    def add(k: Int[Array, ""], chosen: Array) -> Array:
        new = jnp.where(jnp.any(chosen == picks[k]), tops[k], picks[k])
        return chosen.at[k].set(new)

    none: Array = jnp.full(size, -1, jnp.int64)
    chosen: Array = jax.lax.fori_loop(0, size, add, none)
    return chosen.astype(jnp.int32)


# counts up to here are exact in single precision
_MOST_RECORDS = 2**24


# an answer without noise, of (shard, count, query)
Exact: TypeAlias = Callable[[Shard, Float[Array, ""], Any], Float[Array, "..."]]


class Sampling(eqx.Module):
    """The records that take part in an answer (here all), their law, and the event to account for.

    A plan accepts the three laws of this file only, for which an accountant is known.
    """

    @property
    def rate(self) -> float:
        """The rate at which every record takes part in an answer; 1: all of them, always."""
        return 1.0

    @property
    def size(self) -> int | None:
        """The size of a batch if it is fixed; None if nothing is drawn, or Poisson."""
        return None

    def slots(self, rows: int) -> int:
        """Return how many rows a batch gathers; 0 where rows stay in place."""
        del rows
        return self.size or 0

    def words(self, rows: int) -> int:
        """Return how many random words of 64 bits the draw of a batch needs."""
        return 2 * self.slots(rows)

    def draw(self, words: Words, rows: int, count: Float[Array, ""]) -> Drawn | None:
        """Return a batch of these rows, `count` of which are records; None for all.

        The words must be uniform and independent, and be used for this batch only.
        """
        del words, rows, count
        return None

    def expected_size(self, count: float | Array | HostArray) -> Any:
        """Return the public divisor of a sum over a batch: q m_i, b, or m_i."""
        return count if self.size is None else self.size + 0 * count

    def check(self, spec: Spec, adjacency: Adjacency) -> None:
        """Raise `InputError` unless an accountant of such batches is known for these terms."""

    def charged(self, event: Event) -> Event:
        """Return the event of a noised answer on such a batch."""
        return sampled(event, self.rate, self.size or 0)

    def share(self, spec: Spec) -> Float[HostArray, " A"]:
        """Return the expected size of a batch over m_i, for every agent."""
        counts = np.asarray(spec.counts, np.float64)
        return np.asarray(self.expected_size(counts) / counts)

    def slack(self, spec: Spec) -> float:
        """Return what gathering rows may add to the bound of a sum, relative to it."""
        rows, outputs = max(spec.counts), spec.shape[-1] if len(spec.shape) > 1 else 1
        return gathering_slack(rows, self.slots(rows), outputs)

    def answer(
        self, exact: Exact, shard: Shard, drawn: Drawn | None, count: Float[Array, ""], query: Any
    ) -> Float[Array, "..."]:
        """Return `exact` on the batch, a sum over its records.

        **Guarantee.** All slots are read, used or not, so that the running time does not depend on
        the size of the batch, which the accountant assumes to be hidden.
        """
        if drawn is None:
            return exact(shard, count, query)
        if drawn.places is not None and shard.grid is not None:
            terms = self.slots(shard.mask.shape[-1]) or len(drawn.places)
            shard = dataclasses.replace(shard, grid=shard.grid.of_terms(terms))
        return exact(gathered(shard, drawn), count, query)


class AllRecords(Sampling):
    """Every record takes part in every answer."""


class PoissonBatches(Sampling):
    """Every record takes part independently with probability q in (0, 1]; sums are over q m_i.

    **Guarantee.** `draw` depends on the number of records only. Answers are charged as `Sampled` at
    rate q. Under replace_one that accountant assumes a sum whose terms have norm at most Delta / 2;
    `Oracle.check` compares the oracle's bounds under both relations.
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
        return poisson_draw(words, self.probability, rows)

    @override
    def expected_size(self, count: float | Array | HostArray) -> Any:
        return self.probability * count

    @override
    def check(self, spec: Spec, adjacency: Adjacency) -> None:
        _check_hides(adjacency)


class FixedSizeBatches(Sampling):
    """Batches of b records out of an agent's m_i >= n, every set equally likely; divided by b.

    `batch_size` is b, `records` the least number n of records that an agent has. If b = n, nothing
    is drawn: the answer is the mean over all m_i.

    **Guarantee.** `draw` depends on the number of records only. Answers are accounted for as
    `FixedSize(b, n)`. An agent with m_i > n records spends no more: the bound
    (`fixed_size_epsilon`) is a sum of powers of b/m with positive factors, so it falls in m. Under
    replace_one a record moves the answer by at most 2 c / b if c bounds one term; the counts, hence
    the draws, are the same on both data sets. Under zero_out no bound is known here: refused.
    """

    batch_size: int = eqx.field(static=True)
    records: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.at_least("records", self.records, 1)
        checks.at_least("the size of a batch", self.batch_size, 1)

    @property
    @override
    def rate(self) -> float:
        """The rate b / n."""
        return self.batch_size / self.records

    @property
    @override
    def size(self) -> int | None:
        return None if self.batch_size == self.records else self.batch_size

    @override
    def draw(self, words: Words, rows: int, count: Float[Array, ""]) -> Drawn | None:
        if self.size is None:
            return None
        places = distinct(words, self.batch_size, count)
        return Drawn(places, jnp.ones(self.batch_size, bool))

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
    """Return Poisson batches of that rate, or batches of max(1, round(rate n)) of n records."""
    if records is None:
        return PoissonBatches(rate)
    size = max(1, round(checks.fraction("rate", rate) * checks.at_least("records", records, 1)))
    return FixedSizeBatches(size, records)


def _check_hides(adjacency: Adjacency) -> None:
    """Raise `InputError` unless sampling hides the unit and an accountant for it is known."""
    unit = adjacency.unit
    if unit != "record":
        whole = "all rows of a person" if unit == "person" else "an agent"
        raise InputError(
            f"sampling records does not hide {whole}, so nothing is gained for the unit "
            f"{unit}; use the full-batch Gradient"
        )
    if not isinstance(adjacency.relation, ReplaceOne | ZeroOut):
        raise InputError(
            f"no sound accountant is known for batches under {adjacency.relation.name}; use "
            "replace_one, zero_out or the full-batch Gradient"
        )
