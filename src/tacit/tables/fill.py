"""Bounds filled in from the data: a file to start from, not a public fact."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tacit.errors import InputError, told_anew
from tacit.tables.bounds import Bounds, Categories, Numeric

MOST_VALUES = 100
MOST_LABELS = 20


def bounds_from(frame: pd.DataFrame, target: str, *, ignored: tuple[str, ...] = ()) -> Bounds:
    """Return bounds in which every range and list is what occurs in the table.

    A column of numbers gets its least and largest value, any other the list of its values. A column
    of text with more than 100 different values is ignored. A target of numbers with more than 20
    different values is a regression target, any other has labels.

    Raises
    ------
    InputError
        If the target or an ignored column is not in the table, a cell is empty or infinite, the
        target has one class, or no column is left.

    Notes
    -----
    **Guarantee.** None: the result is a function of all records. Its origin is "data", which makes
    every certificate that rests on it conditional.

    Examples
    --------
    >>> table = pd.DataFrame({"age": ["40", "51"], "ill": ["no", "yes"]})
    >>> bounds_from(table, "ill").columns
    {'age': Numeric(minimum=40.0, maximum=51.0)}
    """
    for name in (target, *ignored):
        if name not in frame.columns:
            raise InputError(
                f"the table has no column {name!r}; it has {', '.join(map(repr, frame.columns))}"
            )
    used = [name for name in frame.columns if name not in (target, *ignored)]
    facts = {name: _fact(frame[name], name) for name in used}
    columns = {name: fact for name, fact in facts.items() if fact is not None}
    left_out = (*ignored, *(name for name in used if facts[name] is None))
    return Bounds("data", target, _target(frame[target], target), columns, left_out)


def _fact(cells: pd.Series, name: str) -> Numeric | Categories | None:
    numbers = _numbers(cells, name)
    if numbers is not None:
        return range_of(numbers, f"column {name!r}")
    values = tuple(sorted(set(cells)))
    return Categories(values) if len(values) <= MOST_VALUES else None


def _target(cells: pd.Series, name: str) -> Numeric | Categories:
    numbers = _numbers(cells, name)
    values = sorted(set(cells))
    if numbers is None:
        if len(values) > MOST_VALUES:
            raise InputError(
                f"the target {name!r} has {len(values)} different labels; there may be at most "
                f"{MOST_VALUES}"
            )
        return Categories(tuple(values))
    if len(values) > MOST_LABELS:
        return range_of(numbers, f"the target {name!r}")
    size = dict(zip(cells, numbers.tolist(), strict=True))
    return Categories(tuple(sorted(values, key=size.__getitem__)))


def _numbers(cells: pd.Series, name: str) -> np.ndarray | None:
    """Return the cells as finite numbers, or None if one of them is text."""
    empty = np.flatnonzero(cells.to_numpy() == "")
    if empty.size:
        raise InputError(
            f"column {name!r}, row {empty[0] + 1} is empty; drop such rows or fill them in"
        )
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    if np.isinf(numbers).any():
        row = np.flatnonzero(np.isinf(numbers))[0] + 1
        raise InputError(f"column {name!r}, row {row} is infinite; drop such rows or fill them in")
    return None if np.isnan(numbers).any() else numbers


def range_of(numbers: np.ndarray, what: str) -> Numeric:
    """Return the range that numbers span, widened if they are all the same; not a public fact.

    Parameters
    ----------
    what
        What the numbers are, for the error message.

    Raises
    ------
    InputError
        If no range of `Numeric` spans them; the message does not say what they are.

    Examples
    --------
    >>> range_of(np.array([3.0, 1.0]), "age"), range_of(np.array([0.0, 0.0]), "age")
    (Numeric(minimum=1.0, maximum=3.0), Numeric(minimum=0.0, maximum=1.0))
    """
    least, most = float(numbers.min()), float(numbers.max())
    # a constant column still needs a range of some width
    most = most if most > least else least + max(1.0, abs(least))
    return told_anew(
        lambda: Numeric(least, most),
        InputError,
        lambda _: InputError(
            f"the values of {what} span no range that can be computed with: they are too large, or "
            "too close together beside their size; state a public range, or subtract a public "
            "constant"
        ),
    )
