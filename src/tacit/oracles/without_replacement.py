"""Batches of a fixed size: every set of that many records is equally likely."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from tacit.typing import Array, Key


def distinct(key: Key, size: int, count: float | Float[Array, ""]) -> Int[Array, "b"]:
    r"""Return b different numbers below m, every set of b equally likely (Floyd).

    For j = m - b, ..., m - 1 a number t is drawn uniformly from 0, ..., j, and t is added to the
    set, or j if t is in it already. Costs b^2 comparisons, whatever m.

    Notes
    -----
    **Guarantee.** Say that after the step for j - 1 every set of k numbers below j is equally
    likely. A set S of k + 1 numbers below j + 1 then arises in one step only: if j is not in S,
    from S without t, for each of its k + 1 members t; if j is, from S without j, with t = j or one
    of the k members of that. Either way in k + 1 ways of probability
    1 / (binom(j, k) (j + 1)) each, which make 1 / binom(j + 1, k + 1). Numbers below j + 1 come
    from 128 random bits, so each is uniform to within 2^-64.
    """
    tops = jnp.asarray(count, jnp.int64) - size + jnp.arange(size, dtype=jnp.int64)
    picks = jax.random.randint(key, (size,), 0, tops + 1, jnp.int64)

    def add(k: Int[Array, ""], chosen: Array) -> Array:
        new = jnp.where(jnp.any(chosen == picks[k]), tops[k], picks[k])
        return chosen.at[k].set(new)

    none: Array = jnp.full(size, -1, jnp.int64)
    chosen: Array = jax.lax.fori_loop(0, size, add, none)
    return chosen.astype(jnp.int32)
