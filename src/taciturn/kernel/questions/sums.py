r"""Exact margins and sums over records, whatever their order and the other records.

On a shard with a grid (`taciturn.kernel.records.grid`), as in every run with noise,

    margins(shard, w)_j = x_j' w~,        w~: w rounded to r digits below the power of two above it,
    record_sum(shard, c, C) = sum_j mask_j x_j c~_j',        c~: c cut to q digits,

are exact: in whole units, |X|_2 |W|_2 <= 2^p 2^r sqrt(D) <= 2^53 bounds every partial sum of a
margin (Cauchy and Schwarz), with r = 53 - p - ceil(log2(D) / 2). Entries of a query that are not
finite, or beyond 2^500, are replaced by 0 or +-2^500: a rule on the query only.

Rounding w asks the question at a public point next to w; truncating c makes the coefficient a
little smaller. Neither affects a bound.

On a shard without a grid, in runs without noise, both are plain sums in working precision.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Float

from taciturn.errors import InputError
from taciturn.kernel.records import Shard
from taciturn.kernel.records.grid import DIGITS, cut, whole_log2
from taciturn.typing import Array, PyTree

# weights are clipped to this, so that margins of rows of any norm are finite
_LARGEST = 2.0**500
# added before truncation, so that fractions above 0.382 round up; the golden ratio less 1. Not 1/2:
# models, often means of noise on a lattice, lie half way, where the last bit of a mean would decide
_ROUND_UP_AT = 0.6180339887498949


def margins(shard: Shard, weights: Float[Array, "D *K"]) -> Float[Array, "M *K"]:
    """Return x_j'w of every row."""
    if shard.grid is None:
        plain: Array = shard.features @ weights
        return plain
    features = shard.features.shape[-1]
    digits = DIGITS - shard.grid.digits - -(-whole_log2(features) // 2)
    wide = weights.astype(jnp.float64)
    usable = jnp.where(jnp.isfinite(wide), jnp.clip(wide, -_LARGEST, _LARGEST), 0.0)
    scale = power_of_two(jnp.max(jnp.abs(usable)))
    units = usable / scale * 2.0**digits
    rounded = jnp.trunc(units + jnp.copysign(_ROUND_UP_AT, units)) * 2.0**-digits
    return (shard.features @ rounded) * scale


def record_sum(
    shard: Shard, coefficient: Float[Array, "M *K"], bound: float
) -> Float[Array, "D *K"]:
    """Return sum_j mask_j x_j c_j' of coefficients of norm at most `bound`, finite on a grid."""
    mask = shard.mask if coefficient.ndim == 1 else shard.mask[:, None]
    terms = coefficient * mask
    if shard.grid is not None:
        if not math.isfinite(bound):
            raise InputError("nothing bounds a coefficient, so no sum of them is exact; clip it")
        terms = cut(terms, bound, shard.grid.weight_digits)
    if terms.ndim == 1:
        # for one agent's rows several times faster than the transpose under XLA on a CPU
        return jnp.matmul(terms, shard.features)
    # 1.6 times as fast as `features.T @ terms` under XLA on a CPU where a sweep maps over terms
    return jnp.matmul(terms.T, shard.features).T


# bytes of an agent's rows that are processed at once, and of a block if there are more: small,
# since the blocks of all agents share the cache
_AT_ONCE, _BLOCK = 2**23, 2**19
# the factor by which both grow with several outputs, where no row is widened
_LONGER = 8
# bytes of widened narrow rows that are processed at once: they fit a core's private cache. Where
# one agent has more rows than _AT_ONCE, all agents have a block at a time, of at least _LEAST rows:
# products with fewer are slow
_NARROW, _NARROW_OF_MANY, _LEAST = 2**18, 2**15, 32


def over_rows(shard: Shard, term: Callable[..., PyTree], *public: PyTree, outputs: int) -> PyTree:
    """Return the sum of `term(rows, *public)` over blocks of rows, or all rows if few.

    A block stays in the cache between its margins and its sum, so that many rows are read from
    memory once. With several outputs, products take longer than reading, so blocks of wide rows are
    longer and serve only to limit memory. Narrow rows are widened a block at a time; under a map
    over agents, as many agents at once as fill a block.

    **Guarantee.** Terms are sums over records by `record_sum`, exact on a grid in any order, so the
    blocks change no bit of their sum. Where the last block would be shorter it begins earlier, and
    rows of earlier blocks are masked: which ones depends on the number of rows alone.

    `term` returns whole multiples of one unit on a grid, and may close over no traced array: the
    sum depends on the rows and on `public` alone.
    """

    def summed(shard: Shard, *public: PyTree) -> PyTree:
        return _over_blocks(shard, lambda rows: term(rows, *public), outputs)

    if not shard.narrow:
        return summed(shard, *public)
    grouped = custom_vmap(summed)

    @grouped.def_vmap
    def of_agents(agents: int, mapped: Any, *given: Any) -> tuple[PyTree, PyTree]:
        total = _in_groups(summed, agents, tuple(mapped), given)
        return total, jax.tree.map(lambda _: True, total)

    return grouped(shard, *public)


def _in_groups(
    summed: Callable[..., PyTree], agents: int, mapped: tuple[Any, ...], given: tuple[Any, ...]
) -> PyTree:
    """Return `summed` of every agent, as many agents at a time as fill a block.

    `mapped`: which arguments have a (first) axis of agents.
    """
    every = jax.vmap(summed, in_axes=jax.tree.map(lambda one: 0 if one else None, mapped))
    rows, columns = given[0].features.shape[-2:]
    size = min(max(1, _NARROW // (8 * rows * columns)), agents)
    many = 8 * rows * columns > _AT_ONCE  # a slice of one agent would copy all of its rows
    if many or size == agents or not mapped[0].features:
        return every(*given)

    def step(number: Array, total: PyTree) -> PyTree:
        start = jnp.minimum(number * size, agents - size)  # the last group may overlap

        def cut_out(leaf: Array, of_agents: bool) -> Array:
            return jax.lax.dynamic_slice_in_dim(leaf, start, size) if of_agents else leaf

        def put_in(whole: Array, part: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(whole, part, start, 0)

        return jax.tree.map(put_in, total, every(*jax.tree.map(cut_out, given, mapped)))

    return jax.lax.fori_loop(0, -(-agents // size), step, _zeros_like(every, *given))


def _over_blocks(shard: Shard, term: Callable[[Shard], PyTree], outputs: int) -> PyTree:
    """Return the sum of `term` over blocks of widened rows, or `term` of all rows if few."""
    rows, columns = shard.features.shape
    longer = 1 if outputs == 1 or shard.narrow else _LONGER
    of_row = columns * (8 if shard.narrow else shard.features.dtype.itemsize)
    at_once, of_block = (_NARROW, _NARROW) if shard.narrow else (_AT_ONCE, _BLOCK)
    if rows * of_row <= longer * at_once:
        return term(shard.widened())
    if shard.narrow and rows * of_row > _AT_ONCE:
        of_block = max(_NARROW_OF_MANY, _LEAST * of_row)
    blocks = min(rows, -(-rows * of_row // (longer * of_block)))
    size = -(-rows // blocks)

    def block(number: Array) -> PyTree:
        first = number * size
        start = jnp.minimum(first, rows - size)

        def cut_out(leaf: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(leaf, start, size)

        mask = cut_out(shard.mask) * _not_before(first, start + jnp.arange(size))
        features, targets = cut_out(shard.features), cut_out(shard.targets)
        some = dataclasses.replace(shard, features=features, targets=targets, mask=mask).widened()
        if shard.narrow:  # or XLA would widen the block for each of the two products
            wide: Array = jax.lax.optimization_barrier(some.features)  # type: ignore[no-untyped-call]
            some = dataclasses.replace(some, features=wide)
        return term(some)

    def step(number: Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, total, block(number))

    return jax.lax.fori_loop(0, blocks, step, _zeros_like(block, jnp.zeros((), jnp.int32)))


def _zeros_like(function: Callable[..., PyTree], *given: PyTree) -> PyTree:
    """Return zeros of the shape of a function's result."""
    shapes = jax.eval_shape(function, *given)
    return jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), shapes)


def _not_before(first: Array, places: Array) -> Array:
    """Return a mask of the rows that are in no earlier block."""
    return places >= first


# the most that rounding may add to the bound of an answer that is not a sum, relative to it
ROUNDING = 2.0**-9


def power_of_two(largest: Float[Array, ""]) -> Float[Array, ""]:
    """Return a power of two above a number of at most 2^500, at least 2^-500, exactly."""
    bits = jax.lax.bitcast_convert_type(jnp.maximum(largest, 1 / _LARGEST), jnp.uint64)
    power = jax.lax.bitcast_convert_type(bits & jnp.uint64(0x7FF0_0000_0000_0000), jnp.float64)
    return 2 * power
