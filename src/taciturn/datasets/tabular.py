"""Tabular data sets: those that scikit-learn ships, and those of the LIBSVM data page."""

from __future__ import annotations

import bz2
import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float

from taciturn.datasets.dataset import Dataset
from taciturn.datasets.fetch import RemoteFile, contents
from taciturn.datasets.pictures import pixel_names
from taciturn.errors import DataError
from taciturn.typing import HostArray

_MEASURES = (
    *("radius", "texture", "perimeter", "area", "smoothness"),
    *("compactness", "concavity", "concave points", "symmetry", "fractal dimension"),
)

_PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_SHA256 = {
    "w8a.gz": "bbb05ebf2874051515c57bb657ee66dfa1cec7293005d6bc0eaf255d45d9befb",
    "mushrooms.gz": "c6170f9d3de835051acced088f85c13c96d23038d950b31684d793d5c7be21bd",
    "ijcnn1.bz2": "450dee8470b168e47b9fae1fc160396b8a809c675737837fce3acd51dcdc0481",
    "ijcnn1.t.bz2": "acd1db430684fdd3f0c768ecc49aa8e749d0004fc117611220c2aa576a7b6a24",
}


def breast_cancer() -> Dataset:
    r"""Return the 569 records of Breast Cancer Wisconsin, 30 columns, +1 benign, -1 malignant.

    Column d is scaled to :math:`(x_d - a_d) / (b_d - a_d)` in [0, 1], where a_d and b_d are its
    smallest and largest published value, *taken as* public (see `conditions`).
    """
    table = shipped("breast_cancer.csv", shape=(569, 31), header=1)
    x = table[:, :-1]
    low, high = x.min(axis=0), x.max(axis=0)
    return Dataset(
        name="breast_cancer",
        title="Breast Cancer Wisconsin (diagnostic)",
        features=(x - low) / (high - low),
        targets=2.0 * table[:, -1] - 1.0,
        task="binary",
        classes=2,
        feature_names=tuple(
            form.format(measure)
            for form in ("mean {}", "{} error", "worst {}")
            for measure in _MEASURES
        ),
        train_rows=455,
        public=True,
        licence="CC BY 4.0",
        source="Wolberg et al. (1993), UCI, doi 10.24432/C5DW2B, as shipped with scikit-learn",
        conditions=(
            "each column's smallest and largest value are computed from the records of the "
            "published data set and taken as public",
            "the number of records is public",
        ),
        numbers=tuple(range(x.shape[1])),
        interval="unit",
    )


def digits() -> Dataset:
    """Return the 1,797 handwritten digits of 8 x 8 pixels, divided by 16, in ten classes."""
    table = shipped("digits.csv.gz", shape=(1797, 65), header=0)
    return Dataset(
        name="digits",
        title="Optical recognition of handwritten digits",
        features=table[:, :-1] / 16.0,
        targets=table[:, -1].astype(np.int64),
        task="multiclass",
        classes=10,
        feature_names=pixel_names(8),
        train_rows=1437,
        public=True,
        licence="CC BY 4.0",
        source="Alpaydin and Kaynak (1998), UCI, doi 10.24432/C50P49, as shipped with scikit-learn",
        conditions=(
            "the pixel range 0 to 16 is that of the published description",
            "the number of images and the ten classes are public",
        ),
        numbers=tuple(range(64)),
        interval="unit",
        picture=(8, 8, 1),
    )


def shipped(name: str, *, shape: tuple[int, int], header: int) -> Float[HostArray, "N C"]:
    """Return a table of numbers that scikit-learn ships; `DataError` if its shape is another."""
    # located, not imported: importing scikit-learn takes more than a second
    spec = find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("scikit-learn is not installed and carries this data set; install it")
    path = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / name
    advice = "reinstall scikit-learn 1.5 or later"
    try:
        table = np.loadtxt(path, delimiter=",", skiprows=header)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__}); {advice}") from error
    if table.shape != shape:
        raise DataError(f"{path} holds {table.shape} numbers; {shape} are needed; {advice}")
    return table


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
