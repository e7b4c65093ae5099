"""Whether a function is affine in one of its arguments, decided by tracing it.

Every value is `CLEAN` (public), `AFFINE` (in the answer, with clean coefficients) or `TAINTED`.
Affine values follow from the answer by operations on a list of affine ones (sums, public multiples,
reshaping). Rounding, signs, comparisons, conversion to a shorter type and all other operations are
refused: a test by derivatives would miss them. Operations with effects, on references or on the
host, are refused anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from taciturn.kernel.questions import foreign_operation
from taciturn.typing import PyTree

Mark = Literal["clean", "affine", "tainted"]
CLEAN: Mark = "clean"
AFFINE: Mark = "affine"
TAINTED: Mark = "tainted"

_SUMS = frozenset({"add", "sub", "add_any", "neg", "reduce_sum", "concatenate", "copy"})
_SHAPES = frozenset(
    {"reshape", "broadcast_in_dim", "transpose", "squeeze", "expand_dims", "slice", "rev"}
)
_PRODUCTS = frozenset({"mul", "dot_general"})
_CALLS = frozenset({"pjit", "jit", "closed_call", "core_call"})


def has_no_effects(function: Callable[..., PyTree], arguments: tuple[PyTree, ...]) -> bool:
    """Return whether a function uses only JAX operations, without effects or references.

    Values written to a reference, or passed to the host, could be read elsewhere.
    """
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    return foreign_operation(jaxpr) is None and not jaxpr.effects and not _has_references(jaxpr)


def _has_references(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        variables = (*equation.invars, *equation.outvars)
        if any("Ref" in type(v.aval).__name__ for v in variables):
            return True
        inner = (getattr(value, "jaxpr", value) for value in jax.tree.leaves(equation.params))
        if any(_has_references(part) for part in inner if hasattr(part, "eqns")):
            return True
    return False


def marks_out(
    function: Callable[..., PyTree], arguments: tuple[PyTree, ...], marks: tuple[Mark, ...]
) -> list[Mark]:
    """Return the marks of the outputs of `function` when its arguments carry `marks`."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    leaves = [
        mark
        for argument, mark in zip(arguments, marks, strict=True)
        for _ in jax.tree.leaves(argument)
    ]
    return _walk(jaxpr, leaves)


def _walk(jaxpr: Any, inputs: Sequence[Mark]) -> list[Mark]:
    marks: dict[Any, Mark] = dict(zip(jaxpr.invars, inputs, strict=True))

    def mark_of(variable: Any) -> Mark:
        return CLEAN if isinstance(variable, jex.Literal) else marks.get(variable, CLEAN)

    for equation in jaxpr.eqns:
        results = _through(equation, [mark_of(v) for v in equation.invars])
        marks.update(zip(equation.outvars, results, strict=True))
    return [mark_of(v) for v in jaxpr.outvars]


def _through(equation: Any, marks: list[Mark]) -> list[Mark]:
    """Return the marks of one operation's outputs."""
    name, outputs = equation.primitive.name, len(equation.outvars)
    if set(marks) <= {CLEAN}:
        return [CLEAN] * outputs
    if name in _CALLS:
        return _walk(equation.params["jaxpr"].jaxpr, marks)
    if TAINTED in marks or not _keeps_affine(equation, name, marks):
        return [TAINTED] * outputs
    return [AFFINE] * outputs


def _keeps_affine(equation: Any, name: str, marks: list[Mark]) -> bool:
    if name in _SUMS or name in _SHAPES:
        # further operands of a reshaping are positions, which must be public
        return name in _SUMS or AFFINE not in marks[1:]
    if name in _PRODUCTS:
        return marks.count(AFFINE) == 1
    if name == "div":
        return marks == [AFFINE, CLEAN]
    if name == "select_n":  # the selector must be public
        return marks[0] == CLEAN
    if name == "convert_element_type":  # only to a type that holds all values of the old one
        old, new = equation.invars[0].aval.dtype, equation.params["new_dtype"]
        floating = jnp.issubdtype(old, jnp.floating) and jnp.issubdtype(new, jnp.floating)
        return floating and jnp.promote_types(old, new) == new
    return False
