"""The only code that sees a shard: it answers a question, with noise, and keeps a record.

    door(private, query, turn) -> (answer, record)

`Live` is the door of a run. `Replay` and `Rival` belong to the data custodian's own audit: they are
used on shards that their caller owns, and what they return is not a release.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int
from typing_extensions import override

from tacit.algorithms import Turn
from tacit.oracles import Oracle
from tacit.privacy import Mechanism
from tacit.problems import Shard
from tacit.typing import Array, Key, PyTree


class Private(NamedTuple):
    """What lies behind a door: one agent's shard and the public number of its records."""

    shard: Shard
    records: Float[Array, "*a"]


class Record(NamedTuple):
    """What a door writes down of one answer; `kind` and `scale` make the observed ledger."""

    kind: Int[Array, "*s"]
    scale: Float[Array, "*s"]
    answer: Float[Array, "*s_shape"] | None


class ReplayRecord(NamedTuple):
    """The exact answer on the replayed public history."""

    exact: Float[Array, "*s_shape"]


class RivalRecord(NamedTuple):
    """The answer as noise around two data sets' exact answers: what a likelihood ratio needs."""

    first: Float[Array, "*s_shape"]
    second: Float[Array, "*s_shape"]
    scale: Float[Array, "*s"]


class Door(eqx.Module):
    """A way to ask private data one question."""

    @abstractmethod
    def __call__(self, private: Any, query: PyTree, turn: Turn) -> tuple[Array, Any]:
        """Return the answer that the algorithm is told, and the record of it."""


def noise_key(key: Key, turn: Turn) -> Key:
    """Return the key of one answer; the same in every runtime."""
    for part in (turn.agent, turn.participation, turn.local):
        key = jax.random.fold_in(key, part)
    return key


def exact_answer(
    oracles: tuple[Oracle, ...], private: Private, query: PyTree, kind: Array
) -> Array:
    """Return the un-noised answer of oracle number `kind`; zeros where nothing is asked (-1).

    **Guarantee.** A turn without a question has no ledger entry and no noise, so its answer must
    not depend on the shard: it is a constant.
    """
    if len(oracles) == 1:
        answer = oracles[0].exact(private.shard, private.records, query)
    else:
        branches = [oracle.exact for oracle in oracles]
        answer = jax.lax.switch(kind, branches, private.shard, private.records, query)
    return jnp.where(kind >= 0, answer, jnp.zeros_like(answer))


class Live(Door):
    """The door of a run: exact answer plus noise of the turn's scale.

    **Guarantee.** Every answer is `exact + mechanism.sample(...)` with a key that is used once, and
    every answer leaves one record, which the run compares with the plan.
    """

    oracles: tuple[Oracle, ...]
    mechanism: Mechanism
    key: Key

    @override
    def __call__(self, private: Private, query: PyTree, turn: Turn) -> tuple[Array, Record]:
        exact = exact_answer(self.oracles, private, query, turn.kind)
        noise = self.mechanism.sample(noise_key(self.key, turn), exact, turn.scale)
        answer = exact + noise
        return answer, Record(turn.kind, turn.scale, answer)


class Recorded(NamedTuple):
    """For a replay: the shard to ask, and the answers that were recorded, `(T, E, *shape)`."""

    private: Private
    answers: Float[Array, "T E *shape"]


class Replay(Door):
    """Tells the algorithm the recorded answer and records what a shard would have said exactly.

    With the run's own shard this recomputes the un-noised answers; with a neighbouring shard, the
    answers that the neighbour would have given on the same public history.
    """

    oracles: tuple[Oracle, ...]

    @override
    def __call__(self, private: Recorded, query: PyTree, turn: Turn) -> tuple[Array, ReplayRecord]:
        exact = exact_answer(self.oracles, private.private, query, turn.kind)
        return private.answers[turn.round, turn.local], ReplayRecord(exact)


class Pair(NamedTuple):
    """For a likelihood ratio: the shard that answers, and the two data sets that are compared."""

    actual: Private
    first: Private
    second: Private


class Rival(Door):
    """A live door that also asks two data sets what they would have answered exactly.

    The record holds answer - exact(first) and answer - exact(second). `live` may be any live door,
    a faulty one too; `oracles` are the questions as they are really answered.
    """

    live: Door
    oracles: tuple[Oracle, ...]

    @override
    def __call__(self, private: Pair, query: PyTree, turn: Turn) -> tuple[Array, RivalRecord]:
        answer, _ = self.live(private.actual, query, turn)
        first = exact_answer(self.oracles, private.first, query, turn.kind)
        second = exact_answer(self.oracles, private.second, query, turn.kind)
        return answer, RivalRecord(answer - first, answer - second, turn.scale)
