"""What `tacit train` does before training: which records, whose they are, what is asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.datasets import Dataset, load, names
from tacit.errors import InputError
from tacit.tables import Bounds, Source, Table, load_table


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The options of `tacit train` that only tables have; None where not given."""

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
    """Raise unless metrics on private records were asked for in a way that keeps them apart.

    Raises
    ------
    InputError
        With the fix.
    """
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
