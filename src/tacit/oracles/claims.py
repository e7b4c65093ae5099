"""On whose word the bound of a question rests, where it is not proved in this library."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax

from tacit.problems import Loss
from tacit.typing import Array


def from_library(kind: type) -> bool:
    """Return whether a class is one of this library's own.

    It must be what its module of `tacit` has under its name: a subclass of a class of the library,
    or one that was put in its place, is somebody else's.

    Examples
    --------
    >>> from_library(Loss), from_library(type("Loss", (Loss,), {}))
    (True, False)
    """
    module = kind.__module__
    if module.partition(".")[0] != "tacit":
        return False
    found: Any = sys.modules.get(module)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


def name_of_class(kind: type) -> str:
    """Return `module:Class`, as one would name it on the command line."""
    return f"{kind.__module__}:{kind.__qualname__}"


def own_parts(module: eqx.Module) -> tuple[type, ...]:
    """Return the classes, of a module and of all that it holds, that are not the library's."""
    kinds = dict.fromkeys(type(part) for part in _parts(module))
    return tuple(kind for kind in kinds if not from_library(kind))


def _parts(value: Any) -> Iterator[eqx.Module]:
    if isinstance(value, eqx.Module):
        yield value
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _parts(part)
    elif isinstance(value, dict):
        yield from _parts(list(value.values()))


def coefficients(loss: Loss, margins: Array, targets: Array) -> Array:
    """Return the coefficient of every record.

    **Guarantee.** That of a record is a function of its own margins and target: a loss that is not
    the library's is mapped over single records, so that it cannot see two of them together.
    """
    if not own_parts(loss):
        return loss.coefficient(margins, targets)

    def one(margin: Array, target: Array) -> Array:
        return loss.coefficient(margin[None], target[None])[0]

    found: Array = jax.vmap(one)(margins, targets)
    return found
