"""Relay: the holder of a token answers and passes the token on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Num
from typing_extensions import override

from taciturn.algorithms import RelayAlgorithm, Turn
from taciturn.engine.door import Door, Holding
from taciturn.engine.network import NetworkKind, Traffic, check_agents
from taciturn.engine.protocol import agent_round, at
from taciturn.errors import InputError
from taciturn.network import Walk
from taciturn.privacy import NO_QUESTION
from taciturn.typing import Array, HostArray, PyTree

# branches of a switch: above this many, compiling them costs more than copying one shard a hop
_MOST_BRANCHES = 64


class Relay(NetworkKind):
    """The holder hears the token and passes it on; the other agents' states stay as they are.

    A round is a hop. A holder beyond its cap takes no part: it passes the token on untouched.

    Attributes
    ----------
    holders, visits, awake
        Who holds the token at each hop, how often before, and whether it takes part.
    """

    algorithms: ClassVar[type] = RelayAlgorithm
    data: ClassVar[str] = "a Walk"
    draws_ahead: ClassVar[bool] = False  # its doors take all agents' data

    holders: Int[Array, " T"]
    visits: Int[Array, " T"]
    awake: Bool[Array, " T"]

    @classmethod
    @override
    def connect(cls, data: Walk, agents: int, rounds: int) -> Relay:
        check_agents(data.graph.agents, agents)
        if len(data.holders) != rounds:
            raise InputError(
                f"the walk has {len(data.holders)} hops, the plan {rounds} rounds; on a relay a "
                "round is one hop, so make them equal"
            )
        missing = np.flatnonzero(data.counts == 0)
        if missing.size:
            raise InputError(
                f"the walk never asks agent {missing[0]}, whose records would not count; allow "
                "more hops"
            )
        return cls(agents, *(jnp.asarray(x) for x in (data.holders, data.visits, data.awake)))

    @override
    def asked(self, questions: Int[HostArray, "T E"]) -> Int[HostArray, "A T E"]:
        """Return every agent's questions: those at its hops, as long as it takes part."""
        holders, awake = np.asarray(self.holders), np.asarray(self.awake)
        holds = (holders == np.arange(self.agents)[:, None]) & awake
        return np.where(holds[:, :, None], super().asked(questions), NO_QUESTION)

    @override
    def all_rounds(
        self, rounds: int, schedule: Callable[[int], dict[str, HostArray]]
    ) -> dict[str, HostArray]:
        """Return schedules `(..., T)`; hops without a participant repeat the value before."""
        latest = np.cumsum(np.asarray(self.awake)) - 1
        schedules = schedule(int(latest[-1]) + 1)
        return {name: values[..., latest] for name, values in schedules.items()}

    @override
    def of_participants(self, values: Num[HostArray, "A T E"]) -> Num[HostArray, "T E 1"]:
        holders = np.asarray(self.holders)[:, None, None]
        return np.take_along_axis(super().of_participants(values), holders, axis=-1)

    @override
    def participants(self, rounds: int) -> tuple[Int[Array, "T 1"], Int[Array, "T"]]:
        return self.holders[:, None], self.visits

    @override
    def questions(self, questions: Int[Array, "T E"]) -> Int[Array, "T E"]:
        return jnp.where(self.awake[:, None], questions, NO_QUESTION)

    @override
    def schedule_of_participants(self, values: Float[Array, "T A"]) -> Float[Array, "T 1"]:
        return jnp.take_along_axis(values, self.holders[:, None], axis=1)

    @override
    def of_all_agents(self, values: Array, *, fill: int = 0) -> Num[Array, "T E A ..."]:
        holds = self.holders[:, None, None] == jnp.arange(self.agents, dtype=jnp.int32)
        wide = holds.reshape(holds.shape + (1,) * (values.ndim - 3))
        return jnp.where(wide, values, jnp.asarray(fill, values.dtype))

    @override
    def first_inboxes(self, algorithm: RelayAlgorithm, template: Array) -> PyTree:
        """Return the token."""
        return algorithm.first_token(template)

    @override
    def inbox(self, inboxes: PyTree, agent: int) -> PyTree:
        return inboxes

    @override
    def behind(self, door: Door, private: Any) -> tuple[Door, Any]:
        if self.agents > _MOST_BRANCHES:
            return SlicedDoor(door), private
        return SwitchDoor(door), tuple(at(private, agent) for agent in range(self.agents))

    @override
    def prepared(self, door: Any, private: Any, chances: Any) -> tuple[Door, Any]:
        return dataclasses.replace(door, door=Holding(door.door, at(chances, 0))), private

    @override
    def round(
        self, algorithm: Any, door: Door, private: Any, carry: PyTree, turns: Turn, server: Turn
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        states, token = carry
        turns = jax.tree.map(lambda leaf: leaf[..., 0], turns)
        holder = turns.agent[0]
        old = jax.tree.map(partial(_slice, holder), states)
        state, message, records = agent_round(algorithm, door, old, token, turns, private)
        state, message = self.if_taking_part(turns.round[0], (state, message), (old, token))
        states = jax.tree.map(lambda all_, one: all_.at[holder].set(one), states, state)
        alone = jax.tree.map(lambda leaf: leaf[:, None], records)
        return (states, message), (alone, jax.tree.map(lambda leaf: leaf[None], message))

    @override
    def if_taking_part(self, hop: int | Array, new: PyTree, old: PyTree) -> PyTree:
        awake = self.awake[hop]
        return jax.tree.map(lambda x, y: jnp.where(awake, x, y), new, old)

    @override
    def deliver(
        self, algorithm: RelayAlgorithm, inboxes: PyTree, messages: PyTree, server: Turn
    ) -> PyTree:
        return at(messages, 0)

    @override
    def model(self, algorithm: RelayAlgorithm, states: PyTree, inboxes: PyTree) -> Array:
        return algorithm.model(inboxes)

    @override
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return one token a hop."""
        return Traffic(rounds, rounds * message)


class SwitchDoor(Door):
    """A door that takes all agents' data and asks the turn's agent, without copying.

    Data are a tuple with an entry per agent, and each agent's question is a branch of a switch: a
    shard selected by its index would be copied at every hop, which costs more than a gradient.
    """

    door: Door

    @override
    def __call__(self, private: Any, query: PyTree, turn: Turn) -> tuple[Array, Any]:
        branches = [partial(self.door.__call__, one) for one in private]
        answered: tuple[Array, Any] = jax.lax.switch(turn.agent, branches, query, turn)
        return answered


class SlicedDoor(Door):
    """A door that takes all agents' data, stacked, and asks the turn's agent."""

    door: Door

    @override
    def __call__(self, private: Any, query: PyTree, turn: Turn) -> tuple[Array, Any]:
        return self.door(jax.tree.map(partial(_slice, turn.agent), private), query, turn)


def _slice(index: Array, leaf: Array) -> Array:
    one: Array = jax.lax.dynamic_index_in_dim(leaf, index, keepdims=False)
    return one
