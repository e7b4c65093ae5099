"""The format of a text file, and numbers and dates as text.

Every text is parsed alone: no other text influences its value.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
from jaxtyping import Float

from taciturn.errors import InputError, reraise_clean
from taciturn.typing import HostArray

FORM = ("delimiter", "decimal", "thousands", "encoding")
DECIMALS = (".", ",")
THOUSANDS = ("", ".", ",", " ", "'")
# byte-order marks, the longer first: that of UTF-32 begins with that of UTF-16
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# encodings with shift states, in which one row could change the rest, or without line ends
_LASTING = re.compile("iso2022|hz|utf-?7|(raw_|raw-)?unicode|punycode|idna")
# typographic variants of the separators of thousands
_LIKE = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'"})

LONGEST_NUMBER = 1000  # characters
_START = datetime(1970, 1, 1)
_SAMPLE = datetime(2001, 12, 31)
# the patterns of dates that `taciturn bounds` tries, the unambiguous first
USUAL_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ",
    "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Form:
    """The format of a text file; no fact about the records.

    `thousands` separates groups of digits, as in 3,178.40; it may be empty. `encoding` is a name
    that Python knows; a byte-order mark in the file overrides it.
    """

    delimiter: str = ","
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        mark = self.delimiter
        if len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in ' "\r\n\0':
            raise InputError(
                f"delimiter is {mark!r}; give one character of ASCII such as ; or the word "
                "tab, and no letter, digit, blank or quote"
            )
        for name, known in (("decimal", DECIMALS), ("thousands", THOUSANDS)):
            if getattr(self, name) not in known:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}; choose from {' '.join(map(repr, known))}"
                )
        if self.decimal == self.thousands:
            raise InputError(
                f"decimal and thousands are both {self.decimal!r}; they must differ, as in "
                "--decimal , --thousands ."
            )
        try:
            "a".encode(self.encoding)
        except (LookupError, ValueError):
            raise InputError(
                f"encoding is {self.encoding!r}, which is none that Python knows; name one such as "
                "utf-8, cp1252 or latin-1"
            ) from None
        if _LASTING.match(codecs.lookup(self.encoding).name):
            raise InputError(
                f"encoding is {self.encoding!r}, in which one row may change how those behind it "
                "are read; save the file in UTF-8"
            )

    def changed(self, given: Mapping[str, Any]) -> Form:
        """Return the form with some fields replaced; None changes nothing, "tab" is a delimiter."""
        values = {name: value for name, value in given.items() if value is not None}
        for name, value in values.items():
            if name not in FORM:
                raise InputError(f"format has {name!r}; it may have {', '.join(FORM)}")
            if not isinstance(value, str):
                raise InputError(f"{name} must be text in quotes")
        if values.get("delimiter") in ("tab", r"\t"):
            values["delimiter"] = "\t"
        return replace(self, **values)

    def different(self) -> dict[str, str]:
        """Return the fields that differ from the default, by name."""
        return {k: v for k in FORM if (v := getattr(self, k)) != getattr(Form, k)}

    @property
    def plain(self) -> bool:
        """Whether numbers are written as in Python."""
        return self.decimal == "." and not self.thousands

    def reader(self) -> Callable[[str], str]:
        """Return a function from a number in this form to one as in Python; "" for other text.

        Groups must have the right length: with commas between thousands, 1,5 is no number.

        Examples
        --------
        >>> read = Form(decimal=",", thousands=".").reader()
        >>> read("3.178,40"), read("3.17"), read("12")
        ('3178.40', '', '12')
        """
        decimal, between = re.escape(self.decimal), re.escape(self.thousands)
        grouped = rf"|\d{{1,3}}(?:{between}\d{{2,3}})*{between}\d{{3}}" if between else ""
        number = re.compile(
            rf"[+-]?(?:(?:\d+{grouped})(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?", re.ASCII
        )

        def read(text: str) -> str:
            if not number.fullmatch(text):
                text = text.translate(_LIKE).strip()
                if not number.fullmatch(text):
                    return ""
            return text.replace(self.thousands, "").replace(self.decimal, ".")

        return read

    def encoding_of(self, start: bytes) -> str:
        """Return the encoding of a file that starts with these bytes."""
        return next((name for mark, name in _MARKS if start.startswith(mark)), self.encoding)


def read_number(text: str) -> float:
    """Return the number in a text, correctly rounded; NaN if there is none.

    As Python's `float`, except that these are no numbers: 1_000, digits of other scripts, and more
    than 1,000 characters.

    Examples
    --------
    >>> [read_number(text) for text in ("1.5", " 7 ", "1e1", "", "1_000", "0x1")]
    [1.5, 7.0, 10.0, nan, nan, nan]
    """
    text = text.strip()
    if len(text) > LONGEST_NUMBER or "_" in text or not text.isascii():
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_numbers(texts: Sequence[str] | HostArray) -> Float[HostArray, "N"]:
    """Return `read_number` of each text.

    A text that is no number must not slow down the others, or the time for a column would reveal
    whether a single cell is missing.
    """
    # most missing cells, and texts that `float` accepts and `read_number` does not
    odd = [
        k for k, text in enumerate(texts)
        if not text or text[0] > "9" or "_" in text or not text.isascii()
        or len(text) > LONGEST_NUMBER
    ]  # fmt: skip
    usual, numbers = list(texts), list[float]()
    for k in odd:
        usual[k] = "0"
    rest = iter(usual)
    while len(numbers) < len(usual):
        try:
            numbers.extend(map(float, rest))
        except ValueError:  # the numbers before it are in the list already
            numbers.append(read_number(usual[len(numbers)]))
    for k in odd:
        numbers[k] = read_number(texts[k])
    return np.array(numbers, np.float64)


def days(text: str, pattern: str) -> float:
    """Return the days from 1970-01-01 to the date in a text; NaN if it is no such date."""
    try:
        return days_of(datetime.strptime(text, pattern))
    except (ValueError, OverflowError):
        return math.nan


def days_of(moment: date) -> float:
    """Return the days from 1970-01-01 to a date, or to a moment, in UTC if it has a zone."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _START) / timedelta(days=1)


def toml_number(value: Any, what: str, *, dated: bool = False) -> float:
    """Return a number of a TOML file, or if `dated` the days to a date; `what` begins errors."""
    if dated and isinstance(value, date):  # TOML has a type for dates
        return days_of(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{what}, without quotes")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{what}, and finite") from error


def day_text(number: float, pattern: str = "%Y-%m-%d") -> str:
    """Return the date after a number of days; empty if it is out of the calendar."""
    try:
        return (_START + timedelta(days=number)).strftime(pattern)
    except (OverflowError, ValueError):
        return ""


def check_date_pattern(pattern: str) -> None:
    """Raise `InputError` unless a pattern such as %d.%m.%Y determines a date with its year."""
    refusal = InputError(
        f"date is {pattern!r}; state how dates are written, the year included, as in "
        '"%Y-%m-%d" for 2024-12-31 or "%d.%m.%Y" for 31.12.2024'
    )

    def year() -> int:
        return datetime.strptime(_SAMPLE.strftime(pattern), pattern).year

    # a bad pattern may also raise the error of a text that does not match
    faults, yearless = (ValueError, re.error), "%y" not in pattern.lower()
    if yearless or reraise_clean(year, faults, lambda _: refusal) != _SAMPLE.year:
        raise refusal
