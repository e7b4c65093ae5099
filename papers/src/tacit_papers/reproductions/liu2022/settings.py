"""The numbers of the paper, and how many of them a run takes up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DELTA, CLIP = 5e-4, 0.5
LASSO_WEIGHT = 1e-4
# of the graph: learned from that share of the training records, at the first weight that joins any
PUBLIC_SHARE, GRAPH_WEIGHTS = 0.1, (0.4, 0.2, 0.1, 0.05)
OPTIMUM_TOL = 1e-3
ROUNDS = 200  # of the noisy gradient

Kind = Literal["fused", "ridge", "lasso"]


@dataclass(frozen=True)
class Data:
    """A row of Table II: batch on average, weight of the l1 norm, and of the ridge of Figure 3."""

    name: str
    batch: int
    weight: float
    ridge: float
    in_paper: bool


W8A = Data("w8a", 20, 1e-4, 1e-5, in_paper=True)
MUSHROOMS = Data("mushrooms", 10, 1e-5, 1e-5, in_paper=True)
IJCNN1 = Data("ijcnn1", 20, 1e-4, 1e-5, in_paper=False)
ADULT = Data("adult", 20, 1e-4, 1e-5, in_paper=False)


@dataclass(frozen=True)
class Setting:
    """How much is run.

    Attributes
    ----------
    seeds
        Repetitions with noise and batches of their own.
    epochs
        Of 2 n / b steps each.
    records
        At most so many training records.
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
QUICK = Setting(data=(ADULT,), budgets=(0.2, 1.0), seeds=3, epochs=1, records=2_000)
