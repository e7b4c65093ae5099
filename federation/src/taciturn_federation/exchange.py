"""How messages travel: what a party needs before a round, what it received, where it sends.

One class for each kind of network; all of it follows from the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from taciturn.algorithms import Centred, Newton
from taciturn.engine import Plan
from taciturn.engine.network import Gossip, OnTree, Relay, Star
from taciturn.engine.program import server_turns
from taciturn.kernel.door import at
from taciturn.typing import PyTree
from taciturn_federation.envelope import COORDINATOR, Envelope, Kind, Layout, Packet, Subjects
from taciturn_federation.local import EvaluationLeg, Released, layouts_of
from taciturn_federation.masks import open_total


class Need(NamedTuple):
    """One envelope that a party waits for."""

    kind: Kind
    sender: int
    round: int


class Past(NamedTuple):
    """What an agent still has of earlier rounds."""

    message: bytes = b""  # the last envelope that it sent
    inbox: PyTree = ()  # its last inbox, if `Exchange.stored` says so; else ()

    def unpack(self, layout: Layout) -> PyTree:
        """Return the numbers of its last message."""
        return layout.unpack(Envelope.parse(self.message).body)


class Exchange:
    """The messages of a run without aggregator, as one agent or the coordinator sees them.

    Attributes
    ----------
    one_chain
        Whether all agents receive the same in every round, so that there is one chain of it.
    subscribed
        The subjects that an agent subscribes to.
    finals, scores
        What must be received before the model is known, and the answers in the evaluation.
    message_kind, stored
        The kind of the agent's message of a round, and the layout of its last inbox, where the next
        round needs it.
    trained, released
        The layouts of what `model` returns, and of all that the run releases.
    """

    one_chain: ClassVar[bool] = False
    final_kind: ClassVar[Kind] = Kind.FINAL

    def __init__(
        self, plan: Plan, subjects: Subjects, agent: int, evaluation: EvaluationLeg | None = None
    ) -> None:
        self.plan, self.subjects, self.agent, self.evaluation = plan, subjects, agent, evaluation
        self.network: Any = plan.program.network
        self.algorithm: Any = plan.program.executed
        self.layouts = layouts_of(plan.program)
        agents = () if evaluation is None else evaluation.agents
        self.scores = tuple(Need(Kind.SCORE, one, plan.rounds) for one in agents)
        everyone = (subjects.proposal, subjects.ask(), subjects.state())
        self.subscribed: tuple[str, ...] = (*everyone, subjects.edge(receiver=agent))
        self.message_kind, self.stored = Kind.MESSAGE, Layout.of(())
        self.final_layout, senders = self._prepare()
        self.finals = tuple(Need(self.final_kind, one, plan.rounds) for one in senders)
        (leaf,) = self.layouts.model.leaves
        centred = isinstance(plan.program.algorithm, Centred)
        centre = np.zeros(leaf.shape[0] - 1) if centred else None
        inbox, asked = self.layouts.inbox, None
        if isinstance(plan.program.algorithm, Newton):
            asked = jax.tree.unflatten(inbox.structure, inbox.leaves)
        totals = None if evaluation is None else np.zeros(evaluation.layout.leaves[0].shape)
        zeros = Released(np.zeros(leaf.shape, leaf.dtype), centre, asked, totals)
        self.trained, self.released = Layout.of(zeros._replace(totals=None)), Layout.of(zeros)

    def layout_of(self, ending: str) -> Layout:
        """Return the layout of what a run with that ending releases."""
        return self.released if ending == "finished" else self.trained

    def _prepare(self) -> tuple[Layout, Sequence[int]]:
        """Return the layout of what is sent at the end, and who sends it."""
        raise NotImplementedError

    def needs(self, turn: int) -> tuple[Need, ...]:
        """Return what must be received before the party goes on in a round."""
        raise NotImplementedError

    def turn_of(self, need: Need) -> int | None:
        """Return the round for which something is received, or None if it is not due.

        T stands for the end of the training, T + 1 for that of the evaluation.
        """
        rounds = self.plan.rounds
        if need in self.scores or need in self.finals:
            return rounds + (need in self.scores)
        turns = (turn for turn in (need.round, need.round + 1) if turn < rounds)
        return next((turn for turn in turns if need in self.needs(turn)), None)

    def inputs_of(self, turn: int) -> tuple[Need, ...]:
        """Return `needs` of a round, or at T what the model follows from."""
        return self.finals if turn == self.plan.rounds else self.needs(turn)

    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        """Return what the agent receives in a round."""
        raise NotImplementedError

    def members(self, bodies: Sequence[PyTree]) -> tuple[int, ...]:
        """Return the agents that are asked in a round, given what is received for it."""
        del bodies
        return tuple(range(self.plan.program.agents))

    def common(self, turn: int) -> tuple[Need, ...]:
        """Return what of `needs` is the same for all agents; here everything."""
        return self.needs(turn)

    def outgoing(self, message: bytes, bodies: Sequence[PyTree]) -> bytes:
        """Return the body that leaves in a round, of the agent's (masked) message."""
        del bodies
        return message

    def to_forward(self, turn: int) -> Need | None:
        """Return what of `needs` is forwarded as it was signed, before the round is answered."""
        del turn
        return None

    def forward(self, payload: bytes) -> list[Packet]:
        """Return the packets that forward an envelope."""
        del payload
        return []

    def layout(self, need: Need) -> Layout:
        """Return the layout of what is needed."""
        if need.kind == Kind.SCORE and self.evaluation is not None:
            return self.evaluation.layout
        return self.final_layout if need.kind == Kind.FINAL else self.layouts.message

    def _receivers(self, turn: int) -> Sequence[int]:
        """Return the agents to whom the message of a round goes, if it is not the last one."""
        raise NotImplementedError

    def packets(self, turn: int, payload: bytes) -> list[Packet]:
        """Return the packets of the agent's message of a round."""
        receivers = () if turn + 1 == self.plan.rounds else self._receivers(turn)
        return [Packet(self.subjects.edge(self.agent, other), payload) for other in receivers]

    def request_subject(self, need: Need) -> str:
        """Return the subject on which the agent requests what it needs."""
        on_edge = need.kind == Kind.MESSAGE
        subjects, agent = self.subjects, self.agent
        return subjects.edge(agent, need.sender) if on_edge else subjects.ask(agent)

    def final(self, state: PyTree, past: Past) -> bytes | None:
        """Return what the agent sends to all others at the end; None for nothing."""
        raise NotImplementedError

    def model(self, finals: Sequence[PyTree]) -> Released:
        """Return the model that follows from the bodies of `finals`, with its centre."""
        last = jax.tree.map(jnp.asarray, finals[0])
        weights, algorithm = np.asarray(self.algorithm.model(last)), self.plan.program.algorithm
        if isinstance(algorithm, Newton):
            return Released(weights, asked=jax.tree.map(np.asarray, finals[0]))
        if not isinstance(algorithm, Centred):
            return Released(weights)
        # without the place of the constant
        return Released(weights, np.asarray(algorithm.centre(last), np.float64)[:-1])

    def with_scores(self, released: Released, answers: Sequence[PyTree]) -> Released:
        """Return what is released with the bodies of `scores`."""
        if self.evaluation is None:
            return released
        totals = self.evaluation.totals([np.asarray(one) for one in answers])
        return released._replace(totals=totals)


