"""Constraints gathered row by row: what a cone solver takes as A, b and K."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.sparse import coo_array, csc_array, csr_array, vstack

from tacit.problems import Cone
from tacit.typing import HostArray


class Rows:
    """Equations and inequalities in `columns` variables, each given as blocks of columns."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._equal: list[tuple[csr_array, HostArray]] = []
        self._below: list[tuple[csr_array, HostArray]] = []

    def equal(self, bound: Float[HostArray, " K"], *blocks: tuple[csr_array, int]) -> None:
        """Add sum of block x[first column of the block onwards] = bound."""
        self._equal.append((self._wide(len(bound), blocks), bound))

    def below(self, bound: Float[HostArray, " K"], *blocks: tuple[csr_array, int]) -> None:
        """Add sum of block x[first column of the block onwards] <= bound."""
        self._below.append((self._wide(len(bound), blocks), bound))

    def _wide(self, rows: int, blocks: tuple[tuple[csr_array, int], ...]) -> csr_array:
        total = csr_array((rows, self.columns))
        for block, first in blocks:
            place = coo_array(block)
            wide = (place.data, (place.coords[0], place.coords[1] + first))
            total = total + csr_array(wide, shape=(rows, self.columns))
        return total

    def assembled(self) -> tuple[csc_array, Float[HostArray, " N"], list[Cone]]:
        """Return A, b and K: equations first, all in the order in which they were added."""
        kept = [*self._equal, *self._below]
        counts = [sum(len(b) for _, b in part) for part in (self._equal, self._below)]
        cones: list[Cone] = [("zero", counts[0]), ("nonnegative", counts[1])]
        matrix = csc_array(vstack([block for block, _ in kept]))
        return matrix, np.concatenate([b for _, b in kept]), [c for c in cones if c[1]]


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
