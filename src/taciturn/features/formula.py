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
from jaxtyping import Bool, Float, Num
from typing_extensions import override

from taciturn.errors import InputError
from taciturn.features.feature_map import MISSING, FeatureMap, Inputs, Variable
from taciturn.problems import survival_target
from taciturn.typing import HostArray

_CATEGORY = re.compile(
    r"C\((?:`(?P<quoted>[^`]+)`|(?P<plain>\w+))"
    r"(?:, *Treatment\((?:reference *= *)?(?P<q>[\"'])(?P<reference>.*)(?P=q)\))?\)"
)
_NAME = r"(?:`(?P<quoted>[^`]+)`|(?P<plain>[\w.]+))"
_OFFSET = re.compile(rf"offset\((?P<log>log\()?{_NAME}\)?\)")
_SURVIVAL = re.compile(r"Surv\((?P<inside>.*)\)")
_EVENT = re.compile(rf"{_NAME}(?: *==? *(?P<q>[\"']?)(?P<value>.*)(?P=q))?")
_POWER = re.compile(r"[\w`] *(\*\*|\^)")
_LARGE_POWER = re.compile(r"(\*\*|\^) *\(* *(?![1-5]\b)")
_MOST_PRODUCTS = 200
ALL = "."  # every column, without products


class Factor(NamedTuple):
    """A column in a term; `reference` is the value named in C(column, Treatment(value)), if any."""

    column: str
    reference: str | None


class Response(NamedTuple):
    """The response `Surv(time, event)` or `Surv(entry, time, event == "value")`.

    `value`: that of an event; None for the second of two categories, or 1.
    """

    entry: str | None
    time: str
    event: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> Response | None:
        """Return the response in the left side of a formula; None if it is a single column.

        Examples
        --------
        >>> Response.parse('Surv(days, status == "dead")')
        Response(entry=None, time='days', event='status', value='dead')
        """
        found = _SURVIVAL.fullmatch(text.strip())
        if found is None:
            return None
        parts = [one.strip() for one in found["inside"].split(",")]
        event = _EVENT.fullmatch(parts[-1])
        if len(parts) not in (2, 3) or event is None or "" in parts:
            raise InputError(
                f"the response {text[:100]!r} is not understood; write Surv(time, event), "
                'Surv(entry, time, event), or Surv(time, event == "value")'
            )
        times = [one.removeprefix("`").removesuffix("`") for one in parts[:-1]]
        return cls(
            times[0] if len(times) > 1 else None, times[-1], event["quoted"] or event["plain"],
            event["value"],
        )  # fmt: skip

    @property
    def others(self) -> tuple[str, ...]:
        """Its columns besides the time."""
        return (self.event,) if self.entry is None else (self.event, self.entry)


