"""Terms of a formula in Wilkinson's notation: columns, categories against a reference, products."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.errors import InputError
from taciturn.features.feature_map import FeatureMap, Inputs, Variable
from taciturn.typing import HostArray

_CATEGORY = re.compile(
    r"C\((?:`(?P<quoted>[^`]+)`|(?P<plain>\w+))"
    r"(?:, *Treatment\((?:reference *= *)?(?P<q>[\"'])(?P<reference>.*)(?P=q)\))?\)"
)
_POWER = re.compile(r"[\w`] *(\*\*|\^)")
ALL = "."  # every column, without products


class Factor(NamedTuple):
    """A column in a term; `reference` is the value named in C(column, Treatment(value)), if any."""

    column: str
    reference: str | None


class Product(NamedTuple):
    """A feature: the product of entries of a row, by their places; () for the constant."""

    name: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class Formula(FeatureMap):
    r"""The terms of a formula, such as `age + C(sex) + age:sex`, and the constant.

    A number is a feature as it is encoded, in [-1, 1]; a category has a feature for each of its
    public values but the first, or but the one named in `C(column, Treatment("value"))`; a product
    `a:b` has the products of the features of both, and `a * b` means `a + b + a:b`. `.` stands for
    every column. Other functions are refused: many, such as splines and scaling, read the data.
    Every part of a product must be in the formula too, so that coefficients can be converted to the
    units of the columns, and that they mean the same with another reference.

    **Guarantee.** As for `FeatureMap`. A number is at most 1 in size, and of a category at most one
    feature is 1, the others being 0; so the features of a term have norm at most 1, and a row has
    norm at most the root of the number of terms, with 1 for the constant.
    """

    inputs: Inputs
    text: str

    def __post_init__(self) -> None:
        self.products  # noqa: B018 - checked

    @cached_property
    def terms(self) -> tuple[tuple[Factor, ...], ...]:
        """The terms but the constant, main effects first, then products in their order."""
        found = _parsed(self.text, [one.name for one in self.inputs.variables])
        known = {one.name: one for one in self.inputs.variables}
        references: dict[str, str] = {}
        for factor in itertools.chain.from_iterable(found):
            _check(factor, known)
            if factor.reference is not None:
                first = references.setdefault(factor.column, factor.reference)
                if first != factor.reference:
                    raise InputError(
                        f"the column {factor.column!r} has two references in the formula; name one"
                    )
        order = {name: place for place, name in enumerate(known)}
        terms = {
            frozenset(factor.column for factor in term): tuple(
                sorted(
                    {Factor(one.column, references.get(one.column)) for one in term},
                    key=lambda one: order[one.column],
                )
            )
            for term in found
        }
        for columns in terms:
            for left in columns:
                if len(columns) > 1 and columns - {left} not in terms:
                    lower = ":".join(sorted(columns - {left}, key=order.__getitem__))
                    raise InputError(
                        f"the formula has the product {':'.join(sorted(columns))!r} without "
                        f"{lower!r}; add that term"
                    )
        return tuple(
            sorted(terms.values(), key=lambda t: (len(t), [order[one.column] for one in t]))
        )

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """The features, the constant last."""
        known = {one.name: one for one in self.inputs.variables}
        found = [
            Product(":".join(one.name for one in chosen), sum((one.places for one in chosen), ()))
            for term in self.terms
            for chosen in itertools.product(*(_of(factor, known) for factor in term))
        ]
        constant = self.inputs.constant
        if constant is None:
            raise InputError("these records have no constant column, which a formula needs")
        return (*found, Product(self.inputs.names[constant], (constant,)))

    @property
    @override
    def columns(self) -> int:
        return len(self.products)

    @property
    @override
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.products)

    @property
    @override
    def record_norm(self) -> float:
        return math.sqrt(1 + len(self.terms))

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        found = np.empty((len(rows), self.columns))
        for place, product in enumerate(self.products):
            found[:, place] = rows[:, product.places[0]]
            for other in product.places[1:]:
                found[:, place] *= rows[:, other]
        return found


def _of(factor: Factor, known: dict[str, Variable]) -> Iterator[Product]:
    """Return the features of a column: its number, or its values but the reference."""
    variable = known[factor.column]
    if variable.values is None:
        yield Product(variable.name, (variable.first,))
        return
    reference = variable.values[0] if factor.reference is None else factor.reference
    for place, value in enumerate(variable.values):
        if value != reference:
            yield Product(f"{variable.name}={value}", (variable.first + place,))


def _check(factor: Factor, known: dict[str, Variable]) -> None:
    variable = known.get(factor.column)
    if variable is None:
        raise InputError(
            f"the formula names {factor.column[:100]!r}, which is no column of the bounds file; "
            f"choose from {', '.join(known)} (names with spaces in backquotes)"
        )
    if not variable.plain:
        raise InputError(
            f"the column {variable.name!r} has bins, a centre, a weight, shares or an indicator of "
            "missing cells, which a formula does not know; take these out of the bounds file"
        )
    if factor.reference is not None and factor.reference not in (variable.values or ()):
        raise InputError(
            f"the reference {factor.reference[:100]!r} is no value of {variable.name!r} in the "
            "bounds file; name one of its values"
        )


def _parsed(text: str, columns: Sequence[str]) -> list[list[Factor]]:
    """Return the factors of every term but the constant."""
    # imported here, since few commands need it
    from formulaic.errors import FormulaParsingError, FormulaSyntaxError  # noqa: PLC0415
    from formulaic.parser import DefaultFormulaParser  # noqa: PLC0415

    if _POWER.search(text):
        raise InputError(
            "in a formula a power of a column is the column itself; make its square beforehand as "
            "a column of its own, or write (a + b)**2 for products"
        )
    given: Any = {"__formulaic_variables_available__": list(columns)}
    try:
        terms: Any = DefaultFormulaParser().get_terms(text, context=given)
    except (FormulaParsingError, FormulaSyntaxError, SyntaxError, ValueError) as error:
        reason = str(error).split("\n")[0][:200]
        raise InputError(f"the formula {text[:200]!r} is not understood: {reason}") from None
    if not hasattr(terms, "root") or isinstance(terms.root, tuple):
        raise InputError(f"the formula {text[:200]!r} must have one side here; leave the other out")
    found, constant = [], False
    for term in terms:
        factors = [_factor(one.expr, one.eval_method.value) for one in term.factors]
        constant |= factors == [None]
        if factors != [None]:
            found.append([one for one in factors if one is not None])
    if not constant:
        raise InputError("a formula without the constant is not fitted here; take out 0 or -1")
    return found


def _factor(text: str, kind: str) -> Factor | None:
    """Return a column or C(column) of a term; None for the constant 1."""
    if kind == "lookup":
        return Factor(text, None)
    if kind == "literal" and text == "1":
        return None
    category = _CATEGORY.fullmatch(text)
    if category is not None:
        return Factor(category["quoted"] or category["plain"], category["reference"])
    function = re.match(r"([\w.]+)\(", text)
    if function is not None:
        raise InputError(
            f"the formula has the function {function[1]}; only C(column) and C(column, "
            'Treatment("value")) are known, since others may read the data: make the column '
            'beforehand, from public constants, or give it scale = "log" in the bounds file'
        )
    raise InputError(
        f"the formula has {text[:100]!r}; write columns, C(column), and their products a:b and a*b"
    )