class StarExchange(Exchange):
    """The coordinator publishes a value for all, and every agent that it names answers it.

    What it publishes is the value with a vector of A bytes: 1 for the members of the round.
    """

    one_chain: ClassVar[bool] = True
    final_kind: ClassVar[Kind] = Kind.PUBLIC

    @override
    def _prepare(self) -> tuple[Layout, Sequence[int]]:
        subjects = self.subjects
        evaluated = (subjects.ask(), subjects.state()) if self.scores else ()
        self.subscribed = (subjects.proposal, subjects.public(), *evaluated)
        named = np.zeros(self.plan.program.agents, np.uint8)
        inbox = self.layouts.inbox
        value = jax.tree.unflatten(inbox.structure, inbox.leaves)
        return Layout.of((named, value)), (COORDINATOR,)

    def pack(self, value: PyTree, members: Collection[int]) -> bytes:
        """Return the body of a round in which these agents are asked."""
        named = np.zeros(self.plan.program.agents, np.uint8)
        named[list(members)] = 1
        return self.final_layout.pack((named, value))

    @override
    def members(self, bodies: Sequence[PyTree]) -> tuple[int, ...]:
        named = np.asarray(bodies[0][0])
        return () if np.any(named > 1) else tuple(np.flatnonzero(named).tolist())

    @override
    def layout(self, need: Need) -> Layout:
        return self.final_layout if need.kind == Kind.PUBLIC else super().layout(need)

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        if self.agent == COORDINATOR:
            return tuple(Need(Kind.MESSAGE, a, turn) for a in range(self.plan.program.agents))
        return (Need(Kind.PUBLIC, COORDINATOR, turn),)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        return bodies[0][1]

    @override
    def packets(self, turn: int, payload: bytes) -> list[Packet]:
        return [Packet(self.subjects.answer(self.agent), payload)]

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        return None

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return super().model([finals[0][1]])


