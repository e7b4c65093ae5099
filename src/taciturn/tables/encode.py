"""Encoding of table cells as numbers in [-1, 1], from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Num

from taciturn.errors import InputError
from taciturn.features import MISSING, Inputs, Variable, set_bins
from taciturn.kernel.records import clip_rows
from taciturn.tables.bounds import Bounds, is_ignored
from taciturn.tables.cells import CellError, EmptyError, check_filled, empty, numbers, spelled
from taciturn.tables.columns import Categories, Column, Numeric
from taciturn.tables.form import Form, day_text
from taciturn.tables.read import HEADER_FIRST, Report, TableFile
from taciturn.typing import HostArray, Interval, Precision

INTERCEPT = "(intercept)"
_CURE = '; in a column to predict from, missing = "indicator" in the bounds file accepts them'


class Encoded(NamedTuple):
    """Rows as numbers; `targets` is None without `with_target`.

    `clipped`, the number of cells outside the public bounds, is private, as is `absent`, which
    marks the rows without a target if these are left out (`Bounds.leave_out`).
    """

    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"] | None
    clipped: int
    absent: Bool[HostArray, "N"] | None = None


def encode(frame: pd.DataFrame, bounds: Bounds, *, with_target: bool) -> Encoded:
    r"""Return the rows of a table as numbers, in [-1, 1] before weights, and its targets.

    A number x of a column with public range [a, b] becomes 2 u - 1 in [-1, 1], where
    u = (min(max(x, a), b) - a) / (b - a), or u itself for the interval "unit"; a category becomes a
    one-hot row over the public list; the last column is the constant 1. A missing cell is imputed
    by `Numeric.filled`. The number is followed by its indicator, 1 if the cell is missing and 0
    otherwise, and the one-hot row of its bins, all 0 if the indicator is 1. Scales, centres and
    weights are those of `Numeric` and `Categories`. Numeric targets always become 2 u - 1; two
    labels become -1 and 1 in the order of their list; K labels become 0..K-1.

    An error about a cell names its column and row (the first below the header is 1) but not its
    content. All columns with empty cells are named together.

    **Guarantee.** Every row depends on one record and public facts only, and has norm at most
    `encoded_norm`. Rounding keeps numbers in [-1, 1]: subtraction and division are monotone, so u
    is in [0, 1]; 2 u is exact.
    """
    check_columns(frame.columns, bounds, with_target=with_target)
    facts = bounds.described if with_target else bounds.columns
    _check_filled(frame, facts, bounds)
    columns = [_column(frame[name], name, fact, bounds) for name, fact in facts.items()]
    clipped = sum(outside for _, outside in columns)
    targets = columns.pop()[0] if with_target else None
    blocks = [*(block for block, _ in columns), np.ones((len(frame), 1))]
    absent = None
    if with_target and bounds.leave_out:
        absent = empty(frame[bounds.target_name], bounds.target, bounds.form)
    return Encoded(np.concatenate(blocks, axis=1), targets, clipped, absent)


def encoded_names(bounds: Bounds) -> tuple[str, ...]:
    """Return the names of the encoded columns: `column`, `column=value`, `(intercept)`."""
    entries = ((name, value) for name, fact in bounds.columns.items() for value in entries_of(fact))
    names = (name if value is None else encoded_name(name, value) for name, value in entries)
    return (*names, INTERCEPT)


def entries_of(fact: Column) -> tuple[str | None, ...]:
    """Return the meaning of each encoded column of a column.

    None is the number itself, "" a missing cell; any other text is a category, or a bin such as "1
    to 5".
    """
    if isinstance(fact, Categories):
        return fact.values
    marks = ("",) if fact.indicator else ()
    if fact.bins is None:
        return (None, *marks)
    ends = (fact.minimum, *fact.edges, fact.maximum)
    texts = [(fact.date is not None and day_text(end)) or f"{end:.6g}" for end in ends]
    return (None, *marks, *(f"{a} to {b}" for a, b in pairwise(texts)))


def encoded_name(column: str, value: str) -> str:
    """Return the name of the encoded column of a value; an empty value is a missing cell."""
    return f"{column}={value or MISSING}"


def stated_cells(fact: Column) -> tuple[str | float | None, ...]:
    """Return cells of a column for a table of effects, the reference first; None is a missing cell.

    Of a number they are the middle of its range on its scale, the ends and the quarters, rounded to
    six digits, or more if the range is narrow; of categories, their values in order.
    """
    if isinstance(fact, Categories):
        return tuple(value or None for value in fact.values)
    low, high = fact.ends
    largest = max(abs(fact.minimum), abs(fact.maximum))
    digits = 6 + max(0, math.ceil(math.log10(largest / fact.width)))
    places = (fact.curve.inverse(low + (high - low) * k / 4) for k in (2, 0, 1, 3, 4))
    rounded = [min(max(float(f"{x:.{digits}g}"), fact.minimum), fact.maximum) for x in places]
    missing = (None,) if fact.indicator else ()
    if fact.date is None:
        return (*rounded, *missing)
    return (*(day_text(math.floor(day), fact.date) for day in rounded), *missing)


def offsets_and_scales(bounds: Bounds) -> tuple[Float[HostArray, "D"], Float[HostArray, "D"]]:
    """Return (c, h) of each encoded column, which is (x - c) / h.

    Here x is the number inside its range, on its scale, or 1 or 0 for a missing cell, a bin, a
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
    """Return the public number that encodes a missing cell: 0 for the middle of [-1, 1]."""
    if fact.fill is None:  # exact, although minimum and width may be rounded
        at_zero = interval == "symmetric" or fact.centre is not None
        return 0.0 if at_zero else 0.5 * fact.weight
    return float(_scaled(np.array([fact.fill]), fact, interval)[0][0])


