"""What differs between networks: who hears what, and what a run would release."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tacit.algorithms import Turn
from tacit.engine.door import Door, Record
from tacit.engine.program import Program
from tacit.engine.protocol import agent_round
from tacit.engine.transcript import Trace
from tacit.engine.wiring import for_all_agents
from tacit.typing import Array, PyTree

Keep = frozenset[str]
_AGENTS_LAST: Any = Turn(-1, -1, -1, None, -1, -1, -1)  # type: ignore[arg-type]


class Exchange(eqx.Module):
    """One kind of network. *heard* is what its agents hear before a round."""

    @abstractmethod
    def first_heard(self, program: Program) -> PyTree:
        """Return what is heard before the first round."""

    @abstractmethod
    def inbox(self, heard: PyTree, agent: int) -> PyTree:
        """Return the inbox of one agent."""

    @abstractmethod
    def round(
        self, program: Program, door: Door, private: Any, carry: PyTree, turns: Turn, server: Turn
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        """Return the next carry (states, heard), and the round's (records, messages).

        Parameters
        ----------
        private
            What the door is opened with, agents on the first axis of every leaf.
        turns
            This round's turns, leaves `(E, S)`.
        """

    @abstractmethod
    def deliver(self, program: Program, heard: PyTree, messages: PyTree, server: Turn) -> PyTree:
        """Return what is heard next, from the S messages of this round."""

    @abstractmethod
    def model(self, program: Program, states: PyTree, heard: PyTree) -> Array:
        """Return the model that would be released now."""

    def opened(self, program: Program, door: Door, private: Any) -> tuple[Door, Any]:
        """Return door and data as `round` takes them: here as they are."""
        del program
        return door, private

    def settled(self, program: Program, hop: int | Array, new: PyTree, old: PyTree) -> PyTree:
        """Return state and message of an agent's round: `new`, or `old` if it did not take part."""
        del program, hop, old
        return new


def rounds_of_all(  # noqa: PLR0913 - what a round is made of
    program: Program,
    door: Door,
    private: Any,
    states: PyTree,
    inboxes: PyTree,
    turns: Turn,
    *,
    axis: int | None,
) -> tuple[PyTree, PyTree, PyTree]:
    """Return the states, messages and records of all agents; inboxes differ along `axis`."""
    # all are asked the same kind; mapped over, the door would answer every kind
    turns = turns._replace(kind=turns.kind[:, 0])
    if program.agents == 1:
        return _round_of_one(program, door, private, states, inboxes, turns, axis=axis)
    done: tuple[PyTree, PyTree, PyTree] = jax.vmap(
        agent_round, in_axes=(None, None, 0, axis, _AGENTS_LAST, 0), out_axes=(0, 0, 1)
    )(program.algorithm, door, states, inboxes, turns, private)
    return done


def _round_of_one(  # noqa: PLR0913 - as `rounds_of_all`
    program: Program,
    door: Door,
    private: Any,
    states: PyTree,
    inboxes: PyTree,
    turns: Turn,
    *,
    axis: int | None,
) -> tuple[PyTree, PyTree, PyTree]:
    """Return `rounds_of_all` for one agent: mapped over, its gathers would cost twice as much."""
    own, state = (jax.tree.map(lambda leaf: leaf[0], tree) for tree in (private, states))
    inbox = inboxes if axis is None else jax.tree.map(lambda leaf: leaf[0], inboxes)
    alone = jax.tree.map(lambda leaf: leaf[..., 0], turns._replace(kind=turns.kind[..., None]))
    state, message, records = agent_round(program.algorithm, door, state, inbox, alone, own)
    first = [jax.tree.map(lambda leaf: leaf[None], tree) for tree in (state, message)]
    return first[0], first[1], jax.tree.map(lambda leaf: leaf[:, None], records)


def first_states(program: Program) -> PyTree:
    """Return the agents' first states, agents on the first axis."""
    state = program.algorithm.start(program.template)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (program.agents, *x.shape)), state)


def kept_parts(model: Array, heard: PyTree, records: PyTree, messages: PyTree, keep: Keep) -> Trace:
    """Return the parts of one round that were asked for; see `transcript.KEPT`."""
    if isinstance(records, Record) and "answers" not in keep:
        records = records._replace(answer=None)
    return Trace(
        models=model if "models" in keep else None,
        records=records,
        messages=messages if "messages" in keep else None,
        publics=heard if "publics" in keep else None,
    )


def whole(program: Program, trace: Trace) -> Trace:
    """Return the trace with records `(T, E, A, ...)`: kind -1 and zeros where nobody was asked."""

    def spread(leaf: Array) -> Array:
        return for_all_agents(program.wiring, leaf, program.agents)

    records = jax.tree.map(spread, trace.records)
    if isinstance(records, Record):
        kind = for_all_agents(program.wiring, trace.records.kind, program.agents, fill=-1)
        rate = trace.records.rate
        if rate is not None:
            rate = for_all_agents(program.wiring, rate, program.agents, fill=1)
        records = records._replace(kind=kind, rate=rate)
    return trace._replace(records=records)