class Product(NamedTuple):
    """A feature: the product of entries of a row, by their places; () for the constant."""

    name: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class Formula(FeatureMap):
    r"""The terms of a formula, such as `age + C(sex) + age:sex`, and the constant.

    A number is a feature as it is encoded, in [-1, 1], followed by the indicator of missing cells
    if the bounds file has one; a category has a feature for each of its public values but the
    first, or but the one named in `C(column, Treatment("value"))`; a product
    `a:b` has the products of the features of both, and `a * b` means `a + b + a:b`. `.` stands for
    every column. Other functions are refused: many, such as splines and scaling, read the data.
    Every part of a product must be in the formula too, so that coefficients can be converted to the
    units of the columns, and that they mean the same with another reference. `offset(a)` is a
    feature whose coefficient is 1 per unit, `offset(log(a))` of a column with the scale "log".

    `Surv(time, event) ~ age` has a survival time as response (`Response`): the targets of records
    are those of `taciturn.problems.survival_target`, from the target of the table, the time, and
    the columns of entry and event, which are then not among the terms.

    **Guarantee.** As for `FeatureMap`. The features of a column are some of its entries, whose norm
    is at most the root of `Variable.square`, and the norm of products of entries of several columns
    is the product of the norms; so a row's square is at most 1, for the constant, and a product of
    squares for every term.
    """

    inputs: Inputs
    text: str

    def __post_init__(self) -> None:
        if self._sides[0] and self.response is None:
            raise InputError(
                f"the formula {self.text[:200]!r} must have one side here, or Surv(...)"
            )
        self.products  # noqa: B018 - checked
        if self.response is not None:
            self._check_response(self.response)

    @cached_property
    def _sides(self) -> tuple[str, str]:
        left, tilde, right = self.text.partition("~")
        return (left.strip(), right.strip()) if tilde else ("", left.strip())

    @cached_property
    def response(self) -> Response | None:
        """The survival time that is the response; None if it is the target itself."""
        return Response.parse(self._sides[0])

    @cached_property
    def _known(self) -> dict[str, Variable]:
        """The columns that terms may name."""
        kept = () if self.response is None else self.response.others
        return {one.name: one for one in self.inputs.variables if one.name not in kept}

    def _check_response(self, response: Response) -> None:
        known, time = {one.name: one for one in self.inputs.variables}, self.inputs.target
        if time is None or time.name != response.time or time.ends[0] != 0:
            raise InputError(
                f"the time {response.time[:100]!r} must be the target of the bounds file, a number "
                "with a min of 0"
            )
        for name in response.others:
            if name not in known or not known[name].plain or known[name].missing:
                raise InputError(
                    f"the response names {name[:100]!r}; describe it as a column of the bounds "
                    "file, without bins, centre, weight, scale or missing cells"
                )
        if response.entry is not None and known[response.entry].values is not None:
            raise InputError(f"the entry {response.entry[:100]!r} must be a number")
        event = known[response.event]
        if event.values is None:
            wanted, ends = _number(response.value), event.ends
            by_default = response.value is not None or ends == (0.0, 1.0)
            inside = wanted is not None and ends[0] <= wanted <= ends[1]
            if not inside or not by_default or event.scale != "linear":
                raise InputError(
                    f"the event {event.name!r} is a number from {ends[0]:g} to {ends[1]:g}; say "
                    f"which one is an event: {event.name} == {ends[1]:g}"
                )
        elif response.value not in {*event.values, *([None] if len(event.values) == 2 else [])}:
            raise InputError(
                f"the event {event.name!r} must be one of its values in the bounds file: write "
                f'{event.name} == "{event.values[-1]}"'
            )

    @property
    def event_value(self) -> str:
        """The value of the column of events that is one."""
        assert self.response is not None
        known = {one.name: one for one in self.inputs.variables}
        values, value = known[self.response.event].values, self.response.value
        return value or ("1" if values is None else values[1])

    @override
    def respond(
        self, rows: Float[HostArray, "N D"], targets: Num[HostArray, "N"]
    ) -> Num[HostArray, "N"]:
        response, time = self.response, self.inputs.target
        if response is None or time is None:
            return targets
        known = {one.name: one for one in self.inputs.variables}
        longest, entry = time.zero + time.unit, np.zeros(len(rows))
        if response.entry is not None:
            column = known[response.entry]
            entry = (column.zero + column.unit * rows[:, column.first]) / longest
        leaving = (time.zero + time.unit * targets) / longest
        return survival_target(entry, leaving, self._died(known[response.event], rows))

    def _died(self, event: Variable, rows: HostArray) -> Bool[HostArray, "N"]:
        assert self.response is not None
        if event.values is None:
            numbers = event.zero + event.unit * rows[:, event.first]
            wanted = _number(self.response.value)
            assert wanted is not None
            near: HostArray = np.abs(numbers - wanted) <= 1e-9 * max(event.unit, abs(event.zero))
            return near
        place = event.first + event.values.index(self.event_value)
        died: HostArray = rows[:, place] > 0.5
        return died

    @cached_property
    def terms(self) -> tuple[tuple[Factor, ...], ...]:
        """The terms but the constant, main effects first, then products in their order."""
        known = self._known
        found, _ = _parsed(self._sides[1], list(known))
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
        known = self._known
        found = [
            Product(":".join(one.name for one in chosen), sum((one.places for one in chosen), ()))
            for term in self.terms
            for chosen in itertools.product(*(_of(factor, known) for factor in term))
        ]
        constant = self.inputs.constant
        if constant is None:
            raise InputError("these records have no constant column, which a formula needs")
        offsets = [Product(f"offset({one.name})", (one.first,)) for one in self.offsets]
        return (*found, *offsets, Product(self.inputs.names[constant], (constant,)))

    @cached_property
    def offsets(self) -> tuple[Variable, ...]:
        """The columns with a given coefficient."""
        _, found = _parsed(self._sides[1], list(self._known))
        for name, log in found:
            _check(Factor(name, None), self._known)
            column = self._known[name]
            if column.values is not None or column.missing:
                raise InputError(
                    f"the offset {name!r} must be a number in every row; it is a category, or its "
                    "cells may be missing"
                )
            if (column.scale == "log") != log:
                raise InputError(
                    f"the offset of {name!r} must be a number: write offset({name}), or, for a "
                    f'column with scale = "log" in the bounds file, offset(log({name}))'
                )
        return tuple(self._known[name] for name, _ in found)

    @property
    @override
    def fixed(self) -> tuple[tuple[int, float], ...]:
        first = len(self.products) - 1 - len(self.offsets)
        return tuple((first + k, one.unit) for k, one in enumerate(self.offsets))

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
        known = self._known
        squares = (math.prod(known[one.column].square for one in term) for term in self.terms)
        return math.sqrt(1 + math.fsum(squares) + len(self.offsets))

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
        if variable.indicator:
            yield Product(f"{variable.name}={MISSING}", (variable.first + 1,))
        return
    reference = variable.values[0] if factor.reference is None else factor.reference
    for place, value in enumerate(variable.values):
        if value != reference:
            yield Product(f"{variable.name}={value or MISSING}", (variable.first + place,))


