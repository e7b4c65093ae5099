"""Cells as numbers from -1 to 1, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int64, Num

from taciturn.errors import InputError
from taciturn.features import Inputs, set_bins
from taciturn.problems import within_norm
from taciturn.tables.bounds import Bounds
from taciturn.tables.cells import CellError, EmptyError, check_filled, empty, numbers, spelled
from taciturn.tables.columns import Categories, Column, Numeric
from taciturn.tables.form import Form, day_text
from taciturn.tables.read import Report, TableFile
from taciturn.typing import HostArray, Interval, Precision

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
    r"""Return the rows of a table as numbers, in [-1, 1] but for weights, and its targets.

    Texts are read in the form, the spellings and the dates that the bounds state. A number x of a
    column with public range [a, b] becomes 2 u - 1 in [-1, 1], where
    u = (min(max(x, a), b) - a) / (b - a), or u itself where the bounds ask for the interval "unit";
    a category becomes as many zeros and ones as the public list has values; the last column is the
    constant 1. Where the bounds accept missing cells, x is `Numeric.filled` for such a cell; a
    number whose column has an indicator is followed by a 1 if it is missing and by a 0 otherwise,
    and one whose column has bins by zeros and a 1 for the bin that it lies in, but for no bin where
    an indicator is set. Scales, centres and weights are those of `Numeric` and `Categories`.
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
    **Guarantee.** Every row depends on one record and public facts only. With k used columns,
    without bins, centres and weights, every row has norm at most sqrt(k + 1): each numeric column
    adds at most 1 to the squared norm, each category exactly 1, the constant 1. A missing cell
    without an indicator is a number like any other; with an indicator a number adds at most 1 too
    where a missing cell counts as the middle, and more where another `fill` is given. See
    `encoded_norm`, also for bins, centres and weights.
    Rounding does not take a number out of [-1, 1]: subtraction and division are monotone, so u lies
    in [0, 1]; 2 u is exact.
    """
    check_columns(frame.columns, bounds, with_target=with_target)
    _check_filled(frame, _facts(bounds) if with_target else bounds.columns, bounds.form)
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
            hot -= np.array(fact.shares)
            hot *= fact.weight
            blocks.append(hot)
    blocks.append(np.ones((len(frame), 1)))
    features = np.concatenate(blocks, axis=1)
    if not with_target:
        return Encoded(features, None, clipped)
    targets, outside = _targets(frame[bounds.target_name], bounds)
    return Encoded(features, targets, clipped + outside)


def encoded_names(bounds: Bounds) -> tuple[str, ...]:
    """Return the names of the encoded columns: `column`, `column=value`, `(intercept)`.

    That of a missing cell, of a number or a category, is `column=missing`; that of a bin names its
    ends.
    """
    entries = ((name, value) for name, fact in bounds.columns.items() for value in entries_of(fact))
    names = (name if value is None else encoded_name(name, value) for name, value in entries)
    return (*names, INTERCEPT)


def entries_of(fact: Column) -> tuple[str | None, ...]:
    """Return what each encoded column of a column is for.

    None is the number itself, the empty text a missing cell; any other a category, or a bin from
    one end to the next.

    Examples
    --------
    >>> entries_of(Numeric(0.0, 10.0, indicator=True, bins=(1.0, 5.0)))
    (None, '', '0 to 1', '1 to 5', '5 to 10')
    """
    if isinstance(fact, Categories):
        return fact.values
    marks = ("",) if fact.indicator else ()
    if fact.bins is None:
        return (None, *marks)
    said = [_end(end, fact) for end in (fact.minimum, *fact.edges, fact.maximum)]
    return (None, *marks, *(f"{a} to {b}" for a, b in pairwise(said)))


def _end(number: float, fact: Numeric) -> str:
    return f"{number:.6g}" if fact.date is None else day_text(number) or f"{number:.6g}"


def encoded_name(column: str, value: str) -> str:
    """Return the name of the encoded column of a value, which is empty for a missing cell."""
    return f"{column}={value or MISSING}"


def zeros_and_units(bounds: Bounds) -> tuple[Float[HostArray, "D"], Float[HostArray, "D"]]:
    """Return (c, h) of each encoded column: it is (x - c) / h.

    Here x is the number inside its range, on its scale, and 1 or 0 for a missing cell, a bin, a
    category, or the constant.
    """
    zeros, units = [], []
    for fact in bounds.columns.values():
        width = len(entries_of(fact))
        if isinstance(fact, Numeric):
            zero, unit = fact.zero_and_unit(bounds.interval)
            zeros += [zero, *[0.0] * (width - 1)]
            units += [unit, *[1 / fact.weight] * (width - 1)]
        else:
            zeros += fact.shares
            units += [1 / fact.weight] * width
    return np.array([*zeros, 0.0]), np.array([*units, 1.0])


def encoded_fill(fact: Numeric, interval: Interval) -> float:
    """Return what a missing cell is encoded as, a public number: 0 for the middle of [-1, 1]."""
    if fact.fill is None:  # exactly, though minimum and width may be rounded
        at_zero = interval == "symmetric" or fact.centre is not None
        return 0.0 if at_zero else 0.5 * fact.weight
    return float(_scaled(np.array([fact.fill]), fact, interval)[0][0])


def encoded_norm(bounds: Bounds) -> float:
    r"""Return the largest norm of an encoded row, a public number.

    **Guarantee.** With `1` for the constant, the square of the norm of a row is at most

    .. math:: 1 + \sum_{\text{columns}} v^2 s,

    v the weight of the column, and some row reaches it. Here s is 1 for a number, 1 + f^2 for one
    with an indicator, 2 for one with bins, and 1 - 2 min_k p_k + sum_k p_k^2 for a category from
    which shares p are subtracted, 1 if there are none. Leave out the weight, which multiplies all
    of a column. A category has a single 1. A number e without an indicator has
    e^2 <= 1, and so has a missing cell that is filled in without one: it is encoded as f, a public
    number in [-1, 1] as that of any other cell. With an indicator the two encoded columns of a cell
    are (e, 0) if it is filled and (f, 1) if it is missing, f being `encoded_fill`: e and the
    indicator are never free together, so they add at most max(1, f^2 + 1) = 1 + f^2. With the
    middle of [-1, 1] as fill f is 0, and the indicator costs nothing: k columns have sqrt(k + 1)
    with indicators as without. Of bins exactly one is set, so a number with bins adds
    e^2 + 1 <= 2, which both ends of the range reach. A missing cell of a column with both sets its
    indicator and no bin, so it adds f^2 + 1 <= 2: the indicator takes the place of a bin. With a
    centre e is still in [-1, 1], and reaches the end that is farther. A category k less shares is
    the vector with 1 - p_k at k and -p_j elsewhere, whose square is 1 - 2 p_k + sum_j p_j^2; the
    least share has the largest, 1 - 1 / K if all K are equal.
    """
    return math.sqrt(
        1 + math.fsum(_most(fact, bounds.interval) for fact in bounds.columns.values())
    )


def _most(fact: Column, interval: Interval) -> float:
    """Return the largest square of the norm of a column's encoded cell."""
    square = fact.weight**2
    if isinstance(fact, Categories):
        return square * (1 - 2 * min(fact.shares) + math.fsum(p * p for p in fact.shares))
    if fact.bins is not None:
        return 2 * square
    return square + encoded_fill(fact, interval) ** 2 if fact.indicator else square


