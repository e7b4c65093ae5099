"""Files of tables, read as text in which nothing is guessed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from os.path import isdir
from pathlib import Path

import pandas as pd

from tacit.errors import InputError, told_anew
from tacit.tables.facts import repeated
from tacit.tables.form import Form, other_delimiter, spelled, unquoted
from tacit.tables.identity import remember_kinds

SUFFIXES = (".csv", ".parquet")
_EXCEL = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
_EXCEL_MARKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
_USUAL = Form()


def read_table(path: Path, form: Form = _USUAL) -> pd.DataFrame:
    """Return the CSV or Parquet file `path`; every cell is text without surrounding blanks.

    Numbers in a Parquet file that are stored as such become text in `form`. Parquet needs the
    package pyarrow (`pip install "tacit[tables-parquet]"`).

    Raises
    ------
    InputError
        If the file cannot be read, is an Excel file, has no rows, names a column twice, or a row
        has another number of cells than the header (as the last one of a truncated file). Where
        the header looks as if it were separated otherwise, the message says how.
    """
    refuse_spreadsheet(path)
    frame = _parquet(path, form) if path.suffix.lower() == ".parquet" else _csv(path, form)
    twice = repeated(frame.columns)
    if twice:
        raise InputError(f"{path} has two columns called {twice[0]!r}; rename one")
    if not len(frame):
        raise InputError(f"{path} has no rows; a header and at least one row are needed")
    return frame


def read_tables(path: Path, form: Form = _USUAL) -> dict[Path, pd.DataFrame]:
    """Return the one table at `path`, or one per agent if it is a folder; see `read_agents`."""
    # not Path.is_dir, which raises for names that are too long
    return read_agents(path, form) if isdir(path) else {path: read_table(path, form)}


def read_agents(folder: Path, form: Form = _USUAL) -> dict[Path, pd.DataFrame]:
    """Return one table per agent: the CSV and Parquet files of `folder`, by name of the file.

    Suffixes count in any case of their letters: exports may end in .CSV.

    Raises
    ------
    InputError
        As `read_table`; if there is no such file, two have different columns, or an Excel file has
        none beside it that is called the same.
    """
    frames = {file: read_table(file, form) for file in _files(folder)}
    first, *others = frames
    columns = list(frames[first].columns)
    for file in others:
        other = set(frames[file].columns) ^ set(columns)
        if other:
            raise InputError(
                f"{file.name} and {first.name} have different columns: {min(other)!r} is in one "
                "only; all agents need the same columns"
            )
    return {file: frame[columns] for file, frame in frames.items()}


def _files(folder: Path) -> list[Path]:
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{folder} cannot be read ({reason})") from error
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
    return files


def refuse_spreadsheet(path: Path) -> None:
    """Raise `InputError` if the name is that of a spreadsheet, whether there is one or not."""
    if is_spreadsheet(path):
        raise _excel(path)


def is_spreadsheet(path: Path) -> bool:
    """Whether the name ends as those of spreadsheets do, in whatever case."""
    return path.suffix.lower() in _EXCEL


def _excel(path: Path) -> InputError:
    return InputError(
        f"{path} is a spreadsheet, as of Excel, or an archive; save its sheet as CSV or Parquet, "
        "and name that file"
    )


def _csv(path: Path, form: Form) -> pd.DataFrame:
    def frame() -> pd.DataFrame:
        with path.open("rb") as file:  # once, since it may be a pipe
            start = file.peek(8)
            if start.startswith(_EXCEL_MARKS):
                raise _excel(path)
            lines = io.TextIOWrapper(file, encoding=form.encoding_of(start), newline="")
            return _parsed(path, lines, form.delimiter)

    def told(error: Exception) -> Exception:
        if isinstance(error, OSError):
            return InputError(f"{path} cannot be read ({error.strerror or type(error).__name__})")
        if isinstance(error, csv.Error):  # its messages are about quotes and the end of the file
            return InputError(f"{path} is not a valid CSV file ({error}); is it cut short?")
        return InputError(
            f"{path} is not text in {form.encoding.upper()}, or in what its byte-order mark says; "
            "save it as CSV in UTF-8, or name its encoding, as in --encoding cp1252"
        )

    # an error of decoding holds a part of the file
    return told_anew(frame, (OSError, csv.Error, UnicodeError), told)


def _parsed(path: Path, lines: Iterator[str], delimiter: str) -> pd.DataFrame:
    header = next((line for line in lines if line.strip("\r\n")), "")
    whole = chain([header], lines)
    cells = csv.reader(whole, delimiter=delimiter, strict=True, skipinitialspace=True)
    hint = _hint(header, delimiter)
    if hint and delimiter not in unquoted(header):
        raise InputError(f"{path} has one column as it is read; its header {hint}")
    rows = _rows(path, cells, hint)
    names = next(rows, None)
    if names is None:
        raise InputError(f"{path} is empty; a header and at least one row are needed")
    return pd.DataFrame(list(rows), columns=pd.Index(names, dtype=object), dtype=object)


def _hint(header: str, delimiter: str) -> str | None:
    """Return what to do if the header looks as if it were separated otherwise."""
    other = other_delimiter(header, delimiter)
    if other is None:
        return None
    what = "tabs" if other == "\t" else other
    return f"looks separated by {what}: add --delimiter {spelled(other)}"


def _rows(path: Path, lines: Iterator[Sequence[str]], hint: str | None) -> Iterator[list[str]]:
    width: int | None = None
    for number, cells in enumerate(line for line in lines if line):
        width = len(cells) if width is None else width
        if len(cells) != width:
            raise InputError(
                f"{path}: row {number} has {len(cells)} cells and the header {width}; "
                + (f"the header {hint}" if hint else "is the file cut short?")
            )
        yield [cell.strip() for cell in cells]


def _parquet(path: Path, form: Form) -> pd.DataFrame:
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

    def text(cell: object) -> str:
        if isinstance(cell, float):  # whose point may mean thousands in this form
            return str(cell).replace(".", form.decimal)
        return str(cell).strip()

    read = frame.astype(object).map(text).mask(missing, "").rename(columns=str)
    return remember_kinds(frame, read)