def encoded_norm(bounds: Bounds) -> float:
    r"""Return the largest norm of an encoded row, a public number.

    **Guarantee.** With 1 for the constant, the square of the norm of a row is at most

    .. math:: 1 + \sum_{\text{columns}} v^2 s,

    v the weight of the column, and some row attains it. Here s is

    - 1 for a number e: e^2 <= 1, including a missing cell filled in without an indicator, and a
      number with a centre, where |e| is 1 at the farther end;
    - 1 + f^2 for a number with an indicator, f being `encoded_fill`: a cell is (e, 0) if present
      and (f, 1) if missing, so it adds at most max(1, f^2 + 1). If the fill is the middle of [-1,
      1], f is 0, and the indicator costs nothing;
    - 2 for a number with bins, exactly one of which is set: e^2 + 1 <= 2, attained at the ends of
      the range. A missing cell sets its indicator in place of a bin: f^2 + 1 <= 2;
    - 1 - 2 min_k p_k + sum_k p_k^2 for a category from which shares p are subtracted, 1 if there
      are none: the vector has 1 - p_k at k and -p_j elsewhere, whose square is
      1 - 2 p_k + sum_j p_j^2.
    """
    most = (_most(fact, bounds.interval) for fact in bounds.columns.values())
    return math.sqrt(1 + math.fsum(most))


def _most(fact: Column, interval: Interval) -> float:
    """Return the largest square of the norm of a column's encoded cell."""
    square = fact.weight**2
    if isinstance(fact, Categories):
        return square * (1 - 2 * min(fact.shares) + math.fsum(p * p for p in fact.shares))
    if fact.bins is not None:
        return 2 * square
    return square + encoded_fill(fact, interval) ** 2 if fact.indicator else square


def check_columns(columns: Iterable[str], bounds: Bounds, *, with_target: bool) -> None:
    """Raise `InputError` unless these are the columns of the bounds, besides ignored ones.

    A column that is described is never ignored, whatever patterns it matches.
    """
    present = set(columns)
    needed = [*bounds.columns, *([bounds.target_name] if with_target else [])]
    missing = [name for name in needed if name not in present]
    if missing:
        raise InputError(
            f"the table has no column {missing[0]!r} among its {len(present)}; it needs "
            f"{', '.join(map(repr, needed))}, and {HEADER_FIRST}"
        )
    others = sorted(map(str, present - {bounds.target_name, *needed}))
    unknown = [name for name in others if not is_ignored(name, bounds.ignored)]
    if unknown:
        which, it = ("column", "it") if len(unknown) == 1 else ("columns", "each")
        raise InputError(
            f"nothing is known of the {which} {', '.join(map(repr, unknown))}; describe {it} in "
            "the bounds file as [columns.NAME], list its name or a pattern such as date_* under "
            "ignore, or take it out of the table"
        )


