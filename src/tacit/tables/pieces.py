"""Files of text and Parquet files as rows of text, some at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.tables.form import Form, other_delimiter, spelled, unquoted
from tacit.tables.identity import TEXT, kind_of
from tacit.typing import HostArray

# so few that the cells of a piece stay in a processor's cache
ROWS_AT_ONCE = 2048


class Piece(NamedTuple):
    """Some rows of a file, as they stand in it.

    Attributes
    ----------
    names
        Of the columns.
    rows
        How many there are.
    cells
        The columns as they were read: text of a CSV file, or values of a Parquet file.
    """

    names: tuple[str, ...]
    rows: int
    cells: Sequence[tuple[str, ...]] | pd.DataFrame

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
            return pd.Series(_as_text(stored, form), dtype=object)
        column = self.cells[place]
        found = decimals(column) if quick and form.plain else None
        if found is not None:
            return pd.Series(found)
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
    encoding = form.encoding_of(file.peek(8))
    with io.TextIOWrapper(file, encoding=encoding, newline="") as lines:
        header = next((line for line in lines if line.strip("\r\n")), "")
        hint = _hint(header, form.delimiter)
        if hint and form.delimiter not in unquoted(header):
            raise InputError(f"{path} has one column as it is read; its header {hint}")
        cells = csv.reader(
            chain([header], lines), delimiter=form.delimiter, strict=True, skipinitialspace=True
        )
        names = next((tuple(map(str.strip, row)) for row in cells if row), None)
        if names is None:
            raise InputError(f"{path} is empty; a header and at least one row are needed")
        before, several = 0, list(islice(cells, ROWS_AT_ONCE))
        while True:
            rows = [row for row in several if row]
            if not set(map(len, rows)) <= {len(names)}:
                raise _ragged(path, rows, before, len(names), hint)
            columns: Sequence[tuple[str, ...]] = (
                list(zip(*rows, strict=True)) if rows else [()] * len(names)
            )
            yield Piece(names, len(rows), columns)
            before += len(rows)
            several = list(islice(cells, ROWS_AT_ONCE))
            if not several:
                return


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

    opened = parquet.ParquetFile(file)
    # whole numbers stay whole beside missing ones, whatever the other rows are
    yield opened.schema_arrow.empty_table().to_pandas(integer_object_nulls=True)
    for batch in opened.iter_batches(ROWS_AT_ONCE):
        yield Table.from_batches([batch]).to_pandas(integer_object_nulls=True)


def decimals(texts: Sequence[str]) -> HostArray | None:
    """Return the numbers that texts say, in float64; None unless each says a finite one.

    Examples
    --------
    >>> decimals(("1.5", " 7 ")).tolist(), decimals(("1", "")), decimals(("1_000",))
    ([1.5, 7.0], None, None)
    """
    whole = "".join(texts)
    # what Python reads as a number and no table means by one: 1_000, and digits of other scripts
    if "_" in whole or not whole.isascii():
        return None
    try:
        found = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def _as_text(cells: pd.Series, form: Form) -> list[str]:
    def text(cell: object) -> str:
        if isinstance(cell, float):  # whose point may mean thousands in this form
            return str(cell).replace(".", form.decimal)
        return str(cell).strip()

    missing = cells.isna().to_numpy()
    pairs = zip(cells.astype(object), missing, strict=True)
    return ["" if hole else text(cell) for cell, hole in pairs]
