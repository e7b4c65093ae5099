"""The rows of counted files as numbers, read a few thousand at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Num

from tacit.errors import InputError
from tacit.problems import within_norm
from tacit.tables.bounds import Bounds
from tacit.tables.cells import CellError, EmptyError
from tacit.tables.encode import Encoded, check_cells, encode, encoded_names, encoded_norm
from tacit.tables.facts import Numeric
from tacit.tables.read import Report, TableFile
from tacit.typing import HostArray, Precision


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
        multiplied by min(1, R / |x|), R being `encoded_norm`, as `tacit.problems.pack` would do
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
    count, norm = sum(file.rows for file in files), encoded_norm(bounds)
    kept = np.ones(count, bool) if keep is None else keep
    features = np.empty((np.count_nonzero(kept), len(encoded_names(bounds))), precision)
    targets = np.empty(len(features), np.int64 if bounds.task == "multiclass" else np.float64)
    read, place, clipped = 0, 0, []
    for file in files:
        outside = 0
        for piece in _pieces(file, bounds):
            assert piece.targets is not None
            some = kept[read : read + len(piece.features)]
            rows, mine = slice(place, place + int(np.count_nonzero(some))), piece.features[some]
            narrow = precision == "float32"
            features[rows] = within_norm(mine, norm, precision) if narrow else mine
            targets[rows] = piece.targets[some]
            read, place = read + len(piece.features), rows.stop
            outside += piece.clipped
            if report is not None:
                report(read, count)
        clipped.append(outside)
    return Rows(features=features, targets=targets, clipped=tuple(clipped))


def _pieces(file: TableFile, bounds: Bounds) -> Iterator[Encoded]:
    """Yield the rows of a file as numbers; raise what `encode` of all of it would raise."""
    columns = (*bounds.columns, bounds.target_name)
    faults, first = Faults(), 0
    for frame in file.pieces(columns, _plain_numbers(bounds)):
        if faults.found:
            faults = faults.joined(faults_in(frame, bounds, first))
        else:
            try:
                encoded = encode(frame, bounds, with_target=True)
            except (CellError, EmptyError):
                faults = faults_in(frame, bounds, first)
            else:
                yield encoded
        first += len(frame)
    if faults.found:
        raise InputError(f"{file.path}: {faults.error(columns)}")


def _plain_numbers(bounds: Bounds) -> frozenset[str]:
    """Return the columns whose cells are numbers, however these are spelled."""
    facts = {**bounds.columns, bounds.target_name: bounds.target}
    return frozenset(
        name
        for name, fact in facts.items()
        if isinstance(fact, Numeric) and fact.date is None and not fact.missing
    )


@dataclass(frozen=True)
class Faults:
    """The first empty cell of each column that may have none, and the first that means nothing."""

    empty: dict[str, EmptyError] = field(default_factory=dict)
    bad: dict[str, CellError] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether there is one."""
        return bool(self.empty or self.bad)

    def joined(self, later: Faults) -> Faults:
        """Return these, with those of rows that come after."""
        return Faults({**later.empty, **self.empty}, {**later.bad, **self.bad})

    def error(self, columns: Sequence[str]) -> InputError:
        """Return what `encode` raises of a table with these faults, of columns in their order."""
        empty = [self.empty[name] for name in columns if name in self.empty]
        if not empty:
            return next(self.bad[name] for name in columns if name in self.bad)
        return EmptyError({k: v for one in empty for k, v in one.rows.items()}, empty[0].cure)


def faults_in(frame: pd.DataFrame, bounds: Bounds, first: int) -> Faults:
    """Return the faults of some rows of a table, of which `first` come before."""
    found = Faults()
    for name in (*bounds.columns, bounds.target_name):
        try:
            check_cells(frame[name], name, bounds)
        except EmptyError as error:
            found.empty[name] = EmptyError({name: first + error.rows[name]}, error.cure)
        except CellError as error:
            found.bad[name] = CellError(name, first + error.row, error.what)
    return found
