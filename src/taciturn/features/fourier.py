"""Random Fourier features: a linear model in them is a smooth function of all columns jointly.

With K / 2 public frequencies w_k from N(0, I / s^2), the features of a row x are

    sqrt(2 / K) (cos(w_1 . x), sin(w_1 . x), cos(w_2 . x), ...),

whose inner products are unbiased for the Gaussian kernel exp(-|x - x'|^2 / (2 s^2)) (Rahimi and
Recht 2007, algorithm 1). Each pair of cosine and sine has norm 1, so a row has norm 1 exactly.

A linear algebra library adds the products of w_k . x in an order that depends on the number of rows
and the position of a row, so an additional row could change the last digits of others. Rows and
frequencies are therefore truncated to integers of p bits each, with 2 p + ceil(log2 D) <= 53: every
product and every sum is then exact, in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.features.feature_map import FeatureMap, Inputs
from taciturn.typing import HostArray

_BATCH = 4096
_DIGITS = 53  # bits of the integers that double precision holds


@dataclass(frozen=True)
class Fourier(FeatureMap):
    """Cosines and sines along random directions, and the constant column if there is one.

    **Guarantee.** As for `FeatureMap`, to the last bit, whatever the other rows; rows have norm 1,
    or sqrt(2) with a constant column.
    """

    inputs: Inputs
    features: int  # K, even and at least 2
    seed: int = 0  # of the frequencies: public, common to all agents

    def __post_init__(self) -> None:
        if checks.at_least("features", self.features, 2) % 2:
            raise InputError(
                f"fourier:{self.features} is an odd number of features; they come in pairs of a "
                "cosine and a sine, so give an even one"
            )

    @property
    def bandwidth(self) -> float:
        """The s of the kernel, R / sqrt(2): orthogonal rows of norm R have kernel exp(-2)."""
        return self.inputs.record_norm / math.sqrt(2)

    @cached_property
    def _frequencies(self) -> Float[HostArray, "K D"]:
        shape = (self.features // 2, len(self.inputs.names))
        drawn = np.random.default_rng(self.seed).standard_normal(shape) / self.bandwidth
        if self.inputs.constant is not None:
            drawn[:, self.inputs.constant] = 0  # would shift the phases of all rows equally
        return drawn

    @cached_property
    def _whole(self) -> tuple[int, Float[HostArray, "K D"], int]:
        """The number p of bits, the frequencies as p-bit integers, and their power of two."""
        digits = (_DIGITS - (len(self.inputs.names) - 1).bit_length()) // 2
        power = int(np.frexp(np.abs(self._frequencies).max())[1]) - digits
        return digits, np.trunc(np.ldexp(self._frequencies, -power)), power

    def _phases(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        """Return w_k . x, scaled by a power of two of each row alone."""
        digits, frequencies, power = self._whole
        powers = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1] - digits
        whole = np.trunc(np.ldexp(np.asarray(rows, np.float64), -powers))
        phases: HostArray = np.ldexp(whole @ frequencies.T, powers + power)
        return phases

    @property
    @override
    def columns(self) -> int:
        return self.features + len(self.inputs.constants)

    @property
    @override
    def names(self) -> tuple[str, ...]:
        pairs = [f"{f}_{k}" for k in range(self.features // 2) for f in ("cos", "sin")]
        return (*pairs, *self.inputs.constants)

    @property
    @override
    def record_norm(self) -> float:
        return 1.0 if self.inputs.constant is None else float(np.sqrt(2))

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        found = np.empty((len(rows), self.columns))
        size = np.sqrt(2 / self.features)
        for start in range(0, len(rows), _BATCH):
            phases = self._phases(rows[start : start + _BATCH])
            some = found[start : start + _BATCH]
            some[:, 0 : self.features : 2] = size * np.cos(phases)
            some[:, 1 : self.features : 2] = size * np.sin(phases)
        if self.inputs.constant is not None:
            found[:, -1] = rows[:, self.inputs.constant]
        return found
