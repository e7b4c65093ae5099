"""A site: the owner of one agent's records, who answers what follows from the proposal."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from taciturn.budget import Account, Reservation, salted
from taciturn.engine import check_chargeable
from taciturn.engine.charging import purpose_of
from taciturn.errors import InputError, SolverError, told_anew
from taciturn.kernel.records import DRAW_KEY_BYTES, Draw
from taciturn.typing import PyTree
from taciturn_federation import envelope as env
from taciturn_federation import interface
from taciturn_federation.envelope import COORDINATOR, NOTHING, BreachError, Envelope, Kind, Layout
from taciturn_federation.exchange import (
    Inbox,
    Need,
    Past,
    RunParty,
    accepted_by_all,
    check_heads,
    exchange_of,
)
from taciturn_federation.interface import (
    BroadcastLimiter,
    Entry,
    Outcome,
    Packet,
    Progress,
    Released,
    RetryTimer,
)
from taciturn_federation.journal import Journal, RunRow, Sent
from taciturn_federation.local import Answering, Local, entries_to_json
from taciturn_federation.masks import Unmasked, masking_of

_LOCAL_FAILURE = "something about this site's own records or machine; its owner has the reason"
_HEAD = len(NOTHING)
_AT_WORK = ("running", "finished")
_MESSAGES = (Kind.PUBLIC, Kind.MESSAGE, Kind.TOTAL, Kind.FINAL, Kind.SCORE)
_ALONE = (Kind.MESSAGE, Kind.TOTAL, Kind.HEADS, Kind.END)


class RunAccount:
    """Charges one run of one site to the owner's account, or nowhere if there is none.

    **Guarantee.** The charge of the whole run is on the disk before the door opens, whatever
    becomes of this process. It is replaced by that of the rounds in the journal only where others
    ended the run: an answer is in the journal before it is sent, so none is left out.
    """

    def __init__(self, local: Local, journal: Journal, account: Account | None) -> None:
        self._local, self._journal, self._account = local, journal, account
        self._digest = local.signed.digest
        self._reservation: Reservation | None = None
        self.run = ""  # what the account calls it; empty without an account

    def reserve(self) -> str:
        """Reserve training and last question, before anything is accepted; return `run`."""
        if self._account is None:
            return ""
        local, signed = self._local, self._local.signed
        check_chargeable(seed=local.seed, conditional=local.certificate.conditional)
        what = f"{signed.proposal.method.name} in study {signed.study}"
        self._reservation = charged_account(self._account, local).reserve(
            local.charge, purpose_of(local.plan, what, signed.proposal.digest)
        )
        self.run = self._reservation.run
        return self.run

    def resume(self, row: RunRow) -> None:
        """Find the reservation of a run that was accepted before.

        Raise `InputError` if it was accepted with an account and none is given, or without one.
        """
        if bool(row.reserved) != (self._account is not None):
            had = "with an account" if row.reserved else "without an account"
            raise InputError(f"this run was accepted {had}; resume it as it was accepted")
        self.run = row.reserved
        if self._account is None or row.phase not in ("accepted", "running"):
            return
        runs = {run.run: run for run in self._account.state().runs}
        found = runs.get(row.reserved)
        status = "returned" if found is None else found.status
        if status == "opened":
            self._reservation = self._account.reopened(row.reserved)
        elif row.phase == "accepted":  # that of a process that is gone is returned by itself
            self._journal.set_phase(self._digest, "accepted", reserved=self.reserve())
        elif status not in ("released", "failed"):
            raise InputError(
                "the account does not hold this run, which is under way (a restored backup, or "
                "another account); name the account that it was accepted with"
            )

    def open(self) -> None:
        """Write the mark after which records may be asked."""
        if self._reservation is not None and not self._reservation.ready:
            self._reservation.begin()
            salt = self._reservation.state.salt
            self._reservation.note_files([salted(salt, self._local.content)])

    def close(self, *, released: bool, by_others: bool = False) -> None:
        """Write how the run ended; if others ended it, only what was answered is charged."""
        if self._reservation is None:
            return
        answered = None
        if by_others:
            answered = self._local.charge_for(sorted(self._journal.answers(self._digest)))
        if self._reservation.begun:
            self._reservation.close(released=released, answered=answered)
        else:
            self.release()

    def release(self) -> None:
        """Return a reservation that was never used; a run under way stays charged."""
        if self._reservation is not None and not self._reservation.begun:
            # on a full disk it stays, and the next reservation of the account returns it
            with suppress(InputError):
                self._reservation.give_back()


def charged_account(account: Account, local: Local) -> Account:
    """Return the account for runs on a site's table, once nothing speaks against it.

    Raises `AccountError` if it was charged for a table with other columns, or another account for
    this file.
    """
    bound = account.for_table(local.files.columns)
    bound.check_table()
    bound.check_files([local.content])
    return bound


class Rounds(RunParty):
    """A site's half of a run: its rounds, from where its journal ends to the head that it signs.

    **Guarantee.** Message, state and entries of a round are in the journal before the message is
    returned, in one transaction. If that fails nothing is returned and the round counts as not
    answered: the same noise, which nobody saw, may serve for the next attempt. The answer to the
    last question is written likewise, with the model that it is about, which is what follows from
    what the site itself received; until then the same answer is kept for the next attempt, since
    under masks no other one may be sent. Under masks (`Masked`) no answer is written in plain, nor
    the state that holds one.
    """

    _answering: Answering | None = None  # None until the records are open
    _inbox: Inbox
    _masking: Unmasked

    def open_rounds(
        self, answering: Answering, evaluator: Callable[[Released], Answering] | None
    ) -> None:
        """Go on where the journal ends; `evaluator` answers the last question about a model."""
        journal = self._journal
        self._evaluator, self._layouts = evaluator, self._exchange.layouts
        self._turns, self._end_turn = answering.turns, answering.plan.rounds
        self._reached: PyTree = answering.first_state()
        self._last_inbox: PyTree = ()
        self._transcript, self._next = self._masking.first_link(), 0
        self._forwarded: Need | None = None
        self._limits: dict[Any, BroadcastLimiter] = defaultdict(BroadcastLimiter)
        self._drawn: tuple[Sent, tuple[Entry, ...]] | None = None
        self._trained: Sent | None = journal.sent(self._digest, self._end_turn)
        self._signed: bytes | None = journal.said(self._digest, "head")
        latest = journal.latest(self._digest)
        if latest is not None and latest.round == self._end_turn:
            self._transcript, self._next = latest.chain, len(self._turns)
        elif latest is not None:
            self._reached, self._last_inbox = self._read_state(latest.state)
            self._transcript, self._next = latest.chain, self._turns.index(latest.round) + 1
        self._answering = answering

    @property
    def done(self) -> bool:
        """Whether every round is answered."""
        return self._answering is not None and self._next == len(self._turns)

    @property
    def turn(self) -> int:
        """The next round to be answered; T at the end."""
        if self._answering is None:
            return 0
        return self._end_turn if self.done else self._turns[self._next]

    def missing(self) -> tuple[Need, ...]:
        """Return what is needed next and has not arrived: for a round, the model or the head."""
        if self._answering is None:
            return ()
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
                sent = self._journal.sent(self._digest, missing.round)
                assert sent is not None
                self._inbox.accept_own(sent.message)
        need = self._exchange.to_forward(self.turn)
        if need is None or need == self._forwarded or not self._inbox.has(need):
            return []
        sealed = self._journal.say(self._digest, f"handed.{need.round}", self._inbox.sealed(need))
        self._forwarded = need
        return self._exchange.forward(sealed)

    def _answer(self, turn: int) -> list[Packet]:
        written = self._journal.sent(self._digest, turn)
        if written is not None:  # though the head of the journal could not be
            return self._go_on(written, *self._read_state(written.state))
        exchange, needs = self._exchange, self._exchange.needs(turn)
        digests, bodies = self._inbox.digests(needs), self._inbox.bodies(needs)
        inbox = exchange.inbox(turn, bodies, Past(self._own_message, self._last_inbox))
        common = env.joint(self._inbox.digests(exchange.in_common(turn)))
        transcript = env.chained(self._transcript, common)
        assert self._answering is not None
        answered = self._answering.answer(turn, self._reached, inbox)
        plain = self._layouts.message.packed(answered.message)
        body = exchange.added(self._masking.masked(turn, transcript, plain), bodies)
        self._check_computable(self._layouts.message.unpacked(body, "", finite=False))
        sealed = self._seal.sealed(exchange.message_kind, turn, body, transcript=transcript)
        state = answered.state if self._masking.keeps_state else self._reached
        last_inbox = inbox if exchange.keeps.leaves else ()
        kept = self._layouts.state.packed(state) if self._masking.keeps_state else b""
        kept += exchange.keeps.packed(last_inbox)
        sent = Sent(turn, b"".join(digests), sealed, kept, transcript)
        self._journal.add(self._digest, sent, answered.entries)
        return self._go_on(sent, state, last_inbox)

    def _go_on(self, sent: Sent, state: PyTree, last_inbox: PyTree) -> list[Packet]:
        """Return the written message of a round; the next one is due."""
        self._reached, self._last_inbox = state, last_inbox
        self._transcript, self._next = sent.chain, self._next + 1
        self._inbox.discard(self._exchange.needs(sent.round))
        return self._exchange.packets(sent.round, sent.message)

    def _check_computable(self, message: PyTree) -> None:
        """Raise `BreachError` if a message would be refused for what others sent before it."""
        if env.is_computable(message):
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
        keeps, state = self._exchange.keeps, self._reached
        size = len(kept) - keeps.size
        if self._masking.keeps_state:
            state = self._layouts.state.unpacked(kept[:size], "the journal", finite=False)
        return state, keeps.unpacked(kept[size:], "the journal", finite=False)

    def _own_message(self, turn: int) -> PyTree:
        sent = self._journal.sent(self._digest, turn)
        assert sent is not None
        body = self._opener.opened(sent.message).body
        return self._layouts.message.unpacked(body, "the journal")

    # the end

    def finish(self) -> list[Packet]:
        """Return what all receive at the end, as far as it is known; nothing before."""
        if not self.done:
            return []
        final = self._final()
        if final:
            self._inbox.accept_own(final)
        if self._trained is None and not self.missing():
            self._trained = self._answer_last()
        score = b"" if self._trained is None else self._trained.message
        if score:
            self._inbox.accept_own(score)
        envelopes = [sealed for sealed in (final, score) if sealed]
        head = self.head()
        if head is not None:
            rounds = self._end_turn + bool(self._exchange.scores)
            entries = entries_to_json(self._journal.answers(self._digest), rounds)
            envelopes += [
                self._seal.values(Kind.LEDGER_ENTRIES, self._end_turn, entries),
                self._seal.sealed(Kind.HEAD, self._end_turn, b"", transcript=head),
            ]
        return [self._broadcast(sealed) for sealed in envelopes]

    def head(self) -> bytes | None:
        """Return the digest that this site signs at the end; None while something is missing.

        On star and tree it chains everything that was received, on other networks the end alone,
        since every site receives something else before it.
        """
        if self.done and self._signed is None and self._trained is not None and not self.missing():
            scores, layout = self._exchange.scores, self._exchange.trained
            head = env.with_scores(self._trained.chain, self._inbox.digests(scores))
            trained = layout.unpacked(self._trained.state, "the journal", finite=False)
            released = self._exchange.scored(trained, self._inbox.bodies(scores))
            # with the model: when it is asked for next, others may have left
            content = head + self._exchange.released.packed(released)
            self._signed = self._journal.say(self._digest, "head", content)
        return None if self._signed is None else self._signed[:_HEAD]

    def released(self) -> Released:
        """Return what the run releases, once there is a head."""
        assert self._signed is not None
        released: Released = self._exchange.released.unpacked(
            self._signed[_HEAD:], "the journal", finite=False
        )
        return released

    def _final(self) -> bytes | None:
        """Return what all receive after the last round, as it was first sent; None for nothing."""
        said = self._journal.said(self._digest, "final")
        if said is not None:
            return said
        body = self._exchange.final(self._reached, Past(self._own_message, self._last_inbox))
        if body is None:
            return None
        need = Need(Kind.FINAL, self._exchange.agent, self._end_turn)
        self._check_computable(self._exchange.layout(need).unpacked(body, "", finite=False))
        sealed = self._seal.sealed(Kind.FINAL, self._end_turn, body, transcript=self._transcript)
        return self._journal.say(self._digest, "final", sealed)

    def _answer_last(self) -> Sent:
        """Write the model and the answer to the last question, and return them."""
        written = self._journal.sent(self._digest, self._end_turn)
        if written is not None:  # though the head of the journal could not be
            return written
        if self._drawn is None:
            self._drawn = self._draw()
        sent, entries = self._drawn
        self._journal.add(self._digest, sent, entries)
        return sent

    def _draw(self) -> tuple[Sent, tuple[Entry, ...]]:
        """Return the end of the training with the answer to the last question, not yet written."""
        finals, last = self._exchange.finals, self._exchange.last
        digests = self._inbox.digests(finals)
        trained = self._exchange.model(self._inbox.bodies(finals))
        before = self._transcript if self._exchange.one_chain else NOTHING
        transcript = env.chained(before, env.joint(digests))
        sealed: bytes = b""
        entries: tuple[Entry, ...] = ()
        if last is not None and self._evaluator and self._exchange.agent in last.agents:
            answering = self._evaluator(trained)
            answered = answering.answer(0, answering.first_state(), answering.first_inbox())
            body = last.layout.packed(answered.message)
            if last.summed:
                body = self._masking.masked_last(last.agents, transcript, body)
            sealed = self._seal.sealed(Kind.SCORE, self._end_turn, body, transcript=transcript)
            entries = answered.entries
        state = self._exchange.trained.packed(trained)
        return Sent(self._end_turn, b"".join(digests), sealed, state, transcript), entries

    def _broadcast(self, sealed: bytes) -> Packet:
        return Packet(self._exchange.subjects.state(self._exchange.agent), sealed)

    # sending again

    def resend(self, subject: str, envelope: Envelope) -> list[Packet]:
        """Return what a request, which `Grammar` has checked, asks for, as it was written."""
        if self._answering is None:
            return []
        values, subjects, agent = envelope.values(), self._exchange.subjects, self._exchange.agent
        sender, kind = envelope.sender, values["kind"]
        if kind in (Kind.FINAL, Kind.SCORE) and values["sender"] == agent:
            score = b"" if self._trained is None else self._trained.message
            sealed = (self._final() if kind == Kind.FINAL else score) if self.done else None
            return (
                [self._broadcast(sealed)] if sealed and self._limits[kind].allows(self._now) else []
            )
        if kind not in (Kind.MESSAGE, Kind.TOTAL) or subject != subjects.edge(sender, agent):
            return []
        turn, back = values["round"], subjects.edge(agent, sender)
        if not 0 <= turn < self._end_turn:
            return []
        sent, forwarded = self._journal.sent(self._digest, turn), None
        packets = [] if sent is None else self._exchange.packets(sent.round, sent.message)
        if self._exchange.to_forward(turn + 1) is not None:
            forwarded = self._journal.said(self._digest, f"handed.{turn}")
        packets += [] if forwarded is None else self._exchange.forward(forwarded)
        return [packet for packet in packets if packet.subject == back]


class Site(Rounds):
    """One agent of a run, as a party (`taciturn_federation.interface.Party`).

    **Guarantee.** The only packets that depend on records are messages of `Rounds`, each written to
    the journal with its charge before it is returned here, and what follows from them. A round is
    answered once: later requests get the bytes that were written.

    The public half of `key` is in the proposal. Without an `account` the run is charged nowhere.
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
        exchange = exchange_of(local.plan, signed.subjects, local.agent, local.last)
        super().__init__(signed, exchange, exchange.listens, journal, key, report)
        self._local = local
        self._inbox = Inbox(exchange, self._opener, journal)
        self._run_account = RunAccount(local, journal, account)
        self._masking = masking_of(local.plan, local.agent, journal, self._opener)
        self._telling, self._furthest = RetryTimer(), 0
        self._phase = self._accept_run()

    # the interface of a party

    @property
    def charged_as(self) -> str:
        """What the account calls the run; empty without an account."""
        return self._run_account.run

    @override
    def progress(self) -> Progress:
        senders = [need.sender for need in self.missing()] or [COORDINATOR]
        names = () if self.outcome else tuple(self._opener.names[one] for one in senders)
        return Progress(self.turn, self._local.plan.rounds, names, self._waiting.elapsed)

    def tick(self, now: float) -> list[Packet]:
        """Return requests for what is missing, once a second, and from time to time a status."""
        self._waiting.tick(now)
        patience = self.signed.patience
        if self.outcome is None and self._waiting.elapsed > 2 * patience:
            line = "nobody was heard for twice the patience of the study"
            if self._phase == "accepted":
                return self._give_up(line)
            self._end("abandoned", line)
            return self._farewell()
        self._telling.tick(now)

        def again() -> list[Packet]:
            return [*([] if self.outcome else self._advance()), *self._resume()]

        packets = self._guarded(again) if self._waiting.due() else []
        interval = min(interface.STATUS_INTERVAL, patience / 4)
        if self._phase == "running" and self._telling.due(interval):
            packets.append(self._state(Kind.PROGRESS, {}, turn=self.turn))
        return packets

    def close(self) -> None:
        """Release account and journal."""
        self._run_account.release()
        self._journal.close()

    # before the run

    def _accept_run(self) -> str:
        """Return the phase of the run, which is accepted if it is new."""
        local, row = self._local, self._journal.run(self._digest)
        data = self._journal.data_digest(local.content)
        if row is None:
            row = RunRow(self._digest, local.signed.to_json(), local.agent, data,
                         self._run_account.reserve(), "accepted", "")  # fmt: skip
            self._journal.begin(row)
            return "accepted"
        if row.data != data:
            raise InputError(
                "the file of records changed since this run was accepted; put the file back that "
                "was there, or ask for a new proposal"
            )
        self._run_account.resume(row)
        if row.phase == "running":
            try:
                self._open_records()
            except env.UnreadableError as error:  # killed between the mark and the first cell
                self._end("refused", str(error), by_others=False)
                return "refused"
        elif row.phase != "accepted":
            self.outcome = self._earlier_outcome(row)
        return row.phase

    def _earlier_outcome(self, row: RunRow) -> Outcome:
        """Return the outcome of a run that ended in an earlier process."""
        ending: Any = row.phase
        kept = self._journal.said(self._digest, "model")
        if kept is None:
            return Outcome(ending, row.line)
        if ending == "finished":
            self._open_records()
        model = self._layout(ending).unpacked(kept, "the journal", finite=False)
        return interface.outcome_of(ending, row.line, model, self._local.certificate)

    def _start(self, envelope: Envelope) -> list[Packet]:
        """Begin, once all have accepted; the mark in the account comes before the door."""
        if self._phase != "accepted":
            return self.finish() if self._phase == "finished" else []
        self._masking.agree(accepted_by_all(envelope, self._opener))
        self._run_account.open()
        self._journal.set_phase(self._digest, "running")
        self._phase = "running"
        self._open_records()
        self._waiting.reset()
        return [*self._advance(), *self._resume()]

    def _open_records(self) -> None:
        """Read the records for the first time; from here on rounds can be answered."""
        local = self._local
        # kept, so that a later start of this run does not train on what this one holds out
        key = self._journal.say(self._digest, "division", secrets.token_bytes(DRAW_KEY_BYTES))
        read = partial(local.records, Draw(key=key))
        records = told_anew(read, InputError, lambda error: env.UnreadableError(str(error)))
        self.open_rounds(local.answering(records), local.evaluator(records))

    # during the run

    @override
    def _dispatch(self, subject: str, envelope: Envelope) -> list[Packet]:
        kind = envelope.kind
        self._grammar.check(envelope)
        # a finished site sends its messages again: the coordinator may have lost all
        replays = self._phase == "finished" and self._answering is not None and kind not in _ALONE
        if self.outcome is not None and not replays:
            return self._farewell() if envelope.sender == COORDINATOR else []
        if kind == Kind.PROGRESS and envelope.round > self._furthest:
            self._furthest = envelope.round
            self._waiting.reset()
        if kind in _MESSAGES:
            return self._accept_message(envelope)
        if kind == Kind.RESEND_REQUEST:
            return self.resend(subject, envelope)
        if envelope.sender != COORDINATOR:
            return []
        if kind == Kind.PROPOSAL:
            self._waiting.reset()
            return [self._acceptance()]
        steps = {Kind.START: self._start, Kind.HEADS: self._finish, Kind.END: self._abandon}
        return steps[kind](envelope) if kind in steps else []

    def _accept_message(self, envelope: Envelope) -> list[Packet]:
        """Keep a message; send again what answered it before, or go on."""
        receipt = self._inbox.accept(envelope)
        on_star = envelope.sender == COORDINATOR
        if receipt.answered is not None and receipt.answered < self._local.plan.rounds:
            sent = self._journal.sent(self._digest, receipt.answered)
            return self._exchange.packets(sent.round, sent.message) if sent and on_star else []
        # of agents only requests are answered, or they would answer each other
        if receipt.answered is not None or not receipt.new:
            return self.finish() if on_star else []
        before = self.turn
        packets = self._advance()
        if self.turn != before:
            self._waiting.reset()
        return packets

    def _advance(self) -> list[Packet]:
        ready = self._answering is not None and self._phase in _AT_WORK
        return self.advance() if ready else []

    # the end

    def _finish(self, envelope: Envelope) -> list[Packet]:
        """End with the model, if the heads that all sites signed agree with this site's."""
        head = self.head() if self.done else None
        if head is None:
            return []
        check_heads(envelope, self._opener, head)
        self._end("finished", "the run is finished", model=self.released())
        return self._farewell()

    def _abandon(self, envelope: Envelope) -> list[Packet]:
        """End because the coordinator says so."""
        values = envelope.values()
        line = env.one_line(values["line"])
        if not values.get("started", True):  # of an attempt before the one that started
            return self._give_up(line) if self._phase == "accepted" else []
        model = None
        if self.signed.release_abandoned and self._answering is not None:
            model = self._inbox.model_so_far(envelope)
        self._end("abandoned", line or "the coordinator ended the run", model=model)
        return self._farewell()

    def _give_up(self, line: str) -> list[Packet]:
        """End before the start, in no journal: the reservation is returned, nothing is spent."""
        self._run_account.release()
        self.outcome = Outcome("abandoned", line + interface.NOT_STARTED)
        self._report(self.outcome.line)
        return self._farewell()

    def _end(
        self, ending: Any, line: str, *, model: Released | None = None, by_others: bool = True
    ) -> None:
        """Close journal and account: what was answered is charged, or all of it.

        The journal comes first: once it says that the run has ended, no further round is answered,
        so that the rounds in it are all that there will ever be. Where the disk is full, an end
        with a model raises `InputError` and waits for room; any other holds for this process, and
        is charged whole.
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
        self._run_account.close(released=ending == "finished", by_others=early)
        self._masking.forget()
        self._phase = ending
        self.outcome = interface.outcome_of(ending, line, model, self._local.certificate)
        self._report(line)

    def _layout(self, ending: str) -> Layout:
        return self._exchange.released if ending == "finished" else self._exchange.trained

    @override
    def _fail(self, line: str, *, breach: bool) -> list[Packet]:
        return self._refuse(line, line if breach else _LOCAL_FAILURE, by_others=breach)

    def _refuse(
        self, line: str, told: str = _LOCAL_FAILURE, *, by_others: bool = False
    ) -> list[Packet]:
        if self.outcome is not None:
            return []
        self._end("refused", line, by_others=by_others)
        return [self._state(Kind.REFUSAL, {"line": env.one_line(told)})]

    def _farewell(self) -> list[Packet]:
        """Return word that this site is done: whatever the ending, the coordinator may leave."""
        assert self.outcome is not None
        if self.outcome.ending != "refused":
            return [self._state(Kind.DONE, {"ending": self.outcome.ending})]
        line = "this site refused earlier; its owner has the reason"
        return [self._state(Kind.REFUSAL, {"line": line})]

    # requests

    def _acceptance(self) -> Packet:
        body = {"digest": self._digest, "taciturn": self.signed.taciturn, **self._masking.accepted}
        return self._state(Kind.ACCEPTANCE, body)

    def _state(self, kind: Kind, values: Mapping[str, Any], *, turn: int = 0) -> Packet:
        subject = self._exchange.subjects.state(self._local.agent)
        return Packet(subject, self._seal.values(kind, turn, values))

    @override
    def _resume(self) -> list[Packet]:
        """Return requests for all that is missing; where nothing is, for the heads of all.

        Of requests that all receive a few are sent at once: what they bring serves all.
        """
        if self.outcome is not None:
            return self._farewell()
        if self._phase == "accepted":
            return [self._acceptance()]
        exchange, turn = self._exchange, self.turn
        to_all = exchange.subjects.ask(self._local.agent)

        def request(subject: str, **values: int) -> Packet:
            return Packet(subject, self._seal.values(Kind.RESEND_REQUEST, turn, values))

        needs = [need for need in self.missing() if need.sender != self._local.agent]
        if not needs:
            return [*self.finish(), request(to_all, kind=int(Kind.HEADS))]
        asked = [(exchange.request_subject(need), need) for need in needs]
        later = [one for one in asked if one[0] == to_all][interface.MAX_BROADCAST_REQUESTS :]
        return [
            request(one[0], kind=int(one[1].kind), sender=one[1].sender, round=one[1].round)
            for one in asked
            if one not in later
        ]
