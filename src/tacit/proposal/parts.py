"""The parts of a proposal: public facts about records, problem, method, budget and network."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from tacit import checks
from tacit.algorithms import METHODS, Value, checked_options
from tacit.errors import InputError
from tacit.network import Graph, Mixing, Walk, metropolis
from tacit.privacy import (
    Adjacency,
    Messages,
    Observer,
    Sum,
    Terms,
    relation_named,
)
from tacit.problems import (
    Loss,
    Problem,
    Structured,
    constraint_named,
    default_loss,
    fused_lasso,
    generalised_lasso,
    lasso,
    loss_named,
    regulariser_named,
    sparse_rows,
)
from tacit.proposal.document import Extended, Part
from tacit.tables import Bounds, Categories, Form, Numeric, encoded_names, encoded_norm
from tacit.typing import Interval, Task

# what single precision can compute with: a weight, and a number whose square is needed
Weight = Annotated[float, Field(le=1e30)]
Cell = Annotated[float, Field(ge=-1e15, le=1e15)]
StructureName = Literal["lasso", "fused-lasso", "generalized-lasso"]
GraphSource = Literal["chain", "given", "test", "private"]
Name = Annotated[str, Field(max_length=200)]
# of an agent or a column; the upper end is that of NumPy's 32-bit integers
Place = Annotated[int, Field(ge=0, lt=2**31)]


class Named(Part):
    """A loss, regulariser or constraint: a name with numbers, as in `elastic:1e-3,1e-2`."""

    name: Name
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, what: str, text: str) -> Named:
        """Return what a text such as `l2:1e-6` says.

        Raises
        ------
        InputError
            If what stands after the colon are no numbers.
        """
        name, colon, rest = text.partition(":")
        try:
            numbers = tuple(float(part) for part in rest.split(",")) if colon else ()
        except ValueError as error:
            raise InputError(
                f"{what} is {text!r}; after the colon come numbers, as in {name}:0.1"
            ) from error
        if not all(math.isfinite(number) for number in numbers):
            raise InputError(f"{what} is {text!r}; its numbers must be finite")
        return cls(name=name, numbers=numbers)

    def __str__(self) -> str:
        if not self.numbers:
            return self.name
        return f"{self.name}:{','.join(_plain(number) for number in self.numbers)}"


MOST_COORDINATES, MOST_NORM = 10**7, 1e15
NONE = Named(name="none", numbers=())


class Column(Part):
    """Public facts about one column of a table: a range, or the list of its values.

    How its cells are spelled is as in `Numeric` and `Categories`.
    """

    name: str
    range: tuple[float, float] | None
    values: tuple[str, ...] | None
    date: str | None
    fold_case: bool
    strip: bool
    missing: tuple[str, ...]
    indicator: bool
    fill: float | None

    @property
    def fact(self) -> Numeric | Categories:
        """The range or the list, checked."""
        of_numbers = self.date is not None or self.indicator or self.fill is not None
        if self.range is not None and self.values is None and not (self.fold_case or self.strip):
            return Numeric(*self.range, self.date, self.missing, self.indicator, self.fill)
        if self.values is not None and self.range is None and not of_numbers:
            return Categories(self.values, self.fold_case, self.strip, self.missing)
        raise InputError(f"column {self.name!r} needs either a range or values")


class TableForm(Part):
    """How the files of a table are written, as in `Form`."""

    delimiter: str
    decimal: str
    thousands: str
    encoding: str


class TableFacts(Part):
    """Public facts about a table: the content of its bounds file."""

    source: Literal["public", "data"]
    target: Column
    columns: tuple[Column, ...]
    ignored: tuple[str, ...]
    form: TableForm
    interval: Interval

    @classmethod
    def of(cls, bounds: Bounds) -> TableFacts:
        """Return the facts that a bounds file states."""
        columns = tuple(_column(name, fact) for name, fact in bounds.columns.items())
        target = _column(bounds.target_name, bounds.target)
        form = TableForm(**dataclasses.asdict(bounds.form))
        known = {"source": bounds.origin, "target": target, "columns": columns, "form": form}
        return cls(**known, ignored=bounds.ignored, interval=bounds.interval)

    @property
    def bounds(self) -> Bounds:
        """The bounds, checked."""
        columns = {column.name: column.fact for column in self.columns}
        if len(columns) < len(self.columns):
            raise InputError("a column is described twice; give each one place")
        form = Form(**self.form.model_dump())
        target = self.target.name, self.target.fact
        return Bounds(self.source, *target, columns, self.ignored, form, self.interval)


class DataFacts(Part):
    """Public facts about the records, apart from their counts.

    Attributes
    ----------
    columns
        Encoded columns: the coordinates of a record.
    record_norm
        R: packing enforces |x|_2 <= R.
    table
        The bounds of a user's table; None for a data set and for bare numbers.
    """

    name: str
    task: Task
    classes: int | None
    columns: int
    record_norm: float
    table: TableFacts | None

    @classmethod
    def of(cls, bounds: Bounds) -> DataFacts:
        """Return the facts about a table that its bounds file states."""
        return cls(
            name=bounds.target_name,
            task=bounds.task,
            classes=None if bounds.labels is None else len(bounds.labels),
            columns=len(encoded_names(bounds)),
            record_norm=encoded_norm(bounds),
            table=TableFacts.of(bounds),
        )

    @model_validator(mode="after")
    def _in_range(self) -> DataFacts:
        checks.at_least("columns", self.columns, 1)
        if checks.positive("record-norm", self.record_norm) > MOST_NORM:
            raise InputError(
                f"record-norm is {self.record_norm:g}; single precision cannot compute with the "
                f"square of norms above {MOST_NORM:g}, so scale the records"
            )
        if (self.task == "regression") != (self.classes is None):
            raise InputError(f"a {self.task} target has classes {self.classes}; that cannot be")
        if self.classes is not None:
            least = 3 if self.task == "multiclass" else 2
            checks.at_least("classes", self.classes, least)
        if self.columns * (self.classes or 1) > MOST_COORDINATES:
            raise InputError(
                f"{self.columns} columns are more than a model of {MOST_COORDINATES:.0e} "
                "coordinates has; describe fewer columns or classes"
            )
        if self.table is not None:
            self.table.bounds  # noqa: B018 - checked
        return self

    def loss(self, named: Named | None) -> tuple[Named, Loss]:
        """Return a loss that suits the targets, the first of the table if none is named."""
        chosen = named or Named(name=default_loss(self.task), numbers=())
        return chosen, loss_named(chosen.name, chosen.numbers, self.task, self.classes)


class Structure(Part):
    """weight |A x|_1 + ridge |x|^2 / 2 with A from a graph of the columns or given by its rows.

    Attributes
    ----------
    edges
        Of the fused lasso: pairs of encoded columns.
    rows
        Of the generalised lasso: the rows of A, a number for each encoded column.
    source
        Where edges or rows come from; "private" makes every certificate conditional.
    """

    name: StructureName
    weight: Weight
    ridge: Weight
    edges: tuple[tuple[Place, Place], ...]
    rows: tuple[tuple[Cell, ...], ...]
    source: GraphSource

    @model_validator(mode="after")
    def _of_one_name(self) -> Structure:
        if (self.edges and self.name != "fused-lasso") or (
            self.rows and self.name != "generalized-lasso"
        ):
            raise InputError(
                f"{self.name} comes with edges or rows of another structure; leave them empty"
            )
        return self

    def structured(self, loss: Loss, columns: int) -> Structured:
        """Return the structured problem on so many encoded columns."""
        if self.name == "lasso":
            return lasso(loss, columns, weight=self.weight, ridge=self.ridge)
        if self.name == "fused-lasso":
            edges = np.array(self.edges, dtype=int).reshape(-1, 2)
            return fused_lasso(loss, edges, columns, weight=self.weight, ridge=self.ridge)
        if any(len(row) != columns for row in self.rows):
            raise InputError(f"a row of A has not {columns} numbers, one for each encoded column")
        rows = sparse_rows(np.array(self.rows, dtype=float).reshape(-1, columns))
        return generalised_lasso(loss, rows, weight=self.weight, ridge=self.ridge)


class MethodChoice(Part):
    """A method by name, with the value of each of its options."""

    name: Name
    options: dict[str, Value]

    @field_validator("options")
    @classmethod
    def _of_their_types(cls, options: dict[str, Value], info: Any) -> dict[str, Value]:
        """Return the options as the library's methods declare them: rho 1 is the number 1.0."""
        name = info.data.get("name")
        method = METHODS.get(str(name))
        return options if method is None else checked_options(str(name), method, options)


