"""What scikit-learn checks of features and targets, in errors that quote no record."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tacit.errors import InputError, told_anew
from tacit.typing import HostArray

_KINDS = (TypeError, ValueError, OverflowError)
# beginnings of messages that tell of shapes, types and names of columns, and of no cell; they are
# repeated, every other one is replaced
_HARMLESS = re.compile(
    r"Found array with (dim )?\d|Found input variables with inconsistent|Input [Xy]?\s?contains |"
    r"X has \d+ features, but|The feature names should match|y should be a 1d array|"
    r"Unknown label type: (\(\(?'?)?(continuous|binary|multi|unknown)|Sparse data was passed|"
    r"This \w+ estimator requires y to be passed|float\(\) argument must be a string or"
)


def validated(estimator: Any, X: Any, y: Any) -> tuple[Float[HostArray, "N k"], HostArray]:
    """Return features as numbers, and targets, as `sklearn.utils.validation.validate_data` does.

    Raises
    ------
    InputError
        If they cannot be used; the message may name a column and never a cell.
    TypeError
        If X is sparse, or holds objects.
    """
    rows, answers = told_anew(
        lambda: validate_data(estimator, X, y, dtype=np.float64),
        _KINDS,
        lambda error: _told(error, X),
    )
    return rows, answers


def validated_rows(estimator: Any, X: Any) -> Float[HostArray, "N k"]:
    """Return the features of rows to be predicted as numbers; errors as for `validated`."""
    rows: HostArray = told_anew(
        lambda: validate_data(estimator, X, dtype=np.float64, reset=False),
        _KINDS,
        lambda error: _told(error, X),
    )
    return rows


def labels_in(answers: HostArray, classes: Any) -> HostArray:
    """Return the sorted labels of a classifier: the public `classes`, or those in `answers`."""

    def labels() -> HostArray:
        check_classification_targets(answers)
        return np.unique(answers if classes is None else np.asarray(classes))

    return told_anew(labels, _KINDS, lambda error: _told(error, None))


def numbers_in(answers: HostArray) -> Float[HostArray, "N"]:
    """Return a regression's targets as numbers."""
    return told_anew(
        lambda: answers.astype(np.float64),
        _KINDS,
        lambda _: InputError("a target is no number; a regression needs numbers in y"),
    )


def _told(error: Exception, rows: Any) -> Exception:
    """Return an error that says what is wrong without a cell of `rows`."""
    text = str(error)
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
    """Return what the first column is called that is not all numbers; names are public."""
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
