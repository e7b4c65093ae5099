"""Neighbouring data sets, and a search for two whose answers differ by more than the bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from taciturn.errors import InputError
from taciturn.kernel import privacy
from taciturn.kernel.questions import Oracle, Point
from taciturn.kernel.records import Shard, Shards, check_norms, row_norms
from taciturn.problems import NoRegulariser, Problem, Squared, WholeSpace, facts_from
from taciturn.typing import Array, Key

DataPair = tuple[Shards, Shards]  # two data sets that differ in one unit
RECORDS, FEATURES = 6, 5
# number of records that change together
CHANGED: Mapping[privacy.Unit, int] = MappingProxyType(
    {"record": 1, "agent": RECORDS, "person": RECORDS // 2}
)
NORMS: tuple[privacy.Norm, ...] = ("l2", "l1")
# magnitudes of queries and targets, as powers of ten
_SMALLEST, _LARGEST = -2.0, 6.0


def replace_record(
    shards: Shards,
    agent: int,
    index: int,
    features: Shaped[np.ndarray, "D"],
    target: float,
    *,
    enforce: bool = True,
) -> Shards:
    """Return the shards with an agent's record `index` replaced: a `replace_one` neighbour.

    The new record is rounded to the shards' dtypes. Without `enforce` its norm is not checked, to
    plant a fault that an audit must detect.
    """
    _check_place(shards, agent, index)
    data = shards.stacked
    row = np.asarray(features, np.dtype(data.features.dtype))
    if row.shape != (shards.dimension,):
        raise InputError(f"the new record has shape {row.shape}; it must be ({shards.dimension},)")
    if enforce and not row_norms(row[None])[0] <= shards.record_norm:
        raise InputError(
            f"the new record's norm exceeds {shards.record_norm:g}; clip it with clip_rows"
        )
    changed = Shard(
        features=data.features.at[agent, index].set(jnp.asarray(row)),
        targets=data.targets.at[agent, index].set(jnp.asarray(target, data.targets.dtype)),
        mask=data.mask.at[agent, index].set(1),
    )
    return Shards(changed, shards.counts, shards.record_norm, shards.origin)


def zero_record(shards: Shards, agent: int, index: int) -> Shards:
    """Return the shards with one record masked, its count unchanged: a `zero_out` neighbour."""
    _check_place(shards, agent, index)
    mask = shards.stacked.mask.at[agent, index].set(0)
    zeroed: Shards = eqx.tree_at(lambda tree: tree.stacked.mask, shards, mask)
    return zeroed


def _check_place(shards: Shards, agent: int, index: int) -> None:
    if not 0 <= agent < shards.agents:
        raise InputError(f"there is no agent {agent}; agents are 0..{shards.agents - 1}")
    if not 0 <= index < shards.counts[agent]:
        raise InputError(
            f"agent {agent} has no record {index}; its records are 0..{shards.counts[agent] - 1}"
        )


def changed_places(pair: DataPair, relation: privacy.Relation) -> int | None:
    """Return how many records of one agent differ as the relation allows; None if it does not.

    Under replace_one the same places hold records in both; under zero_out a record of one is absent
    from the other. `InputError` if the two cannot be compared, a row exceeds the norm, or they are
    equal.
    """
    first, second = pair
    same = (
        first.counts == second.counts
        and first.record_norm == second.record_norm
        and first.stacked.features.shape == second.stacked.features.shape
        and first.stacked.features.dtype == second.stacked.features.dtype
    )
    if not same:
        raise InputError(
            "the two data sets differ in counts, columns, precision or record norm, which are "
            "public; pack both in the same way"
        )
    for one in pair:
        check_norms(one.stacked, one.record_norm)
    here, there = (np.asarray(one.stacked.mask) > 0 for one in pair)  # places with a record
    rows = np.any(np.asarray(first.stacked.features != second.stacked.features), axis=-1)
    values = rows | np.asarray(first.stacked.targets != second.stacked.targets)
    different = (here != there) | (here & there & values)
    if not np.any(different):
        raise InputError("the two data sets are equal; let them differ in what is protected")
    if np.count_nonzero(np.any(different, axis=1)) > 1:
        return None
    absent = here != there
    fits = not np.any(absent)
    if isinstance(relation, privacy.ZeroOut):
        fits = bool(np.array_equal(absent, different))
    elif not isinstance(relation, privacy.ReplaceOne):
        fits = False
    return int(np.count_nonzero(different)) if fits else None


class Search:
    """A search over neighbouring data sets and queries for the largest change of an answer.

    Of `RECORDS` records one is changed as the relation allows, or all if the unit is an agent, or
    half if it is a person: replaced (by its negative, by the opposite target, or by a random
    record, equally often), set to zero, or moved by beta in its row or target. A non-finite answer
    counts as an infinite change, since its finiteness may depend on a record. `query`: maps a
    vector of `FEATURES` numbers to a query; None for a `Point`.
    """

    def __init__(
        self, oracle: Oracle, relation: privacy.Relation, query: Callable[[Array], Any] | None
    ) -> None:
        self._oracle, self._relation, self._asks = oracle, relation, query or Point
        self._changes = jax.jit(jax.vmap(self._change, in_axes=(0, None)))
        self._differences = jax.jit(jax.vmap(self._between, in_axes=(0, None, None, None)))

    def bound(
        self,
        unit: privacy.Unit,
        *,
        norm: privacy.Norm = "l2",
        record_norm: float = 1.0,
        records: int = RECORDS,
        features: int = FEATURES,
    ) -> float:
        """Return the bound of one answer on this many records; infinity if the 1-norm has none.

        `InputError` if the oracle has none for this relation and unit in the 2-norm.
        """
        loss, clip = getattr(self._oracle, "loss", Squared()), getattr(self._oracle, "clip", np.inf)
        problem = Problem(loss, NoRegulariser(), WholeSpace())
        spec = facts_from(problem, [records], features=features, record_norm=record_norm, clip=clip)
        rows = CHANGED[unit] if unit == "person" else None
        adjacency = privacy.Adjacency(self._relation, unit, rows)
        try:
            return float(self._oracle.bound(spec, adjacency, norm=norm).value[0, 0, 0])
        except InputError:
            if norm == "l1":
                return np.inf
            raise

    def largest(self, unit: privacy.Unit, *, trials: int, seed: int) -> float:
        """Return the largest |exact(D) - exact(D')| / bound found, in either norm."""
        changed = jnp.arange(RECORDS) < CHANGED[unit]
        keys = jax.random.split(jax.random.key(seed), trials)
        moved = np.asarray(self._changes(keys, changed))
        bounds = np.array([self.bound(unit, norm=norm) for norm in NORMS])
        return float(np.max(moved / bounds))

    def largest_between(
        self, pair: DataPair, unit: privacy.Unit, *, trials: int, seed: int
    ) -> float:
        """Return the same for two data sets of one agent, over queries alone.

        0 if the two are not neighbours for the relation and the unit.
        """
        first, second = (jax.tree.map(lambda leaf: leaf[0], one.stacked) for one in pair)
        if len(pair[0].counts) != 1:
            raise InputError("a pair of data sets for a question must have one agent")
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

    def _change(self, key: Key, changed: Array) -> Array:
        """Return the change of one answer between two random neighbours, in each norm."""
        parts = jax.random.split(key, 6)
        rows = _unit(jax.random.normal(parts[0], (RECORDS, FEATURES)))
        size = 10 ** jax.random.uniform(parts[1], minval=_SMALLEST, maxval=_LARGEST)
        targets = jnp.sign(jax.random.normal(parts[2], (RECORDS,))) * size
        first = Shard(rows, targets, jnp.ones(RECORDS))
        second = _neighbour(self._relation, first, changed, parts[3:5])
        return self._between(parts[5], first, second, jnp.asarray(float(RECORDS)))

    def _between(self, key: Key, first: Shard, second: Shard, count: Array) -> Array:
        """Return the change of one answer between two data sets at a random query."""
        size, direction = jax.random.split(key)
        scale = 10 ** jax.random.uniform(size, minval=_SMALLEST, maxval=_LARGEST)
        vector = _unit(jax.random.normal(direction, first.features.shape[-1:]))
        question = self._asks(scale * vector)
        answers = [self._oracle.exact(shard, count, question) for shard in (first, second)]
        moved = jnp.abs(answers[0] - answers[1]).ravel()
        sizes = jnp.stack([jnp.linalg.norm(moved), jnp.sum(moved)])
        return jnp.where(jnp.isfinite(sizes), sizes, jnp.inf)


def _neighbour(relation: privacy.Relation, shard: Shard, changed: Array, keys: Key) -> Shard:
    """Return the shard with the records in `changed` moved as the relation allows."""
    if isinstance(relation, privacy.ZeroOut):
        return dataclasses.replace(shard, mask=jnp.where(changed, 0.0, shard.mask))
    if isinstance(relation, privacy.TargetChange):
        return dataclasses.replace(shard, targets=shard.targets + relation.beta * changed)
    choice = jax.random.randint(keys[0], (), 0, 3)
    if isinstance(relation, privacy.BoundedChange):  # of the target, or of a row of norm 1
        shorter = jnp.where(choice == 0, 1.0, jnp.maximum(1 - relation.beta, -1.0))
        further = jnp.where(choice == 0, relation.beta, 0.0)
        return dataclasses.replace(
            shard,
            features=jnp.where(changed[:, None], shorter, 1.0) * shard.features,
            targets=shard.targets + further * changed,
        )
    other = _unit(jax.random.normal(keys[1], shard.features.shape))
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
