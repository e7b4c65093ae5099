"""Rows around a released centre, the features of a run with a private centre.

With c and n = max(|x - c|, R / 64), R the bound on rows x,

    x~ = ((x - c) / n, kappa),        of norm sqrt(1 + kappa^2) at most.

The centre is computed from a noised answer (`taciturn.algorithms.Centred`), so it is public after
the run and stored in the model file. During the run the door uses the same rows without forming
them (`taciturn.kernel.questions.CentredGradient`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.errors import InputError
from taciturn.features.feature_map import FeatureMap, Inputs
from taciturn.kernel.questions import NEAREST
from taciturn.typing import HostArray

CONSTANT = 0.3  # kappa, the intercept's column: small, so that it adds little noise
_ROWS = 2**12  # per block, to save memory


@dataclass(frozen=True, eq=False)
class CentredRows(FeatureMap):
    """The rows around the centre c, after the feature map `first` if there is one."""

    inputs: Inputs
    first: FeatureMap | None
    centre: Float[HostArray, "K"]
    record_norm = math.hypot(1.0, CONSTANT)

    def __post_init__(self) -> None:
        before = len(self.inputs.names) if self.first is None else self.first.columns
        if self.centre.shape != (before,) or not np.isfinite(self.centre).all():
            raise InputError(
                f"a centre of shape {self.centre.shape} is given for rows of "
                f"{before} numbers; it must be one finite number for each"
            )

    @property
    @override
    def columns(self) -> int:
        return len(self.centre) + 1

    @property
    @override
    def names(self) -> tuple[str, ...]:
        """The names of the columns; the constant of the input is renamed, kappa is added."""
        before = self.inputs.names if self.first is None else self.first.names
        kept = ("1 of the row" if name in self.inputs.constants else name for name in before)
        return (*kept, "constant")

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        return self.around(rows if self.first is None else self.first.apply(rows))

    def around(self, before: Float[HostArray, "N K"]) -> Float[HostArray, "N L"]:
        """Return rows around the centre, given the output of the first map."""
        most = self.inputs.record_norm if self.first is None else self.first.record_norm
        moved = np.full((len(before), before.shape[1] + 1), CONSTANT, before.dtype)
        least = np.finfo(before.dtype).tiny
        for start in range(0, len(before), _ROWS):
            rows = before[start : start + _ROWS]
            # scale entries to size 1, whose squares neither overflow nor underflow
            largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), least)
            unit = rows / largest
            size = np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-30)
            away = unit * np.minimum(largest, most / size) - self.centre.astype(before.dtype)
            distance = np.linalg.norm(away, axis=1, keepdims=True)
            away /= np.maximum(distance, NEAREST * most).astype(before.dtype)
            moved[start : start + _ROWS, :-1] = away
        return moved
