"""Checks of features and targets by scikit-learn, with errors that quote no record."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, csr_matrix, issparse, sparray, spmatrix
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, validate_data

from taciturn.errors import InputError, PrivacyWarning, reraise_clean
from taciturn.typing import HostArray

MOST_CELLS, PIECE_CELLS = 10**8, 10**6
Sparse: TypeAlias = csr_matrix | csr_array
RowsLike: TypeAlias = ArrayLike | spmatrix | sparray
_KINDS = (TypeError, ValueError, OverflowError)
# beginnings of messages about shapes, types and column names, which quote no cell: these are passed
# on, all others are replaced
_HARMLESS = re.compile(
    r"Found array with (dim )?\d|Found input variables with inconsistent|Input [Xy]?\s?contains |"
    r"X has \d+ features, but|The feature names should match|y should be a 1d array|"
    r"Unknown label type: (\(\(?'?)?(continuous|binary|multi|unknown)|Sparse data was passed|"
    r"This \w+ estimator requires y to be passed|float\(\) argument must be a string or"
)


def validated(estimator: Any, X: Any, *, missing: bool, **known: Any) -> Any:
    """Return what `sklearn.utils.validation.validate_data` does: features, and targets if given.

    Features are finite numbers, or with `missing` also NaN. The message of an `InputError`, or of
    a `TypeError` if X holds objects, may name a column but never quotes a cell.
    """
    known |= {"dtype": np.float64, "ensure_all_finite": "allow-nan" if missing else True}
    return reraise_clean(
        lambda: validate_data(estimator, X, **known), _KINDS, lambda error: _without_cells(error, X)
    )


def column_names(estimator: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of an estimator; None if they had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def leaves_out_zeros(rows: Any) -> bool:
    """Return whether rows are a sparse matrix, or a data frame that scikit-learn reads as one."""
    return issparse(rows) or hasattr(rows, "sparse")


def check_size(X: Any, y: Any) -> None:
    """Raise `InputError` unless there is a target for each row and X can be dense; read no cell."""
    reraise_clean(
        lambda: check_consistent_length(X, y), _KINDS, lambda error: _without_cells(error, None)
    )
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if issparse(X) and math.prod(shape) > MOST_CELLS:
        raise InputError(
            f"X is sparse and has {shape[0]:,} rows of {shape[1]:,} columns; fit needs "
            f"every cell, and at most {MOST_CELLS:,} of them: keep fewer columns, chosen by a "
            "public list, or hash them to fewer"
        )


def dense(rows: Float[HostArray, "N k"] | Sparse) -> Float[HostArray, "N k"]:
    """Return dense rows; `check_size` limits their number of cells (0.8 GB)."""
    full: HostArray = rows.toarray() if issparse(rows) else rows
    return full


def pieces(rows: Float[HostArray, "N k"] | Sparse) -> Iterator[Float[HostArray, "M k"]]:
    """Yield dense rows, in blocks if they are sparse."""
    if not issparse(rows):
        yield rows
        return
    size = max(1, PIECE_CELLS // max(1, rows.shape[1]))
    for first in range(0, rows.shape[0], size):
        yield rows[first : first + size].toarray()


def scaling_warnings(
    rows: Float[HostArray, "N k"], names: Sequence[str] | None
) -> list[tuple[type[Warning], str]]:
    """Return a warning if columns have mean 0 and variance 1, both to 1e-9, as behind a scaler.

    Measured columns do not reach that by chance. Missing cells do not count, and columns with fewer
    than three different values are skipped: -1 and 1 in equal parts have mean 0 and variance 1.

    **Guarantee.** None: the warning is a function of all records, for their holder only.
    """
    filled = ~np.isnan(rows)
    count = np.maximum(filled.sum(axis=0), 1)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.sum(rows, axis=0, where=filled) / count
        variance = np.sum((rows - mean) ** 2, axis=0, where=filled) / count
    standardised = np.flatnonzero((np.abs(mean) <= 1e-9) & (np.abs(variance - 1) <= 1e-9))
    found = [int(k) for k in standardised if len(np.unique(rows[filled[:, k], k])) > 2]
    if not found:
        return []
    first = repr(names[found[0]] if names else found[0])
    more = f" and {len(found) - 1} more have" if len(found) > 1 else " has"
    text = (
        f"column {first} of X{more} mean 0 and variance 1, as behind a StandardScaler; the "
        "certificate does not cover means and variances that were computed from the records: pass "
        "the columns as they were collected, with public bounds (PublicBounds scales by such)"
    )
    return [(PrivacyWarning, text)]


def labels_in(answers: HostArray | None, classes: Any) -> HostArray:
    """Return the sorted labels of a classifier: the public `classes`, or those in `answers`."""

    def labels() -> HostArray:
        # twice each, or scikit-learn warns that most of them are different
        check_classification_targets(np.repeat(classes, 2) if answers is None else answers)
        return np.unique(np.asarray(answers if classes is None else classes))

    return reraise_clean(labels, _KINDS, lambda error: _without_cells(error, None))


def numbers_in(answers: HostArray) -> Float[HostArray, "N"]:
    """Return a regression's targets as numbers."""
    wrong = InputError("a target is not a number; a regression needs numbers in y")
    found: HostArray = reraise_clean(lambda: answers.astype(np.float64), _KINDS, lambda _: wrong)
    if np.isnan(found).any():  # None, which scikit-learn accepts and NumPy converts to NaN
        raise wrong
    return found


def _without_cells(error: Exception, rows: Any) -> Exception:
    """Return an error that says what is wrong without a cell of `rows`."""
    text = str(error)
    if "contains NaN" in text and text.startswith("Input X"):
        return InputError(
            'Input X contains NaN. Pass missing="indicator" to have missing cells count as the '
            'middle of their bounds, with a column that says so, or missing="fill" without one; or '
            "drop such rows, or fill them in with a public number"
        )
    if _HARMLESS.match(text):
        kind = TypeError if isinstance(error, TypeError) else InputError
        return kind(text)
    if text.startswith("Complex data not supported"):
        return InputError("Complex data not supported: give real numbers")
    if text.startswith("Expected 2D array"):
        return InputError(
            "Expected 2D array, got another number of axes. Reshape your data: X.reshape(-1, 1) if "
            "it is one column, X.reshape(1, -1) if it is one record"
        )
    where = "X or y" if rows is None else _not_numbers(rows)
    return InputError(
        f"{where} holds a cell that is no number, or of another kind than the rest; encode "
        "categories as numbers by a public list, and drop or fill in what is missing"
    )


def _not_numbers(rows: Any) -> str:
    """Return the name of the first column that is not all numbers; names are public."""
    names = list(getattr(rows, "columns", ()))
    cells = np.empty((0, 0))
    with suppress(*_KINDS):
        cells = np.asarray(rows, dtype=object)
    for number in range(cells.shape[1] if cells.ndim == 2 else 0):
        try:
            cells[:, number].astype(np.float64)
        except _KINDS:
            return f"column {names[number] if names else number!r} of X"
    return "X or y"