class Budget(Part):
    """The terms of a run as names and numbers; see `tacit.privacy.Terms`."""

    epsilon: Extended
    delta: float
    relation: Name
    unit: Literal["record", "agent"]
    observer: Literal["messages", "sum"]
    colluders: int

    @property
    def terms(self) -> Terms:
        """The terms, checked."""
        observer: Observer = Messages()
        if self.observer == "sum":
            observer = Sum(self.colluders)
        elif self.colluders:
            raise InputError("colluders are counted for the observer sum only; give 0")
        adjacency = Adjacency(relation_named(self.relation), self.unit)
        return Terms(self.epsilon, self.delta, adjacency, observer)


class Connection(Part):
    """The edges of a network, and on a relay the agents that hold the token.

    Attributes
    ----------
    name, walk
        The names in the request, for people to read.
    holders
        On a relay the agent of each hop; None in gossip, which mixes with Metropolis weights.
    cap
        On a relay the most answers that an agent gives; None for no limit.
    """

    name: str
    edges: tuple[tuple[Place, Place], ...]
    walk: str | None
    holders: tuple[Place, ...] | None
    cap: int | None

    @model_validator(mode="after")
    def _of_one_kind(self) -> Connection:
        if self.holders is None and (self.walk is not None or self.cap is not None):
            raise InputError("walk and cap belong to a relay, whose holders are missing")
        return self

    def network(self, agents: int) -> Mixing | Walk:
        """Return the network of so many agents, checked."""
        graph = Graph(agents, np.array(self.edges, dtype=int).reshape(-1, 2))
        if self.holders is None:
            return metropolis(graph)
        return Walk(graph, np.array(self.holders), self.cap)


