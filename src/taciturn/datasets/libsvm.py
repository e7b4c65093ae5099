"""Binary problems from the LIBSVM data page: w8a, mushrooms and ijcnn1."""

from __future__ import annotations

import bz2
import gzip

import numpy as np

from taciturn.datasets.dataset import Dataset
from taciturn.datasets.fetch import RemoteFile, contents
from taciturn.typing import HostArray

_PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_SHA256 = {
    "w8a.gz": "bbb05ebf2874051515c57bb657ee66dfa1cec7293005d6bc0eaf255d45d9befb",
    "mushrooms.gz": "c6170f9d3de835051acced088f85c13c96d23038d950b31684d793d5c7be21bd",
    "ijcnn1.bz2": "450dee8470b168e47b9fae1fc160396b8a809c675737837fce3acd51dcdc0481",
    "ijcnn1.t.bz2": "acd1db430684fdd3f0c768ecc49aa8e749d0004fc117611220c2aa576a7b6a24",
}


def w8a() -> Dataset:
    """Return w8a: 49,749 records of 300 binary columns, 3 % of them positive; half for training.

    Source: Platt (1998).
    """
    x, y = _parsed("w8a.gz", 300)
    return _dataset("w8a", x, y, train_rows=-(-len(y) // 2))


def mushrooms() -> Dataset:
    """Return mushrooms: 8,124 records of 112 binary columns; half for training.

    Label 1 is -1 here and label 2 is 1. Source: UCI, through the LIBSVM data page.
    """
    x, y = _parsed("mushrooms.gz", 112)
    return _dataset("mushrooms", x, 2 * y - 3, train_rows=len(y) // 2)


def ijcnn1() -> Dataset:
    """Return ijcnn1: 49,990 training and 91,701 test records of 22 columns, 10 % positive.

    Source: Prokhorov (2001), through the LIBSVM data page.
    """
    (x, y), (test_x, test_y) = _parsed("ijcnn1.bz2", 22), _parsed("ijcnn1.t.bz2", 22)
    features, targets = np.concatenate([x, test_x]), np.concatenate([y, test_y])
    return _dataset("ijcnn1", features, targets, train_rows=len(y), fixed_test=True)


def _parsed(name: str, columns: int) -> tuple[HostArray, HostArray]:
    """Return features and labels of lines "label column:value ...", columns counted from 1."""
    packed = contents(RemoteFile(name.split(".", maxsplit=1)[0], name, _PAGE + name, _SHA256[name]))
    text = gzip.decompress(packed) if name.endswith(".gz") else bz2.decompress(packed)
    table = [line.replace(b":", b" ").split() for line in text.split(b"\n") if line.strip()]
    labels = np.array([float(cells[0]) for cells in table])
    features = np.zeros((len(table), columns))
    for row, cells in zip(features, table, strict=True):
        row[np.array(cells[1::2], dtype=int) - 1] = np.array(cells[2::2], dtype=float)
    return features, labels


def _dataset(
    name: str, features: HostArray, targets: HostArray, *, train_rows: int, fixed_test: bool = False
) -> Dataset:
    return Dataset(
        name=name,
        title=f"{name} (LIBSVM)",
        features=features,
        targets=targets,
        task="binary",
        classes=2,
        feature_names=tuple(f"column_{i + 1}" for i in range(features.shape[1])),
        train_rows=train_rows,
        fixed_test=fixed_test,
        public=True,
        licence="as published on the LIBSVM data page",
        source=_PAGE,
        conditions=(
            "records are clipped to norm 1, each by itself",
            "the encoding of the columns is taken as published, and as public",
        ),
    )
