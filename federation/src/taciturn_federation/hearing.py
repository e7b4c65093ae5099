"""What a site has heard and not yet used, and whether it is what the agreement allows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from taciturn.errors import InputError, PrivacyError, TaciturnError
from taciturn.privacy import Ledger
from taciturn.typing import PyTree
from taciturn_federation.answering import Entry
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
from taciturn_federation.journal import Journal
from taciturn_federation.messages import is_whole
from taciturn_federation.party import Packet, Released

# larger ones occur in no run whose parties keep to its plan
_USUAL = 1e9


def believed(
    packet: Packet, opener: Opener, subjects: Subjects, listens: Sequence[str]
) -> Envelope:
    """Return what is in a packet.

    Parameters
    ----------
    listens
        What the party listens to: a hub may hand it something else.

    Raises
    ------
    InputError
        If the envelope cannot be opened, it is not for this party, or its sender has no right to
        the subject.
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


def check_heads(envelope: Envelope, opener: Opener, own: bytes) -> None:
    """Raise `BreachError` unless every site signed the same head."""
    opened = _enclosed(envelope, "heads", opener)
    heads = {one.sender: one.heard for one in opened if one.kind == Kind.HEAD}
    names = opener.names
    missing = [names[agent] for agent in range(len(names) - 1) if agent not in heads]
    other = [names[agent] for agent, head in heads.items() if head != own]
    if missing or other:
        what = "signed no head" if missing else "heard something else than this site"
        raise BreachError(
            f"{', '.join(missing or other)} {what}, so the coordinator may have told sites "
            "different things: no model is accepted; compare notes by telephone"
        )


def accepted_by_all(start: Envelope, opener: Opener) -> list[Envelope]:
    """Return the acceptances with which a run starts, in the order of the agents.

    Raises
    ------
    BreachError
        If they are not the signed acceptance of every site.
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


class Heard(NamedTuple):
    """What became of an envelope: the round it was answered in before, and whether it is new."""

    answered: int | None
    new: bool


class Hearing:
    """Envelopes that were heard, by what needs them.

    What was said for a round is one thing: other bytes for the same round are a breach, however
    long ago the first were used, since the journal keeps their digest.
    """

    def __init__(self, exchange: Exchange, opener: Opener, journal: Journal, run: str) -> None:
        self.exchange, self.opener = exchange, opener
        self._journal, self._run = journal, run
        self._digests: dict[Need, bytes] = {}
        self._bodies: dict[Need, PyTree] = {}
        self._sealed: dict[Need, bytes] = {}
        self._largest: dict[int, float] = {}

    def has(self, need: Need) -> bool:
        """Whether something was heard and is still at hand."""
        return need in self._bodies

    def digest(self, need: Need) -> bytes:
        """Return the digest of what was heard."""
        return self._digests[need]

    def body(self, need: Need) -> PyTree:
        """Return what was heard, read."""
        return self._bodies[need]

    def sealed(self, need: Need) -> bytes:
        """Return what was heard, as it was signed."""
        return self._sealed[need]

    def forget(self, needs: tuple[Need, ...]) -> None:
        """Let go of what was used; its digest is in the journal."""
        for need in needs:
            del self._bodies[need], self._digests[need], self._sealed[need]

    def take(self, envelope: Envelope) -> Heard:
        """Keep an envelope, unless it was heard before.

        Raises
        ------
        BreachError
            If its sender has nothing to say in that round, said something else before, or the body
            is not of the shapes that the plan announces.
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
            place = self.exchange.heard_for(turn).index(need)
            known = sent.heard[32 * place : 32 * (place + 1)]
        if known is not None and known != envelope.digest:
            raise BreachError(
                f"{name} sent round {envelope.round} twice with different content; nothing more is "
                "answered, and the other sites should be asked what they heard"
            )
        if sent is not None:
            return Heard(turn, new=False)
        if known is None:
            self._keep(need, envelope, name)
        return Heard(None, new=known is None)

    def _keep(self, need: Need, envelope: Envelope, name: str) -> None:
        try:
            body = self.exchange.layout(need).unpacked(envelope.body, name)
        except InputError as error:
            raise BreachError(str(error)) from None
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
        try:
            public = layout.unpacked(from_hex(text), self.opener.names[COORDINATOR])
        except InputError as error:
            raise BreachError(str(error)) from None
        return self.exchange.model([public])


Column: TypeAlias = list[list[Entry]]
_MOST = 2**31 - 1
# 2^exponent, a step of the lattice, is a float
_LEAST_POWER, _MOST_POWER = -1100, 1023


def column_values(answers: Mapping[int, Sequence[Entry]], rounds: int) -> dict[str, Any]:
    """Return the entries of every round as JSON; entries alike are written once."""
    kinds: dict[tuple[Entry, ...], int] = {}
    places = [kinds.setdefault(tuple(answers.get(t, ())), len(kinds)) for t in range(rounds)]
    return {"kinds": [[list(entry) for entry in some] for some in kinds], "rounds": places}


def column_of(values: Mapping[str, Any], questions: Sequence[int], name: str) -> Column:
    """Return the entries of every round.

    Parameters
    ----------
    questions
        For every round, how many questions the plan has in it at most.

    Raises
    ------
    BreachError
        If these are none, or a number is of another type or out of range; it names the site.
    """
    kinds, places = values.get("kinds"), values.get("rounds")
    if not (isinstance(kinds, list) and isinstance(places, list)):
        raise _malformed(name, "it has no kinds and no rounds")
    if len(places) != len(questions):
        raise _malformed(name, f"it has {len(places)} rounds, and the plan {len(questions)}")
    if not all(is_whole(place, 0, len(kinds) - 1) for place in places):
        raise _malformed(name, "a round has none of its kinds")
    read = [_entries(some, name) for some in kinds]
    column = [read[place] for place in places]
    for turn, (entries, most) in enumerate(zip(column, questions, strict=True)):
        if any(entry.local >= most for entry in entries):
            raise _malformed(name, f"round {turn} has a question that the plan does not have")
    return column


