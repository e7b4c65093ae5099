"""Validators that reject NaN: every test is written as `not (good)`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from taciturn.errors import InputError

T = TypeVar("T")
NO_DELTA = 1e-9  # the delta of certificates without privacy, which must state one


def readable(file: Path, what: str) -> None:
    """Raise `InputError` unless a file can be opened.

    Examples
    --------
    >>> readable(Path("nowhere.toml"), "the bounds file nowhere.toml")
    Traceback (most recent call last):
    taciturn.errors.InputError: the bounds file nowhere.toml cannot be read (No such file or
    directory)
    """
    try:
        file.open("rb").close()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{what} cannot be read ({reason})") from error


def positive(name: str, value: Any, *, allow_infinity: bool = False) -> float:
    """Return `value` as a float if it is above zero (and finite, unless infinity is allowed).

    Raises `InputError` if not.

    Examples
    --------
    >>> positive("epsilon", 2)
    2.0
    """
    number = _number(name, value)
    if not number > 0:
        raise InputError(f"{name} is {number:g}; it must be above 0")
    if math.isinf(number) and not allow_infinity:
        raise InputError(f"{name} is infinite; it must be a finite number")
    return number


def not_negative(name: str, value: Any, *, allow_infinity: bool = False) -> float:
    """Return `value` as a float if it is zero or more, else raise `InputError`."""
    number = _number(name, value)
    if not number >= 0:
        raise InputError(f"{name} is {number:g}; it must be 0 or more")
    if math.isinf(number) and not allow_infinity:
        raise InputError(f"{name} is infinite; it must be a finite number")
    return number


def delta(value: Any) -> float:
    """Return `value` as a float if 0 < value < 1, else raise `InputError`."""
    number = _number("delta", value)
    if not 0 < number < 1:
        raise InputError(f"delta is {number:g}; it must be above 0 and below 1, for example 1e-5")
    return number


def delta_for(epsilon: float, value: Any) -> float:
    """Return `delta(value)`; it may be None where epsilon is infinite."""
    return NO_DELTA if value is None and math.isinf(epsilon) else delta(value)


def fraction(name: str, value: Any) -> float:
    """Return `value` as a float if 0 < value <= 1, else raise `InputError`."""
    number = _number(name, value)
    if not 0 < number <= 1:
        raise InputError(f"{name} is {number:g}; it must be above 0 and at most 1")
    return number


def below_one(name: str, value: Any) -> float:
    """Return `value` as a float if 0 <= value < 1, else raise `InputError`."""
    number = _number(name, value)
    if not 0 <= number < 1:
        raise InputError(f"{name} is {number:g}; it must be 0 or more and below 1")
    return number


def at_least(name: str, value: Any, least: int) -> int:
    """Return `value` as an int if it is a whole number of at least `least`, else raise."""
    number = _number(name, value)
    if isinstance(value, bool) or not math.isfinite(number) or int(value) != value:
        raise InputError(f"{name} is {value}; it must be a whole number")
    if not value >= least:
        raise InputError(f"{name} is {value}; it must be at least {least}")
    return int(value)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} is {value!r}; it must be a number") from error


def instance(name: str, value: object, kind: type[T], fix: str) -> T:
    """Return `value` if it is of this kind, else raise; the error quotes identifiers only.

    Examples
    --------
    >>> instance("rounds", 3, int, "give a whole number")
    3
    """
    if not isinstance(value, kind):
        word = isinstance(value, str) and value.isidentifier()
        given = repr(value) if word else f"a {type(value).__name__}"
        raise InputError(f"{name} is {given} and not a {kind.__name__}; {fix}")
    return value


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]
