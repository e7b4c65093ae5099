"""The records that a command names: a data set, or the files of a table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taciturn.cli.outcome import Output
from taciturn.datasets import FACTS, Dataset, load
from taciturn.errors import InputError
from taciturn.proposal import Proposal
from taciturn.tables import (
    SUFFIXES,
    Bounds,
    Files,
    Source,
    Table,
    is_spreadsheet,
    read_files,
    refuse_spreadsheet,
    table_of,
)
from taciturn.training import storage_precision
from taciturn.typing import Precision


def is_table(data: str) -> bool:
    """Whether `data` names a file or folder; the name of a data set always wins."""
    if data in FACTS:
        return False
    path = Path(data)
    named = path.suffix.lower() in SUFFIXES or is_spreadsheet(path)
    return len(path.parts) != 1 or named or os.path.exists(path)


def loaded(
    data: str,
    options: dict[str, Any],
    output: Output,
    known: Bounds | None = None,
    *,
    ahead: Callable[[Files], Proposal] | None = None,
) -> Dataset | Table:
    """Return the data set, or the user's table with the bounds that a proposal states, if any.

    Where `ahead` says what will run, the rows of a table are kept as it needs them.
    """
    dataset: Dataset | Table | None = _data_set(data, options)
    if dataset is None:
        files = read_files(source_of(data, options, known), known, output.reading)
        precision: Precision = "float64"
        if ahead is not None:
            precision = storage_precision(ahead(files), files.source)
        dataset = table_of(files, precision=precision, report=output.reading)
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
            "which writes it to a file of its own, or leave --reference out"
        )


def source_of(data: str, options: dict[str, Any], known: Bounds | None) -> Source:
    """Return what is said of a table; its target, unless bounds are known, must be named."""
    refuse_spreadsheet(Path(data))
    target = options["target"] if known is None else known.target_name
    if target is None:
        raise InputError(
            f"no target is given; name the column to predict: --target COL, for {data}"
        )
    return Source(path=Path(data), **{**options, "target": target})


def _data_set(data: str, options: dict[str, Any]) -> Dataset | None:
    if is_table(data):
        return None
    given = [name for name, value in options.items() if value is not None]
    dataset = load(data)
    if given:
        raise InputError(
            f"--{given[0].replace('_', '-')} is for tables of your own, and {data} is a bundled "
            "data set; leave the option out, or name a file"
        )
    return dataset
