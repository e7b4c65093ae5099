"""The kinds of networks: who answers, what agents receive, what a run would release.

One class for each kind (`Star`, `OnTree`, `Gossip`, `Relay`), with a network's arrays as its
fields. A user passes public data instead: nothing, a `taciturn.network.Tree`, `Mixing` or `Walk`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Num
from typing_extensions import override

from taciturn.algorithms import Algorithm, StarAlgorithm, Turn
from taciturn.engine.door import AheadOf, Door, Live, Prepared, Record
from taciturn.engine.protocol import agent_round
from taciturn.engine.summed import mean_of
from taciturn.errors import InputError
from taciturn.privacy import NO_QUESTION, Observer
from taciturn.typing import Array, HostArray, PyTree

_AGENTS_LAST: Any = Turn(-1, -1, -1, None, -1, -1, -1, -1)  # type: ignore[arg-type]


class Traffic(NamedTuple):
    """What a run sends: messages, one along one link, and the numbers in all of them together."""

    messages: int
    numbers: int


class NetworkKind(eqx.Module):
    """A network as the compiled program sees it. S agents may be asked in a round.

    Attributes
    ----------
    algorithms
        The methods that run on it.
    data
        What a user passes for it, as error messages name it.
    aggregates
        Whether an aggregator combines the messages, so that summation can hide them.
    one_public
        Whether all agents hear the same, a public value.
    draws_ahead
        Whether noise and batches of many rounds may be drawn at once.
    together
        Whether all agents answer in a round, so that several devices can share the work.
    written
        Whether a plan that is written down has an entry for it; a star is what no entry means.
    agents
        A.
    """

    algorithms: ClassVar[type]
    data: ClassVar[str]
    aggregates: ClassVar[bool] = False
    one_public: ClassVar[bool] = False
    draws_ahead: ClassVar[bool] = True
    together: ClassVar[bool] = False
    written: ClassVar[bool] = True

    agents: int = eqx.field(static=True, repr=False)

    @classmethod
    @abstractmethod
    def connect(cls, data: Any, agents: int, rounds: int) -> NetworkKind:
        """Return the network of a user's data.

        Raises
        ------
        InputError
            If it does not suit the number of agents or of rounds.
        """

    # planning: on the host

    def asked(self, questions: Int[HostArray, "T E"]) -> Int[HostArray, "A T E"]:
        """Return every agent's questions; -1 where it is not asked. Here all are."""
        return np.broadcast_to(questions, (self.agents, *questions.shape))

    def all_rounds(
        self, rounds: int, schedule: Callable[[int], dict[str, HostArray]]
    ) -> dict[str, HostArray]:
        """Return schedules `(..., T)` for as many rounds as have a participant."""
        return schedule(rounds)

    def of_participants(self, values: Num[HostArray, "A T E"]) -> Num[HostArray, "T E S"]:
        """Return the values of the S agents that may be asked in a round."""
        return np.moveaxis(values, 0, -1)

    # turns

    def participants(self, rounds: int) -> tuple[Int[Array, "t S"], Int[Array, "T"]]:
        """Return who may be asked in a round, and how often they were before; t is T or 1."""
        everybody = jnp.arange(self.agents, dtype=jnp.int32)[None, :]
        return everybody, jnp.arange(rounds, dtype=jnp.int32)

    def questions(self, questions: Int[Array, "T E"]) -> Int[Array, "T E"]:
        """Return the question of the participants; -1 where they take no part."""
        return questions

    def schedule_of_participants(self, values: Float[Array, "T A"]) -> Float[Array, "T S"]:
        """Return the participants' entries of a schedule that differs between agents."""
        return values

    def of_all_agents(self, values: Array, *, fill: int = 0) -> Num[Array, "T E A ..."]:
        """Return recorded values `(T, E, S, ...)` of all agents; `fill` where one was not asked."""
        del fill
        return values

    # a round

    def first_states(self, algorithm: Algorithm, template: Array) -> PyTree:
        """Return the agents' first states, agents on the first axis."""
        return self._copies(algorithm.start(template))

    @abstractmethod
    def first_inboxes(self, algorithm: Any, template: Array) -> PyTree:
        """Return what agents hear before the first round."""

    @abstractmethod
    def inbox(self, inboxes: PyTree, agent: int) -> PyTree:
        """Return the inbox of one agent."""

    @abstractmethod
    def round(
        self, algorithm: Any, door: Door, private: Any, carry: PyTree, turns: Turn, server: Turn
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        """Return the next carry (states, inboxes), and the round's (records, messages).

        Parameters
        ----------
        private
            The data that the door takes, as `behind` returned them.
        turns, server
            This round's turns, leaves `(E, S)`, and the aggregator's.
        """

    def trust(self, observer: Observer) -> str | None:
        """Return what a certificate takes on trust; None for the observer's own words."""
        del observer
        return None

    def sent(self, messages: PyTree) -> PyTree:
        """Return what travels, from the messages of this round's S agents: here just these."""
        return messages

    @abstractmethod
    def deliver(self, algorithm: Any, inboxes: PyTree, messages: PyTree, server: Turn) -> PyTree:
        """Return what agents hear next, from what was `sent` in this round."""

    @abstractmethod
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return what all agents together send.

        Parameters
        ----------
        message, inbox
            How many numbers a message and an inbox hold.
        """

    @abstractmethod
    def model(self, algorithm: Any, states: PyTree, inboxes: PyTree) -> Array:
        """Return the model that would be released now."""

    def behind(self, door: Door, private: Any) -> tuple[Door, Any]:
        """Return door and data as `round` takes them: here as they are."""
        return door, private

    def prepared(self, door: Door, private: Any, chances: Any) -> tuple[Door, Any]:
        """Return door and data of `behind` for a round whose draws are `chances`, `(S, E, ...)`."""
        return AheadOf(cast(Live, door)), Prepared(private, chances)

    def if_taking_part(self, hop: int | Array, new: PyTree, old: PyTree) -> PyTree:
        """Return `new`, or `old` where the participant of a round takes no part."""
        del hop, old
        return new

    def spread_records(self, records: PyTree) -> PyTree:
        """Return records `(T, E, A, ...)`: question -1 and zeros for agents that gave no answer."""
        spread = jax.tree.map(self.of_all_agents, records)
        if not isinstance(records, Record):
            return spread
        kind = self.of_all_agents(records.kind, fill=NO_QUESTION)
        rate = records.rate
        if rate is not None:
            rate = self.of_all_agents(rate, fill=1)
        return spread._replace(kind=kind, rate=rate)

    def _copies(self, tree: PyTree) -> PyTree:
        """Return a tree with the same leaves for every agent, agents on the first axis."""
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.agents, *x.shape)), tree)


class Together(NetworkKind):
    """A network on which all agents are asked in every round, as one vectorised step.

    Attributes
    ----------
    inbox_axis
        The axis of agents in the inboxes; None where all hear the same.
    """

    together: ClassVar[bool] = True
    inbox_axis: ClassVar[int | None]

    @override
    def round(
        self, algorithm: Any, door: Door, private: Any, carry: PyTree, turns: Turn, server: Turn
    ) -> tuple[PyTree, tuple[PyTree, PyTree]]:
        states, inboxes = carry
        # all are asked the same question; mapped over, the door would answer every one
        turns = turns._replace(question=turns.question[:, 0])
        step = self._only_agent if self.agents == 1 else self._every_agent
        states, messages, records = step(algorithm, door, private, (states, inboxes), turns)
        messages = self.sent(messages)
        inboxes = self.deliver(algorithm, inboxes, messages, server)
        return (states, inboxes), (records, messages)

    def _every_agent(
        self, algorithm: Algorithm, door: Door, private: Any, carry: PyTree, turns: Turn
    ) -> tuple[PyTree, PyTree, PyTree]:
        """Return the states, messages and records of all agents."""
        mapped = jax.vmap(
            agent_round,
            in_axes=(None, None, 0, self.inbox_axis, _AGENTS_LAST, 0),
            out_axes=(0, 0, 1),
        )
        states, inboxes = carry
        done: tuple[PyTree, PyTree, PyTree] = mapped(
            algorithm, door, states, inboxes, turns, private
        )
        return done

    def _only_agent(
        self, algorithm: Algorithm, door: Door, private: Any, carry: PyTree, turns: Turn
    ) -> tuple[PyTree, PyTree, PyTree]:
        """Return `_every_agent` of a single one: mapped over, its gathers would cost double."""
        states, inboxes = carry
        one, state = (jax.tree.map(lambda leaf: leaf[0], tree) for tree in (private, states))
        turns = jax.tree.map(
            lambda leaf: leaf[..., 0], turns._replace(question=turns.question[..., None])
        )
        inbox = self.inbox(inboxes, 0)
        state, message, records = agent_round(algorithm, door, state, inbox, turns, one)
        first = [jax.tree.map(lambda leaf: leaf[None], tree) for tree in (state, message)]
        return first[0], first[1], jax.tree.map(lambda leaf: leaf[:, None], records)


def check_agents(of_network: int, agents: int) -> None:
    """Raise `InputError` unless a network has as many agents as the data."""
    if of_network != agents:
        raise InputError(f"the network has {of_network} agents, the data {agents}; make them equal")


class Star(Together):
    """An aggregator and all agents, who hear its public value."""

    algorithms: ClassVar[type] = StarAlgorithm
    data: ClassVar[str] = "no network (an aggregator)"
    aggregates: ClassVar[bool] = True
    one_public: ClassVar[bool] = True
    written: ClassVar[bool] = False
    inbox_axis: ClassVar[int | None] = None

    @classmethod
    @override
    def connect(cls, data: Any, agents: int, rounds: int) -> Star:
        return cls(agents)

    @override
    def first_inboxes(self, algorithm: StarAlgorithm, template: Array) -> PyTree:
        return algorithm.first_public(template)

    @override
    def inbox(self, inboxes: PyTree, agent: int) -> PyTree:
        return inboxes

    @override
    def deliver(
        self, algorithm: StarAlgorithm, inboxes: PyTree, messages: PyTree, server: Turn
    ) -> PyTree:
        return algorithm.combine(inboxes, mean_of(messages), server)

    @override
    def model(self, algorithm: StarAlgorithm, states: PyTree, inboxes: PyTree) -> Array:
        return algorithm.model(inboxes)

    @override
    def traffic(self, message: int, inbox: int, rounds: int) -> Traffic:
        """Return a message from each agent and the public value to it, in every round."""
        return Traffic(2 * self.agents * rounds, self.agents * (message + inbox) * rounds)
