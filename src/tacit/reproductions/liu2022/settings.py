"""What is run: data, budgets, seeds and epochs."""

from __future__ import annotations

from dataclasses import dataclass

DELTA, CLIP = 5e-4, 0.5
LASSO_WEIGHT = 1e-4
PUBLIC_SHARE, GRAPH_WEIGHT = 0.1, 0.4
STRENGTHS = (2.0, 3.0)


@dataclass(frozen=True)
class Data:
    """A row of Table II: batch on average, weight of the l1 norm, and of the ridge of Figure 3."""

    name: str
    batch: int
    weight: float
    ridge: float


W8A = Data("w8a", 20, 1e-4, 1e-5)
MUSHROOMS = Data("mushrooms", 10, 1e-5, 1e-5)
# not in Table II: our choice, for covtype and bio-train, which are not at hand
IJCNN1 = Data("ijcnn1", 20, 1e-4, 1e-5)
ADULT = Data("adult", 20, 1e-4, 1e-5)


@dataclass(frozen=True)
class Setting:
    """How much is run.

    Attributes
    ----------
    records
        At most so many training records.
    epochs
        Of 2 n / b inner steps each.
    """

    data: tuple[Data, ...]
    budgets: tuple[float, ...]
    seeds: int
    epochs: int
    records: int


FULL = Setting(
    data=(W8A, MUSHROOMS, IJCNN1, ADULT),
    budgets=(0.05, 0.1, 0.2, 0.4, 0.8, 1.0),
    seeds=10,
    epochs=3,
    records=25_000,
)
QUICK = Setting(data=(MUSHROOMS,), budgets=(1.0,), seeds=3, epochs=1, records=600)
