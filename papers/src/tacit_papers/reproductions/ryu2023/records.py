"""The records of one data set, dealt out to agents; objective and test error of models."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacit.datasets import load
from tacit.problems import (
    Box,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Shard,
    Shards,
    pack,
    random_partition,
)
from tacit.typing import Array, HostArray
from tacit_papers.reproductions.ryu2023.settings import AGENTS, BOX, RECORD_NORM, Learning

_BATCH = 8  # models that are measured at a time


@dataclass(frozen=True)
class Records:
    """One data set: the problem, the agents' records, a test part.

    Attributes
    ----------
    shortened
        The share of training records that the norm bound scaled down.
    title
        Of the data set.
    """

    data: str
    title: str
    problem: Problem
    shards: Shards
    test: Shard
    shortened: float

    @property
    def box(self) -> float:
        """Largest absolute value of a weight, u."""
        return BOX[self.data]

    @property
    def size(self) -> int:
        """Number of weights, n."""
        outputs = self.problem.loss.outputs or 1
        return self.shards.dimension * outputs


def records(run: Learning) -> Records:
    """Return the records of a run: MNIST dealt out at random, FEMNIST by writer."""
    dataset = load(run.data)
    if dataset.owners is None:
        owners = random_partition(run.records or dataset.train_rows, AGENTS, seed=0)
    else:
        owners = list(dataset.owners[: run.writers])
    used = np.concatenate(owners)
    everyone = [np.arange(dataset.train_rows, len(dataset.targets))]
    trained, tested = (
        pack(dataset.features, dataset.targets, parts,
             record_norm=RECORD_NORM, precision="float32", enforce="clip")
        for parts in (owners, everyone)
    )  # fmt: skip
    u = BOX[run.data]
    return Records(
        data=run.data,
        title=dataset.title,
        problem=Problem(MultinomialLogistic(dataset.classes or 2), NoRegulariser(), Box(-u, u)),
        shards=trained,
        test=tested.shard(0),
        shortened=float(np.mean(np.linalg.norm(dataset.features[used], axis=1) > RECORD_NORM)),
    )


def scores(one: Records, models: Float[Array, "N D K"]) -> tuple[HostArray, HostArray]:
    """Return (6.3) summed over agents, the mean loss of all records, and test errors in per cent.

    Both are `(N,)`.
    """
    found = _scores(one.problem, one.shards.stacked, one.test, models)
    return np.asarray(found[0]), 100 * np.asarray(found[1])


@jax.jit
def _scores(
    problem: Problem, data: Shard, test: Shard, models: Float[Array, "N D K"]
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    def one(model: Float[Array, "D K"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        values = problem.loss.value(data.features @ model, data.targets)
        loss = jnp.sum(data.mask * values) / jnp.sum(data.mask)
        return loss, jnp.mean(problem.loss.error(test.features @ model, test.targets))

    found: tuple[Array, Array] = jax.lax.map(one, models, batch_size=_BATCH)
    return found