def check_columns(columns: Iterable[str], bounds: Bounds, *, with_target: bool) -> None:
    """Raise `InputError` unless these are the columns of the bounds, with others to ignore."""
    present = set(columns)
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


def check_cells(cells: pd.Series, name: str, bounds: Bounds) -> None:
    """Raise what `encode` raises of a table in which no other column has a fault."""
    fact = _facts(bounds)[name]
    _check_filled({name: cells}, {name: fact}, bounds.form)
    if name == bounds.target_name:
        _targets(cells, bounds)
    elif isinstance(fact, Numeric):
        _of_numbers(cells, name, fact, bounds)
    else:
        _codes(cells, name, fact)


def _facts(bounds: Bounds) -> dict[str, Column]:
    return {**bounds.columns, bounds.target_name: bounds.target}


def _check_filled(
    cells: Mapping[str, pd.Series] | pd.DataFrame,
    facts: Mapping[str, Column],
    form: Form,
) -> None:
    needed = {name: fact for name, fact in facts.items() if not fact.accepts_missing}
    check_filled({name: empty(cells[name], fact, form) for name, fact in needed.items()}, _CURE)


def _of_numbers(
    cells: pd.Series, name: str, fact: Numeric, bounds: Bounds
) -> tuple[Float[HostArray, "N _"], int]:
    """Return the scaled column, its indicator and bins if any, and how many cells lay outside."""
    holes = np.zeros(len(cells), np.bool_)
    if fact.accepts_missing:
        holes = empty(cells, fact, bounds.form)
    values = _numbers(cells, name, fact, bounds.form, holes)
    column, outside = _scaled(values, fact, bounds.interval)
    block = [np.where(holes, encoded_fill(fact, bounds.interval), column)[:, None]]
    if fact.indicator:
        block.append(fact.weight * holes[:, None])
    if fact.bins is not None:
        places = fact.on_scale(np.clip(values, fact.minimum, fact.maximum))
        hot = fact.weight * set_bins(places, np.array(fact.edges_on_scale))
        block.append(np.where(holes[:, None], 0.0, hot) if fact.indicator else hot)
    return np.concatenate(block, axis=1), outside


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
        raise CellError(name, int(bad[0]), f"{what}; drop such rows or fill them in")
    return values


