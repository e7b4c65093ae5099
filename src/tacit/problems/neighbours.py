"""Neighbouring data sets: those which differ in one record."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from tacit.errors import InputError, PrivacyError
from tacit.problems.shards import Shard, Shards, check_norms


def replace_record(
    shards: Shards,
    agent: int,
    index: int,
    features: Shaped[np.ndarray, "D"],
    target: float,
    *,
    enforce: bool = True,
) -> Shards:
    """Return the shards with one record replaced: a `replace_one` neighbour.

    Parameters
    ----------
    index
        Position among the agent's records, below its count.
    features, target
        The new record; it is rounded to the types of the shards.
    enforce
        False leaves out the check of the norm, to plant a fault that an audit must find.

    Raises
    ------
    InputError
        If there is no such record, the shape is wrong, or |x|_2 exceeds the record norm.
    """
    _check_place(shards, agent, index)
    data = shards.stacked
    row = np.asarray(features, np.dtype(data.features.dtype))
    if row.shape != (shards.dimension,):
        raise InputError(f"the new record has shape {row.shape}; it must be ({shards.dimension},)")
    changed = Shard(
        features=data.features.at[agent, index].set(jnp.asarray(row)),
        targets=data.targets.at[agent, index].set(jnp.asarray(target, data.targets.dtype)),
        mask=data.mask.at[agent, index].set(1),
    )
    if enforce:
        _check_row(row, shards.record_norm)
    return Shards(changed, shards.counts, shards.record_norm, shards.origin)


def zero_record(shards: Shards, agent: int, index: int) -> Shards:
    """Return the shards with one record masked, its count unchanged: a `zero_out` neighbour.

    Raises
    ------
    InputError
        If there is no such record.
    """
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


def _check_row(row: np.ndarray, record_norm: float) -> None:
    single = Shard(jnp.asarray(row)[None], jnp.zeros(1), jnp.ones(1))
    try:
        check_norms(single, record_norm)
    except PrivacyError as error:
        raise InputError(
            f"the new record's norm is not at most {record_norm:g}; bring it there with within_norm"
        ) from error
