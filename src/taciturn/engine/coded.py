"""Questions as text and back: classes of the library by name, their fields, and no code."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import equinox as eqx
import jax
import numpy as np

from taciturn.errors import InputError

_NUMBERS = ("bool", "float32", "float64", "int32", "int64")
_ROOMS = ("taciturn.kernel.questions.", "taciturn.problems.")


def coded(value: Any) -> Any:
    """Return a question, or a part of one, as JSON-safe values; `InputError` if it is not ours."""
    if isinstance(value, eqx.Module):
        kind = type(value)
        _class_named(kind.__module__, kind.__name__)
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {
            "class": [kind.__module__, kind.__name__],
            "fields": {name: coded(getattr(value, name)) for name in fields},
        }
    if isinstance(value, tuple):
        return {"tuple": [coded(part) for part in value]}
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return {"array": np.asarray(value).tolist(), "type": str(value.dtype)}
    return value


def decoded(value: Any) -> Any:
    """Return what was coded; `InputError` unless every class is one of the library's.

    Each is made as by a caller, so that it checks what it is given.
    """
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(decoded(part) for part in value["tuple"])
    if "array" in value:
        if value["type"] not in _NUMBERS:
            raise InputError("a question holds an array of something else than numbers")
        return np.array(value["array"], value["type"])
    fields = {str(name): decoded(part) for name, part in value["fields"].items()}
    return _class_named(*value["class"])(**fields)


def _class_named(module: str, name: str) -> type[eqx.Module]:
    found = getattr(sys.modules.get(module), name, None) if module.startswith(_ROOMS) else None
    if not (isinstance(found, type) and issubclass(found, eqx.Module)):
        raise InputError(
            f"{name} is no class of the library; a method in a process of its own asks the "
            "library's questions, about losses of the library"
        )
    return found
