"""Three runs of RECAL on a ring, each overheard on its links: open, as published, sound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms import RECAL
from tacit.datasets import Dataset
from tacit.engine import Terms, plan, run
from tacit.network import Walk, cyclic_walk, ring
from tacit.oracles import Gradient, Point
from tacit.privacy import Adjacency, Messages, ReplaceOne
from tacit.problems import (
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Shards,
    WholeSpace,
    pack,
    public_facts,
)
from tacit.typing import Array, HostArray
from tacit_papers.as_published import Links, Setting, coupling, dp_recal
from tacit_papers.attacks import Seen, seen_on_links

AGENTS, VISITS, ALPHA, DELTA = 8, 3, 0.9, 1e-5


@dataclass(frozen=True, eq=False)
class Scene:
    """Agents on a ring with equally many pictures each, and one multinomial model."""

    problem: Problem
    shards: Shards
    walk: Walk

    @property
    def records(self) -> int:
        """Pictures of each agent."""
        return self.shards.counts[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the model: features and classes."""
        loss = self.problem.loss
        return self.shards.dimension, loss.outputs or 1

    def pictures(self, agent: int) -> HostArray:
        """Return an agent's records, which only the comparison at the end may see."""
        return np.asarray(self.shards.shard(agent).features)

    def seen(self, links: Links, agent: int) -> Seen:
        """Return what links say of one agent."""
        return seen_on_links(
            links, self.walk, ALPHA, agent, classes=self.shape[1], records=self.records,
            record_norm=self.shards.record_norm,
        )  # fmt: skip


def scene(data: Dataset, *, records: int, seed: int) -> Scene:
    """Return a scene with pictures drawn from the training part of a data set."""
    rows = np.random.default_rng(seed).permutation(data.train_rows)[: AGENTS * records]
    shards = pack(
        data.features, data.targets, np.split(rows, AGENTS), record_norm=data.record_norm,
        precision="float64", enforce="clip",
    )  # fmt: skip
    problem = Problem(MultinomialLogistic(data.classes or 2), NoRegulariser(), WholeSpace())
    return Scene(problem, shards, cyclic_walk(ring(AGENTS), AGENTS * VISITS))


def as_published(subject: Scene, *, epsilon: float, seed: int) -> Links:
    """Return the links of DP-RECAL as printed, for that claimed epsilon; infinite: RECAL."""
    oracle = Gradient(subject.problem.loss, math.inf)
    shape, count = subject.shape, jnp.asarray(float(subject.records))

    @jax.jit
    def exact(agent: Array, point: Array) -> Array:
        shard = jax.tree.map(lambda leaf: leaf[agent], subject.shards.stacked)
        return oracle.exact(shard, count, Point(point))

    def gradient(agent: int, point: HostArray) -> HostArray:
        return np.asarray(exact(jnp.asarray(agent), jnp.asarray(point.reshape(shape)))).ravel()

    bound = oracle.coefficient_bound * subject.shards.record_norm
    setting = Setting(ALPHA, first_scale(epsilon, bound), decay=1.0)
    size = shape[0] * shape[1]
    return dp_recal(gradient, lambda v: v, subject.walk, size, setting, variant="A", seed=seed)


def first_scale(epsilon: float, bound: float) -> float:
    """Return the constant noise scale at which Theorem 4 claims that epsilon.

    epsilon = rho + 2 sqrt(rho ln(1/delta)) gives sqrt(rho) = sqrt(ln(1/delta) + epsilon)
    - sqrt(ln(1/delta)), and rho = PLF 8 (alpha beta c / sigma)^2 gives sigma.
    """
    if math.isinf(epsilon):
        return 0.0
    log = math.log(1 / DELTA)
    root = math.sqrt(log + epsilon) - math.sqrt(log)
    return math.sqrt(8 * VISITS) * ALPHA * coupling(AGENTS) * bound / root


def sound(subject: Scene, *, epsilon: float, seed: int) -> tuple[Links, float]:
    """Return the links of RECAL on noised gradients under a total epsilon, and its certified mu."""
    terms = Terms(epsilon, DELTA, Adjacency(ReplaceOne(), "record"), Messages())
    made = plan(
        public_facts(subject.problem, subject.shards, clip=math.inf),
        RECAL(subject.problem, step=ALPHA, objective_scale=1.0),
        (Gradient(subject.problem.loss, math.inf),),
        terms,
        rounds=len(subject.walk.holders),
        precision="float64",
        network=subject.walk,
    )
    done = run(made, subject.shards, runtime="simulate", seed=seed, keep=frozenset({"messages"}))
    token = done.trace.messages
    model, duals = (_from_zero(sent) for sent in (token.model, token.duals))
    return Links(model, duals, np.full_like(model[1:], np.nan)), made.certificate.mu or math.inf


def _from_zero(sent: Array) -> HostArray:
    """Return what is sent, `(T + 1, D K)`, from the first token on, which is 0."""
    flat = np.asarray(sent).reshape(len(sent), -1)
    return np.concatenate([np.zeros_like(flat[:1]), flat])
