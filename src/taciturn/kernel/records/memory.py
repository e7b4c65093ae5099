"""Large arrays on the host: processed in pieces, and passed to JAX without a copy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import Sharding
from numpy.typing import DTypeLike

from taciturn.typing import Array, HostArray

# rows and cells of a piece, at most: its temporaries are small compared with the records
_ROWS, _CELLS = 2**13, 2**21
# bytes of a typical last-level cache
_CACHE = 2**25
# the alignment at which XLA uses an array without copying it
_BYTES = 64


def row_blocks(rows: HostArray, columns: int = 1) -> Iterator[HostArray]:
    """Yield an array in consecutive pieces, views along its first axis; at least one.

    `columns`: the cells of a row, of which wide ones make shorter pieces.
    """
    size = max(1, min(_ROWS, _CELLS // max(columns, 1)))
    for start in range(0, max(len(rows), 1), size):
        yield rows[start : start + size]


def some_of(sizes: Sequence[int]) -> Iterator[range]:
    """Yield ranges of consecutive parts: a few thousand rows together, or one larger part."""
    block = np.cumsum(sizes) // _ROWS
    starts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(sizes)]
    for start, stop in itertools.pairwise(starts):
        yield range(start, stop)


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> HostArray:
    """Return zeros aligned so that `device_array` need not copy them."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + _BYTES, np.uint8)
    start = -room.ctypes.data % _BYTES
    zeros: HostArray = room[start : start + size].view(dtype).reshape(shape)
    return zeros


def jax_array(values: Any, dtype: DTypeLike | None = None) -> Array:
    """Return numbers as a JAX array that shares no memory with them.

    As `jnp.array`, which compiles a program for every shape.
    """
    with np.errstate(over="ignore"):  # infinite where the type overflows
        own = np.array(values, dtype, order="C")
    return cast(Array, jax.device_put(own))


def device_array(values: HostArray, like: Array | None = None) -> Array:
    """Return a JAX array that shares memory with `values` if possible; nothing may write to it.

    It is placed on the devices of `like`, an array of equally many agents, of which `values` are
    the part of this process (`on_host`).
    """
    values.flags.writeable = False
    if like is not None and len(like.sharding.device_set) > 1:
        return placed(values, like.sharding, len(like))
    return cast(Array, jax.device_put(values, may_alias=True))


def placed(values: HostArray, sharding: Sharding, length: int, axis: int = 0) -> Array:
    """Return an array with one axis, of this length, divided among devices.

    `values` are the part of this process, in order; nothing may write to them.
    """
    shape = (*values.shape[:axis], length, *values.shape[axis + 1 :])
    places = sharding.addressable_devices_indices_map(shape).items()
    parts = {device: index[axis].indices(length)[:2] for device, index in places if index}
    first, before = min(start for start, _ in parts.values()), (slice(None),) * axis
    pieces = [
        jax.device_put(
            values[(*before, slice(start - first, stop - first))], device, may_alias=True
        )
        for device, (start, stop) in parts.items()
    ]
    return jax.make_array_from_single_device_arrays(shape, sharding, pieces)


def held_here(values: Array) -> slice:
    """Return the part of the first axis of an array that this process holds."""
    indices = [shard.index[0].indices(len(values)) for shard in values.addressable_shards]
    return slice(min(start for start, _, _ in indices), max(stop for _, stop, _ in indices))


def on_host(values: Array) -> HostArray:
    """Return the part of an array that this process holds, in order."""
    if values.is_fully_addressable:
        return np.asarray(values)
    shards = sorted(values.addressable_shards, key=lambda shard: shard.index[0].indices(1 << 62))
    parts = [np.asarray(shard.data) for shard in shards]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def stays_in_cache(entries: int) -> bool:
    """Return whether this many double-precision numbers fit in the last-level cache."""
    return 8 * entries <= _CACHE
