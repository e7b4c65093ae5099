"""Public bins: one-hot features for B equal parts of the range of every number.

A number x in [-1, 1] lies in part k = min(floor(B (x + 1) / 2), B - 1), whose feature is 1; those
of the other parts are 0. The model is then linear plus a step function in every number. Ranges, and
hence edges, are public: they are never read off the records. Bins of a single column, from a bounds
file, use the same `set_bins`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.features.feature_map import FeatureMap, Inputs
from taciturn.typing import HostArray


@dataclass(frozen=True)
class Bins(FeatureMap):
    """All columns unchanged, and a one-hot row of B columns for every number.

    **Guarantee.** As for `FeatureMap`. Exactly one bin of a number is set, so n numbers add n to
    the square of a row's norm: it is at most sqrt(R^2 + n).
    """

    inputs: Inputs
    bins: int

    def __post_init__(self) -> None:
        checks.at_least("bins", self.bins, 2)
        if not self.inputs.numbers:
            raise InputError("no column of these records is a number to be put into bins")

    @property
    @override
    def columns(self) -> int:
        return len(self.inputs.names) + self.bins * len(self.inputs.numbers)

    @property
    @override
    def names(self) -> tuple[str, ...]:
        names = self.inputs.names
        binned = [f"{names[n]} bin {k}" for n in self.inputs.numbers for k in range(self.bins)]
        return (*names, *binned)

    @property
    @override
    def record_norm(self) -> float:
        return math.sqrt(self.inputs.record_norm**2 + len(self.inputs.numbers))

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        columns, numbers = len(self.inputs.names), self.inputs.numbers
        found = np.zeros((len(rows), self.columns))
        found[:, :columns] = rows
        edges = 2 * np.arange(1, self.bins) / self.bins - 1
        for place, number in enumerate(numbers):
            first = columns + self.bins * place
            found[:, first : first + self.bins] = set_bins(rows[:, number], edges)
        return found


def set_bins(
    numbers: Float[HostArray, "N"], edges: Float[HostArray, "E"]
) -> Float[HostArray, "N _"]:
    """Return one-hot rows of E + 1 columns: the bin of each number, given E inner edges.

    An edge belongs to the bin above it; numbers beyond the edges belong to the outer bins.
    """
    found = np.zeros((len(numbers), len(edges) + 1))
    found[np.arange(len(numbers)), np.searchsorted(edges, numbers, side="right")] = 1
    return found
