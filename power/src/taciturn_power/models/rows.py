"""Constraints gathered row by row: what a cone solver takes as A, b and K."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array, csr_array

from taciturn.typing import HostArray
from taciturn_power.conic import (
    Cone,
)


class _Part:
    """Rows of one kind, as triplets."""

    def __init__(self) -> None:
        self.count = 0
        self.bounds: list[HostArray] = [np.zeros(0)]
        self.places: list[tuple[HostArray, HostArray, HostArray]] = []

    def add(self, bound: HostArray, blocks: tuple[tuple[csr_array, int], ...]) -> None:
        for block, first in blocks:
            # a block is CSR, and its rows are counted without a conversion
            row = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            self.places.append((row + self.count, block.indices + first, block.data))
        self.count += len(bound)
        self.bounds.append(bound)


class Rows:
    """Equations and inequalities in `columns` variables, each given as blocks of columns."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._equal, self._below = _Part(), _Part()

    def equal(self, bound: Float[HostArray, " K"], *blocks: tuple[csr_array, int]) -> None:
        """Add sum of block x[first column of the block onwards] = bound."""
        self._equal.add(bound, blocks)

    def below(self, bound: Float[HostArray, " K"], *blocks: tuple[csr_array, int]) -> None:
        """Add sum of block x[first column of the block onwards] <= bound."""
        self._below.add(bound, blocks)

    def assembled(self) -> tuple[csc_array, Float[HostArray, " N"], list[Cone]]:
        """Return A, b and K: equations first, all in the order in which they were added."""
        first, then = self._equal, self._below
        places = [*first.places, *((row + first.count, *rest) for row, *rest in then.places)]
        row, column_, value = (np.concatenate(part) for part in zip(*places, strict=True))
        shape = (first.count + then.count, self.columns)
        cones: list[Cone] = [("zero", first.count), ("nonnegative", then.count)]
        bound = np.concatenate([*first.bounds, *then.bounds])
        return csc_array((value, (row, column_)), shape=shape), bound, [c for c in cones if c[1]]


def some(matrix: csr_array, rows: HostArray) -> csr_array:
    """Return the rows of a matrix that a mask or a list of places names."""
    kept: csr_array = csr_array(matrix)[np.arange(matrix.shape[0])[rows]]
    return kept


def row(values: Float[HostArray, " K"]) -> csr_array:
    """Return a matrix of one row."""
    places = (np.zeros(len(values), int), np.arange(len(values)))
    return csr_array((values, places), shape=(1, len(values)))


def column(values: Float[HostArray, " K"]) -> csr_array:
    """Return a matrix of one column."""
    places = (np.arange(len(values)), np.zeros(len(values), int))
    return csr_array((values, places), shape=(len(values), 1))
