r"""Rows on a grid, coarse enough that double precision adds products without rounding.

Let the rows be whole multiples of U 2^-p with |x| <= R <= U, the weights whole multiples of
V 2^-q with |c| <= C <= V, and U, V powers of two. A product of two such numbers is a whole multiple
of U V 2^-(p+q), and a sum of n of them is at most 2^(p+q) n such units. Double precision holds
every whole number up to 2^53, so that with

    p + q + ceil(log2 n) <= 53

every product and every partial sum is exact, in any order, on any number of cores, with or without
fused multiply-add. A sum over records is then a function of the *multiset* of its terms: if one
record changes, it moves by exactly the change of that record's term, and no other term is rounded
differently. A sensitivity bound assumes this, and rounded arithmetic violates it.

Numbers are truncated towards zero, so that |x| <= R and |c| <= C still hold. The choice of p
affects utility only: it is 20 for 6,000 rows and 16 for two million, resolutions of 1e-6 and 2e-5
of U.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from taciturn.kernel.records.memory import aligned_zeros, row_blocks
from taciturn.typing import Array, HostArray

# whole numbers that double precision holds, as binary digits
DIGITS = 53
# the most digits of a row: two more than single precision has
_MOST = 26
# whole numbers that single precision holds, as binary digits
_SINGLE = 24


@dataclass(frozen=True)
class Grid:
    """The parameters of the exact sums of a shard."""

    record_norm: float  # R
    digits: int  # p: rows are whole multiples of U 2^-p
    terms: int  # n: the most rows in a sum

    @property
    def unit(self) -> float:
        """U, the least power of two that is at least R."""
        return power_above(self.record_norm)

    @property
    def weight_digits(self) -> int:
        """The digits q that remain for the weights of a sum over records."""
        return DIGITS - self.digits - whole_log2(self.terms)

    @property
    def narrow(self) -> bool:
        """Whether single precision holds every number of the grid."""
        smallest, largest = math.ldexp(self.unit, -self.digits), self.unit
        return self.digits <= _SINGLE and smallest >= 2.0**-100 and largest <= 2.0**100

    def of_terms(self, terms: int) -> Grid:
        """Return the same grid for sums of `terms` terms."""
        return dataclasses.replace(self, terms=terms)


def row_digits(rows: int, slots: int = 0) -> int:
    """Return p for sums over `rows` rows, and over batches of at most `slots`.

    Half of the digits; fewer for large batches, whose weights need more (`gathering_slack`).
    """
    half = (DIGITS - whole_log2(rows)) // 2
    return max(min(half, _MOST, 41 - 2 * whole_log2(max(slots, 1))), 8)


def gathering_slack(rows: int, slots: int, outputs: int = 1) -> float:
    r"""Return how far gathering can move a sum over a batch, relative to one record's bound.

    A record of a gathered batch moves to another slot if a record before it is left out. Its margin
    stays the same (`taciturn.kernel.questions.sums`); its weight c, a smooth function that
    vectorised code may evaluate to other last bits in another slot, can then be truncated to the
    next multiple of V 2^-q, V <= 2 C. So all K slots together move the sum by at most
    K sqrt(outputs) 2^(1-q) times C R, in Euclidean norm. Dividing and adding the pieces of a batch,
    2 K 2^-53 of C R at most, is far less than the slack in V <= 2 C.
    """
    grid = Grid(1.0, row_digits(rows, slots), max(slots, 1))
    return slots * math.sqrt(outputs) * 2.0 ** (1 - grid.weight_digits)


def on_grid(features: HostArray, grid: Grid, dtype: DTypeLike = np.float64) -> HostArray:
    """Return rows truncated to the digits of the grid, in a type that holds all of them."""
    quantum = math.ldexp(grid.unit, -grid.digits)
    cut_off = aligned_zeros(features.shape, dtype)
    flat, rows = cut_off.reshape(-1), np.reshape(features, -1)
    for some, given in zip(row_blocks(flat), row_blocks(rows), strict=True):
        some[...] = np.trunc(np.divide(given, quantum, dtype=np.float64)) * quantum
    return cut_off


def cut(values: Array, bound: float, digits: int) -> Array:
    """Return numbers of size at most `bound` truncated to multiples of V 2^-digits."""
    quantum = math.ldexp(power_above(bound), -digits)
    return jnp.trunc(values.astype(jnp.float64) / quantum) * quantum


def power_above(bound: float) -> float:
    """Return the least power of two that is at least `bound`."""
    fraction, exponent = math.frexp(bound)
    return math.ldexp(1.0, exponent - (fraction == 0.5))


def whole_log2(count: int) -> int:
    """Return ceil(log2(count))."""
    return (count - 1).bit_length()
