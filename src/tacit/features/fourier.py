r"""Random Fourier features: a linear model in them is a smooth function of all columns at once.

With K / 2 public frequencies w_k from N(0, I / s^2), the features of a row x are

    sqrt(2 / K) (cos(w_1 . x), sin(w_1 . x), cos(w_2 . x), ...),

whose inner products are unbiased for the Gaussian kernel exp(-|x - x'|^2 / (2 s^2)) (Rahimi and
Recht 2007, algorithm 1). Each pair of cosine and sine has norm 1, so a row has norm 1 exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.features.feature_map import FeatureMap, Inputs
from tacit.typing import HostArray

_BATCH = 4096


@dataclass(frozen=True)
class Fourier(FeatureMap):
    """Cosines and sines of random directions, and the constant column if there is one.

    **Guarantee.** As for `FeatureMap`; rows have norm 1, and sqrt(2) with a constant column.

    Attributes
    ----------
    inputs
        What is public about the records.
    features
        K, an even number.
    seed
        That of the frequencies: public, the same for everybody.

    Raises
    ------
    InputError
        If K is not an even number from 2 on.
    """

    inputs: Inputs
    features: int
    seed: int = 0

    def __post_init__(self) -> None:
        if checks.at_least("features", self.features, 2) % 2:
            raise InputError(
                f"fourier:{self.features} is an odd number of features; they come in pairs of a "
                "cosine and a sine, so give an even one"
            )

    @property
    def bandwidth(self) -> float:
        """The s of the kernel, R / sqrt(2): rows of norm R at right angles have kernel exp(-2)."""
        return self.inputs.record_norm / math.sqrt(2)

    @cached_property
    def _frequencies(self) -> Float[HostArray, "K D"]:
        shape = (self.features // 2, len(self.inputs.names))
        drawn = np.random.default_rng(self.seed).standard_normal(shape) / self.bandwidth
        if self.inputs.constant is not None:
            drawn[:, self.inputs.constant] = 0  # its inner products are the same for all rows
        return drawn

    @property
    @override
    def names(self) -> tuple[str, ...]:
        pairs = [f"{f}_{k}" for k in range(self.features // 2) for f in ("cos", "sin")]
        constant = self.inputs.constant
        return (*pairs, *(() if constant is None else (self.inputs.names[constant],)))

    @property
    @override
    def record_norm(self) -> float:
        return 1.0 if self.inputs.constant is None else float(np.sqrt(2))

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        found = np.empty((len(rows), len(self.names)))
        size = np.sqrt(2 / self.features)
        for start in range(0, len(rows), _BATCH):
            phases = rows[start : start + _BATCH] @ self._frequencies.T
            some = found[start : start + _BATCH]
            some[:, 0 : self.features : 2] = size * np.cos(phases)
            some[:, 1 : self.features : 2] = size * np.sin(phases)
        if self.inputs.constant is not None:
            found[:, -1] = rows[:, self.inputs.constant]
        return found
