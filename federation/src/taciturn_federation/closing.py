"""The end of a site's run: the model is known, the last question is answered, a head is signed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taciturn_federation.answering import Answering, Entry
from taciturn_federation.envelope import NOTHING, Kind, Seal, chained
from taciturn_federation.exchange import Need
from taciturn_federation.hearing import Hearing, column_values
from taciturn_federation.journal import Journal, Sent
from taciturn_federation.masking import Unmasked
from taciturn_federation.party import Ending, Released
from taciturn_federation.rounds import Rounds, joint

_HEAD = len(NOTHING)


class Closing:
    """What a site does after its last round.

    **Guarantee.** The answer to the last question is written with its charge and with the model
    that it is about, in one transaction, before it is told; it is answered once. That model is what
    follows from what the site heard itself. Until it is written the same answer is kept for the
    next attempt: under masks no other one may be told.

    Parameters
    ----------
    asked
        Returns what answers the last question about a model; None if none is asked.
    """

    def __init__(
        self,
        rounds: Rounds,
        hearing: Hearing,
        journal: Journal,
        seal: Seal,
        masking: Unmasked,
        asked: Callable[[Released], Answering] | None,
    ) -> None:
        exchange = hearing.exchange
        self._rounds, self._exchange, self._hearing = rounds, exchange, hearing
        self._journal, self._seal = journal, seal
        self._masking, self._asked = masking, asked
        self._drawn: tuple[Sent, tuple[Entry, ...]] | None = None
        self._run, self._turns = seal.run.hex(), exchange.plan.rounds
        self._known: Sent | None = journal.sent(self._run, self._turns)
        self._signed: bytes | None = journal.said(self._run, "head")

    def lacks(self) -> tuple[Need, ...]:
        """Return what has not been heard: of the end of the training, or of the last question."""
        if self._signed is not None:
            return ()
        needs = self._exchange.finals if self._known is None else self._exchange.scores
        return tuple(need for need in needs if not self._hearing.has(need))

    def advance(self) -> list[bytes]:
        """Return the envelopes that all are told, as far as the end is known."""
        final = self._rounds.final()
        self._hear_own(final)
        if self._known is None and not self.lacks():
            self._known = self._answered()
        score = b"" if self._known is None else self._known.message
        self._hear_own(score)
        told = [sealed for sealed in (final, score) if sealed]
        head = self.head()
        if head is None:
            return told
        last = self._turns + bool(self._exchange.scores)
        column = column_values(self._journal.answers(self._run), last)
        return [
            *told,
            self._seal.values(Kind.COLUMN, self._turns, column),
            self._seal.sealed(Kind.HEAD, self._turns, b"", heard=head),
        ]

    def told(self, kind: Any) -> bytes | None:
        """Return what this site told all of a kind, as it was written; None for nothing."""
        if kind == Kind.FINAL:
            return self._rounds.final()
        score = None if self._known is None else self._known.message
        return score if kind == Kind.SCORE and score else None

    def head(self) -> bytes | None:
        """Return what this site signs at the end; None while something is lacking.

        On star and tree the chain of everything that was heard, on other networks that of the end
        alone, since every site hears something else before it.
        """
        if self._signed is None and self._known is not None and not self.lacks():
            digests = [self._hearing.digest(need) for need in self._exchange.scores]
            head = with_scores(self._known.chain, digests)
            # with what it stands for: when it is asked for next, others may have left
            released = self._exchange.released.packed(self._scored(self._known))
            self._signed = self._journal.say(self._run, "head", head + released)
        return None if self._signed is None else self._signed[:_HEAD]

    def released(self) -> Released:
        """Return what the run releases, once there is a head."""
        assert self._signed is not None
        content, layout = self._signed[_HEAD:], self._exchange.released
        released: Released = layout.unpacked(content, "the journal", finite=False)
        return released

    def _scored(self, known: Sent) -> Released:
        layout = self._exchange.trained
        trained = layout.unpacked(known.state, "the journal", finite=False)
        bodies = [self._hearing.body(need) for need in self._exchange.scores]
        return self._exchange.scored(trained, bodies)

    def _answered(self) -> Sent:
        """Write the model and the answer to the last question, and return them."""
        kept = self._journal.sent(self._run, self._turns)
        if kept is not None:  # written, though the head of the journal could not be
            return kept
        if self._drawn is None:
            self._drawn = self._draw()
        sent, entries = self._drawn
        self._journal.add(self._run, sent, entries)
        return sent

    def _draw(self) -> tuple[Sent, tuple[Entry, ...]]:
        """Return the end of the training with the answer to the last question, not yet written."""
        finals, last = self._exchange.finals, self._exchange.last
        digests = [self._hearing.digest(need) for need in finals]
        trained = self._exchange.model([self._hearing.body(need) for need in finals])
        before = self._rounds.chain if self._exchange.one_chain else NOTHING
        chain = chained(before, joint(digests))
        sealed: bytes = b""
        entries: tuple[Entry, ...] = ()
        asked = self._asked
        if last is not None and asked is not None and self._exchange.agent in last.agents:
            answering = asked(trained)
            inbox = answering.first_inbox()
            answered = answering.answer(0, answering.first_state(), inbox)
            body = last.layout.packed(answered.message)
            if last.summed:
                body = self._masking.masked_last(last.agents, chain, body)
            sealed = self._seal.sealed(Kind.SCORE, self._turns, body, heard=chain)
            entries = answered.entries
        state = self._exchange.trained.packed(trained)
        return Sent(self._turns, b"".join(digests), sealed, state, chain), entries

    def _hear_own(self, sealed: bytes | None) -> None:
        """Take what this site says itself: the hub does not send it back."""
        if sealed:
            self._hearing.take(self._hearing.opener.opened(sealed))


def farewell(seal: Seal, ending: Ending) -> bytes:
    """Return the envelope that says how a run ended for a site, which answers nothing more."""
    if ending == "refused":
        told = {"line": "this site refused earlier; its owner has the reason"}
        return seal.values(Kind.REFUSAL, 0, told)
    return seal.values(Kind.DONE, 0, {"ending": ending})


def with_scores(trained: bytes, digests: list[bytes]) -> bytes:
    """Return the head of a run, from that of its training and the answers to its last question."""
    return chained(trained, joint(digests)) if digests else trained
