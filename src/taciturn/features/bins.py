"""Public bins and hats: features of the range of every number, besides the number itself.

With bins, a number x in [-1, 1] lies in part k = min(floor(B (x + 1) / 2), B - 1), whose feature is
1; those of the other parts are 0. The model is then linear plus a step function in every number.

With hats there are N nodes at equal distances, the first at -1 and the last at 1, and a number
between two of them, at a share t of the way, gives them 1 - t and t. The model is then continuous
and linear between nodes in every number. Each record informs two nodes, and the block adds less to
a row than a bin does, which under noise makes the estimate better at no cost in privacy.

Ranges, and hence edges and nodes, are public: they are never read off the records. Bins of a single
column, from a bounds file, use the same `set_bins`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.features.feature_map import FeatureMap, Inputs
from taciturn.typing import HostArray


@dataclass(frozen=True)
class _Expanded(FeatureMap):
    """All columns unchanged, and a block of `parts` columns for every number.

    **Guarantee.** As for `FeatureMap`. The entries of a block are at least 0 and sum to 1, so their
    squares sum to 1 at most, and n numbers add at most n to the square of a row's norm: it is at
    most sqrt(R^2 + n).
    """

    inputs: Inputs
    parts: int

    kind: ClassVar[str]  # what a part is called

    def __post_init__(self) -> None:
        checks.at_least(f"{self.kind}s", self.parts, 2)
        if not self.inputs.numbers:
            raise InputError(
                f"no column of these records is a number that could have {self.kind}s; leave the "
                "features out"
            )

    @property
    @override
    def columns(self) -> int:
        return len(self.inputs.names) + self.parts * len(self.inputs.numbers)

    @property
    @override
    def names(self) -> tuple[str, ...]:
        names = self.inputs.names
        blocks = [
            f"{names[n]} {self.kind} {k}" for n in self.inputs.numbers for k in range(self.parts)
        ]
        return (*names, *blocks)

    @property
    @override
    def record_norm(self) -> float:
        return math.sqrt(self.inputs.record_norm**2 + len(self.inputs.numbers))

    @override
    def block_of(self, number: int) -> range:
        first = len(self.inputs.names) + self.parts * self.inputs.numbers.index(number)
        return range(first, first + self.parts)

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        found = np.zeros((len(rows), self.columns))
        found[:, : len(self.inputs.names)] = rows
        for number in self.inputs.numbers:
            block = self.block_of(number)
            found[:, block.start : block.stop] = self._block(rows[:, number])
        return found

    @abstractmethod
    def _block(self, numbers: Float[HostArray, "N"]) -> Float[HostArray, "N B"]:
        """Return the block of numbers in [-1, 1]."""


@dataclass(frozen=True)
class Bins(_Expanded):
    """All columns unchanged, and a one-hot row of the bins of every number."""

    kind = "bin"

    @override
    def _block(self, numbers: Float[HostArray, "N"]) -> Float[HostArray, "N B"]:
        return set_bins(numbers, 2 * np.arange(1, self.parts) / self.parts - 1)


@dataclass(frozen=True)
class Hats(_Expanded):
    """All columns unchanged, and 1 - t and t at the two nodes about every number."""

    kind = "hat"

    @override
    def _block(self, numbers: Float[HostArray, "N"]) -> Float[HostArray, "N B"]:
        places = (np.clip(numbers, -1, 1) + 1) / 2 * (self.parts - 1)
        lower = np.minimum(places.astype(int), self.parts - 2)
        found, each = np.zeros((len(numbers), self.parts)), np.arange(len(numbers))
        found[each, lower + 1] = places - lower
        found[each, lower] = 1 - found[each, lower + 1]
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
