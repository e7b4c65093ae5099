"""One competitor of an experiment: a method, its question and its settings; and its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
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
    """Return `repeated` for one seed: models `(B, *shape)`, and traces."""
    found = repeated(plans, shards, seeds=(seed,), keep=keep)
    one: tuple[Array, Trace] = jax.tree.map(lambda leaf: leaf[:, 0], found)
    return one


def repeated(
    plans: Sequence[Plan], shards: Shards, *, seeds: Sequence[int], keep: frozenset[str]
) -> tuple[Array, Trace]:
    """Return the models `(B, S, *shape)` and traces of B plans from S seeds, in one program.

    All plans draw their noise from the same seeds. Whoever knows a seed can draw it again, so no
    run is private; what the plans certify is what the same runs spend with a secret key.

    Raises
    ------
    InputError
        If the plans differ in more than numbers.
    PrivacyError
        If an observed ledger is not the planned one.
    """
    programs = [made.program for made in plans]
    law, oracles = programs[0].mechanism, programs[0].oracles
    doors = jax.vmap(lambda seed: Live(oracles, law, jax.random.key(seed)))(jnp.asarray(seeds))
    models, trace = sweep(stack(programs), doors, behind_the_door(plans[0], shards), keep=keep)
    _check_ledgers(plans, trace)
    return models, trace


def _check_ledgers(plans: Sequence[Plan], trace: Trace) -> None:
    records = trace.records
    seen = [None if v is None else np.asarray(v) for v in
            (records.kind, records.scale, records.rate)]  # fmt: skip
    for place, made in enumerate(plans):
        for seed in range(records.kind.shape[1]):
            one = [None if values is None else values[place, seed] for values in seen]
            made.ledger.same_as(observed_ledger(made.ledger, *one))


def different(plans: Sequence[Plan]) -> tuple[list[Plan], list[int]]:
    """Return the plans that add different noise, and for every plan its place among them.

    Where summation is not credited, the plan for `sum` is the one for `messages`.
    """
    seen: dict[bytes, int] = {}
    places = [seen.setdefault(made.ledger.scale.tobytes(), len(seen)) for made in plans]
    return [plans[places.index(place)] for place in range(len(seen))], places
