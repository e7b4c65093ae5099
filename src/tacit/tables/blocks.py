r"""Blocks of plain text as cells, found and read by array operations on their bytes.

A block is plain if `csv.reader` would find in it what stands between its separators: whole lines of
one number of cells, quotes around whole cells only, if at all, and none that holds a separator.
Everything else is left to `csv.reader`. No Python object is made for a cell that is a number.
"""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, UInt8

from tacit.tables.form import Form
from tacit.typing import HostArray

BYTES_AT_ONCE = 2**21  # the cells of a column then stay in a processor's cache
# numbers of so many characters are whole numbers below 2^53 over a power of ten that is exact
_LONGEST_NUMBER = 15
_LONGEST_TEXT = 64
_LONGEST_CELL = csv.field_size_limit()
_LINE, _QUOTE, _MINUS, _POINT, _ZERO = (ord(mark) for mark in '\n"-.0')
_POINT_LESS_ZERO = np.uint8(_POINT - _ZERO + 256)
_TENS = 10.0 ** np.arange(_LONGEST_NUMBER + 1)
# in these, separators are single bytes, and no other character holds such a byte
_BYTEWISE = frozenset({"ascii", "utf-8", "utf-8-sig", "cp1252", "iso8859-1", "iso8859-15"})


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of plain text.

    Attributes
    ----------
    text
        The bytes, between zeros.
    starts, ends
        Where each cell begins, and the separator behind it stands.
    """

    text: UInt8[HostArray, "_b"]
    starts: Int[HostArray, "M W"]
    ends: Int[HostArray, "M W"]
    encoding: str

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.starts)

    def numbers(self, column: int) -> Float[HostArray, "M"] | None:
        """Return the numbers of a column as Python reads them; None unless all are short decimals.

        Those are digits, a point among them or none, and a minus before them or none, in 15
        characters. With n their digits without the point and f the number of those behind it, the
        number is n / 10^f: both are exact in double precision, and so is the quotient but for one
        rounding, which is that of reading (Clinger 1990).
        """
        starts, ends = self.starts[:, column], self.ends[:, column]
        negative = self.text[starts] == _MINUS
        lengths = ends - starts - negative
        longest = int(lengths.max())
        if not 1 <= lengths.min() <= longest <= _LONGEST_NUMBER:
            return None
        total, places = np.zeros(len(ends)), ends - longest
        short = lengths.astype(np.uint8)
        points, behind, bad = (np.zeros(len(ends), np.uint8) for _ in range(3))
        for left in range(longest, 0, -1):
            digit = self.text[places] - np.uint8(_ZERO)
            digit *= short >= left  # nothing before the cell
            point = digit == _POINT_LESS_ZERO
            points += point
            behind += point * np.uint8(left - 1)
            digit *= ~point
            np.maximum(bad, digit, out=bad)
            total *= 10
            total += digit
            places += 1
        if bad.max() > 9 or points.max() > 1 or bool(np.any(short == points)):
            return None
        if points.any():
            # the point was read as a digit 0: n = total - 9 (what stands before it) 10^f
            tens = _TENS[behind]
            before = np.where(points, np.floor(total / (10 * tens)), 0.0)
            total = (total - 9 * before * tens) / tens
        return np.where(negative, -total, total)

    def texts(self, column: int) -> HostArray:
        """Return the cells of a column, without surrounding blanks, as objects; each text once."""
        starts, ends = self.starts[:, column], self.ends[:, column]
        codes, first = _alike(self.text, starts, ends)
        pairs = zip(starts[first].tolist(), ends[first].tolist(), strict=True)
        raw = (self.text[start:end].tobytes() for start, end in pairs)
        different = np.empty(len(first), object)
        different[:] = [cell.decode(self.encoding).strip() for cell in raw]
        return different[codes]


def _alike(
    text: HostArray, starts: HostArray, ends: HostArray
) -> tuple[Int[HostArray, "M"], Int[HostArray, "K"]]:
    """Return which of K different texts each cell is, and the first cell with each of them."""
    lengths = ends - starts
    longest = int(lengths.max())
    if longest > _LONGEST_TEXT:
        return np.arange(len(starts)), np.arange(len(starts))
    codes = np.zeros(len(starts), np.int64)
    for offset in range(0, longest, 8):
        within = np.arange(offset, offset + 8)
        eight = text[starts[:, None] + within] * (within < lengths[:, None])
        found, different = pd.factorize(eight.view(np.int64)[:, 0])
        codes = pd.factorize(codes * len(different) + found)[0].astype(np.int64)
    first = np.empty(int(codes.max()) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first


def is_bytewise(encoding: str, form: Form) -> bool:
    """Whether separators can be told from other characters by their bytes."""
    known = codecs.lookup(encoding).name in _BYTEWISE
    return known and form.delimiter.isascii()


def next_block(
    file: io.BufferedReader, columns: int, delimiter: str, encoding: str
) -> Block | int | None:
    """Return the next lines of a file, if they are plain; None at its end.

    If they are not plain, the file stands where it stood, and what is returned is how many bytes
    were looked at.

    Raises
    ------
    UnicodeError
        If plain lines are not text in the encoding.
    """
    place = file.tell()
    raw = file.read(BYTES_AT_ONCE)
    if not raw:
        return None
    if raw[-1] != _LINE:
        raw += file.readline(BYTES_AT_ONCE)
    whole = raw[-1] == _LINE or not file.peek(1)
    block = plain_block(raw, columns, delimiter, encoding) if whole else None
    if block is None:
        file.seek(place)
        return len(raw)
    return block


def plain_block(raw: bytes, columns: int, delimiter: str, encoding: str) -> Block | None:
    """Return lines as a block, if they are plain ones with so many cells each, two or more."""
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n")
    if not raw.endswith(b"\n"):  # the last line of a file may have no end
        raw += b"\n"
    mark = delimiter.encode()
    unquoted = _unquoted(raw, ord(mark)) if b'"' in raw else raw
    if unquoted is None or b"\r" in raw or b"\0" in raw:
        return None
    around = bytes(_LONGEST_TEXT)
    text = np.frombuffer(around + unquoted + around, np.uint8)
    found = np.flatnonzero((text == ord(mark)) | (text == _LINE))
    if columns < 2 or len(found) % columns:
        return None
    ends = found.reshape(-1, columns)
    last = text[ends] == _LINE
    if not (last[:, -1].all() and not last[:, :-1].any()):
        return None
    starts = np.empty_like(found)
    starts[0], starts[1:] = len(around), found[:-1] + 1
    if (found - starts).max() > _LONGEST_CELL:
        return None
    if not raw.isascii():
        raw.decode(encoding)
    return Block(text, starts.reshape(ends.shape), ends, encoding)


def _unquoted(raw: bytes, mark: int) -> bytes | None:
    """Return lines without their quotes; None unless these stand around whole cells.

    A pair of quotes with separators on both sides and none between is such a cell, and `csv.reader`
    leaves out that pair and nothing else. Two quotes that stand for one have no separator beside
    one of them.
    """
    text = np.frombuffer(raw, np.uint8)
    quotes = np.flatnonzero(text == _QUOTE)
    if len(quotes) % 2:
        return None
    opening, closing = quotes[::2], quotes[1::2]
    separates = (text == mark) | (text == _LINE)
    before = np.cumsum(separates)
    # in front of the first byte stands the end of a line, as at the end of the block
    alone = separates[opening - 1] & separates[closing + 1] & (before[opening] == before[closing])
    return raw.translate(None, b'"') if bool(alone.all()) else None
