"""Batches drawn before any record is read: places of rows, Poisson or of a fixed size."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt, UInt64

from tacit.problems import Shard
from tacit.typing import Array, HostArray

# random words of 64 bits: from a cryptographic stream in a private run
Words: TypeAlias = UInt64[Array, "W"]


class Drawn(NamedTuple):
    """A batch as places.

    Attributes
    ----------
    places
        The row of every slot; None if there is a slot for every row, in order.
    taken
        Which slots are in use.
    used
        The number of slots up to the last one in use; None where it was not looked for.
    """

    places: Int[Array, "K"] | None
    taken: Bool[Array, "K"]
    used: Int[Array, ""] | None = None


def gathered(shard: Shard, drawn: Drawn) -> Shard:
    """Return the rows of a batch, those of slots not in use masked; gathered rows are widened."""
    places, taken, _ = drawn
    if places is None:
        return dataclasses.replace(shard, mask=shard.mask * taken)

    def at_places(leaf: Array) -> Array:
        return leaf.at[places].get(mode="promise_in_bounds")

    mask = at_places(shard.mask) * taken
    features, targets = at_places(shard.features), at_places(shard.targets)
    return dataclasses.replace(shard, features=features, targets=targets, mask=mask).widened()


def filled_up(drawn: Drawn, size: int) -> Drawn:
    """Return the batch with so many slots that they can be read `size` at a time."""
    spare = -len(drawn.taken) % size
    if drawn.places is None or not spare:
        return drawn
    more = (0, spare)
    return Drawn(jnp.pad(drawn.places, more), jnp.pad(drawn.taken, more), drawn.used)


# the chance that a batch does not fit, at most; see `poisson_draw`
OVERFLOW = 1e-40
_UNIT = 2**63
_LONGEST = 65_536
_MOST_GATHERED = 2**14


def poisson_draw(words: Words, rate: float, rows: int) -> Drawn:
    r"""Return which of so many rows are in a Poisson batch: each independently with probability q.

    Where that is shorter, their places are drawn, in K = `capacity(M, rate)` slots, at a cost that
    does not grow with M; else a coin is thrown for every row.

    Notes
    -----
    **Guarantee.** A coin compares a uniform 63-bit integer with q 2^63, rounded down. Places follow
    from drawing how many records are passed over before the next one that takes part. The gap
    follows from comparing one uniform 63-bit integer with integers T_k, T_0 = 2^63 and T_k+1 =
    ceil((1 - q) T_k): given that the records before it were passed over, record k takes part with
    probability (T_k - T_k+1) / T_k, which is q rounded down, by less than 2^-59. After G records
    passed over the draw starts again, which does not change that. So every record takes part with
    probability q to within that rounding, independently of all others.

    A batch that needs more than K slots loses its last records. Which batches do is decided by the
    draw and the public M alone, and happens with probability p <= 1e-40. Two runs with the same
    draws, one with room for every batch, differ with probability at most T p over T answers, on
    either data set; so if the one is (epsilon, delta)-private the other is
    (epsilon, delta + (1 + e^epsilon) T p)-private. The numerical accountant sets 1e-16 of delta per
    answer aside, of which its rounding was measured to use less than a quarter; for epsilon up to
    50 the cost above is below 1e-18 per answer, within what is set aside. Plans beyond that are
    refused (`tacit.engine.program.check_noise`).
    """
    draws = words >> jnp.uint64(1)
    if not poisson_slots(rate, rows):
        return Drawn(None, draws < jnp.uint64(int(Fraction(rate) * _UNIT)))
    passed = gaps(draws, survival(rate, rows), rate)
    taken = passed < _longest(rate, rows)
    after = jnp.cumsum((passed + taken).astype(jnp.int32))
    taken &= after <= rows
    used = jnp.max(jnp.where(taken, jnp.arange(1, len(taken) + 1, dtype=jnp.int32), 0))
    return Drawn(jnp.minimum(after - 1, rows - 1), taken, used)


def poisson_slots(rate: float, rows: int) -> int:
    """Return the number of places that are drawn; 0 if a coin is thrown for every row instead.

    Coins where places would save less than half of the rows, and for batches so large that rows
    would have to be cut to few digits (`tacit.problems.grid.row_digits`).
    """
    room = capacity(rows, rate)
    return room if 2 * room < rows and room <= _MOST_GATHERED else 0


def capacity(records: int, rate: float) -> int:
    """Return a number of slots that is enough for a batch but with a chance of 1e-40.

    The least k with P(Binomial(M, q) >= k) <= exp(-M KL(k/M, q)) <= 1e-40 (Chernoff), and one slot
    for every time that G records are passed over.

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
    """Return T_G, ..., T_1: 2^63 times the chance that so many records are passed over."""
    stay = 1 - Fraction(rate)
    table, left = [], _UNIT
    for _ in range(_longest(rate, records)):
        left = -(-left * stay.numerator // stay.denominator)
        table.append(left)
    return np.array(table[::-1], dtype=np.uint64)


def _longest(rate: float, records: int) -> int:
    """Return G = 3 / q, which a twentieth of the gaps exceed, at most the records or 65,536."""
    return min(math.ceil(3 / rate), records, _LONGEST)


def gaps(draws: UInt[Array, "K"], ends: HostArray, rate: float) -> Int[Array, "K"]:
    """Return how many of T_G, ..., T_1 (`survival`) each 63-bit integer lies below.

    Found from its logarithm, which is right to within one place (rounding moves it by less than
    2^-50 / q), and one comparison on either side, so that the integers alone decide.
    """
    falling = jnp.asarray(np.array([_UNIT, *ends[::-1].tolist(), 0], dtype=np.uint64))
    share = jnp.maximum(draws, 1).astype(jnp.float64) / float(_UNIT)
    place = jnp.ceil(jnp.log(share) / math.log1p(-rate)).astype(jnp.int32) - 1
    near = jnp.clip(place, 0, len(ends))
    below = falling.at[near].get(mode="promise_in_bounds") <= draws
    beyond = falling.at[near + 1].get(mode="promise_in_bounds") > draws
    return near - below.astype(jnp.int32) + beyond.astype(jnp.int32)


def distinct(words: Words, size: int, count: float | Float[Array, ""]) -> Int[Array, "b"]:
    r"""Return b different numbers below m, every set of b equally likely (Floyd).

    For j = m - b, ..., m - 1 a number t is drawn uniformly from 0, ..., j, and t is added to the
    set, or j if t is in it already. Costs b^2 comparisons, whatever m.

    Notes
    -----
    **Guarantee.** Say that after the step for j - 1 every set of k numbers below j is equally
    likely. A set S of k + 1 numbers below j + 1 then arises in one step only: if j is not in S,
    from S without t, for each of its k + 1 members t; if j is, from S without j, with t = j or one
    of the k members of that. Either way in k + 1 ways of probability
    1 / (binom(j, k) (j + 1)) each, which make 1 / binom(j + 1, k + 1). Numbers below j + 1, at most
    2^24 of them, are the remainders of 128 random bits, so each is uniform to within 2^-104.
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
