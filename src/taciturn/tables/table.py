"""A user's table: its files and its public facts, encoded for training."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from taciturn.errors import InputError, missing_bounds_text
from taciturn.kernel.records import numbered
from taciturn.problems import partition_by
from taciturn.tables.bounds import Bounds, read_bounds
from taciturn.tables.cells import identities
from taciturn.tables.columns import Numeric
from taciturn.tables.encode import check_columns, encoded_names, encoded_norm, encoded_rows
from taciturn.tables.form import FORM
from taciturn.tables.read import Report, TableFile, count_table, count_tables
from taciturn.typing import HostArray, Precision, Task


@dataclass(frozen=True, kw_only=True)
class Source:
    """The files of a table and of its public facts.

    - `path`: a CSV or Parquet file, or a folder with one such file per agent.
    - `bounds`: the TOML file of the public facts; None is refused.
    - `agent_column`, `person_column`: the columns of the agent that holds a row and, where persons
      are protected, of the person it is about.
    - `test`: a file of test records, which are public by declaration.
    - `leave_out`: whether rows without a target are left out, in place of what the bounds say.
    - `delimiter`, `decimal`, `thousands`, `encoding`: override the `Form` in the bounds.
    """

    path: Path
    target: str
    bounds: Path | None
    agent_column: str | None = None
    person_column: str | None = None
    test: Path | None = None
    leave_out: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None

    @property
    def owner_columns(self) -> dict[str, str]:
        """The columns of agents and persons, which are not learned from, by what they name."""
        columns = {"agent": self.agent_column, "person": self.person_column}
        return {what: name for what, name in columns.items() if name is not None}


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Private records as numbers (`encode`), with their public facts.

    - `features`, `targets`: the training rows, then the test rows, if any, which are public.
    - `owners`: the rows of each agent; None if they are still to be partitioned.
    - `clipped`: how many cells of training rows lay outside the bounds: private.
    - `conditions`: facts taken as public; a certificate holds under these.
    - `absent`: whether each row has no target, where such rows are left out; else None. Private.
    - `persons`: the number of the person of each training row, in the order of their identities;
      None where records are protected. Private.
    """

    name: str
    title: str
    source: str
    bounds: Bounds
    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    train_rows: int
    owners: tuple[Int[HostArray, "_m"], ...] | None
    clipped: int
    conditions: tuple[str, ...]
    persons: Int[HostArray, "_n"] | None = None
    absent: Bool[HostArray, "N"] | None = None
    # un-noised metrics on the training records may not be shown
    public: ClassVar[bool] = False
    licence: ClassVar[str] = "not stated"

    @property
    def record_norm(self) -> float:
        """The largest norm of an encoded row (`encoded_norm`), a public number."""
        return encoded_norm(self.bounds)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the D encoded columns."""
        return encoded_names(self.bounds)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the file that the public facts describe."""
        return (self.bounds.target_name, *self.bounds.columns, *self.bounds.ignored)

    @property
    def task(self) -> Task:
        """As of the bounds."""
        return self.bounds.task

    @property
    def labels(self) -> tuple[str, ...] | None:
        """As of the bounds."""
        return self.bounds.labels

    @property
    def target_scale(self) -> tuple[float, float]:
        """S and b with which an encoded number y stands for s y + b in the target's units."""
        target = self.bounds.target
        if not isinstance(target, Numeric):
            return 1.0, 0.0
        return self.bounds.half_range, target.minimum + target.width / 2


