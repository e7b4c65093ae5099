r"""Cells of public tables, in which records are counted: one entry of a row for each table.

Tables are written as in R: `age(40, 60) + sex + sex:stage | arm` has a table of each term by `arm`,
and `Surv(days(30, 60, 90), status == "dead") ~ arm` one of intervals, events and `arm`. Several
such texts are joined by `;`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.features.feature_map import FeatureMap, Inputs, Variable
from taciturn.features.formula import Response
from taciturn.typing import HostArray

MOST_CELLS, MOST_TABLES = 4000, 100
MISSING_LEVEL = "(missing)"
ALL_RECORDS = "all"
# relative to half the range: by how much an encoded number may be rounded at a cut point
_ROUNDED = 1e-9
_NAME = r"(?:`[^`]+`|[^\W\d][\w.]*)"
_CUTS = r"(?:\((?P<cuts>[^()]*)\))?"
_TERM = re.compile(rf"(?P<name>{_NAME}) *{_CUTS}")
_SURVIVAL = re.compile(rf"Surv\( *(?P<name>{_NAME}) *{_CUTS} *, *(?P<event>.*?) *\) *~(?P<by>.*)")
_OUTSIDE = r"(?=(?:[^`\"']|`[^`]*`|\"[^\"]*\"|'[^']*')*$)"  # not within quotes
CENSORED, EVENT = "censored", "event"


class Grid(NamedTuple):
    """A public grid of a survival time: the ends of its intervals, the last that of the range."""

    time: str
    event: str
    ends: tuple[float, ...]


class Axis(NamedTuple):
    """An axis of a table: what it is about, the names of its levels, and cut points of numbers."""

    name: str
    levels: tuple[str, ...]
    edges: tuple[float, ...] = ()


@dataclass(frozen=True)
class Block:
    """One public table: its axes, the group last, in row-major order.

    - `group`: Of all records, if there is no group, one level.
    - `grid`: Of survival times, whose axes are interval, status (censored or event), and group.
    """

    rows: tuple[Axis, ...]
    group: Axis
    grid: Grid | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of cells for each group, and of groups."""
        return math.prod(len(axis.levels) for axis in self.rows), len(self.group.levels)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @property
    def title(self) -> str:
        """What is counted, in words."""
        what = ":".join(axis.name for axis in self.rows)
        if self.grid is not None:
            what = f"Surv({self.grid.time}, {self.grid.event})"
        return what if self.group.name == ALL_RECORDS else f"{what} by {self.group.name}"


