"""Public facts about records: columns, features, class weights, and the held-out share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from taciturn import checks, problems, tables
from taciturn.documents import Part
from taciturn.errors import InputError
from taciturn.features import COLUMNS, FeatureMap, Inputs, feature_map_named
from taciturn.kernel.records import held_out_counts, held_out_share
from taciturn.problems import ConvexSet, Direction, Loss, Monotone, Named
from taciturn.tables import Bounds, Categories, Form, Numeric
from taciturn.tables.columns import Scale
from taciturn.training.parts import Count
from taciturn.typing import Interval, Task

MOST_COORDINATES, MOST_NORM = 10**7, 1e15
MONOTONE = "monotone"
# a formula is part of the name of its feature map
FeatureName: TypeAlias = Annotated[str, Field(max_length=5000)]
# tolerance for sums of shares such as 1/3 written with a few digits
_ROUNDING = 0.01

WEIGHTS_ARE_PUBLIC = (
    "the class weights are public: they, or the shares of the classes that they are derived from, "
    "were known before anybody looked at the records"
)


class Column(Part):
    """Public facts about one column of a table: a range, or the list of its values.

    The other fields are as in `Numeric` and `Categories`.
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
        stated = self.date, self.fill, self.bins, self.indicator, self.scale
        of_numbers = stated != (None, None, None, False, "linear")
        if self.values is not None and self.range is None and not of_numbers:
            flags = self.fold_case, self.strip
            if not isinstance(centre, float):
                return Categories(self.values, *flags, self.missing, centre, self.weight)
        raise InputError(f"column {self.name!r} needs either a range or values")

    @classmethod
    def of(cls, name: str, fact: Numeric | Categories) -> Column:
        """Return the facts of a bounds file about a column."""
        stated: dict[str, Any] = dict.fromkeys(("date", "range", "values", "fill"))
        stated |= dict.fromkeys(("fold_case", "strip", "indicator"), False)
        stated |= dataclasses.asdict(fact)
        if isinstance(fact, Numeric):
            stated["range"] = (float(stated.pop("minimum")), float(stated.pop("maximum")))
        return cls(name=name, **stated)


class TableForm(Part):
    """The form of a table's files, as in `Form`."""

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
    leave_out: bool = False

    @classmethod
    def of(cls, bounds: Bounds) -> TableFacts:
        """Return the facts that a bounds file states."""
        return cls(
            source=bounds.origin,
            target=Column.of(bounds.target_name, bounds.target),
            columns=tuple(Column.of(*each) for each in bounds.columns.items()),
            ignored=bounds.ignored,
            form=TableForm(**dataclasses.asdict(bounds.form)),
            interval=bounds.interval,
            leave_out=bounds.leave_out,
        )

    @property
    def bounds(self) -> Bounds:
        """The bounds, checked."""
        columns = {column.name: column.fact for column in self.columns}
        if len(columns) < len(self.columns):
            raise InputError("a column is described twice; give each one place")
        form = Form(**self.form.model_dump())
        target = self.target.name, self.target.fact
        return Bounds(
            self.source, *target, columns, self.ignored, form, self.interval, self.leave_out
        )


