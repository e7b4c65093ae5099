"""CSV and Parquet files as pieces of rows, split into cells by pyarrow without type inference.

**Guarantee.** The value of a cell follows from that cell alone: pyarrow reads every cell of a CSV
file as text, and conversion to a number afterwards gives the same one on either of two paths. One
record does not change where another begins, or the file is refused: see `_whole_records` and
`_grammar_fault`.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import BinaryIO, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import compute, parquet
from pyarrow import csv as arrow_csv

from taciturn.errors import InputError, reraise_clean
from taciturn.tables.cells import TEXT, kind_of
from taciturn.tables.form import LONGEST_NUMBER, Form
from taciturn.typing import HostArray

BYTES_AT_ONCE = 2**20
# the fixed cost of a piece is that of a thousand rows of twenty numbers; more rows leave the cache
ROWS_AT_ONCE = 8192
# bytes of a row in UTF-8, so that an open quote does not pull the whole file into memory
LONGEST_ROW = 2**24

# replaces bytes that cannot be decoded; a lone surrogate does not occur in valid text
_NO_TEXT = "\udfff".encode("utf-8", "surrogatepass")
codecs.register_error("taciturn.no-text", lambda error: ("\udfff", error.end))  # type: ignore[attr-defined]
_STRAY_QUOTE = (
    "is not a valid CSV file (a cell has a quote inside and none around it, or text behind its "
    "quote; put the cell in quotes and double the one inside)"
)
# names of columns, and what to do where a row has another number of cells
_Header: TypeAlias = tuple[tuple[str, ...], str]
_OPEN_QUOTE = "is not a valid CSV file (a quote is opened and never closed); is it cut short?"


class Piece(NamedTuple):
    """Some rows of a file: the names of all its columns, and the cells of some of them.

    Cells are texts of a CSV file, or values of a Parquet file.
    """

    names: tuple[str, ...]
    rows: int
    cells: Mapping[str, pa.Array | pd.Series]

    def read(
        self, names: Collection[str], form: Form, numbers: Collection[str] = ()
    ) -> pd.DataFrame:
        """Return columns as text without surrounding blanks, numbers written in `form`.

        Columns in `numbers` are returned as numbers if all of their cells are, which is faster and
        gives the same values.
        """
        wanted = [name for name in self.names if name in names]
        read = {name: self._column(name, form, quick=name in numbers) for name in wanted}
        return pd.DataFrame(read, index=pd.RangeIndex(self.rows), copy=False)

    def kind(self, name: str) -> str:
        """Return how a column is stored, in words; see `taciturn.tables.cells`."""
        cells = self.cells[name]
        return kind_of(cells) if isinstance(cells, pd.Series) else TEXT

    def _column(self, name: str, form: Form, *, quick: bool) -> pd.Series:
        cells = self.cells[name]
        if isinstance(cells, pd.Series):
            if quick and cells.dtype.kind in "iuf":
                return pd.Series(cells.to_numpy())
            refusal = InputError(
                f"column {name!r} holds a cell that has no text, as a moment outside the calendar "
                "in a time zone; drop such rows"
            )
            faults = (NotImplementedError, ValueError, OverflowError)
            texts = reraise_clean(lambda: _as_text(cells, form), faults, lambda _: refusal)
            return pd.Series(texts, dtype=object)
        numbers = _as_numbers(cells) if quick and form.plain else None
        if numbers is not None:
            return pd.Series(numbers)
        found = cells.dictionary_encode()  # strip each different text once
        different = np.empty(len(found.dictionary), object)
        different[:] = [text.strip() for text in found.dictionary.to_pylist()]
        return pd.Series(different[found.indices.to_numpy()], dtype=object)


def _as_numbers(cells: pa.Array) -> HostArray | None:
    """Return texts as numbers; None unless all are finite decimals between blanks.

    Both pyarrow and Python round correctly, so the numbers are the same. Blanks are stripped here:
    otherwise one cell with blanks would put the column on the slow path, which can be timed.
    """
    cells = compute.utf8_trim_whitespace(cells)
    if (compute.max(compute.binary_length(cells)).as_py() or 0) > LONGEST_NUMBER:
        return None
    try:
        numbers = compute.cast(cells, pa.float64()).to_numpy()
    except pa.ArrowInvalid:  # whose message quotes a cell
        return None
    return numbers if np.isfinite(numbers).all() else None


def _as_text(cells: pd.Series, form: Form) -> list[str]:
    def text(cell: object) -> str:
        if isinstance(cell, (float, Decimal)):  # whose point may mean thousands in this form
            return str(cell).replace(".", form.decimal)
        return str(cell).strip()

    pairs = zip(cells.astype(object), cells.isna().to_numpy(), strict=True)
    return ["" if hole else text(cell) for cell, hole in pairs]


def parquet_pieces(file: BinaryIO, wanted: Collection[str] | None = None) -> Iterator[Piece]:
    """Yield the rows of a Parquet file: at least one piece, which may have no rows."""
    names: tuple[str, ...] | None = None
    for frame in stored_pieces(file, wanted):
        named = frame.rename(columns=str)
        names = tuple(named.columns) if names is None else names
        yield Piece(names, len(named), {name: named[name] for name in named.columns})


def stored_pieces(file: BinaryIO, wanted: Collection[str] | None = None) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file: an empty frame of all columns, then the wanted ones."""
    opened = parquet.ParquetFile(file, pre_buffer=False)  # else the whole file stays in memory
    # integers stay integers beside missing values, so that a value does not depend on other rows
    yield opened.schema_arrow.empty_table().to_pandas(integer_object_nulls=True)
    names = opened.schema_arrow.names
    names = [name for name in names if wanted is None or name in wanted]
    for batch in opened.iter_batches(ROWS_AT_ONCE, columns=names):
        if not names:  # rows are counted, and no cell is converted: one without a date would fail
            yield pd.DataFrame(index=pd.RangeIndex(batch.num_rows))
            continue
        batch.validate(full=True)  # invalid UTF-8 would fail later, in an error that quotes it
        yield pa.Table.from_batches([batch]).to_pandas(integer_object_nulls=True)


