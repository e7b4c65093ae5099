"""The rounds that a site answers and the end of its run: computed once, written, then sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from taciturn.errors import SolverError
from taciturn.typing import PyTree
from taciturn_federation.answering import Answering
from taciturn_federation.envelope import (
    NOTHING,
    BreachError,
    Envelope,
    Kind,
    Seal,
    chained,
    is_computable,
    joint,
    with_scores,
)
from taciturn_federation.exchange import Need, Past
from taciturn_federation.inbox import Inbox
from taciturn_federation.interface import BroadcastLimiter, Packet, Released
from taciturn_federation.journal import Journal, Sent
from taciturn_federation.ledger_entries import Entry, entries_to_json
from taciturn_federation.masking import Unmasked

_HEAD = len(NOTHING)


class Rounds:
    """A site's rounds, from where its journal ends to the head that it signs.

    **Guarantee.** Message, state and entries of a round are in the journal before the message is
    returned, in one transaction. If that fails nothing is returned and the round counts as not
    answered: the same noise, which nobody saw, may serve for the next attempt. The answer to the
    last question is written likewise, with the model that it is about, which is what follows from
    what the site itself received; until then the same answer is kept for the next attempt, since
    under masks no other one may be sent. Under masks (`Masked`) no answer is written in plain, nor
    the state that holds one.

    `evaluator`: returns what answers the last question about a model; None if none is asked.
    """

    def __init__(
        self,
        answering: Answering,
        inbox: Inbox,
        journal: Journal,
        seal: Seal,
        masking: Unmasked,
        evaluator: Callable[[Released], Answering] | None,
    ) -> None:
        self._answering, self._inbox, self._exchange = answering, inbox, inbox.exchange
        self._journal, self._seal, self._masking = journal, seal, masking
        self._evaluator = evaluator
        self._run, self._rounds = seal.run.hex(), answering.plan.rounds
        self._layouts, self._turns = inbox.exchange.layouts, answering.turns
        self._state: PyTree = answering.first_state()
        self._last_inbox: PyTree = ()
        self._transcript, self._next = masking.first_link(), 0
        self._forwarded: Need | None = None
        self._limits: dict[Any, BroadcastLimiter] = defaultdict(BroadcastLimiter)
        self._drawn: tuple[Sent, tuple[Entry, ...]] | None = None
        self._trained: Sent | None = journal.sent(self._run, self._rounds)
        self._signed: bytes | None = journal.said(self._run, "head")
        latest = journal.latest(self._run)
        if latest is not None and latest.round == self._rounds:
            self._transcript, self._next = latest.chain, len(self._turns)
        elif latest is not None:
            self._state, self._last_inbox = self._read_state(latest.state)
            self._transcript, self._next = latest.chain, self._turns.index(latest.round) + 1

    @property
    def done(self) -> bool:
        """Whether every round is answered."""
        return self._next == len(self._turns)

    @property
    def turn(self) -> int:
        """The next round to be answered; T at the end."""
        return self._rounds if self.done else self._turns[self._next]

    def missing(self) -> tuple[Need, ...]:
        """Return what is needed next and has not arrived: for a round, the model or the head."""
        if not self.done:
            needs = self._exchange.needs(self.turn)
        elif self._signed is not None:
            return ()
        else:
            needs = self._exchange.finals if self._trained is None else self._exchange.scores
        return tuple(need for need in needs if not self._inbox.has(need))

    # the rounds

    def advance(self) -> list[Packet]:
        """Return the messages of all rounds for which everything has arrived, and of the end."""
        packets = self._forward()
        while not self.done and not self.missing():
            packets += self._answer(self.turn)
            packets += self._forward()
        return [*packets, *self.finish()]

    def _forward(self) -> list[Packet]:
        """Return what others need before this site can answer; written, and then sent."""
        if self.done:
            return []
        for missing in self.missing():  # the hub does not send a site its own messages
            if missing.sender == self._exchange.agent:
                sent = self._journal.sent(self._run, missing.round)
                assert sent is not None
                self._accept_own(sent.message)
        need = self._exchange.to_forward(self.turn)
        if need is None or need == self._forwarded or not self._inbox.has(need):
            return []
        sealed = self._journal.say(self._run, _forward_name(need.round), self._inbox.sealed(need))
        self._forwarded = need
        return self._exchange.forward(sealed)

    def _answer(self, turn: int) -> list[Packet]:
        written = self._journal.sent(self._run, turn)
        if written is not None:  # though the head of the journal could not be
            return self._go_on(written, *self._read_state(written.state))
        exchange, needs = self._exchange, self._exchange.needs(turn)
        digests, bodies = self._inbox.digests(needs), self._inbox.bodies(needs)
        inbox = exchange.inbox(turn, bodies, self._past)
        common = joint(self._inbox.digests(exchange.in_common(turn)))
        transcript = chained(self._transcript, common)
        answered = self._answering.answer(turn, self._state, inbox)
        plain = self._layouts.message.packed(answered.message)
        body = exchange.added(self._masking.masked(turn, transcript, plain), bodies)
        self._check_computable(self._layouts.message.unpacked(body, "", finite=False))
        sealed = self._seal.sealed(exchange.message_kind, turn, body, transcript=transcript)
        state = answered.state if self._masking.keeps_state else self._state
        last_inbox = inbox if exchange.keeps.leaves else ()
        kept = self._layouts.state.packed(state) if self._masking.keeps_state else b""
        kept += exchange.keeps.packed(last_inbox)
        sent = Sent(turn, b"".join(digests), sealed, kept, transcript)
        self._journal.add(self._run, sent, answered.entries)
        return self._go_on(sent, state, last_inbox)

    def _go_on(self, sent: Sent, state: PyTree, last_inbox: PyTree) -> list[Packet]:
        """Return the written message of a round; the next one is due."""
        self._state, self._last_inbox = state, last_inbox
        self._transcript, self._next = sent.chain, self._next + 1
        self._inbox.discard(self._exchange.needs(sent.round))
        return self._exchange.packets(sent.round, sent.message)

    def _check_computable(self, message: PyTree) -> None:
        """Raise `BreachError` if a message would be refused for what others sent before it."""
        if is_computable(message):
            return
        sender = self._inbox.loudest()
        if sender is None:
            raise SolverError("an answer of this site is not finite; nothing is sent")
        raise BreachError(
            f"{sender} sent numbers so large that nothing can be computed from them; its owner "
            "should look at its version of taciturn"
        )

    def _read_state(self, kept: bytes) -> tuple[PyTree, PyTree]:
        """Return the state after the last round, and its inbox if that is kept.

        It is the first state where none is kept: where answers are summed, questions and messages
        are the same whatever the state is.
        """
        keeps, state = self._exchange.keeps, self._state
        size = len(kept) - keeps.size
        if self._masking.keeps_state:
            state = self._layouts.state.unpacked(kept[:size], "the journal", finite=False)
        return state, keeps.unpacked(kept[size:], "the journal", finite=False)

    @property
    def _past(self) -> Past:
        return Past(self._own_message, self._last_inbox)

    def _own_message(self, turn: int) -> PyTree:
        sent = self._journal.sent(self._run, turn)
        assert sent is not None
        body = self._inbox.opener.opened(sent.message).body
        return self._layouts.message.unpacked(body, "the journal")

    def _accept_own(self, sealed: bytes) -> None:
        self._inbox.accept(self._inbox.opener.opened(sealed))

    # the end

    def finish(self) -> list[Packet]:
        """Return what all receive at the end, as far as it is known; nothing before."""
        if not self.done:
            return []
        final = self._final()
        if final:
            self._accept_own(final)
        if self._trained is None and not self.missing():
            self._trained = self._answer_last()
        score = b"" if self._trained is None else self._trained.message
        if score:
            self._accept_own(score)
        envelopes = [sealed for sealed in (final, score) if sealed]
        head = self.head()
        if head is not None:
            rounds = self._rounds + bool(self._exchange.scores)
            entries = entries_to_json(self._journal.answers(self._run), rounds)
            envelopes += [
                self._seal.values(Kind.LEDGER_ENTRIES, self._rounds, entries),
                self._seal.sealed(Kind.HEAD, self._rounds, b"", transcript=head),
            ]
        return [self._broadcast(sealed) for sealed in envelopes]

    def head(self) -> bytes | None:
        """Return the digest that this site signs at the end; None while something is missing.

        On star and tree it chains everything that was received, on other networks the end alone,
        since every site receives something else before it.
        """
        if self.done and self._signed is None and self._trained is not None and not self.missing():
            scores, layout = self._exchange.scores, self._exchange.trained
            head = with_scores(self._trained.chain, self._inbox.digests(scores))
            trained = layout.unpacked(self._trained.state, "the journal", finite=False)
            released = self._exchange.scored(trained, self._inbox.bodies(scores))
            # with the model: when it is asked for next, others may have left
            content = head + self._exchange.released.packed(released)
            self._signed = self._journal.say(self._run, "head", content)
        return None if self._signed is None else self._signed[:_HEAD]

    def released(self) -> Released:
        """Return what the run releases, once there is a head."""
        assert self._signed is not None
        content, layout = self._signed[_HEAD:], self._exchange.released
        released: Released = layout.unpacked(content, "the journal", finite=False)
        return released

    def _final(self) -> bytes | None:
        """Return what all receive after the last round, as it was first sent; None for nothing."""
        said = self._journal.said(self._run, "final")
        if said is not None:
            return said
        body = self._exchange.final(self._state, self._past)
        if body is None:
            return None
        need = Need(Kind.FINAL, self._exchange.agent, self._rounds)
        self._check_computable(self._exchange.layout(need).unpacked(body, "", finite=False))
        sealed = self._seal.sealed(Kind.FINAL, self._rounds, body, transcript=self._transcript)
        return self._journal.say(self._run, "final", sealed)

    def _answer_last(self) -> Sent:
        """Write the model and the answer to the last question, and return them."""
        written = self._journal.sent(self._run, self._rounds)
        if written is not None:  # though the head of the journal could not be
            return written
        if self._drawn is None:
            self._drawn = self._draw()
        sent, entries = self._drawn
        self._journal.add(self._run, sent, entries)
        return sent

    def _draw(self) -> tuple[Sent, tuple[Entry, ...]]:
        """Return the end of the training with the answer to the last question, not yet written."""
        finals, last = self._exchange.finals, self._exchange.last
        digests = self._inbox.digests(finals)
        trained = self._exchange.model(self._inbox.bodies(finals))
        before = self._transcript if self._exchange.one_chain else NOTHING
        transcript = chained(before, joint(digests))
        sealed: bytes = b""
        entries: tuple[Entry, ...] = ()
        evaluator = self._evaluator
        if last is not None and evaluator is not None and self._exchange.agent in last.agents:
            answering = evaluator(trained)
            inbox = answering.first_inbox()
            answered = answering.answer(0, answering.first_state(), inbox)
            body = last.layout.packed(answered.message)
            if last.summed:
                body = self._masking.masked_last(last.agents, transcript, body)
            sealed = self._seal.sealed(Kind.SCORE, self._rounds, body, transcript=transcript)
            entries = answered.entries
        state = self._exchange.trained.packed(trained)
        return Sent(self._rounds, b"".join(digests), sealed, state, transcript), entries

    def _broadcast(self, sealed: bytes) -> Packet:
        return Packet(self._exchange.subjects.state(self._exchange.agent), sealed)

    # sending again

    def resend(self, subject: str, envelope: Envelope, now: float) -> list[Packet]:
        """Return what a request, which `Grammar` has checked, asks for, as it was written."""
        values, subjects, agent = envelope.values(), self._exchange.subjects, self._exchange.agent
        sender, kind = envelope.sender, values["kind"]
        if kind in (Kind.FINAL, Kind.SCORE) and values["sender"] == agent:
            sealed = self._written_end(kind) if self.done else None
            due = sealed is not None and self._limits[kind].allows(now)
            return [self._broadcast(sealed)] if sealed is not None and due else []
        if kind not in (Kind.MESSAGE, Kind.TOTAL) or subject != subjects.edge(sender, agent):
            return []
        return self.sent_on(values["round"], subjects.edge(agent, sender))

    def _written_end(self, kind: Any) -> bytes | None:
        if kind == Kind.FINAL:
            return self._final()
        score = None if self._trained is None else self._trained.message
        return score or None

    def sent_on(self, turn: int, subject: str) -> list[Packet]:
        """Return what was sent on a subject in a round, as it was written."""
        if not 0 <= turn < self._rounds:
            return []
        sent, forwarded = self._journal.sent(self._run, turn), None
        packets = [] if sent is None else self._exchange.packets(sent.round, sent.message)
        if self._exchange.to_forward(turn + 1) is not None:
            forwarded = self._journal.said(self._run, _forward_name(turn))
        packets += [] if forwarded is None else self._exchange.forward(forwarded)
        return [packet for packet in packets if packet.subject == subject]


def _forward_name(turn: int) -> str:
    return f"handed.{turn}"