def _entries(some: Any, name: str) -> list[Entry]:
    if not (isinstance(some, list) and all(_is_entry(one) for one in some)):
        raise _malformed(name, "a number is of another type or out of range")
    return [
        Entry(local, kind, float(scale), exponent, float(rate), batch)
        for local, kind, scale, exponent, rate, batch in some
    ]


def _is_entry(values: Any) -> bool:
    if not (isinstance(values, list) and len(values) == len(Entry._fields)):
        return False
    local, kind, scale, exponent, rate, batch = values
    return (
        is_whole(local, 0, _MOST)
        and is_whole(kind, 0, _MOST)
        and _is_number(scale, sys.float_info.max)
        and is_whole(exponent, _LEAST_POWER, _MOST_POWER)
        and _is_number(rate, 1.0)
        and rate > 0
        and is_whole(batch, 0, 2**53)
    )


def _is_number(value: Any, most: float) -> bool:
    """Whether a JSON value is a number from 0 to `most`; whole ones are compared exactly."""
    return type(value) in (int, float) and 0 <= value <= most


def _malformed(name: str, why: str) -> BreachError:
    return BreachError(
        f"{name} sent no column of this run's ledger ({why}); its owner should look at its version "
        "of taciturn"
    )


def assembled(planned: Ledger, columns: Sequence[Sequence[Sequence[Entry]]]) -> Ledger:
    """Return the ledger that the sites' columns amount to.

    Parameters
    ----------
    planned
        Supplies sensitivities and the law, which follow from the proposal.
    columns
        For every agent, for every round, the entries of its answers.
    """
    shape = planned.kind.shape
    kind = np.full(shape, -1)
    scale, exponent, rate, batch = (np.zeros(shape) for _ in range(4))
    rate += 1
    for agent, column in enumerate(columns):
        for turn, entries in enumerate(column):
            for entry in entries:
                place = (agent, turn, entry.local)
                kind[place], scale[place], exponent[place] = entry.kind, entry.scale, entry.exponent
                rate[place], batch[place] = entry.rate, entry.batch
    on_lattice = (scale > 0) & (planned.inside is None)
    return Ledger(
        kind,
        planned.sensitivity,
        scale,
        planned.mechanism,
        rate,
        planned.inside,
        batch,
        step=np.where(on_lattice, np.ldexp(1.0, exponent.astype(int)), 0.0),
        values=planned.values,
    )


def check_columns(planned: Ledger, columns: Sequence[Column], names: Sequence[str]) -> Ledger:
    """Return the ledger that the sites' columns amount to, once it is the planned one.

    Raises
    ------
    PrivacyError
        If a site answered otherwise than planned; it names the site.
    """
    try:
        observed = assembled(planned, columns)
        planned.same_as(observed)
    except TaciturnError as error:
        other = [
            name
            for agent, name in enumerate(names)
            if _differs(_row(planned, agent), columns[agent])
        ]
        raise PrivacyError(f"{', '.join(other)} answered otherwise than planned: {error}") from None
    return observed


def _differs(planned: Ledger, column: Column) -> bool:
    """Whether a column is not that of a ledger of one agent."""
    try:
        planned.same_as(assembled(planned, [column]))
    except TaciturnError:
        return True
    return False


def _row(ledger: Ledger, agent: int) -> Ledger:
    own = slice(agent, agent + 1)
    return Ledger(
        ledger.kind[own],
        ledger.sensitivity[own],
        ledger.scale[own],
        ledger.mechanism,
        ledger.rates[own],
        ledger.inside,
        ledger.sizes[own],
        ledger.steps[own],
        ledger.values,
    )


# a gap between two looks at the clock counts as no more: the machine slept, or computed
_WAITING_MOST = 1.0
# seconds between two wishes
AGAIN = 1.0
# seconds between two words on how far a party is
TELL = 5.0
# seconds between two repetitions that all hear, however many wish for one
SPARE = 0.5
# wishes that all hear, at once: what they bring serves all who lack it
MOST_WISHES = 8


@dataclass
class Waiting:
    """A stopwatch of one party; only differences of `now` count.

    Attributes
    ----------
    seconds
        Since what was waited for last came.
    """

    seconds: float = 0.0
    _seen: float | None = None
    _asked: float = 0.0

    def look(self, now: float) -> None:
        """Take note of the time."""
        if self._seen is not None:
            gap = min(max(now - self._seen, 0.0), _WAITING_MOST)
            self.seconds += gap
            self._asked += gap
        self._seen = now

    def came(self) -> None:
        """Take note that something came that was waited for."""
        self.seconds = 0.0
        self._asked = 0.0

    def again(self, every: float = AGAIN) -> bool:
        """Whether it is time to ask again; if so, the next time is so many seconds later."""
        if self._asked < every:
            return False
        self._asked = 0.0
        return True


@dataclass
class Spacing:
    """Lets one repetition through in `SPARE` seconds.

    What is repeated to all serves all. If every wish of A agents were answered to all of them, one
    slow round would bring A^2 messages, and these the next slow round.
    """

    _last: float | None = None

    def allows(self, now: float) -> bool:
        """Whether it is time to repeat something to all; if so, the next time is `SPARE` later."""
        if self._last is not None and 0 <= now - self._last < SPARE:
            return False
        self._last = now
        return True
