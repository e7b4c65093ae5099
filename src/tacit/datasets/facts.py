"""What is public of each data set, stated without reading a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tacit.datasets.dataset import Dataset
from tacit.errors import DataError
from tacit.typing import Task


@dataclass(frozen=True)
class PublicFacts:
    """The shape of a data set.

    Attributes
    ----------
    train_rows
        Records in the training part; None where the files decide, and whose they are.
    """

    task: Task
    classes: int | None
    columns: int
    train_rows: int | None
    record_norm: float = 1.0


FACTS: Mapping[str, PublicFacts] = MappingProxyType(
    {
        "adult": PublicFacts("binary", 2, 104, 40_000),
        "breast_cancer": PublicFacts("binary", 2, 30, 455),
        "digits": PublicFacts("multiclass", 10, 64, 1_437),
        "mnist": PublicFacts("multiclass", 10, 784, 60_000),
        "fashion_mnist": PublicFacts("multiclass", 10, 784, 60_000),
        "cifar10": PublicFacts("binary", 2, 3_072, 8_000),
        "femnist": PublicFacts("multiclass", 62, 784, None),
        "w8a": PublicFacts("binary", 2, 300, 24_875),
        "mushrooms": PublicFacts("binary", 2, 112, 4_062),
        "ijcnn1": PublicFacts("binary", 2, 22, 49_990),
    }
)


def check_facts(dataset: Dataset) -> None:
    """Raise `DataError` if a data set that was read is not as the table says."""
    stated = FACTS[dataset.name]
    seen = PublicFacts(
        dataset.task,
        dataset.classes,
        dataset.features.shape[1],
        None if stated.train_rows is None else dataset.train_rows,
        dataset.record_norm,
    )
    if seen != stated:
        raise DataError(f"{dataset.name} was read as {seen}, and is stated as {stated}")
