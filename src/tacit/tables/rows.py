"""The rows of counted files as numbers, read a few thousand at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int64, Num

from tacit.errors import InputError
from tacit.problems import within_norm
from tacit.tables.bounds import Bounds
from tacit.tables.cells import CellError, EmptyError
from tacit.tables.encode import check_cells, encode, encoded_names, encoded_norm
from tacit.tables.facts import Numeric
from tacit.tables.pieces import Piece
from tacit.tables.read import Report, TableFile
from tacit.typing import HostArray, Precision

_THREADS = 2  # that read cells, beside the one that reads the file
_T = TypeVar("_T")


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
    count = sum(file.rows for file in files)
    before = None if keep is None else np.concatenate([[0], np.cumsum(keep)])
    kept = count if before is None else int(before[-1])
    rows = _Room(
        np.empty((kept, len(encoded_names(bounds))), precision),
        np.empty(kept, np.int64 if bounds.task == "multiclass" else np.float64),
        bounds,
        before,
    )
    place, clipped = 0, []
    with ThreadPoolExecutor(_THREADS) as pool:
        for file in files:
            outside, first = 0, place
            for stop, found in _read(file, pool, rows, place):
                place, outside = stop, outside + found
                if report is not None:
                    report(place, count)
            assert place == first + file.rows
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


def _read(
    file: TableFile, pool: ThreadPoolExecutor, room: _Room, place: int
) -> Iterator[tuple[int, int]]:
    """Write the rows of a file from a place on; raise what `encode` of all of it would raise.

    Yields
    ------
    int, int
        The place behind the rows that were written, and how many of their cells lay outside.
    """
    bounds = room.bounds
    columns, numbers = (*bounds.columns, bounds.target_name), _plain_numbers(bounds)

    def work(piece: Piece, start: int) -> int | None:
        return room.write(piece.read(columns, numbers, file.form), start)

    faults, first = Faults(), place
    starts = _with_starts(file.parts(), place)
    for (piece, start), outside in _in_order(pool, work, starts):
        if outside is None or faults.found:
            frame = piece.read(columns, numbers, file.form)
            faults = faults.joined(faults_in(frame, bounds, start - first))
        else:
            yield start + piece.rows, outside
    if faults.found:
        raise InputError(f"{file.path}: {faults.error(columns)}")


def _with_starts(pieces: Iterator[Piece], place: int) -> Iterator[tuple[Piece, int]]:
    for piece in pieces:
        yield piece, place
        place += piece.rows


def _in_order(
    pool: ThreadPoolExecutor,
    work: Callable[[Piece, int], _T],
    given: Iterator[tuple[Piece, int]],
) -> Iterator[tuple[tuple[Piece, int], _T]]:
    """Yield what is given with what the work returns of it, a few of which are done beforehand.

    An error of `given` is raised where it would be if nothing were done beforehand.
    """
    waiting: deque[tuple[tuple[Piece, int], Future[_T]]] = deque()
    failed: InputError | None = None
    while True:
        try:
            one = next(given, None)
        except InputError as error:
            one, failed = None, error
        if one is not None:
            waiting.append((one, pool.submit(work, *one)))
        while waiting and (one is None or len(waiting) > _THREADS):
            done, result = waiting.popleft()
            yield done, result.result()
        if failed is not None:
            raise failed
        if one is None:
            return


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
