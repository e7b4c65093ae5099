"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from tacit.datasets.adult import adult
from tacit.datasets.cifar import cifar10
from tacit.datasets.dataset import Dataset
from tacit.datasets.facts import check_facts
from tacit.datasets.femnist import femnist
from tacit.datasets.idx import fashion_mnist, mnist
from tacit.datasets.libsvm import ijcnn1, mushrooms, w8a
from tacit.datasets.sklearn_sets import breast_cancer, digits
from tacit.errors import InputError

_LOADERS: Mapping[str, Callable[[], Dataset]] = MappingProxyType(
    {
        "adult": adult,
        "breast_cancer": breast_cancer,
        "digits": digits,
        "mnist": mnist,
        "fashion_mnist": fashion_mnist,
        "cifar10": cifar10,
        "femnist": femnist,
        "w8a": w8a,
        "mushrooms": mushrooms,
        "ijcnn1": ijcnn1,
    }
)


def names() -> tuple[str, ...]:
    """Return the names `load` knows.

    Examples
    --------
    >>> names()
    ('adult', 'breast_cancer', 'digits', 'mnist', 'fashion_mnist', 'cifar10', 'femnist',
     'w8a', 'mushrooms', 'ijcnn1')
    """
    return tuple(_LOADERS)


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
    if name not in _LOADERS:
        close = get_close_matches(name, names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"no data set is called {name!r}; {hint}there are: {', '.join(names())}")
    dataset = _LOADERS[name]()
    check_facts(dataset)
    return dataset
