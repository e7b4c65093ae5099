"""The records that a fit is given: their owners, and how rows and targets are encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Num

from taciturn import checks
from taciturn.budget import Account
from taciturn.datasets import Dataset, Split
from taciturn.engine import check_chargeable
from taciturn.errors import InputError
from taciturn.estimators.ranges import Ranges
from taciturn.features import FeatureMap, feature_map_named
from taciturn.kernel.records import Draw, numbered
from taciturn.problems import Named, partition_by
from taciturn.tables import INTERCEPT, Form, Report
from taciturn.tables.cells import canonical
from taciturn.training import Counted, DataFacts, DividedData, Division
from taciturn.typing import HostArray, Precision, Task

AS_THEY_ARE = (
    "X and y were not scaled, imputed, selected, resampled or otherwise changed with numbers "
    "computed from the records: each row is one record, occurs once, and was changed by public "
    "rules only"
)


def owners_condition(rows_per_person: int | None, *, dealt: bool) -> str:
    """Return what is public about the owners of rows, which are secret where rows are dealt."""
    known = ", and who owns which, is public"
    if rows_per_person is not None:
        known = (
            " is public, and so is which agents have rows of a person; how many rows one has is not"
        )
    units = "records" if rows_per_person is None else "persons"
    return f"the number of {units} of each agent{' is public' if dealt else known}"


def persons_of(labels: Any, rows: int, rows_per_person: Any) -> Int[HostArray, "N"] | None:
    """Return the number of the person of each row; None where rows are protected one by one.

    `InputError` if only one of labels and `rows_per_person` is given; no error quotes a label.

    **Guarantee.** Labels that read as one number, 7 and 7.0 and 007, are one person, as in a table:
    a program that reads a column in parts may hold one label as a number and as text.
    """
    if (labels is None) != (rows_per_person is None):
        missing = "persons= in fit" if labels is None else "rows_per_person="
        raise InputError(
            "protection of persons needs one label per row and a public bound on the rows of a "
            f"person; give {missing} too, or neither"
        )
    if labels is None:
        return None
    values = np.asarray(labels, dtype=object)
    if values.shape != (rows,):
        raise InputError(
            f"persons has shape {values.shape}; give one label for each of the {rows} rows"
        )
    text = [str(value).strip() for value in values]
    if pd.isna(values).any() or not all(text):
        raise InputError("a row has no label in persons; give every row one")
    same = {label: canonical(label, Form()) for label in set(text)}
    return numbered(map(same.__getitem__, text))


def owners_of(agents: Any, rows: int) -> tuple[int | None, tuple[Int[HostArray, "_m"], ...] | None]:
    """Return the number of agents to which rows are dealt, or the row indices of each agent.

    `agents` is None for one agent that holds all rows; a whole number of agents; or one label per
    row that names its owner, compared as text. `InputError` if a row has no label.

    Examples
    --------
    >>> number, owners = owners_of(["b", "a", "b"], 3)
    >>> number, [part.tolist() for part in owners]
    (None, [[1], [0, 2]])
    """
    if agents is None:
        return 1, None
    if np.ndim(agents) == 0:
        return int(checks.at_least("agents", agents, 1)), None
    labels = np.asarray(agents)
    if labels.shape != (rows,):
        raise InputError(
            f"agents has shape {labels.shape}; give one label for each of the {rows} rows, or a "
            "number of agents"
        )
    if pd.isna(labels).any():
        raise InputError("a row has no owner in agents; give every row a label")
    return None, tuple(partition_by(labels.astype(str)))


class Targets(NamedTuple):
    """How targets are encoded, and the map from encoded scores to the user's units.

    - `loss`: None for the default.
    - `scale`, `offset`: a score z of the encoded problem is `offset + scale * z` in those units;
    - `labels`: the classes in the order of the scores, sorted; None for a regression.
    """

    loss: Named | None
    scale: float
    offset: float
    labels: HostArray | None

    def facts(self, *, columns: int, record_norm: float, numbers: int = 0) -> DataFacts:
        """Return the public facts about records of that many encoded columns, numbers first."""
        classes = None if self.labels is None else len(self.labels)
        task: Task = "regression"
        if classes is not None:
            task = "binary" if classes == 2 else "multiclass"
        return DataFacts(
            name="records",
            task=task,
            classes=classes,
            columns=columns,
            record_norm=record_norm,
            table=None,
            numbers=numbers,
            constant=numbers > 0,
        )


@dataclass(frozen=True, eq=False)
class Encoding:
    """The ranges of the columns, and the public feature map of encoded rows, if any."""

    ranges: Ranges
    features: FeatureMap | None

    @property
    def columns(self) -> int:
        """D, the number of entries of a row."""
        ranges = self.ranges
        if self.features is not None:
            return len(self.features.names)
        return len(ranges.minimum) + len(ranges.indicators) + 1

    def rows(self, cells: Float[HostArray, "N k"]) -> Float[HostArray, "N D"]:
        """Return the rows that agents hold."""
        encoded = self.ranges.encoded(cells)
        return encoded if self.features is None else self.features.apply(encoded)

    def in_units(
        self, weights: Float[HostArray, "D K"]
    ) -> tuple[Float[HostArray, "F K"], Float[HostArray, "F K"], Float[HostArray, "K"]]:
        """Return slopes, jumps and intercepts of a model whose weights are per entry of `rows`.

        A column with range [a, b] is encoded as (x - c) / h, with middle c and half-width h. So a
        weight w has slope w / h and moves the intercept by -w c / h. A jump is what a missing cell
        adds; it is 0 where the column has no indicator. With a feature map, slopes are per feature
        except the constant, and all jumps are 0, since the indicators are among the features.
        """
        if self.features is not None:
            constant = self.features.names.index(INTERCEPT)
            slopes = np.delete(weights, constant, axis=0)
            return slopes, np.zeros_like(slopes), weights[constant]
        ranges, columns = self.ranges, len(self.ranges.minimum)
        slopes = weights[:columns] / (ranges.width[:, None] / 2)
        missing = np.zeros_like(slopes)
        missing[list(ranges.indicators)] = weights[columns:-1]
        return slopes, missing, weights[-1] - ranges.middle @ slopes

    def scores(
        self,
        cells: Float[HostArray, "N k"],
        slopes: Float[HostArray, "F *K"],
        jumps: Float[HostArray, "F *K"],
        intercepts: Float[HostArray, "*K"],
    ) -> Float[HostArray, "N *K"]:
        """Return the scores of rows, with cells clipped and filled as in `rows`."""
        if self.features is not None:
            constant = self.features.names.index(INTERCEPT)
            scores: HostArray = np.delete(self.rows(cells), constant, axis=1) @ slopes + intercepts
            return scores
        holes = np.isnan(cells)
        inside = np.where(holes, self.ranges.middle, self.ranges.clipped(cells))
        scores = inside @ slopes + intercepts
        return scores + holes @ jumps if holes.any() else scores


@dataclass(frozen=True, eq=False)
class Fit:
    """The records of a fit and the ranges of their columns.

    - `names`: The names of the columns of X, if any. `known`: The rows of each agent; None if they
      are dealt. `numbers`: The person of each row; None if records are protected.
    - `conditions`: Those of the certificate. `read_off`: Whether public facts were read off the
      records.
    - `cells`: Returns X and the targets. `encode`: Maps targets to numbers.
    """

    shape: tuple[int, int]
    names: tuple[str, ...] | None
    ranges: Ranges
    targets: Targets
    known: tuple[Int[HostArray, "_m"], ...] | None
    numbers: Int[HostArray, "N"] | None
    conditions: tuple[str, ...]
    read_off: bool
    cells: Callable[[], tuple[Float[HostArray, "N k"], HostArray]]
    encode: Callable[[HostArray, Targets], Num[HostArray, "N"]]

    @property
    def facts(self) -> DataFacts:
        """The public facts about the records, before features."""
        columns, norm = Encoding(self.ranges, None).columns, self.ranges.record_norm
        return self.targets.facts(columns=columns, record_norm=norm, numbers=self.shape[1])

    def encoding(self, features: str | None) -> Encoding:
        """Return the encoding with the feature map of that name."""
        inputs = self.ranges.inputs(self.names)
        return Encoding(
            self.ranges, None if features is None else feature_map_named(features, inputs)
        )

    def counted(self, division: Division) -> Counted:
        """Return the records, counted; cells are read only when they are loaded."""
        rows, width = self.shape
        return Counted(
            title=f"a fit of {rows:,} rows",
            columns=self.names or tuple(f"x{k}" for k in range(width)),
            division=division,
            facts=self.facts,
            inputs=self.ranges.inputs(self.names),
            all_counts=division.counts(self.known, self.numbers, rows),
            owned=self.known is not None,
            load=self._loaded,
            conditional=self.read_off,
        )

    def _loaded(
        self, division: Division, draw: Draw, precision: Precision, report: Report | None
    ) -> DividedData:
        del precision, report
        cells, answers = self.cells()
        self.ranges.check_filled(cells, self.names)
        values, rows = self.encode(answers, self.targets), self.ranges.encoded(cells)
        facts, targets, features = self.facts, self.targets, division.features
        dataset = Dataset(
            name=facts.name,
            title=facts.name,
            features=rows,
            targets=values,
            task=facts.task,
            classes=facts.classes,
            feature_names=self.ranges.inputs(self.names).names,
            numbers=tuple(range(facts.numbers)),
            interval="symmetric",
            train_rows=len(rows),
            public=False,
            licence="not stated",
            source="arrays",
            conditions=self.conditions,
            record_norm=facts.record_norm,
            labels=None if targets.labels is None else tuple(map(str, targets.labels.tolist())),
            target_scale=(targets.scale, targets.offset),
        )
        feature_map = self.encoding(features).features
        rows = rows if feature_map is None else feature_map.apply(rows)
        parts = Split(rows, values, rows[:0], values[:0])
        owners, held, persons = division.rows(self.known, self.numbers, len(rows), draw)
        return DividedData(
            dataset, parts, owners, feature_map, features, held, persons,
            conditional=self.read_off,
        )  # fmt: skip


def shape_of(rows: Any) -> tuple[int, int]:
    """Return the number of rows and columns, which is public; no cell is read."""
    if hasattr(rows, "shape"):
        shape = tuple(rows.shape)
    else:
        try:
            shape = (len(rows), len(rows[0]))
        except (TypeError, IndexError, KeyError) as error:
            raise InputError("X must be a list of rows, an array or a data frame") from error
    if len(shape) != 2 or min(shape) < 1:
        raise InputError("X must have rows and columns, at least one of each")
    return int(shape[0]), int(shape[1])


def names_of(rows: Any) -> tuple[str, ...] | None:
    """Return the names of the columns as scikit-learn takes them; None if there are none."""
    names = tuple(getattr(rows, "columns", ()))
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        raise InputError("some column names of X are not strings; use a string for every column")
    twice = checks.repeated(names) if any(texts) else ()
    if twice:
        raise InputError(f"X has two columns called {twice[0]!r}; rename one")
    return names if any(texts) else None


def account_of(account: Account | str | None, seed: int | None) -> Account | None:
    """Return the account that a fit charges; `InputError` if invalid, or if the fit has a seed."""
    if account is None:
        return None
    if not isinstance(account, Account | str):
        raise InputError("account must be the name of an account, or a taciturn.budget.Account")
    check_chargeable(seed=seed, conditional=False)
    return Account(account) if isinstance(account, str) else account
