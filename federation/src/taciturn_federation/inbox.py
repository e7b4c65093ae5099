"""The inbox of a party: messages are verified, accepted once, and requested while missing.

A party has no sockets, threads or processes: it takes packets and the time, and returns packets. A
network may lose, repeat, delay or reorder them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from taciturn.errors import InputError, TaciturnError
from taciturn.kernel.privacy import Certificate
from taciturn.typing import PyTree
from taciturn_federation import envelope as env
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.attendance import Attendance, attendance_in
from taciturn_federation.envelope import (
    BreachError,
    Envelope,
    Kind,
    Opener,
    Packet,
    Signer,
)
from taciturn_federation.exchange import Exchange, Need
from taciturn_federation.journal import Journal
from taciturn_federation.local import Released

Ending = Literal["finished", "abandoned", "refused"]


class Outcome(NamedTuple):
    """How a run ended for a party.

    `ending`: "finished" with a model; "abandoned" by another party, or for want of answers;
    "refused" by this party.
    """

    ending: Ending
    line: str  # what happened and who can fix it, in one line without the content of a record
    # `(*shape)`; of an abandoned run the latest, if the proposal releases it; else None
    model: Any = None
    certificate: Any = None  # `taciturn.kernel.privacy.Certificate`; None without a model
    centre: Any = None  # as of `Released`, and so are the others
    asked: Any = None
    totals: Any = None

    @classmethod
    def of(
        cls, ending: Ending, line: str, released: Released | None, certificate: Certificate
    ) -> Outcome:
        """Return how a run ended; without a model there is no certificate."""
        if released is None:
            return cls(ending, line)
        weights, *others = released
        return cls(ending, line, weights, certificate, *others)


NOT_STARTED = (
    "; the run had not started, so nothing was spent: once that is fixed, the same command tries "
    "again"
)


class Progress(NamedTuple):
    """The progress of a run, in public facts."""

    round: int  # the number of rounds that this party has finished
    rounds: int
    waiting_for: tuple[str, ...]  # names of the parties whose messages are missing
    seconds: float  # for how long


@runtime_checkable
class Party(Protocol):
    """The interface of a party to a transport; only `receive` may block for long."""

    subjects: tuple[str, ...]  # those that it subscribes to; `*` stands for one token
    outcome: Outcome | None  # how the run ended; None while it goes on

    def start(self, now: float) -> list[Packet]:
        """Return its first packets. `now` is in seconds, from a clock that only goes forward."""
        return self.tick(now)

    def receive(self, packet: Packet, now: float) -> list[Packet]:
        """Return the response to a packet; it may compute a round first."""

    def tick(self, now: float) -> list[Packet]:
        """Return what it repeats; called about every 0.1 s."""

    def progress(self) -> Progress:
        """Return where the run stands."""
        return Progress(0, 0, (), 0.0)

    @property
    def needed(self) -> bool:
        """Whether others may still need its messages, so that its process must not end."""
        return self.outcome is None

    def close(self) -> None:
        """Release journal and lock."""


# the longest step counted between two clock readings: the machine slept, or computed; seconds
_MAX_TICK = 1.0
RETRY_INTERVAL = 1.0  # between two requests for the same message
STATUS_INTERVAL = 5.0  # between two progress reports
BROADCAST_INTERVAL = 0.5  # between two repetitions that all receive
MAX_BROADCAST_REQUESTS = 8  # at once: one response serves all who lack the same message


@dataclass
class RetryTimer:
    """Time since the last expected message, and when to request it again.

    Each `tick` adds at most one second, so a machine that was suspended does not time out on
    waking.
    """

    elapsed: float = 0.0  # seconds
    _now: float | None = None
    _since_request: float = 0.0

    def tick(self, now: float) -> None:
        """Add the time since the last tick."""
        if self._now is not None:
            step = min(max(now - self._now, 0.0), _MAX_TICK)
            self.elapsed += step
            self._since_request += step
        self._now = now

    def reset(self) -> None:
        """Start again: an expected message arrived."""
        self.elapsed = self._since_request = 0.0

    def due(self, interval: float = RETRY_INTERVAL) -> bool:
        """Whether to request again; if so, the next request is due an interval later."""
        if self._since_request < interval:
            return False
        self._since_request = 0.0
        return True


def verify_packet(
    packet: Packet, opener: Opener, subjects: env.Subjects, subscribed: Sequence[str]
) -> Envelope:
    """Return the content of a packet.

    Raises `InputError` if the envelope cannot be opened, the party does not subscribe to the
    subject (a hub may deliver it anyway), or the sender may not publish there.
    """
    if not any(env.matches(pattern, packet.subject) for pattern in subscribed):
        raise InputError("ignored a message on a subject of others: it is not for this party")
    owner = subjects.sender(packet.subject)
    envelope = opener.open(packet.payload)
    # nodes of a tree forward a total as its root signed it
    forwarded = envelope.kind == Kind.TOTAL and env.matches(subjects.edge(), packet.subject)
    if envelope.sender != owner and not forwarded:
        raise InputError(
            f"ignored a message of {opener.names[envelope.sender]} on the subject of another party"
        )
    return envelope


class RunParty(Party):
    """What site and coordinator share: keys, journal, inbox, timers and error handling.

    `report` is called with each line for the owner.
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
        self._signer = Signer(signed.run, exchange.agent, key)
        self._inbox = Inbox(exchange, self._opener, journal)
        self._waiting, self._now = RetryTimer(), 0.0
        self._repeated: dict[int, float] = {}
        self.outcome: Outcome | None = None
        self.attendance: Attendance | None = None  # once it is closed

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
        if envelope.sender == self._exchange.agent:  # a hub may send a party its messages back
            return []
        return self._guarded(partial(self._handle, packet.subject, envelope))

    @override
    def close(self) -> None:
        plan = self._exchange.plan
        with suppress(InputError):  # it was closed before
            self.attendance = attendance_in(
                self._journal, self.signed, plan.rounds, summed=plan.program.summed
            )
        self._journal.close()

    def _handle(self, subject: str, envelope: Envelope) -> list[Packet]:
        env.check_control(envelope, self._opener.names, self._exchange.plan.rounds)
        return self._dispatch(subject, envelope)

    @abstractmethod
    def _resume(self) -> list[Packet]:
        """Return what is sent when a process starts or resumes the run."""

    @abstractmethod
    def _dispatch(self, subject: str, envelope: Envelope) -> list[Packet]:
        """Return the response to a verified message of another party."""

    @abstractmethod
    def _fail(self, line: str, *, breach: bool) -> list[Packet]:
        """Return what is sent after an error has ended the run; a breach is public."""

    def _may_repeat(self, kind: int) -> bool:
        """Whether to repeat a message to all now; if so, not again within the interval.

        If each request of A agents were answered to all of them, one slow round would cause A^2
        messages, and these the next slow round.
        """
        last = self._repeated.get(kind)
        if last is not None and 0 <= self._now - last < BROADCAST_INTERVAL:
            return False
        self._repeated[kind] = self._now
        return True

    def _guarded(self, work: Callable[[], list[Packet]]) -> list[Packet]:
        """Return the packets of `work`, or those that its error requires."""
        try:
            return work()
        except BreachError as error:
            return self._fail(str(error), breach=True)
        except InputError as error:  # a full disk, for example: nothing was sent, so go on
            self._report(str(error))
            return []
        except TaciturnError as error:
            return self._fail(str(error), breach=False)
        except Exception as error:  # whatever it is, nothing more is answered
            return self._fail(f"an error in taciturn ({type(error).__name__})", breach=False)


