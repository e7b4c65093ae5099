"""How an agent's messages travel: what it needs before a round, and where its answer goes.

One class for each kind of network. All of it follows from the plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from tacit.algorithms import Centred
from tacit.engine import Plan
from tacit.engine.gossip import Gossip
from tacit.engine.network import Star
from tacit.engine.relay import Relay
from tacit.federation.answering import Layouts, layouts_of
from tacit.federation.codec import Layout
from tacit.federation.envelope import COORDINATOR, Kind
from tacit.federation.last_question import LastQuestion
from tacit.federation.party import Packet, Released
from tacit.federation.subjects import Subjects
from tacit.typing import PyTree


class Need(NamedTuple):
    """One envelope that somebody waits for."""

    kind: Kind
    sender: int
    round: int


class Exchange(ABC):
    """The way of the messages in a run, as one agent or the coordinator sees it.

    Attributes
    ----------
    agent
        Whose view it is; `COORDINATOR` for the coordinator.
    last
        What held-out records are asked after the rounds; None if none are.
    """

    def __init__(
        self, plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
    ) -> None:
        self.plan, self.subjects, self.agent, self.last = plan, subjects, agent, last
        self.network: Any = plan.program.network
        self.algorithm: Any = plan.program.executed
        self.layouts: Layouts = layouts_of(plan.program)

    @property
    @abstractmethod
    def listens(self) -> tuple[str, ...]:
        """The subjects that an agent listens to."""

    @abstractmethod
    def needs(self, turn: int) -> tuple[Need, ...]:
        """Return what must be heard before the agent answers in a round."""

    def turn_of(self, need: Need) -> int | None:
        """Return the round for which something is heard, or None if it is not due.

        T stands for the end of the training, T + 1 for that of the last question.
        """
        if need.kind == Kind.SCORE:
            return self.plan.rounds + 1 if need in self.scores else None
        return self._turn_of(need)

    @abstractmethod
    def _turn_of(self, need: Need) -> int | None:
        """Return the round of the training for which something is heard."""

    def heard_for(self, turn: int) -> tuple[Need, ...]:
        """Return `needs` of a round, or at T what the model follows from."""
        return self.finals if turn == self.plan.rounds else self.needs(turn)

    @abstractmethod
    def inbox(self, turn: int, bodies: Sequence[PyTree], own: Callable[[int], PyTree]) -> PyTree:
        """Return what the agent hears in a round.

        Parameters
        ----------
        bodies
            What `needs` names, read.
        own
            Returns the agent's own message of a round.
        """

    def layout(self, need: Need) -> Layout:
        """Return the layout of what is needed."""
        if need.kind == Kind.SCORE and self.last is not None:
            return self.last.layout
        return self._layout(need)

    @abstractmethod
    def _layout(self, need: Need) -> Layout:
        """Return the layout of what is needed in the training."""

    @abstractmethod
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        """Return the agent's message of a round on its way."""

    def wish(self, need: Need) -> str:
        """Return the subject on which the agent asks for what it needs."""
        del need
        return self.subjects.ask(self.agent)

    @property
    @abstractmethod
    def finals(self) -> tuple[Need, ...]:
        """What must be heard before the model is known."""

    @property
    def scores(self) -> tuple[Need, ...]:
        """The answers to the last question; none without one."""
        if self.last is None:
            return ()
        return tuple(Need(Kind.SCORE, agent, self.plan.rounds) for agent in self.last.agents)

    def final(self, state: PyTree, own: Callable[[int], PyTree]) -> bytes | None:
        """Return what the agent tells all others at the end; None for nothing."""
        del state, own
        return None

    @property
    def trained(self) -> Layout:
        """The layout of what `model` returns."""
        return Layout.of(self._zeros())

    @property
    def released(self) -> Layout:
        """The layout of all that the run releases."""
        released = self._zeros()
        if self.last is not None:
            (leaf,) = self.last.layout.leaves
            released = released._replace(totals=np.zeros(leaf.shape))
        return Layout.of(released)

    def _zeros(self) -> Released:
        (leaf,) = self.layouts.model.leaves
        weights = np.zeros(leaf.shape, leaf.dtype)
        if not isinstance(self.plan.program.algorithm, Centred):
            return Released(weights)
        return Released(weights, np.zeros(leaf.shape[0] - 1))

    @abstractmethod
    def model(self, finals: Sequence[PyTree]) -> Released:
        """Return the model that follows from `finals`, read, with its centre."""

    def scored(self, released: Released, answers: Sequence[PyTree]) -> Released:
        """Return what is released with the answers to `scores`, read."""
        if self.last is None:
            return released
        return released._replace(totals=self.last.totals([np.asarray(one) for one in answers]))


class StarExchange(Exchange):
    """The coordinator publishes what all hear, and every agent answers it."""

    @property
    @override
    def listens(self) -> tuple[str, ...]:
        everyone = (self.subjects.proposal, self.subjects.public())
        if not self.scores:
            return everyone
        return (*everyone, self.subjects.ask(), self.subjects.state())

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        return (Need(Kind.PUBLIC, COORDINATOR, turn),)

    @override
    def _turn_of(self, need: Need) -> int | None:
        due = need.sender == COORDINATOR and need.kind == Kind.PUBLIC
        return need.round if due and need.round <= self.plan.rounds else None

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], own: Callable[[int], PyTree]) -> PyTree:
        return bodies[0]

    @override
    def _layout(self, need: Need) -> Layout:
        return self.layouts.inbox

    @override
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        return [Packet(self.subjects.answer(self.agent), sealed)]

    @property
    @override
    def finals(self) -> tuple[Need, ...]:
        return (Need(Kind.PUBLIC, COORDINATOR, self.plan.rounds),)

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        last = jax.tree.map(jnp.asarray, finals[0])
        weights = np.asarray(self.algorithm.model(last))
        if not isinstance(self.plan.program.algorithm, Centred):
            return Released(weights)
        # without the place of the constant
        centre = self.plan.program.algorithm.centre(last)
        return Released(weights, np.asarray(centre, np.float64)[:-1])


