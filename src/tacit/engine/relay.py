"""Relay: one agent holds a token; only it is asked, and it passes the token on."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from typing_extensions import override

from tacit.algorithms import RelayAlgorithm, Turn
from tacit.engine.door import Door
from tacit.engine.exchange import Exchange
from tacit.engine.program import Program
from tacit.engine.protocol import agent_round
from tacit.engine.wiring import Relay
from tacit.typing import Array, PyTree

# branches of a switch: above this many, compiling them costs more than copying one shard a hop
_MOST_BRANCHES = 64


class OnRelay(Exchange):
    """The holder hears the token; the other agents' states stay as they are."""

    @override
    def first_heard(self, program: Program) -> PyTree:
        return _algorithm(program).first_token(program.template)

    @override
    def inbox(self, heard: PyTree, agent: int) -> PyTree:
        return heard

    @override
    def opened(self, program: Program, door: Door, private: Any) -> tuple[Door, Any]:
        if program.agents > _MOST_BRANCHES:
            return Sliced(door), private
        return OneOf(door), tuple(_at(private, agent) for agent in range(program.agents))

    @override
    def round(
        self, program: Program, door: Door, private: Any, carry: PyTree, turns: Turn, server: Turn
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        states, token = carry
        turns = jax.tree.map(lambda leaf: leaf[..., 0], turns)
        holder = turns.agent[0]
        old = jax.tree.map(partial(_slice, holder), states)
        state, message, records = agent_round(program.algorithm, door, old, token, turns, private)
        state, message = self.settled(program, turns.round[0], (state, message), (old, token))
        states = jax.tree.map(lambda all_, one: all_.at[holder].set(one), states, state)
        alone = jax.tree.map(lambda leaf: leaf[:, None], records)
        return (states, message), (alone, jax.tree.map(lambda leaf: leaf[None], message))

    @override
    def settled(self, program: Program, hop: int | Array, new: PyTree, old: PyTree) -> PyTree:
        awake = cast(Relay, program.wiring).awake[hop]
        return jax.tree.map(lambda x, y: jnp.where(awake, x, y), new, old)

    @override
    def deliver(self, program: Program, heard: PyTree, messages: PyTree, server: Turn) -> PyTree:
        return _at(messages, 0)

    @override
    def model(self, program: Program, states: PyTree, heard: PyTree) -> Array:
        return _algorithm(program).model(heard)


class OneOf(Door):
    """A door that is opened with all agents' data and asks the turn's agent, without copying.

    Data are a tuple with an entry per agent, and each agent's question is a branch of a switch: a
    shard selected by its index would be copied at every hop, which costs more than a gradient.
    """

    door: Door

    @override
    def __call__(self, private: Any, query: PyTree, turn: Turn) -> tuple[Array, Any]:
        branches = [partial(self._ask, own) for own in private]
        answered: tuple[Array, Any] = jax.lax.switch(turn.agent, branches, query, turn)
        return answered

    def _ask(self, own: Any, query: PyTree, turn: Turn) -> tuple[Array, Any]:
        return self.door(own, query, turn)


class Sliced(Door):
    """A door that is opened with all agents' data, stacked, and asks the turn's agent."""

    door: Door

    @override
    def __call__(self, private: Any, query: PyTree, turn: Turn) -> tuple[Array, Any]:
        own = jax.tree.map(partial(_slice, turn.agent), private)
        return self.door(own, query, turn)


def _slice(index: Array, leaf: Array) -> Array:
    one: Array = jax.lax.dynamic_index_in_dim(leaf, index, keepdims=False)
    return one


def _at(tree: PyTree, index: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _algorithm(program: Program) -> RelayAlgorithm:
    return cast(RelayAlgorithm, program.algorithm)  # the plan saw to it
