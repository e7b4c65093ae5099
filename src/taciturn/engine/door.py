"""The only code that sees a shard: it answers a question, with noise, and keeps a record.

    door(private, query, turn) -> (answer, record)

`Live` is the door of a run. `Replay` and `Rival` belong to the data custodian's audit: they are
used on shards that their caller owns, and what they return is not a release.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Int64
from typing_extensions import override

from taciturn.algorithms import Turn
from taciturn.errors import InputError
from taciturn.oracles import Drawn, OnLattice, Oracle, Words
from taciturn.privacy import Mechanism, NoNoise
from taciturn.problems import Shard
from taciturn.typing import Array, Key, PyTree


class Chance(NamedTuple):
    """The random draws of one answer: its noise, and each oracle's batch; None: not drawn.

    `scale` is that at which the noise was drawn; None for the turn's.
    """

    noise: Float[Array, "*s_shape"] | None
    batches: tuple[Drawn | None, ...]
    scale: Float[Array, "*s"] | None = None


class Private(NamedTuple):
    """An agent's shard, the public number of its records, and what was drawn for a round.

    `chances` holds the draws for the E questions of the round, leaves `(E, ...)`; None where the
    door draws for each question.
    """

    shard: Shard
    records: Float[Array, "*a"]
    chances: Chance | None = None


class Record(NamedTuple):
    """A door's record of one answer; all but `answer` and `drawn` make the observed ledger.

    `kind` is the number of the question, `scale` that at which the noise was drawn, 2^`exponent`
    the step of the lattice, `rate` the sampling rate, and `batch` the size of the batch if it is
    fixed, else 0; these two are None where no oracle samples. `drawn` is the size of the noise
    (`Mechanism.size`), for its test: it tells of the answer, and no run returns it.
    """

    kind: Int[Array, "*s"]
    scale: Float[Array, "*s"]
    exponent: Int[Array, "*s"]
    answer: Float[Array, "*s_shape"] | None
    rate: Float[Array, "*s"] | None = None
    batch: Int[Array, "*s"] | None = None
    drawn: Float[Array, "*s"] | None = None


class ReplayRecord(NamedTuple):
    """The exact answer on the replayed public history."""

    exact: Float[Array, "*s_shape"]


class RivalRecord(NamedTuple):
    """The answer as noise around two data sets' exact answers: what a likelihood ratio needs."""

    first: Float[Array, "*s_shape"]
    second: Float[Array, "*s_shape"]
    scale: Float[Array, "*s"]


class Raw(NamedTuple):
    """The random numbers of one answer, as they come from a stream.

    `steps` is its noise and `scale` that of the sampler, both in steps of the lattice, 0 where
    nothing is drawn; `words` are, for each oracle, those that its batch is drawn from.
    """

    steps: Int64[Array, "*s_shape"]
    words: tuple[Words, ...]
    scale: Float[Array, "*s"]


class Door(eqx.Module):
    """A way to ask private data one question."""

    @abstractmethod
    def __call__(self, private: Any, query: PyTree, turn: Turn) -> tuple[Array, Any]:
        """Return the answer that the algorithm is told, and the record of it."""

    def ahead(self, private: Any, turn: Turn, shape: tuple[int, ...]) -> Chance | None:
        """Return what can be drawn before the question, for a model of that shape; here nothing."""
        del private, turn, shape
        return None


def noise_key(key: Key, turn: Turn) -> Key:
    """Return the key of one answer; the same in every runtime."""
    for part in (turn.agent, turn.participation, turn.local):
        key = jax.random.fold_in(key, part)
    return key


def batch_key(key: Key, turn: Turn) -> Key:
    """Return the key of one answer's batch; independent of every noise key."""
    # a separate branch at the root, beside the agents: no key is both drawn from and folded
    return noise_key(jax.random.fold_in(key, jnp.uint32(2**32 - 1)), turn)


def two_to(exponent: Int[Array, "*s"]) -> Float[Array, "*s"]:
    """Return 2^exponent in double precision, exactly; the exponent within -1022 and 1023."""
    biased = (exponent.astype(jnp.int64) + 1023) << 52
    return jax.lax.bitcast_convert_type(biased, jnp.float64)