class AmongAgents(Exchange):
    """A network without aggregator: messages go along edges, and the end is told to all."""

    @property
    @override
    def listens(self) -> tuple[str, ...]:
        everyone = (self.subjects.proposal, self.subjects.ask(), self.subjects.state())
        return (*everyone, self.subjects.edge(receiver=self.agent))

    @override
    def _turn_of(self, need: Need) -> int | None:
        if need.kind == Kind.FINAL:
            return self.plan.rounds if need in self.finals else None
        turn = need.round + 1
        due = turn < self.plan.rounds and self.takes_part(turn) and need in self.needs(turn)
        return turn if due else None

    @abstractmethod
    def takes_part(self, turn: int) -> bool:
        """Whether the agent is heard in a round."""

    @override
    def wish(self, need: Need) -> str:
        if need.kind == Kind.MESSAGE:
            return self.subjects.edge(self.agent, need.sender)
        return super().wish(need)


class RelayExchange(AmongAgents):
    """The holder of the token hears it, and passes it on."""

    def __init__(
        self, plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
    ) -> None:
        super().__init__(plan, subjects, agent, last)
        network = cast(Relay, self.network)
        self._holders: list[int] = np.asarray(network.holders).tolist()

    @override
    def takes_part(self, turn: int) -> bool:
        return self._holders[turn] == self.agent

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        if turn == 0:
            return ()
        return (Need(Kind.MESSAGE, self._holders[turn - 1], turn - 1),)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], own: Callable[[int], PyTree]) -> PyTree:
        if turn == 0:
            return self.algorithm.first_token(self.plan.program.template)
        return bodies[0]

    @override
    def _layout(self, need: Need) -> Layout:
        return self.layouts.message

    @override
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        if turn + 1 == self.plan.rounds:
            return []
        return [Packet(self.subjects.edge(self.agent, self._holders[turn + 1]), sealed)]

    @property
    @override
    def finals(self) -> tuple[Need, ...]:
        return (Need(Kind.FINAL, self._holders[-1], self.plan.rounds),)

    @override
    def final(self, state: PyTree, own: Callable[[int], PyTree]) -> bytes | None:
        if self._holders[-1] != self.agent:
            return None
        return self.layouts.message.packed(own(self.plan.rounds - 1))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return Released(np.asarray(self.algorithm.model(jax.tree.map(jnp.asarray, finals[0]))))


class GossipExchange(AmongAgents):
    """All agents send to their neighbours in every round, and hear how these differ from them."""

    def __init__(
        self, plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
    ) -> None:
        super().__init__(plan, subjects, agent, last)
        network = cast(Gossip, self.network)
        ends = zip(
            np.asarray(network.first).tolist(),
            np.asarray(network.second).tolist(),
            np.asarray(network.weights).tolist(),
            strict=True,
        )
        around = [
            (second if first == agent else first, weight)
            for first, second, weight in ends
            if agent in (first, second)
        ]
        self._weights = dict(sorted(around))

    @override
    def takes_part(self, turn: int) -> bool:
        return True

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        if turn == 0:
            return ()
        return tuple(Need(Kind.MESSAGE, other, turn - 1) for other in self._weights)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], own: Callable[[int], PyTree]) -> PyTree:
        """Return sum_j w_ij (m_j - m_i) over the neighbours j, in ascending order."""
        if turn == 0:
            return self.algorithm.first_inbox(self.plan.program.template)
        mine, weights = own(turn - 1), tuple(self._weights.values())

        def difference(own_leaf: Any, *others: Any) -> Any:
            flows = (
                np.asarray(weight, own_leaf.dtype) * (other - own_leaf)
                for weight, other in zip(weights, others, strict=True)
            )
            return sum(flows, np.zeros_like(own_leaf))

        return jax.tree.map(difference, mine, *bodies)

    @override
    def _layout(self, need: Need) -> Layout:
        return self.layouts.model if need.kind == Kind.FINAL else self.layouts.message

    @override
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        if turn + 1 == self.plan.rounds:
            return []
        return [Packet(self.subjects.edge(self.agent, other), sealed) for other in self._weights]

    @property
    @override
    def finals(self) -> tuple[Need, ...]:
        agents = range(self.plan.program.agents)
        return tuple(Need(Kind.FINAL, agent, self.plan.rounds) for agent in agents)

    @override
    def final(self, state: PyTree, own: Callable[[int], PyTree]) -> bytes | None:
        return self.layouts.model.packed(self.algorithm.model(jax.tree.map(jnp.asarray, state)))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return Released(np.asarray(jnp.mean(jnp.stack(tuple(map(jnp.asarray, finals))), axis=0)))


def exchange_of(
    plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
) -> Exchange:
    """Return how messages travel in a plan, as an agent sees it, or `COORDINATOR`."""
    kinds: dict[type, type[Exchange]] = {
        Star: StarExchange,
        Relay: RelayExchange,
        Gossip: GossipExchange,
    }
    return kinds[type(plan.program.network)](plan, subjects, agent, last)
