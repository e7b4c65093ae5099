"""Cells as numbers from -1 to 1, from public facts alone."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Num

from tacit.errors import InputError
from tacit.features import Inputs
from tacit.tables.bounds import Bounds
from tacit.tables.cells import check_filled, empty, numbers, spelled
from tacit.tables.facts import Categories, Numeric
from tacit.tables.form import Form
from tacit.typing import HostArray, Interval

INTERCEPT = "(intercept)"
MISSING = "missing"
_CURE = '; in a column to predict from, missing = "indicator" in the bounds file accepts them'


class Encoded(NamedTuple):
    """Rows as numbers.

    Attributes
    ----------
    features
        Float64 (N, D), see `encode`.
    targets
        (N,), or None without `with_target`.
    clipped
        How many cells lay outside the public bounds. A fact about the records: private.
    """

    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"] | None
    clipped: int


def encode(frame: pd.DataFrame, bounds: Bounds, *, with_target: bool) -> Encoded:
    r"""Return the rows of a table as numbers in [-1, 1], and its targets.

    Texts are read in the form, the spellings and the dates that the bounds state. A number x of a
    column with public range [a, b] becomes 2 u - 1 in [-1, 1], where
    u = (min(max(x, a), b) - a) / (b - a), or u itself where the bounds ask for the interval "unit";
    a category becomes as many zeros and ones as the public list has values; the last column is the
    constant 1. Where the bounds accept missing cells, x is `Numeric.filled` for such a cell; a
    number whose column has an indicator is followed by a 1 if it is missing and by a 0 otherwise.
    Numeric targets become 2 u - 1 always; two labels become -1 and 1 in the order of their list; K
    labels their numbers 0..K-1.

    Raises
    ------
    InputError
        If a column is missing or unknown, or a cell is empty, not a number, infinite or not in the
        public list. The message names column and row (the first row below the header is 1) and
        does not repeat the cell. Columns with empty cells are named all at once.

    Notes
    -----
    **Guarantee.** Every row depends on one record and public facts only. With k used columns
    every row has norm at most sqrt(k + 1): each numeric column adds at most 1 to the squared norm,
    each category exactly 1, the constant 1. A missing cell without an indicator is a number like
    any other; with an indicator a number adds at most 1 too where a missing cell counts as the
    middle, and more where another `fill` is given. See `encoded_norm`.
    Rounding does not take a number out of [-1, 1]: subtraction and division are monotone, so u lies
    in [0, 1]; 2 u is exact.
    """
    _check_columns(frame, bounds, with_target=with_target)
    _check_filled(frame, bounds, with_target=with_target)
    blocks, clipped = [], 0
    for name, fact in bounds.columns.items():
        if isinstance(fact, Numeric):
            block, outside = _of_numbers(frame[name], name, fact, bounds)
            blocks.append(block)
            clipped += outside
        else:
            # not rows of an identity matrix, whose size would be the square of a long list
            hot = np.zeros((len(frame), len(fact.values)))
            hot[np.arange(len(frame)), _codes(frame[name], name, fact)] = 1
            blocks.append(hot)
    blocks.append(np.ones((len(frame), 1)))
    features = np.concatenate(blocks, axis=1)
    if not with_target:
        return Encoded(features, None, clipped)
    targets, outside = _targets(frame[bounds.target_name], bounds)
    return Encoded(features, targets, clipped + outside)


def encoded_names(bounds: Bounds) -> tuple[str, ...]:
    """Return the names of the encoded columns: `column`, `column=value`, `(intercept)`.

    That of a missing cell, of a number or a category, is `column=missing`.
    """
    names: list[str] = []
    for name, fact in bounds.columns.items():
        if isinstance(fact, Numeric):
            names += [name, encoded_name(name, "")][: encoded_width(fact)]
        else:
            names += [encoded_name(name, value) for value in fact.values]
    return (*names, INTERCEPT)


def encoded_name(column: str, value: str) -> str:
    """Return the name of the encoded column of a value, which is empty for a missing cell."""
    return f"{column}={value or MISSING}"


def encoded_width(fact: Numeric | Categories) -> int:
    """Return how many encoded columns a column has."""
    if isinstance(fact, Numeric):
        return 2 if fact.indicator else 1
    return len(fact.values)


def encoded_fill(fact: Numeric, interval: Interval) -> float:
    """Return what a missing cell is encoded as, a public number: 0 for the middle of [-1, 1]."""
    if fact.fill is None:  # exactly, though minimum and width may be rounded
        return 0.0 if interval == "symmetric" else 0.5
    return float(_scaled(np.array([fact.fill]), fact, interval)[0][0])


def encoded_norm(bounds: Bounds) -> float:
    r"""Return the largest norm of an encoded row, a public number.

    **Guarantee.** With `1` for the constant, the square of the norm of a row is at most

    .. math:: 1 + \sum_{\text{columns}} s, \qquad s = 1 \text{ or, with an indicator, } 1 + f^2,

    and some row reaches it. A category has a single 1. A number e without an indicator has
    e^2 <= 1, and so has a missing cell that is filled in without one: it is encoded as f, a public
    number in [-1, 1] as that of any other cell. With an indicator the two encoded columns of a cell
    are (e, 0) if it is filled and (f, 1) if it is missing, f being `encoded_fill`: e and the
    indicator are never free together, so they add at most max(1, f^2 + 1) = 1 + f^2. With the
    middle of [-1, 1] as fill f is 0, and the indicator costs nothing: k columns have sqrt(k + 1)
    with indicators as without.
    """
    return math.sqrt(
        1 + math.fsum(_most(fact, bounds.interval) for fact in bounds.columns.values())
    )


def _most(fact: Numeric | Categories, interval: Interval) -> float:
    """Return the largest square of the norm of a column's encoded cell."""
    if isinstance(fact, Numeric) and fact.indicator:
        return 1 + encoded_fill(fact, interval) ** 2
    return 1.0


