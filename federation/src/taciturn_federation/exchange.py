"""How messages travel: what an agent needs before a round, what it received, where it sends.

One class for each kind of network; all of it follows from the plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from taciturn.algorithms import Centred
from taciturn.engine import Plan
from taciturn.engine.network import Gossip, OnTree, Relay, Star
from taciturn.engine.program import server_turns
from taciturn.errors import InputError, TaciturnError
from taciturn.kernel.door import at
from taciturn.typing import PyTree
from taciturn_federation import envelope as env
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import COORDINATOR, BreachError, Envelope, Kind, Layout, Opener
from taciturn_federation.interface import Outcome, Packet, Party, Released, RetryTimer
from taciturn_federation.journal import Journal
from taciturn_federation.local import LastQuestion, layouts_of
from taciturn_federation.masks import check_total

# larger ones occur in no run whose parties keep to its plan
_USUAL = 1e9


class Need(NamedTuple):
    """One envelope that somebody waits for."""

    kind: Kind
    sender: int
    round: int


class Past(NamedTuple):
    """What an agent still has of earlier rounds."""

    own: Callable[[int], PyTree]  # returns the agent's message of a round
    inbox: PyTree  # its last inbox, if `Exchange.keeps` says so; else ()


class Exchange:
    """The way of the messages in a run without aggregator, as one agent or the coordinator sees it.

    Attributes
    ----------
    one_chain
        Whether all agents receive the same in every round, so that there is one chain of it.
    last
        What held-out records are asked after the rounds; None if none are.
    listens
        The subjects that an agent listens to.
    finals, scores
        What must be received before the model is known, and the answers to the last question.
    """

    one_chain: ClassVar[bool] = False
    final_kind: ClassVar[Kind] = Kind.FINAL

    def __init__(
        self, plan: Plan, subjects: env.Subjects, agent: int, last: LastQuestion | None = None
    ) -> None:
        self.plan, self.subjects, self.agent, self.last = plan, subjects, agent, last
        self.network: Any = plan.program.network
        self.algorithm: Any = plan.program.executed
        self.layouts = layouts_of(plan.program)
        agents = () if last is None else last.agents
        self.scores = tuple(Need(Kind.SCORE, one, plan.rounds) for one in agents)
        everyone = (subjects.proposal, subjects.ask(), subjects.state())
        self.listens: tuple[str, ...] = (*everyone, subjects.edge(receiver=agent))
        self.final_layout, senders = self._prepare()
        self.finals = tuple(Need(self.final_kind, one, plan.rounds) for one in senders)

    def _prepare(self) -> tuple[Layout, Sequence[int]]:
        """Return the layout of what is told at the end, and who tells it."""
        raise NotImplementedError

    def needs(self, turn: int) -> tuple[Need, ...]:
        """Return what must be received before the agent answers in a round."""
        raise NotImplementedError

    def turn_of(self, need: Need) -> int | None:
        """Return the round for which something is received, or None if it is not due.

        T stands for the end of the training, T + 1 for that of the last question.
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
        kinds = {Kind.PUBLIC: self.layouts.inbox, Kind.FINAL: self.final_layout}
        return kinds.get(need.kind, self.layouts.message)

    def _receivers(self, turn: int) -> Sequence[int]:
        """Return the agents to whom the message of a round goes, if it is not the last one."""
        raise NotImplementedError

    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        """Return the agent's message of a round on its way."""
        receivers = () if turn + 1 == self.plan.rounds else self._receivers(turn)
        return [Packet(self.subjects.edge(self.agent, other), sealed) for other in receivers]

    def request_subject(self, need: Need) -> str:
        """Return the subject on which the agent asks for what it needs."""
        on_edge = need.kind == Kind.MESSAGE
        subjects, agent = self.subjects, self.agent
        return subjects.edge(agent, need.sender) if on_edge else subjects.ask(agent)

    def final(self, state: PyTree, past: Past) -> bytes | None:
        """Return what the agent tells all others at the end; None for nothing."""
        raise NotImplementedError

    @property
    def trained(self) -> Layout:
        """The layout of what `model` returns."""
        return Layout.of(self._zeros())

    @property
    def released(self) -> Layout:
        """The layout of all that the run releases."""
        totals = None if self.last is None else np.zeros(self.last.layout.leaves[0].shape)
        return Layout.of(self._zeros()._replace(totals=totals))

    def _zeros(self) -> Released:
        (leaf,) = self.layouts.model.leaves
        centred = isinstance(self.plan.program.algorithm, Centred)
        centre = np.zeros(leaf.shape[0] - 1) if centred else None
        return Released(np.zeros(leaf.shape, leaf.dtype), centre)

    def model(self, finals: Sequence[PyTree]) -> Released:
        """Return the model that follows from `finals`, read, with its centre."""
        last = jax.tree.map(jnp.asarray, finals[0])
        weights, algorithm = np.asarray(self.algorithm.model(last)), self.plan.program.algorithm
        if not isinstance(algorithm, Centred):
            return Released(weights)
        # without the place of the constant
        return Released(weights, np.asarray(algorithm.centre(last), np.float64)[:-1])

    def scored(self, released: Released, answers: Sequence[PyTree]) -> Released:
        """Return what is released with the answers to `scores`, read."""
        if self.last is None:
            return released
        return released._replace(totals=self.last.totals([np.asarray(one) for one in answers]))


