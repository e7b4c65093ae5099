"""Terms of a formula in Wilkinson's notation: columns, categories against a reference, products."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
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
    """A column in a term.

    - `reference`: The value named in C(column, Treatment(value)), if any.
    - `category`: Whether the formula says C(column).
    """

    column: str
    reference: str | None
    category: bool = False


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


class Coded(NamedTuple):
    """The features of a column: its encoded columns times `basis`.

    They are affine in its effects, which are the number, the indicator of missing cells, and those
    of the values of a category but the reference: features are `shift` + `slopes` x effects.
    """

    names: tuple[str, ...]
    effects: tuple[str, ...]
    places: slice  # of the encoded columns
    basis: Float[HostArray, "W E"]
    shift: Float[HostArray, "E"]
    slopes: Float[HostArray, "E E"]


@dataclass(frozen=True)
class Formula(FeatureMap):
    r"""The terms of a formula, such as `age + C(sex) + age:sex`, and the constant.

    A number is a feature as it is encoded, in [-1, 1], followed by the indicator of missing cells
    if the bounds file has one. A category of K values has K - 1 features, and each of its values is
    a corner of a regular simplex of radius 1 (`simplex`); its effects are differences from the
    first value, or from the one named in `C(column, Treatment("value"))`. A product
    `a:b` has the products of the features of both, and `a * b` means `a + b + a:b`. `.` stands for
    every column. Other functions are refused: many, such as splines and scaling, read the data.
    Every part of a product must be in the formula too, so that coefficients can be converted to the
    units of the columns, and that they mean the same with another reference. `offset(a)` is a
    feature whose coefficient is 1 per unit, `offset(log(a))` of a column with the scale "log".

    `Surv(time, event) ~ age` has a survival time as response (`Response`): the targets of records
    are those of `taciturn.problems.survival_target`, from the target of the table, the time, and
    the columns of entry and event, which are then not among the terms.

    **Corners.** With an indicator for each value but a reference, at the same norm, noise in the
    second derivatives hides rare values sooner, in particular a rare reference, and a difference
    has more noise: with two values, equally frequent, five times the variance. From corners to
    differences the way is public and linear (`to_effects`).

    **Guarantee.** As for `FeatureMap`. The features of a number are its entries, whose norm is at
    most the root of `Variable.square`; those of a category have norm 1. The norm of products of
    features of several columns is the product of the norms; so a row's square is at most 1, for the
    constant, and a product of squares for every term.
    """

    inputs: Inputs
    text: str

    def __post_init__(self) -> None:
        if self._sides[0] and self.response is None:
            raise InputError(
                f"the formula {self.text[:200]!r} must have one side here, or Surv(...)"
            )
        self.names  # noqa: B018 - checked
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
    def _coded(self) -> tuple[tuple[Coded, ...], ...]:
        """The columns of every term."""
        return tuple(tuple(_of(one, self._known) for one in term) for term in self.terms)

    @property
    def _constant(self) -> int:
        if self.inputs.constant is None:
            raise InputError("these records have no constant column, which a formula needs")
        return self.inputs.constant

    @property
    def _last(self) -> list[str]:
        """The names of the offsets and of the constant."""
        offsets = [f"offset({one.name})" for one in self.offsets]
        return [*offsets, self.inputs.names[self._constant]]

    @cached_property
    def effects(self) -> tuple[str, ...]:
        """The names of effects, as many as features: `age`, `town=b`, `age:town=b`."""
        return (*_joined([[one.effects for one in term] for term in self._coded]), *self._last)

    def to_effects(self) -> Float[HostArray, "K K"]:
        r"""Return the matrix A by which weights w of features become effects A w.

        A feature of a term is a product of features of its columns, each affine in the effects of
        its column, so it is the sum over the subsets S of the columns of

        .. math:: \prod_{p \in S} (M_p u_p) \prod_{p \notin S} s_p,

        s and M being shift and slopes, and u the effects; every product of effects is itself an
        effect of the formula, which has all parts of a product.
        """
        places, found = self._places(), np.zeros((self.columns, self.columns))
        for term, coded in zip(self.terms, self._coded, strict=True):
            columns = [one.column for one in term]
            for kept in itertools.product((False, True), repeat=len(coded)):
                chosen = frozenset(itertools.compress(columns, kept))
                parts = [
                    one.slopes.T if keep else one.shift[None]
                    for one, keep in zip(coded, kept, strict=True)
                ]
                found[places[chosen], places[frozenset(columns)]] += _kron(parts)
        for place, one in enumerate(self.offsets, start=self.columns - 1 - len(self.offsets)):
            found[-1, place], found[place, place] = -one.zero / one.unit, 1 / one.unit
        found[-1, -1] = 1
        return found

    def _places(self) -> dict[frozenset[str], slice]:
        """Return the places of the features of every set of columns; the constant of none."""
        found, first = {frozenset[str](): slice(self.columns - 1, self.columns)}, 0
        for term, coded in zip(self.terms, self._coded, strict=True):
            size = math.prod(len(one.names) for one in coded)
            found[frozenset(one.column for one in term)] = slice(first, first + size)
            first += size
        return found

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
        first = self.columns - 1 - len(self.offsets)
        return tuple((first + k, one.unit) for k, one in enumerate(self.offsets))

    @property
    @override
    def columns(self) -> int:
        return len(self.names)

    @cached_property
    @override
    def names(self) -> tuple[str, ...]:
        return (*_joined([[one.names for one in term] for term in self._coded]), *self._last)

    @property
    @override
    def record_norm(self) -> float:
        known = self._known
        squares = (math.prod(known[one.column].square for one in term) for term in self.terms)
        return math.sqrt(1 + math.fsum(squares) + len(self.offsets))

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        blocks = []
        for term in self._coded:
            block = np.ones((len(rows), 1))
            for one in term:
                entries = rows[:, one.places] @ one.basis
                block = (block[:, :, None] * entries[:, None, :]).reshape(len(rows), -1)
            blocks.append(block)
        last = [one.first for one in self.offsets]
        return np.concatenate([*blocks, rows[:, [*last, self._constant]]], axis=1)


def simplex(values: int) -> Float[HostArray, "K E"]:
    """Return K unit vectors of K - 1 numbers with sum 0, at equal distances from one another.

    Examples
    --------
    >>> simplex(2).tolist()
    [[1.0], [-1.0]]
    """
    places = np.arange(1, values)
    contrasts = np.where(np.arange(values)[:, None] < places, 1.0, 0.0)
    contrasts[places, places - 1] = -places
    return contrasts * np.sqrt(values / (values - 1) / (places * (places + 1)))


def _joined(terms: list[list[tuple[str, ...]]]) -> list[str]:
    return [":".join(names) for term in terms for names in itertools.product(*term)]


def _kron(parts: Sequence[Float[HostArray, "_a _b"]]) -> Float[HostArray, "_c _d"]:
    found: HostArray = np.ones((1, 1))
    for one in parts:
        found = np.kron(found, one)
    return found


def _of(factor: Factor, known: dict[str, Variable]) -> Coded:
    """Return the features of a column."""
    variable = known[factor.column]
    name, first, values = variable.name, variable.first, variable.values
    if values is None:
        names = (name, f"{name}={MISSING}") if variable.indicator else (name,)
        size = len(names)
        shift = np.array([-variable.zero / variable.unit, 0.0])[:size]
        slopes = np.diag([1 / variable.unit, 1.0])[:size, :size]
        return Coded(names, names, slice(first, first + size), np.eye(size), shift, slopes)
    corners = simplex(len(values)) if len(values) > 1 else np.empty((1, 0))
    place = values.index(variable.reference if factor.reference is None else factor.reference)
    others = np.delete(corners, place, axis=0) - corners[place]
    return Coded(
        tuple(f"{name}[{k}]" for k in range(1, len(values))),
        tuple(f"{name}={one or MISSING}" for k, one in enumerate(values) if k != place),
        slice(first, first + len(values)), corners, corners[place], others.T,
    )  # fmt: skip


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
    if factor.category and variable.values is None:
        raise InputError(
            f"the formula has C({factor.column}), and {factor.column!r} is a number in the bounds "
            'file; give it values there, as in values = ["1", "2", "3"]'
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
        raise InputError(
            f"the formula {text[:200]!r} is not understood: {reason} (write names with spaces in "
            "backquotes)"
        ) from None
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
        return Factor(category["quoted"] or category["plain"], category["reference"], True)
    function = re.match(r"([\w.]+)\(", text)
    if function is not None:
        raise InputError(
            f"the formula has the function {function[1]}; only C(column) and C(column, "
            'Treatment("value")) are known, since others may read the data: make a column of it '
            "from public constants; for a logarithm give the column "
            'scale = "log" in the bounds file, and write names with spaces in backquotes'
        )
    raise InputError(
        f"the formula has {text[:100]!r}; write columns, C(column), and their products a:b and a*b "
        "(names with spaces in backquotes)"
    )
