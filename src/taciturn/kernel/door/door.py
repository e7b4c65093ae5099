"""The only code that sees a shard: it answers a question, with noise, and records the answer.

    door(queries, turn, chance) -> (answers, records)                          S agents at once

A door holds the agents' records; methods and networks pass it queries and see noised answers.
`Live` is the door of a run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Int64, UInt64
from typing_extensions import override

from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import Mechanism, NoNoise
from taciturn.kernel.questions import Drawn, OnLattice, Oracle
from taciturn.kernel.records import Shard
from taciturn.typing import Array, PyTree

# beyond this many branches of a switch, compiling costs more than copying one shard per hop
_MOST_BRANCHES = 64
# the traced round numbers of turns already asked, by identity
_ASKED: MutableMapping[int, Any] = WeakValueDictionary()


class Turn(NamedTuple):
    """The public context of one question: a slice of the plan.

    - `round`, `local`: The round, and the question within it.
    - `participation`: How often the agent took part before; `round` if all take part in every
      round.
    - `question`: The number of the oracle; -1 for none.
    - `agent`: The agent that answers.
    - `scale`, `exponent`: Scale of the noise; the step of the lattice is 2^exponent.
    - `values`: The method's schedules at this turn.
    """

    round: Int[Array, "*q"]
    local: Int[Array, "*q"]
    participation: Int[Array, "*q"]
    question: Int[Array, "*q"]
    agent: Int[Array, "*q"]
    scale: Float[Array, "*q"]
    exponent: Int[Array, "*q"]
    values: dict[str, Float[Array, "*q"]]


def at(tree: PyTree, index: int | slice | Array | None) -> PyTree:
    """Return a tree at an index, or a slice, of the first axis; None adds an axis."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def over_agents(function: Callable[..., Any], agents: int, *axes: Any) -> Callable[..., Any]:
    """Return a function mapped over agents; for a single agent without the gathers of `vmap`.

    `axes`: for every argument 0, or a tree of 0 and None where parts are the same for all agents.
    """
    if agents > 1:
        return jax.vmap(function, in_axes=axes)

    def of_one(*given: Any) -> Any:
        alone = jax.tree.map(
            lambda axis, part: part if axis is None else at(part, 0),
            axes,
            given,
            is_leaf=lambda axis: axis is None,
        )
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], function(*alone))

    return of_one


class Private(NamedTuple):
    """All agents' shards, and their public record counts.

    Agents are on the first axis, or in a tuple where one is asked at a time (`apart`).
    """

    shard: Shard | tuple[Shard, ...]
    records: Float[Array, " A"]

    @property
    def rows(self) -> int:
        """The padded number of records of an agent."""
        shard = self.shard[0] if isinstance(self.shard, tuple) else self.shard
        return int(shard.mask.shape[-1])


class Raw(NamedTuple):
    """The random numbers of some answers from a stream; None where there are none.

    `steps` is the noise and `scale` the scale of the sampler, both in steps of the lattice; `words`
    are those of the batches, for each oracle.
    """

    steps: Int64[Array, "*s_shape"] | None
    words: tuple[UInt64[Array, "*s W"] | None, ...]
    scale: Float[Array, "*s"] | None


class Chance(NamedTuple):
    """Noise and batches of some answers, leaves `(..., S, E, ...)`, realised from a `Raw`."""

    noise: Float[Array, "*s_shape"] | None
    batches: tuple[Drawn | None, ...]
    scale: Float[Array, "*s"] | None


class Record(NamedTuple):
    """A door's record of one answer; all but `answer` and `drawn` make the observed ledger.

    `kind` is the number of the question, `scale` that at which the noise was drawn, 2^`exponent`
    the step of the lattice, `rate` the sampling rate, and `batch` the size of the batch if it is
    fixed, else 0; these two are None where no oracle samples. `drawn` is the size of the noise
    (`Mechanism.size`), for its test: it reveals something about the answer, and no run returns it.
    """

    kind: Int[Array, "*s"]
    scale: Float[Array, "*s"]
    exponent: Int[Array, "*s"]
    answer: Float[Array, "*s_shape"] | None
    rate: Float[Array, "*s"] | None = None
    batch: Int[Array, "*s"] | None = None
    drawn: Float[Array, "*s"] | None = None