class DataFacts(Part):
    """Public facts about the records, apart from their counts.

    - `columns`, `record_norm`: Encoded columns of a record before features, and a bound on its
      norm.
    - `table`: The bounds of a user's table; None for a data set and for bare numbers.
    - `numbers`: The number of columns of numbers in [-1, 1].
    - `constant`: Whether the last column is known to be 1 in every row; a table has such a column.
    - `picture`: Height, width and channels if records are pictures.
    - `features`: The public feature map (`taciturn.features`), by name; None for the columns
      themselves.
    """

    name: str
    task: Task
    classes: int | None
    columns: int
    record_norm: float
    table: TableFacts | None
    numbers: int = 0
    constant: bool = False
    picture: tuple[int, int, int] | None = None
    features: FeatureName | None = None

    @classmethod
    def of(cls, bounds: Bounds) -> DataFacts:
        """Return the facts about a table that its bounds file states."""
        return cls(
            name=bounds.target_name,
            task=bounds.task,
            classes=None if bounds.labels is None else len(bounds.labels),
            columns=len(tables.encoded_names(bounds)),
            record_norm=tables.encoded_norm(bounds),
            table=TableFacts.of(bounds),
            numbers=len(tables.inputs_of(bounds).numbers),
        )

    def with_features(self, name: str) -> DataFacts:
        """Return the facts with the feature map of that name, or with the columns themselves."""
        return DataFacts(**dict(self) | {"features": None if name == COLUMNS else name})

    @property
    def inputs(self) -> Inputs:
        """The inputs of a feature map; the columns of data sets are in another order."""
        if self.table is not None:
            return tables.inputs_of(self.table.bounds)
        names = tuple(f"column {place}" for place in range(self.columns))
        numbers = tuple(range(self.numbers))
        constant = self.columns - 1 if self.constant else None
        return Inputs(names, self.record_norm, numbers, constant, self.picture)

    @property
    def feature_map(self) -> FeatureMap | None:
        """The feature map, if there is one."""
        return None if self.features is None else feature_map_named(self.features, self.inputs)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coordinates of a row."""
        features = self.feature_map
        return self.inputs.names if features is None else features.names

    @property
    def coordinates(self) -> int:
        """D, the number of coordinates of a row."""
        features = self.feature_map
        return self.columns if features is None else features.columns

    @property
    def row_norm(self) -> float:
        """R, the bound |x|_2 <= R that packing enforces."""
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
            checks.at_least("classes", self.classes, 3 if self.task == "multiclass" else 2)
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

    def loss(self, named: Named) -> Loss:
        """Return the loss of that name; `InputError` unless it suits the targets."""
        return problems.loss_named(named.name, named.numbers, self.task, self.classes)

    def monotone(self, rising: Sequence[str], falling: Sequence[str]) -> Named:
        """Return the name of the set of models whose score rises or falls with these columns.

        Its numbers are 1 + the column's place among `inputs`, negative where the score falls.
        """
        inputs, found = self.inputs, []
        places = {inputs.names[place]: place for place in inputs.numbers}
        for sign, names in ((1.0, rising), (-1.0, falling)):
            for name in names:
                if name not in places:
                    raise InputError(
                        f"a model cannot be increasing or decreasing in {name[:100]!r}; name a "
                        "column of a table whose numbers are mapped to [-1, 1] without bins, "
                        f"centre or weight: {', '.join(places) or 'there is none here'}"
                    )
                found.append(sign * (1 + places[name]))
        if len({abs(number) for number in found}) < len(found):
            raise InputError("a column is named twice as increasing or decreasing; name it once")
        return Named(name=MONOTONE, numbers=tuple(found))

    def constraint(self, named: Named) -> ConvexSet:
        """Return the set of that name; `InputError` unless it suits the columns."""
        if named.name != MONOTONE:
            return problems.constraint_named(named.name, named.numbers)
        if self.table is None or self.task == "multiclass":
            raise InputError(
                "a model is increasing or decreasing in columns of a table with bounds, for two "
                "classes or a number; leave these options out"
            )
        inputs, features = self.inputs, self.feature_map
        known, numbers = {1.0 + place for place in inputs.numbers}, named.numbers
        sizes = {abs(number) for number in numbers}
        if not numbers or len(sizes) < len(numbers) or not sizes <= known:
            raise InputError(
                f"{MONOTONE} has {len(numbers)} numbers that do not name different columns of "
                "numbers; give --increasing COL or --decreasing COL"
            )
        places = [(1 if number > 0 else -1, int(abs(number)) - 1) for number in numbers]
        blocks = [() if features is None else tuple(features.block_of(k)) for _, k in places]
        return Monotone(
            tuple(Direction(*each, block) for each, block in zip(places, blocks, strict=True))
        )

    def constraint_text(self, named: Named) -> str:
        """Return a constraint as people read it: "yes: increasing in age, decreasing in dose"."""
        if named.name != MONOTONE:
            return str(named)
        names, labels = self.inputs.names, labels_of(self)
        ways = ", ".join(
            f"{'increasing' if number > 0 else 'decreasing'} in {names[int(abs(number)) - 1]}"
            for number in named.numbers
        )
        return ways if labels is None else f"{labels[-1]}: {ways}"


def feature_conditions(features: str | None) -> tuple[str, ...]:
    """Return the condition that a feature map adds to a certificate."""
    if features is None:
        return ()
    return (
        f"the features ({features}) are public: chosen before anybody looked at the records, the "
        "same for every agent",
    )


def labels_of(data: DataFacts) -> tuple[str, ...] | None:
    """Return the labels in the order of their numbers; None for a regression."""
    if data.classes is None:
        return None
    if data.table is not None and data.table.target.values is not None:
        return data.table.target.values
    return ("-1", "1") if data.task == "binary" else tuple(map(str, range(data.classes)))


def weights_by_label(
    labels: tuple[Any, ...] | None,
    class_weight: Mapping[Any, float] | None,
    prior: Mapping[Any, float] | None,
) -> tuple[float, ...] | None:
    """Return the weight of each class, or None if no weights are requested.

    - `labels`: The labels of the classes, in order; None for a regression.
    - `class_weight`: Weights in (0, 1] by label; other labels have weight 1. `ClassWeighted` checks
      that weights are at most 1.
    - `prior`: The public share p_c of each class among the records, or in the population. The
      weight of class c is min(p) / p_c: the classes count equally, the rarest with weight 1.
    """
    if class_weight is None and prior is None:
        return None
    if class_weight is not None and prior is not None:
        raise InputError(
            "class weight and prior are both given; weights follow from either: use one"
        )
    if labels is None:
        raise InputError("class weights are for a target with labels; leave them out for numbers")
    if class_weight is not None:
        weights = _by_label("class weight", labels, class_weight)
        return tuple(weights.get(label, 1.0) for label in labels)
    given = _by_label("prior", labels, prior)
    missing = [label for label in labels if label not in given]
    if missing:
        raise InputError(f"prior has no share of {missing[0]!r}; give one for each label")
    shares = [given[label] for label in labels]
    if abs(math.fsum(shares) - 1) > _ROUNDING:
        raise InputError(
            f"prior has shares that sum to {math.fsum(shares):g}; the shares of all labels sum to 1"
        )
    return tuple(min(shares) / share for share in shares)


def _by_label(what: str, labels: tuple[Any, ...], given: Any) -> dict[Any, float]:
    """Return the positive numbers given for some of the labels."""
    if not isinstance(given, Mapping):
        shown = repr(given) if isinstance(given, str) else f"a {type(given).__name__}"
        raise InputError(
            f"{what} is {shown}; it must be a number for each label. Weights that are counted from "
            "the records, as balanced ones are, are not public: give weights that were known "
            "before, or the public shares of the labels as prior"
        )
    unknown = [label for label in given if label not in labels]
    if unknown:
        raise InputError(
            f"{what} has {unknown[0]!r}, which is no label of the target; there are: "
            f"{', '.join(map(str, labels))}"
        )
    return {k: checks.positive(f"the {what} of {k!r}", number) for k, number in given.items()}


def weights_text(labels: tuple[str, ...], weights: tuple[float, ...]) -> str:
    """Return the weights by label, as in "no: 0.1, yes: 1"."""
    return ", ".join(f"{label}: {weight:g}" for label, weight in zip(labels, weights, strict=True))


class Evaluation(Part):
    """Records that are held out of a training.

    - `share`: The share of each agent's records.
    - `counts`: The number of records, or places of persons, that each agent holds out, in addition
      to the proposal's counts, which are trained on.
    - `asked`: Whether they evaluate the released model; if not, they may choose among trainings
      (`taciturn.training.tuning`).
    """

    share: float
    counts: tuple[Count, ...]
    asked: bool = True

    @model_validator(mode="after")
    def _some_records(self) -> Evaluation:
        held_out_share(self.share)
        if any(count < 0 for count in self.counts) or sum(self.counts) < 1:
            raise InputError("no record is held out for the evaluation; leave it out")
        return self

    @property
    def agents(self) -> list[int]:
        """The agents that hold records out."""
        return [agent for agent, count in enumerate(self.counts) if count]

    def check_share(self, kept: Sequence[int], rows_per_person: int | None) -> None:
        """Raise `InputError` unless the counts are this share of each agent's records."""
        every = tuple(map(sum, zip(kept, self.counts, strict=False)))
        if len(self.counts) != len(kept) or self.counts != held_out_counts(
            every, self.share, rows_per_person=rows_per_person
        ):
            raise InputError(
                f"a share of {self.share:g} of each agent's records is held out, and the counts "
                "of the evaluation are others; propose again"
            )