def _check_columns(frame: pd.DataFrame, bounds: Bounds, *, with_target: bool) -> None:
    present = set(frame.columns)
    needed = [*bounds.columns, *([bounds.target_name] if with_target else [])]
    missing = [name for name in needed if name not in present]
    if missing:
        raise InputError(
            f"the table has no column {missing[0]!r}; it needs {', '.join(map(repr, needed))}"
        )
    unknown = sorted(map(str, present - {bounds.target_name, *needed, *bounds.ignored}))
    if unknown:
        raise InputError(
            f"nothing is known of the column {unknown[0]!r}; describe it in the bounds file as "
            "[columns.NAME], list it under ignore, or take it out of the table"
        )


def _check_filled(frame: pd.DataFrame, bounds: Bounds, *, with_target: bool) -> None:
    facts = dict(bounds.columns)
    if with_target:
        facts[bounds.target_name] = bounds.target
    needed = {
        name: fact
        for name, fact in facts.items()
        if not (fact.accepts_missing if isinstance(fact, Numeric) else "" in fact.values)
    }
    check_filled({name: empty(frame[name], fact) for name, fact in needed.items()}, _CURE)


def _of_numbers(
    cells: pd.Series, name: str, fact: Numeric, bounds: Bounds
) -> tuple[Float[HostArray, "N _"], int]:
    """Return the scaled column, its indicator if it has one, and how many cells lay outside."""
    holes = empty(cells, fact) if fact.accepts_missing else None
    values = _numbers(cells, name, fact, bounds.form, holes)
    column, outside = _scaled(values, fact, bounds.interval)
    if holes is None:
        return column[:, None], outside
    column = np.where(holes, encoded_fill(fact, bounds.interval), column)
    if not fact.indicator:
        return column[:, None], outside
    return np.stack([column, holes.astype(np.float64)], axis=1), outside


def _numbers(
    cells: pd.Series,
    name: str,
    fact: Numeric,
    form: Form,
    holes: Bool[HostArray, "N"] | None = None,
) -> HostArray:
    """Return cells as finite numbers, those that are missing as what they count as."""
    values = numbers(cells, name, form, fact.date)
    if holes is not None:
        values = np.where(holes, fact.filled, values)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        what = "empty, infinite or not a number"
        if fact.date is not None:
            what = f"no date written as {fact.date}"
        raise InputError(
            f"column {name!r}, row {bad[0] + 1} is {what}; drop such rows or fill them in"
        )
    return values


def _scaled(values: HostArray, fact: Numeric, interval: Interval) -> tuple[HostArray, int]:
    """Return values in the interval, and how many lay outside the bounds."""
    inside = np.clip(values, fact.minimum, fact.maximum)
    unit = (inside - fact.minimum) / fact.width
    return unit if interval == "unit" else 2 * unit - 1, int(np.sum(inside != values))


def _codes(cells: pd.Series, name: str, fact: Categories) -> HostArray:
    known = pd.Index([fact.compared(value) for value in fact.values], dtype=object)
    codes = known.get_indexer(pd.Index(spelled(cells, fact), dtype=object))
    bad = np.flatnonzero(codes < 0)
    if bad.size:
        raise InputError(
            f"column {name!r}, row {bad[0] + 1} is empty or not one of the {len(fact.values)} "
            "values in the bounds file; add the value there if it is public, or drop the row"
        )
    return codes


def _targets(cells: pd.Series, bounds: Bounds) -> tuple[HostArray, int]:
    name, target = bounds.target_name, bounds.target
    if isinstance(target, Numeric):
        return _scaled(_numbers(cells, name, target, bounds.form), target, "symmetric")
    codes = _codes(cells, name, target).astype(np.int64)
    return (2.0 * codes - 1 if len(target.values) == 2 else codes), 0


def inputs_of(bounds: Bounds) -> Inputs:
    """Return what a feature map must know of an encoded table."""
    names, place, numbers = encoded_names(bounds), 0, []
    for fact in bounds.columns.values():
        if isinstance(fact, Numeric) and bounds.interval == "symmetric":
            numbers.append(place)
        place += encoded_width(fact)
    return Inputs(names, encoded_norm(bounds), tuple(numbers), constant=place)