class Door(eqx.Module):
    """A way to ask private data a question."""

    @abstractmethod
    def __call__(self, queries: PyTree, turn: Turn, chance: Chance | None) -> tuple[Array, Any]:
        """Return the answers that the algorithm receives, and the records of them.

        Leaves of queries, turn, answers and records have an axis of the S agents that are asked;
        the question alone is one for all. `chance` is that of the round, leaves `(S, E, ...)`.
        """

    def realised(self, turns: Turn, raw: Raw) -> Chance | None:
        """Return noise and batches of some rounds, leaves `(B, S, E, ...)`; here none.

        `turns` has leaves `(B, E, S)`; `raw` comes from a supply. The result depends on neither
        records nor queries.
        """
        del turns, raw
        return None


def exact_power_of_two(exponent: Int[Array, "*s"]) -> Float[Array, "*s"]:
    """Return 2^exponent in double precision, exactly; the exponent within -1022 and 1023."""
    biased = (exponent.astype(jnp.int64) + 1023) << 52
    return jax.lax.bitcast_convert_type(biased, jnp.float64)


def samples(oracles: tuple[Oracle, ...]) -> bool:
    """Return whether any of the oracles draws batches."""
    return any(oracle.sampling.rate < 1 for oracle in oracles)


def apart(door: Door) -> Door:
    """Return the door with shards in a tuple, for networks that ask one agent at a time.

    A shard selected by a traced index is copied at every hop, which costs more than a gradient.
    """

    def split(part: Any) -> Any:
        agents = len(part.records) if isinstance(part, Private) else 0
        if not agents or agents > _MOST_BRANCHES:
            return part
        return part._replace(shard=tuple(at(part.shard, agent) for agent in range(agents)))

    separate: Door = jax.tree.map(split, door, is_leaf=lambda part: isinstance(part, Private))
    return separate


def of_agent(door: Door, agent: int) -> Door:
    """Return the door to one agent's records alone."""

    def one(part: Any) -> Any:
        return at(part, slice(agent, agent + 1)) if isinstance(part, Private) else part

    alone: Door = jax.tree.map(one, door, is_leaf=lambda part: isinstance(part, Private))
    return alone


def of_asked(
    private: Private, agents: Int[Array, " S"], answer: Callable[..., Array], *given: PyTree
) -> Array:
    """Return `answer(shard, records, *given)` for the agents that are asked: all, or one."""
    shard, records = private
    if not isinstance(shard, tuple) and len(agents) == len(records):
        axes = [0] * (2 + len(given))
        answers: Array = over_agents(answer, len(agents), *axes)(shard, records, *given)
        return answers
    asked, first = agents[0], at(given, 0)
    if not isinstance(shard, tuple):
        return answer(at(shard, asked), records[asked], *first)[None]
    branches = [partial(answer, each) for each in shard]
    one: Array = jax.lax.switch(asked, branches, records[asked], *first)
    return one[None]


def chosen(turn: Turn, branches: list[Callable[[], Array]]) -> Array:
    """Return the answers of oracle number `turn.question`; zeros for -1.

    **Guarantee.** A turn without a question has no ledger entry and no noise, so its answer must
    not depend on the shard: it is a constant.
    """
    answer = branches[0]() if len(branches) == 1 else jax.lax.switch(turn.question, branches)
    return jnp.where(turn.question >= 0, answer, jnp.zeros_like(answer))


def ask_once(turn: Turn) -> None:
    """Raise `PrivacyError` if a traced program asks twice in one turn.

    Both answers would have the same noise, and one of the records could be dropped.
    """
    asked = turn.round
    if not isinstance(asked, jax.core.Tracer):
        return
    if _ASKED.get(id(asked)) is asked:
        raise PrivacyError(
            "a question is asked twice in one turn, and the difference of two answers with the "
            "same noise is exact; plan a question for each answer"
        )
    _ASKED[id(asked)] = asked


def now_of(turn: Turn, chance: PyTree) -> PyTree:
    """Return the noise or batches of one question of the round, leaves `(S, ...)`."""
    return jax.tree.map(
        lambda leaf: leaf[:, 0] if leaf.shape[1] == 1 else leaf[:, turn.local[0]], chance
    )


def batches_of(chance: Chance | None, oracles: tuple[Oracle, ...]) -> tuple[Drawn | None, ...]:
    """Return the batch of each oracle; None where all records answer."""
    if chance is None and samples(oracles):
        raise InputError("an oracle samples its batches; give the random numbers of the run")
    return (None,) * len(oracles) if chance is None else chance.batches


