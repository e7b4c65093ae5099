"""The data of a command: a data set by name, a table, or numbers that describe the records."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit import checks
from tacit.datasets import FACTS, Dataset, load, names
from tacit.errors import InputError
from tacit.problems import LOSSES, usage
from tacit.proposal import DataFacts, Named, TableFacts
from tacit.tables import (
    Bounds,
    Source,
    Table,
    encoded_names,
    encoded_norm,
    load_table,
    read_bounds,
)
from tacit.typing import Task


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The options of `tacit train` for tables only; None if not given."""

    target: str | None
    bounds: Path | None
    agent_column: str | None
    test: Path | None


def is_table(data: str) -> bool:
    """Whether `data` names a file or folder; the name of a data set always wins."""
    if data in names():
        return False
    path = Path(data)
    return len(path.parts) != 1 or path.suffix in {".csv", ".parquet"} or os.path.exists(path)


def load_data(data: str, options: TableOptions, known: Bounds | None = None) -> Dataset | Table:
    """Return the data set of that name, or the user's table.

    Parameters
    ----------
    known
        The bounds that a proposal states, in place of a bounds file.

    Raises
    ------
    InputError
        If there is neither, or options for tables are given with a data set.
    """
    if is_table(data):
        target = options.target if known is None else known.target_name
        if target is None:
            raise InputError(
                f"no target is given; name the column to predict: --target COL, for {data}"
            )
        return load_table(Source(path=Path(data), **{**vars(options), "target": target}), known)
    given = [name for name, value in vars(options).items() if value is not None]
    dataset = load(data)
    if given:
        raise InputError(
            f"--{given[0].replace('_', '-')} is for tables of your own, and {data} is a bundled "
            "data set; leave the option out, or name a file"
        )
    return dataset


def check_oracle(
    dataset: Dataset | Table, *, oracle_metrics: bool, reference: bool, out: Any
) -> None:
    """Raise `InputError` unless metrics on private records go to a file of their own."""
    if oracle_metrics and dataset.public:
        raise InputError(
            f"the metrics of {dataset.name} are in its results, since the data set is published; "
            "leave --oracle-metrics out"
        )
    if oracle_metrics and out is None:
        raise InputError("--oracle-metrics writes a file into the report; add --out DIR")
    if reference and not dataset.public and not oracle_metrics:
        raise InputError(
            "the optimum without privacy is a function of private records; add --oracle-metrics, "
            "which writes it to a file of its own, or leave --reference out"
        )


@dataclass(frozen=True)
class PublicOptions:
    """The options of `tacit plan` that state public facts about the records; None if not given."""

    data: str | None
    records: int | None
    counts: str | None
    bounds: Path | None
    columns: int | None
    classes: int | None
    record_norm: float | None

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raise `InputError` if an option of these names was given."""
        for name in names:
            if getattr(self, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} {why}; leave it out")


def data_facts(options: PublicOptions, loss: Named | None) -> DataFacts:
    """Return the public facts about the records; no record is read.

    Raises
    ------
    InputError
        If a fact is missing, or contradicts another.
    """
    if options.data is not None:
        return _of_data_set(options, options.data)
    if options.bounds is not None:
        return _of_table(options, options.bounds)
    return _of_numbers(options, loss)


def _of_data_set(options: PublicOptions, name: str) -> DataFacts:
    if name not in FACTS:
        hint = "give --bounds FILE and --records, since planning reads no record"
        if not is_table(name):
            hint = f"there are: {', '.join(FACTS)}"
        raise InputError(f"no data set is called {name!r}; {hint}")
    options.refuse(("bounds", "columns", "classes", "record_norm"), f"follows from {name}")
    facts = FACTS[name]
    if facts.train_rows is None:
        if options.counts is None and options.records is None:
            raise InputError(
                f"only the files of {name} say which agent owns which record, and planning does "
                "not read them; give --counts"
            )
    else:
        options.refuse(("records", "counts"), f"follows from {name}")
    return DataFacts(
        name=name,
        task=facts.task,
        classes=facts.classes,
        columns=facts.columns,
        record_norm=facts.record_norm,
        table=None,
    )


def _of_table(options: PublicOptions, file: Path) -> DataFacts:
    options.refuse(("columns", "classes", "record_norm"), "follows from the bounds file")
    bounds = read_bounds(file)
    classes = None if bounds.labels is None else len(bounds.labels)
    return DataFacts(
        name=bounds.target_name,
        task=bounds.task,
        classes=classes,
        columns=len(encoded_names(bounds)),
        record_norm=encoded_norm(bounds),
        table=TableFacts.of(bounds),
    )


def _of_numbers(options: PublicOptions, loss: Named | None) -> DataFacts:
    for name, value in (("columns", options.columns), ("loss", loss)):
        if value is None:
            raise InputError(
                f"no {name} given; add --{name}, or --bounds FILE, or name a data set, which say it"
            )
    task = _task(loss)
    if (task == "multiclass") != (options.classes is not None):
        raise InputError(
            "--classes goes with --loss multinomial, which needs it, and with no other loss"
        )
    return DataFacts(
        name="numbers",
        task=task,
        classes=2 if task == "binary" else options.classes,
        columns=checks.at_least("columns", options.columns or 0, 1),
        record_norm=1.0
        if options.record_norm is None
        else checks.positive("record-norm", options.record_norm),
        table=None,
    )


def _task(loss: Named | None) -> Task:
    if loss is None or loss.name not in LOSSES:
        raise InputError(f"loss is {str(loss)!r}; choose from {usage(LOSSES)}")
    return LOSSES[loss.name].task


def counts_of(options: PublicOptions, agents: int | None, *, default: int) -> tuple[int, ...]:
    """Return the records of each agent: as given, or equal shares as `tacit train` deals them."""
    if options.counts is not None:
        if agents is not None or options.records is not None:
            raise InputError("--counts says agents and records; leave --agents and --records out")
        return whole_numbers("counts", options.counts)
    known = None if options.data is None else FACTS[options.data].train_rows
    records = known if options.records is None else checks.at_least("records", options.records, 1)
    if records is None:
        raise InputError("no records given; add --records, or --counts of each agent")
    agents = default if agents is None else agents
    if agents > records:
        raise InputError(
            f"{agents} agents cannot share {records} records; ask for at most {records}"
        )
    return tuple(records // agents + (agent < records % agents) for agent in range(agents))


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers above 0 in a text such as 10,50,200."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 20 for part in parts):
        raise InputError(f"--{option} is {text!r}; give whole numbers with commas, as in 10,50,200")
    return tuple(checks.at_least(option, int(part), 1) for part in parts)
