"""Default features and loss against plain columns with the logistic loss, paired by split and seed.

    python -m bench.defaults [--splits N] [--tables FOLDER]

Data sets by name, and the clinical tables of `CLINICAL` whose CSV files are in a folder: those of
the packages lifelines and statsmodels. Ranges of their columns are rounded outwards from the file,
which a certificate would call conditional, and a fifth of the rows is the test part. Prints CSV:
mean test error and AUC of both, and the means of the paired differences with standard errors.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from taciturn.datasets import Dataset, load
from taciturn.problems import Named
from taciturn.tables import Bounds, Categories, Numeric, Source, Table, bounds_text, load_table
from taciturn.training import Assessment, Request, train_on

LOGISTIC = Named(name="logistic", numbers=())
# name: agents
SETS = {"adult": 100, "ijcnn1": 10, "mushrooms": 10, "w8a": 10, "breast_cancer": 1}
# name of the file: the target, and columns that are no predictors of it
CLINICAL = {
    "gbsg2": ("cens", ("time",)),
    "kidney_transplant": ("death", ("time",)),
    "lung": ("status", ("time", "inst")),
    # what was measured after the treatment began is no predictor
    "ACTG175": ("cens", ("Unnamed: 0", "pidnum", "days", "offtrt", "cd420", "cd496", "r", "cd820")),
    "randhie": ("mdvis", ()),
}


class Cell(NamedTuple):
    """One comparison: error and AUC of columns and of the default, by split."""

    name: str
    rows: int
    observer: str
    epsilon: float
    features: str
    pairs: list[tuple[Assessment, Assessment]]

    def line(self) -> str:
        """Return a line of CSV, in percentage points."""
        errors = 100 * np.array([[one.error for one in pair] for pair in self.pairs])
        areas = np.array([[one.auc or math.nan for one in pair] for pair in self.pairs])
        known = f"{self.name},{self.rows},{self.observer},{self.epsilon:g},{self.features}"
        return f"{known},{_paired(errors, 2)},{_paired(areas, 4)}"


def _paired(values: np.ndarray, digits: int) -> str:
    """Return both means, the mean difference and its standard error."""
    gains = values[:, 1] - values[:, 0]
    spread = gains.std(ddof=1) / math.sqrt(len(gains))
    return ",".join(f"{n:.{digits}f}" for n in (*values.mean(axis=0), gains.mean(), spread))


HEAD = (
    "table,training rows,observer,epsilon,features,columns error %,default error %,difference,"
    "standard error,columns AUC,default AUC,difference,standard error"
)


def cells(splits: int, folder: Path | None) -> Iterator[Cell]:
    """Return the comparisons, at delta 1e-6 and replace-one, one after the other."""
    for name, agents in SETS.items():
        dataset = load(name)
        observers = ("messages",) if agents == 1 else ("messages", "sum")
        for observer in observers:
            yield _default(name, [dataset] * splits, agents, observer, 1.0)
    if folder is None:
        return
    for name in CLINICAL:
        tables = clinical_tables(folder, name, splits)
        for epsilon in (1.0, 5.0):
            yield _default(name, tables, 1, "messages", epsilon)


def _default(
    name: str, parts: Sequence[Dataset | Table], agents: int, observer: str, epsilon: float
) -> Cell:
    request = Request(epsilon=epsilon, delta=1e-6, observer=observer, centre=None)
    return compared(
        name, parts, agents, replace(request, features="columns", loss=LOGISTIC), request
    )


def compared(
    name: str, parts: Sequence[Dataset | Table], agents: int, before: Request, after: Request
) -> Cell:
    """Return the comparison of two requests, split by split."""
    pairs, rows, features = [], 0, "columns"
    for seed, part in enumerate(parts):
        runs = [
            train_on(part, replace(one, split_seed=seed), agents=agents, seed=seed)
            for one in (before, after)
        ]
        (scored, other) = (run.assessment for run in runs)
        assert scored is not None
        assert other is not None
        pairs.append((scored, other))
        rows, features = runs[1].proposal.records, runs[1].proposal.data.features or "columns"
    return Cell(name, rows, str(after.observer), after.epsilon, features, pairs)


def clinical_tables(folder: Path, name: str, splits: int) -> list[Table]:
    """Return the splits of a table of `CLINICAL`."""
    target, ignored = CLINICAL[name]
    (file,) = sorted(folder.rglob(f"{name}.csv"))[:1]
    frame = pd.read_csv(file).drop(columns=list(ignored)).dropna()
    frame[target] = np.where(frame[target] > frame[target].min(), "yes", "no")
    return [split_table(frame, target, split) for split in range(splits)]


def split_table(frame: pd.DataFrame, target: str, split: int) -> Table:
    """Return a table with a random fifth of its rows as test part."""
    order = np.random.default_rng(split).permutation(len(frame))
    held = len(frame) // 5
    columns = {name: _fact(frame[name]) for name in frame.columns if name != target}
    bounds = Bounds("public", target, Categories(("no", "yes")), columns, ())
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("train.csv", "test.csv", "bounds.toml")]
        frame.iloc[order[held:]].to_csv(files[0], index=False)
        frame.iloc[order[:held]].to_csv(files[1], index=False)
        files[2].write_text(bounds_text(bounds))
        return load_table(Source(path=files[0], target=target, bounds=files[2], test=files[1]))


def _fact(column: pd.Series) -> Numeric | Categories:
    """Return the values of a column of texts or of at most two numbers, else a range."""
    known = sorted(map(str, column.unique()))
    if column.dtype.kind not in "if" or len(known) <= 2:
        return Categories(tuple(known))
    low, high = float(column.min()), float(column.max())
    unit = 10.0 ** math.floor(math.log10(high - low))
    return Numeric(unit * math.floor(low / unit), unit * math.ceil(high / unit))


def print_cells(head: str, cells: Callable[[int, Path | None], Iterator[Cell]]) -> None:
    """Print comparisons as CSV, of the splits and the folder that the command line gives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--tables", type=Path)
    given = parser.parse_args()
    print(head)
    for cell in cells(given.splits, given.tables):
        print(cell.line(), flush=True)


def main() -> None:
    """Print the table as CSV."""
    print_cells(HEAD, cells)


if __name__ == "__main__":
    main()