def realise(oracles: tuple[Oracle, ...], private: Private, turns: Turn, raw: Raw) -> Chance:
    """Return noise and batches of some rounds, leaves `(B, S, E, ...)`, from random numbers."""
    records, rows = private.records, private.rows
    agents = jnp.moveaxis(turns.agent, -1, 1)
    if agents.shape[1] == len(records):
        counts = jnp.broadcast_to(records[:, None], agents.shape)
    else:
        counts = records[agents]

    def drawn(oracle: Oracle, words: UInt64[Array, "*s W"] | None) -> Drawn | None:
        if words is None:
            return None
        draw: Any = partial(oracle.sampling.draw, rows=rows)
        each: Any = jax.vmap(jax.vmap(jax.vmap(lambda some, count: draw(some, count=count))))
        batches: Drawn = each(words, counts)
        return batches

    batches = tuple(drawn(*pair) for pair in zip(oracles, raw.words, strict=True))
    if raw.steps is None:
        return Chance(None, batches, None)
    step = exact_power_of_two(jnp.moveaxis(turns.exponent, -1, 1))
    wide = step.reshape(step.shape + (1,) * (raw.steps.ndim - step.ndim))
    return Chance(raw.steps.astype(jnp.float64) * wide, batches, raw.scale)


class Live(Door):
    """The door of a run: the oracle's answer under noise of the turn's scale.

    **Guarantee.** Every answer is `oracle.answer(...)`: the exact answer on a batch of
    `oracle.sampling`, with its noise where `oracle.noise` puts it, on the lattice of the turn, and
    only then in the precision of the run. Noise and batch are drawn from a stream for every answer
    (`taciturn.kernel.door.supply`). Every answer leaves one record, which the run compares with the
    plan: it has the scale at which the noise was drawn, and the size of that noise, which is tested
    (`taciturn.kernel.privacy.drawn`). A program asks once in a turn (`ask_once`).
    """

    oracles: tuple[Oracle, ...]
    mechanism: Mechanism
    private: Private

    @override
    def __call__(self, queries: PyTree, turn: Turn, chance: Chance | None) -> tuple[Array, Record]:
        batches = now_of(turn, batches_of(chance, self.oracles))
        noise, scale, step = None, turn.scale, None
        if not isinstance(self.mechanism, NoNoise):
            if chance is None or chance.noise is None or chance.scale is None:
                raise InputError("this door has no noise to add; give the random numbers of a run")
            ask_once(turn)
            noise, drawn_at = now_of(turn, (chance.noise, chance.scale))
            step = exact_power_of_two(turn.exponent)
            scale = (drawn_at * step).astype(turn.scale.dtype)

        def respond(oracle: Oracle, drawn: Drawn | None) -> Array:
            def one(
                shard: Shard, count: Array, query: PyTree, given: OnLattice, batch: Drawn | None
            ) -> Array:
                if given.step is None:
                    shape = jax.eval_shape(oracle.exact, shard, count, query).shape
                    given = OnLattice(jnp.zeros(oracle.noise.shape(shape)), None)
                return oracle.answer(shard, batch, count, query, given)

            given = OnLattice(noise, step)  # type: ignore[arg-type]
            return of_asked(self.private, turn.agent, one, queries, given, drawn)

        pairs = zip(self.oracles, batches, strict=True)
        noised = chosen(turn, [partial(respond, *pair) for pair in pairs])
        answers = noised.astype(turn.scale.dtype)
        kind = jnp.broadcast_to(turn.question, turn.agent.shape)
        size = jnp.zeros(kind.shape) if noise is None else jax.vmap(self.mechanism.size)(noise)
        sampling = self._sampling(kind, turn.scale.dtype)
        return answers, Record(kind, scale, turn.exponent, answers, *sampling, size)

    @override
    def realised(self, turns: Turn, raw: Raw) -> Chance:
        return realise(self.oracles, self.private, turns, raw)

    def _sampling(self, kind: Array, dtype: Any) -> tuple[Array | None, Array | None]:
        """Return the rates and the fixed sizes of batches; None if nothing is sampled."""
        if not samples(self.oracles):
            return None, None
        rates = [oracle.sampling.rate for oracle in self.oracles]
        sizes = [oracle.sampling.size or 0 for oracle in self.oracles]
        return jnp.asarray(rates, dtype)[kind], jnp.asarray(sizes, jnp.int32)[kind]