def graph_conditions(structure: Structure | None) -> tuple[str, ...]:
    """Return the conditions that the structure adds to a certificate."""
    if structure is None or structure.source == "chain":
        return ()
    if structure.source == "given":
        return ("the graph or matrix of the structure is taken as public, however it was found",)
    if structure.source == "test":
        return ("the graph of the structure was learned from the test records, which are public",)
    return (
        "the graph of the structure was learned from the training records themselves, without "
        "noise, and the plan depends on it: the certificate holds only if the graph would be "
        "the same whatever one record says",
    )


def graph_warning(structure: Structure | None) -> tuple[str, ...]:
    """Return a warning if the graph was learned from private records, else nothing."""
    if structure is None or structure.source != "private":
        return ()
    return (
        "the certificate is conditional: the graph was learned from the training records; learn it "
        "from public ones (--graph-from test) or give a public file (--graph)",
    )


def problem_of(
    loss: Loss,
    regulariser: Named,
    constraint: Named,
    structure: Structure | None,
    columns: int,
) -> Problem:
    """Return the problem; a structure replaces the regulariser.

    Raises
    ------
    InputError
        If a name or number is not in the tables, or a structure comes with a regulariser or a
        constraint besides.
    """
    plain = Problem(
        loss,
        regulariser_named(regulariser.name, regulariser.numbers),
        constraint_named(constraint.name, constraint.numbers),
    )
    if structure is None:
        return plain
    if regulariser.name != "none" or constraint.name != "none":
        raise InputError(
            "a structure has its own weights and comes without a constraint; leave regulariser and "
            "constraint out"
        )
    return structure.structured(loss, columns).composed


def check_seed(name: str, seed: int) -> None:
    """Raise `InputError` unless the seed fits the generators: 0 to 2^63 - 1."""
    if not 0 <= seed < 2**63:
        raise InputError(f"{name} is {seed}; it must be a whole number from 0 to 2^63 - 1")


def _column(name: str, fact: Numeric | Categories) -> Column:
    said: dict[str, Any] = dict.fromkeys(("date", "range", "values", "fill"))
    said |= dict.fromkeys(("fold_case", "strip", "indicator"), False) | dataclasses.asdict(fact)
    if isinstance(fact, Numeric):
        said["range"] = (float(said.pop("minimum")), float(said.pop("maximum")))
    return Column(name=name, **said)


def _plain(number: float) -> str:
    """Return a number in its shortest form, exponents without leading zeros."""
    text = repr(number).removesuffix(".0")
    base, exponent, power = text.partition("e")
    return f"{base}e{int(power)}" if exponent else text
