"""Public ranges of the columns of an estimator, and the encoding of rows by them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from taciturn.errors import InputError
from taciturn.estimators.validation import column_names, validated
from taciturn.features import Inputs
from taciturn.tables import FILL, INDICATOR, INTERCEPT, Numeric, encoded_name, range_of
from taciturn.typing import HostArray

BoundsLike: TypeAlias = tuple[ArrayLike, ArrayLike] | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges [a_j, b_j] of k columns, (k,) each with a_j < b_j, in the units of the columns.

    - `indicators`: the q columns that get an indicator of missing cells, by number;
    - `filled`: the columns whose cells may be missing without an indicator.
    """

    minimum: Float[HostArray, "k"]
    maximum: Float[HostArray, "k"]
    indicators: tuple[int, ...] = ()
    filled: tuple[int, ...] = ()

    @property
    def width(self) -> Float[HostArray, "k"]:
        """b_j - a_j."""
        return self.maximum - self.minimum

    @property
    def middle(self) -> Float[HostArray, "k"]:
        """(a_j + b_j) / 2, what is encoded as 0."""
        return self.minimum + self.width / 2

    @property
    def record_norm(self) -> float:
        """sqrt(k + 1), the largest norm of a row of `encoded`, with indicators as without."""
        return math.sqrt(len(self.minimum) + 1)

    def clipped(self, rows: Float[HostArray, "N k"]) -> Float[HostArray, "N k"]:
        """Return min(max(x_j, a_j), b_j)."""
        inside: HostArray = np.clip(rows, self.minimum, self.maximum)
        return inside

    def scaled(self, rows: Float[HostArray, "N k"]) -> Float[HostArray, "N k"]:
        """Return 2 u_j - 1 in [-1, 1], u_j = (min(max(x_j, a_j), b_j) - a_j) / (b_j - a_j)."""
        unit = (self.clipped(rows) - self.minimum) / self.width
        return 2 * unit - 1

    def encoded(self, rows: Float[HostArray, "N k"]) -> Float[HostArray, "N D"]:
        """Return D = k + q + 1 columns: `scaled`, the indicators of missing cells, a constant 1.

        A missing cell (NaN) is 0, as the middle of its range would be.

        **Guarantee.** If the ranges are public, each row is a function of one record and public
        facts. Each u_j lies in [0, 1], in floating point as well, since subtraction and division
        round monotonically, and 2 u_j is exact, so each cell lies in [-1, 1]. A cell and its
        indicator are (2 u_j - 1, 0), or (0, 1) if it is missing: either way they add at most 1 to
        the squared norm; so does the 0 of a missing cell without an indicator. So a row of k
        columns has norm at most sqrt(k + 1).
        """
        holes = np.isnan(rows)
        scaled = np.where(holes, 0.0, self.scaled(rows))
        marks = holes[:, list(self.indicators)].astype(np.float64)
        return np.concatenate([scaled, marks, np.ones((len(rows), 1))], axis=1)

    def inputs(self, names: Sequence[str] | None) -> Inputs:
        """Return what a feature map must know of the rows of `encoded`."""
        columns = len(self.minimum)
        known = tuple(names or map(str, range(columns)))
        marks = (encoded_name(known[k], "") for k in self.indicators)
        every = (*known, *marks, INTERCEPT)
        return Inputs(every, self.record_norm, tuple(range(columns)), constant=len(every) - 1)

    def check_filled(self, rows: Float[HostArray, "N k"], names: Sequence[str] | None) -> None:
        """Raise `InputError` that names columns with missing cells that are not accepted."""
        accepted = {*self.indicators, *self.filled}
        bare = set(np.flatnonzero(np.isnan(rows).any(axis=0)).tolist()) - accepted
        if bare:
            listed = [names[k] if names else k for k in sorted(bare)]
            raise InputError(
                f"X has missing cells in {_listed(listed)}, which missing= does not list; add that "
                'there, or write missing="indicator" or "fill" for all columns'
            )

    def check_zero(self, names: Sequence[str] | None) -> None:
        """Raise `InputError`, which names a column, unless 0 lies in every range."""
        outside = np.flatnonzero((self.minimum > 0) | (self.maximum < 0))
        if outside.size:
            name = names[outside[0]] if names else int(outside[0])
            raise InputError(
                f"bounds of column {name!r} leave out 0, and X is sparse: a cell that is not "
                "stored is 0; widen the bounds to contain it, or pass X.toarray()"
            )


def ranges_for(bounds: Any, columns: int, *, names: Sequence[str] | None = None) -> Ranges:
    """Return the ranges that `bounds` states for that many columns.

    `InputError` if it is neither a pair nor a mapping, names columns that do not exist, or a range
    is empty, infinite or too narrow (`Numeric`).

    Examples
    --------
    >>> ranges_for({"sex": (0, 1), "age": (0, 120)}, 2, names=("age", "sex")).maximum
    array([120.,   1.])
    """
    if isinstance(bounds, Mapping):
        bounds = _by_name(bounds, names)
    try:
        low, high = (np.broadcast_to(np.asarray(end, np.float64), columns) for end in bounds)
    except (TypeError, ValueError) as error:
        raise InputError(
            "bounds must be a pair (min, max), each of them one number for all columns or "
            f"{columns} numbers, one per column; or name every column of a data frame, as in "
            '{"age": (0, 120)}'
        ) from error
    facts = []
    for number, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        try:
            facts.append(Numeric(*ends))
        except InputError as error:
            column = repr(names[number]) if names else number
            raise InputError(f"bounds of column {column}: {error}") from error
    return _ranges(facts)


