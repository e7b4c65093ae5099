"""One round on a star: each inbox is the public value; the aggregator sees the mean message."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tacit.algorithms import Turn
from tacit.door import Door, Record
from tacit.program import Program
from tacit.protocol import agent_round
from tacit.transcript import Trace
from tacit.typing import PyTree

Keep = frozenset[str]
_AGENTS_LAST: Any = Turn(-1, -1, -1, None, -1, -1, -1)  # type: ignore[arg-type]


def star_round(
    program: Program, door: Door, private: Any, carry: PyTree, turns: Turn, server: Turn
) -> tuple[PyTree, tuple[PyTree, PyTree]]:
    """Return the next carry (states, public), and the round's (records, messages).

    Parameters
    ----------
    private
        What the door is opened with, agents on the first axis of every leaf.
    turns
        This round's turns, leaves `(E, A)`.
    """
    states, public = carry
    # on a star all agents are asked the same kind; mapped over, the door would answer every kind
    turns = turns._replace(kind=turns.kind[:, 0])
    states, messages, records = jax.vmap(
        agent_round, in_axes=(None, None, 0, None, _AGENTS_LAST, 0), out_axes=(0, 0, 1)
    )(program.algorithm, door, states, public, turns, private)
    public = program.algorithm.combine(public, mean_over_agents(messages), server)
    return (states, public), (records, messages)


def first_carry(program: Program) -> PyTree:
    """Return the agents' first states, agents on the first axis, and the first public value."""
    state = program.algorithm.start(program.template)
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (program.agents, *x.shape)), state)
    return states, program.algorithm.first_public(program.template)


def mean_over_agents(messages: PyTree) -> PyTree:
    """Return the mean of every leaf over its first axis."""
    return jax.tree.map(lambda x: jnp.mean(x, axis=0), messages)


def kept_parts(
    program: Program, public: PyTree, records: PyTree, messages: PyTree, keep: Keep
) -> Trace:
    """Return the parts of one round that were asked for; see `transcript.KEPT`."""
    if isinstance(records, Record) and "answers" not in keep:
        records = records._replace(answer=None)
    return Trace(
        models=program.algorithm.model(public) if "models" in keep else None,
        records=records,
        messages=messages if "messages" in keep else None,
        publics=public if "publics" in keep else None,
    )
