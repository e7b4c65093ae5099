"""Validators that a NaN cannot slip through: every test is written as `not (good)`."""

from __future__ import annotations

import math
from typing import Any

from tacit.errors import InputError


def positive(name: str, value: float, *, allow_infinity: bool = False) -> float:
    """Return `value` as a float if it is above zero (and finite, unless infinity is allowed).

    Raises
    ------
    InputError
        If it is zero, negative, NaN, or infinite where that is not allowed.

    Examples
    --------
    >>> positive("epsilon", 2)
    2.0
    """
    value = _number(name, value)
    if not value > 0:
        raise InputError(f"{name} is {value:g}; it must be above 0")
    if math.isinf(value) and not allow_infinity:
        raise InputError(f"{name} is infinite; it must be a finite number")
    return value


def not_negative(name: str, value: float, *, allow_infinity: bool = False) -> float:
    """Return `value` as a float if it is zero or more, else raise `InputError`."""
    value = _number(name, value)
    if not value >= 0:
        raise InputError(f"{name} is {value:g}; it must be 0 or more")
    if math.isinf(value) and not allow_infinity:
        raise InputError(f"{name} is infinite; it must be a finite number")
    return value


def delta(value: float) -> float:
    """Return `value` as a float if 0 < value < 1, else raise `InputError`."""
    value = _number("delta", value)
    if not 0 < value < 1:
        raise InputError(f"delta is {value:g}; it must be above 0 and below 1, for example 1e-5")
    return value


def fraction(name: str, value: float) -> float:
    """Return `value` as a float if 0 < value <= 1, else raise `InputError`."""
    value = _number(name, value)
    if not 0 < value <= 1:
        raise InputError(f"{name} is {value:g}; it must be above 0 and at most 1")
    return value


def at_least(name: str, value: int, least: int) -> int:
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
