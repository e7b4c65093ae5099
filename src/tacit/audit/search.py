"""A search for neighbouring data sets and a question at which an answer moves beyond its bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.oracles import Oracle, Point
from tacit.privacy import Adjacency, BoundedChange, ZeroOut
from tacit.problems import NoRegulariser, Problem, Shard, Squared, WholeSpace, facts_from
from tacit.typing import Array, Key

RECORDS, FEATURES = 6, 5
# sizes of questions and targets, as powers of ten
_SMALLEST, _LARGEST = -2.0, 6.0


def largest_change(
    oracle: Oracle,
    adjacency: Adjacency,
    *,
    query: Callable[[Array], Any] | None,
    length: float,
    trials: int,
    seed: int,
) -> float:
    """Return the largest |exact(D) - exact(D')| / bound that a search finds.

    One record of `RECORDS` is changed as the relation allows: replaced by another one (by its
    negative, and by one with the opposite target, as often as by a random one), set to zero, or
    moved by beta in its target.

    Parameters
    ----------
    query
        From a vector of `FEATURES` numbers to a question; a `Point` if none is given.
    length
        Norm of the changed records; the bound holds for 1.
    """
    asks = query or Point
    bound = _bound(oracle, adjacency)
    keys = jax.random.split(jax.random.key(seed), trials)

    @jax.jit
    def changes(keys: Key) -> Array:
        return jax.vmap(lambda key: _change(oracle, adjacency, asks, length, key))(keys)

    moved = np.asarray(changes(keys))
    return float(np.max(moved[np.isfinite(moved)], initial=0.0)) / bound


def _bound(oracle: Oracle, adjacency: Adjacency) -> float:
    problem = Problem(getattr(oracle, "loss", Squared()), NoRegulariser(), WholeSpace())
    clip = getattr(oracle, "clip", np.inf)
    spec = facts_from(problem, [RECORDS], features=FEATURES, record_norm=1.0, clip=clip)
    return float(oracle.bound(spec, adjacency, norm="l2").value[0, 0, 0])


def _change(
    oracle: Oracle,
    adjacency: Adjacency,
    asks: Callable[[Array], Any],
    length: float,
    key: Key,
) -> Array:
    """Return how far one answer moves between one random pair of neighbours."""
    parts = jax.random.split(key, 8)
    rows = _unit(jax.random.normal(parts[0], (RECORDS, FEATURES)))
    size = 10 ** jax.random.uniform(parts[1], minval=_SMALLEST, maxval=_LARGEST)
    targets = jnp.sign(jax.random.normal(parts[2], (RECORDS,))) * size
    rows = rows.at[0].multiply(length)
    first = Shard(rows, targets, jnp.ones(RECORDS))
    second = _neighbour(adjacency, first, length, parts[3:6])
    scale = 10 ** jax.random.uniform(parts[6], minval=_SMALLEST, maxval=_LARGEST)
    question = asks(scale * _unit(jax.random.normal(parts[7], (FEATURES,))))
    count = jnp.asarray(float(RECORDS))
    answers = [oracle.exact(shard, count, question) for shard in (first, second)]
    moved: Array = jnp.linalg.norm((answers[0] - answers[1]).ravel())
    return moved


def _neighbour(adjacency: Adjacency, shard: Shard, length: float, keys: Key) -> Shard:
    relation = adjacency.relation
    if isinstance(relation, ZeroOut):
        return dataclasses.replace(shard, mask=shard.mask.at[0].set(0.0))
    if isinstance(relation, BoundedChange):
        return dataclasses.replace(shard, targets=shard.targets.at[0].add(relation.beta))
    choice = jax.random.randint(keys[0], (), 0, 3)
    other = length * _unit(jax.random.normal(keys[1], (FEATURES,)))
    row = jnp.select([choice == 0, choice == 1], [-shard.features[0], shard.features[0]], other)
    target = jnp.where(choice == 0, shard.targets[0], -shard.targets[0])
    return dataclasses.replace(
        shard, features=shard.features.at[0].set(row), targets=shard.targets.at[0].set(target)
    )


def _unit(rows: Array) -> Array:
    unit: Array = rows / jnp.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
