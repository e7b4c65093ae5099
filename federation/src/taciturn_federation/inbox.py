"""Messages that a site has received and not yet used, once they are verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from taciturn.errors import InputError
from taciturn.typing import PyTree
from taciturn_federation.envelope import (
    COORDINATOR,
    BreachError,
    Envelope,
    Kind,
    Opener,
    Subjects,
    from_hex,
    largest,
    matches,
)
from taciturn_federation.exchange import Exchange, Need, StarExchange
from taciturn_federation.interface import Packet, Released
from taciturn_federation.journal import Journal

# larger ones occur in no run whose parties keep to its plan
_USUAL = 1e9


def verify_packet(
    packet: Packet, opener: Opener, subjects: Subjects, listens: Sequence[str]
) -> Envelope:
    """Return what is in a packet.

    `listens`: what the party listens to: a hub may hand it something else.

    Raises `InputError` if the envelope cannot be opened, it is not for this party, or its sender
    has no right to the subject.
    """
    if not any(matches(pattern, packet.subject) for pattern in listens):
        raise InputError("the hub handed over a message that is for somebody else; it is not used")
    owner = subjects.sender(packet.subject)
    envelope = opener.opened(packet.payload)
    # a total goes down a tree as its root signed it, whoever hands it on
    handed_on = envelope.kind == Kind.TOTAL and matches(subjects.edge(), packet.subject)
    if envelope.sender != (COORDINATOR if owner is None else owner) and not handed_on:
        raise InputError(
            f"a message of {opener.names[envelope.sender]} came on the subject of somebody else; "
            "it is not used"
        )
    return envelope


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
        return [opener.opened(from_hex(text)) for text in envelope.values()[what]]
    except InputError as error:
        name = opener.names[envelope.sender]
        raise BreachError(f"{name} handed on what no site signed: {error}") from None


class Receipt(NamedTuple):
    """The round that an envelope was answered in before, if any, and whether it is new."""

    answered: int | None
    new: bool


class Inbox:
    """Received envelopes, by the need that they meet.

    Other bytes for the same round are a breach, however long ago the first were used: the journal
    keeps their digest.
    """

    def __init__(self, exchange: Exchange, opener: Opener, journal: Journal, run: str) -> None:
        self.exchange, self.opener = exchange, opener
        self._journal, self._run = journal, run
        self._digests: dict[Need, bytes] = {}
        self._bodies: dict[Need, PyTree] = {}
        self._sealed: dict[Need, bytes] = {}
        self._largest: dict[int, float] = {}

    def has(self, need: Need) -> bool:
        """Whether a message was received and not yet used."""
        return need in self._bodies

    def digests(self, needs: Sequence[Need]) -> list[bytes]:
        """Return the digests of received bodies, 32 bytes each."""
        return [self._digests[need] for need in needs]

    def bodies(self, needs: Sequence[Need]) -> list[PyTree]:
        """Return received bodies, read."""
        return [self._bodies[need] for need in needs]

    def sealed(self, need: Need) -> bytes:
        """Return a received message, as it was signed."""
        return self._sealed[need]

    def discard(self, needs: tuple[Need, ...]) -> None:
        """Drop messages that were used; their digests are in the journal."""
        for need in needs:
            del self._bodies[need], self._digests[need], self._sealed[need]

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
        sent = self._journal.sent(self._run, turn)
        known = self._digests.get(need)
        if sent is not None:
            place = self.exchange.inputs_of(turn).index(need)
            known = sent.inputs[32 * place : 32 * (place + 1)]
        if known is not None and known != envelope.digest:
            raise BreachError(
                f"{name} sent round {envelope.round} twice with different content; nothing more is "
                "answered, and the other sites should be asked what they heard"
            )
        if sent is not None:
            return Receipt(turn, new=False)
        if known is None:
            self._keep(need, envelope, name)
        return Receipt(None, new=known is None)

    def _keep(self, need: Need, envelope: Envelope, name: str) -> None:
        body = self.exchange.layout(need).received(envelope.body, name)
        self._bodies[need], self._digests[need] = body, envelope.digest
        self._sealed[need] = envelope.sealed
        sender = envelope.sender
        self._largest[sender] = max(self._largest.get(sender, 0.0), largest(body))

    def loudest(self) -> str | None:
        """Return the name of who sent the largest number; None if all are of a usual size."""
        others = {sender: size for sender, size in self._largest.items()
                  if sender != self.exchange.agent}  # fmt: skip
        if max(others.values(), default=0.0) < _USUAL:
            return None
        return self.opener.names[max(others, key=lambda sender: others[sender])]

    def model_so_far(self, envelope: Envelope) -> Released | None:
        """Return the model of a star that was abandoned, from the last value in the envelope."""
        values: Any = envelope.values()
        text = values.get("public")
        if not isinstance(text, str) or not isinstance(self.exchange, StarExchange):
            return None
        layout = self.exchange.layouts.inbox
        public = layout.received(from_hex(text), self.opener.names[COORDINATOR])
        return self.exchange.model([public])