def text_pieces(
    path: object, file: io.BufferedReader, form: Form, wanted: Collection[str] | None = None
) -> Iterator[Piece]:
    """Yield the rows of a file of text: at least one piece, which may have no rows.

    Cells of the columns `wanted` are kept; None for all. Errors are raised in the order of rows.
    """
    header: _Header | None = None
    before = 0  # records of earlier pieces, header included
    for whole in _whole_records(path, file, form):
        raw = _without_blanks(whole, form)
        fault = _grammar_fault(raw, form)
        good = raw if fault is None else raw[: _end_of_records(raw[: fault[0]])]
        header = header or _header(path, raw, good, form)
        found = None if header is None else _cells(good, header[0], form, wanted)
        if header is not None and found is None:
            raise _ragged(path, good, header, before, form)
        if fault is not None:
            raise InputError(f"{path} {fault[1]}")
        if header is None or found is None:  # blank lines only
            continue
        cells, count = found
        first = 0 if before else 1
        for start in range(first, max(count, first + 1), ROWS_AT_ONCE):
            some = {name: column[start : start + ROWS_AT_ONCE] for name, column in cells.items()}
            yield Piece(header[0], min(count - start, ROWS_AT_ONCE), some)
        before += count
    if header is None:
        raise InputError(f"{path} is empty; a header and at least one row are needed")


def no_text(form: Form) -> str:
    """Return the end of the error about a file that is not text in its form's encoding."""
    return (
        f"is not text in {form.encoding.upper()}, or in what its byte-order mark says; save it as "
        "CSV in UTF-8, or name its encoding, as in --encoding cp1252"
    )


def _whole_records(path: object, file: io.BufferedReader, form: Form) -> Iterator[bytes]:
    """Yield a file as UTF-8, cut at line ends outside quotes, invalid bytes as `_NO_TEXT`.

    **Guarantee.** Whether a record is too long depends on that record alone: the search for its end
    starts where it begins, and a record is refused only if it has `LONGEST_ROW` bytes.
    """
    decoder = codecs.getincrementaldecoder(form.encoding_of(file.peek(8)))("taciturn.no-text")
    text, more = b"", True
    while more:
        raw = file.read(BYTES_AT_ONCE)
        more = bool(raw)
        text += decoder.decode(raw, final=not more).encode("utf-8", "surrogatepass")
        while end := _end_of_records(text[:LONGEST_ROW]):
            yield text[:end]
            text = text[end:]
        if len(text) >= LONGEST_ROW:
            raise InputError(
                f"{path} has a row of more than {LONGEST_ROW - 1:,} bytes; is a quote left open?"
            )
    if text:  # the last line may lack its line end
        yield text


def _end_of_records(raw: bytes) -> int:
    """Return the position after the last line end outside quotes; 0 if there is none.

    Every quote opens or closes a quoted cell; a doubled quote inside a cell closes and opens it.
    """
    if b'"' not in raw:
        return max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1

    def last(end: bytes) -> int:
        place = len(raw)
        while (place := raw.rfind(end, 0, place)) >= 0:
            if raw.count(b'"', 0, place) % 2 == 0:
                return place + 1
            place = raw.rfind(b'"', 0, place)  # the quote that opens the cell of this line end
        return 0

    return max(last(b"\n"), last(b"\r"))


