"""A transformer that scales columns by declared bounds and learns nothing from the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InputError
from tacit.estimators.ranges import BoundsLike, Ranges, ranges_for
from tacit.estimators.validation import column_names, dense, validated_rows
from tacit.typing import HostArray


@dataclass(kw_only=True, eq=False, repr=False)
class PublicBounds(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Map columns from their declared bounds to [-1, 1]; a scaler that may stand in pipelines.

    A cell x of a column with bounds [a, b] becomes 2 (min(max(x, a), b) - a) / (b - a) - 1; a
    missing cell (NaN) stays one. This takes the place of `StandardScaler` and `MinMaxScaler`, which
    compute means and ends from the records without noise.

    Parameters
    ----------
    bounds
        What is *public* about the columns: a pair (min, max), each one number for all columns or
        one per column, or for data frames a mapping such as {"age": (0, 120)} with every column.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    **Guarantee.** `fit` keeps the number of columns and their names, and nothing else: what
    `transform` makes of a row is a function of that row and of the bounds. So a record changes one
    row of the result, as it does of the table, and an estimator behind this step is as private as
    one without it. The estimators of this package scale by their own `bounds` already; behind this
    step they are (-1, 1).

    Examples
    --------
    >>> PublicBounds(bounds=([0, 0], [120, 1])).fit_transform([[30.0, 1.0], [180.0, 0.0]])
    array([[-0.5,  1. ],
           [ 1. , -1. ]])
    """

    bounds: BoundsLike | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> PublicBounds:
        """Note number and names of the columns; no cell is learned from.

        Raises
        ------
        InputError
            If no bounds are given, they do not suit the columns, or a cell is no finite number and
            not missing.
        """
        del y
        if self.bounds is None:
            raise InputError(
                "bounds is not set; declare what was public beforehand, as in bounds=(0, 120)"
            )
        validated_rows(self, X, reset=True, missing=True)
        self._ranges()
        return self

    def transform(self, X: ArrayLike) -> Float[HostArray, "N k"]:
        """Return the rows with every column mapped to [-1, 1]."""
        check_is_fitted(self, "n_features_in_")
        ranges = self._ranges()
        return ranges.scaled(dense(validated_rows(self, X, missing=True)))

    def inverse_transform(self, X: ArrayLike) -> Float[HostArray, "N k"]:
        """Return numbers in [-1, 1] in the units of the columns."""
        check_is_fitted(self, "n_features_in_")
        ranges = self._ranges()
        rows = dense(validated_rows(self, X, missing=True))
        inside: HostArray = ranges.middle + rows * (ranges.width / 2)
        return inside

    def _ranges(self) -> Ranges:
        """Return the declared ranges of the columns."""
        return ranges_for(self.bounds, self.n_features_in_, names=column_names(self))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
