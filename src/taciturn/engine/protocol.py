"""The round of some agents, the same under every door, network and runtime; and the trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from taciturn.algorithms import Algorithm, Turn
from taciturn.kernel.door import Door, Record, at, over_agents
from taciturn.typing import Array, PyTree

# a way to ask: queries and a turn, to answers and records; a door with the draws of a round
Ask: TypeAlias = Callable[[PyTree, Turn], tuple[Any, PyTree]]
# all agents are asked the same question; mapped over, a door would answer every one
_EACH: Any = Turn(0, 0, 0, None, 0, 0, 0, 0)  # type: ignore[arg-type]


def agents_round(
    algorithm: Algorithm,
    ask: Ask,
    states: PyTree,
    inboxes: PyTree,
    turns: Turn,
    *,
    inbox_axis: int | None = None,
) -> tuple[PyTree, PyTree, PyTree]:
    """Return `(states, messages, records)` after receive, E times (ask, answer, tell), send.

    `turns` are those of the round, leaves `(E, S)`; states and messages have an axis of the S
    agents, inboxes one where they differ, records `(E, S, ...)`. Nothing here sees a record.
    """
    agents = turns.agent.shape[-1]
    turns = turns._replace(question=turns.question[:, 0])
    first, last = at(turns, 0), at(turns, -1)
    states = over_agents(algorithm.receive, agents, 0, inbox_axis, _EACH)(states, inboxes, first)

    def question(states: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        queries = over_agents(algorithm.ask, agents, 0, inbox_axis, _EACH)(states, inboxes, turn)
        answers, records = ask(queries, turn)
        tell = over_agents(algorithm.tell, agents, 0, inbox_axis, _EACH, 0)
        return tell(states, inboxes, turn, answers), records

    if turns.question.shape[0] == 1:  # a scan of length one costs its loop and gains nothing
        states, record = question(states, first)
        records = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], record)
    else:
        states, records = jax.lax.scan(question, states, turns)
    send = over_agents(algorithm.send, agents, 0, inbox_axis, _EACH)
    states, messages = send(states, inboxes, last)
    return states, messages, records


def agent_round(
    algorithm: Algorithm, door: Door, state: PyTree, inbox: PyTree, turns: Turn, raw: Any
) -> tuple[PyTree, PyTree, PyTree]:
    """Return `(state, message, records)` of one agent's round, behind a door to it alone.

    `turns` are the E turns of this round, every leaf with a leading axis E, and `raw` the random
    numbers of its answers, leaves `(E, ...)`; the records are stacked over them.
    """
    of_one = jax.tree.map(lambda leaf: leaf[:, None], turns)
    now, numbers = jax.tree.map(lambda leaf: leaf[None], (of_one, at(raw, None)))
    chance = at(door.realised(now, numbers), 0)
    ask = partial(door.__call__, chance=chance)
    states, messages, records = agents_round(algorithm, ask, at(state, None), inbox, of_one)
    return at(states, 0), at(messages, 0), jax.tree.map(lambda leaf: leaf[:, 0], records)


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
