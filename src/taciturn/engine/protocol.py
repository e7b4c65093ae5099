"""One agent's round, the same under every door, network and runtime; and the trace of a run."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.algorithms import Algorithm, Turn
from taciturn.engine.door import Door, Record
from taciturn.errors import PrivacyError
from taciturn.privacy import Certificate, Ledger
from taciturn.privacy.drawn import drawn_noise, noise_test
from taciturn.typing import Array, HostArray, PyTree


def agent_round(
    algorithm: Algorithm, door: Door, state: PyTree, inbox: PyTree, turns: Turn, private: Any
) -> tuple[PyTree, PyTree, PyTree]:
    """Return `(state, message, records)` after receive, E times (ask, door, tell), send.

    `turns` are the E turns of this round, every leaf with a leading axis E, and the door's records
    are stacked over them. Nothing here reads `private`, the data that the door takes.
    """
    first, last = at(turns, 0), at(turns, -1)
    state = algorithm.receive(state, inbox, first)

    def question(state: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        query = algorithm.ask(state, inbox, turn)
        answer, record = door(private, query, turn)
        return algorithm.tell(state, inbox, turn, answer), record

    if turns.question.shape[0] == 1:  # a scan of length one costs its loop and gains nothing
        state, record = question(state, first)
        records = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], record)
    else:
        state, records = jax.lax.scan(question, state, turns)
    state, message = algorithm.send(state, inbox, last)
    return state, message, records


def at(tree: PyTree, index: int | slice | Array) -> PyTree:
    """Return what a tree holds at an index, or a slice, of the first axis."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


class Trace(NamedTuple):
    """A runtime's output; `None` where a part was not kept.

    - `models`: `(T, *shape)`: the model that could be released after each round.
    - `records`: The door's records, leaves `(T, E, A, ...)`; kind -1 where an agent was not asked.
    - `messages`: What each agent sent, leaves `(T, A, ...)`: on a tree the sum of its message and
      of those below it, at the root the total; on a relay the token, `(T, 1, ...)`.
    - `publics`: What agents hear after each round: the public value or the token, leaves `(T,
      ...)`, in gossip the agents' inboxes, `(T, A, ...)`.
    """

    models: Any
    records: PyTree
    messages: PyTree
    publics: PyTree


KEPT = ("models", "answers", "messages", "publics")
Keep: TypeAlias = frozenset[str]


def kept_parts(
    model: Array, inboxes: PyTree, records: PyTree, messages: PyTree, keep: Keep
) -> Trace:
    """Return the parts of one round that `keep` names, of `KEPT`."""
    if isinstance(records, Record) and "answers" not in keep:
        records = records._replace(answer=None)
    return Trace(
        models=model if "models" in keep else None,
        records=records,
        messages=messages if "messages" in keep else None,
        publics=inboxes if "publics" in keep else None,
    )


def observed_ledger(planned: Ledger, records: Record) -> Ledger:
    """Return the ledger that the door's records amount to.

    `planned`: supplies the sensitivities and the law, which are the oracles' and not the door's.
    `records`: leaves `(T, E, A)`.
    """
    rate, batch = records.rate, records.batch
    scale = _agents_first(records.scale)
    exponent = _agents_first(records.exponent).astype(np.int64)
    return Ledger(
        _agents_first(records.kind),
        planned.sensitivity,
        scale,
        planned.mechanism,
        np.ones(()) if rate is None else _agents_first(rate),
        planned.inside,
        np.zeros(()) if batch is None else _agents_first(batch),
        step=np.where((scale > 0) & (planned.inside is None), np.ldexp(1.0, exponent), 0.0),
        values=planned.values,
    )


def tested(plan: Ledger, certificate: Certificate, trace: Trace) -> Trace:
    """Return the trace of a run whose noise passes its test, without what was seen of the noise.

    `plan`: the ledger of the run, as it was planned; the observed one is equal to it.
    `certificate`: that of the plan, whose delta pays for the test. Raises `PrivacyError` if the
    noise does not pass, or the door did not say what it drew.
    """
    records: Record = trace.records
    test = noise_test(plan, epsilon=certificate.epsilon, delta=certificate.delta)
    if test is not None:
        if records.drawn is None:
            raise PrivacyError("the door did not say what noise it drew; nothing may be released")
        test.check(drawn_noise(plan, _agents_first(records.drawn)))
    return trace._replace(records=records._replace(drawn=None))


def _agents_first(values: Any) -> HostArray:
    return np.moveaxis(np.asarray(values), -1, 0)
