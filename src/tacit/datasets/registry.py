"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from tacit.datasets.adult import adult
from tacit.datasets.cifar import cifar10
from tacit.datasets.dataset import Dataset
from tacit.datasets.facts import PublicFacts, check_facts
from tacit.datasets.femnist import femnist
from tacit.datasets.idx import fashion_mnist, mnist
from tacit.datasets.libsvm import ijcnn1, mushrooms, w8a
from tacit.datasets.sklearn_sets import breast_cancer, digits
from tacit.errors import InputError

# a data set is its loader, and what is public of it without reading a record
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
    check_facts(dataset, facts)
    return dataset
