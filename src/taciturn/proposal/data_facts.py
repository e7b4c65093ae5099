"""Public facts about records: of a data set, of a table, or as bare numbers; and their features."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from pydantic import model_validator

from taciturn import checks
from taciturn.errors import InputError
from taciturn.features import FeatureMap, Inputs, feature_map_named
from taciturn.problems import Loss, default_loss, loss_named
from taciturn.proposal.document import Part
from taciturn.proposal.parts import Name, Named
from taciturn.tables import (
    Bounds,
    Categories,
    Form,
    Numeric,
    encoded_names,
    encoded_norm,
    inputs_of,
)
from taciturn.tables.columns import Scale
from taciturn.typing import Interval, Task

MOST_COORDINATES, MOST_NORM = 10**7, 1e15


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
    scale: Scale = "linear"
    bins: int | tuple[float, ...] | None = None
    centre: float | Literal["uniform"] | tuple[float, ...] | None = None
    weight: float = 1.0

    @property
    def fact(self) -> Numeric | Categories:
        """The range or the list, checked."""
        centre, of_text = self.centre, self.fold_case or self.strip
        if self.range is not None and self.values is None and not of_text:
            plain = Numeric(*self.range, self.date, self.missing, self.indicator, self.fill)
            if centre is None or isinstance(centre, float):
                coded: dict[str, Any] = {"scale": self.scale, "bins": self.bins, "centre": centre}
                return dataclasses.replace(plain, **coded, weight=self.weight)
        if self.values is not None and self.range is None and not self._of_numbers:
            flags = self.fold_case, self.strip
            if not isinstance(centre, float):
                return Categories(self.values, *flags, self.missing, centre, self.weight)
        raise InputError(f"column {self.name!r} needs either a range or values")

    @property
    def _of_numbers(self) -> bool:
        """Whether something is said that only numbers have."""
        stated = (self.date, self.fill, self.bins) != (None, None, None)
        return stated or self.indicator or self.scale != "linear"


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
        Encoded columns: the coordinates of a record before features.
    record_norm
        A bound on the norm of a record before features.
    table
        The bounds of a user's table; None for a data set and for bare numbers.
    numbers
        How many of the columns are numbers in [-1, 1].
    picture
        Height, width and channels of a record that is a picture.
    features
        The public feature map (`taciturn.features`), by name; None for the columns themselves.
    """

    name: str
    task: Task
    classes: int | None
    columns: int
    record_norm: float
    table: TableFacts | None
    numbers: int = 0
    picture: tuple[int, int, int] | None = None
    features: Name | None = None

    @classmethod
    def of(cls, bounds: Bounds, features: str | None = None) -> DataFacts:
        """Return the facts about a table that its bounds file states."""
        return cls(
            name=bounds.target_name,
            task=bounds.task,
            classes=None if bounds.labels is None else len(bounds.labels),
            columns=len(encoded_names(bounds)),
            record_norm=encoded_norm(bounds),
            table=TableFacts.of(bounds),
            numbers=len(inputs_of(bounds).numbers),
            picture=None,
            features=features,
        )

    @property
    def inputs(self) -> Inputs:
        """What a feature map must know; columns of data sets are in another order there."""
        if self.table is not None:
            return inputs_of(self.table.bounds)
        names = tuple(f"column {place}" for place in range(self.columns))
        numbers = tuple(range(self.numbers))
        return Inputs(names, self.record_norm, numbers, None, self.picture)

    @property
    def feature_map(self) -> FeatureMap | None:
        """The feature map, if there is one."""
        return None if self.features is None else feature_map_named(self.features, self.inputs)

    @property
    def coordinates(self) -> int:
        """D: how many numbers a row has that an agent computes with."""
        features = self.feature_map
        return self.columns if features is None else features.columns

    @property
    def row_norm(self) -> float:
        """R: packing enforces |x|_2 <= R."""
        features = self.feature_map
        return self.record_norm if features is None else features.record_norm

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
        if self.columns > MOST_COORDINATES or not 0 <= self.numbers <= self.columns:
            raise InputError(
                f"there are {self.columns} columns, {self.numbers} of them numbers; at most "
                f"{MOST_COORDINATES:.0e} are possible, and no more numbers than columns"
            )
        if self.coordinates * (self.classes or 1) > MOST_COORDINATES:
            raise InputError(
                f"{self.coordinates} columns are more than a model of {MOST_COORDINATES:.0e} "
                "coordinates has; describe fewer columns or classes"
            )
        if self.table is not None:
            self.table.bounds  # noqa: B018 - checked
        return self

    def loss(self, named: Named | None) -> tuple[Named, Loss]:
        """Return a loss that suits the targets, the first of the table if none is named."""
        chosen = named or Named(name=default_loss(self.task), numbers=())
        return chosen, loss_named(chosen.name, chosen.numbers, self.task, self.classes)


def feature_conditions(features: str | None) -> tuple[str, ...]:
    """Return the condition that a feature map adds to a certificate."""
    if features is None:
        return ()
    return (
        f"the features ({features}) are public: chosen before anybody looked at the records, the "
        "same for every agent",
    )


def _column(name: str, fact: Numeric | Categories) -> Column:
    said: dict[str, Any] = dict.fromkeys(("date", "range", "values", "fill"))
    said |= dict.fromkeys(("fold_case", "strip", "indicator"), False) | dataclasses.asdict(fact)
    if isinstance(fact, Numeric):
        said["range"] = (float(said.pop("minimum")), float(said.pop("maximum")))
    return Column(name=name, **said)
