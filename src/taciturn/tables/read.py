"""Files of tables: rows counted in one pass, then read in pieces, without type inference."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from os.path import isdir
from pathlib import Path
from typing import TypeAlias, TypeVar

import pandas as pd
from pyarrow import ArrowException

from taciturn.checks import repeated
from taciturn.errors import InputError, reraise_clean
from taciturn.tables.form import Form
from taciturn.tables.pieces import Piece, no_text, parquet_pieces, text_pieces

SUFFIXES = (".csv", ".parquet")
HEADER_FIRST = "the first line of a CSV file must be its header"
_EXCEL = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
_EXCEL_FILE = (
    "{} is a spreadsheet, as of Excel, or an archive; save its sheet as CSV or Parquet, and name "
    "that file"
)
_EXCEL_MARKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
_USUAL = Form()
_T = TypeVar("_T")

# called with the number of rows that were read, and of all if that is known
Report: TypeAlias = Callable[[int, int | None], None]


@dataclass(frozen=True, eq=False)
class TableFile:
    """A CSV or Parquet file with at least one row, counted.

    - `kept`, `kinds`: the columns that were kept as text, and the types that each is stored as.
    - `content`: the bytes of a pipe, which can be read once only; None for a file.
    - `stamp`: its identity, size and times, by which a change is detected.
    """

    path: Path
    form: Form
    columns: tuple[str, ...]
    rows: int
    kept: pd.DataFrame
    kinds: dict[str, frozenset[str]]
    content: bytes | None = field(repr=False)
    stamp: tuple[int, ...]

    @property
    def identity(self) -> tuple[int, ...]:
        """Device and inode, which all names of one file share."""
        return self.stamp[1:3]

    @property
    def digest(self) -> bytes:
        """The SHA-256 digest of the file, or of the content that a pipe had."""
        if self.content is None:
            return digest_of(self.path)
        return hashlib.sha256(self.content).digest()

    def pieces(
        self, columns: Collection[str], numbers: Collection[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Yield some columns, a few thousand rows at a time, as `Piece.read` returns them.

        A file that has changed since it was counted is refused.
        """
        changed = InputError(
            f"{self.path} changed after its rows were counted; start again once nothing writes to "
            "it"
        )
        rows = 0
        for piece in _pieces(self.path, self.form, self.content, columns):
            rows += piece.rows
            if piece.names != self.columns or rows > self.rows:
                raise changed
            yield piece.read(columns, self.form, numbers)
        if rows != self.rows or (self.content is None and _fingerprint(self.path) != self.stamp):
            raise changed


def count_table(
    path: Path, form: Form = _USUAL, keep: Collection[str] | None = (), report: Report | None = None
) -> TableFile:
    """Return a file with its rows counted, in one pass that holds a few thousand at a time.

    The columns to `keep` as text may be missing; None for all. `report` is called with the number
    of rows that were counted, and None. Refused are unreadable files, spreadsheets, files without
    rows, with two columns of one name, or with a row that has another number of cells than the
    header, as in a truncated file. If the header suggests another delimiter, the message names it.
    """
    refuse_spreadsheet(path)
    stamp = _fingerprint(path)
    content = None if stat.S_ISREG(stamp[0]) else _read(path, path.read_bytes)
    columns: tuple[str, ...] = ()
    kinds: dict[str, frozenset[str]] = {}
    names: dict[str, str] = {}  # one object per different text
    rows, kept = 0, []
    for piece in _pieces(path, form, content, keep):
        columns, rows = piece.names, rows + piece.rows
        if report is not None:
            report(rows, None)
        if keep is None:
            kept.append(piece.read(columns, form))
            continue
        some = [name for name in columns if name in keep]
        kept.append(piece.read(some, form).map(lambda text: names.setdefault(text, text)))
        if piece.rows:  # an empty piece does not show how columns are stored
            kinds |= {name: kinds.get(name, frozenset()) | {piece.kind(name)} for name in some}
    if not rows:
        raise InputError(f"{path} has no rows; a header and at least one row are needed")
    texts = pd.concat(kept, ignore_index=True)
    return TableFile(path, form, columns, rows, texts, kinds, content, stamp)


def digest_of(path: Path) -> bytes:
    """Return the SHA-256 digest of a file."""
    with _read(path, lambda: path.open("rb")) as file:
        return hashlib.file_digest(file, "sha256").digest()


def read_table(path: Path, form: Form = _USUAL) -> pd.DataFrame:
    """Return all cells of a CSV or Parquet file as text, numbers of Parquet written in `form`."""
    return count_table(path, form, None).kept


