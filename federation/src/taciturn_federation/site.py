"""A site: the owner of one agent's records, who answers what follows from the proposal."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taciturn.budget import Account
from taciturn.errors import InputError, TaciturnError, told_anew
from taciturn.problems import (
    DRAW_KEY_BYTES,
    Draw,
)
from taciturn_federation.closing import Closing, farewell
from taciturn_federation.envelope import (
    COORDINATOR,
    BreachError,
    Envelope,
    Kind,
    Layout,
    Seal,
    UnreadableError,
)
from taciturn_federation.exchange import Need, exchange_of
from taciturn_federation.hearing import (
    TELL,
    Hearing,
    Waiting,
    accepted_by_all,
    believed,
    check_heads,
)
from taciturn_federation.journal import Journal, RunRow
from taciturn_federation.local import Local
from taciturn_federation.masking import masking_of
from taciturn_federation.messages import Grammar, one_line
from taciturn_federation.party import NOT_STARTED, Outcome, Packet, Progress, Released, outcome_of
from taciturn_federation.paying import Paying
from taciturn_federation.requests import Repeating, requests
from taciturn_federation.rounds import Rounds

_OWN = "something about this site's own records or machine; its owner has the reason"


class Site:
    """One agent of a run, as a party (`taciturn_federation.party.Party`).

    **Guarantee.** The only packets that depend on records are messages of `Rounds`, each written
    to the journal with its charge before it is returned here, and what follows from them. A round
    is answered once: later requests get the bytes that were written.

    Parameters
    ----------
    key
        The signing key, whose public half is in the proposal.
    account
        What the run is charged to; None for nowhere.
    report
        Called with each line that the owner should see.
    """

    def __init__(
        self,
        local: Local,
        journal: Journal,
        key: Ed25519PrivateKey,
        *,
        account: Account | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        signed = local.signed
        if signed.agent_of(key.public_key()) != local.agent:
            raise InputError("the signing key is another site's; use the one made on joining")
        self._local, self._journal, self._report = local, journal, report
        self._seal = Seal(signed.run, local.agent, key)
        self._opener, self._subjects, self._digest = signed.opener, signed.subjects, signed.digest
        self._exchange = exchange_of(local.plan, self._subjects, local.agent, local.last)
        self._listens = self._exchange.listens
        self._grammar = Grammar(self._opener.names, local.plan.rounds)
        self._hearing = Hearing(self._exchange, self._opener, journal, self._digest)
        self._paying = Paying(local, journal, account)
        self._masking = masking_of(local, journal, self._opener)
        self._rounds: Rounds | None = None
        self._close: Closing | None = None
        self._repeating: Repeating | None = None
        self._waiting, self._telling, self._furthest = Waiting(), Waiting(), 0
        self._now = 0.0
        self._outcome: Outcome | None = None
        self._phase = self._accept()

    # Party

    @property
    def subjects(self) -> tuple[str, ...]:
        """What it listens to."""
        return self._listens

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while it goes on."""
        return self._outcome

    @property
    def needed(self) -> bool:
        """Whether others may ask for its bytes: while the run goes on."""
        return self._outcome is None

    @property
    def charged_as(self) -> str:
        """What the account calls the run; empty without an account."""
        return self._paying.run

    def progress(self) -> Progress:
        """Return where the run stands."""
        turn = 0 if self._rounds is None else self._rounds.turn
        return Progress(turn, self._local.plan.rounds, self._missing(), self._waiting.seconds)

    def start(self, now: float) -> list[Packet]:
        """Return the acceptance, or what a run that was under way lacks."""
        self._waiting.look(now)
        return self._guarded(self._wishes)

    def tick(self, now: float) -> list[Packet]:
        """Return what is lacking, once a second."""
        self._waiting.look(now)
        patience = self._local.signed.patience
        if self._outcome is None and self._waiting.seconds > 2 * patience:
            return self._forsaken()
        self._telling.look(now)
        packets = self._guarded(self._again) if self._waiting.again() else []
        if self._phase == "running" and self._telling.again(min(TELL, patience / 4)):
            stands = self._seal.values(Kind.PROGRESS, self.progress().round, {})
            packets.append(self._state(stands))
        return packets

    def _forsaken(self) -> list[Packet]:
        line = "nobody was heard for twice the patience of the study"
        if self._phase == "accepted":
            return self._give_up(line)
        self._end("abandoned", line)
        return self._farewell()

    def heard(self, packet: Packet, now: float) -> list[Packet]:
        """Return what is said to a packet."""
        self._waiting.look(now)
        self._now = now
        try:
            envelope = believed(packet, self._opener, self._subjects, self.subjects)
        except InputError as error:
            self._report(str(error))
            return []
        own = envelope.sender == self._local.agent  # a hub may send its words back
        return [] if own else self._guarded(lambda: self._take(packet.subject, envelope))

    def close(self) -> None:
        """Let go of account and journal."""
        self._paying.let_go()
        self._journal.close()

    # before the run

    def _accept(self) -> str:
        """Return the phase of the run, which is accepted if it is new."""
        local, row = self._local, self._journal.run(self._digest)
        data = self._journal.data_digest(local.content)
        if row is None:
            reserved = self._paying.reserve()
            text = local.signed.to_json()
            self._journal.begin(
                RunRow(self._digest, text, local.agent, data, reserved, "accepted", "")
            )
            return "accepted"
        if row.data != data:
            raise InputError(
                "the file of records changed since this run was accepted; put the file back that "
                "was there, or ask for a new proposal"
            )
        self._paying.resume(row)
        if row.phase == "running":
            return self._goes_on()
        if row.phase != "accepted":
            self._outcome = self._ended_before(row)
        return row.phase

    def _goes_on(self) -> str:
        """Return the phase of a run that was under way when its process ended."""
        try:
            self._open()
        except UnreadableError as error:  # killed between the mark and the first cell
            self._end("refused", str(error), by_others=False)
            return "refused"
        return "running"

    def _ended_before(self, row: RunRow) -> Outcome:
        """Return the outcome of a run that ended in an earlier process."""
        ending: Any = row.phase
        kept = self._journal.said(self._digest, "model")
        if kept is None:
            return Outcome(ending, row.line)
        if ending == "finished":
            self._open()
        model = self._layout(ending).unpacked(kept, "the journal", finite=False)
        return outcome_of(ending, row.line, model, self._local.certificate)

    def _start(self, envelope: Envelope) -> list[Packet]:
        """Begin, once all have accepted; the mark in the account comes before the door."""
        if self._phase != "accepted":
            return self._closing() if self._phase == "finished" else []
        self._masking.agree(accepted_by_all(envelope, self._opener))
        self._paying.open()
        self._journal.set_phase(self._digest, "running")
        self._phase = "running"
        self._open()
        self._waiting.came()
        return [*self._advance(), *self._wishes()]

    def _open(self) -> None:
        """Look at the records for the first time; from here on rounds can be answered."""
        local = self._local
        # kept, so that a later start of this run does not train on what this one holds out
        key = self._journal.say(self._digest, "division", secrets.token_bytes(DRAW_KEY_BYTES))
        read = partial(local.records, Draw(key=key))
        records = told_anew(read, InputError, lambda error: UnreadableError(str(error)))
        answering = local.answering(records)
        parts = self._hearing, self._journal, self._seal, self._masking
        self._rounds = Rounds(answering, self._exchange, *parts)
        self._close = Closing(self._rounds, *parts, local.asked(records))
        self._repeating = Repeating(self._exchange, self._rounds, self._close)

    # during the run

    def _take(self, subject: str, envelope: Envelope) -> list[Packet]:
        kind = envelope.kind
        self._grammar.check(envelope)
        if self._outcome is not None and not self._replays(kind):
            return self._farewell() if envelope.sender == COORDINATOR else []
        if kind == Kind.PROGRESS and envelope.round > self._furthest:
            self._furthest = envelope.round
            self._waiting.came()
        if kind in (Kind.PUBLIC, Kind.MESSAGE, Kind.TOTAL, Kind.FINAL, Kind.SCORE):
            return self._told(envelope)
        if kind == Kind.WISH:
            again = self._repeating
            return [] if again is None else again.packets(subject, envelope, self._now)
        if envelope.sender != COORDINATOR:
            return []
        if kind == Kind.PROPOSAL:
            self._waiting.came()
            return [self._acceptance()]
        steps = {Kind.START: self._start, Kind.HEADS: self._finish, Kind.END: self._ended}
        return steps[kind](envelope) if kind in steps else []

    def _replays(self, kind: Kind) -> bool:
        """Whether a finished site says again what it said: the coordinator may have lost it all."""
        finished = self._phase == "finished" and self._rounds is not None
        alone = (Kind.MESSAGE, Kind.TOTAL, Kind.HEADS, Kind.END)
        return finished and kind not in alone

    def _told(self, envelope: Envelope) -> list[Packet]:
        """Keep what is heard; answer again what was answered, or go on."""
        heard = self._hearing.take(envelope)
        on_star = envelope.sender == COORDINATOR
        if heard.answered == self._local.plan.rounds:
            return self._closing() if on_star else []
        if heard.answered is not None:
            sent = self._journal.sent(self._digest, heard.answered)
            return self._exchange.packets(sent.round, sent.message) if sent and on_star else []
        if not heard.new:  # of agents only wishes are answered, or they would answer each other
            return self._closing() if on_star else []
        before = self.progress().round
        packets = self._advance()
        if self.progress().round != before:
            self._waiting.came()
        return packets

    def _advance(self) -> list[Packet]:
        if self._rounds is None or self._phase not in ("running", "finished"):
            return []
        packets = self._rounds.advance()
        return [*packets, *self._closing()]

    def _closing(self) -> list[Packet]:
        """Return what all are told once the last round is answered."""
        if self._rounds is None or self._close is None or not self._rounds.done:
            return []
        return [self._state(sealed) for sealed in self._close.advance()]

    # the end

    def _finish(self, envelope: Envelope) -> list[Packet]:
        """End with the model, if the heads that all sites signed agree with what was heard here."""
        close, rounds = self._close, self._rounds
        own = None if rounds is None or close is None or not rounds.done else close.head()
        if own is None or close is None:
            return []
        check_heads(envelope, self._opener, own)
        self._end("finished", "the run is finished", model=close.released())
        return self._farewell()

    def _ended(self, envelope: Envelope) -> list[Packet]:
        """End because the coordinator says so."""
        values = envelope.values()
        line = one_line(values["line"])
        if not values.get("started", True):  # of an attempt before the one that started
            return self._give_up(line) if self._phase == "accepted" else []
        model = None
        if self._local.signed.release_abandoned and self._rounds is not None:
            model = self._hearing.model_so_far(envelope)
        self._end("abandoned", line or "the coordinator ended the run", model=model)
        return self._farewell()

    def _give_up(self, line: str) -> list[Packet]:
        """End before the start, in no journal: the reservation is returned, nothing is spent."""
        self._paying.let_go()
        self._outcome = Outcome("abandoned", line + NOT_STARTED)
        self._report(self._outcome.line)
        return self._farewell()

    def _end(
        self, ending: Any, line: str, *, model: Released | None = None, by_others: bool = True
    ) -> None:
        """Close journal and account: what was answered is charged, or all of it.

        The journal comes first: once it says that the run has ended, no further round is answered,
        so that the rounds in it are all that there will ever be. Where the disk is full, an end
        with a model waits for room; any other holds for this process, and is charged whole.

        Raises
        ------
        InputError
            If there is a model and the journal cannot be written; the run has not ended then.
        """
        early = by_others and ending != "finished"
        try:
            if model is not None:
                self._journal.say(self._digest, "model", self._layout(ending).packed(model))
            self._journal.set_phase(self._digest, ending, line=line)
        except InputError as error:
            if model is not None:
                raise
            self._report(str(error))
            early = False
        self._paying.close(released=ending == "finished", by_others=early)
        self._masking.forget()
        self._phase = ending
        self._outcome = outcome_of(ending, line, model, self._local.certificate)
        self._report(line)

    def _layout(self, ending: str) -> Layout:
        """Return the layout of what a run releases that ended so."""
        return self._exchange.released if ending == "finished" else self._exchange.trained

    def _guarded(self, work: Callable[[], list[Packet]]) -> list[Packet]:
        """Return the packets of some work, or the refusal that its error amounts to."""
        try:
            return work()
        except BreachError as error:
            return self._refuse(str(error), str(error), by_others=True)
        except InputError as error:  # the disk is full, say: nothing was said, and it may go on
            self._report(str(error))
            return []
        except TaciturnError as error:
            return self._refuse(str(error))
        except Exception as error:  # whatever it is, nothing more is answered
            return self._refuse(f"an error in taciturn ({type(error).__name__})")

    def _refuse(self, line: str, told: str = _OWN, *, by_others: bool = False) -> list[Packet]:
        if self._outcome is not None:
            return []
        self._end("refused", line, by_others=by_others)
        return [self._state(self._seal.values(Kind.REFUSAL, 0, {"line": one_line(told)}))]

    def _farewell(self) -> list[Packet]:
        """Return word that this site is done: whatever the ending, the coordinator may leave."""
        assert self._outcome is not None
        return [self._state(farewell(self._seal, self._outcome.ending))]

    # asking again

    def _again(self) -> list[Packet]:
        return [*([] if self._outcome else self._advance()), *self._wishes()]

    def _acceptance(self) -> Packet:
        body = {
            "digest": self._digest,
            "taciturn": self._local.signed.taciturn,
            **self._masking.accepted,
        }
        return self._state(self._seal.values(Kind.ACCEPTANCE, 0, body))

    def _state(self, sealed: bytes) -> Packet:
        return Packet(self._subjects.state(self._local.agent), sealed)

    def _wishes(self) -> list[Packet]:
        """Return what asks for all that is lacking."""
        if self._outcome is not None:
            return self._farewell()
        if self._phase == "accepted":
            return [self._acceptance()]
        needs = [need for need in self._lacks() if need.sender != self._local.agent]
        closing = self._closing() if not needs else []
        return [*closing, *requests(needs, self.progress().round, self._exchange, self._seal)]

    def _lacks(self) -> tuple[Need, ...]:
        """Return what was not heard and is needed next."""
        if self._rounds is None or self._close is None:
            return ()
        return self._close.lacks() if self._rounds.done else self._rounds.lacks()

    def _missing(self) -> tuple[str, ...]:
        if self._outcome is not None:
            return ()
        names, lacks = self._opener.names, self._lacks()
        return tuple(names[need.sender] for need in lacks) or (names[COORDINATOR],)
