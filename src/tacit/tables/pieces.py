"""Files of text and Parquet files as rows of text, some at a time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

import numpy as np
import pandas as pd

from tacit.errors import InputError, told_anew
from tacit.tables.blocks import Block, is_bytewise, next_block
from tacit.tables.form import Form, other_delimiter, spelled, unquoted
from tacit.tables.identity import TEXT, kind_of
from tacit.tables.numbers import read_numbers
from tacit.typing import HostArray

# so few that the cells of a piece stay in a processor's cache
ROWS_AT_ONCE = 2048
# more where a file stores numbers: a piece costs as much as a thousand rows of twenty of them
STORED_ROWS_AT_ONCE = 8192


class Piece(NamedTuple):
    """Some rows of a file, as they stand in it.

    Attributes
    ----------
    names
        Of the columns.
    rows
        How many there are.
    cells
        The columns as they were read: text of a CSV file, plain or not, or values of a Parquet
        file.
    """

    names: tuple[str, ...]
    rows: int
    cells: Sequence[tuple[str, ...]] | Block | pd.DataFrame

    def text(self, names: Collection[str], form: Form) -> pd.DataFrame:
        """Return columns as text without surrounding blanks, numbers written in `form`."""
        return self.read(names, (), form)

    def read(self, names: Collection[str], numbers: Collection[str], form: Form) -> pd.DataFrame:
        """Return columns as `text` does, but as numbers those in `numbers` that are no other text.

        Their texts would be read as the same numbers, more slowly.
        """
        read = {
            name: self._column(name, place, form, quick=name in numbers)
            for place, name in enumerate(self.names)
            if name in names
        }
        return pd.DataFrame(read, index=pd.RangeIndex(self.rows))

    def _column(self, name: str, place: int, form: Form, *, quick: bool) -> pd.Series:
        if isinstance(self.cells, pd.DataFrame):
            stored = self.cells[name]
            if quick and stored.dtype.kind in "iuf":
                return pd.Series(stored.to_numpy())
            texts = told_anew(
                lambda: _as_text(stored, form),
                (NotImplementedError, ValueError, OverflowError),
                lambda _: InputError(
                    f"column {name!r} holds a cell that has no text, as a moment outside the "
                    "calendar in a time zone; drop such rows"
                ),
            )
            return pd.Series(texts, dtype=object)
        quick = quick and form.plain
        column: Sequence[str] | HostArray
        if isinstance(self.cells, Block):
            numbers = self.cells.numbers(place) if quick else None
            if numbers is not None:
                return pd.Series(numbers)
            column = self.cells.texts(place)
        else:
            column = self.cells[place]
        if quick:
            numbers = read_numbers(column)
            if np.isfinite(numbers).all():
                return pd.Series(numbers)
        return pd.Series(list(map(str.strip, column)), dtype=object)

    def kind(self, name: str) -> str:
        """Return how a column is stored, in words; see `tacit.tables.identity`."""
        return kind_of(self.cells[name]) if isinstance(self.cells, pd.DataFrame) else TEXT


def text_pieces(path: object, file: io.BufferedReader, form: Form) -> Iterator[Piece]:
    """Yield the rows of a file of text, at least one piece, which may have no rows.

    Raises
    ------
    InputError
        If the file is empty, or a row has another number of cells than the header. Where the
        header looks as if it were separated otherwise, the message says how.
    """
    with closing(_lines(file, form.encoding_of(file.peek(8)), form)) as lines:
        yield from _pieces_of_lines(path, file, lines, form)


def _pieces_of_lines(
    path: object, file: io.BufferedReader, lines: _Lines | io.TextIOWrapper, form: Form
) -> Iterator[Piece]:
    header = next((line for line in lines if line.strip("\r\n")), "")
    hint = _hint(header, form.delimiter)
    if hint and form.delimiter not in unquoted(header):
        raise InputError(f"{path} has one column as it is read; its header {hint}")
    cells = _rows(chain([header], lines), form.delimiter)
    names = next((tuple(map(str.strip, row)) for row in cells if row), None)
    if names is None:
        raise InputError(f"{path} is empty; a header and at least one row are needed")
    before = 0
    for some in _several(file, lines, cells, len(names), form):
        if isinstance(some, Block):
            yield Piece(names, some.rows, some)
            before += some.rows
            continue
        rows = [row for row in some if row]
        if not set(map(len, rows)) <= {len(names)}:
            raise _ragged(path, rows, before, len(names), hint)
        if rows:
            yield Piece(names, len(rows), list(zip(*rows, strict=True)))
        before += len(rows)
    if not before:
        yield Piece(names, 0, [()] * len(names))


def _rows(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Yield what `csv.reader` finds in lines, none of it a cell with a quote inside only.

    **Guarantee.** A record whose quotes are wrong does not change how another one is read: the file
    is refused. In the grammar that is left a quote is at an end of a cell, or one of two that stand
    for one inside; so each takes the reader into a cell or out of it. The other records have an
    even number each. With an odd number in this one, the file ends inside a cell; with an even
    number the reader is where it was before.

    Raises
    ------
    csv.Error
        If it is no such file.
    """
    quoted: list[str] = []  # the lines of a row that have quotes

    def noted() -> Iterator[str]:
        for line in lines:
            if '"' in line:
                quoted.append(line)
            yield line

    mark = re.escape(delimiter)
    whole = re.compile(rf'(?:^|{mark}) *+"(?:[^"]++|"")*+"(?=$|{mark}|[\r\n])')
    for row in csv.reader(noted(), delimiter=delimiter, strict=True, skipinitialspace=True):
        if quoted and '"' in whole.sub("", "".join(quoted)):
            raise csv.Error(
                "a cell has a quote inside and none around it; put the cell in quotes and double "
                "the one inside"
            )
        quoted.clear()
        yield row


