"""Data sets by name with public facts, and loaders of tabular ones: scikit-learn, LIBSVM."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import get_args

import numpy as np
from jaxtyping import Float

from taciturn.datasets.adult import adult
from taciturn.datasets.dataset import Dataset, centred
from taciturn.datasets.fetch import RemoteFile, contents
from taciturn.datasets.pictures import cifar10, fashion_mnist, femnist, mnist, pixel_names
from taciturn.errors import DataError, InputError
from taciturn.typing import HostArray, Interval, Task

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
    smallest and largest published value, *assumed* public (see `conditions`).
    """
    table = _table("breast_cancer.csv", shape=(569, 31), header=1)
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
    table = _table("digits.csv.gz", shape=(1797, 65), header=0)
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


def _table(name: str, *, shape: tuple[int, int], header: int) -> Float[HostArray, "N C"]:
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

    Labels 1 and 2 become -1 and 1. Source: UCI, through the LIBSVM data page.
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


@dataclass(frozen=True)
class PublicFacts:
    """The shape of a data set."""

    task: Task
    classes: int | None
    columns: int
    train_rows: int | None  # None if only the files state it
    # the default of `load`, by measurement (docs/reference/data-sets.md); None for columns as
    # published
    interval: Interval | None = "symmetric"
    record_norm: float = 1.0
    numbers: int = 0  # count of columns of numbers in [-1, 1]
    picture: tuple[int, int, int] | None = None


def _picture(
    classes: int, *picture: int, train_rows: int | None, interval: Interval = "symmetric"
) -> PublicFacts:
    height, width, channels = picture
    size = height * width * channels
    return PublicFacts(
        "binary" if classes == 2 else "multiclass", classes, size, train_rows, interval,
        numbers=size if interval == "symmetric" else 0, picture=(height, width, channels),
    )  # fmt: skip


_GREY = (28, 28, 1)
# the loader of each data set, and its public facts
_DATA_SETS: Mapping[str, tuple[Callable[[], Dataset], PublicFacts]] = MappingProxyType(
    {
        "adult": (adult, PublicFacts("binary", 2, 104, 40_000, numbers=6)),
        "breast_cancer": (breast_cancer, PublicFacts("binary", 2, 30, 455, numbers=30)),
        "digits": (digits, _picture(10, 8, 8, 1, train_rows=1_437)),
        "mnist": (mnist, _picture(10, *_GREY, train_rows=60_000, interval="unit")),
        "fashion_mnist": (fashion_mnist, _picture(10, *_GREY, train_rows=60_000)),
        "cifar10": (cifar10, _picture(2, 32, 32, 3, train_rows=8_000)),
        "femnist": (femnist, _picture(62, *_GREY, train_rows=None, interval="unit")),
        "w8a": (w8a, PublicFacts("binary", 2, 300, 24_875, None)),
        "mushrooms": (mushrooms, PublicFacts("binary", 2, 112, 4_062, None)),
        "ijcnn1": (ijcnn1, PublicFacts("binary", 2, 22, 49_990, None)),
    }
)
FACTS: Mapping[str, PublicFacts] = MappingProxyType(
    {name: facts for name, (_, facts) in _DATA_SETS.items()}
)


def names() -> tuple[str, ...]:
    """Return the names that `load` accepts."""
    return tuple(_DATA_SETS)


def load(name: str, *, interval: Interval | None = None) -> Dataset:
    """Return the data set called `name`, verified.

    `interval` is the image of the public ranges of numbers: "symmetric", [-1, 1], or "unit", [0,
    1]; None for that of `FACTS`. It has no effect on columns used as published. Raises `DataError`
    for files that are missing, cannot be downloaded, or are not the pinned ones.
    """
    if name not in _DATA_SETS:
        close = get_close_matches(name, names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"no data set is called {name!r}; {hint}there are: {', '.join(names())}")
    if interval not in {None, *get_args(Interval)}:
        raise InputError(
            f"interval is {interval!r}; choose from {', '.join(get_args(Interval))}, or None"
        )
    loader, facts = _DATA_SETS[name]
    interval = facts.interval and (interval or facts.interval)
    dataset = centred(loader()) if interval == "symmetric" else loader()
    seen = PublicFacts(
        dataset.task,
        dataset.classes,
        dataset.features.shape[1],
        None if facts.train_rows is None else dataset.train_rows,
        dataset.interval,
        dataset.record_norm,
        len(dataset.numbers) if dataset.interval == "symmetric" else 0,
        dataset.picture,
    )
    stated = replace(facts, interval=interval)
    if interval != facts.interval:  # the number of columns in [-1, 1] depends on the interval
        stated = replace(stated, numbers=seen.numbers)
    if seen != stated:
        raise DataError(f"{name} was read as {seen}, and is stated as {stated}")
    return dataset