# larger numbers do not occur if all parties follow the plan
_USUAL = 1e9


class Inbox:
    """The messages of a run that a party holds: those received and not yet used, and those sent.

    Different bytes for the same round are a breach, however long ago the first were used: the
    journal keeps their digest.
    """

    def __init__(self, exchange: Exchange, opener: Opener, journal: Journal) -> None:
        self._exchange, self._opener, self._journal = exchange, opener, journal
        self._run = opener.run.hex()
        self._held: dict[Need, tuple[Envelope, PyTree]] = {}
        self._largest: dict[int, float] = {}

    def accept(self, envelope: Envelope) -> tuple[int | None, bool]:
        """Store a message; return the round that answered it, if any, and whether it is new.

        Raises `BreachError` if its sender has no message in that round or sent a different one
        before, or if the body has not the shapes of the plan.
        """
        need = Need(envelope.kind, envelope.sender, envelope.round)
        name = self._opener.names[envelope.sender]
        turn = self._exchange.turn_of(need)
        if turn is None:
            raise BreachError(
                f"{name} sent a message of round {envelope.round}, which it has none of in a plan "
                f"of {self._exchange.plan.rounds} rounds; nothing more is answered"
            )
        answered = self._journal.round(self._run, turn)
        known = self._held[need][0].digest if need in self._held else None
        if answered is not None:
            place = self._exchange.inputs_of(turn).index(need)
            known = answered.inputs[32 * place : 32 * (place + 1)]
        if known is not None and known != envelope.digest:
            raise BreachError(
                f"{name} sent round {envelope.round} twice with different content; nothing more is "
                "answered, and its owner should look for a second process or a restored journal"
            )
        if known is None:
            body = self._exchange.layout(need).unpack_from(name, envelope.body)
            self._held[need] = envelope, body
            size = max(self._largest.get(need.sender, 0.0), env.largest(body))
            self._largest[need.sender] = size
        return None if answered is None else turn, known is None

    def missing(self, needs: Sequence[Need]) -> tuple[Need, ...]:
        """Return what has not arrived."""
        return tuple(need for need in needs if self.find(need) is None)

    def requests(self, needs: Sequence[Need], signer: Signer, turn: int) -> list[Packet]:
        """Return requests for messages; of those that all parties receive, only a few at once."""
        to_all, packets, broadcast = self._exchange.subjects.ask(signer.sender), [], 0
        for need in needs:
            subject = self._exchange.request_subject(need)
            broadcast += subject == to_all
            if subject != to_all or broadcast <= MAX_BROADCAST_REQUESTS:
                values = {"kind": int(need.kind), "sender": need.sender, "round": need.round}
                payload = signer.seal_values(Kind.RESEND_REQUEST, turn, values)
                packets.append(Packet(subject, payload))
        return packets

    def find(self, need: Need) -> Envelope | None:
        """Return a message that was received and not yet used, or sent by this party; else None."""
        if need.sender != self._exchange.agent:
            return self._held[need][0] if need in self._held else None
        names = {Kind.PUBLIC: f"public.{need.round}", Kind.FINAL: "final"}
        if need.kind in names:
            payload = self._journal.get(self._run, names[need.kind])
        else:
            row = self._journal.round(self._run, need.round)
            payload = None if row is None else row.message
        return Envelope.parse(payload) if payload else None

    def envelopes(self, needs: Sequence[Need]) -> list[Envelope]:
        """Return those of the messages that have arrived."""
        found = [self.find(need) for need in needs]
        return [one for one in found if one is not None]

    def digests(self, needs: Sequence[Need]) -> list[bytes]:
        """Return the digests of bodies, 32 bytes each."""
        return [one.digest for one in self.envelopes(needs)]

    def bodies(self, needs: Sequence[Need]) -> list[PyTree]:
        """Return the parsed bodies of messages."""
        return [
            self._held[need][1] if need in self._held
            else self._exchange.layout(need).unpack(self.envelopes([need])[0].body)
            for need in needs
        ]  # fmt: skip

    def discard(self, needs: Sequence[Need]) -> None:
        """Drop messages that were used; their digests are in the journal."""
        for need in needs:
            self._held.pop(need, None)

    def loudest(self) -> str | None:
        """Return the name of the sender of the largest number; None if all are of usual size."""
        if max(self._largest.values(), default=0.0) < _USUAL:
            return None
        return self._opener.names[max(self._largest, key=lambda sender: self._largest[sender])]