def count_tables(
    path: Path, form: Form = _USUAL, keep: Collection[str] | None = (), report: Report | None = None
) -> dict[Path, TableFile]:
    """Return the one table at `path`, or, of a folder, its CSV and Parquet files, one per agent.

    Refused are a folder without such files, two files with different columns, one file under two
    names or saved in two formats, whose records would be at two agents, and a spreadsheet without a
    file of the same name beside it, which would be ignored.
    """
    if not isdir(path):  # not Path.is_dir, which raises for names that are too long
        return {path: count_table(path, form, keep, report)}
    files = {file: count_table(file, form, keep, report) for file in _files(path)}
    first, *others = files
    known: dict[tuple[int, ...], Path] = {}
    for file, table in files.items():
        same = known.setdefault(table.identity, file)
        if same != file:
            raise InputError(
                f"{file.name} and {same.name} are one file under two names (a link), so two agents "
                "would have its records, which would cost them more than is certified; take one "
                "out of the folder"
            )
    for file in others:
        if set(files[file].columns) != set(files[first].columns):
            raise InputError(
                f"{file.name} and {first.name} have different columns; all agents need the same, "
                f"and {HEADER_FIRST}"
            )
    return files


def read_tables(path: Path, form: Form = _USUAL) -> dict[Path, pd.DataFrame]:
    """Return all cells of `count_tables` as text, with the columns in the order of the first."""
    tables = count_tables(path, form, None)
    columns = list(next(iter(tables.values())).columns)
    return {file: table.kept[columns] for file, table in tables.items()}


def _files(folder: Path) -> list[Path]:
    inside = _read(folder, lambda: sorted(folder.iterdir()))
    files = [file for file in inside if file.suffix.lower() in SUFFIXES]
    saved = {file.stem for file in files}
    for file in inside:
        if is_spreadsheet(file) and file.stem not in saved and file.name[0] != "~":
            raise InputError(
                f"{file} is an Excel file, which would be left out; save its sheet as CSV or "
                "Parquet beside it"
            )
    if not files:
        raise InputError(f"{folder} has no .csv or .parquet file; put one file per agent there")
    twice = repeated(file.stem for file in files)
    if twice:
        raise InputError(
            f"{folder} has two files called {twice[0]!r}; an agent has one, or its records would "
            "count as those of two: take one out of the folder"
        )
    return files


def refuse_spreadsheet(path: Path) -> None:
    """Raise `InputError` if a path has the suffix of a spreadsheet, whether or not it exists."""
    if is_spreadsheet(path):
        raise InputError(_EXCEL_FILE.format(path))


def is_spreadsheet(path: Path) -> bool:
    """Whether a path has the suffix of a spreadsheet."""
    return path.suffix.lower() in _EXCEL


def _pieces(
    path: Path, form: Form, content: bytes | None, wanted: Collection[str] | None
) -> Iterator[Piece]:
    """Yield the rows of a file, or of its content; of an empty one a single empty piece."""
    stored = path.suffix.lower() == ".parquet"

    def opened() -> io.BufferedReader:
        return path.open("rb") if content is None else io.BufferedReader(io.BytesIO(content))

    with _read(path, opened) as file:
        if not stored and file.peek(8).startswith(_EXCEL_MARKS):
            raise InputError(_EXCEL_FILE.format(path))
        pieces = parquet_pieces(file, wanted) if stored else text_pieces(path, file, form, wanted)

        def next_piece() -> Piece | None:
            return reraise_clean(
                lambda: next(pieces, None),
                # these messages quote cells, and a decoding error holds a part of the file
                (OSError, ValueError, csv.Error, ArrowException),
                lambda error: _parse_error(path, error, form, stored=stored),
            )

        for piece in iter(next_piece, None):
            twice = repeated(piece.names)
            if twice:  # not named: without a header these are cells
                first = piece.names.index(twice[0]) + 1
                raise InputError(
                    f"{path} has two columns of one name, the first of them column {first}; rename "
                    f"one; {HEADER_FIRST}"
                )
            yield piece


def _read(path: Path, work: Callable[[], _T]) -> _T:
    try:
        return work()
    except OSError as error:
        raise _unreadable(path, error) from error


def _fingerprint(path: Path) -> tuple[int, ...]:
    """Return the type of a file, and numbers that change when it is written to or replaced."""
    now = _read(path, lambda: os.stat(path))
    return now.st_mode, now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be read ({error.strerror or type(error).__name__})")


def _parse_error(path: Path, error: Exception, form: Form, *, stored: bool) -> Exception:
    if isinstance(error, InputError):
        return error
    if stored:
        return InputError(
            f"{path} cannot be read as a Parquet file; is it cut short, or does it hold text that "
            "is not UTF-8?"
        )
    if isinstance(error, OSError):
        return _unreadable(path, error)
    if isinstance(error, UnicodeError):
        return InputError(f"{path} {no_text(form)}")
    # the csv module's message about a header cell that is too long quotes nothing
    what = f" ({error})" if isinstance(error, csv.Error) else ""
    return InputError(f"{path} is not a valid CSV file{what}; is it cut short?")
