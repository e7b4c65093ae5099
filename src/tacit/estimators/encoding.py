"""From the cells that an estimator is given to rows to compute with, and weights back to units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from tacit.errors import InputError
from tacit.estimators.ranges import Ranges
from tacit.features import FeatureMap, feature_map_named, usage
from tacit.tables import INTERCEPT
from tacit.typing import HostArray


class Coefficients(NamedTuple):
    """What the scores of a row are made of: one, or K.

    Attributes
    ----------
    slopes
        (k, K), per unit of a column; with a feature map (F, K), per feature but the constant.
    missing
        (k, K): what a missing cell adds, 0 where the column has no indicator. With a feature map
        (F, K) zeros, since the indicators are among the features.
    intercepts
        (K,).
    """

    slopes: Float[HostArray, "F *K"]
    missing: Float[HostArray, "F *K"]
    intercepts: Float[HostArray, "*K"]


@dataclass(frozen=True, eq=False)
class Encoding:
    """The ranges of the columns, and the public map that encoded rows go through, if any."""

    ranges: Ranges
    features: FeatureMap | None

    @property
    def record_norm(self) -> float:
        """The largest norm of a row."""
        return (self.features or self.ranges).record_norm

    def rows(self, cells: Float[HostArray, "N k"]) -> Float[HostArray, "N D"]:
        """Return the rows that agents hold."""
        encoded = self.ranges.encoded(cells)
        return encoded if self.features is None else self.features.apply(encoded)

    def in_units(self, weights: Float[HostArray, "D K"]) -> Coefficients:
        """Return the coefficients of a model whose weights are per entry of `rows`.

        A column with range [a, b] is encoded as (x - c) / h, c its middle and h half its width. So
        a weight w is w / h per unit and moves the intercept by -w c / h.
        """
        if self.features is not None:
            constant = self._constant(self.features)
            slopes = np.delete(weights, constant, axis=0)
            return Coefficients(slopes, np.zeros_like(slopes), weights[constant])
        ranges, columns = self.ranges, len(self.ranges.minimum)
        slopes = weights[:columns] / (ranges.width[:, None] / 2)
        missing = np.zeros_like(slopes)
        missing[list(ranges.indicators)] = weights[columns:-1]
        return Coefficients(slopes, missing, weights[-1] - ranges.middle @ slopes)

    def scores(
        self, cells: Float[HostArray, "N k"], model: Coefficients
    ) -> Float[HostArray, "N *K"]:
        """Return the scores of rows, with cells clipped, and filled in, as in `rows`."""
        slopes, missing, intercepts = model
        if self.features is not None:
            mapped = np.delete(self.rows(cells), self._constant(self.features), axis=1)
            scores: HostArray = mapped @ slopes + intercepts
            return scores
        holes = np.isnan(cells)
        inside = np.where(holes, self.ranges.middle, self.ranges.clipped(cells))
        scores = inside @ slopes + intercepts
        return scores + holes @ missing if holes.any() else scores

    @staticmethod
    def _constant(features: FeatureMap) -> int:
        return features.names.index(INTERCEPT)


def feature_map_for(named: Any, ranges: Ranges, names: Sequence[str] | None) -> FeatureMap | None:
    """Return the feature map that an estimator names, for rows with these ranges; None for none.

    Raises
    ------
    InputError
        If the name is none of a map, or the map does not suit the columns.
    """
    if named is None:
        return None
    if not isinstance(named, str):
        raise InputError(f"features is {named!r}; write {usage()}, or None")
    return feature_map_named(named, ranges.inputs(names))
