"""How an agent's messages travel: what it needs before a round, and where its answer goes.

One class for each kind of network; all of it follows from the plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from taciturn.algorithms import Centred
from taciturn.engine import Plan
from taciturn.engine.network import Gossip, OnTree, Relay, Star
from taciturn.engine.program import server_turns
from taciturn.engine.protocol import at
from taciturn.typing import PyTree
from taciturn_federation.answering import Layouts, layouts_of
from taciturn_federation.envelope import COORDINATOR, Kind, Layout, Subjects
from taciturn_federation.interface import Packet, Released
from taciturn_federation.local import LastQuestion
from taciturn_federation.masking import check_total


class Need(NamedTuple):
    """One envelope that somebody waits for."""

    kind: Kind
    sender: int
    round: int


class Past(NamedTuple):
    """What an agent still has of earlier rounds."""

    own: Callable[[int], PyTree]  # returns the agent's message of a round
    inbox: PyTree  # its last inbox, if `Exchange.keeps` says so; else ()


class Exchange(ABC):
    """The way of the messages in a run, as one agent or the coordinator sees it.

    Attributes
    ----------
    one_chain
        Whether all agents receive the same in every round, so that there is one chain of it.
    agent
        Whose view it is; `COORDINATOR` for the coordinator.
    last
        What held-out records are asked after the rounds; None if none are.
    """

    one_chain: ClassVar[bool] = False

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
        """Return what must be received before the agent answers in a round."""

    def turn_of(self, need: Need) -> int | None:
        """Return the round for which something is received, or None if it is not due.

        T stands for the end of the training, T + 1 for that of the last question.
        """
        if need.kind == Kind.SCORE:
            return self.plan.rounds + 1 if need in self.scores else None
        return self._turn_of(need)

    @abstractmethod
    def _turn_of(self, need: Need) -> int | None:
        """Return the round of the training for which something is received."""

    def inputs_of(self, turn: int) -> tuple[Need, ...]:
        """Return `needs` of a round, or at T what the model follows from."""
        return self.finals if turn == self.plan.rounds else self.needs(turn)

    @abstractmethod
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        """Return what the agent receives in a round."""

    @property
    def keeps(self) -> Layout:
        """The layout of what the agent received last, where the next round needs it."""
        return Layout.of(())

    def in_common(self, turn: int) -> tuple[Need, ...]:
        """Return what of `needs` all agents receive alike; here everything."""
        return self.needs(turn)

    @property
    def message_kind(self) -> Kind:
        """What the agent's message of a round is."""
        return Kind.MESSAGE

    def added(self, message: bytes, bodies: Sequence[PyTree]) -> bytes:
        """Return what leaves in a round, of the agent's own message as it may: here just this."""
        del bodies
        return message

    def to_forward(self, turn: int) -> Need | None:
        """Return what of `needs` is handed on as it was signed, before the round is answered."""
        del turn
        return None

    def forward(self, sealed: bytes) -> list[Packet]:
        """Return what is handed on, on its way."""
        del sealed
        return []

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

    def request_subject(self, need: Need) -> str:
        """Return the subject on which the agent asks for what it needs."""
        del need
        return self.subjects.ask(self.agent)

    @property
    @abstractmethod
    def finals(self) -> tuple[Need, ...]:
        """What must be received before the model is known."""

    @property
    def scores(self) -> tuple[Need, ...]:
        """The answers to the last question; none without one."""
        if self.last is None:
            return ()
        return tuple(Need(Kind.SCORE, agent, self.plan.rounds) for agent in self.last.agents)

    def final(self, state: PyTree, past: Past) -> bytes | None:
        """Return what the agent tells all others at the end; None for nothing."""
        del state, past
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

    one_chain: ClassVar[bool] = True

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
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
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
        return model_of(self.plan, finals[0])


class PeerExchange(Exchange):
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
        """Whether the agent answers in a round."""

    @override
    def request_subject(self, need: Need) -> str:
        if need.kind == Kind.MESSAGE:
            return self.subjects.edge(self.agent, need.sender)
        return super().request_subject(need)


def model_of(plan: Plan, public: PyTree) -> Released:
    """Return the model that a last public value is, with its centre."""
    last = jax.tree.map(jnp.asarray, public)
    executed: Any = plan.program.executed
    weights = np.asarray(executed.model(last))
    if not isinstance(plan.program.algorithm, Centred):
        return Released(weights)
    # without the place of the constant
    centre = plan.program.algorithm.centre(last)
    return Released(weights, np.asarray(centre, np.float64)[:-1])


