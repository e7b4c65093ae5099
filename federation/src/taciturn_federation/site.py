"""A site: the owner of one agent's records, who answers what follows from the proposal."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taciturn.budget import Account, Purpose, Reservation, salted
from taciturn.engine import check_chargeable
from taciturn.engine.charging import purpose_of
from taciturn.errors import InputError, TaciturnError, told_anew
from taciturn.problems import (
    DRAW_KEY_BYTES,
    Draw,
)
from taciturn_federation.envelope import (
    COORDINATOR,
    BreachError,
    Envelope,
    Grammar,
    Kind,
    Layout,
    Seal,
    UnreadableError,
    one_line,
)
from taciturn_federation.exchange import Need, exchange_of
from taciturn_federation.inbox import Inbox, accepted_by_all, check_heads, verify_packet
from taciturn_federation.interface import (
    MAX_BROADCAST_REQUESTS,
    NOT_STARTED,
    STATUS_INTERVAL,
    Outcome,
    Packet,
    Progress,
    Released,
    RetryTimer,
    outcome_of,
)
from taciturn_federation.journal import Journal, RunRow
from taciturn_federation.local import Local
from taciturn_federation.masking import masking_of
from taciturn_federation.rounds import Rounds

_LOCAL_FAILURE = "something about this site's own records or machine; its owner has the reason"


class RunAccount:
    """Charges one run of one site to the owner's account, or nowhere if there is none.

    **Guarantee.** The charge of the whole run is on the disk before the door opens, whatever
    becomes of this process. It is replaced by that of the rounds in the journal only where others
    ended the run: an answer is in the journal before it is sent, so none is left out.

    `run`: what the account calls the run; empty without an account.
    """

    def __init__(self, local: Local, journal: Journal, account: Account | None) -> None:
        self._local, self._journal, self._account = local, journal, account
        self._digest = local.signed.digest
        self._reservation: Reservation | None = None
        self.run = ""

    def reserve(self) -> str:
        """Reserve the run, before anything is accepted, and return what the account calls it.

        One reservation pays for training and last question (`Local.charge_for`).
        """
        if self._account is None:
            return ""
        local = self._local
        check_chargeable(seed=local.seed, conditional=local.certificate.conditional)
        account = charged_account(self._account, local)
        self._reservation = account.reserve(local.charge, self._purpose())
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
        found = [run for run in self._account.state().runs if run.run == row.reserved]
        status = found[0].status if found else "returned"
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
            answered = self._local.charge_for(self._journal.rounds(self._digest))
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

    def _purpose(self) -> Purpose:
        proposal = self._local.signed.proposal
        what = f"{proposal.method.name} in study {self._local.signed.study}"
        return purpose_of(self._local.plan, what, proposal.digest)


def charged_account(account: Account, local: Local) -> Account:
    """Return the account for runs on a site's table, once nothing speaks against it.

    Raises
    ------
    AccountError
        If it was charged for a table with other columns, or another account for this file
        (`taciturn.budget.state`).
    """
    bound = account.for_table(local.files.columns)
    bound.check_table()
    bound.check_files([local.content])
    return bound


class Site:
    """One agent of a run, as a party (`taciturn_federation.interface.Party`).

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
        self._opener, self._digest = signed.opener, signed.digest
        self._exchange = exchange_of(local.plan, signed.subjects, local.agent, local.last)
        self._grammar = Grammar(self._opener.names, local.plan.rounds)
        self._inbox = Inbox(self._exchange, self._opener, journal, self._digest)
        self._run_account = RunAccount(local, journal, account)
        self._masking = masking_of(local, journal, self._opener)
        self._rounds: Rounds | None = None
        self._waiting, self._telling, self._furthest = RetryTimer(), RetryTimer(), 0
        self._now = 0.0
        self._outcome: Outcome | None = None
        self._phase = self._accept_run()

    # the interface of a party

    @property
    def subjects(self) -> tuple[str, ...]:
        """What it listens to."""
        return self._exchange.listens

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
        return self._run_account.run

    def progress(self) -> Progress:
        """Return where the run stands."""
        turn = 0 if self._rounds is None else self._rounds.turn
        names = self._opener.names
        missing = tuple(names[need.sender] for need in self._missing()) or (names[COORDINATOR],)
        waiting_for = () if self._outcome is not None else missing
        return Progress(turn, self._local.plan.rounds, waiting_for, self._waiting.elapsed)

    def start(self, now: float) -> list[Packet]:
        """Return the acceptance, or requests for what a run that was under way needs."""
        self._waiting.tick(now)
        return self._guarded(self._requests)

    def tick(self, now: float) -> list[Packet]:
        """Return requests for what is missing, once a second, and from time to time a status."""
        self._waiting.tick(now)
        patience = self._local.signed.patience
        if self._outcome is None and self._waiting.elapsed > 2 * patience:
            return self._time_out()
        self._telling.tick(now)
        packets = self._guarded(self._retry) if self._waiting.due() else []
        if self._phase == "running" and self._telling.due(min(STATUS_INTERVAL, patience / 4)):
            packets.append(self._state(Kind.PROGRESS, {}, turn=self.progress().round))
        return packets

    def _time_out(self) -> list[Packet]:
        line = "nobody was heard for twice the patience of the study"
        if self._phase == "accepted":
            return self._give_up(line)
        self._end("abandoned", line)
        return self._farewell()

    def receive(self, packet: Packet, now: float) -> list[Packet]:
        """Return what answers a packet."""
        self._waiting.tick(now)
        self._now = now
        try:
            envelope = verify_packet(
                packet, self._opener, self._exchange.subjects, self._exchange.listens
            )
        except InputError as error:
            self._report(str(error))
            return []
        if envelope.sender == self._local.agent:  # a hub may send a site its own messages
            return []
        return self._guarded(lambda: self._dispatch(packet.subject, envelope))

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
            reserved = self._run_account.reserve()
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
        self._run_account.resume(row)
        if row.phase == "running":
            try:
                self._open_records()
            except UnreadableError as error:  # killed between the mark and the first cell
                self._end("refused", str(error), by_others=False)
                return "refused"
        elif row.phase != "accepted":
            self._outcome = self._earlier_outcome(row)
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
        return outcome_of(ending, row.line, model, self._local.certificate)

    def _start(self, envelope: Envelope) -> list[Packet]:
        """Begin, once all have accepted; the mark in the account comes before the door."""
        if self._phase != "accepted":
            return self._finish_rounds() if self._phase == "finished" else []
        self._masking.agree(accepted_by_all(envelope, self._opener))
        self._run_account.open()
        self._journal.set_phase(self._digest, "running")
        self._phase = "running"
        self._open_records()
        self._waiting.reset()
        return [*self._advance(), *self._requests()]

    def _open_records(self) -> None:
        """Read the records for the first time; from here on rounds can be answered."""
        local = self._local
        # kept, so that a later start of this run does not train on what this one holds out
        key = self._journal.say(self._digest, "division", secrets.token_bytes(DRAW_KEY_BYTES))
        read = partial(local.records, Draw(key=key))
        records = told_anew(read, InputError, lambda error: UnreadableError(str(error)))
        self._rounds = Rounds(
            local.answering(records), self._inbox, self._journal, self._seal, self._masking,
            local.evaluator(records),
        )  # fmt: skip

    # during the run

    def _dispatch(self, subject: str, envelope: Envelope) -> list[Packet]:
        kind = envelope.kind
        self._grammar.check(envelope)
        if self._outcome is not None and not self._replays(kind):
            return self._farewell() if envelope.sender == COORDINATOR else []
        if kind == Kind.PROGRESS and envelope.round > self._furthest:
            self._furthest = envelope.round
            self._waiting.reset()
        if kind in (Kind.PUBLIC, Kind.MESSAGE, Kind.TOTAL, Kind.FINAL, Kind.SCORE):
            return self._accept_message(envelope)
        if kind == Kind.RESEND_REQUEST:
            rounds = self._rounds
            return [] if rounds is None else rounds.resend(subject, envelope, self._now)
        if envelope.sender != COORDINATOR:
            return []
        if kind == Kind.PROPOSAL:
            self._waiting.reset()
            return [self._acceptance()]
        steps = {Kind.START: self._start, Kind.HEADS: self._finish, Kind.END: self._abandon}
        return steps[kind](envelope) if kind in steps else []

    def _replays(self, kind: Kind) -> bool:
        """Whether a finished site sends its messages again: the coordinator may have lost all."""
        finished = self._phase == "finished" and self._rounds is not None
        alone = (Kind.MESSAGE, Kind.TOTAL, Kind.HEADS, Kind.END)
        return finished and kind not in alone

    def _accept_message(self, envelope: Envelope) -> list[Packet]:
        """Keep a message; send again what answered it before, or go on."""
        receipt = self._inbox.accept(envelope)
        on_star = envelope.sender == COORDINATOR
        if receipt.answered is not None and receipt.answered < self._local.plan.rounds:
            sent = self._journal.sent(self._digest, receipt.answered)
            return self._exchange.packets(sent.round, sent.message) if sent and on_star else []
        # of agents only requests are answered, or they would answer each other
        if receipt.answered is not None or not receipt.new:
            return self._finish_rounds() if on_star else []
        before = self.progress().round
        packets = self._advance()
        if self.progress().round != before:
            self._waiting.reset()
        return packets

    def _advance(self) -> list[Packet]:
        if self._rounds is None or self._phase not in ("running", "finished"):
            return []
        return self._rounds.advance()

    def _finish_rounds(self) -> list[Packet]:
        return [] if self._rounds is None else self._rounds.finish()

    # the end

    def _finish(self, envelope: Envelope) -> list[Packet]:
        """End with the model, if the heads that all sites signed agree with this site's."""
        head = None if self._rounds is None else self._rounds.head()
        if self._rounds is None or not self._rounds.done or head is None:
            return []
        check_heads(envelope, self._opener, head)
        self._end("finished", "the run is finished", model=self._rounds.released())
        return self._farewell()

    def _abandon(self, envelope: Envelope) -> list[Packet]:
        """End because the coordinator says so."""
        values = envelope.values()
        line = one_line(values["line"])
        if not values.get("started", True):  # of an attempt before the one that started
            return self._give_up(line) if self._phase == "accepted" else []
        model = None
        if self._local.signed.release_abandoned and self._rounds is not None:
            model = self._inbox.model_so_far(envelope)
        self._end("abandoned", line or "the coordinator ended the run", model=model)
        return self._farewell()

    def _give_up(self, line: str) -> list[Packet]:
        """End before the start, in no journal: the reservation is returned, nothing is spent."""
        self._run_account.release()
        self._outcome = Outcome("abandoned", line + NOT_STARTED)
        self._report(self._outcome.line)
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
        self._outcome = outcome_of(ending, line, model, self._local.certificate)
        self._report(line)

    def _layout(self, ending: str) -> Layout:
        return self._exchange.released if ending == "finished" else self._exchange.trained

    def _guarded(self, work: Callable[[], list[Packet]]) -> list[Packet]:
        """Return the packets of some work, or the refusal that its error amounts to."""
        try:
            return work()
        except BreachError as error:
            return self._refuse(str(error), str(error), by_others=True)
        except InputError as error:  # the disk is full, say: nothing was sent, and it may go on
            self._report(str(error))
            return []
        except TaciturnError as error:
            return self._refuse(str(error))
        except Exception as error:  # whatever it is, nothing more is answered
            return self._refuse(f"an error in taciturn ({type(error).__name__})")

    def _refuse(
        self, line: str, told: str = _LOCAL_FAILURE, *, by_others: bool = False
    ) -> list[Packet]:
        if self._outcome is not None:
            return []
        self._end("refused", line, by_others=by_others)
        return [self._state(Kind.REFUSAL, {"line": one_line(told)})]

    def _farewell(self) -> list[Packet]:
        """Return word that this site is done: whatever the ending, the coordinator may leave."""
        assert self._outcome is not None
        ending = self._outcome.ending
        if ending != "refused":
            return [self._state(Kind.DONE, {"ending": ending})]
        line = "this site refused earlier; its owner has the reason"
        return [self._state(Kind.REFUSAL, {"line": line})]

    # requests

    def _retry(self) -> list[Packet]:
        return [*([] if self._outcome else self._advance()), *self._requests()]

    def _acceptance(self) -> Packet:
        version = self._local.signed.taciturn
        body = {"digest": self._digest, "taciturn": version, **self._masking.accepted}
        return self._state(Kind.ACCEPTANCE, body)

    def _state(self, kind: Kind, values: Mapping[str, Any], *, turn: int = 0) -> Packet:
        subject = self._exchange.subjects.state(self._local.agent)
        return Packet(subject, self._seal.values(kind, turn, values))

    def _requests(self) -> list[Packet]:
        """Return requests for all that is missing; where nothing is, for the heads of all.

        Of requests that all receive a few are sent at once: what they bring serves all.
        """
        if self._outcome is not None:
            return self._farewell()
        if self._phase == "accepted":
            return [self._acceptance()]
        exchange, turn = self._exchange, self.progress().round
        needs = [need for need in self._missing() if need.sender != self._local.agent]
        to_all = exchange.subjects.ask(self._local.agent)
        requests: list[tuple[str, dict[str, int]]] = [
            (
                exchange.request_subject(need),
                {"kind": int(need.kind), "sender": need.sender, "round": need.round},
            )
            for need in needs
        ]
        later = [one for one in requests if one[0] == to_all][MAX_BROADCAST_REQUESTS:]
        requests = [one for one in requests if one not in later]
        packets = []
        if not needs:
            packets = self._finish_rounds()
            requests = [(to_all, {"kind": int(Kind.HEADS)})]
        sealed = [
            Packet(subject, self._seal.values(Kind.RESEND_REQUEST, turn, values))
            for subject, values in requests
        ]
        return [*packets, *sealed]

    def _missing(self) -> tuple[Need, ...]:
        return () if self._rounds is None else self._rounds.missing()