class TreeExchange(Exchange):
    """Sums go up a spanning tree; the total goes down it as its root signed it.

    In round t an agent receives the total of round t - 1 and the sums of round t of its children;
    it answers, adds, and sends the sum to its parent. Where answers are masked these are words,
    and what an agent sends is the sum of the masked words of all below it and of itself.

    **Guarantee.** What leaves an agent is a function of its masked or noised message and of what
    others sent it (`taciturn.engine.network.OnTree`).
    """

    one_chain: ClassVar[bool] = True

    @override
    def _prepare(self) -> tuple[Layout, Sequence[int]]:
        network: OnTree = self.network
        ends = (np.asarray(end).ravel().tolist() for end in (network.senders, network.receivers))
        parents = dict(zip(*ends, strict=True))
        self._root, self._parent = int(network.root), parents.get(self.agent)
        self._children = tuple(sorted(one for one, up in parents.items() if up == self.agent))
        # on the host: on a device each leaf would be cut out by a separate program
        self._server = jax.tree.map(np.asarray, server_turns(self.plan.program))
        self.stored = self.layouts.inbox
        if self._parent is None:
            self.message_kind = Kind.TOTAL
        return self.layouts.inbox, (self._root,)

    @override
    def common(self, turn: int) -> tuple[Need, ...]:
        return () if turn == 0 else (Need(Kind.TOTAL, self._root, turn - 1),)

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        return (*self.common(turn), *(Need(Kind.MESSAGE, one, turn) for one in self._children))

    @override
    def request_subject(self, need: Need) -> str:
        if need.kind == Kind.TOTAL:
            return self.subjects.edge(self.agent, self._parent or 0)
        return super().request_subject(need)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        if turn == 0:
            return self.network.first_inboxes(self.algorithm, self.plan.program.template)
        return self._after(turn - 1, past.inbox, bodies[0])

    def _after(self, turn: int, public: PyTree, total: PyTree) -> PyTree:
        return _combined(self.network, self.algorithm, public, total, at(self._server, turn))

    @override
    def outgoing(self, message: bytes, bodies: Sequence[PyTree]) -> bytes:
        layout, program = self.layouts.message, self.plan.program
        total = layout.unpack(message)
        for one in bodies[len(bodies) - len(self._children) :]:
            total = jax.tree.map(np.add, total, one)  # whole numbers are added up to 2^64
        if self._parent is None and program.summed:
            open_total(np.asarray(total).view(np.uint64), program.agents)
        return layout.pack(total)

    @override
    def packets(self, turn: int, payload: bytes) -> list[Packet]:
        if self._parent is not None:
            return [Packet(self.subjects.edge(self.agent, self._parent), payload)]
        return [] if turn + 1 == self.plan.rounds else self.forward(payload)

    @override
    def to_forward(self, turn: int) -> Need | None:
        inner = turn > 0 and self._parent is not None and self._children
        return self.common(turn)[0] if inner else None

    @override
    def forward(self, payload: bytes) -> list[Packet]:
        return [Packet(self.subjects.edge(self.agent, one), payload) for one in self._children]

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        if self._parent is not None:
            return None
        total = past.unpack(self.layouts.message)
        return self.layouts.inbox.pack(self._after(self.plan.rounds - 1, past.inbox, total))


@jax.jit
def _combined(
    network: OnTree, algorithm: Any, public: PyTree, total: PyTree, server: Any
) -> PyTree:
    return network.combined(algorithm, public, total, server)


class RelayExchange(Exchange):
    """The holder of the token receives it, and passes it on."""

    @override
    def _prepare(self) -> tuple[Layout, Sequence[int]]:
        self._holders: list[int] = np.asarray(self.network.holders).tolist()
        return self.layouts.message, (self._holders[-1],)

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        if turn == 0 or self._holders[turn] != self.agent:
            return ()
        return (Need(Kind.MESSAGE, self._holders[turn - 1], turn - 1),)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        return bodies[0] if turn else self.algorithm.first_token(self.plan.program.template)

    @override
    def _receivers(self, turn: int) -> Sequence[int]:
        return (self._holders[turn + 1],)

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        if self._holders[-1] != self.agent:
            return None
        return Envelope.parse(past.message).body


class GossipExchange(Exchange):
    """All agents send to their neighbours in every round, and receive the weighted differences."""

    @override
    def _prepare(self) -> tuple[Layout, Sequence[int]]:
        network: Gossip = self.network
        columns = (network.first, network.second, network.weights)
        ends = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
        near = [(a + b - self.agent, weight) for a, b, weight in ends if self.agent in (a, b)]
        self._weights = dict(sorted(near))
        return self.layouts.model, range(self.plan.program.agents)

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        return tuple(Need(Kind.MESSAGE, other, turn - 1) for other in self._weights if turn)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        """Return sum_j w_ij (m_j - m_i) over the neighbours j, in ascending order."""
        if turn == 0:
            return self.algorithm.first_inbox(self.plan.program.template)

        def difference(local: Any, *others: Any) -> Any:
            flows = (
                np.asarray(weight, local.dtype) * (other - local)
                for weight, other in zip(self._weights.values(), others, strict=True)
            )
            return sum(flows, np.zeros_like(local))

        return jax.tree.map(difference, past.unpack(self.layouts.message), *bodies)

    @override
    def _receivers(self, turn: int) -> Sequence[int]:
        return tuple(self._weights)

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        return self.layouts.model.pack(self.algorithm.model(jax.tree.map(jnp.asarray, state)))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return Released(np.asarray(jnp.mean(jnp.stack(tuple(map(jnp.asarray, finals))), axis=0)))


def exchange_of(
    plan: Plan, subjects: Subjects, agent: int, evaluation: EvaluationLeg | None = None
) -> Exchange:
    """Return how messages travel in a plan, as an agent sees it, or `COORDINATOR`."""
    kinds: dict[type, type[Exchange]] = {
        Star: StarExchange, Relay: RelayExchange, Gossip: GossipExchange, OnTree: TreeExchange
    }  # fmt: skip
    return kinds[type(plan.program.network)](plan, subjects, agent, evaluation)
