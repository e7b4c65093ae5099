"""The options of a method that an estimator was given."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from tacit.algorithms import METHODS
from tacit.errors import InputError


def options_of(estimator: Any, fields: AbstractSet[str]) -> dict[str, Any]:
    """Return the options of the method by name; None for fields that were not given.

    They are `estimator.options`, and those of `fields` that have the name of an option in
    `METHODS`.

    Raises
    ------
    InputError
        If an option is given both ways.
    """
    known = {one.name for method in METHODS.values() for one in method.options}
    given = dict(estimator.options or {})
    twice = sorted(name for name in fields & set(given) if getattr(estimator, name) is not None)
    if twice:
        raise InputError(f"{twice[0]} is given twice, by itself and in options; give it once")
    return {name: getattr(estimator, name) for name in sorted(fields & known)} | given
