"""The form of a file of text: what separates its cells, how numbers are written, its encoding."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from taciturn.errors import InputError

FORM = ("delimiter", "decimal", "thousands", "encoding")
DECIMALS = (".", ",")
THOUSANDS = ("", ".", ",", " ", "'")
# the longer marks first: that of UTF-32 begins with that of UTF-16
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS = (",", ";", "\t", "|")
_TAB = ("tab", r"\t")
# encodings whose marks count until another one comes, or that leave line ends out
_LASTING = re.compile("iso2022|hz|utf-?7|(raw_|raw-)?unicode|punycode|idna")
# how else these marks are set
_LIKE = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'"})


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a file of text is written; no fact about the records.

    Attributes
    ----------
    delimiter
        The character between two cells.
    decimal
        The character before the decimals of a number: a point or a comma.
    thousands
        The character between groups of digits, as in 3,178.40; empty if there is none.
    encoding
        A name that Python knows. A byte-order mark in the file is believed before it.

    Raises
    ------
    InputError
        If one of them cannot be used, or decimal and thousands are the same.
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
        if not _is_encoding(self.encoding):
            raise InputError(
                f"encoding is {self.encoding!r}, which is none that Python knows; name one such as "
                "utf-8, cp1252 or latin-1"
            )
        if _LASTING.match(codecs.lookup(self.encoding).name):
            raise InputError(
                f"encoding is {self.encoding!r}, in which one row may change how those behind it "
                "are read; save the file in UTF-8"
            )

    def changed(self, given: Mapping[str, Any]) -> Form:
        r"""Return the form with what is given, by name, in place of its own; None changes nothing.

        Raises
        ------
        InputError
            If a name is none of the four, or its value no text that can be used.

        Examples
        --------
        >>> Form().changed({"delimiter": "tab", "decimal": None}).delimiter
        '\t'
        """
        values = {name: value for name, value in given.items() if value is not None}
        for name, value in values.items():
            if name not in FORM:
                raise InputError(f"format has {name!r}; it may have {', '.join(FORM)}")
            if not isinstance(value, str):
                raise InputError(f"{name} must be text in quotes")
        if values.get("delimiter") in _TAB:
            values["delimiter"] = "\t"
        return replace(self, **values)

    def different(self) -> dict[str, str]:
        """Return what differs from the usual form, by name."""
        pairs = {name: getattr(self, name) for name in FORM}
        return {name: value for name, value in pairs.items() if value != getattr(Form, name)}

    @property
    def plain(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return self.decimal == "." and not self.thousands

    def reader(self) -> Callable[[str], str]:
        """Return a function that writes a number as Python does; "" for what is no number.

        Groups of digits must be groups: with commas between thousands, 1,5 is no number.

        Examples
        --------
        >>> read = Form(decimal=",", thousands=".").reader()
        >>> read("3.178,40"), read("3.17"), read("12")
        ('3178.40', '', '12')
        """
        decimal, between = re.escape(self.decimal), re.escape(self.thousands)
        grouped = rf"|\d{{1,3}}(?:{between}\d{{2,3}})*{between}\d{{3}}" if between else ""
        number = re.compile(
            rf"[+-]?(?:(?:\d+{grouped})(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?",
            re.ASCII,
        )

        def read(text: str) -> str:
            if not number.fullmatch(text):
                text = text.translate(_LIKE).strip()
                if not number.fullmatch(text):
                    return ""
            return text.replace(self.thousands, "").replace(self.decimal, ".")

        return read

    def encoding_of(self, start: bytes) -> str:
        """Return the encoding of a file that starts with these bytes: that of its mark, if any."""
        marked = (name for mark, name in _MARKS if start.startswith(mark))
        return next(marked, self.encoding)


def _is_encoding(name: str) -> bool:
    try:
        return bool("a".encode(name))
    except (LookupError, ValueError):
        return False


def other_delimiter(header: str, delimiter: str) -> str | None:
    """Return what separates a header more often than `delimiter` does; None if nothing does.

    Examples
    --------
    >>> other_delimiter('age;"town, or village";ill', ",")
    ';'
    """
    bare = unquoted(header)
    best = max(_SEPARATORS, key=bare.count)
    return best if bare.count(best) > bare.count(delimiter) else None


def unquoted(header: str) -> str:
    """Return what of a header stands outside quotes."""
    return re.sub(r'"[^"]*"', "", header)


def spelled(delimiter: str) -> str:
    """Return a delimiter as it is typed after --delimiter."""
    return _TAB[0] if delimiter == "\t" else f"'{delimiter}'"
