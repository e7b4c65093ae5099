"""What is public of each data set, stated without reading a record."""

from __future__ import annotations

from dataclasses import dataclass

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


def check_facts(dataset: Dataset, stated: PublicFacts) -> None:
    """Raise `DataError` if a data set that was read is not as the table says."""
    seen = PublicFacts(
        dataset.task,
        dataset.classes,
        dataset.features.shape[1],
        None if stated.train_rows is None else dataset.train_rows,
        dataset.record_norm,
    )
    if seen != stated:
        raise DataError(f"{dataset.name} was read as {seen}, and is stated as {stated}")
