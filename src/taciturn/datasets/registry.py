"""Data sets by name, with their loaders and public facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import get_args

from taciturn.datasets.adult import adult
from taciturn.datasets.dataset import Dataset, centred
from taciturn.datasets.pictures import cifar10, fashion_mnist, femnist, mnist
from taciturn.datasets.tabular import breast_cancer, digits, ijcnn1, mushrooms, w8a
from taciturn.errors import DataError, InputError
from taciturn.typing import Interval, Task


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
