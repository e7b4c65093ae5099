"""One competitor of an experiment: a method, its question and its settings; and its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tacit.algorithms import Algorithm
from tacit.door import Live
from tacit.oracles import Oracle
from tacit.plan import Plan, Terms, plan
from tacit.problems import Problem, Shards, public_facts
from tacit.program import stack
from tacit.runtime import behind_the_door, sweep
from tacit.transcript import Trace, observed_ledger
from tacit.typing import Array


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


def swept(
    plans: Sequence[Plan], shards: Shards, *, seed: int, keep: frozenset[str]
) -> tuple[Array, Trace]:
    """Return the models `(B, *shape)` and traces of B plans, run as one compiled program.

    Every run draws its noise from the same seed. Whoever knows the seed can draw it again, so no
    run is private; what the plans certify is what the same runs spend with a secret key.

    Raises
    ------
    InputError
        If the plans differ in more than numbers.
    PrivacyError
        If an observed ledger is not the planned one.
    """
    programs = [made.program for made in plans]
    door = Live(programs[0].oracles, programs[0].mechanism, jax.random.key(seed))
    doors = jax.tree.map(lambda leaf: leaf[None], door)
    models, trace = sweep(stack(programs), doors, behind_the_door(plans[0], shards), keep=keep)
    only: Any = jax.tree.map(lambda leaf: leaf[:, 0], (models, trace))
    _check_ledgers(plans, only[1])
    return only[0], only[1]


def _check_ledgers(plans: Sequence[Plan], trace: Trace) -> None:
    records = trace.records
    for place, made in enumerate(plans):
        one = [None if v is None else np.asarray(v[place]) for v in
               (records.kind, records.scale, records.rate, records.batch)]  # fmt: skip
        made.ledger.same_as(observed_ledger(made.ledger, *one))


def different(plans: Sequence[Plan]) -> tuple[list[Plan], list[int]]:
    """Return the plans that add different noise, and for every plan its place among them.

    Where summation is not credited, the plan for `sum` is the one for `messages`.
    """
    seen: dict[bytes, int] = {}
    places = [seen.setdefault(made.ledger.scale.tobytes(), len(seen)) for made in plans]
    return [plans[places.index(place)] for place in range(len(seen))], places