def _scaled(values: HostArray, fact: Numeric, interval: Interval) -> tuple[HostArray, int]:
    """Return values in the interval, times the weight, and how many lay outside the bounds."""
    inside = np.clip(values, fact.minimum, fact.maximum)
    outside, (low, high) = int(np.sum(inside != values)), fact.ends
    if fact.centre is not None:
        # both ends of the quotient are exact, and rounding keeps the order in between
        zero, unit = replace(fact, weight=1.0).zero_and_unit(interval)
        return fact.weight * ((fact.on_scale(inside) - zero) / unit), outside
    part = (fact.on_scale(inside) - low) / (high - low)
    return fact.weight * (part if interval == "unit" else 2 * part - 1), outside


def _codes(cells: pd.Series, name: str, fact: Categories) -> HostArray:
    known = {fact.compared(value): code for code, value in enumerate(fact.values)}
    texts = spelled(cells, fact)
    # no table of pandas: texts that differ behind a zero byte are one text in some of them
    places = {text: known.get(text, -1) for text in set(texts)}
    codes = np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
    bad = np.flatnonzero(codes < 0)
    if bad.size:
        raise CellError(
            name,
            int(bad[0]),
            f"empty or not one of the {len(fact.values)} values in the bounds file; add the value "
            "there if it is public, or drop the row",
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
        if bounds.interval == "symmetric" and isinstance(fact, Numeric) and _is_plain(fact):
            numbers.append(place)
        place += len(entries_of(fact))
    return Inputs(names, encoded_norm(bounds), tuple(numbers), constant=place)


def _is_plain(fact: Numeric) -> bool:
    """Whether a map may put the number into bins: it fills [-1, 1], and has none of its own."""
    return fact.bins is None and fact.centre is None and fact.weight == 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Encoded rows of several files.

    Attributes
    ----------
    features, targets
        As of `Encoded`, the rows of one file after those of another.
    clipped
        How many cells of each file lay outside the bounds.
    """

    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    clipped: tuple[int, ...]


def encoded_rows(
    files: Sequence[TableFile],
    bounds: Bounds,
    *,
    precision: Precision,
    report: Report | None = None,
    keep: Bool[HostArray, "_n"] | None = None,
) -> Rows:
    """Return the rows of files as `encode` makes them, in one pass over each file.

    Parameters
    ----------
    precision
        "float64" for the rows as they are encoded. "float32" for half of the memory: each row is
        multiplied by min(1, R / |x|), R being `encoded_norm`, as `taciturn.problems.pack` would do
        it, which then changes nothing.
    report
        Called with the number of rows that were read, and of all.
    keep
        The rows that are kept, of all files; None for all. The others are read and let go.

    Raises
    ------
    InputError
        As `encode` of each file, whose name the message begins with, and `TableFile.pieces`. A
        fault in one row does not hide a fault that `encode` names before it: the rest of the file
        is looked through.

    Notes
    -----
    **Guarantee.** Every row depends on one record and public facts only (`encode`, `within_norm`).
    Beside what is returned there are a few thousand rows in memory at a time.
    """
    count = sum(file.rows for file in files)
    before = None if keep is None else np.concatenate([[0], np.cumsum(keep)])
    kept = count if before is None else int(before[-1])
    rows = _Room(
        np.empty((kept, len(encoded_names(bounds))), precision),
        np.empty(kept, np.int64 if bounds.task == "multiclass" else np.float64),
        bounds,
        before,
    )
    columns, numbers = (*bounds.columns, bounds.target_name), _plain_numbers(bounds)
    place, clipped = 0, []
    for file in files:
        outside = 0
        for frame in file.pieces(columns, numbers):
            found = rows.write(frame, place)
            if found is None:
                raise InputError(f"{file.path}: {_fault(file, bounds)}")
            place, outside = place + len(frame), outside + found
            if report is not None:
                report(place, count)
        clipped.append(outside)
    return Rows(features=rows.features, targets=rows.targets, clipped=tuple(clipped))


class _Room(NamedTuple):
    """Where the rows of a table are written to.

    Attributes
    ----------
    before
        How many rows are kept of those before each place; None if all are.
    """

    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    bounds: Bounds
    before: Int64[HostArray, "_n"] | None

    def write(self, frame: pd.DataFrame, place: int) -> int | None:
        """Write rows and return how many cells lay outside the bounds; None if one has a fault."""
        try:
            encoded = encode(frame, self.bounds, with_target=True)
        except (CellError, EmptyError):
            return None
        features, targets = encoded.features, encoded.targets
        assert targets is not None
        start = place
        if self.before is not None:
            steps = self.before[place : place + len(frame) + 1]
            start, some = int(steps[0]), np.diff(steps).astype(bool)
            features, targets = features[some], targets[some]
        if self.features.dtype == np.float32:
            features = within_norm(features, encoded_norm(self.bounds), "float32")
        rows = slice(start, start + len(features))
        self.features[rows], self.targets[rows] = features, targets
        return encoded.clipped


def _plain_numbers(bounds: Bounds) -> frozenset[str]:
    """Return the columns whose cells are numbers, however these are spelled."""
    facts = {**bounds.columns, bounds.target_name: bounds.target}
    return frozenset(
        name
        for name, fact in facts.items()
        if isinstance(fact, Numeric) and fact.date is None and not fact.missing
    )


def _fault(file: TableFile, bounds: Bounds) -> InputError:
    """Return what `encode` raises of a whole file of which some piece has a fault."""
    names = (*bounds.columns, bounds.target_name)
    empty: dict[str, int] = {}
    bad: dict[str, CellError] = {}
    cure, place = "", 0
    for frame in file.pieces(names, _plain_numbers(bounds)):
        for name in names:
            try:
                check_cells(frame[name], name, bounds)
            except EmptyError as error:
                empty.setdefault(name, place + error.rows[name])
                cure = error.cure
            except CellError as error:
                bad.setdefault(name, CellError(name, place + error.row, error.what))
        place += len(frame)
    ordered = {name: empty[name] for name in names if name in empty}
    return EmptyError(ordered, cure) if empty else next(bad[n] for n in names if n in bad)
