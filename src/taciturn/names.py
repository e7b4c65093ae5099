"""Relations and observers by name, as in options, proposals, accounts and certificates."""

from __future__ import annotations

from typing import Any

from taciturn.errors import InputError
from taciturn.kernel.privacy import Messages, Observer, Relation, ReplaceOne, Sum, ZeroOut


def relation_named(name: str) -> Relation:
    """Return the relation called `name`: "replace_one" or "zero_out".

    Raises `InputError` for any other name. `BoundedChange` and `TargetChange` need a beta:
    construct them directly.
    """
    more = " (or construct BoundedChange(beta) or TargetChange(beta))"
    relation: Relation = _named("relation", name, (ReplaceOne(), ZeroOut()), more)
    return relation


def observer_named(name: str) -> Observer:
    """Return the observer called `name`: "messages", or "sum" with one colluder.

    Raises `InputError` for any other name.
    """
    observer: Observer = _named("observer", name, (Messages(), Sum()))
    return observer


def _named(what: str, name: str, known: tuple[Any, ...], more: str = "") -> Any:
    """Return the object of that name, or raise an `InputError` that lists the names."""
    by_name = {one.name: one for one in known}
    if name not in by_name:
        raise InputError(f"{what} is {name!r}; it must be one of {', '.join(by_name)}{more}")
    return by_name[name]
