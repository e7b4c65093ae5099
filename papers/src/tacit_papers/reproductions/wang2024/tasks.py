"""The eight tasks of the paper: four data sets, linear and logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacit.datasets import Dataset, load, split
from tacit.oracles import Gradient
from tacit.problems import (
    ElasticNet,
    Logistic,
    Problem,
    Shard,
    Shards,
    Squared,
    WholeSpace,
    minimise,
    pack,
    random_partition,
)
from tacit.typing import Array, HostArray
from tacit_papers.reproductions.wang2024.settings import AGENTS, OURS, PUBLISHED, Scale

# classes that become -1 and 1; None: the labels are -1 and 1 already
_PAIRS = {"ijcnn1": None, "mnist": (0, 1), "fashion_mnist": (0, 1), "cifar10": None}


@dataclass(frozen=True, eq=False)
class Task:
    """One data set with one loss.

    Attributes
    ----------
    loss
        "linear" or "logistic".
    problem, published
        With weights whose optimum is not 0, and with the paper's.
    clip
        Bound on a record's coefficient: reached by no record at the optimum.
    shards, whole
        The training records among the agents, and with one trusted holder.
    optimum, value
        Of `problem`, not private, and its objective there.
    slope
        |grad f(0)|_inf: the optimum of `published` is 0 iff it is at most its l1 weight.
    """

    name: str
    loss: str
    problem: Problem
    published: Problem
    clip: float
    shards: Shards
    whole: Shards
    test: Shard
    optimum: Float[HostArray, " D"]
    value: float
    slope: float

    @property
    def oracle(self) -> Gradient:
        """The question of all methods that follow gradients."""
        return Gradient(self.problem.loss, self.clip)


def task(name: str, loss: str, scale: Scale) -> Task:
    """Return a task; records, split and dealing out are the same every time."""
    dataset = _two_classes(name)
    parts = split(dataset, seed=0)
    rows = min(scale.records, len(parts.train_targets)) // AGENTS * AGENTS
    features, targets = parts.train_features[:rows], parts.train_targets[:rows]
    shards = _packed(features, targets, random_partition(rows, AGENTS, seed=0))
    whole = _packed(features, targets, [np.arange(rows)])
    test = _packed(parts.test_features, parts.test_targets, [np.arange(len(parts.test_targets))])
    kind = Squared() if loss == "linear" else Logistic()
    problem, published = (
        Problem(kind, ElasticNet(l1, l2), WholeSpace()) for l1, l2 in (OURS, PUBLISHED)
    )
    optimum = minimise(problem, shards, tol=scale.optimum_tol)
    zero = jnp.zeros(dataset.features.shape[1], jnp.float32)
    slope = float(jnp.max(jnp.abs(problem.gradient(zero, shards))))
    clip = 2.0 if loss == "linear" else 1.0
    return Task(
        name, loss, problem, published, clip, shards, whole, test.shard(0), np.asarray(optimum.w),
        optimum.value, slope,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _two_classes(name: str) -> Dataset:
    """Return the data set with targets -1 and 1; of ten classes the first two."""
    found = load(name)
    pair = _PAIRS[name]
    if pair is None:
        return found
    cut = found.train_rows
    kept = np.isin(found.targets, pair)
    return Dataset(
        name=found.name, title=found.title, features=found.features[kept],
        targets=np.where(found.targets[kept] == pair[0], -1.0, 1.0), task="binary", classes=2,
        feature_names=found.feature_names, train_rows=int(np.sum(kept[:cut])), fixed_test=True,
        public=True, licence=found.licence, source=found.source, record_norm=found.record_norm,
        conditions=found.conditions,
    )  # fmt: skip


def _packed(features: HostArray, targets: HostArray, owners: list[HostArray]) -> Shards:
    return pack(features, targets, owners, record_norm=1.0, precision="float32", enforce="clip")


@jax.jit
def errors(test: Shard, models: Float[Array, "B D"]) -> Float[Array, " B"]:
    """Return the share of wrong signs on the test records, in per cent; 0 counts as positive."""
    wrong = (test.features @ models.T >= 0) != (test.targets[:, None] > 0)
    share: Array = 100 * jnp.mean(wrong, axis=0)
    return share


def error_of(found: Task, model: Float[HostArray, " D"]) -> float:
    """Return `errors` of one model."""
    return float(errors(found.test, jnp.asarray(model, jnp.float32)[None])[0])


def above(found: Task, problem: Problem, model: Float[HostArray, " D"]) -> float:
    """Return F(x) - F(x*), x* the optimum of `Task.problem`; meant for that problem."""
    reached = problem.objective(jnp.asarray(model, jnp.float32), found.shards)
    return float(reached) - found.value


def distances(found: Task, models: Float[HostArray, "B D"]) -> Float[HostArray, " B"]:
    """Return the relative errors |x - x*| / |x*| to the optimum of `Task.problem`."""
    apart: HostArray = np.linalg.norm(models - found.optimum, axis=-1)
    relative: HostArray = apart / np.linalg.norm(found.optimum)
    return relative
