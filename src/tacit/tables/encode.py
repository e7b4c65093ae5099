"""Cells as numbers from -1 to 1, from public facts alone."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Num

from tacit.errors import InputError
from tacit.tables.bounds import Bounds
from tacit.tables.cells import check_filled, empty, numbers, spelled
from tacit.tables.facts import Categories, Numeric
from tacit.tables.form import Form
from tacit.typing import HostArray, Interval

INTERCEPT = "(intercept)"


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
    constant 1. Numeric targets become 2 u - 1 always; two labels become -1 and 1 in the order of
    their list; K labels their numbers 0..K-1.

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
    each category exactly 1, the constant 1. See `encoded_norm`. Rounding does not take a number
    out of [-1, 1]: subtraction and division are monotone, so u lies in [0, 1]; 2 u is exact.
    """
    _check_columns(frame, bounds, with_target=with_target)
    _check_filled(frame, bounds, with_target=with_target)
    blocks, clipped = [], 0
    for name, fact in bounds.columns.items():
        if isinstance(fact, Numeric):
            values = _numbers(frame[name], name, fact, bounds.form)
            column, outside = _scaled(values, fact, bounds.interval)
            blocks.append(column[:, None])
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
    """Return the names of the encoded columns: `column`, `column=value`, `(intercept)`."""
    names: list[str] = []
    for name, fact in bounds.columns.items():
        values = fact.values if isinstance(fact, Categories) else ()
        names.extend([f"{name}={value}" for value in values] or [name])
    return (*names, INTERCEPT)


def encoded_norm(bounds: Bounds) -> float:
    """Return sqrt(k + 1), the largest norm of an encoded row of k columns."""
    return math.sqrt(len(bounds.columns) + 1)


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
        if isinstance(fact, Numeric) or "" not in fact.values
    }
    check_filled({name: empty(frame[name], fact) for name, fact in needed.items()}, "")


def _numbers(cells: pd.Series, name: str, fact: Numeric, form: Form) -> HostArray:
    values = numbers(cells, name, form, fact.date)
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
