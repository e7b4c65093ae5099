"""A site: holds the records of one agent, and answers the questions of a proposal."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from taciturn.algorithms import Turn
from taciturn.budget import Account, Reservation, salted
from taciturn.engine import Plan, check_chargeable
from taciturn.engine.charging import purpose_of
from taciturn.engine.protocol import agent_round
from taciturn.errors import InputError, PrivacyError, SolverError, TaciturnError, reraise_clean
from taciturn.kernel.door import Live, Private, Record, Supply, at
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import LEAST_NUMBERS, Drawn, Ledger, noise_statistic, noise_test
from taciturn.kernel.records import DRAW_KEY_BYTES, Draw
from taciturn.training import DividedData
from taciturn.typing import Array, HostArray, PyTree
from taciturn_federation import envelope as env
from taciturn_federation import inbox
from taciturn_federation.attendance import note_members
from taciturn_federation.envelope import COORDINATOR, NO_DIGEST, BreachError, Envelope, Kind, Packet
from taciturn_federation.exchange import Need, Past, exchange_of
from taciturn_federation.inbox import Ending, Outcome, Progress, RetryTimer
from taciturn_federation.journal import Entry, Journal, RoundRow, RunRow
from taciturn_federation.local import Local, Released, entries_to_json
from taciturn_federation.masks import Masking

# most numbers drawn in one block; later rounds draw further blocks
_BLOCK = 2**18
# the same on a relay, where most of a block belongs to hops of others and is never used
_BLOCK_OF_TOKEN = 2**14


class Answer(NamedTuple):
    """State and message after a round, and the ledger entries of its answers."""

    state: PyTree
    message: PyTree
    entries: tuple[Entry, ...]


class AgentRounds:
    """The rounds of one agent in one leg, with the agent's records in the format of the door.

    **Guarantee.** An answer is that of `Live` to the algorithm's question, with the noise scale of
    the plan; its record is compared with the plan before anything is returned. Without a seed,
    noise and batches come from a fresh key of the operating system, which is stored nowhere: a new
    object draws independently of every earlier one. Every round is answered once. The noise is
    tested (`taciturn.kernel.privacy.drawn`) whenever its amount has doubled since the last test,
    and in the last round, before its message is returned; a restart begins a new count.
    """

    def __init__(self, plan: Plan, agent: int, private: Private, seed: int | None) -> None:
        program = plan.program
        self.plan, self.agent = plan, agent
        slot = 0 if program.scales.shape[-1] == 1 else agent
        stream = Stream.fresh() if seed is None else Stream.seeded(seed)
        self._supply = Supply(program.agenda, stream, private.rows, slot=slot)
        self._turns: Turn = jax.tree.map(lambda leaf: leaf[..., 0], self._supply.agenda.turns)
        self._holder = np.asarray(self._turns.agent[:, 0])
        # the rounds in which the agent answers: all, or on a relay those of its token
        self.turns: tuple[int, ...] = tuple(np.flatnonzero(self._holder == agent).tolist())
        self._block: tuple[int, int, Any] = (0, 0, None)
        self._door = Live(program.oracles, program.mechanism, private)
        self._planned = _planned(self._turns, plan.ledger, agent)
        certificate = plan.certificate
        self._test = noise_test(plan.ledger, epsilon=certificate.epsilon, delta=certificate.delta)
        self._drawn, self._tested = Drawn(), 0
        self._next = 0
        self._last: Answer | None = None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError(
            "the rounds of an agent are neither pickled nor copied: a copy would answer rounds "
            "again, with the noise of this object's block"
        )

    def first_state(self) -> PyTree:
        """Return the agent's first state."""
        program = self.plan.program
        return at(program.network.first_states(program.executed, program.template), self.agent)

    def first_inbox(self) -> PyTree:
        """Return what the agent receives before the first round."""
        program = self.plan.program
        network: Any = program.network
        first = network.first_inboxes(program.executed, program.template)
        return network.inbox(first, self.agent)

    def answer(self, turn: int, state: PyTree, inbox: PyTree) -> Answer:
        """Return the agent's answer in a round; a repeated call for the last one returns the same.

        A site repeats the call if it could not write the answer, as on a full disk.

        Raises `PrivacyError` if the door's record deviates from the plan, the noise fails its test,
        the agent does not answer in that round, or it answered a later one.
        """
        if self._holder[turn] != self.agent:
            raise PrivacyError(f"agent {self.agent} does not answer in round {turn} of the plan")
        if turn == self._next - 1 and self._last is not None:
            return self._last
        if turn < self._next:
            raise PrivacyError(f"round {turn} was answered before; every round is answered once")
        self._next, self._last = turn + 1, None
        program = self.plan.program
        new, message, records = _step(
            program.executed, self._door, state, inbox, self._turns, turn, self.draw(turn)
        )
        new, message = program.network.where_awake(turn, (new, message), (state, inbox))
        records = jax.device_get(records._replace(answer=None))
        entries = self._entries(turn, records)
        sizes = np.asarray(records.drawn)
        self._supply.check_used(sizes[None, :, None], first=turn)
        self._test_noise(turn, sizes)
        self._last = Answer(new, message, entries)
        return self._last

    def draw(self, turn: int) -> Any:
        """Return the random numbers of a round, which are drawn in blocks of rounds."""
        first, last, _ = self._block
        if not first <= turn < last:
            most = _BLOCK if len(self.turns) == self.plan.rounds else _BLOCK_OF_TOKEN
            leaves = jax.tree.leaves(self._supply.shapes(1))
            size = sum(int(np.prod(leaf.shape)) for leaf in leaves)
            length = max(1, min(self._supply.length(), most // max(size, 1)))
            first, last = turn, min(turn + length, self.plan.rounds)
            self._block = first, last, self._supply.block(first, last)
        return at(at(self._block[2], turn - first), 0)

    def _test_noise(self, turn: int, sizes: HostArray) -> None:
        """Count the noise of a round, and test all of it if a test is due."""
        if self._test is None:
            return
        ledger, cell = self.plan.ledger, (slice(self.agent, self.agent + 1), slice(turn, turn + 1))
        drawn = Ledger(
            ledger.kind[cell], ledger.sensitivity[cell], ledger.scale[cell], ledger.mechanism,
            inside=ledger.inside, values=ledger.values,
        )  # fmt: skip
        self._drawn += noise_statistic(drawn, sizes[None, None])
        new = self._drawn.count - self._tested
        if new and (
            turn == self.turns[-1] or self._drawn.count >= max(LEAST_NUMBERS, 2 * self._tested)
        ):
            self._tested = self._drawn.count
            self._test.check(self._drawn, new=new)

    def _entries(self, turn: int, records: Record) -> tuple[Entry, ...]:
        """Return the entries of a round, equal to the planned ones."""
        rate = np.ones(records.kind.shape) if records.rate is None else records.rate
        batch = np.zeros(records.kind.shape) if records.batch is None else records.batch
        columns = zip(
            records.kind.tolist(), np.asarray(records.scale, np.float64).tolist(),
            records.exponent.tolist(), np.asarray(rate, np.float64).tolist(), batch.tolist(),
            strict=True,
        )  # fmt: skip
        found = tuple(
            Entry(local, kind, scale, exponent, share, int(size))
            for local, (kind, scale, exponent, share, size) in enumerate(columns)
            if kind >= 0
        )
        if found != self._planned[turn]:
            raise PrivacyError(
                f"round {turn}: the door's answer deviates from the plan; nothing is sent"
            )
        return found


@jax.jit
def _step(  # noqa: PLR0913, PLR0917 - a round's parts beside the program's
    algorithm: Any,
    door: Live,
    state: PyTree,
    inbox: PyTree,
    turns: Turn,
    turn: int | Array,
    raw: Any,
) -> tuple[PyTree, PyTree, Any]:
    """Return `agent_round` in one round, with its random numbers."""
    return agent_round(algorithm, door, state, inbox, at(turns, turn), raw)


def _planned(turns: Turn, ledger: Ledger, agent: int) -> tuple[tuple[Entry, ...], ...]:
    """Return the entries that the door must leave in each round, compared with the ledger."""
    kind, scale = np.asarray(turns.question), np.asarray(turns.scale, np.float64)
    dtype = np.asarray(turns.scale).dtype
    rates = ledger.rate[agent].astype(dtype).astype(np.float64)
    sizes, exponent = ledger.batch[agent], np.asarray(turns.exponent)
    mine = np.asarray(turns.agent) == agent
    questions, enough = np.where(mine, kind, -1), ledger.scale[agent] * (1 - 1e-12)
    large = bool(np.all((scale >= enough)[questions >= 0]))
    if not (large and np.array_equal(questions, ledger.kind[agent])):
        raise PrivacyError("the program's questions or scales are not those of its ledger")
    return tuple(
        tuple(
            Entry(
                e, int(kind[t, e]), float(scale[t, e]), int(exponent[t, e]), float(rates[t, e]),
                int(sizes[t, e]),
            )
            for e in range(kind.shape[1])
            if questions[t, e] >= 0
        )
        for t in range(kind.shape[0])
    )  # fmt: skip


class UnreadableError(TaciturnError):
    """A cell of a site's file is not as declared; only its owner learns which."""


_LOCAL_FAILURE = "a local error of this site; details are in its log"
_MESSAGES = (Kind.PUBLIC, Kind.MESSAGE, Kind.TOTAL, Kind.FINAL, Kind.SCORE)
# what a finished site does not respond to
_OVER = (Kind.MESSAGE, Kind.TOTAL, Kind.HEADS, Kind.END)


class Site(inbox.RunParty):
    """One agent of a run, as a party (`taciturn_federation.inbox.Party`).

    **Guarantee.** The only packets that depend on records are answers of `AgentRounds`, and what
    follows from them. Message, state and ledger entries of a round are in the journal, in one
    transaction, before the message is returned here. If that fails nothing is returned and
    the round counts as not answered: the same answer, which no party saw, serves for the next
    attempt. A round is answered once: later requests get the bytes in the journal. The answer in
    the evaluation is written likewise, with the model that it is about, which follows from
    what the site received. Under masks no answer is written in plain, nor the state that holds one.

    **Guarantee.** The charge of the whole run is on the account's disk before the records are
    opened, whatever becomes of this process. It is replaced by that of the rounds in the journal
    only where others ended the run: an answer is in the journal before it is sent, so none is left
    out.

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
            raise InputError("the signing key is another site's; use the one of the request")
        exchange = exchange_of(local.plan, signed.subjects, local.agent, local.evaluation)
        super().__init__(signed, exchange, exchange.subscribed, journal, key, report)
        self._local, self._account, self._end_turn = local, account, local.plan.rounds
        self._reservation: Reservation | None = None
        self.charged_as = ""  # the run in the account; empty without an account
        summed = local.plan.program.summed
        self._masking = Masking(local.agent, journal, self._opener) if summed else None
        self._status, self._furthest = RetryTimer(), 0
        self._rounds: AgentRounds | None = None  # until the records are open
        self._phase = self._accept_run()

    # the interface of a party

    @override
    def progress(self) -> Progress:
        senders = [need.sender for need in self.missing()] or [COORDINATOR]
        names = () if self.outcome else tuple(self._opener.names[one] for one in senders)
        return Progress(self.turn, self._end_turn, names, self._waiting.elapsed)

    def tick(self, now: float) -> list[Packet]:
        """Return requests for missing messages, once a second, and from time to time a status."""
        self._waiting.tick(now)
        patience, unstarted = self.signed.patience, self._phase == "accepted"
        limit = 2 * (self.signed.start_patience if unstarted else patience)
        if self.outcome is None and self._waiting.elapsed > limit:
            if unstarted:
                name = self._opener.names[COORDINATOR]
                return self._give_up(f"no message of {name} arrived for {limit:g} s")
            self._end("abandoned", "no message arrived for twice the patience of the study")
            return self._farewell()
        self._status.tick(now)

        def again() -> list[Packet]:
            return [*([] if self.outcome else self._advance()), *self._resume()]

        packets = self._guarded(again) if self._waiting.due() else []
        interval = min(inbox.STATUS_INTERVAL, patience / 4)
        if self._phase == "running" and self._status.due(interval):
            packets.append(self._state_packet(Kind.PROGRESS, {}, turn=self.turn))
        return packets

    def close(self) -> None:
        """Release account and journal."""
        self._release()
        super().close()

    # before the run: reserve, then accept

    def _accept_run(self) -> str:
        """Return the phase of the run, which is accepted if it is new."""
        local, row = self._local, self._journal.run(self._digest)
        data = self._journal.data_digest(local.content)
        if row is None:
            self._reserve()
            row = RunRow(self._digest, local.signed.to_json(), local.agent, data, self.charged_as,
                         "accepted", "")  # fmt: skip
            self._journal.begin(row)
            return "accepted"
        if row.data != data:
            raise InputError(
                "the file of records changed since this run was accepted; restore the earlier "
                "file, or request a new proposal"
            )
        self._find_reservation(row)
        if row.phase == "running":
            try:
                self._open_records()
            except UnreadableError as error:  # killed between the mark and the first cell
                self._end("refused", str(error), by_others=False)
                return "refused"
        elif row.phase != "accepted":
            self.outcome = self._earlier_outcome(row)
        return row.phase

    def _reserve(self) -> None:
        """Reserve the whole run, evaluation included, in the account if there is one."""
        if self._account is not None:
            local, proposal = self._local, self.signed.proposal
            check_chargeable(seed=local.seed, conditional=local.certificate.conditional)
            what = f"{proposal.method.name} in study {self.signed.study}"
            purpose = purpose_of(local.plan, what, proposal.digest)
            account = local.checked_account(self._account)
            self._reservation = account.reserve(local.charge, purpose)
            self.charged_as = self._reservation.run

    def _find_reservation(self, row: RunRow) -> None:
        """Find the reservation of a run that an earlier process accepted, if there is one."""
        if bool(row.reserved) != (self._account is not None):
            with_or_without = "with" if row.reserved else "without"
            raise InputError(
                f"this run was accepted {with_or_without} an account; resume it as it was accepted"
            )
        self.charged_as = row.reserved
        if self._account is None or row.phase not in ("accepted", "running"):
            return
        runs = {run.run: run for run in self._account.state().runs}
        found = runs.get(row.reserved)
        status = "returned" if found is None else found.status
        if status == "opened":
            self._reservation = self._account.reopened(row.reserved)
        elif row.phase == "accepted":  # the account returns the reservation of an ended process
            self._reserve()
            self._journal.set_phase(self._digest, "accepted", reserved=self.charged_as)
        elif status not in ("released", "failed"):
            raise InputError(
                "the account does not hold this run, which is under way (a restored backup, or "
                "another account); name the account with which it was accepted"
            )

    def _release(self) -> None:
        """Return a reservation that was never used; a run under way stays charged."""
        if self._reservation is not None and not self._reservation.begun:
            # on a full disk it stays, and the next reservation of the account returns it
            with suppress(InputError):
                self._reservation.give_back()

    def _earlier_outcome(self, row: RunRow) -> Outcome:
        """Return the outcome of a run that ended in an earlier process."""
        ending: Any = row.phase
        content = self._journal.get(self._digest, "model")
        if content is None:
            return Outcome(ending, row.line)
        if ending == "finished":
            self._open_records()
        model = self._exchange.layout_of(ending).unpack(content)
        return Outcome.of(ending, row.line, model, self._local.certificate)

    # the start: mark, then open the records

    def _start(self, envelope: Envelope) -> list[Packet]:
        """Begin once all have accepted; mark the account before opening the records."""
        if self._phase != "accepted":
            return self._broadcast_end() if self._phase == "finished" else []
        accepted = inbox.acceptances_of(envelope, self._opener)
        if self._masking is not None:
            self._masking.agree(accepted)
        if self._reservation is not None and not self._reservation.ready:
            self._reservation.begin()
            salt = self._reservation.state.salt
            self._reservation.note_files([salted(salt, self._local.content)])
        self._journal.set_phase(self._digest, "running")
        self._phase = "running"
        self._open_records()
        self._waiting.reset()
        return [*self._advance(), *self._resume()]

    def _open_records(self) -> None:
        """Read the records, and continue where the journal ends."""
        local, journal = self._local, self._journal
        # stored, so that a restart does not train on the held-out records
        key = journal.put(self._digest, "division", secrets.token_bytes(DRAW_KEY_BYTES))
        read = partial(local.records, Draw(key=key))
        records = reraise_clean(read, InputError, lambda error: UnreadableError(str(error)))
        self._held_out: DividedData | None = None if local.evaluation is None else records
        rounds = AgentRounds(*local.training_leg(records))
        self._state, self._past, self._next = rounds.first_state(), Past(), 0
        masking = self._masking
        self._transcript = NO_DIGEST if masking is None else masking.participants.first_link
        self._forwarded: Need | None = None
        # the answer in the evaluation that is not written yet
        self._pending: RoundRow | None = None
        self._trained = journal.round(self._digest, self._end_turn)
        self._head = journal.get(self._digest, "head")
        latest = journal.last_round(self._digest)
        if latest is not None and latest.round == self._end_turn:
            self._transcript, self._next = latest.transcript, len(rounds.turns)
        elif latest is not None:
            self._resume_after(latest)
            self._next = rounds.turns.index(latest.round) + 1
        self._rounds = rounds

    def _resume_after(self, row: RoundRow) -> None:
        """Restore state, inbox and transcript from the last round in the journal.

        Under masks no state is stored; questions and messages do not depend on it.
        """
        stored = self._exchange.stored
        size = len(row.state) - stored.size
        if self._masking is None:
            self._state = self._exchange.layouts.state.unpack(row.state[:size])
        self._past = Past(row.message, stored.unpack(row.state[size:]))
        self._transcript = row.transcript

    # messages

    @override
    def _dispatch(self, subject: str, envelope: Envelope) -> list[Packet]:
        kind = envelope.kind
        # a finished site sends its messages again: the coordinator may have lost all
        replays = self._phase == "finished" and self._rounds is not None and kind not in _OVER
        if self.outcome is not None and not replays:
            return self._farewell() if envelope.sender == COORDINATOR else []
        if kind == Kind.PROGRESS and envelope.round > self._furthest:
            self._furthest = envelope.round
            self._waiting.reset()
        if kind in _MESSAGES:
            return self._accept_message(envelope)
        if kind == Kind.RESEND_REQUEST:
            return self._resend(subject, envelope)
        if envelope.sender != COORDINATOR:
            return []
        if kind == Kind.PROPOSAL:
            self._waiting.reset()
            return [self._acceptance()]
        steps = {Kind.START: self._start, Kind.HEADS: self._conclude, Kind.END: self._abandon}
        return steps[kind](envelope) if kind in steps else []

    def _accept_message(self, envelope: Envelope) -> list[Packet]:
        """Accept a message; repeat the earlier response to it, or continue."""
        on_star = envelope.sender == COORDINATOR
        if self.signed.may_lose and envelope.kind == Kind.PUBLIC and not self._keep_up(envelope):
            return []
        answered, new = self._inbox.accept(envelope)
        if answered is not None and answered < self._end_turn:
            row = self._journal.round(self._digest, answered)
            return self._exchange.packets(row.round, row.message) if row and on_star else []
        # of other agents only requests are answered, or two would answer each other for ever
        if answered is not None or not new:
            return self._broadcast_end() if on_star else []
        before = self.turn
        packets = self._advance()
        if self.turn != before:
            self._waiting.reset()
        return packets

    def _keep_up(self, envelope: Envelope) -> bool:
        """Go to a later round, which began without this site; whether the message is of use."""
        if self._rounds is None:
            return True
        if envelope.round > self.turn:
            self._next, self._transcript = envelope.round, envelope.transcript
        return envelope.round >= self.turn or bool(
            self._journal.round(self._digest, envelope.round)
        )

    @override
    def _resume(self) -> list[Packet]:
        """Return requests for all missing messages; if none is missing, for the heads of all."""
        if self.outcome is not None:
            return self._farewell()
        if self._phase == "accepted":
            return [self._acceptance()]
        missing = self.missing()
        if missing:
            return self._inbox.requests(missing, self._signer, self.turn)
        values = {"kind": int(Kind.HEADS)}
        payload = self._signer.seal_values(Kind.RESEND_REQUEST, self.turn, values)
        to_all = self._exchange.subjects.ask(self._local.agent)
        return [*self._broadcast_end(), Packet(to_all, payload)]

    def _resend(self, subject: str, envelope: Envelope) -> list[Packet]:
        """Return the stored bytes of what another site requests."""
        if self._rounds is None:
            return []
        values, exchange, agent = envelope.values, self._exchange, self._local.agent
        subjects, sender, kind = exchange.subjects, envelope.sender, values["kind"]
        if kind in (Kind.FINAL, Kind.SCORE) and values["sender"] == agent and self._done:
            score = b"" if self._trained is None else self._trained.message
            payload = self._final() if kind == Kind.FINAL else score
            allowed = bool(payload) and self._may_repeat(kind)
            return [Packet(subjects.state(agent), payload or b"")] if allowed else []
        if kind not in (Kind.MESSAGE, Kind.TOTAL) or subject != subjects.edge(sender, agent):
            return []
        turn, back = values["round"], subjects.edge(agent, sender)
        if turn >= self._end_turn:
            return []
        row, forwarded = self._journal.round(self._digest, turn), None
        packets = [] if row is None else exchange.packets(turn, row.message)
        if exchange.to_forward(turn + 1) is not None:
            forwarded = self._journal.get(self._digest, f"forwarded.{turn}")
        packets += [] if forwarded is None else exchange.forward(forwarded)
        return [packet for packet in packets if packet.subject == back]

    # the rounds: answer, write, then send

    @property
    def _done(self) -> bool:
        """Whether every round is answered."""
        return self._rounds is not None and self._next == len(self._rounds.turns)

    @property
    def turn(self) -> int:
        """The next round to be answered; T at the end."""
        if self._rounds is None:
            return 0
        return self._end_turn if self._done else self._rounds.turns[self._next]

    def missing(self) -> tuple[Need, ...]:
        """Return what is needed next and has not arrived: for a round, the model or the head."""
        if self._rounds is None or (self._done and self._head is not None):
            return ()
        exchange = self._exchange
        if not self._done:
            return self._inbox.missing(exchange.needs(self.turn))
        return self._inbox.missing(exchange.finals if self._trained is None else exchange.scores)

    def _advance(self) -> list[Packet]:
        """Return the messages of all rounds whose inputs have arrived, and those of the end."""
        if self._rounds is None or self._phase not in ("running", "finished"):
            return []
        packets = self._forward()
        while not self._done and not self.missing():
            turn = self.turn
            if self._local.agent not in self._members(turn):
                self._pass(turn)
                continue
            # it may be written already, though the head of the journal could not be
            row = self._journal.round(self._digest, turn)
            if row is None:
                row = self._answer(turn, self._rounds)
                self._journal.add(self._digest, row)
            self._resume_after(row)
            self._next += 1
            self._inbox.discard(self._exchange.needs(turn))
            packets += [*self._exchange.packets(turn, row.message), *self._forward()]
        return [*packets, *self._broadcast_end()]

    def _members(self, turn: int) -> tuple[int, ...]:
        """Return the agents that are asked in a round; `BreachError` if they are too few."""
        bodies = self._inbox.bodies(self._exchange.inputs_of(turn))
        members = self.signed.enough(self._exchange.members(bodies), turn)
        return note_members(self._journal, self.signed, turn, members)

    def _pass(self, turn: int) -> None:
        """Go on without an answer: others are asked in this round."""
        needs = self._exchange.needs(turn)
        common = env.joint_digest(self._inbox.digests(needs))
        self._transcript, self._next = env.chain(self._transcript, common), self._next + 1
        self._inbox.discard(needs)

    def _forward(self) -> list[Packet]:
        """Return what others need before this site can answer, written before it is sent."""
        need = None if self._done else self._exchange.to_forward(self.turn)
        envelope = None if need is None else self._inbox.find(need)
        if need is None or envelope is None or need == self._forwarded:
            return []
        payload = self._journal.put(self._digest, f"forwarded.{need.round}", envelope.payload)
        self._forwarded = need
        return self._exchange.forward(payload)

    def _answer(self, turn: int, rounds: AgentRounds) -> RoundRow:
        """Return the answer in a round, not yet written."""
        exchange, layouts = self._exchange, self._exchange.layouts
        needs = exchange.needs(turn)
        bodies = self._inbox.bodies(needs)
        received = exchange.inbox(turn, bodies, self._past)
        common = env.joint_digest(self._inbox.digests(exchange.common(turn)))
        transcript = env.chain(self._transcript, common)
        answer = rounds.answer(turn, self._state, received)
        message, state = layouts.message.pack(answer.message), b""
        if self._masking is None:
            state = layouts.state.pack(answer.state)
        else:  # the state holds the unmasked answer: it is not written
            message = self._masking.mask(turn, transcript, message, self._members(turn))
        body = exchange.outgoing(message, bodies)
        self._check_computable(layouts.message.unpack(body))
        payload = self._signer.seal(exchange.message_kind, turn, body, transcript=transcript)
        stored = exchange.stored
        state += stored.pack(received if stored.leaves else ())
        digests = b"".join(self._inbox.digests(needs))
        return RoundRow(turn, digests, payload, state, transcript, answer.entries)

    def _check_computable(self, message: PyTree) -> None:
        """Raise `BreachError` if inputs of others make a message one that would be refused."""
        if env.is_computable(message):
            return
        sender = self._inbox.loudest()
        if sender is None:
            raise SolverError("an answer of this site is not finite; nothing is sent")
        raise BreachError(
            f"{sender} sent numbers so large that nothing can be computed from them; its owner "
            "should look at its version of taciturn"
        )

    # the end of the rounds: last message, evaluation, head

    def _broadcast_end(self) -> list[Packet]:
        """Return what all receive at the end, as far as it is known; nothing before the end."""
        if not self._done:
            return []
        payloads = [self._final()]
        if self._trained is None and not self.missing():
            self._trained = self._end_training()
        payloads.append(None if self._trained is None else self._trained.message)
        head = self._sign_head()
        if head is not None:
            rounds = self._end_turn + bool(self._exchange.scores)
            entries = entries_to_json(self._journal.entries(self._digest), rounds)
            payloads += [
                self._signer.seal_values(Kind.LEDGER_ENTRIES, self._end_turn, entries),
                self._signer.seal(Kind.HEAD, self._end_turn, b"", transcript=head),
            ]
        subject = self._exchange.subjects.state(self._local.agent)
        return [Packet(subject, payload) for payload in payloads if payload]

    def _final(self) -> bytes | None:
        """Return what all receive after the last round, as first sent; None if there is nothing."""
        stored = self._journal.get(self._digest, "final")
        if stored is not None:
            return stored
        body = self._exchange.final(self._state, self._past)
        if body is None:
            return None
        self._check_computable(self._exchange.final_layout.unpack(body))
        payload = self._signer.seal(Kind.FINAL, self._end_turn, body, transcript=self._transcript)
        return self._journal.put(self._digest, "final", payload)

    def _end_training(self) -> RoundRow:
        """Write the model and the answer in the evaluation, and return them."""
        # it may be written already, though the head of the journal could not be
        row = self._journal.round(self._digest, self._end_turn)
        if row is not None:
            return row
        # kept until it is written: under masks no other answer may be sent
        self._pending = self._pending or self._evaluate()
        self._journal.add(self._digest, self._pending)
        return self._pending

    def _evaluate(self) -> RoundRow:
        """Return the model with this site's answer in the evaluation, if it has one."""
        exchange, local, leg = self._exchange, self._local, self._local.evaluation
        digests = self._inbox.digests(exchange.finals)
        trained = exchange.model(self._inbox.bodies(exchange.finals))
        self._members(self._end_turn)
        before = self._transcript if exchange.one_chain else NO_DIGEST
        transcript = env.chain(before, env.joint_digest(digests))
        payload: bytes = b""
        entries: tuple[Entry, ...] = ()
        if leg is not None and self._held_out is not None and local.agent in leg.agents:
            rounds = AgentRounds(*leg.leg(local.agent, self._held_out, trained, local.seed))
            answer = rounds.answer(0, rounds.first_state(), rounds.first_inbox())
            body, entries = leg.layout.pack(answer.message), answer.entries
            if leg.summed:
                assert self._masking is not None  # the observer is that of the training
                body = self._masking.mask_evaluation(leg.agents, transcript, body)
            payload = self._signer.seal(Kind.SCORE, self._end_turn, body, transcript=transcript)
        state = exchange.trained.pack(trained)
        return RoundRow(self._end_turn, b"".join(digests), payload, state, transcript, entries)

    def _sign_head(self) -> bytes | None:
        """Return the digest that this site signs at the end; None while something is missing.

        On star and tree it chains everything that was received, on other networks the end alone,
        since every site receives something else before it.
        """
        if self._head is None and self._trained is not None and not self.missing():
            exchange = self._exchange
            head = env.head_of(self._trained.transcript, self._inbox.digests(exchange.scores))
            trained = exchange.trained.unpack(self._trained.state)
            released = exchange.with_scores(trained, self._inbox.bodies(exchange.scores))
            # with the model: when it is needed again, others may have left
            content = head + exchange.released.pack(released)
            self._head = self._journal.put(self._digest, "head", content)
        return None if self._head is None else self._head[: len(NO_DIGEST)]

    # the end of the run

    def _conclude(self, envelope: Envelope) -> list[Packet]:
        """End with the model, if all sites signed the same head as this one."""
        head = self._sign_head() if self._done else None
        if head is None or self._head is None:
            return []
        inbox.check_heads(envelope, self._opener, head, self.signed.quorum)
        model = self._exchange.released.unpack(self._head[len(head) :])
        self._end("finished", "the run is finished", model=model)
        return self._farewell()

    def _abandon(self, envelope: Envelope) -> list[Packet]:
        """End because the coordinator ends the run."""
        values = envelope.values
        line, so_far, model = env.one_line(values["line"]), values.get("public"), None
        if not values.get("started", True):  # of an attempt before the one that started
            return self._give_up(line) if self._phase == "accepted" else []
        if self.signed.release_abandoned and self._rounds is not None and so_far is not None:
            layout, name = self._exchange.final_layout, self._opener.names[COORDINATOR]
            model = self._exchange.model([layout.unpack_from(name, bytes.fromhex(so_far))])
        self._end("abandoned", line or "the coordinator ended the run", model=model)
        return self._farewell()

    def _give_up(self, line: str) -> list[Packet]:
        """End before the start, without a journal entry: the reservation is returned."""
        self._release()
        self.outcome = Outcome("abandoned", line + inbox.NOT_STARTED)
        self._report(self.outcome.line)
        return self._farewell()

    def _end(
        self, ending: Ending, line: str, *, model: Released | None = None, by_others: bool = True
    ) -> None:
        """Close journal and account: either the answered rounds are charged, or the whole run.

        The journal comes first: once it states that the run has ended, no further round is
        answered, so the rounds in it are complete. Where the disk is full, an end with a model
        raises `InputError` and waits for room; any other holds for this process, and is charged
        whole.
        """
        early = by_others and ending != "finished"
        try:
            if model is not None:
                content = self._exchange.layout_of(ending).pack(model)
                self._journal.put(self._digest, "model", content)
            self._journal.set_phase(self._digest, ending, line=line)
        except InputError as error:
            if model is not None:
                raise
            self._report(str(error))
            early = False
        if self._reservation is not None and self._reservation.begun:
            rounds = sorted(self._journal.entries(self._digest))
            answered = self._local.charge_for(rounds) if early else None
            self._reservation.close(released=ending == "finished", answered=answered)
        self._release()
        if self._masking is not None:
            self._masking.forget()
        self._phase = ending
        self.outcome = Outcome.of(ending, line, model, self._local.certificate)
        self._report(line)

    @override
    def _fail(self, line: str, *, breach: bool) -> list[Packet]:
        """Refuse; others learn the reason of a breach, but of a local error only its occurrence."""
        if self.outcome is not None:
            return []
        self._end("refused", line, by_others=breach)
        public = env.one_line(line) if breach else _LOCAL_FAILURE
        return [self._state_packet(Kind.REFUSAL, {"line": public})]

    def _farewell(self) -> list[Packet]:
        """Return the message that this site is done, so that the coordinator may leave."""
        assert self.outcome is not None
        if self.outcome.ending != "refused":
            return [self._state_packet(Kind.DONE, {"ending": self.outcome.ending})]
        line = "this site refused earlier; its owner has the reason"
        return [self._state_packet(Kind.REFUSAL, {"line": line})]

    def _acceptance(self) -> Packet:
        body = {"digest": self._digest, "taciturn": self.signed.taciturn}
        mask = {} if self._masking is None else {"mask": self._masking.public.hex()}
        return self._state_packet(Kind.ACCEPTANCE, body | mask)

    def _state_packet(self, kind: Kind, values: Mapping[str, Any], *, turn: int = 0) -> Packet:
        subject = self._exchange.subjects.state(self._local.agent)
        return Packet(subject, self._signer.seal_values(kind, turn, values))
