"""The records that a command names: a data set, a table, or their public facts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from taciturn import checks, tables
from taciturn.cli.console import first_given
from taciturn.cli.outcome import Output
from taciturn.datasets import FACTS, Dataset, load
from taciturn.errors import InputError
from taciturn.problems import LOSSES, Named, usage
from taciturn.tables import Report
from taciturn.training import Counted, DataFacts, Division, count_data, count_files


def is_table(data: str) -> bool:
    """Whether `data` names a file or folder; the name of a data set always wins."""
    if data in FACTS:
        return False
    path = Path(data)
    named = path.suffix.lower() in tables.SUFFIXES or tables.is_spreadsheet(path)
    return len(path.parts) != 1 or named or os.path.exists(path)


def counted_records(
    name: str,
    options: dict[str, Any],
    output: Output,
    division: Callable[[bool], Division],
    bounds: tables.Bounds | None = None,
    report: Report | None = None,
) -> Counted:
    """Return the records of that name, counted but not read.

    The argument of `division` is whether they have owners; `bounds` are those of a proposal.
    """
    if is_table(name):
        check_output(output, public=False, name=name)
        files = tables.read_files(source_of(name, options, bounds), bounds, report)
        return count_files(division(files.owners is not None), files)
    dataset = loaded(name, options, output)
    return count_data(division(dataset.owners is not None), dataset)


def loaded(data: str, options: Mapping[str, Any], output: Output) -> Dataset:
    """Return the data set of that name; `InputError` for an option of tables."""
    dataset, given = load(data), first_given(options)
    if given:
        raise InputError(
            f"{given} is for tables of your own, and {data} is a bundled data set; leave the "
            "option out, or name a file"
        )
    check_output(output, public=dataset.public, name=dataset.name)
    return dataset


def check_output(output: Output, *, public: bool, name: str) -> None:
    """Raise `InputError` for results that records, public or private, do not have."""
    oracle = output.oracle_metrics
    if oracle and public:
        raise InputError(
            f"the metrics of {name} are in its results, since the data set is published; "
            "leave --oracle-metrics out"
        )
    if oracle and output.out is None:
        raise InputError("--oracle-metrics writes a file into the report; add --out DIR")
    if output.reference and not public and not oracle:
        raise InputError(
            "the optimum without privacy is a function of private records; add --oracle-metrics, "
            "which writes it to a separate file, or leave --reference out"
        )


def source_of(data: str, options: dict[str, Any], known: tables.Bounds | None) -> tables.Source:
    """Return the files of a table; its target, unless bounds are known, must be named."""
    tables.refuse_spreadsheet(Path(data))
    target = options["target"] if known is None else known.target_name
    if target is None:
        raise InputError(
            f"no target is given; name the column to predict: --target COL, for {data}"
        )
    return tables.Source(path=Path(data), **{**options, "target": target})


def _refuse(options: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    option = first_given(options, names)
    if option:
        raise InputError(f"{option} {why}; leave it out")


def data_facts(options: Mapping[str, Any], loss: Named | None) -> DataFacts:
    """Return the public facts that options of `taciturn plan` state; no record is read."""
    if options["data"] is not None:
        return _of_data_set(options, options["data"])
    if options["bounds"] is not None:
        _refuse(options, ("columns", "classes", "record_norm"), "follows from the bounds file")
        return DataFacts.of(tables.read_bounds(options["bounds"]))
    return _of_numbers(options, loss)


def _of_data_set(options: Mapping[str, Any], name: str) -> DataFacts:
    if name not in FACTS:
        tables.refuse_spreadsheet(Path(name))
        hint = "give --bounds FILE and --records, since planning reads no record"
        if not is_table(name):
            hint = f"there are: {', '.join(FACTS)}"
        raise InputError(f"no data set is called {name!r}; {hint}")
    _refuse(options, ("bounds", "columns", "classes", "record_norm"), f"follows from {name}")
    facts = FACTS[name]
    if facts.train_rows is not None:
        _refuse(options, ("records", "persons", "counts"), f"follows from {name}")
    elif first_given(options, ("counts", "records", "persons")) is None:
        raise InputError(
            f"only the files of {name} say which agent owns which record, and planning does "
            "not read them; give --counts"
        )
    return DataFacts(
        name=name,
        task=facts.task,
        classes=facts.classes,
        columns=facts.columns,
        record_norm=facts.record_norm,
        table=None,
        numbers=facts.numbers,
        picture=facts.picture,
    )


def _of_numbers(options: Mapping[str, Any], loss: Named | None) -> DataFacts:
    for name, value in (("columns", options["columns"]), ("loss", loss)):
        if value is None:
            raise InputError(
                f"no {name} given; add --{name}, or --bounds FILE, or name a data set, which say it"
            )
    norm = options["record_norm"]
    norm = 1.0 if norm is None else checks.positive("record-norm", norm)
    if loss is None or loss.name not in LOSSES:
        raise InputError(f"loss is {str(loss)!r}; choose from {usage(LOSSES)}")
    task = LOSSES[loss.name].task
    if (task == "multiclass") != (options["classes"] is not None):
        raise InputError(
            "--classes goes with --loss multinomial or bounded-multinomial, which need it, and no "
            "other loss"
        )
    return DataFacts(
        name="numbers",
        task=task,
        classes=2 if task == "binary" else options["classes"],
        columns=options["columns"],
        record_norm=norm,
        table=None,
    )


def counts_of(
    options: Mapping[str, Any], agents: int | None, *, default: int, rows_per_person: int | None
) -> tuple[int, ...]:
    """Return the records of each agent: as given, or equal shares as in `taciturn train`.

    Where persons are protected, their number is given or shared, and each has K places.
    """
    what, other = ("records", "persons") if rows_per_person is None else ("persons", "records")
    if options[other] is not None:
        how = "goes with --rows-per-person" if other == "persons" else "is given for persons"
        raise InputError(f"--{other} {how}; give --{what}, or --counts of each agent")
    places, given = rows_per_person or 1, options[what]
    if options["counts"] is not None:
        if agents is not None or given is not None:
            raise InputError(f"--counts says agents and {what}; leave --agents and --{what} out")
        return tuple(places * count for count in whole_numbers("counts", options["counts"]))
    name = options["data"]
    known = None if name is None else FACTS[name].train_rows
    if known is not None and rows_per_person is not None:
        raise InputError(
            f"nothing says which person a row of {name} is about; leave --rows-per-person "
            "out, or plan for a table of your own"
        )
    units = known if given is None else checks.at_least(what, given, 1)
    if units is None:
        raise InputError(f"no {what} given; add --{what}, or --counts of each agent")
    agents = default if agents is None else agents
    if agents > units:
        raise InputError(f"{agents} agents cannot share {units} {what}; ask for at most {units}")
    return tuple(places * (units // agents + (agent < units % agents)) for agent in range(agents))


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers above 0 in a text such as 10,50,200."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 20 for part in parts):
        raise InputError(f"--{option} is {text!r}; give whole numbers with commas, as in 10,50,200")
    return tuple(checks.at_least(option, int(part), 1) for part in parts)


def numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Return the numbers in a text such as 0.5,1,3; none without a text."""
    try:
        return () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--{option} is {text!r}; give numbers, as in 0.5,1,3") from None
