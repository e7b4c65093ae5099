"""A user's table: read as text, in which nothing is guessed, and encoded for training."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Num

from tacit.errors import InputError, told_anew
from tacit.problems import partition_by
from tacit.tables.bounds import Bounds, read_bounds, repeated
from tacit.tables.encode import Encoded, encode, encoded_names, encoded_norm
from tacit.typing import HostArray, Task


@dataclass(frozen=True, kw_only=True)
class Source:
    """The files of a table and of its public facts.

    Attributes
    ----------
    path
        A CSV or Parquet file, or a folder with one such file per agent.
    target
        The column to be predicted.
    bounds
        The TOML file of the public facts; None if the user named none, which is refused.
    agent_column
        The column that says whose record a row is.
    test
        A file of test records, which are public by declaration.
    """

    path: Path
    target: str
    bounds: Path | None
    agent_column: str | None = None
    test: Path | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Private records as numbers, with what is public about them; see `encode`.

    Attributes
    ----------
    features, targets
        (N, D) and (N,): the training rows, then the test rows.
    train_rows
        The number of training rows; the rest, which may be none, are public test rows.
    owners
        The rows of each agent; None if they are still to be partitioned.
    clipped
        How many cells of training rows lay outside the bounds: private.
    record_norm
        sqrt(k + 1) for k columns; no encoded row is longer.
    conditions
        Facts taken as public; a certificate holds under these.
    """

    name: str
    title: str
    source: str
    bounds: Bounds
    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    train_rows: int
    owners: tuple[Int[HostArray, "_m"], ...] | None
    clipped: int
    conditions: tuple[str, ...]
    # un-noised metrics on the training records may not be shown
    public: ClassVar[bool] = False
    licence: ClassVar[str] = "not stated"

    @property
    def record_norm(self) -> float:
        """The largest norm of an encoded row, a public number."""
        return encoded_norm(self.bounds)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the D encoded columns."""
        return encoded_names(self.bounds)

    @property
    def task(self) -> Task:
        """The kind of the target."""
        return self.bounds.task


def load_table(source: Source, known: Bounds | None = None) -> Table:
    """Return the table that `source` names, encoded with its public facts.

    Parameters
    ----------
    known
        The public facts, where no file states them.

    Raises
    ------
    InputError
        If a file cannot be read, no bounds are given, file and bounds do not fit together, or the
        test file is one that is trained on.

    Notes
    -----
    Which of the public labels occur is a fact about the records: a table in which only one does is
    trained on like any other.
    """
    bounds = known or _bounds(source)
    if bounds.target_name != source.target:
        raise InputError(
            f"the target is {source.target!r} and the bounds file {source.bounds} is for "
            f"{bounds.target_name!r}; use one name in both"
        )
    if source.agent_column in {source.target, *bounds.columns}:
        raise InputError(
            f"the agent column {source.agent_column!r} is described in the bounds file as a "
            "column to learn from; take it out there"
        )
    frames = read_tables(source.path)
    owners = _owners(source, list(frames.values()))
    coded = [_encoded(file, frame, source, bounds) for file, frame in frames.items()]
    train_rows = sum(len(part.features) for part in coded)
    clipped = sum(part.clipped for part in coded)
    if source.test is not None:
        tests = read_table(source.test)
        if any(os.path.samefile(source.test, file) for file in frames):
            raise InputError(
                f"{source.test} is trained on, and metrics on test records are shown without "
                "noise; name a file of other records, or use --oracle-metrics"
            )
        coded.append(_encoded(source.test, tests, source, bounds))
    return Table(
        name=str(source.path),
        title=f"{source.path.name}: {source.target}",
        source=str(source.path),
        bounds=bounds,
        features=_stacked([part.features for part in coded]),
        targets=_stacked([part.targets for part in coded]),
        train_rows=train_rows,
        owners=owners,
        clipped=clipped,
        conditions=_conditions(source, bounds),
    )


def _bounds(source: Source) -> Bounds:
    if source.bounds is None:
        raise InputError(
            "no bounds file is given: how much noise a record needs must follow from public ranges "
            f"and lists, never from the records; tacit bounds {source.path} --target "
            f"{source.target} > bounds.toml prints one to start from, then pass --bounds "
            "bounds.toml"
        )
    return read_bounds(source.bounds)


def _encoded(file: Path, frame: pd.DataFrame, source: Source, bounds: Bounds) -> Encoded:
    used = frame.drop(columns=[name for name in frame if name == source.agent_column])
    try:
        return encode(used, bounds, with_target=True)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def _stacked(parts: Sequence[HostArray | None]) -> HostArray:
    return np.concatenate([part for part in parts if part is not None])


def _owners(source: Source, frames: list[pd.DataFrame]) -> tuple[HostArray, ...] | None:
    folder = os.path.isdir(source.path)
    if source.agent_column is None:
        if not folder:
            return None
        ends = np.cumsum([len(one) for one in frames])
        return tuple(np.split(np.arange(ends[-1]), ends[:-1]))
    if folder:
        raise InputError(
            "a folder has one file per agent, so there is no agent column; leave --agent-column out"
        )
    if source.agent_column not in frames[0].columns:
        raise InputError(
            f"the table has no column {source.agent_column!r}; name one of its columns"
        )
    names = frames[0][source.agent_column].to_numpy(str)
    if (names == "").any():
        row = int(np.flatnonzero(names == "")[0]) + 1
        raise InputError(
            f"column {source.agent_column!r}, row {row} is empty; say whose record it is"
        )
    return tuple(partition_by(names))


def _conditions(source: Source, bounds: Bounds) -> tuple[str, ...]:
    ranges = (
        "ranges, category lists and labels of the bounds file are public, as its author declares "
        '(source = "public")'
    )
    if bounds.origin == "data":
        ranges = (
            "ranges, category lists and labels were filled in from the records themselves (source "
            '= "data" in the bounds file): the certificate holds only if they would be the same '
            "whatever one record says"
        )
    conditions = (ranges, "the number of records of each agent is public")
    if source.test is None:
        return conditions
    return (*conditions, f"the test records in {source.test.name} are public, by declaration")


SUFFIXES = (".csv", ".parquet")


def read_table(path: Path) -> pd.DataFrame:
    """Return the CSV or Parquet file `path`; every cell is text without surrounding blanks.

    Parquet needs the package pyarrow (`pip install "tacit[tables-parquet]"`).

    Raises
    ------
    InputError
        If the file cannot be read, has no rows, names a column twice, or a row has another number
        of cells than the header (as the last one of a truncated file).
    """
    frame = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    twice = repeated(frame.columns)
    if twice:
        raise InputError(f"{path} has two columns called {twice[0]!r}; rename one")
    if not len(frame):
        raise InputError(f"{path} has no rows; a header and at least one row are needed")
    return frame


def read_tables(path: Path) -> dict[Path, pd.DataFrame]:
    """Return the one table at `path`, or one per agent if it is a folder; see `read_agents`."""
    # not Path.is_dir, which raises for names that are too long
    return read_agents(path) if os.path.isdir(path) else {path: read_table(path)}


def read_agents(folder: Path) -> dict[Path, pd.DataFrame]:
    """Return one table per agent: the CSV and Parquet files of `folder`, by name of the file.

    Raises
    ------
    InputError
        As `read_table`; if there is no such file, or two have different columns.
    """
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{folder} cannot be read ({reason})") from error
    if not files:
        raise InputError(f"{folder} has no .csv or .parquet file; put one file per agent there")
    frames = [read_table(file) for file in files]
    first = frames[0]
    for file, frame in zip(files, frames, strict=True):
        other = set(frame.columns) ^ set(first.columns)
        if other:
            raise InputError(
                f"{file.name} and {files[0].name} have different columns: {min(other)!r} is in one "
                "only; all agents need the same columns"
            )
    return {f: frame[list(first.columns)] for f, frame in zip(files, frames, strict=True)}


def _csv(path: Path) -> pd.DataFrame:
    def frame() -> pd.DataFrame:
        # utf-8-sig: spreadsheets put a mark at the start of the file
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _rows(path, csv.reader(file, strict=True, skipinitialspace=True))
            header = next(rows, None)
            if header is None:
                raise InputError(f"{path} is empty; a header and at least one row are needed")
            return pd.DataFrame(list(rows), columns=pd.Index(header, dtype=object), dtype=object)

    def told(error: Exception) -> Exception:
        if isinstance(error, OSError):
            return InputError(f"{path} cannot be read ({error.strerror or type(error).__name__})")
        if isinstance(error, csv.Error):  # its messages are about quotes and the end of the file
            return InputError(f"{path} is not a valid CSV file ({error}); is it cut short?")
        return InputError(f"{path} is not text in UTF-8; save it as a CSV file in UTF-8")

    # an error of decoding holds a part of the file
    return told_anew(frame, (OSError, csv.Error, UnicodeDecodeError), told)


def _rows(path: Path, lines: Iterator[Sequence[str]]) -> Iterator[list[str]]:
    width: int | None = None
    for number, cells in enumerate(line for line in lines if line):
        width = len(cells) if width is None else width
        if len(cells) != width:
            raise InputError(
                f"{path}: row {number} has {len(cells)} cells and the header {width}; "
                "is the file cut short?"
            )
        yield [cell.strip() for cell in cells]


def _parquet(path: Path) -> pd.DataFrame:
    if find_spec("pyarrow") is None:
        raise InputError(
            f"{path} is a Parquet file, which needs pyarrow: "
            'pip install "tacit[tables-parquet]"; or save it as CSV'
        )
    frame = told_anew(
        lambda: pd.read_parquet(path),
        (OSError, ValueError),
        lambda _: InputError(f"{path} cannot be read as a Parquet file; is it cut short?"),
    )
    missing = frame.isna()
    text = frame.astype(object).map(lambda cell: str(cell).strip()).mask(missing, "")
    return text.rename(columns=str)