@dataclass(frozen=True, eq=False)
class Files:
    """The files of a table with their rows counted, before any cell is read.

    `tables` are trained on, `tests` holds test records, if any; `owners` and `persons` are as in
    `Table`.
    """

    source: Source
    bounds: Bounds
    tables: dict[Path, TableFile]
    tests: TableFile | None
    owners: tuple[Int[HostArray, "_m"], ...] | None
    persons: Int[HostArray, "_n"] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, which are public."""
        return tuple(sorted({name for table in self.tables.values() for name in table.columns}))

    @property
    def rows(self) -> int:
        """The number of training rows, which is public."""
        return sum(table.rows for table in self.tables.values())

    @property
    def title(self) -> str:
        """A line for people."""
        return f"{self.source.path.name}: {self.source.target}"


def load_table(
    source: Source,
    known: Bounds | None = None,
    *,
    precision: Precision = "float64",
    report: Report | None = None,
) -> Table:
    """Return the encoded table that `source` names: `table_of` its `read_files`."""
    return table_of(read_files(source, known, report), precision=precision, report=report)


def read_files(source: Source, known: Bounds | None = None, report: Report | None = None) -> Files:
    """Return the files of a table, rows counted and owners read in one pass.

    A few thousand rows are in memory at a time, beside the columns of agents and persons. `known`
    are the public facts, where no file states them; `report` is called with the number of rows
    that were counted in a file, and None.

    **Guarantee.** The numbers of rows and their owners are public. The result of this function, and
    any error that it raises, depend on no other cell beyond the syntax of the file.
    """
    if known is None and source.bounds is None:
        raise InputError(missing_bounds_text(str(source.path), source.target))
    bounds = known or read_bounds(cast(Path, source.bounds))
    form = bounds.form.changed({name: getattr(source, name) for name in FORM})
    leave_out = bounds.leave_out if source.leave_out is None else source.leave_out
    bounds = replace(bounds, form=form, leave_out=leave_out)
    if bounds.target_name != source.target:
        raise InputError(
            f"the target is {source.target!r} and the bounds file {source.bounds} is for "
            f"{bounds.target_name!r}; use one name in both"
        )
    _check_owner_columns(source, bounds)
    whose = tuple(source.owner_columns.values())
    tables = count_tables(source.path, form, whose, report)
    owners = _owners(source, list(tables.values()))
    tests = persons = None
    if source.test is not None:
        tests = count_table(source.test, form, (), report)
        if any(os.path.samefile(source.test, file) for file in tables):
            raise InputError(
                f"{source.test} is trained on, and metrics on test records are shown without "
                "noise; name a file of other records, or use --oracle-metrics"
            )
    for table in (*tables.values(), *(() if tests is None else (tests,))):
        try:
            check_columns((c for c in table.columns if c not in whose), bounds, with_target=True)
        except InputError as error:
            raise InputError(f"{table.path}: {error}") from error
    if (column := source.person_column) is not None:
        names = [name for table in tables.values() for name in _names(column, table)]
        kinds = frozenset[str]().union(*(table.kinds[column] for table in tables.values()))
        persons = numbered(identities(column, kinds, names, form))
    return Files(source, bounds, tables, tests, owners, persons)


def table_of(
    files: Files, *, precision: Precision = "float64", report: Report | None = None
) -> Table:
    """Return the table of counted files, its cells encoded (`encoded_rows`).

    Which of the public labels occur is private, so a table in which only one does is accepted.
    """
    source, bounds = files.source, files.bounds
    tables = [*files.tables.values(), *(() if files.tests is None else (files.tests,))]
    features, targets, clipped, absent = encoded_rows(tables, bounds, precision, report)
    return Table(
        name=str(source.path),
        title=files.title,
        source=str(source.path),
        bounds=bounds,
        features=features,
        targets=targets,
        train_rows=files.rows,
        owners=files.owners,
        clipped=sum(clipped[: len(files.tables)]),
        conditions=table_conditions(
            bounds,
            persons=source.person_column is not None,
            tests=None if source.test is None else source.test.name,
        ),
        persons=files.persons,
        absent=absent,
    )


def _check_owner_columns(source: Source, bounds: Bounds) -> None:
    for what, column in source.owner_columns.items():
        if column in {source.target, *bounds.columns}:
            raise InputError(
                f"the {what} column {column!r} is described in the bounds file as a column to "
                "learn from; take it out there"
            )
    if source.person_column is not None and source.person_column == source.agent_column:
        raise InputError(
            f"{source.person_column!r} is given as the column of agents and of persons; where each "
            "person is an agent, name it as the agent column and protect records, or name two"
        )


def _owners(source: Source, tables: list[TableFile]) -> tuple[HostArray, ...] | None:
    folder = os.path.isdir(source.path)
    if source.agent_column is None:
        if not folder:
            return None
        ends = np.cumsum([one.rows for one in tables])
        return tuple(np.split(np.arange(ends[-1]), ends[:-1]))
    if folder:
        raise InputError(
            "a folder has one file per agent, so there is no agent column; leave --agent-column out"
        )
    return tuple(partition_by(numbered(_names(source.agent_column, tables[0]))))


def _names(column: str, table: TableFile) -> HostArray:
    """Return the text in each row of the column of agents or persons."""
    if column not in table.columns:
        raise InputError(
            f"the table {table.path} has no column {column!r}; name one of its columns"
        )
    names = table.kept[column].to_numpy(object)
    empty = np.flatnonzero(names == "")
    if empty.size:
        raise InputError(f"column {column!r}, row {empty[0] + 1} is empty; say whose record it is")
    return names


def table_conditions(bounds: Bounds, *, persons: bool, tests: str | None = None) -> tuple[str, ...]:
    """Return the conditions of a certificate: what is taken as public about a table.

    `persons`: whether persons are protected, and not records. `tests`: the file of test records.
    """
    one = "person's rows say" if persons else "record says"
    ranges = (
        "ranges, category lists and labels of the bounds file are public, as its author declares "
        '(source = "public")'
    )
    if bounds.origin == "data":
        ranges = (
            "ranges, category lists and labels were filled in from the records themselves (source "
            '= "data" in the bounds file): the certificate holds only if they would be the same '
            f"whatever one {one}"
        )
    counts = "the number of records of each agent is public"
    if persons:
        counts = (
            "the number of persons of each agent is public, and so is which agents have rows of a "
            "person; how many rows one has is not"
        )
    conditions = [ranges, counts]
    if any(isinstance(fact, Numeric) and fact.accepts_missing for fact in bounds.columns.values()):
        known = "is public" if bounds.origin == "public" else "was filled in from the records too"
        conditions.append(
            f"which columns may have missing cells, and what such a cell counts as, {known}"
        )
    if any(fact.coding for fact in bounds.columns.values()):
        conditions.append(
            "scales, bins, centres and weights of columns are public: chosen before anybody looked "
            "at the records"
        )
    if bounds.leave_out:
        conditions.append(
            "records without a target count among those of their agent and enter no answer"
        )
    if tests is not None:
        conditions.append(f"the test records in {tests} are public, by declaration")
    return tuple(conditions)