class _Lines:
    """The lines of a file, of which bytes are read no further than the last one that was taken."""

    def __init__(self, file: io.BufferedReader, encoding: str) -> None:
        self._file, self._encoding = file, encoding
        self._waiting: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self._waiting:
            text = self._file.readline().decode(self._encoding)
            self._encoding = self.later_encoding  # its mark is at the start only
            if not text:
                raise StopIteration
            # where lines end as on old machines there are several
            self._waiting = list(io.StringIO(text, newline="")) if "\r" in text else [text]
        return self._waiting.pop(0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def later_encoding(self) -> str:
        """That of what follows."""
        return "utf-8" if self._encoding == "utf-8-sig" else self._encoding

    @property
    def between(self) -> bool:
        """Whether the file stands behind the last line that was taken."""
        return not self._waiting


def _lines(file: io.BufferedReader, encoding: str, form: Form) -> _Lines | io.TextIOWrapper:
    start = file.peek(1).rstrip(b"\r").replace(b"\r\n", b"")
    if is_bytewise(encoding, form) and b"\r" not in start:
        return _Lines(file, encoding)
    return io.TextIOWrapper(file, encoding=encoding, newline="")


def _several(
    file: io.BufferedReader,
    lines: _Lines | io.TextIOWrapper,
    cells: Iterator[list[str]],
    columns: int,
    form: Form,
) -> Iterator[Block | list[list[str]]]:
    """Yield the rows of a file: blocks where these are plain, else as `csv.reader` finds them."""
    as_rows = 0  # up to where nothing was plain
    while True:
        if isinstance(lines, _Lines) and lines.between and file.tell() >= as_rows:
            block = next_block(file, columns, form.delimiter, lines.later_encoding)
            if isinstance(block, int):
                as_rows = file.tell() + block
            elif block is not None:
                yield block
                continue
        some: list[list[str]] = []
        try:
            for row in islice(cells, ROWS_AT_ONCE):
                some.append(row)
        except (csv.Error, UnicodeError):
            yield some  # whose faults come first, however many rows are read at once
            raise
        if not some:
            return
        yield some


def _ragged(
    path: object, rows: list[list[str]], before: int, width: int, hint: str | None
) -> InputError:
    place = next(place for place, row in enumerate(rows) if len(row) != width)
    return InputError(
        f"{path}: row {before + place + 1} has {len(rows[place])} cells and the header {width}; "
        + (f"the header {hint}" if hint else "is the file cut short?")
    )


def _hint(header: str, delimiter: str) -> str | None:
    """Return what to do if the header looks as if it were separated otherwise."""
    other = other_delimiter(header, delimiter)
    if other is None:
        return None
    what = "tabs" if other == "\t" else other
    return f"looks separated by {what}: add --delimiter {spelled(other)}"


def parquet_pieces(file: BinaryIO) -> Iterator[Piece]:
    """Yield the rows of a Parquet file, at least one piece, which may have no rows."""
    for frame in stored_pieces(file):
        named = frame.rename(columns=str)
        yield Piece(tuple(named.columns), len(named), named)


def stored_pieces(file: BinaryIO) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file with the values that it stores, an empty piece first."""
    from pyarrow import Table, parquet  # noqa: PLC0415 - an optional extra

    opened = parquet.ParquetFile(file, pre_buffer=False)  # else the whole file stays in memory
    # whole numbers stay whole beside missing ones, whatever the other rows are
    yield opened.schema_arrow.empty_table().to_pandas(integer_object_nulls=True)
    for batch in opened.iter_batches(STORED_ROWS_AT_ONCE):
        batch.validate(full=True)  # text that is none would be decoded later, and quoted then
        yield Table.from_batches([batch]).to_pandas(integer_object_nulls=True)


def _as_text(cells: pd.Series, form: Form) -> list[str]:
    def text(cell: object) -> str:
        if isinstance(cell, (float, Decimal)):  # whose point may mean thousands in this form
            return str(cell).replace(".", form.decimal)
        return str(cell).strip()

    missing = cells.isna().to_numpy()
    pairs = zip(cells.astype(object), missing, strict=True)
    return ["" if hole else text(cell) for cell, hole in pairs]
