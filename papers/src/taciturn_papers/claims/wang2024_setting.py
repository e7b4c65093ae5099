"""A small ring of agents on which the claims of Wang et al. 2024 are decided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from taciturn.network import Walk, ring, uniform_walk
from taciturn.typing import HostArray

AGENTS, RECORDS, FEATURES, HOPS = 8, 40, 6, 400


@dataclass(frozen=True, eq=False)
class Ring:
    """Linear regression on synthetic rows of norm at most 1, features in [0, 1], targets +-1."""

    features: Float[HostArray, "A M D"]
    targets: Float[HostArray, "A M"]
    walk: Walk

    def gradient(self, agent: int, point: HostArray) -> HostArray:
        """Return the gradient of f_i(x) = mean_j (b_j'x - y_j)^2 / 2."""
        rows = self.features[agent]
        answer: HostArray = rows.T @ (rows @ point - self.targets[agent]) / len(rows)
        return answer


def small_ring(*, balanced: bool = True) -> Ring:
    """Return the ring; with `balanced` false most targets are 1, so that the optimum is not 0."""
    draw = np.random.default_rng(0)
    rows = draw.random((AGENTS, RECORDS, FEATURES)) / np.sqrt(FEATURES)
    share = 0.5 if balanced else 0.95
    targets = np.where(draw.random((AGENTS, RECORDS)) < share, 1.0, -1.0)
    return Ring(rows, targets, uniform_walk(ring(AGENTS), HOPS, seed=0))


def soft(ridge: float, lasso: float, v: HostArray) -> HostArray:
    """Return the prox of lasso |x|_1 + ridge/2 |x|_2^2."""
    cut: HostArray = np.sign(v) * np.maximum(np.abs(v) - lasso, 0) / (1 + ridge)
    return cut
