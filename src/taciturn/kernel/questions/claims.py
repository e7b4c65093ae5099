"""Detection of custom code: bounds that are claims of their authors, and custom losses."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np
from jaxtyping import Float

from taciturn.errors import InputError
from taciturn.kernel.questions.loss import Loss, clip_coefficient
from taciturn.typing import Array

_OURS = __name__.partition(".")[0]


def from_library(kind: type) -> bool:
    """Return whether a class is this library's, and unmodified.

    It must be found under its name in its module of `taciturn`, and all of its attributes must be
    defined in this library: a subclass, a replacement, and a class with a replaced method, as in a
    notebook, are custom.

    Examples
    --------
    >>> from_library(Loss), from_library(type("Loss", (Loss,), {}))
    (True, False)
    """
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == _OURS]
    return (
        kind in ours
        and found is kind
        and all(_written_here(value) for base in ours for value in vars(base).values())
    )


def _written_here(value: Any) -> bool:
    """Return whether an attribute of a class is either not a function or one of this library.

    All wrappers of a function must be known, too: an unknown one may do anything.
    """
    if isinstance(value, type):
        return from_library(value)
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    elif isinstance(value, classmethod | staticmethod):
        value = value.__func__
    if not callable(value):  # descriptors, which compute without a call, must be built in, as slots
        kind = type(value)
        return not hasattr(kind, "__get__") or kind.__module__ in ("builtins", "_collections")
    while hasattr(value, "__wrapped__"):
        if not (isinstance(value, _COMPILED) or _room(value) in (*_ROOMS, *_CHECKERS)):
            return False
        value = value.__wrapped__
    return _room(value) in _ROOMS


# packages whose functions (data classes generate some) and whose type-checking wrappers are known
_ROOMS, _CHECKERS = (_OURS, "dataclasses"), ("jaxtyping", "beartype")
_COMPILED = type(jax.jit(lambda: None))


def _room(function: Any) -> str:
    """Return the package in which a function was written; "" if it is not Python."""
    module: str = getattr(function, "__globals__", {}).get("__name__", "")
    return module.partition(".")[0]


def check_of_library(*parts: object) -> None:
    """Raise `InputError` unless the class of every part is the library's, known to accountants."""
    for part in parts:
        if part is not None and not from_library(type(part)):
            raise InputError(
                f"{name_of_class(type(part))} is your own class, or changed, and no accountant "
                f"knows it; give a {type(part).__mro__[1].__name__} of taciturn"
            )


def name_of_class(kind: type) -> str:
    """Return `module:Class`, as on the command line."""
    return f"{kind.__module__}:{kind.__qualname__}"


def custom_classes(module: Any, *, losses: bool = True) -> tuple[type, ...]:
    """Return the classes of an object and all of its parts that are not the library's.

    Parts are all values but numbers, texts and arrays, and include attributes that shadow those of
    the class. Without `losses` fields called `loss` are left out: the field decides, since a class
    may be a loss and something else as well.
    """
    kinds = dict.fromkeys(type(part) for part in _parts(module, losses))
    return tuple(kind for kind in kinds if not from_library(kind))


def _parts(value: Any, losses: bool) -> Iterator[Any]:
    if value is None or _is_number(value) or _is_plain_function(value):
        return
    if type(value) is dict:
        value = [*value.keys(), *value.values()]
    if type(value) not in (tuple, list):
        yield value
        value = _attributes(value, losses)
    for part in value:
        yield from _parts(part, losses)


_PLAIN = (bool, int, float, complex, str, bytes, np.ndarray)


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, a text or an array, and of no custom subclass."""
    of_numpy = isinstance(value, np.generic | np.dtype) and type(value).__module__ == "numpy"
    return type(value) in _PLAIN or of_numpy or isinstance(value, jax.Array)


def _is_plain_function(value: Any) -> bool:
    """Return whether a value is a function or a class of this library."""
    return isinstance(value, type | FunctionType) and _written_here(value)


def _attributes(value: Any, losses: bool) -> list[Any]:
    """Return the fields of a data class instance, and attributes that shadow its class."""
    if not is_dataclass(value):
        return []
    fields, kind = [field.name for field in dataclasses.fields(value)], type(value)
    kept = [name for name in fields if losses or name != "loss"]
    for name in getattr(value, "__dict__", ()):
        found = getattr(kind, name, None)
        if name not in fields and found is not None:
            kept += [] if isinstance(found, functools.cached_property) else [name]
    return [getattr(value, name) for name in kept]


def coefficients(
    loss: Loss, margins: Float[Array, "M *K"], targets: Array, bound: float, *, alone: bool = False
) -> Float[Array, "M *K"]:
    """Return every record's coefficient loss'(z_j, y_j), clipped to the norm `bound`.

    Raises `InputError` for a loss that calls the host, or any operation that is not arithmetic.

    **Guarantee.** A record's coefficient is a function of its margins and target alone, for any
    loss: a custom one is traced on a single record, its operations are checked and then mapped over
    records, so that it can neither combine two records nor remember one. Values that are not finite
    count as 0, and clipping comes last (`clip_coefficient`). In a gathered batch of a neighbouring
    data set a record may be in another slot, where vectorised code could give other last bits, and
    a loss with jumps another coefficient: with `alone` the same scalar code computes each, one
    after another. (Losses of the library are smooth: `taciturn.kernel.records.grid.gathering_slack`
    bounds this effect.)
    """
    if not custom_classes(loss):
        return clip_coefficient(loss.coefficient(margins, targets), bound)

    def one(margin: Array, target: Array) -> Array:
        return loss.coefficient(margin[None], target[None])[0]

    traced = jax.make_jaxpr(one)(*jax.eval_shape(lambda: (margins[0], targets[0])))
    other = foreign_operation(traced.jaxpr)
    if other is None and any(isinstance(value, jax.core.Tracer) for value in traced.consts):
        other = "a value of the computation around it"
    if other is not None:
        raise InputError(
            f"{name_of_class(type(loss))} uses {other}, by which a record's coefficient could "
            "depend on other records; compute it by functions of jax.numpy alone"
        )

    def of_record(record: tuple[Array, Array]) -> Array:
        found: Array = jex.jaxpr_as_fun(traced)(*record)[0]
        return found

    records = (margins, targets)
    found = jax.lax.map(of_record, records) if alone else jax.vmap(of_record)(records)
    return clip_coefficient(found, bound)


# parts of the names of operations that pass values elsewhere, or see every mapped element
_NO_ARITHMETIC = ("callback", "custom_call", "ffi", "custom_vmap", "custom_partitioning")


def _of_jax() -> frozenset[int]:
    """Return the identities of JAX's operations.

    A custom operation has a custom batching rule, which sees all records.
    """
    modules = [one for name, one in list(sys.modules.items()) if name.partition(".")[0] == "jax"]
    values = (value for one in modules for value in list(vars(one).values()))
    return frozenset(id(value) for value in values if isinstance(value, jex.Primitive))


def foreign_operation(jaxpr: Any, known: frozenset[int] | None = None) -> str | None:
    """Return the name of an operation that does more than compute with its operands, or None."""
    known = _of_jax() if known is None else known
    for equation in jaxpr.eqns:
        name, ours = equation.primitive.name, id(equation.primitive) in known
        if equation.effects or not ours or any(part in name for part in _NO_ARITHMETIC):
            return str(name)
        for value in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(value, "jaxpr", value)
            found = foreign_operation(inner, known) if hasattr(inner, "eqns") else None
            if found is not None:
                return found
    return None
