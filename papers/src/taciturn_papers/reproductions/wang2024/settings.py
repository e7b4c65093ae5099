"""The numbers of the paper, and how many of them a run takes up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from taciturn.network import Graph, Walk, cyclic_walk, network_named, uniform_walk
from taciturn_papers.as_published import Variant
from taciturn_papers.methods import balanced_walk
from taciturn_papers.reproductions.figure import Budget

DELTA, OUR_DELTA = 1e-3, 1e-5
SETS = ("ijcnn1", "mnist", "fashion_mnist", "cifar10")
LOSSES = ("linear", "logistic")
NAMES = {
    "ijcnn1": "ijcnn1",
    "mnist": "MNIST 0/1",
    "fashion_mnist": "Fashion T-shirt/trouser",
    "cifar10": "CIFAR-10 cat/dog",
}
NO_NOISE = Budget(math.inf, DELTA)
Bound = Literal["largest", "ones", "zero"]
WALKS = {"random": uniform_walk, "balanced": balanced_walk}


@dataclass(frozen=True)
class Scale:
    """How much is run, and with which numbers.

    Attributes
    ----------
    sets, losses
        Data sets, or FILE:TARGET; "linear" and "logistic".
    rival_sets
        Data sets on which sound methods other than RECAL are run.
    records
        The most training records of a data set.
    agents, network, walk
        Who takes part, on which graph, and how the token goes.
    hops
        Of RECAL; every other method sends as many numbers. With published ones, 2,400 are a PLF of
        300 by gossip; the paper's others, 500 and 2,000, are 4,000 and 16,000 hops.
    repetitions, published_repetitions
        Of the sound methods (noise and walk), and of those as published.
    budgets, equal, delta
        The paper's totals: of RECAL alone, and of all methods.
    our_totals, our_delta
        Of the table that we add.
    l1, l2
        Weights of |x|_1 and of |x|^2 / 2, small enough that the optimum is not 0.
    paper_l1, paper_l2
        The paper's weights.
    alpha, steps, gamma
        Published steps alpha gamma^t / (L + 1) for DP-RECAL, 1 / (L + 1) gamma^t for its rivals; L
        of the loss ("common"), or of each agent's records ("local", DP-RECAL only).
    bounds, decays
        Readings of c and R, on which the paper is silent; the first ones are the figures'. c: as
        large as any record allows, or the largest gradient of an f_i at ones or at 0.
    variant
        Reading A, B or C of Algorithm 1 (`as_published.dp_recal`).
    sizes, walks
        Numbers of agents, and of random walks, in Tables I to III.
    most_rounds
        When a run of Tables I to III is given up: rounds of gossip, and hops by 25.
    optimum_tol
        Residual of the non-private optimum.
    solver_rounds
        Of the ADMM whose agents solve a problem a round, on ijcnn1.
    images
        Data sets whose pictures are attacked (Figures 4, 7 and 8).
    """

    sets: tuple[str, ...]
    losses: tuple[str, ...]
    rival_sets: tuple[str, ...]
    records: int
    hops: int
    repetitions: int
    published_repetitions: int
    sizes: tuple[int, ...]
    walks: int
    most_rounds: int
    optimum_tol: float
    solver_rounds: int
    images: tuple[str, ...]
    agents: int = 8
    network: str = "ring"
    walk: Literal["random", "balanced", "cyclic"] = "random"
    budgets: tuple[float, ...] = (1.0, 5.0, 10.0)
    equal: float = 12.0
    delta: float = DELTA
    our_totals: tuple[float, ...] = (1.0,)
    our_delta: float = OUR_DELTA
    l1: float = 1e-5
    l2: float = 1e-3
    paper_l1: float = 0.5
    paper_l2: float = 0.5
    alpha: float = 1.8
    steps: Literal["common", "local"] = "common"
    gamma: float = 1.0
    bounds: tuple[Bound, ...] = ("largest", "ones", "zero")
    decays: tuple[float, ...] = (1.02, 1.0, 1.05, 1.1)
    variant: Variant = "A"

    @property
    def graph(self) -> Graph:
        """The network of all runs on data sets."""
        return network_named(self.network, self.agents)

    def walk_of(self, hops: int, seed: int) -> Walk:
        """Return the walk of one run."""
        if self.walk == "cyclic":
            return cyclic_walk(self.graph, hops)
        return WALKS[self.walk](self.graph, hops, seed=seed)

    @property
    def at_equal(self) -> Budget:
        """The budget of all methods."""
        return Budget(self.equal, self.delta)

    @property
    def paper_budgets(self) -> tuple[Budget, ...]:
        """The budgets of the paper's figures of DP-RECAL."""
        return tuple(Budget(total, self.delta) for total in self.budgets)

    @property
    def our_budgets(self) -> tuple[Budget, ...]:
        """The budgets of the table that we add."""
        return tuple(Budget(total, self.our_delta) for total in self.our_totals)


FULL = Scale(
    sets=SETS, losses=LOSSES, rival_sets=SETS[:2], records=40_000, hops=2400, repetitions=5,
    published_repetitions=5, sizes=(4, 8, 16, 32), walks=10, most_rounds=4000, optimum_tol=1e-6,
    solver_rounds=40, images=SETS[1:],
)  # fmt: skip
QUICK = Scale(
    sets=SETS[:2], losses=LOSSES, rival_sets=SETS[:1], records=1_600, hops=480, repetitions=3,
    published_repetitions=3, sizes=(4, 8), walks=4, most_rounds=400, optimum_tol=1e-5,
    solver_rounds=20, images=(),
)  # fmt: skip
