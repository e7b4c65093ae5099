"""Questions that are asked on batches: what is drawn, and the sum over it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import override

from tacit.oracles.drawn import Drawn, gathered
from tacit.oracles.oracle import Oracle
from tacit.oracles.poisson import capacity, poisson_draw
from tacit.problems import Shard
from tacit.typing import Array, Key

# a batch is read in pieces that hold it but once in so many times
_SELDOM = 0.01


class BatchOracle(Oracle):
    """A question whose answer is a sum over a batch that it draws itself.

    `draw` sees how many rows there are and no record. The rows are then read in pieces of about a
    batch's usual size, as many as hold the batch: its capacity is several times that.
    """

    @property
    @abstractmethod
    @override
    def sampling_rate(self) -> float:
        """The rate at which every record takes part."""

    @override
    def draw(self, key: Key, rows: int, count: Float[Array, ""]) -> Drawn:
        return poisson_draw(key, self.sampling_rate, rows)

    @override
    def batch(self, shard: Shard, key: Key) -> Shard:
        """Return the records of one batch."""
        rows = shard.mask.shape[-1]
        return gathered(shard, self.draw(key, rows, jnp.sum(shard.mask)))

    @override
    def exact_on(
        self, shard: Shard, drawn: Drawn, count: Float[Array, ""], query: Any
    ) -> Float[Array, "..."]:
        places, taken = drawn
        if places is None:
            return self.exact(gathered(shard, drawn), count, query)
        size = self._piece(shard.mask.shape[-1], len(places))
        slots = jnp.arange(1, len(places) + 1, dtype=jnp.int32)
        last = jnp.max(jnp.where(taken, slots, 0))
        spare = (0, -len(places) % size)
        padded = Drawn(jnp.pad(places, spare), jnp.pad(taken, spare))

        def piece(start: Array) -> Array:
            own = (jax.lax.dynamic_slice_in_dim(part, start, size) for part in padded)
            return self.exact(gathered(shard, Drawn(*own)), count, query)

        def more(at: tuple[Array, Array]) -> tuple[Array, Array]:
            return at[0] + size, at[1] + piece(at[0])

        start = jnp.zeros((), jnp.int32)
        like = jax.eval_shape(piece, start)
        nothing = jnp.zeros(like.shape, like.dtype)
        return jax.lax.while_loop(lambda at: at[0] < last, more, (start, nothing))[1]

    def _piece(self, rows: int, room: int) -> int:
        """Return how many slots are read at a time."""
        return min(room, capacity(rows, self.sampling_rate, chance=_SELDOM))
