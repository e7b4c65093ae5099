"""A search for neighbouring data sets and a question at which an answer moves beyond its bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.audit.pairwise import DataPair, changed_places
from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    Adjacency,
    BoundedChange,
    Norm,
    Relation,
    TargetChange,
    Unit,
    ZeroOut,
)
from taciturn.kernel.questions import Oracle, Point
from taciturn.kernel.records import Shard
from taciturn.problems import NoRegulariser, Problem, Squared, WholeSpace, facts_from
from taciturn.typing import Array, Key

RECORDS, FEATURES = 6, 5
# how many records change together
CHANGED: Mapping[Unit, int] = MappingProxyType(
    {"record": 1, "agent": RECORDS, "person": RECORDS // 2}
)
NORMS: tuple[Norm, ...] = ("l2", "l1")
# sizes of questions and targets, as powers of ten
_SMALLEST, _LARGEST = -2.0, 6.0


class Search:
    """A search over neighbouring data sets and questions for the largest change of an answer.

    One record of `RECORDS` is changed as the relation allows, every one if the unit is an agent,
    and half of them if it is a person: replaced by another one (by its negative, and by one with
    the opposite target, as often as by a random one), set to zero, or moved by beta, in its row or
    in its target. An answer that is not finite counts as an infinite change: whether it is may
    depend on a record. `query` goes from a vector of `FEATURES` numbers to a question; a `Point` if
    none is given.
    """

    def __init__(
        self, oracle: Oracle, relation: Relation, query: Callable[[Array], Any] | None
    ) -> None:
        self._oracle, self._relation, self._asks = oracle, relation, query or Point
        self._changes = jax.jit(jax.vmap(self._change, in_axes=(0, None, None)))
        self._differences = jax.jit(jax.vmap(self._between, in_axes=(0, None, None, None)))

    def bound(
        self,
        unit: Unit,
        *,
        norm: Norm = "l2",
        record_norm: float = 1.0,
        records: int = RECORDS,
        features: int = FEATURES,
    ) -> float:
        """Return the bound of one answer about so many records; infinity if none in the 1-norm.

        `InputError` if the oracle has none for this relation and unit in the 2-norm.
        """
        loss, clip = getattr(self._oracle, "loss", Squared()), getattr(self._oracle, "clip", np.inf)
        problem = Problem(loss, NoRegulariser(), WholeSpace())
        spec = facts_from(problem, [records], features=features, record_norm=record_norm, clip=clip)
        rows = CHANGED[unit] if unit == "person" else None
        adjacency = Adjacency(self._relation, unit, rows)
        try:
            return float(self._oracle.bound(spec, adjacency, norm=norm).value[0, 0, 0])
        except InputError:
            if norm == "l1":
                return np.inf
            raise

    def largest(self, unit: Unit, *, length: float, trials: int, seed: int) -> float:
        """Return the largest |exact(D) - exact(D')| / bound that was found, in either norm.

        `length` is the norm of the changed records; the bound holds for 1.
        """
        changed = jnp.arange(RECORDS) < CHANGED[unit]
        keys = jax.random.split(jax.random.key(seed), trials)
        moved = np.asarray(self._changes(keys, jnp.asarray(length), changed))
        bounds = np.array([self.bound(unit, norm=norm) for norm in NORMS])
        return float(np.max(moved / bounds))

    def largest_between(self, pair: DataPair, unit: Unit, *, trials: int, seed: int) -> float:
        """Return the same for two data sets of one agent, over questions alone.

        0 where the two are no neighbours for the relation and the unit.
        """
        first, second = (jax.tree.map(lambda leaf: leaf[0], one.stacked) for one in pair)
        if len(pair[0].counts) != 1:
            raise InputError("the two data sets of a question are those of one agent; give such")
        places = changed_places(pair, self._relation)
        (count,), most = pair[0].counts, {"record": 1, "person": CHANGED["person"]}
        if places is None or places > most.get(unit, places):
            return 0.0
        keys = jax.random.split(jax.random.key(seed), trials)
        moved = np.asarray(self._differences(keys, first, second, jnp.asarray(float(count))))
        shape: dict[str, Any] = {"records": count, "features": pair[0].dimension}
        bounds = [
            self.bound(unit, norm=norm, record_norm=pair[0].record_norm, **shape) for norm in NORMS
        ]
        return float(np.max(moved / np.array(bounds)))

    def _change(self, key: Key, length: Array, changed: Array) -> Array:
        """Return how far one answer moves between one random pair of neighbours, in each norm."""
        parts = jax.random.split(key, 6)
        rows = _unit(jax.random.normal(parts[0], (RECORDS, FEATURES)))
        size = 10 ** jax.random.uniform(parts[1], minval=_SMALLEST, maxval=_LARGEST)
        targets = jnp.sign(jax.random.normal(parts[2], (RECORDS,))) * size
        rows = jnp.where(changed[:, None], length * rows, rows)
        first = Shard(rows, targets, jnp.ones(RECORDS))
        second = _neighbour(self._relation, first, changed, length, parts[3:5])
        return self._between(parts[5], first, second, jnp.asarray(float(RECORDS)))

    def _between(self, key: Key, first: Shard, second: Shard, count: Array) -> Array:
        """Return how far one answer moves between two data sets at a random question."""
        size, direction = jax.random.split(key)
        scale = 10 ** jax.random.uniform(size, minval=_SMALLEST, maxval=_LARGEST)
        vector = _unit(jax.random.normal(direction, first.features.shape[-1:]))
        question = self._asks(scale * vector)
        answers = [self._oracle.exact(shard, count, question) for shard in (first, second)]
        moved = jnp.abs(answers[0] - answers[1]).ravel()
        sizes = jnp.stack([jnp.linalg.norm(moved), jnp.sum(moved)])
        return jnp.where(jnp.isfinite(sizes), sizes, jnp.inf)


def _neighbour(relation: Relation, shard: Shard, changed: Array, length: Array, keys: Key) -> Shard:
    """Return the shard with the records in `changed` moved as the relation allows."""
    if isinstance(relation, ZeroOut):
        return dataclasses.replace(shard, mask=jnp.where(changed, 0.0, shard.mask))
    if isinstance(relation, TargetChange):
        return dataclasses.replace(shard, targets=shard.targets + relation.beta * changed)
    choice = jax.random.randint(keys[0], (), 0, 3)
    if isinstance(relation, BoundedChange):  # of the target, or of the row and no longer than it
        shorter = jnp.where(choice == 0, 1.0, jnp.maximum(1 - relation.beta / length, -1.0))
        further = jnp.where(choice == 0, relation.beta, 0.0)
        return dataclasses.replace(
            shard,
            features=jnp.where(changed[:, None], shorter, 1.0) * shard.features,
            targets=shard.targets + further * changed,
        )
    other = length * _unit(jax.random.normal(keys[1], shard.features.shape))
    rows = jnp.select([choice == 0, choice == 1], [-shard.features, shard.features], other)
    targets = jnp.where(choice == 0, shard.targets, -shard.targets)
    return dataclasses.replace(
        shard,
        features=jnp.where(changed[:, None], rows, shard.features),
        targets=jnp.where(changed, targets, shard.targets),
    )


def _unit(rows: Array) -> Array:
    unit: Array = rows / jnp.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
