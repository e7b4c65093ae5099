"""Ways to share rows among agents; every row goes to exactly one of them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, Shaped

from tacit import checks
from tacit.errors import InputError


def random_partition(rows: int, agents: int, *, seed: int) -> list[Int[np.ndarray, "_m"]]:
    """Return a uniformly random partition; sizes differ by at most one, indices are sorted.

    Raises
    ------
    InputError
        If there are fewer rows than agents, or no agent.
    """
    _check_sizes(rows, agents)
    shuffled = np.random.default_rng(seed).permutation(rows)
    return [np.sort(part) for part in np.array_split(shuffled, agents)]


def contiguous_partition(rows: int, agents: int) -> list[Int[np.ndarray, "_m"]]:
    """Return consecutive blocks of rows; sizes differ by at most one.

    Raises
    ------
    InputError
        If there are fewer rows than agents, or no agent.

    Examples
    --------
    >>> [part.tolist() for part in contiguous_partition(5, 2)]
    [[0, 1, 2], [3, 4]]
    """
    _check_sizes(rows, agents)
    return list(np.array_split(np.arange(rows), agents))


def partition_by(values: Shaped[np.ndarray, "N"]) -> list[Int[np.ndarray, "_m"]]:
    """Return one part per distinct value, in sorted order of the values.

    Raises
    ------
    InputError
        If there are no values or they are not a vector.

    Examples
    --------
    >>> [part.tolist() for part in partition_by(np.array(["b", "a", "b"]))]
    [[1], [0, 2]]
    """
    values = np.asarray(values)
    if values.ndim != 1 or not values.size:
        raise InputError(f"values have shape {values.shape}; give one value per row")
    _, owner = np.unique(values, return_inverse=True)
    return _by_owner(owner, int(owner.max()) + 1)


def dirichlet_partition(
    labels: Shaped[np.ndarray, "N"], agents: int, *, alpha: float, seed: int
) -> list[Int[np.ndarray, "_m"]]:
    """Return a label-skewed partition: small `alpha` gives each agent few labels.

    For each label a vector of shares is drawn from Dirichlet(alpha, ..., alpha) over the agents
    and the label's rows, in random order, are cut at the cumulative shares (Hsu, Qi and Brown
    2019 draw it per agent instead; per label uses every row once). Then each agent
    without a row takes one from the agent who holds most.

    Raises
    ------
    InputError
        If there are fewer rows than agents, no agent, or alpha is not above 0.
    """
    labels = np.asarray(labels)
    _check_sizes(labels.size, agents)
    checks.positive("alpha", alpha)
    draws = np.random.default_rng(seed)
    owner = np.empty(labels.size, np.int64)
    for group in partition_by(labels):
        cuts = np.cumsum(draws.dirichlet(np.full(agents, float(alpha))))[:-1] * group.size
        owner[draws.permutation(group)] = np.searchsorted(
            cuts, np.arange(group.size) + 0.5, side="right"
        )
    return _by_owner(_without_empty(owner, agents), agents)


def _without_empty(owner: np.ndarray, agents: int) -> np.ndarray:
    owner = owner.copy()
    for agent in np.flatnonzero(np.bincount(owner, minlength=agents) == 0):
        richest = np.bincount(owner, minlength=agents).argmax()
        owner[np.flatnonzero(owner == richest)[0]] = agent
    return owner


def _by_owner(owner: np.ndarray, agents: int) -> list[np.ndarray]:
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=agents))[:-1])


def _check_sizes(rows: int, agents: int) -> None:
    checks.at_least("agents", agents, 1)
    if agents > rows:
        raise InputError(f"{agents} agents but {rows} rows; ask for at most {rows} agents")