def _check_filled(frame: pd.DataFrame, facts: Mapping[str, Column], bounds: Bounds) -> None:
    left_out = bounds.target_name if bounds.leave_out else None
    holes = {
        name: empty(frame[name], fact, bounds.form)
        for name, fact in facts.items()
        if not fact.accepts_missing and name != left_out
    }
    check_filled(holes, _CURE)


def _column(
    cells: pd.Series, name: str, fact: Column, bounds: Bounds
) -> tuple[Num[HostArray, "N ..."], int]:
    """Return the entries of a column, or the targets, and the number of cells out of bounds."""
    is_target = name == bounds.target_name
    holes = np.zeros(len(cells), np.bool_)
    if fact.accepts_missing or (is_target and bounds.leave_out):
        holes = empty(cells, fact, bounds.form)
    if isinstance(fact, Categories):
        codes = _codes(cells, name, fact, bounds.form, holes if is_target else None)
        if is_target:
            return (2.0 * codes - 1 if len(fact.values) == 2 else codes), 0
        # not rows of an identity matrix, whose size is quadratic in the number of values
        hot = np.zeros((len(cells), len(fact.values)))
        hot[np.arange(len(cells)), codes] = 1
        hot -= np.array(fact.shares)
        hot *= fact.weight
        return hot, 0
    values = _numbers(cells, name, fact, bounds.form, holes)
    column, outside = _scaled(values, fact, "symmetric" if is_target else bounds.interval)
    if is_target:
        return column, outside
    block = [np.where(holes, encoded_fill(fact, bounds.interval), column)[:, None]]
    if fact.indicator:
        block.append(fact.weight * holes[:, None])
    if fact.bins is not None:
        places = fact.on_scale(np.clip(values, fact.minimum, fact.maximum))
        hot = fact.weight * set_bins(places, np.array(fact.edges_on_scale))
        block.append(np.where(holes[:, None], 0.0, hot) if fact.indicator else hot)
    return np.concatenate(block, axis=1), outside


def _codes(
    cells: pd.Series, name: str, fact: Categories, form: Form, left_out: Bool[HostArray, "N"] | None
) -> Int[HostArray, "N"]:
    """Return the index of each cell in the public list; 0 for targets that are left out."""
    known = {fact.compared(value): code for code, value in enumerate(fact.values)}
    texts = spelled(cells, fact, form)
    # not `pandas.Series.map`: some of its hash tables ignore what follows a zero byte
    coded = {text: known.get(text, -1) for text in set(texts)}
    codes = np.fromiter(map(coded.__getitem__, texts), np.int64, len(texts))
    if left_out is not None:
        codes[left_out] = 0
    if (codes < 0).any():
        what = f"empty or not one of the {len(fact.values)} values in the bounds file"
        cure = "add the value there if it is public, or drop the row"
        raise CellError(name, int(np.argmax(codes < 0)), f"{what}; {cure}")
    return codes


def _numbers(
    cells: pd.Series, name: str, fact: Numeric, form: Form, holes: Bool[HostArray, "N"]
) -> HostArray:
    """Return cells as finite numbers, with missing ones imputed."""
    values = np.where(holes, fact.filled, numbers(cells, name, form, fact.date))
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        what = "empty, infinite or not a number"
        what = what if fact.date is None else f"no date written as {fact.date}"
        raise CellError(name, int(bad[0]), f"{what}; drop such rows or fill them in")
    return values


def _scaled(values: HostArray, fact: Numeric, interval: Interval) -> tuple[HostArray, int]:
    """Return values mapped to the interval, times the weight, and the number out of bounds."""
    inside = np.clip(values, fact.minimum, fact.maximum)
    outside, (low, high) = int(np.sum(inside != values)), fact.ends
    if fact.centre is not None:
        # the quotient is exact at both ends of the range, and rounding is monotone in between
        zero, unit = replace(fact, weight=1.0).zero_and_unit(interval)
        return fact.weight * ((fact.on_scale(inside) - zero) / unit), outside
    part = (fact.on_scale(inside) - low) / (high - low)
    return fact.weight * (part if interval == "unit" else 2 * part - 1), outside


