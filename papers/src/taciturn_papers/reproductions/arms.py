"""One competitor of an experiment: a method, its question and its settings; and its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import jax
import numpy as np

from taciturn.algorithms import Algorithm
from taciturn.engine import Plan, Trace, plan, records_for_door, sweep
from taciturn.kernel.door import Record, observed_ledger
from taciturn.kernel.privacy import Terms
from taciturn.kernel.questions import Oracle
from taciturn.kernel.records import Shard, Shards, pack
from taciturn.problems import Problem, public_facts
from taciturn.typing import Array, HostArray


@dataclass(frozen=True)
class Arm:
    """A competitor.

    Attributes
    ----------
    name
        As readers see it.
    algorithm, oracle
        From the problem to the method, and to the question that it asks.
    clip
        Bound on the coefficient of a record.
    not_private
        Constants taken from private data.
    """

    name: str
    algorithm: Callable[[Problem], Algorithm]
    oracle: Callable[[Problem], Oracle]
    clip: float
    rounds: int
    not_private: tuple[str, ...] = ()

    def plan(self, problem: Problem, shards: Shards, terms: Terms) -> Plan:
        """Return the plan of one run on these terms, in single precision."""
        return plan(
            public_facts(problem, shards, clip=self.clip),
            self.algorithm(problem),
            (self.oracle(problem),),
            terms,
            rounds=self.rounds,
            precision="float32",
        )


def packed(
    features: HostArray, targets: HostArray, owners: Sequence[HostArray], *, norm: float = 1.0
) -> Shards:
    """Return records dealt out to their owners, in single precision; longer ones are shortened."""
    return pack(features, targets, owners, record_norm=norm, precision="float32")


def packed_test(features: HostArray, targets: HostArray, *, norm: float = 1.0) -> Shard:
    """Return test records as one shard, bounded as those that are trained on."""
    return packed(features, targets, [np.arange(len(targets))], norm=norm).shard(0)


def swept(
    plans: Sequence[Plan], shards: Shards, *, seed: int, keep: frozenset[str]
) -> tuple[Array, Trace]:
    """Return `repeated` for one seed: models `(B, *shape)`, and traces."""
    found = repeated(plans, shards, seeds=(seed,), keep=keep)
    one: tuple[Array, Trace] = jax.tree.map(lambda leaf: leaf[:, 0], found)
    return one


def repeated(
    plans: Sequence[Plan], shards: Shards, *, seeds: Sequence[int], keep: frozenset[str]
) -> tuple[Array, Trace]:
    """Return the models `(B, S, *shape)` and traces of B plans from S seeds.

    All plans draw their noise from the same seeds. Whoever knows a seed can draw it again, so no
    run is private; what the plans certify is what the same runs spend with a secret key.

    Raises
    ------
    InputError
        If the plans differ in more than numbers.
    PrivacyError
        If an observed ledger is not the planned one.
    """
    private = records_for_door(plans[0], shards)
    models, trace = sweep([made.program for made in plans], private, seeds=seeds, keep=keep)
    for place in range(len(seeds)):
        _check_ledgers(plans, jax.tree.map(itemgetter((slice(None), place)), trace.records))
    return models, trace


def _check_ledgers(plans: Sequence[Plan], records: Record) -> None:
    for place, made in enumerate(plans):
        one = jax.tree.map(itemgetter(place), records._replace(answer=None))
        made.ledger.same_as(observed_ledger(made.ledger, one))


def different(plans: Sequence[Plan]) -> tuple[list[Plan], list[int]]:
    """Return the plans that add different noise, and for every plan its place among them.

    Where summation is not credited, the plan for `sum` is the one for `messages`.
    """
    seen: dict[bytes, int] = {}
    places = [seen.setdefault(made.ledger.scale.tobytes(), len(seen)) for made in plans]
    return [plans[places.index(place)] for place in range(len(seen))], places
