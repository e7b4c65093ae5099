"""Arrays as bytes: the leaves of a tree one after the other, little-endian, and nothing else.

Who reads them knows every shape and dtype beforehand, from its own program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from taciturn.errors import InputError
from taciturn.typing import PyTree


@dataclass(frozen=True)
class Layout:
    """The leaves of a tree: structure, shapes and dtypes.

    Attributes
    ----------
    leaves
        Of `jax.ShapeDtypeStruct`.
    most
        The largest magnitude of a floating number that others may send, where that is less than
        `is_computable` allows.
    """

    structure: Any
    leaves: tuple[Any, ...]
    most: float = math.inf

    @classmethod
    def of(cls, shapes: PyTree) -> Layout:
        """Return the layout of a tree of arrays, or of their shapes."""
        leaves, structure = jax.tree.flatten(shapes)
        make: Any = jax.ShapeDtypeStruct
        shaped = tuple(make(np.shape(leaf), leaf.dtype) for leaf in leaves)
        return cls(structure, shaped)

    @property
    def size(self) -> int:
        """How many bytes a tree has."""
        return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in self.leaves)

    def packed(self, tree: PyTree) -> bytes:
        """Return the bytes of a tree; `InputError` if it is not of this layout."""
        leaves, structure = jax.tree.flatten(tree)
        arrays = [np.asarray(leaf) for leaf in leaves]
        same = structure == self.structure and all(
            array.shape == leaf.shape and array.dtype == leaf.dtype
            for array, leaf in zip(arrays, self.leaves, strict=True)
        )
        if not same:
            raise InputError("a tree of arrays is not of the shapes that the plan announces")
        return b"".join(_little(array).tobytes() for array in arrays)

    def unpacked(self, content: bytes, whose: str, *, finite: bool = True) -> PyTree:
        """Return the tree in some bytes.

        Parameters
        ----------
        whose
            Who sent them, for the error message.
        finite
            Whether every number must be finite, and small enough to be computed with: at most the
            root of the largest of its type, so that no sum or product of a few overflows.

        Raises
        ------
        InputError
            If they are more or fewer than the plan announces, or a number is not finite or too
            large.
        """
        if len(content) != self.size:
            raise InputError(
                f"{whose} sent {len(content)} bytes of numbers where the plan announces "
                f"{self.size}; it runs another plan, and nothing is answered"
            )
        arrays, start = [], 0
        for leaf in self.leaves:
            dtype = np.dtype(leaf.dtype).newbyteorder("<")
            count = math.prod(leaf.shape)
            flat = np.frombuffer(content, dtype, count, start)
            if finite and not is_computable(flat, self.most):
                raise InputError(
                    f"{whose} sent a number that is not finite, or too large to be computed with; "
                    "its owner sees why"
                )
            arrays.append(flat.reshape(leaf.shape).astype(leaf.dtype))
            start += count * leaf.dtype.itemsize
        return jax.tree.unflatten(self.structure, arrays)


def largest(tree: PyTree) -> float:
    """Return the largest magnitude of the floating numbers of a tree; 0 for none."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    floating = [leaf for leaf in leaves if np.issubdtype(leaf.dtype, np.floating) and leaf.size]
    return max((float(np.max(np.abs(leaf))) for leaf in floating), default=0.0)


def is_computable(tree: PyTree, most: float = math.inf) -> bool:
    """Whether every number of a tree is one that `Layout.unpacked` takes from others."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    floating = [leaf for leaf in leaves if np.issubdtype(leaf.dtype, np.floating)]
    # the comparison is false of what is not a number, too
    limits = (min(most, np.sqrt(np.finfo(leaf.dtype).max)) for leaf in floating)
    return all(bool(np.all(np.abs(leaf) <= limit)) for leaf, limit in zip(floating, limits))  # noqa: B905 - of one length


def _little(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