class TreeExchange(PeerExchange):
    """Sums go up a spanning tree; the total goes down it as its root signed it.

    In round t an agent hears the total of round t - 1 and the sums of round t of those just below
    it; it answers, adds, and sends the sum to its parent. Where answers are masked these are words,
    and what an agent sends is the sum of the masked words of all that are below it and of its own.

    **Guarantee.** What leaves an agent is a function of its masked or noised message and of what
    others sent it (`taciturn.engine.network.OnTree`).
    """

    one_chain: ClassVar[bool] = True

    def __init__(
        self, plan: Plan, subjects: Subjects, agent: int, last: LastQuestion | None = None
    ) -> None:
        super().__init__(plan, subjects, agent, last)
        network = cast(OnTree, self.network)
        ends = (np.asarray(end).ravel().tolist() for end in (network.senders, network.receivers))
        parents = dict(zip(*ends, strict=True))
        self._root, self._parent = int(network.root), parents.get(agent)
        self._below = tuple(sorted(one for one, parent in parents.items() if parent == agent))
        # on the host: on a device each leaf would be cut out by a program of its own
        self._server = jax.tree.map(np.asarray, server_turns(plan.program))

    @override
    def takes_part(self, turn: int) -> bool:
        return True

    @override
    def in_common(self, turn: int) -> tuple[Need, ...]:
        return () if turn == 0 else (Need(Kind.TOTAL, self._root, turn - 1),)

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        return (*self.in_common(turn), *(Need(Kind.MESSAGE, one, turn) for one in self._below))

    @override
    def _turn_of(self, need: Need) -> int | None:
        if need.kind != Kind.MESSAGE:
            return super()._turn_of(need)
        due = need.round < self.plan.rounds and need.sender in self._below
        return need.round if due else None

    @override
    def request_subject(self, need: Need) -> str:
        if need.kind == Kind.TOTAL:
            return self.subjects.edge(self.agent, self._parent or 0)
        return super().request_subject(need)

    @property
    @override
    def keeps(self) -> Layout:
        return self.layouts.inbox

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        if turn == 0:
            return self.network.first_inboxes(self.algorithm, self.plan.program.template)
        return self._after(turn - 1, past.inbox, bodies[0])

    def _after(self, turn: int, public: PyTree, total: PyTree) -> PyTree:
        return _combined(self.network, self.algorithm, public, total, at(self._server, turn))

    @override
    def _layout(self, need: Need) -> Layout:
        return self.layouts.inbox if need.kind == Kind.FINAL else self.layouts.message

    @property
    @override
    def message_kind(self) -> Kind:
        return Kind.MESSAGE if self._parent is not None else Kind.TOTAL

    @override
    def added(self, message: bytes, bodies: Sequence[PyTree]) -> bytes:
        layout, below = self.layouts.message, bodies[len(bodies) - len(self._below) :]
        total = layout.unpacked(message, "this site")
        for one in below:
            total = jax.tree.map(np.add, total, one)  # whole numbers are added up to 2^64
        if self._parent is None and self.plan.program.summed:
            check_total(total, self.plan.program.agents)
        return layout.packed(total)

    @override
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        if self._parent is not None:
            return [Packet(self.subjects.edge(self.agent, self._parent), sealed)]
        return [] if turn + 1 == self.plan.rounds else self.forward(sealed)

    @override
    def to_forward(self, turn: int) -> Need | None:
        inner = turn > 0 and self._parent is not None and self._below
        return self.in_common(turn)[0] if inner else None

    @override
    def forward(self, sealed: bytes) -> list[Packet]:
        return [Packet(self.subjects.edge(self.agent, one), sealed) for one in self._below]

    @property
    @override
    def finals(self) -> tuple[Need, ...]:
        return (Need(Kind.FINAL, self._root, self.plan.rounds),)

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        if self._parent is not None:
            return None
        turn = self.plan.rounds - 1
        return self.layouts.inbox.packed(self._after(turn, past.inbox, past.own(turn)))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return model_of(self.plan, finals[0])


@jax.jit
def _combined(
    network: OnTree, algorithm: Any, public: PyTree, total: PyTree, server: Any
) -> PyTree:
    return network.combined(algorithm, public, total, server)


class RelayExchange(PeerExchange):
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
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
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
    def final(self, state: PyTree, past: Past) -> bytes | None:
        if self._holders[-1] != self.agent:
            return None
        return self.layouts.message.packed(past.own(self.plan.rounds - 1))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return Released(np.asarray(self.algorithm.model(jax.tree.map(jnp.asarray, finals[0]))))


class GossipExchange(PeerExchange):
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
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        """Return sum_j w_ij (m_j - m_i) over the neighbours j, in ascending order."""
        if turn == 0:
            return self.algorithm.first_inbox(self.plan.program.template)
        mine, weights = past.own(turn - 1), tuple(self._weights.values())

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
    def final(self, state: PyTree, past: Past) -> bytes | None:
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
        OnTree: TreeExchange,
    }
    return kinds[type(plan.program.network)](plan, subjects, agent, last)
