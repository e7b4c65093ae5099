"""Large arrays on the host: worked on in pieces, and handed to JAX without a copy."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import jax
import numpy as np
from numpy.typing import DTypeLike

from tacit.typing import Array, HostArray

# rows whose temporaries, a few arrays in double precision, stay small beside the records
_ROWS = 2**13
# what XLA takes over without copying it
_BYTES = 64


def in_pieces(rows: HostArray) -> Iterator[HostArray]:
    """Yield an array in consecutive pieces, views along its first axis; at least one.

    Examples
    --------
    >>> [len(piece) for piece in in_pieces(np.zeros(9_000))]
    [8192, 808]
    """
    for start in range(0, max(len(rows), 1), _ROWS):
        yield rows[start : start + _ROWS]


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> HostArray:
    """Return zeros that `device_array` need not copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + _BYTES, np.uint8)
    start = -room.ctypes.data % _BYTES
    zeros: HostArray = room[start : start + size].view(dtype).reshape(shape)
    return zeros


def give_back() -> None:
    """Return to the system what is free: after a compilation the C library keeps some 60 MB.

    Only glibc offers it; elsewhere nothing happens.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def own_array(values: Any, dtype: DTypeLike | None = None) -> Array:
    """Return numbers as an array of JAX's own, of one type, which nobody else can write to.

    As `jnp.asarray` does, but that compiles a program for every shape.

    Examples
    --------
    >>> own_array([1, 2], "float32")
    Array([1., 2.], dtype=float32)
    """
    with np.errstate(over="ignore"):  # infinite, where a shorter type does not reach so far
        own = np.array(values, dtype, order="C")
    return cast(Array, jax.device_put(own))


def device_array(values: HostArray) -> Array:
    """Return an array as JAX's own, on the same memory where it can be; nothing may write to it."""
    values.flags.writeable = False
    return cast(Array, jax.device_put(values, may_alias=True))
