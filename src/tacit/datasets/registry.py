"""Data sets by name, with public facts that are known without reading a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from tacit.datasets.adult import adult
from tacit.datasets.cifar import cifar10
from tacit.datasets.dataset import Dataset
from tacit.datasets.femnist import femnist
from tacit.datasets.idx import fashion_mnist, mnist
from tacit.datasets.libsvm import ijcnn1, mushrooms, w8a
from tacit.datasets.sklearn_sets import breast_cancer, digits
from tacit.errors import DataError, InputError
from tacit.typing import Task


@dataclass(frozen=True)
class PublicFacts:
    """The shape of a data set.

    Attributes
    ----------
    train_rows
        Records in the training part; None where only the files state them, and their owners.
    """

    task: Task
    classes: int | None
    columns: int
    train_rows: int | None
    record_norm: float = 1.0


# the loader of each data set, and its public facts
_DATA_SETS: Mapping[str, tuple[Callable[[], Dataset], PublicFacts]] = MappingProxyType(
    {
        "adult": (adult, PublicFacts("binary", 2, 104, 40_000)),
        "breast_cancer": (breast_cancer, PublicFacts("binary", 2, 30, 455)),
        "digits": (digits, PublicFacts("multiclass", 10, 64, 1_437)),
        "mnist": (mnist, PublicFacts("multiclass", 10, 784, 60_000)),
        "fashion_mnist": (fashion_mnist, PublicFacts("multiclass", 10, 784, 60_000)),
        "cifar10": (cifar10, PublicFacts("binary", 2, 3_072, 8_000)),
        "femnist": (femnist, PublicFacts("multiclass", 62, 784, None)),
        "w8a": (w8a, PublicFacts("binary", 2, 300, 24_875)),
        "mushrooms": (mushrooms, PublicFacts("binary", 2, 112, 4_062)),
        "ijcnn1": (ijcnn1, PublicFacts("binary", 2, 22, 49_990)),
    }
)
FACTS: Mapping[str, PublicFacts] = MappingProxyType(
    {name: facts for name, (_, facts) in _DATA_SETS.items()}
)


def names() -> tuple[str, ...]:
    """Return the names `load` knows.

    Examples
    --------
    >>> names()[:2]
    ('adult', 'breast_cancer')
    """
    return tuple(_DATA_SETS)


def load(name: str) -> Dataset:
    """Return the data set called `name`, read afresh and verified.

    Raises
    ------
    InputError
        If no data set has this name; the message lists those there are.
    DataError
        If its files are missing, cannot be downloaded, or are not the pinned ones.

    Examples
    --------
    >>> load("digits").classes
    10
    """
    if name not in _DATA_SETS:
        close = get_close_matches(name, names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"no data set is called {name!r}; {hint}there are: {', '.join(names())}")
    loader, facts = _DATA_SETS[name]
    dataset = loader()
    seen = PublicFacts(
        dataset.task,
        dataset.classes,
        dataset.features.shape[1],
        None if facts.train_rows is None else dataset.train_rows,
        dataset.record_norm,
    )
    if seen != facts:
        raise DataError(f"{name} was read as {seen}, and is stated as {facts}")
    return dataset
