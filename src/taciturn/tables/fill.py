"""Bounds filled in from the data: a file to start from, not a public fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from taciturn.errors import InputError, told_anew
from taciturn.tables.bounds import Bounds, Notes
from taciturn.tables.cells import check_filled
from taciturn.tables.facts import USUAL_MISSING, Categories, Numeric
from taciturn.tables.form import Form
from taciturn.tables.look import Look, another_form, look

MOST_LABELS = 20
PROPOSED_BINS = 10
_USUAL = Form()
_OF_NUMBERS = (
    "cells are missing: each counts as the middle of the range, and one more column says that it is"
)
_OF_CATEGORIES = "cells are missing: they are a category of their own"
_CONSTANT = "every cell says the same, so nothing can be learned from it; list it under ignore"
_SKEWED = (
    "19 of 20 values lie in a tenth of this range; a public range that a few exceed leaves more to "
    "learn, since values outside count as its ends"
)


@dataclass(frozen=True)
class Draft:
    """Bounds filled in from a table, and what is to be said about its columns."""

    bounds: Bounds
    notes: Notes


def bounds_from(
    frame: pd.DataFrame, target: str, *, ignored: tuple[str, ...] = (), form: Form = _USUAL
) -> Bounds:
    """Return bounds in which every range and list is what occurs in the table; see `draft_from`.

    Examples
    --------
    >>> table = pd.DataFrame({"age": ["40", "51"], "ill": ["no", "yes"]})
    >>> bounds_from(table, "ill").columns["age"].maximum
    51.0
    """
    return draft_from(frame, target, ignored=ignored, form=form).bounds


def draft_from(
    frame: pd.DataFrame, target: str, *, ignored: tuple[str, ...] = (), form: Form = _USUAL
) -> Draft:
    """Return bounds in which every range and list is what occurs in the table, with notes.

    A column of numbers gets its least and largest value, so does one of dates, as days since
    1970-01-01; any other gets the list of its values. Spellings that differ by case or white space
    alone become one. A column of text with more than 100 different values is left out, and so are
    numbers that are written in another form; the notes say why. Where cells are missing, the column
    gets an indicator of that. A target of numbers with more than 20 different values is a
    regression target, any other has labels. The notes propose bins for columns of many numbers,
    and the logarithm where half of them lie in the lowest tenth of their range; the bounds have
    neither.

    Raises
    ------
    InputError
        If the target or an ignored column is not in the table, the target has empty cells, a column
        that is used has infinite ones, the target has one class, or no column is left.

    Notes
    -----
    **Guarantee.** None: the result is a function of all records. Its origin is "data", which makes
    every certificate that rests on it conditional.
    """
    for name in (target, *ignored):
        if name not in frame.columns:
            raise InputError(
                f"the table has no column {name!r}; it has {', '.join(map(repr, frame.columns))}"
            )
    names = [target, *(name for name in frame.columns if name not in (target, *ignored))]
    seen = _read_alike({name: look(frame[name], name, form) for name in names})
    left_out = {name: one.left_out for name, one in seen.items() if one.left_out}
    used = [name for name in names if name not in left_out or name == target]
    check_filled({target: seen[target].holes}, ": a record without a target teaches nothing")
    _check_finite({name: seen[name] for name in used})
    aim = _target(seen[target], target)
    facts = {name: _fact(seen[name], f"column {name!r}") for name in used if name != target}
    remarks = {name: _remarks(seen[name], is_target=name == target) for name in used}
    proposals = {name: _proposed(seen[name]) for name in facts}
    return Draft(
        Bounds("data", target, aim, facts, (*ignored, *left_out), form),
        Notes(
            left_out,
            {name: said for name, said in remarks.items() if said},
            {name: said for name, said in proposals.items() if said},
        ),
    )


def _read_alike(seen: Mapping[str, Look]) -> dict[str, Look]:
    """Return the columns; of numbers in another form the reason names one that reads them all."""
    forms = [one.forms for one in seen.values() if one.forms]
    shared = [changes for changes in forms[0] if all(changes in f for f in forms)] if forms else []
    return {
        name: replace(one, left_out=another_form(shared)) if shared and one.forms else one
        for name, one in seen.items()
    }


def _remarks(one: Look, *, is_target: bool) -> tuple[str, ...]:
    said = list(one.remarks)
    if one.like_id and not is_target:
        said.append("all values are different; if this is an id, list it under ignore")
    if one.constant and not is_target:
        said.append(_CONSTANT)
    if one.skewed and not one.constant:
        said.append(_SKEWED)
    if one.holes.any():
        said.append(_OF_CATEGORIES if one.numbers is None else _OF_NUMBERS)
    return tuple(said)


def _proposed(one: Look) -> dict[str, Any]:
    """Return entries that a column of numbers might have."""
    if not one.many_numbers or one.like_id:
        return {}
    return ({"scale": "log"} if one.low else {}) | {"bins": PROPOSED_BINS}


def _check_finite(seen: Mapping[str, Look]) -> None:
    for name, one in seen.items():
        if one.numbers is not None and np.isinf(one.numbers).any():
            row = np.flatnonzero(np.isinf(one.numbers))[0] + 1
            raise InputError(
                f"column {name!r}, row {row} is infinite; drop such rows or fill them in"
            )


def _fact(one: Look, what: str) -> Numeric | Categories:
    if one.categories is not None and one.holes.any():
        return replace(one.categories, values=("", *one.categories.values))
    if one.categories is not None:
        return one.categories
    assert one.numbers is not None  # of a column that is not left out
    span = range_of(one.numbers, what)
    if not one.holes.any():
        return Numeric(span.minimum, span.maximum, one.date)
    return Numeric(span.minimum, span.maximum, one.date, (*USUAL_MISSING, *one.spellings), True)


def _target(one: Look, name: str) -> Numeric | Categories:
    if one.left_out:
        raise InputError(f"the target {name!r} cannot be used: {one.left_out}")
    if one.numbers is None or one.date is not None or one.texts.nunique() > MOST_LABELS:
        return _fact(one, f"the target {name!r}")
    size = dict(zip(one.texts, one.numbers.tolist(), strict=True))
    return Categories(tuple(sorted(size, key=size.__getitem__)))


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
    >>> range_of(np.array([3.0, 1.0]), "age").width, range_of(np.array([0.0, 0.0]), "age").maximum
    (2.0, 1.0)
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
