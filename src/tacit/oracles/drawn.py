"""A batch as drawn before any record is read, and its records."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jaxtyping import Bool, Int

from tacit.problems import Shard
from tacit.typing import Array


class Drawn(NamedTuple):
    """A batch as places.

    Attributes
    ----------
    places
        The row of every slot; None if there is a slot for every row, in order.
    taken
        Which slots are in use.
    """

    places: Int[Array, "K"] | None
    taken: Bool[Array, "K"]


def gathered(shard: Shard, drawn: Drawn) -> Shard:
    """Return the rows of a batch, those of slots not in use masked."""
    places, taken = drawn
    if places is None:
        return dataclasses.replace(shard, mask=shard.mask * taken)

    def at_places(leaf: Array) -> Array:
        return leaf.at[places].get(mode="promise_in_bounds")

    mask = at_places(shard.mask) * taken
    return Shard(at_places(shard.features), at_places(shard.targets), mask)
