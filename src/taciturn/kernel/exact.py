"""Answers without noise, for audits by the custodian of the records. No certificate is made.

`Replay` and `Rival` are doors to shards that their caller holds; their output must not be released.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from jaxtyping import Float
from typing_extensions import override

from taciturn.errors import InputError
from taciturn.kernel.door.door import (
    Chance,
    Door,
    Private,
    Raw,
    Turn,
    batches_of,
    chosen,
    now_of,
    of_asked,
    realise,
    samples,
)
from taciturn.kernel.questions import Drawn, Oracle
from taciturn.kernel.records import Shard
from taciturn.typing import Array, PyTree

__all__ = ["Replay", "ReplayRecord", "Rival", "RivalRecord", "exact_answers"]


class ReplayRecord(NamedTuple):
    """The exact answer on the replayed public history."""

    exact: Float[Array, "*s_shape"]


class RivalRecord(NamedTuple):
    """The answer as noise around two data sets' exact answers: what a likelihood ratio needs."""

    first: Float[Array, "*s_shape"]
    second: Float[Array, "*s_shape"]
    scale: Float[Array, "*s"]


def exact_answers(
    oracles: tuple[Oracle, ...],
    private: Private,
    queries: PyTree,
    turn: Turn,
    chance: Chance | None,
) -> Array:
    """Return the un-noised answers of oracle number `turn.question`; zeros for -1, no question."""

    def exact(oracle: Oracle, batches: Drawn | None) -> Array:
        def one(shard: Shard, count: Array, query: PyTree, drawn: Drawn | None) -> Array:
            return oracle.unnoised(shard, drawn, count, query)

        return of_asked(private, turn.agent, one, queries, batches)

    batches = now_of(turn, batches_of(chance, oracles))
    pairs = zip(oracles, batches, strict=True)
    return chosen(turn, [partial(exact, *pair) for pair in pairs])


class Replay(Door):
    """Gives the algorithm the recorded answers, and records the exact answers of the shards.

    With the shards of the run these are its un-noised answers; with neighbouring shards, those of
    the neighbour on the same public history and, with the random numbers of the run, on the same
    batches. `answers`: the recorded ones, `(T, E, A, *shape)`.
    """

    oracles: tuple[Oracle, ...]
    private: Private
    answers: Float[Array, "T E A *shape"]

    @override
    def __call__(
        self, queries: PyTree, turn: Turn, chance: Chance | None
    ) -> tuple[Array, ReplayRecord]:
        exact = exact_answers(self.oracles, self.private, queries, turn, chance)
        return self.answers[turn.round, turn.local, turn.agent], ReplayRecord(exact)

    @override
    def realised(self, turns: Turn, raw: Raw) -> Chance:
        return realise(self.oracles, self.private, turns, raw._replace(steps=None))


class Rival(Door):
    """A live door that also records answer - exact(first) and answer - exact(second).

    `live` may be any door, a faulty one too; `oracles` are the questions that it answers. None may
    sample: the ratio would be that of an attacker who knows the batches, which no certificate
    covers.
    """

    live: Door
    oracles: tuple[Oracle, ...]
    first: Private
    second: Private

    def __check_init__(self) -> None:
        if samples(self.oracles):
            raise InputError(
                "the likelihood ratio of a sampled answer is a mixture over hidden batches; use "
                "taciturn.audit.audit_sampled"
            )

    @override
    def __call__(
        self, queries: PyTree, turn: Turn, chance: Chance | None
    ) -> tuple[Array, RivalRecord]:
        answer, _ = self.live(queries, turn, chance)
        first, second = (
            exact_answers(self.oracles, data, queries, turn, None)
            for data in (self.first, self.second)
        )
        return answer, RivalRecord(answer - first, answer - second, turn.scale)

    @override
    def realised(self, turns: Turn, raw: Raw) -> Chance | None:
        return self.live.realised(turns, raw)
