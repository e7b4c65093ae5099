"""Dates as numbers: days since 1970-01-01."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from taciturn.errors import InputError, told_anew

_START = datetime(1970, 1, 1)
_SAMPLE = datetime(2001, 12, 31)

# what `taciturn bounds` tries, the unambiguous first
USUAL = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
    "%d.%m.%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
)


def days(text: str, pattern: str) -> float:
    """Return the days from 1970-01-01 to the date that a text says; NaN if it is no such date.

    Examples
    --------
    >>> days("1970-01-03", "%Y-%m-%d"), days("31.2.1970", "%d.%m.%Y")
    (2.0, nan)
    """
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


def number_of(value: Any, what: str, *, dated: bool = False) -> float:
    """Return a number of a TOML file; where `dated`, the days to a date too.

    Raises
    ------
    InputError
        If it is something else; the message begins with `what`.
    """
    if dated and isinstance(value, date):  # TOML has dates of its own
        return days_of(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{what}, without quotes")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{what}, and finite") from error


def day_text(number: float) -> str:
    """Return the date that a number of days says; empty if it is out of the calendar.

    Examples
    --------
    >>> day_text(2.5)
    '1970-01-03'
    """
    try:
        return f"{_START + timedelta(days=number):%Y-%m-%d}"
    except (OverflowError, ValueError):
        return ""


def check_pattern(pattern: str) -> None:
    """Raise `InputError` unless a pattern such as %d.%m.%Y says a date, its year included."""
    good = "%Y" in pattern or "%y" in pattern
    if good:  # the error of a bad pattern may be one of the text that is parsed
        good = told_anew(
            lambda: datetime.strptime(_SAMPLE.strftime(pattern), pattern).year == _SAMPLE.year,
            ValueError,
            lambda _: _bad(pattern),
        )
    if not good:
        raise _bad(pattern)


def _bad(pattern: str) -> InputError:
    return InputError(
        f"date is {pattern!r}; say how dates are written, the year included, as in "
        '"%Y-%m-%d" for 2024-12-31 or "%d.%m.%Y" for 31.12.2024'
    )