class _Factor(NamedTuple):
    """A column of a table with the cut points of its numbers; none for categories."""

    variable: Variable
    edges: tuple[float, ...]

    @property
    def axis(self) -> Axis:
        """Its levels, one for empty cells where these may occur."""
        variable, edges = self.variable, self.edges
        if variable.values is not None:
            return Axis(variable.name, tuple(value or MISSING_LEVEL for value in variable.values))
        texts = [f"{edge:.12g}" for edge in edges]
        inner = [f"{low} to < {high}" for low, high in itertools.pairwise(texts)]
        levels = [f"< {texts[0]}", *inner, f">= {texts[-1]}"]
        missing = [MISSING_LEVEL] if variable.indicator else []
        return Axis(variable.name, (*levels, *missing), edges)

    def places(self, rows: Float[HostArray, "N D"], *, last: bool) -> Int[HostArray, "N"]:
        """Return the level of each row; `last`: it is the target, whose entry is the last one."""
        variable = self.variable
        first = variable.first
        if variable.values is not None:
            if not last:
                block = rows[:, first : first + len(variable.values)]
                return np.asarray(np.argmax(block, axis=1))
            codes = (rows[:, -1] + 1) / 2 if len(variable.values) == 2 else rows[:, -1]
            return np.asarray(np.rint(codes).astype(np.int64))
        found = np.searchsorted(
            on_scale(variable, self.edges), self.numbers(rows) + self.slack, side="right"
        )
        if variable.indicator:
            found = np.where(rows[:, first + 1] > 0, len(self.edges) + 1, found)
        return np.asarray(found)

    def numbers(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N"]:
        """Return the numbers of rows, on the scale of the column."""
        return self.variable.zero + self.variable.unit * rows[:, self.variable.first]

    @property
    def slack(self) -> float:
        """By how much a number may be off on its scale, by rounding."""
        return _ROUNDED * max(abs(self.variable.unit), abs(self.variable.zero))


def on_scale(variable: Variable, numbers: tuple[float, ...]) -> Float[HostArray, "E"]:
    """Return numbers in the units of a column on its scale."""
    found = np.asarray(numbers, np.float64)
    if variable.scale == "linear":
        return found
    return np.log(found) if variable.ends[0] > 0 else np.log1p(found)


@dataclass(frozen=True)
class _Table:
    """A block with its columns: those of the rows, the group's, and the column of events."""

    rows: tuple[_Factor, ...]
    group: _Factor | None
    event: tuple[Variable, str] | None = None  # with the value of an event


@dataclass(frozen=True)
class Cells(FeatureMap):
    r"""The cell of a record in each of V public tables, one entry of a row for each table.

    With k the number of the cell, from 0, of n the entry is 2 (k + 1/2) / n - 1: the middle of the
    k-th of n equal parts of [-1, 1], by which `taciturn.kernel.questions.Counts` knows it. A
    category has its public values; a number the intervals between its public cut points, given in
    parentheses or as `bins` of the bounds file, each with its lower end. Empty cells are a
    separate level where the bounds file has an indicator of them.

    *Survival times.* The time t, in (0, T], T the end of its public range, is in the interval
    (t_{j-1}, t_j] of the grid of cut points, a time of 0 in the first one; beside it stands whether
    it is that of an event. At T and beyond every record is censored.

    **Guarantee.** As for `FeatureMap`: an entry is a function of one record and of public cut
    points. An entry is at most 1 in size, so a row has norm at most sqrt(V).
    """

    inputs: Inputs
    text: str

    def __post_init__(self) -> None:
        cells = sum(self.sizes)
        if cells > MOST_CELLS or len(self.sizes) > MOST_TABLES:
            raise InputError(
                f"there are {len(self.sizes)} tables with {cells:,} cells; at most {MOST_TABLES} "
                f"with {MOST_CELLS:,} are counted at once: leave tables or cut points out"
            )

    @cached_property
    def _known(self) -> dict[str, Variable]:
        target = self.inputs.target
        last = {} if target is None else {target.name: target}
        return {one.name: one for one in self.inputs.variables} | last

    @cached_property
    def _tables(self) -> tuple[_Table, ...]:
        parts = [part.strip() for part in re.split(rf";{_OUTSIDE}", self.text) if part.strip()]
        found = tuple(itertools.chain.from_iterable(map(self._parsed, parts)))
        if not found:
            raise InputError("no table is asked for; write one, as in 'age(40,60) + sex | arm'")
        return found

    def _parsed(self, text: str) -> Iterator[_Table]:
        if re.match(r"Surv *\(", text):
            yield from self._survival(text)
            return
        left, *right = re.split(rf"\|{_OUTSIDE}", text)
        if len(right) > 1:
            raise InputError(f"{text[:100]!r} has two groups; write one, or their product in terms")
        group = self._factor(right[0]) if right else None
        for term in re.split(rf"\+{_OUTSIDE}", left.removeprefix("~")):
            yield _Table(tuple(map(self._factor, re.split(rf":{_OUTSIDE}", term))), group)

    def _survival(self, text: str) -> Iterator[_Table]:
        found = _SURVIVAL.fullmatch(text)
        response = found and Response.parse(f"Surv({found['name']}, {found['event']})")
        if found is None or response is None:
            raise InputError(
                f"{text[:100]!r} is not understood; write Surv(time, event) ~ group, or "
                'Surv(time(30,60,90), status == "dead") ~ 1 with the cut points of the grid'
            )
        if response.entry is not None:
            raise InputError(
                f"Surv has the times {response.entry!r} and {response.time!r}; late entry is not "
                "counted here: write Surv(time, event), or use taciturn regress"
            )
        time = self._factor(found["name"] + (f"({found['cuts']})" if found["cuts"] else ""))
        plain = time.variable.values is None and not time.variable.indicator
        if not plain or time.variable.scale != "linear" or time.variable.ends[0] < 0:
            raise InputError(
                f"the time {time.variable.name!r} must be a number with a min of 0 or more in the "
                "bounds file, without a scale or missing cells"
            )
        event = self._variable(response.event)
        for term in re.split(rf"\+{_OUTSIDE}", found["by"]):
            group = None if term.strip() in ("1", "") else self._factor(term)
            yield _Table((time,), group, (event, _event_value(event, response.value)))

    def _factor(self, text: str) -> _Factor:
        found = _TERM.fullmatch(text.strip())
        if found is None:
            raise InputError(
                f"{text.strip()[:100]!r} is not understood; write columns, with cut points as in "
                "age(40,60), products a:b, sums a + b, and one group as in a + b | group"
            )
        variable = self._variable(found["name"])
        edges = variable.edges if found["cuts"] is None else _numbers(found["cuts"], variable)
        if variable.values is not None and not variable.plain:
            raise InputError(
                f"the column {variable.name!r} has a centre or a weight of its values, which "
                "counts do not know; take it out of the bounds file"
            )
        if variable.values is None and not edges:
            raise InputError(
                f"the column {variable.name!r} is a number and has no public cut points; write "
                f"them, as in {variable.name}(40,60), or as bins in the bounds file"
            )
        return _Factor(variable, edges)

    def _variable(self, name: str) -> Variable:
        name = name.strip().removeprefix("`").removesuffix("`")
        if name not in self._known:
            raise InputError(
                f"{name[:100]!r} is no column of the bounds file; choose from "
                f"{', '.join(self._known)} (names with spaces in backquotes)"
            )
        return self._known[name]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The tables, in the order of the text."""
        return tuple(_block(table) for table in self._tables)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each table."""
        return tuple(block.cells for block in self.blocks)

    @property
    @override
    def columns(self) -> int:
        return len(self.blocks)

    @property
    @override
    def names(self) -> tuple[str, ...]:
        return tuple(block.title for block in self.blocks)

    @property
    @override
    def record_norm(self) -> float:
        return math.sqrt(len(self.blocks))

    @override
    def joined(
        self, rows: Float[HostArray, "N D"], targets: Num[HostArray, "N"]
    ) -> Float[HostArray, "N _"]:
        return np.column_stack([rows, targets])

    @override
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        if rows.shape[1] != len(self.inputs.names) + 1:
            raise InputError("cells are those of records with their targets; give joined rows")
        found = np.empty((len(rows), self.columns))
        for place, (table, block) in enumerate(zip(self._tables, self.blocks, strict=True)):
            cell = np.zeros(len(rows), np.int64)
            for size, level in self._levels(table, block, rows):
                cell = cell * size + level
            found[:, place] = 2 * (cell + 0.5) / block.cells - 1
        return found

    def _levels(
        self, table: _Table, block: Block, rows: HostArray
    ) -> Iterator[tuple[int, Int[HostArray, "N"]]]:
        """Yield the number of levels of each axis, and the level of each row."""
        target, width = self.inputs.target, len(self.inputs.names)

        def last(one: Variable) -> bool:
            return target is not None and one.name == target.name and one.first == width

        if block.grid is None or table.event is None:
            for factor in table.rows:
                yield len(factor.axis.levels), factor.places(rows, last=last(factor.variable))
        else:
            time, (event, value) = table.rows[0], table.event
            numbers, ends = time.numbers(rows), np.array(block.grid.ends)
            interval = np.searchsorted(ends, numbers - time.slack, side="left")
            yield len(ends), np.minimum(interval, len(ends) - 1)
            died = _died(event, value, rows, last=last(event)) & (numbers < ends[-1] - time.slack)
            yield 2, died.astype(np.int64)
        if table.group is not None:
            places = table.group.places(rows, last=last(table.group.variable))
            yield len(block.group.levels), places


def _block(table: _Table) -> Block:
    group = Axis(ALL_RECORDS, (ALL_RECORDS,)) if table.group is None else table.group.axis
    if table.event is None:
        return Block(tuple(factor.axis for factor in table.rows), group)
    time, event = table.rows[0], table.event
    ends = (*time.edges, time.variable.ends[1])
    levels = tuple(f"to {end:g}" for end in ends)
    axes = Axis(time.variable.name, levels), Axis(event[0].name, (CENSORED, EVENT))
    return Block(axes, group, Grid(time.variable.name, f"{event[0].name} == {event[1]}", ends))


def _numbers(text: str, variable: Variable) -> tuple[float, ...]:
    if variable.values is not None:
        raise InputError(f"{variable.name!r} is a category; leave its cut points out")
    try:
        edges = tuple(float(part) for part in text.split(","))
    except ValueError:
        edges = ()
    low, high = variable.ends
    rising = all(one < other for one, other in itertools.pairwise((low, *edges, high)))
    if not edges or not rising or not all(map(math.isfinite, edges)):
        raise InputError(
            f"the cut points of {variable.name!r} are {text[:100]!r}; give rising numbers between "
            f"{low:g} and {high:g}, as in {variable.name}(40,60)"
        )
    return edges


def _event_value(event: Variable, value: str | None) -> str:
    """Return the value of an event, checked: by default the second of two categories, or 1."""
    if event.values is None:
        number = value if value is not None else "1" if event.ends == (0.0, 1.0) else ""
        try:
            inside = event.ends[0] <= float(number) <= event.ends[1] and event.scale == "linear"
        except ValueError:
            inside = False
        if not inside or event.indicator:
            raise InputError(
                f"the event {event.name!r} is a number from {event.ends[0]:g} to "
                f"{event.ends[1]:g}; say which one is an event: {event.name} == {event.ends[1]:g}"
            )
        return number
    if value is None and len(event.values) == 2:
        return event.values[1]
    if value not in event.values:
        raise InputError(
            f"the event {event.name!r} must be one of its values in the bounds file: write "
            f'{event.name} == "{event.values[-1]}"'
        )
    return str(value)


def _died(event: Variable, value: str, rows: HostArray, *, last: bool) -> HostArray:
    factor = _Factor(event, ())
    if event.values is None:
        near: HostArray = np.abs(factor.numbers(rows) - float(value)) <= factor.slack
        return near
    died: HostArray = factor.places(rows, last=last) == event.values.index(value)
    return died


def with_grid(text: str, cuts: Callable[[str], tuple[float, ...]]) -> str:
    """Return a text of tables in which every survival time has cut points, by default `cuts` of it.

    Examples
    --------
    >>> with_grid("Surv(days, dead) ~ arm; age(40) | arm", lambda name: (30.0, 60.0))
    'Surv(days(30,60), dead) ~ arm; age(40) | arm'
    """
    parts = [part.strip() for part in re.split(rf";{_OUTSIDE}", text)]
    for place, part in enumerate(parts):
        found = _SURVIVAL.fullmatch(part)
        if found is not None and found["cuts"] is None:
            edges = ",".join(f"{edge:.12g}" for edge in cuts(found["name"].strip("`")))
            end = found.end("name")
            parts[place] = f"{part[:end]}({edges}){part[end:]}"
    return "; ".join(parts)


def even_grid(low: float, high: float, intervals: int) -> tuple[float, ...]:
    """Return the inner ends of intervals of equal length.

    Examples
    --------
    >>> even_grid(0, 100, 4)
    (25.0, 50.0, 75.0)
    """
    checks.at_least("intervals", intervals, 2)
    return tuple(float(f"{low + (high - low) * k / intervals:.12g}") for k in range(1, intervals))
