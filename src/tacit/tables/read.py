"""Reading tables as text: every cell is a string, and nothing is guessed."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from tacit.errors import InputError
from tacit.tables.bounds import repeated

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
    try:
        # utf-8-sig: spreadsheets put a mark at the start of the file
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _rows(path, csv.reader(file, strict=True, skipinitialspace=True))
            header = next(rows, None)
            if header is None:
                raise InputError(f"{path} is empty; a header and at least one row are needed")
            return pd.DataFrame(list(rows), columns=pd.Index(header, dtype=object), dtype=object)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path} cannot be read ({reason})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8; save it as a CSV file in UTF-8") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a valid CSV file ({error}); is it cut short?") from error


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
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a Parquet file; is it cut short?") from error
    missing = frame.isna()
    text = frame.astype(object).map(lambda cell: str(cell).strip()).mask(missing, "")
    return text.rename(columns=str)
