"""What `tacit train` does before training: which records, whose they are, what is asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.datasets import Dataset
    from tacit.tables import Table

DEFAULT_AGENTS = 10


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The options of `tacit train` that only tables have; None where not given."""

    target: str | None
    bounds: Path | None
    agent_column: str | None
    test: Path | None


def is_table(data: str) -> bool:
    """Whether `data` names a file or folder; the name of a data set always wins."""
    from tacit.datasets import names  # noqa: PLC0415 - start-up

    if data in names():
        return False
    path = Path(data)
    return len(path.parts) != 1 or path.suffix in {".csv", ".parquet"} or os.path.exists(path)


def load_data(data: str, options: TableOptions) -> Dataset | Table:
    """Return the data set of that name, or the user's table.

    Raises
    ------
    InputError
        If there is neither, or options for tables are given with a data set.
    """
    from tacit.datasets import load  # noqa: PLC0415 - start-up
    from tacit.tables import Source, load_table  # noqa: PLC0415 - start-up

    if is_table(data):
        if options.target is None:
            raise InputError(
                f"no target is given; name the column to predict: --target COL, for {data}"
            )
        return load_table(Source(path=Path(data), **{**vars(options), "target": options.target}))
    given = [name for name, value in vars(options).items() if value is not None]
    dataset = load(data)
    if given:
        raise InputError(
            f"--{given[0].replace('_', '-')} is for tables of your own, and {data} is a bundled "
            "data set; leave the option out, or name a file"
        )
    return dataset


def shares(dataset: Dataset | Table, agents: int | None, *, default: int = DEFAULT_AGENTS) -> int:
    """Return among how many agents the records lie, after checking what was asked.

    Raises
    ------
    InputError
        If records that have owners are to be dealt out, or there are fewer records than agents.
    """
    owners = dataset.owners
    if owners is not None:
        if agents is not None:
            raise InputError(
                f"the records belong to {len(owners)} agents already; leave --agents out"
            )
        return len(owners)
    count = default if agents is None else agents
    if count > dataset.train_rows:
        raise InputError(
            f"{count} agents cannot share {dataset.train_rows} training records; "
            f"ask for at most {dataset.train_rows}"
        )
    return count


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
