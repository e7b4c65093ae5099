"""Arrays over agents, rounds and questions in which most axes repeat one number.

A method asks every agent the same question in every round, so a hundred thousand agents and two
hundred rounds hold a hundred thousand different numbers and not twenty million. Such an array is
kept as a view of its different entries, with stride 0 where it repeats them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Number = TypeVar("Number", bound=np.generic)


def folded(values: np.ndarray[Any, np.dtype[Number]]) -> np.ndarray[Any, np.dtype[Number]]:
    """Return the values with length 1 along every axis on which all entries are equal."""
    values = thin(values)
    for axis in range(values.ndim):
        if values.shape[axis] > 1:
            first = values.take([0], axis)
            values = first if bool(np.all(values == first)) else values
    return values


def thin(values: np.ndarray[Any, np.dtype[Number]]) -> np.ndarray[Any, np.dtype[Number]]:
    """Return the different entries that a view repeats: length 1 where the stride is 0."""
    return values[tuple(slice(0, 1) if step == 0 else slice(None) for step in values.strides)]


def unfolded(
    values: np.ndarray[Any, np.dtype[Number]], shape: tuple[int, ...]
) -> np.ndarray[Any, np.dtype[Number]]:
    """Return a view of the values in a shape, which nobody can write to."""
    return np.broadcast_to(values, shape)
