"""The records of a reproduction: a published data set, or a file of the user's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from taciturn.datasets import Dataset, load
from taciturn.errors import DataError
from taciturn.tables import read_table
from taciturn.typing import HostArray

_TEST_SHARE = 0.1
_PUBLIC = (
    "every record is public: ranges and categories are taken from the file itself, and the seeds of"
    " the noise are given"
)


def dataset_named(name: str) -> Dataset:
    """Return a published data set, or the records of a file that is named FILE:TARGET.

    Of a file, numbers are scaled to [0, 1] by their least and largest value, words become one
    column for each value, and rows with an empty cell are left out. A target of two values is
    binary, -1 for the first in order; others are classes.

    **Guarantee.** None: a reproduction shows what it measures on the records without noise.

    Raises
    ------
    DataError
        If the file cannot be read, has no such column, or its target has fewer than two values.
    """
    file, colon, target = name.rpartition(":")
    if not colon:
        return load(name, interval="unit")
    table = read_table(Path(file))
    table = table[(table.fillna("") != "").all(axis=1)].reset_index(drop=True)
    if target not in table:
        raise DataError(f"{file} has no column {target!r}; name one of {', '.join(table.columns)}")
    labels, codes = np.unique(table.pop(target).astype(str), return_inverse=True)
    if len(labels) < 2:
        raise DataError(f"the target {target!r} has one value; a classifier needs two or more")
    features = pd.get_dummies(_numbers(table), dtype=float)
    rows = _unit(features.to_numpy(float))
    binary = len(labels) == 2
    return Dataset(
        name=name,
        title=Path(file).name,
        features=rows,
        targets=np.where(codes, 1.0, -1.0) if binary else codes.astype(np.int64),
        task="binary" if binary else "multiclass",
        classes=len(labels),
        feature_names=tuple(map(str, features.columns)),
        train_rows=len(rows) - int(_TEST_SHARE * len(rows)),
        public=True,
        licence="the user's",
        source=file,
        conditions=(_PUBLIC,),
        numbers=tuple(range(rows.shape[1])),
        interval="unit",
        labels=tuple(map(str, labels)),
    )


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every column of which all cells are numbers as numbers."""
    found = {}
    for column in table:
        numbers = pd.to_numeric(table[column], errors="coerce")
        found[column] = table[column].astype(str) if numbers.isna().any() else numbers
    return pd.DataFrame(found)


def _unit(rows: HostArray) -> HostArray:
    low, high = rows.min(axis=0), rows.max(axis=0)
    scaled: HostArray = (rows - low) / np.where(high > low, high - low, 1.0)
    return scaled