def check_heads(envelope: Envelope, opener: Opener, head: bytes, quorum: int) -> None:
    """Raise `BreachError` unless a quorum of sites signed the same head, and none another."""
    opened = _enclosed(envelope, "heads", opener)
    heads = {one.sender: one.transcript for one in opened if one.kind == Kind.HEAD}
    names = opener.names
    missing = [names[agent] for agent in opener.agents if agent not in heads]
    missing = missing if len(heads) < quorum else []
    other = [names[agent] for agent, other_head in heads.items() if other_head != head]
    if missing or other:
        what = "signed no head" if missing else "received other values than this site"
        raise BreachError(
            f"{', '.join(missing or other)} {what}, so {names[envelope.sender]} may have sent "
            "sites different values: no model is accepted; ask the other owners by telephone"
        )


def acceptances_of(start: Envelope, opener: Opener) -> list[Envelope]:
    """Return the acceptances with which a run starts, in the order of the agents.

    Raises `BreachError` if they are not the signed acceptance of every site.
    """
    opened = _enclosed(start, "acceptances", opener)
    accepted = [one for one in opened if one.kind == Kind.ACCEPTANCE]
    if [one.sender for one in accepted] != list(opener.agents):
        raise BreachError(
            "the coordinator started the run without the signed acceptance of every site; ask the "
            "coordinator to run the study again"
        )
    return accepted


def _enclosed(envelope: Envelope, what: str, opener: Opener) -> list[Envelope]:
    """Return the envelopes that the coordinator encloses in one of its messages."""
    try:
        return [opener.open(bytes.fromhex(text)) for text in envelope.values[what]]
    except ValueError as error:
        name = opener.names[envelope.sender]
        raise BreachError(f"{name} enclosed a message that no site signed: {error}") from None