def samples(oracles: tuple[Oracle, ...]) -> bool:
    """Return whether any of the oracles draws batches."""
    return any(oracle.sampling.rate < 1 for oracle in oracles)


def exact_answer(
    oracles: tuple[Oracle, ...], private: Private, query: PyTree, turn: Turn, key: Key | None
) -> Array:
    """Return the un-noised answer of oracle number `turn.question`; zeros for -1, no question.

    `key`: the run's key, from which the batch of a sampled answer follows; None if no oracle
    samples.

    **Guarantee.** A turn without a question has no ledger entry and no noise, so its answer must
    not depend on the shard: it is a constant.
    """

    def exact(oracle: Oracle) -> Array:
        drawn = _draw(oracle, private, turn, key)
        return oracle.unnoised(private.shard, drawn, private.records, query)

    return _chosen(turn, [partial(exact, oracle) for oracle in oracles])


def _chosen(turn: Turn, branches: list[Callable[[], Array]]) -> Array:
    """Return the answer of oracle number `turn.question`; zeros for -1."""
    answer = branches[0]() if len(branches) == 1 else jax.lax.switch(turn.question, branches)
    return jnp.where(turn.question >= 0, answer, jnp.zeros_like(answer))


def _draw(oracle: Oracle, private: Private, turn: Turn, key: Key | None) -> Drawn | None:
    """Return the oracle's batch for a turn; None if it does not sample."""
    if oracle.sampling.rate == 1:
        return None
    if key is None:
        raise InputError("an oracle samples its batches; give the key of the run")
    rows = private.shard.mask.shape[-1]
    words = jax.random.bits(batch_key(key, turn), (oracle.sampling.words(rows),), jnp.uint64)
    return oracle.sampling.draw(words, rows, private.records)


class Live(Door):
    """The door of a run: the oracle's answer under noise of the turn's scale.

    **Guarantee.** Every answer is `oracle.answer(...)`: the exact answer on a batch of
    `oracle.sampling`, with its noise where `oracle.noise` puts it, on the lattice of the turn, and
    only then in the precision of the run. Noise and batch are drawn afresh for every answer: handed
    in from a stream (`realised`), or in a reproduction each with a separate key that is used once.
    Every answer leaves one record, which the run compares with the plan: the scale in it is the one
    that the noise was drawn at, and the size of that noise is tested (`taciturn.privacy.drawn`).

    `key`: that of a reproduction; None where every draw is handed in.
    """

    oracles: tuple[Oracle, ...]
    mechanism: Mechanism
    key: Key | None

    @override
    def __call__(self, private: Private, query: PyTree, turn: Turn) -> tuple[Array, Record]:
        if private.chances is None:
            chance = Chance(None, self._batches(private, turn))
        else:
            chance = jax.tree.map(
                lambda leaf: leaf[0] if leaf.shape[0] == 1 else leaf[turn.local], private.chances
            )
        noise, scale = chance.noise, turn.scale
        if noise is None:
            first = self.oracles[0]
            answer = jax.eval_shape(first.exact, private.shard, private.records, query)
            noise = self._noise(first.noise.shape(tuple(answer.shape)), turn)
        if chance.scale is not None:
            scale = (chance.scale * two_to(turn.exponent)).astype(turn.scale.dtype)
        step = None if isinstance(self.mechanism, NoNoise) else two_to(turn.exponent)
        on_lattice = OnLattice(noise, step)

        def respond(oracle: Oracle, drawn: Drawn | None) -> Array:
            return oracle.answer(private.shard, drawn, private.records, query, on_lattice)

        pairs = zip(self.oracles, chance.batches, strict=True)
        noised = _chosen(turn, [partial(respond, *pair) for pair in pairs])
        answered, drawn = noised.astype(turn.scale.dtype), self.mechanism.size(noise)
        sampling = self._sampling(turn)
        return answered, Record(turn.question, scale, turn.exponent, answered, *sampling, drawn)

    @override
    def ahead(self, private: Private, turn: Turn, shape: tuple[int, ...]) -> Chance | None:
        """Return noise and batches of a turn, which depend on neither records nor queries."""
        if type(self).__call__ is not Live.__call__ or self.key is None:
            return None  # another door, which may draw otherwise, or nothing to draw from
        first = self.oracles[0]  # the noise has one shape for all questions of a plan
        noise = self._noise(first.noise.shape(first.answer_shape(shape)), turn)
        return Chance(noise, self._batches(private, turn))

    def realised(self, rows: int, count: Array, turn: Turn, raw: Raw) -> Chance:
        """Return noise and batches of a turn from the random numbers of a stream.

        The agent has so many padded rows, of which `count` are records.
        """
        batches = tuple(
            oracle.sampling.draw(words, rows, count) if words.size else None
            for oracle, words in zip(self.oracles, raw.words, strict=True)
        )
        noise = raw.steps.astype(jnp.float64) * two_to(turn.exponent)
        return Chance(noise, batches, raw.scale)

    def _batches(self, private: Private, turn: Turn) -> tuple[Drawn | None, ...]:
        return tuple(_draw(oracle, private, turn, self.key) for oracle in self.oracles)

    def _noise(self, shape: tuple[int, ...], turn: Turn) -> Array:
        """Return the noise of a reproduction, rounded to the lattice where there is one."""
        if self.key is None:
            raise InputError("this door has no key to draw noise from; hand in the draws")
        like = jnp.zeros(shape, turn.scale.dtype)
        noise = self.mechanism.sample(noise_key(self.key, turn), like, turn.scale)
        if isinstance(self.mechanism, NoNoise) or not self.oracles[0].noise.adds:
            return noise
        step = two_to(turn.exponent)
        return jnp.rint(noise.astype(jnp.float64) / step) * step

    def _sampling(self, turn: Turn) -> tuple[Array | None, Array | None]:
        """Return the rate and the fixed size of a turn's batch; None if nothing is sampled."""
        if not samples(self.oracles):
            return None, None
        rates = [oracle.sampling.rate for oracle in self.oracles]
        sizes = [oracle.sampling.size or 0 for oracle in self.oracles]
        rate = jnp.asarray(rates, turn.scale.dtype)[turn.question]
        return rate, jnp.asarray(sizes, jnp.int32)[turn.question]


