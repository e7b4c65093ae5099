"""Encoded targets of an estimator."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Num

from tacit.proposal import DataFacts, Named
from tacit.typing import HostArray, Task


class Targets(NamedTuple):
    """Encoded targets, and the map from scores of the encoded problem to the user's units.

    Attributes
    ----------
    values
        (N,): -1 and 1, class numbers, or numbers in [-1, 1].
    loss
        The loss that suits them.
    scale, offset
        A score z of the encoded problem is `offset + scale * z` in the user's units.
    labels
        The classes in the order of the scores, sorted; None for a regression.
    public
        Whether labels or range were given; False if they were read off the records.
    """

    values: Num[HostArray, "N"]
    loss: Named
    scale: float
    offset: float
    labels: HostArray | None
    public: bool

    def facts(self, *, columns: int, record_norm: float) -> DataFacts:
        """Return the public facts about records of so many encoded columns."""
        classes = None if self.labels is None else len(self.labels)
        task: Task = "regression"
        if classes is not None:
            task = "binary" if classes == 2 else "multiclass"
        return DataFacts(
            name="records",
            task=task,
            classes=classes,
            columns=columns,
            record_norm=record_norm,
            table=None,
        )