def ranges_seen(rows: Float[HostArray, "N k"], what: str = "column {} of X") -> Ranges:
    """Return the ranges that the columns span, on which a certificate is conditional.

    `InputError` if a column has only missing cells, or spans no valid range (`Numeric`); its
    message calls the column `what`, with {} for its number.
    """
    facts = []
    for number, column in enumerate(rows.T):
        filled = column[~np.isnan(column)]
        if not filled.size:
            raise InputError(
                f"every cell of {what.format(number)} is missing; state its bounds, or leave it out"
            )
        facts.append(range_of(filled, what.format(number)))
    return _ranges(facts)


def _ranges(facts: Sequence[Numeric]) -> Ranges:
    ends = np.array([(fact.minimum, fact.maximum) for fact in facts]).reshape(-1, 2)
    return Ranges(ends[:, 0], ends[:, 1])


def _by_name(bounds: Mapping[Any, Any], names: Sequence[str] | None) -> tuple[list[Any], list[Any]]:
    """Return the two ends of every column, in the order of the columns."""
    _check_named("bounds", bounds, names)
    assert names is not None
    silent = [name for name in names if name not in bounds]
    if silent:
        named = _listed(silent) if bounds else "all columns"
        raise InputError(f"bounds lacks {named}; give (min, max) for every column of X")
    for name, ends in bounds.items():
        if np.shape(ends) != (2,):
            raise InputError(f"bounds of column {name!r} must be a pair (min, max) of numbers")
    return [bounds[name][0] for name in names], [bounds[name][1] for name in names]


def _check_named(setting: str, given: Iterable[Any], names: Sequence[Any] | None) -> None:
    if names is None:
        raise InputError(
            f"{setting} names columns, and X has no names; pass a data frame, behind a transformer "
            f'with set_output(transform="pandas"), or {setting} without names'
        )
    unknown = [name for name in given if name not in names]
    if unknown:  # without a header in its file, a data frame is named by a record
        raise InputError(f"{setting} names {_listed(unknown)}, which X does not have as columns")


def _listed(names: Sequence[Any]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(repr, names[:10])) + more


def missing_in(
    missing: Any, columns: int, names: Sequence[str] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the columns whose cells may be missing, with an indicator and without, by number.

    For `missing` see `PrivateLinearModel`; `InputError` if it has another form, or names a column
    that X does not have.

    Examples
    --------
    >>> missing_in({"sex": "fill", 0: "indicator"}, 3, ("age", "height", "sex"))
    ((0,), (2,))
    """
    if missing is None:
        return (), ()
    given = dict.fromkeys(range(columns), missing) if isinstance(missing, str) else missing
    if not isinstance(given, Mapping):
        raise InputError(
            f'missing is {missing!r}; it must be "{INDICATOR}" or "{FILL}" for all columns, or a '
            "mapping from columns to these words"
        )
    wrong = [word for word in given.values() if word not in (INDICATOR, FILL)]
    if wrong:
        raise InputError(f'missing is {wrong[0]!r}; write "{INDICATOR}" or "{FILL}"')
    places: dict[Any, int] = {name: place for place, name in enumerate(names or ())}
    known = places | {place: place for place in range(columns)}
    nameless = names is None and any(isinstance(name, str) for name in given)
    _check_named("missing", given, None if nameless else list(known))
    marked, filled = (
        tuple(sorted({known[name] for name, how in given.items() if how == word}))
        for word in (INDICATOR, FILL)
    )
    return marked, filled


@dataclass(kw_only=True, eq=False, repr=False)
class PublicBounds(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Map columns from their declared bounds to [-1, 1]; a scaler for pipelines.

    A cell x of a column with bounds [a, b] becomes 2 (min(max(x, a), b) - a) / (b - a) - 1; a
    missing cell (NaN) stays missing. It replaces `StandardScaler` and `MinMaxScaler`, which compute
    means and ranges from the records without noise. `bounds` are *public*, as in
    `PrivateLinearModel`; an estimator after this step has the bounds (-1, 1).

    **Guarantee.** `fit` keeps the number of columns and their names, and nothing else: a row of
    the result is a function of one row and the bounds. So an estimator after this step is as
    private as one without it.

    Examples
    --------
    >>> PublicBounds(bounds=([0, 0], [120, 1])).fit_transform([[30.0, 1.0], [180.0, 0.0]])
    array([[-0.5,  1. ],
           [ 1. , -1. ]])
    """

    bounds: BoundsLike | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> PublicBounds:
        """Store number and names of the columns; nothing is learned from the cells.

        `InputError` if no bounds are given, they do not suit the columns, or a cell is neither a
        finite number nor missing.
        """
        del y
        if self.bounds is None:
            raise InputError("bounds is not set; declare what was public, as in bounds=(0, 120)")
        validated(self, X, missing=True)
        self._ranges()
        return self

    def transform(self, X: ArrayLike) -> Float[HostArray, "N k"]:
        """Return the rows with every column mapped to [-1, 1]."""
        check_is_fitted(self, "n_features_in_")
        return self._ranges().scaled(validated(self, X, missing=True, reset=False))

    def inverse_transform(self, X: ArrayLike) -> Float[HostArray, "N k"]:
        """Return numbers in [-1, 1] in the units of the columns."""
        check_is_fitted(self, "n_features_in_")
        ranges = self._ranges()
        rows: HostArray = validated(self, X, missing=True, reset=False)
        return ranges.middle + rows * (ranges.width / 2)

    def _ranges(self) -> Ranges:
        return ranges_for(self.bounds, self.n_features_in_, names=column_names(self))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
