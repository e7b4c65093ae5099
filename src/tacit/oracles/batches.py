"""Questions that are asked on batches: what is drawn, and the sum over it."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.oracles.drawn import Drawn, gathered
from tacit.oracles.oracle import Oracle
from tacit.oracles.poisson import poisson_draw
from tacit.oracles.without_replacement import distinct
from tacit.privacy import Adjacency, ReplaceOne, ZeroOut
from tacit.problems import Shard
from tacit.spec import Spec
from tacit.typing import Array, HostArray, Key

# slots for a record of a batch: the twentieth of them that pass all over hold none
_SLOTS = 1.06
# counts up to here are whole numbers in single precision
_MOST_RECORDS = 2**24


class BatchOracle(Oracle):
    r"""A question whose answer is a sum over a batch that it draws itself.

    Poisson batches take every record independently with probability q; the sum is divided by q m_i.
    Batches of a fixed size are b = max(1, round(q n)) of the agent's m_i >= n records without
    replacement, every set equally likely; the sum is divided by b. If b = n, nothing is drawn: it
    is the mean over all m_i.

    **Guarantee.** `draw` sees how many records there are and none of them. Poisson batches are
    accounted for as `Sampled` at rate q, those of a fixed size as `FixedSize(b, n)`. An agent with
    m_i > n records spends no more: the Renyi bound (`fixed_size_epsilon`) is a sum of powers of b/m
    with positive factors, so it falls in m. Under replace_one a record in a batch of fixed size
    moves the answer by at most 2 c / b if c bounds one term; the counts, hence the draws, are
    the same on both data sets. Under zero_out no bound for fixed sizes is known here: refused.

    Attributes
    ----------
    records
        None for Poisson batches; for batches of a fixed size n, the least number of records that
        an agent has.

    Notes
    -----
    Rows are read in pieces of about a batch's usual size, as many as hold the batch: the capacity
    of a Poisson batch is several times that.
    """

    records: int | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self) -> None:
        checks.fraction("rate", self.asked_rate)
        if self.records is not None:
            checks.at_least("records", self.records, 1)

    @property
    @abstractmethod
    def asked_rate(self) -> float:
        """The rate q as it was asked for."""

    @property
    @override
    def sampling_rate(self) -> float:
        """The rate q, or b / n."""
        return self.asked_rate if self.records is None else self._size / self.records

    @property
    def _whole(self) -> bool:
        """Whether a batch of fixed size would be all of the smallest agent's records."""
        return self._size == self.records

    @property
    @override
    def batch_size(self) -> int | None:
        """The size b; None for Poisson batches, and where nothing is drawn."""
        return None if self.records is None or self._whole else self._size

    @property
    def _size(self) -> int:
        return max(1, round(self.asked_rate * (self.records or 1)))

    def expected_size(self, count: float | Array | HostArray) -> Any:
        """Return q m_i, or b; m_i where nothing is drawn."""
        if self.records is None:
            return self.asked_rate * count
        return 1.0 * count if self._whole else self._size + 0 * count

    def share(self, spec: Spec) -> Float[HostArray, " A"]:
        """Return the expected size of a batch over m_i, for every agent."""
        counts = np.asarray(spec.counts, np.float64)
        return np.asarray(self.expected_size(counts) / counts)

    def check_terms(self, spec: Spec, adjacency: Adjacency) -> None:
        """Raise `InputError` unless sampling hides the unit and an accountant for it is known."""
        refuse_unsampled(adjacency)
        if self.records is None:
            return
        if not isinstance(adjacency.relation, ReplaceOne):
            raise InputError(
                f"batches of a fixed size are accounted for under replace_one only, not under "
                f"{adjacency.relation.name}; use Poisson batches or replace_one"
            )
        if not self.records <= min(spec.counts) <= max(spec.counts) <= _MOST_RECORDS:
            raise InputError(
                f"batches of {self._size} are out of at least {self.records} records, but agents "
                f"have from {min(spec.counts)} to {max(spec.counts)}; give the least number of "
                "records (up to 2^24) or use Poisson batches"
            )

    @override
    def draw(self, key: Key, rows: int, count: Float[Array, ""]) -> Drawn:
        if self.records is None:
            return poisson_draw(key, self.asked_rate, rows)
        if self._whole:
            return Drawn(None, jnp.ones(rows, bool))
        return Drawn(distinct(key, self._size, count), jnp.ones(self._size, bool))

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
        padded = (jnp.pad(places, spare), jnp.pad(taken, spare))

        def piece(start: Array) -> Array:
            own = [jax.lax.dynamic_slice_in_dim(part, start, size) for part in padded]
            return self.exact(gathered(shard, Drawn(*own)), count, query)

        def more(at: tuple[Array, Array]) -> tuple[Array, Array]:
            return at[0] + size, at[1] + piece(at[0])

        start = jnp.zeros((), jnp.int32)
        like = jax.eval_shape(piece, start)
        nothing = jnp.zeros(like.shape, like.dtype)
        return jax.lax.while_loop(lambda at: at[0] < last, more, (start, nothing))[1]

    def _piece(self, rows: int, room: int) -> int:
        """Return how many slots are read at a time."""
        if self.records is not None:
            return room
        usual = self.sampling_rate * rows
        return min(room, math.ceil(_SLOTS * usual + math.sqrt(usual)))


def refuse_unsampled(adjacency: Adjacency) -> None:
    """Raise `InputError` unless sampling hides the unit and an accountant for it is known."""
    if adjacency.unit != "record":
        raise InputError(
            "sampling records does not hide an agent, so nothing is gained for the unit agent; "
            "use the full-batch Gradient"
        )
    if not isinstance(adjacency.relation, ReplaceOne | ZeroOut):
        raise InputError(
            f"no sound accountant is known for batches under {adjacency.relation.name}; use "
            "replace_one, zero_out or the full-batch Gradient"
        )