def _without_blanks(raw: bytes, form: Form) -> bytes:
    """Return whole records without the blanks before a quoted cell."""
    if b'"' not in raw or b' "' not in raw:  # the search for a single byte is faster
        return raw
    before = rb"(^|[\r\n]|" + re.escape(form.delimiter).encode() + rb")"
    return re.sub(before + rb' *+("(?:[^"]++|"")*+")', rb"\1\2", raw)


def _grammar_fault(raw: bytes, form: Form) -> tuple[int, str] | None:
    """Return where whole records first break the grammar of CSV, and how; None if nowhere.

    **Guarantee.** A record whose quotes are wrong does not change how another is read: the file is
    refused. In the accepted grammar a quote is at an end of a cell, or doubled inside one, so every
    quote opens or closes a cell. The other records have an even number of quotes each. If this one
    has an odd number, the file ends inside a cell; if an even number, the next record starts
    outside quotes as before.
    """
    faults = []
    if not raw.isascii() and _NO_TEXT in raw:
        faults.append((raw.index(_NO_TEXT), no_text(form)))
    if b'"' in raw:
        # line ends on both sides, so that every quote has two neighbours
        text = np.frombuffer(b"\n" + raw + b"\n", np.uint8)
        quotes = np.flatnonzero(text == ord('"'))
        outside = np.where(np.arange(len(quotes)) % 2, 1, -1)  # offset of the byte outside the cell
        usual = [ord(form.delimiter), *b'\n\r"']
        stray = ~np.isin(text[quotes + outside], usual)
        if stray.any():
            faults.append((int(quotes[stray][0]) - 1, _STRAY_QUOTE))
        elif len(quotes) % 2:
            faults.append((int(quotes[-1]) - 1, _OPEN_QUOTE))
    return min(faults, default=None)


def _header(path: object, raw: bytes, good: bytes, form: Form) -> _Header | None:
    """Return the first record of text; None if there is none in its `good` part."""
    line = next((line for line in raw.splitlines() if line), b"")
    bare = "" if _NO_TEXT in line else re.sub(r'"[^"]*"', "", line.decode())  # outside quotes
    best, hint = max(",;\t|", key=bare.count), "is the file cut short?"
    if bare.count(best) > bare.count(form.delimiter):
        what, typed = ("tabs", "tab") if best == "\t" else (best, f"'{best}'")
        hint = f"header looks separated by {what}: add --delimiter {typed}"
        if form.delimiter not in bare:
            raise InputError(f"{path} has one column as it is read; its {hint}")
        hint = f"the {hint}"
    names = next(_rows(good, form), None)
    return None if names is None else (tuple(map(str.strip, names)), hint)


def _rows(raw: bytes, form: Form) -> Iterator[list[str]]:
    lines = io.StringIO(raw.decode(), newline="")
    return filter(None, csv.reader(lines, delimiter=form.delimiter, skipinitialspace=True))


def _cells(
    raw: bytes, names: Sequence[str], form: Form, wanted: Collection[str] | None
) -> tuple[dict[str, pa.Array], int] | None:
    """Return columns of whole records and how many these are; None if their lengths differ."""
    places = [k for k, name in enumerate(names) if wanted is None or name in wanted]
    numbered = [str(k) for k in range(len(names))]
    read = arrow_csv.ReadOptions(use_threads=False, block_size=len(raw) + 2, column_names=numbered)
    parse = arrow_csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(numbered, pa.string()), null_values=[], check_utf8=False,
        include_columns=[str(k) for k in places] or numbered[:1],
    )  # fmt: skip
    # without this line end pyarrow would drop a byte-order mark at the start of a later piece
    buffer = pa.py_buffer(b"\n" + raw)
    try:
        table = arrow_csv.read_csv(buffer, read, parse, convert)
    except pa.ArrowInvalid:  # whose message quotes a row
        return None
    return {names[k]: table.column(str(k)).combine_chunks() for k in places}, table.num_rows


def _ragged(path: object, raw: bytes, header: _Header, before: int, form: Form) -> InputError:
    width, hint = len(header[0]), header[1]
    for place, row in enumerate(_rows(raw, form), before):
        if len(row) != width:
            what = f"row {place} has {len(row)} cells and the header {width}"
            return InputError(f"{path}: {what}; {hint}")
    return InputError(f"{path} is not a valid CSV file; is it cut short?")
