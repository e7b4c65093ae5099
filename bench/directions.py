"""Models that are increasing or decreasing in some columns against free ones, paired by split.

    python -m bench.directions [--splits N] [--tables FOLDER]

Clinical tables as in `bench.defaults`, and Adult as a table of ten agents. Directions were chosen
from what the columns mean, before anything was computed. Prints CSV.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.defaults import Cell, clinical_tables, compared, print_cells, split_table
from taciturn.datasets import load
from taciturn.training import Request

DIRECTIONS: Mapping[str, Any] = {
    "gbsg2": {"increasing": ("pnodes", "tsize"), "decreasing": ("progrec", "estrec")},
    "kidney_transplant": {"increasing": ("age",)},
    "adult": {"increasing": ("education-num", "capital-gain", "hours-per-week")},
}
HEAD = (
    "table,training rows,observer,epsilon,features,free error %,directed error %,difference,"
    "standard error,free AUC,directed AUC,difference,standard error"
)


def adult() -> pd.DataFrame:
    """Return Adult with one column for each number and each list of categories."""
    dataset = load("adult")
    names, rows = dataset.feature_names, dataset.features
    columns: dict[str, Any] = {names[place]: rows[:, place] for place in dataset.numbers}
    lists: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if "=" in name:
            lists.setdefault(name.partition("=")[0], []).append(place)
    for name, places in lists.items():
        values = np.array([*(names[place].partition("=")[2] for place in places), "other"])
        known = rows[:, places] > 0.5
        columns[name] = values[np.where(known.any(1), known.argmax(1), len(places))]
    return pd.DataFrame({**columns, "rich": np.where(dataset.targets > 0, "yes", "no")})


def cells(splits: int, folder: Path | None) -> Iterator[Cell]:
    """Return the comparisons, at delta 1e-6 and replace-one, one after the other."""
    for name, directions in DIRECTIONS.items():
        if name == "adult":
            frame = adult()
            tables = [split_table(frame, "rich", split) for split in range(splits)]
        elif folder is not None:
            tables = clinical_tables(folder, name, splits)
        else:
            continue
        for features in ("columns", "hats:10"):
            for epsilon in (0.1, 1.0, 5.0):
                free = Request(epsilon=epsilon, delta=1e-6, features=features)
                agents = 10 if name == "adult" else 1
                yield compared(name, tables, agents, free, replace(free, **directions))


def main() -> None:
    """Print the table as CSV."""
    print_cells(HEAD, cells)


if __name__ == "__main__":
    main()
