"""Poisson batches whose cost follows the batch, not the data."""

from __future__ import annotations

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, UInt

from tacit.oracles.drawn import Drawn
from tacit.typing import Array, HostArray, Key

# the chance that a batch does not fit, at most; see `poisson_draw`
OVERFLOW = 1e-40
_UNIT = 2**63
_LONGEST = 65_536


def poisson_draw(key: Key, rate: float, rows: int) -> Drawn:
    r"""Return which of so many rows are in a Poisson batch: each independently with probability q.

    Where that is shorter, their places are drawn, in K = `capacity(M, rate)` slots, at a cost that
    does not grow with M; else a coin is thrown for every row.

    Notes
    -----
    **Guarantee.** Places are found by drawing how many records are passed over before the next one
    that takes part. The gap is found by comparing one uniform 63-bit integer with integers T_k,
    T_0 = 2^63 and T_k+1 = ceil((1 - q) T_k): given that the records before it were passed over,
    record k takes part with probability (T_k - T_k+1) / T_k, which is q rounded down, by less than
    2^-59. After G records passed over the draw starts again, which does not change that. So every
    record takes part with probability q to within that rounding, independently of all others.

    A batch that needs more than K slots loses its last records. Which batches do is decided by the
    draw and the public M alone, and happens with probability p <= 1e-40. Two runs with the same
    draws, one with room for every batch, differ with probability at most T p over T answers, on
    either data set; so if the one is (epsilon, delta)-private the other is
    (epsilon, delta + (1 + e^epsilon) T p)-private. The numerical accountant sets 1e-16 of delta per
    answer aside, of which its rounding was measured to use less than a quarter; for epsilon up to
    50 the cost above is below 1e-18 per answer, within what is set aside.
    """
    room = capacity(rows, rate)
    if 2 * room >= rows:
        # float64 whatever the run's precision: float32 draws could exceed the rate by 1e-7
        return Drawn(None, jax.random.uniform(key, (rows,), jnp.float64) < rate)
    draws = jax.random.bits(key, (room,), jnp.uint64) >> jnp.uint64(1)
    passed = gaps(draws, survival(rate, rows), rate)
    taken = passed < _longest(rate, rows)
    after = jnp.cumsum((passed + taken).astype(jnp.int32))
    return Drawn(jnp.minimum(after - 1, rows - 1), taken & (after <= rows))


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
