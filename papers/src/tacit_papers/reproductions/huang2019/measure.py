"""Oracle metrics of runs: they look at the records without noise."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacit.datasets import Dataset, split
from tacit.problems import Problem, Shard, Shards, pack, random_partition
from tacit.typing import Array


@dataclass(frozen=True)
class Records:
    """One repetition's records: shared out among agents, and a test part."""

    shards: Shards
    test: Shard


def records(dataset: Dataset, rows: int, agents: int, *, seed: int) -> Records:
    """Return `rows` training records dealt out at random, and all test records, by one seed."""
    parts = split(dataset, seed=seed)
    owners = random_partition(rows, agents, seed=seed)
    shards = pack(
        parts.train_features, parts.train_targets, owners,
        record_norm=dataset.record_norm, precision="float32", enforce="clip",
    )  # fmt: skip
    everything = [np.arange(len(parts.test_targets))]
    test = pack(
        parts.test_features, parts.test_targets, everything,
        record_norm=dataset.record_norm, precision="float32", enforce="clip",
    )  # fmt: skip
    return Records(shards, test.shard(0))


@jax.jit
def errors(problem: Problem, test: Shard, models: Float[Array, "B D"]) -> Float[Array, " B"]:
    """Return the fraction of wrong labels of every model on the test records."""
    margins = test.features @ models.T
    return jnp.mean(problem.loss.error(margins, test.targets[:, None]), axis=0)


@jax.jit
def losses(problem: Problem, data: Shard, iterates: Float[Array, "B A D"]) -> Float[Array, " B"]:
    """Return the empirical loss (1/n) sum_i (1/m_i) sum_j l(a_ij, b_ij, w_i), no regulariser.

    `iterates` holds a w_i for every agent; the same for all to measure one model.
    """
    values = jax.vmap(_local, (None, 0, 1), 1)(problem, data, iterates)
    return jnp.mean(values, axis=1)


@jax.jit
def augmented(
    problem: Problem,
    data: Shard,
    iterates: Float[Array, "T A D"],
    publics: Float[Array, "T D"],
    rho: float,
) -> Float[Array, " T"]:
    """Return sum_i (f_i(wbar_i^k) + rho |wbar_i^k - wbar^k|) after every round k.

    wbar are means over the rounds so far; f_i has the regulariser, as in section V of the paper.
    The means of a non-smooth method start one round earlier, at w_i^0: hand over the iterates
    shifted by one round then.
    """
    rounds = jnp.arange(1, len(publics) + 1, dtype=publics.dtype)
    own = jnp.cumsum(iterates, axis=0) / rounds[:, None, None]
    shared = jnp.cumsum(publics, axis=0) / rounds[:, None]
    values = jax.vmap(_local, (None, 0, 1), 1)(problem, data, own)
    values = values + jax.vmap(jax.vmap(problem.regulariser.value))(own)
    apart = jnp.linalg.norm(own - shared[:, None], axis=-1)
    return jnp.sum(values + rho * apart, axis=1)


def _local(problem: Problem, shard: Shard, models: Float[Array, "B D"]) -> Float[Array, " B"]:
    """Return the mean loss of one agent's records at every model; the mask counts them."""
    values = problem.loss.value(shard.features @ models.T, shard.targets[:, None])
    total: Array = shard.mask @ values
    return total / jnp.sum(shard.mask)
