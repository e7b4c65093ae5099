"""The rows of counted files as numbers, read a few thousand at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int64, Num

from taciturn.errors import InputError
from taciturn.problems import within_norm
from taciturn.tables.bounds import Bounds
from taciturn.tables.cells import CellError, EmptyError
from taciturn.tables.encode import check_cells, encode, encoded_names, encoded_norm
from taciturn.tables.facts import Numeric
from taciturn.tables.read import Report, TableFile
from taciturn.typing import HostArray, Precision


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
