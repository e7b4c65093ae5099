"""On whose word the bound of a question rests, where it is not proved in this library."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from taciturn.errors import InputError
from taciturn.problems import Loss
from taciturn.typing import Array


def from_library(kind: type) -> bool:
    """Return whether a class is one of this library's own.

    It must be what its module of `taciturn` has under its name, and all that it defines must have
    been written in this library: a subclass of a class of the library, one that was put in its
    place, and one of which a method was replaced, as in a notebook, are somebody else's.

    Examples
    --------
    >>> from_library(Loss), from_library(type("Loss", (Loss,), {}))
    (True, False)
    """
    module = kind.__module__
    if module.partition(".")[0] != "taciturn":
        return False
    found: Any = sys.modules.get(module)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    ours = (base for base in kind.__mro__ if base.__module__.partition(".")[0] == "taciturn")
    return found is kind and all(
        _written_here(name, value) for base in ours for name, value in vars(base).items()
    )


_HERE = str(Path(__file__).parents[1])
_GENERATED = ("<string>", dataclasses.__file__)  # what data classes write, under special names


def _written_here(name: str, value: Any) -> bool:
    """Return whether an attribute of a class is no function, or one of this library's files."""
    if isinstance(value, type):
        return from_library(value)
    if not callable(value) and not isinstance(value, property | classmethod | staticmethod):
        return True
    function: Any = value.fget if isinstance(value, property) else value
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None:
        return False
    generated = name.startswith("__") and code.co_filename in _GENERATED
    return generated or code.co_filename.startswith(_HERE)


def check_of_library(*parts: object) -> None:
    """Raise `InputError` unless an accountant knows the class of every part: the library's."""
    for part in parts:
        if part is not None and not from_library(type(part)):
            raise InputError(
                f"{name_of_class(type(part))} is your own class, or changed, and no accountant "
                f"knows what it says; give a {type(part).__mro__[1].__name__} of taciturn"
            )


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