def inputs_of(bounds: Bounds) -> Inputs:
    """Return the public facts of an encoded table that a feature map needs.

    A feature map may bin the numbers that span [-1, 1] and have no bins.
    """
    names, place, numbers, variables = encoded_names(bounds), 0, [], []
    for name, fact in bounds.columns.items():
        symmetric = bounds.interval == "symmetric" and isinstance(fact, Numeric)
        if symmetric and not fact.coding.keys() & {"bins", "centre", "weight"}:
            numbers.append(place)
        variables.append(_variable(name, place, fact, bounds.interval))
        place += len(entries_of(fact))
    target = _variable(bounds.target_name, len(names), bounds.target, "symmetric")
    return Inputs(
        names,
        encoded_norm(bounds),
        tuple(numbers),
        place,
        variables=tuple(variables),
        target=target,
    )


def _variable(name: str, place: int, fact: Column, interval: Interval) -> Variable:
    square, missing = _most(fact, interval), fact.accepts_missing
    if isinstance(fact, Categories):
        plain = fact.weight == 1 and not any(fact.shares)
        return Variable(name, place, fact.values, plain, square=square, missing=missing)
    zero, unit = fact.zero_and_unit(interval)
    ends, plain = (fact.minimum, fact.maximum), fact.weight == 1 and fact.bins is None
    return Variable(
        name, place, None, plain, zero, unit, fact.scale, ends, square, missing, fact.indicator,
        fact.edges,
    )  # fmt: skip


def encoded_rows(
    files: Sequence[TableFile],
    bounds: Bounds,
    precision: Precision,
    report: Report | None,
) -> tuple[Float[HostArray, "N D"], Num[HostArray, "N"], list[int], Bool[HostArray, "N"] | None]:
    """Return features, targets, the number of cells out of bounds in each file, and `absent`.

    Files are encoded (`encode`) in one pass, a few thousand rows in memory at a time.

    - `precision`: "float32" halves the memory: each row is clipped to the norm `encoded_norm`
      exactly as `taciturn.kernel.records.pack` would do, which then changes nothing.
    - `report`: Called with the number of rows read and the total.

    Errors are those of `encode` on the whole file, prefixed by its name: a fault found in an early
    piece does not hide one that `encode` would report before it.

    **Guarantee.** Every row depends on one record and public facts only (`encode`, `clip_rows`).
    """
    count = sum(file.rows for file in files)
    features = np.empty((count, len(encoded_names(bounds))), precision)
    targets = np.empty(count, np.int64 if bounds.task == "multiclass" else np.float64)
    absent = np.zeros(count, np.bool_) if bounds.leave_out else None
    read = 0
    clipped = [0] * len(files)
    for place, file in enumerate(files):
        for frame in _plain_pieces(file, bounds):
            try:
                encoded = encode(frame, bounds, with_target=True)
            except (CellError, EmptyError):
                raise InputError(f"{file.path}: {_first_fault(file, bounds)}") from None
            assert encoded.targets is not None
            rows, here = encoded.features, slice(read, read + len(frame))
            if precision == "float32":
                rows = clip_rows(rows, encoded_norm(bounds), "float32")
            features[here], targets[here] = rows, encoded.targets
            if absent is not None:
                absent[here] = encoded.absent
            read = here.stop
            clipped[place] += encoded.clipped
            if report is not None:
                report(read, count)
    return features, targets, clipped, absent


def _plain_pieces(file: TableFile, bounds: Bounds) -> Iterator[pd.DataFrame]:
    """Return the pieces of a file; columns without dates or special spellings may be numeric."""
    facts = bounds.described.items()
    numeric = {name: fact for name, fact in facts if isinstance(fact, Numeric)}
    plain = [name for name, fact in numeric.items() if fact.date is None and not fact.missing]
    return file.pieces(bounds.described, plain)


def _first_fault(file: TableFile, bounds: Bounds) -> InputError:
    """Return the error that `encode` would raise for the whole of a faulty file."""
    names, place = bounds.described, 0
    empty: dict[str, int] = {}
    bad: dict[str, CellError] = {}
    # as `encode`: empty cells of all columns come first, then the first column with a bad cell
    for frame in _plain_pieces(file, bounds):
        for name, fact in names.items():
            try:
                _check_filled(frame, {name: fact}, bounds)
                _column(frame[name], name, fact, bounds)
            except EmptyError as error:
                empty.setdefault(name, place + error.rows[name])
            except CellError as error:
                bad.setdefault(name, CellError(name, place + error.row, error.what))
        place += len(frame)
    ordered = {name: empty[name] for name in names if name in empty}
    return EmptyError(ordered, _CURE) if empty else next(bad[n] for n in names if n in bad)
