"""Divisions of rows among agents for experiments: by position, by value, or skewed by label.

**Guarantee.** None: a division that follows from the content or order of records reveals something
about them. For private records see `taciturn.kernel.records.random_partition`.
"""

from __future__ import annotations

import heapq

import numpy as np
from jaxtyping import Int, Shaped

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.records import check_sizes, rows_by_owner


def contiguous_partition(rows: int, agents: int) -> list[Int[np.ndarray, "_m"]]:
    """Return consecutive blocks of rows; sizes differ by at most one."""
    check_sizes(rows, agents)
    return list(np.array_split(np.arange(rows), agents))


def partition_by(values: Shaped[np.ndarray, "N"]) -> list[Int[np.ndarray, "_m"]]:
    """Return one part per distinct value, in sorted order of the values."""
    values = np.asarray(values)
    if values.ndim != 1 or not values.size:
        raise InputError(f"values have shape {values.shape}; give one value per row")
    _, owner = np.unique(values, return_inverse=True)
    return rows_by_owner(owner, int(owner.max()) + 1)


def dirichlet_partition(
    labels: Shaped[np.ndarray, "N"], agents: int, *, alpha: float, seed: int
) -> list[Int[np.ndarray, "_m"]]:
    """Return a label-skewed partition: small `alpha` gives each agent few labels.

    For each label a vector of shares is drawn from Dirichlet(alpha, ..., alpha) over the agents and
    the label's rows, in random order, are cut at the cumulative shares (Hsu, Qi and Brown 2019 draw
    it per agent instead; per label uses every row once). Then each agent without a row gets the
    first row of the agent with the most.
    """
    labels = np.asarray(labels)
    check_sizes(labels.size, agents)
    checks.positive("alpha", alpha)
    draws = np.random.default_rng(seed)
    owner = np.empty(labels.size, np.int64)
    for group in partition_by(labels):
        cuts = np.cumsum(draws.dirichlet(np.full(agents, float(alpha))))[:-1] * group.size
        owner[draws.permutation(group)] = np.searchsorted(
            cuts, np.arange(group.size) + 0.5, side="right"
        )
    return rows_by_owner(_without_empty(owner, agents), agents)


def _without_empty(owner: np.ndarray, agents: int) -> np.ndarray:
    """Return owners after every agent without a row has taken one from the agent with the most."""
    owner, sizes = owner.copy(), np.bincount(owner, minlength=agents)
    rows, first = np.argsort(owner, kind="stable"), np.cumsum(sizes) - sizes
    richest = [(-size, agent) for agent, size in enumerate(sizes.tolist())]
    heapq.heapify(richest)
    for agent in np.flatnonzero(sizes == 0):
        size, giver = richest[0]
        owner[rows[first[giver]]] = agent
        first[giver] += 1
        heapq.heapreplace(richest, (size + 1, giver))
    return owner
