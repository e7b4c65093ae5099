"""The numbers of the paper, and how many of them a run takes up."""

from __future__ import annotations

from dataclasses import dataclass

from taciturn_papers.reproductions.figure import Budget

AGENTS = 8
DELTA, BUDGETS, EQUAL = 1e-3, (1.0, 5.0, 10.0), 12.0
OUR_DELTA, OUR_TOTALS = 1e-5, (1.0, 3.0)
PUBLISHED = (0.5, 0.5)  # weights of |x|_1 and of |x|^2 / 2
OURS = (1e-5, 1e-3)  # smaller, so that the optimum is not 0
DECAY = 1.02  # R of the noise; the paper does not say
SETS = ("ijcnn1", "mnist", "fashion_mnist", "cifar10")
LOSSES = ("linear", "logistic")
NAMES = {
    "ijcnn1": "ijcnn1",
    "mnist": "MNIST 0/1",
    "fashion_mnist": "Fashion T-shirt/trouser",
    "cifar10": "CIFAR-10 cat/dog",
}


@dataclass(frozen=True)
class Scale:
    """How much is run.

    Attributes
    ----------
    sets, losses
        Data sets, and "linear" and "logistic".
    records
        The most training records of a data set.
    hops
        Of RECAL; every other method sends as many numbers.
    repetitions, published_repetitions
        Of the sound methods (noise and walk), and of those as published.
    sizes
        Numbers of agents in Tables I to III.
    most_rounds
        When a run of Tables I to III is given up: rounds of gossip, and hops by 10.
    optimum_tol
        Residual of the non-private optimum.
    solver_rounds
        Of the ADMM whose agents solve a problem a round, on ijcnn1.
    images
        Data sets whose pictures are attacked (Figures 4, 7 and 8).
    """

    sets: tuple[str, ...]
    losses: tuple[str, ...]
    records: int
    hops: int
    repetitions: int
    published_repetitions: int
    sizes: tuple[int, ...]
    most_rounds: int
    optimum_tol: float
    solver_rounds: int
    images: tuple[str, ...]


FULL = Scale(
    sets=SETS, losses=LOSSES, records=40_000, hops=2400, repetitions=3, published_repetitions=2,
    sizes=(4, 8, 16, 32), most_rounds=4000, optimum_tol=1e-6, solver_rounds=40, images=SETS[1:],
)  # fmt: skip
QUICK = Scale(
    sets=SETS[:2], losses=LOSSES, records=1_600, hops=480, repetitions=2, published_repetitions=1,
    sizes=(4, 8), most_rounds=2000, optimum_tol=1e-5, solver_rounds=20, images=(),
)  # fmt: skip


NO_NOISE = Budget(float("inf"), DELTA)
AT_TWELVE = Budget(EQUAL, DELTA)


def paper_budgets() -> tuple[Budget, ...]:
    """Return the budgets of the paper's figures."""
    return tuple(Budget(total, DELTA) for total in BUDGETS)


def our_budgets() -> tuple[Budget, ...]:
    """Return the budgets of the table that we add."""
    return tuple(Budget(total, OUR_DELTA) for total in OUR_TOTALS)
