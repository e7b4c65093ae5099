"""The rounds that a site answers: computed once, written down, then said."""

from __future__ import annotations

import hashlib

from taciturn.errors import SolverError
from taciturn.typing import PyTree
from taciturn_federation.answering import Answering
from taciturn_federation.envelope import BreachError, Kind, Seal, chained, is_computable
from taciturn_federation.exchange import Exchange, Need, Past
from taciturn_federation.hearing import Hearing
from taciturn_federation.journal import Journal, Sent
from taciturn_federation.masking import Unmasked
from taciturn_federation.party import Packet


class Rounds:
    """A site's way through the rounds of its plan; it goes on where its journal ends.

    **Guarantee.** Message, state and entries of a round are in the journal before the message is
    returned, in one transaction. If that fails nothing is returned and the round counts as not
    answered: the same noise, which nobody saw, may serve for the next attempt.
    Under masks (`Masked`) no answer is written in plain, nor the state that holds one.
    """

    def __init__(
        self,
        answering: Answering,
        exchange: Exchange,
        hearing: Hearing,
        journal: Journal,
        seal: Seal,
        masking: Unmasked,
    ) -> None:
        self._answering, self._exchange, self._hearing = answering, exchange, hearing
        self._journal, self._seal, self._masking = journal, seal, masking
        self._run = seal.run.hex()
        self._layouts = exchange.layouts
        self._turns = answering.turns
        self._state: PyTree = answering.first_state()
        self._heard: PyTree = ()
        self.chain, self._next = masking.first_link(), 0
        self._handed: Need | None = None
        latest = journal.latest(self._run)
        if latest is not None and latest.round == answering.plan.rounds:
            self.chain, self._next = latest.chain, len(self._turns)
        elif latest is not None:
            self._state, self._heard = self._kept(latest.state)
            self.chain, self._next = latest.chain, self._turns.index(latest.round) + 1

    @property
    def done(self) -> bool:
        """Whether every round is answered."""
        return self._next == len(self._turns)

    @property
    def turn(self) -> int:
        """The next round to be answered; T at the end."""
        return self._answering.plan.rounds if self.done else self._turns[self._next]

    def lacks(self) -> tuple[Need, ...]:
        """Return what has not been heard and is needed for the next round."""
        needs = () if self.done else self._exchange.needs(self.turn)
        return tuple(need for need in needs if not self._hearing.has(need))

    def advance(self) -> list[Packet]:
        """Return the messages of all rounds for which everything was heard."""
        packets = self._handed_on()
        while not self.done and not self.lacks():
            packets += self._answered(self.turn)
            packets += self._handed_on()
        return packets

    def _handed_on(self) -> list[Packet]:
        """Return what others wait for before this site can answer; written down, and then said."""
        self._hear_own()
        need = None if self.done else self._exchange.hands_on(self.turn)
        if need is None or need == self._handed or not self._hearing.has(need):
            return []
        sealed = self._journal.say(self._run, _name_of(need.round), self._hearing.sealed(need))
        self._handed = need
        return self._exchange.handed_on(sealed)

    def _hear_own(self) -> None:
        """Take what this site said itself and needs next: the hub does not send it back."""
        for need in self.lacks():
            if need.sender == self._exchange.agent:
                sent = self._journal.sent(self._run, need.round)
                assert sent is not None
                self._hearing.take(self._hearing.opener.opened(sent.message))

    def _answered(self, turn: int) -> list[Packet]:
        needs = self._exchange.needs(turn)
        kept = self._journal.sent(self._run, turn)
        if kept is not None:  # written, though the head of the journal could not be
            return self._go_on(kept, *self._kept(kept.state))
        digests = [self._hearing.digest(need) for need in needs]
        bodies = [self._hearing.body(need) for need in needs]
        inbox = self._exchange.inbox(turn, bodies, self._past)
        common = [self._hearing.digest(need) for need in self._exchange.in_common(turn)]
        chain = chained(self.chain, joint(common))
        answered = self._answering.answer(turn, self._state, inbox)
        plain = self._layouts.message.packed(answered.message)
        body = self._exchange.added(self._masking.masked(turn, chain, plain), bodies)
        self._check_computable(self._layouts.message.unpacked(body, "", finite=False))
        sealed = self._seal.sealed(self._exchange.says, turn, body, heard=chain)
        state = answered.state if self._masking.keeps_state else self._state
        heard = inbox if self._exchange.keeps.leaves else ()
        sent = Sent(turn, b"".join(digests), sealed, self._keeping(state, heard), chain)
        self._journal.add(self._run, sent, answered.entries)
        return self._go_on(sent, state, heard)

    def _check_computable(self, message: PyTree) -> None:
        """Raise `BreachError` if a message would be refused for what others sent before it."""
        if is_computable(message):
            return
        who = self._hearing.loudest()
        if who is None:
            raise SolverError("an answer of this site is not finite; nothing is sent")
        raise BreachError(
            f"{who} sent numbers so large that nothing can be computed from them; its owner should "
            "look at its version of taciturn"
        )

    def _go_on(self, sent: Sent, state: PyTree, heard: PyTree) -> list[Packet]:
        """Return what was written for a round on its way; the next one is due."""
        self._state, self._heard = state, heard
        self.chain, self._next = sent.chain, self._next + 1
        self._hearing.forget(self._exchange.needs(sent.round))
        return self._exchange.packets(sent.round, sent.message)

    def _keeping(self, state: PyTree, heard: PyTree) -> bytes:
        """Return what the journal keeps of a round for the next one."""
        kept = self._layouts.state.packed(state) if self._masking.keeps_state else b""
        return kept + self._exchange.keeps.packed(heard)

    def _kept(self, kept: bytes) -> tuple[PyTree, PyTree]:
        """Return the state after the last round, and what was heard in it if that is kept.

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
        return Past(self._own, self._heard)

    def _own(self, turn: int) -> PyTree:
        """Return this agent's own message of a round, from the journal."""
        sent = self._journal.sent(self._run, turn)
        assert sent is not None
        body = self._hearing.opener.opened(sent.message).body
        return self._layouts.message.unpacked(body, "the journal")

    def again(self, turn: int, subject: str) -> list[Packet]:
        """Return what was said on a subject in a round, as it was written."""
        if not 0 <= turn < self._answering.plan.rounds:
            return []
        sent, handed = self._journal.sent(self._run, turn), None
        packets = [] if sent is None else self._exchange.packets(sent.round, sent.message)
        if self._exchange.hands_on(turn + 1) is not None:
            handed = self._journal.said(self._run, _name_of(turn))
        packets += [] if handed is None else self._exchange.handed_on(handed)
        return [packet for packet in packets if packet.subject == subject]

    def final(self) -> bytes | None:
        """Return what all are told at the end, as it was said first; None for nothing."""
        said = self._journal.said(self._run, "final")
        if said is not None:
            return said
        body = self._exchange.final(self._state, self._past)
        if body is None:
            return None
        need = Need(Kind.FINAL, self._exchange.agent, self._answering.plan.rounds)
        self._check_computable(self._exchange.layout(need).unpacked(body, "", finite=False))
        turns = self._answering.plan.rounds
        sealed = self._seal.sealed(Kind.FINAL, turns, body, heard=self.chain)
        return self._journal.say(self._run, "final", sealed)


def _name_of(turn: int) -> str:
    return f"handed.{turn}"


def joint(digests: list[bytes]) -> bytes:
    """Return the one digest as it is, or the digest of several."""
    return digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
