"""Data sets that differ from others in one record."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from taciturn.errors import InputError
from taciturn.kernel.records import Shard, Shards, row_norms


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

    The new record is rounded to the types of the shards. Without `enforce` its norm is not checked,
    to plant a fault that an audit must find.
    """
    _check_place(shards, agent, index)
    data = shards.stacked
    row = np.asarray(features, np.dtype(data.features.dtype))
    if row.shape != (shards.dimension,):
        raise InputError(f"the new record has shape {row.shape}; it must be ({shards.dimension},)")
    if enforce and not row_norms(row[None])[0] <= shards.record_norm:
        raise InputError(
            f"the new record's norm is not at most {shards.record_norm:g}; bring it there with "
            "within_norm"
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