class Recorded(NamedTuple):
    """For a replay: the shard to ask, and the answers that were recorded, `(T, E, *shape)`."""

    private: Private
    answers: Float[Array, "T E *shape"]


class Replay(Door):
    """Tells the algorithm the recorded answer and records what a shard would have said exactly.

    With the shard of the run this recomputes the un-noised answers; with a neighbouring shard, the
    answers that the neighbour would have given on the same public history and, where an oracle
    samples, on the same batches: `key` must then be that of the run.
    """

    oracles: tuple[Oracle, ...]
    key: Key | None = None

    @override
    def __call__(self, private: Recorded, query: PyTree, turn: Turn) -> tuple[Array, ReplayRecord]:
        exact = exact_answer(self.oracles, private.private, query, turn, self.key)
        return private.answers[turn.round, turn.local], ReplayRecord(exact)


class Pair(NamedTuple):
    """For a likelihood ratio: the shard that answers, and the two data sets that are compared."""

    actual: Private
    first: Private
    second: Private


class Rival(Door):
    """A live door that also asks two data sets what they would have answered exactly.

    The record holds answer - exact(first) and answer - exact(second). `live` may be any live door,
    a faulty one too; `oracles` are the questions as they are really answered. None may
    sample: given the batches this would be the ratio of an attacker who knows them, which nothing
    certifies.
    """

    live: Door
    oracles: tuple[Oracle, ...]

    def __check_init__(self) -> None:
        if samples(self.oracles):
            raise InputError(
                "the likelihood ratio of a sampled answer is a mixture over hidden batches; use "
                "taciturn.audit.audit_sampled"
            )

    @override
    def __call__(self, private: Pair, query: PyTree, turn: Turn) -> tuple[Array, RivalRecord]:
        answer, _ = self.live(private.actual, query, turn)
        first = exact_answer(self.oracles, private.first, query, turn, None)
        second = exact_answer(self.oracles, private.second, query, turn, None)
        return answer, RivalRecord(answer - first, answer - second, turn.scale)
