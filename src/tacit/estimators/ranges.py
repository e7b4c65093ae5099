"""Feature ranges of an estimator: given as public facts, or read off the records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from tacit.errors import InputError
from tacit.tables import Numeric, range_of
from tacit.typing import HostArray


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges [a_j, b_j] of k columns.

    Attributes
    ----------
    minimum, maximum
        (k,) each, with a_j < b_j; in the units of the columns.
    public
        Whether they were given; False if they were read off the records.
    """

    minimum: Float[HostArray, "k"]
    maximum: Float[HostArray, "k"]
    public: bool

    @property
    def width(self) -> Float[HostArray, "k"]:
        """b_j - a_j."""
        return self.maximum - self.minimum

    @property
    def record_norm(self) -> float:
        """sqrt(k + 1), the largest norm of a row of `encoded`."""
        return math.sqrt(len(self.minimum) + 1)

    def clipped(self, rows: Float[HostArray, "N k"]) -> Float[HostArray, "N k"]:
        """Return min(max(x_j, a_j), b_j)."""
        inside: HostArray = np.clip(rows, self.minimum, self.maximum)
        return inside

    def encoded(self, rows: Float[HostArray, "N k"]) -> Float[HostArray, "N k+1"]:
        """Return (min(max(x_j, a_j), b_j) - a_j) / (b_j - a_j) for each column, and a constant 1.

        **Guarantee.** If the ranges are public, each row is a function of one record and public
        facts. Each cell lies in [0, 1], in floating point as well, since subtraction and division
        round monotonically; so a row of k columns has norm at most sqrt(k + 1).
        """
        unit = (self.clipped(rows) - self.minimum) / self.width
        return np.concatenate([unit, np.ones((len(rows), 1))], axis=1)


def ranges_for(bounds: Any, rows: Float[HostArray, "N k"]) -> Ranges:
    """Return the ranges that `bounds` states for the columns of `rows`, or those seen in `rows`.

    Parameters
    ----------
    bounds
        A pair (a, b): each one number for all columns, or one per column. None reads the least and
        the largest value of every column off the rows, which makes a certificate conditional.

    Raises
    ------
    InputError
        If `bounds` is no such pair, or a range is empty, infinite or too narrow (`Numeric`).

    Examples
    --------
    >>> ranges_for((0, [1, 5]), np.zeros((3, 2))).width
    array([1., 5.])
    """
    if bounds is None:
        facts = [range_of(column) for column in rows.T]
    else:
        facts = _stated(bounds, rows.shape[1])
    ends = np.array([(fact.minimum, fact.maximum) for fact in facts]).reshape(-1, 2)
    return Ranges(ends[:, 0], ends[:, 1], bounds is not None)


def _stated(bounds: Any, columns: int) -> list[Numeric]:
    try:
        low, high = (np.broadcast_to(np.asarray(end, np.float64), columns) for end in bounds)
    except (TypeError, ValueError) as error:
        raise InputError(
            "bounds must be a pair (min, max), each of them one number for all columns or "
            f"{columns} numbers, one per column"
        ) from error
    return [_column(number, *ends) for number, ends in enumerate(zip(low, high, strict=True))]


def _column(number: int, low: float, high: float) -> Numeric:
    try:
        return Numeric(float(low), float(high))
    except InputError as error:
        raise InputError(f"bounds of column {number}: {error}") from error