def _check(factor: Factor, known: dict[str, Variable]) -> None:
    variable = known.get(factor.column)
    if variable is None:
        raise InputError(
            f"the formula names {factor.column[:100]!r}, which is no column of the bounds file; "
            f"choose from {', '.join(known)} (names with spaces in backquotes)"
        )
    if not variable.plain:
        raise InputError(
            f"the column {variable.name!r} has bins, a weight, or a centre of its values, which a "
            "formula does not know; take these out of the bounds file"
        )
    if factor.reference is not None and factor.reference not in (variable.values or ()):
        raise InputError(
            f"the reference {factor.reference[:100]!r} is no value of {variable.name!r} in the "
            "bounds file; name one of its values"
        )


def _number(text: str | None) -> float | None:
    """Return the number in a text, 1 for None; None if there is none."""
    try:
        return 1.0 if text is None else float(text)
    except ValueError:
        return None


def _check_size(text: str) -> None:
    """Raise `InputError` for powers of a column, and for products that never end."""
    if _POWER.search(text):
        raise InputError(
            "in a formula a power of a column is the column itself; make its square beforehand as "
            "a column of its own, or write (a + b)**2 for products"
        )
    if _LARGE_POWER.search(text) or text.count(":") > _MOST_PRODUCTS:
        raise InputError(
            "the formula has products of too many columns; write products of at most 5, as in "
            "(a + b + c)**2"
        )


def _parsed(text: str, columns: Sequence[str]) -> tuple[list[list[Factor]], list[tuple[str, bool]]]:
    """Return the factors of every term but the constant, and offsets: a column, and if its log."""
    # imported here, since few commands need it
    from formulaic.errors import FormulaParsingError, FormulaSyntaxError  # noqa: PLC0415
    from formulaic.parser import DefaultFormulaParser  # noqa: PLC0415

    _check_size(text)
    given: Any = {"__formulaic_variables_available__": list(columns)}
    try:
        terms: Any = DefaultFormulaParser().get_terms(text, context=given)
    except (FormulaParsingError, FormulaSyntaxError, SyntaxError, ValueError) as error:
        reason = str(error).split("\n")[0][:200]
        raise InputError(f"the formula {text[:200]!r} is not understood: {reason}") from None
    if not hasattr(terms, "root") or isinstance(terms.root, tuple):
        raise InputError(f"the formula {text[:200]!r} must have one side here; leave the other out")
    found, offsets, constant = [], [], False
    for term in terms:
        given_by = [_OFFSET.fullmatch(one.expr) for one in term.factors]
        if given_by and given_by[0] is not None and len(given_by) == 1:
            one = given_by[0]
            offsets.append((one["quoted"] or one["plain"], one["log"] is not None))
            continue
        factors = [_factor(one.expr, one.eval_method.value) for one in term.factors]
        constant |= factors == [None]
        if factors != [None]:
            found.append([one for one in factors if one is not None])
    if not constant:
        raise InputError("a formula without the constant is not fitted here; take out 0 or -1")
    return found, offsets


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