class StarExchange(Exchange):
    """The coordinator publishes what all hear, and every agent answers it."""

    one_chain: ClassVar[bool] = True
    final_kind: ClassVar[Kind] = Kind.PUBLIC

    @override
    def _prepare(self) -> tuple[Layout, Sequence[int]]:
        everyone = (self.subjects.proposal, self.subjects.public())
        asked = (self.subjects.ask(), self.subjects.state()) if self.scores else ()
        self.listens = (*everyone, *asked)
        return self.layouts.inbox, (COORDINATOR,)

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        return (Need(Kind.PUBLIC, COORDINATOR, turn),)

    @override
    def inbox(self, turn: int, bodies: Sequence[PyTree], past: Past) -> PyTree:
        return bodies[0]

    @override
    def packets(self, turn: int, sealed: bytes) -> list[Packet]:
        return [Packet(self.subjects.answer(self.agent), sealed)]

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        return None


class TreeExchange(Exchange):
    """Sums go up a spanning tree; the total goes down it as its root signed it.

    In round t an agent hears the total of round t - 1 and the sums of round t of those just below
    it; it answers, adds, and sends the sum to its parent. Where answers are masked these are words,
    and what an agent sends is the sum of the masked words of all that are below it and of its own.

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
        self._below = tuple(sorted(one for one, above in parents.items() if above == self.agent))
        # on the host: on a device each leaf would be cut out by a program of its own
        self._server = jax.tree.map(np.asarray, server_turns(self.plan.program))
        return self.layouts.inbox, (self._root,)

    @override
    def in_common(self, turn: int) -> tuple[Need, ...]:
        return () if turn == 0 else (Need(Kind.TOTAL, self._root, turn - 1),)

    @override
    def needs(self, turn: int) -> tuple[Need, ...]:
        return (*self.in_common(turn), *(Need(Kind.MESSAGE, one, turn) for one in self._below))

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

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        turn = self.plan.rounds - 1
        if self._parent is not None:
            return None
        return self.layouts.inbox.packed(self._after(turn, past.inbox, past.own(turn)))


@jax.jit
def _combined(
    network: OnTree, algorithm: Any, public: PyTree, total: PyTree, server: Any
) -> PyTree:
    return network.combined(algorithm, public, total, server)


class RelayExchange(Exchange):
    """The holder of the token hears it, and passes it on."""

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
        return self.layouts.message.packed(past.own(self.plan.rounds - 1))


class GossipExchange(Exchange):
    """All agents send to their neighbours in every round, and hear how these differ from them."""

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

        def difference(own_leaf: Any, *others: Any) -> Any:
            flows = (
                np.asarray(weight, own_leaf.dtype) * (other - own_leaf)
                for weight, other in zip(self._weights.values(), others, strict=True)
            )
            return sum(flows, np.zeros_like(own_leaf))

        return jax.tree.map(difference, past.own(turn - 1), *bodies)

    @override
    def _receivers(self, turn: int) -> Sequence[int]:
        return tuple(self._weights)

    @override
    def final(self, state: PyTree, past: Past) -> bytes | None:
        return self.layouts.model.packed(self.algorithm.model(jax.tree.map(jnp.asarray, state)))

    @override
    def model(self, finals: Sequence[PyTree]) -> Released:
        return Released(np.asarray(jnp.mean(jnp.stack(tuple(map(jnp.asarray, finals))), axis=0)))


def exchange_of(
    plan: Plan, subjects: env.Subjects, agent: int, last: LastQuestion | None = None
) -> Exchange:
    """Return how messages travel in a plan, as an agent sees it, or `COORDINATOR`."""
    kinds: dict[type, type[Exchange]] = {
        Star: StarExchange, Relay: RelayExchange, Gossip: GossipExchange, OnTree: TreeExchange
    }  # fmt: skip
    return kinds[type(plan.program.network)](plan, subjects, agent, last)


def verify_packet(
    packet: Packet, opener: Opener, subjects: env.Subjects, listens: Sequence[str]
) -> Envelope:
    """Return what is in a packet.

    `listens`: what the party listens to: a hub may hand it something else.

    Raises `InputError` if the envelope cannot be opened, it is not for this party, or its sender
    has no right to the subject.
    """
    if not any(env.matches(pattern, packet.subject) for pattern in listens):
        raise InputError("the hub handed over a message that is for somebody else; it is not used")
    owner = subjects.sender(packet.subject)
    envelope = opener.opened(packet.payload)
    # a total goes down a tree as its root signed it, whoever hands it on
    handed_on = envelope.kind == Kind.TOTAL and env.matches(subjects.edge(), packet.subject)
    if envelope.sender != (COORDINATOR if owner is None else owner) and not handed_on:
        raise InputError(
            f"a message of {opener.names[envelope.sender]} came on the subject of somebody else; "
            "it is not used"
        )
    return envelope


class RunParty(Party):
    """What site and coordinator of a run have in common: keys, journal, timers and the way in.

    `report` is called with each line that the owner should see.
    """

    def __init__(
        self,
        signed: SignedProposal,
        exchange: Exchange,
        subjects: tuple[str, ...],
        journal: Journal,
        key: Ed25519PrivateKey,
        report: Callable[[str], None],
    ) -> None:
        self.signed, self._exchange, self.subjects = signed, exchange, subjects
        self._journal, self._report = journal, report
        self._opener, self._digest = signed.opener, signed.digest
        self._seal = env.Seal(signed.run, exchange.agent, key)
        self._grammar = env.Grammar(self._opener.names, exchange.plan.rounds)
        self._waiting, self._now = RetryTimer(), 0.0
        self.outcome: Outcome | None = None

    @override
    def start(self, now: float) -> list[Packet]:
        self._waiting.tick(now)
        return self._guarded(self._resume)

    @override
    def receive(self, packet: Packet, now: float) -> list[Packet]:
        self._waiting.tick(now)
        self._now = now
        try:
            envelope = verify_packet(packet, self._opener, self._exchange.subjects, self.subjects)
        except InputError as error:
            self._report(str(error))
            return []
        if envelope.sender == self._exchange.agent:  # a hub may send a party its own messages
            return []
        return self._guarded(lambda: self._dispatch(packet.subject, envelope))

    @override
    def close(self) -> None:
        self._journal.close()

    @abstractmethod
    def _resume(self) -> list[Packet]: ...

    @abstractmethod
    def _dispatch(self, subject: str, envelope: Envelope) -> list[Packet]:
        """Return what follows from a verified message of another party."""

    @abstractmethod
    def _fail(self, line: str, *, breach: bool) -> list[Packet]:
        """Return what is said once an error has ended the run; others may know of a breach."""

    def _guarded(self, work: Callable[[], list[Packet]]) -> list[Packet]:
        """Return the packets of some work, or what its error amounts to."""
        try:
            return work()
        except BreachError as error:
            return self._fail(str(error), breach=True)
        except InputError as error:  # the disk is full, say: nothing was sent, and it may go on
            self._report(str(error))
            return []
        except TaciturnError as error:
            return self._fail(str(error), breach=False)
        except Exception as error:  # whatever it is, nothing more is answered
            return self._fail(f"an error in taciturn ({type(error).__name__})", breach=False)


def check_heads(envelope: Envelope, opener: Opener, head: bytes) -> None:
    """Raise `BreachError` unless every site signed the same head."""
    opened = _enclosed(envelope, "heads", opener)
    heads = {one.sender: one.transcript_digest for one in opened if one.kind == Kind.HEAD}
    names = opener.names
    missing = [names[agent] for agent in range(len(names) - 1) if agent not in heads]
    other = [names[agent] for agent, other_head in heads.items() if other_head != head]
    if missing or other:
        what = "signed no head" if missing else "heard something else than this site"
        raise BreachError(
            f"{', '.join(missing or other)} {what}, so the coordinator may have told sites "
            "different things: no model is accepted; compare notes by telephone"
        )


def accepted_by_all(start: Envelope, opener: Opener) -> list[Envelope]:
    """Return the acceptances with which a run starts, in the order of the agents.

    Raises `BreachError` if they are not the signed acceptance of every site.
    """
    opened = _enclosed(start, "acceptances", opener)
    accepted = [one for one in opened if one.kind == Kind.ACCEPTANCE]
    if [one.sender for one in accepted] != list(range(len(opener.names) - 1)):
        raise BreachError(
            "the coordinator started the run without the signed acceptance of every site; ask the "
            "coordinator to run the study again"
        )
    return accepted


def _enclosed(envelope: Envelope, what: str, opener: Opener) -> list[Envelope]:
    """Return the envelopes that the coordinator hands on in one of its own."""
    try:
        return [opener.opened(env.from_hex(text)) for text in envelope.values()[what]]
    except InputError as error:
        name = opener.names[envelope.sender]
        raise BreachError(f"{name} handed on what no site signed: {error}") from None


class Receipt(NamedTuple):
    """The round that an envelope was answered in before, if any, and whether it is new."""

    answered: int | None
    new: bool


class Inbox:
    """Verified messages that a site received and has not used, by the need that they meet.

    Other bytes for the same round are a breach, however long ago the first were used: the journal
    keeps their digest.
    """

    def __init__(self, exchange: Exchange, opener: Opener, journal: Journal) -> None:
        self.exchange, self.opener, self.journal = exchange, opener, journal
        self.run = opener.run.hex()
        self._held: dict[Need, tuple[Envelope, PyTree]] = {}
        self._largest: dict[int, float] = {}

    def has(self, need: Need) -> bool:
        """Whether a message was received and not yet used."""
        return need in self._held

    def digests(self, needs: Sequence[Need]) -> list[bytes]:
        """Return the digests of received bodies, 32 bytes each."""
        return [self._held[need][0].digest for need in needs]

    def bodies(self, needs: Sequence[Need]) -> list[PyTree]:
        """Return received bodies, read."""
        return [self._held[need][1] for need in needs]

    def sealed(self, need: Need) -> bytes:
        """Return a received message, as it was signed."""
        return self._held[need][0].sealed

    def discard(self, needs: tuple[Need, ...]) -> None:
        """Drop messages that were used; their digests are in the journal."""
        for need in needs:
            del self._held[need]

    def accept_own(self, sealed: bytes) -> None:
        """Keep a message of this site: the hub does not send it back."""
        self.accept(self.opener.opened(sealed))

    def accept(self, envelope: Envelope) -> Receipt:
        """Keep an envelope, unless it was received before.

        Raises `BreachError` if its sender has nothing to say in that round, said something else
        before, or the body is not of the shapes that the plan announces.
        """
        need = Need(envelope.kind, envelope.sender, envelope.round)
        name = self.opener.names[envelope.sender]
        turn = self.exchange.turn_of(need)
        if turn is None:
            raise BreachError(
                f"{name} sent a message of round {envelope.round}, which it has none of in a plan "
                f"of {self.exchange.plan.rounds} rounds; nothing more is answered"
            )
        sent = self.journal.sent(self.run, turn)
        known = self._held[need][0].digest if need in self._held else None
        if sent is not None:
            place = self.exchange.inputs_of(turn).index(need)
            known = sent.inputs[32 * place : 32 * (place + 1)]
        if known is not None and known != envelope.digest:
            raise BreachError(
                f"{name} sent round {envelope.round} twice with different content; nothing more is "
                "answered, and the other sites should be asked what they heard"
            )
        if sent is None and known is None:
            body = self.exchange.layout(need).received(envelope.body, name)
            self._held[need] = envelope, body
            size = max(self._largest.get(need.sender, 0.0), env.largest(body))
            self._largest[need.sender] = size
        return Receipt(None if sent is None else turn, new=known is None)

    def loudest(self) -> str | None:
        """Return the name of who sent the largest number; None if all are of a usual size."""
        sizes = {one: size for one, size in self._largest.items() if one != self.exchange.agent}
        if max(sizes.values(), default=0.0) < _USUAL:
            return None
        return self.opener.names[max(sizes, key=lambda sender: sizes[sender])]

    def model_so_far(self, envelope: Envelope) -> Released | None:
        """Return the model of a star that was abandoned, from the last value in the envelope."""
        text = envelope.values().get("public")
        if not isinstance(text, str) or not isinstance(self.exchange, StarExchange):
            return None
        layout = self.exchange.layouts.inbox
        public = layout.received(env.from_hex(text), self.opener.names[COORDINATOR])
        return self.exchange.model([public])
