"""The coordinator: it invites, starts, monitors and ends a run, and sees no record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from taciturn.algorithms import METHODS, Method
from taciturn.engine.program import server_turns
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door import at
from taciturn.kernel.privacy import Certificate
from taciturn.typing import PyTree
from taciturn_federation import envelope as env
from taciturn_federation import inbox
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import COORDINATOR, NO_DIGEST, BreachError, Envelope, Kind, Packet
from taciturn_federation.exchange import Need, StarExchange, exchange_of
from taciturn_federation.inbox import Ending, Outcome, Progress, RetryTimer
from taciturn_federation.journal import Journal
from taciturn_federation.local import (
    Released,
    Rounds,
    certificate_for,
    check_entries,
    check_runnable,
    entries_from_json,
    evaluation_leg,
)
from taciturn_federation.masks import Participants, open_total

# seconds for which sites that accepted are informed that the run does not start
_NOT_STARTED = 10.0
# after so many lost rounds a site is no member again: each costs the others the patience
_MOST_LOSSES = 3


class Coordinator(inbox.RunParty):
    """The coordinator of a run, as a party (`taciturn_federation.inbox.Party`).

    On a star it publishes a value, waits for every answer, and combines them; without an aggregator
    it monitors the run and receives its result. Every value is written to its journal before it is
    published: recomputed, it might differ in the last place, and no site would answer. A lost
    journal can be replaced by an empty one: the sites repeat their messages.

    The members of a round are in its value. Where the quorum is less than all, a round that misses
    some of them for the patience goes on without them: under `sum` its sum is never opened, and the
    next round asks about the same value; else the value is combined from the answers that arrived.
    A site that sends again is a member from the next round on.
    """

    def __init__(
        self,
        signed: SignedProposal,
        journal: Journal,
        key: Ed25519PrivateKey,
        *,
        methods: Mapping[str, Method] = METHODS,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        signed.check(key.public_key())
        check_runnable(signed.proposal, methods)
        self.plan = plan = signed.proposal.plan(methods)
        self.evaluation = evaluation_leg(signed.proposal, plan)
        exchange = exchange_of(plan, signed.subjects, COORDINATOR, self.evaluation)
        subjects = signed.subjects.of_coordinator[1]
        super().__init__(signed, exchange, subjects, journal, key, report)
        self._star, self._agents = isinstance(exchange, StarExchange), self._opener.agents
        self._turn = 0  # rounds that all agents have finished
        self._progress = dict.fromkeys(self._agents, 0)
        # of a star: value of the round, its envelope, and the transcript digest up to it
        self._public: PyTree = None
        self._due: tuple[Need, ...] = ()  # the answers of the round
        self._published, self._transcript = b"", NO_DIGEST
        self._members: tuple[int, ...] = tuple(self._agents)  # of the round
        self._named = self._members  # the same as its value names them
        self._losses = dict.fromkeys(self._agents, 0)
        self._back: set[int] = set()  # to be members of the next round
        self._acceptances: dict[int, bytes] = {}
        self._heads: dict[int, Envelope] = {}
        self._entries: dict[int, Rounds] = {}
        self._done: set[int] = set()
        self._leaving = RetryTimer()
        self._phase = "inviting"
        self._verdict: str | None = None  # an error for which the end is not yet written
        self._given_up: bytes | None = None

    # the interface of a party

    @property
    @override
    def needed(self) -> bool:
        # whether a site may not yet know the outcome; at most for the patience
        if self.outcome is None:
            return True
        if self._started:
            missing, most = set(self._agents) - self._done, self.signed.patience
        else:  # a site that has not accepted by then waits for another attempt
            missing, most = set(self._acceptances) - self._done, _NOT_STARTED
        return bool(missing) and self._leaving.elapsed < min(most, self.signed.patience)

    @property
    def _patience(self) -> float:
        return self.signed.patience if self._started else self.signed.start_patience

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run, with what its proposal takes as public."""
        signed = self.signed
        return certificate_for(signed.proposal, self.plan, self.evaluation, signed.may_lose)

    @override
    def progress(self) -> Progress:
        names = tuple(self._opener.names[agent] for agent in self._waited_for())
        return Progress(self._turn, self.plan.rounds, names, self._waiting.elapsed)

    def tick(self, now: float) -> list[Packet]:
        """Return repeated messages, once a second; a run without progress is abandoned."""
        self._waiting.tick(now)
        if self.outcome is not None:
            self._leaving.tick(now)
        elif self._waiting.elapsed > self._patience:
            what, then = ("accept", "") if not self._started else (
                "answer", "; find the reason, then propose again"
            )  # fmt: skip
            line = f"did not {what} for {self._patience:g} s{then}"
            return self._guarded(lambda: self._lose(self._waited_for(), line))
        if not self._waiting.due():
            return []
        ending = self._verdict is not None and self.outcome is None
        return self._condemn() if ending else self._guarded(self._repeat)

    @override
    def receive(self, packet: Packet, now: float) -> list[Packet]:
        if self._verdict is not None and self.outcome is None:
            return []  # further messages are ignored; `tick` writes the end once the disk has room
        return super().receive(packet, now)

    @override
    def _dispatch(self, subject: str, envelope: Envelope) -> list[Packet]:
        kind, values = envelope.kind, envelope.values if envelope.kind == Kind.REFUSAL else {}
        if kind in (Kind.MESSAGE, Kind.RESEND_REQUEST) and envelope.sender not in self._members:
            self._readmit(envelope.sender)
        if kind == Kind.RESEND_REQUEST or (kind == Kind.ACCEPTANCE and self._started):
            return self._repeat() if self._may_repeat(Kind.START) else []
        # a restarted site may fail to begin a run that has started: its journal resumes the run
        late = kind == Kind.REFUSAL and self._started and not values.get("started", True)
        if kind in (Kind.DONE, Kind.REFUSAL) and not late:
            self._done.add(envelope.sender)
        if late or self.outcome is not None:
            return []
        if kind == Kind.REFUSAL:
            return self._lose((envelope.sender,), f"refused: {env.one_line(values['line'])}")
        if kind == Kind.DONE:  # before the run has ended: the site answers no more
            gave_up = envelope.values["ending"] == "abandoned"
            return self._lose((envelope.sender,), "gave up waiting") if gave_up else []
        if kind == Kind.ACCEPTANCE:
            return self._accept_site(envelope)
        return self._accept_message(envelope) if self._phase == "running" else []

    # the start

    def _accept_site(self, envelope: Envelope) -> list[Packet]:
        if envelope.sender not in self._acceptances:  # a site repeats its acceptance every second
            self._waiting.reset()
        self._acceptances[envelope.sender] = envelope.payload
        if len(self._acceptances) < len(self._agents):
            return []
        acceptances = [self._acceptances[agent].hex() for agent in self._agents]
        start = self._signer.seal_values(Kind.START, 0, {"acceptances": acceptances})
        start = self._journal.put(self._digest, "start", start)
        return [self._packet(start), *self._begin()]

    @property
    def _started(self) -> bool:
        """Whether the start is in the journal, so that a site may have answered."""
        return self._get("start") is not None

    def _begin(self) -> list[Packet]:
        """Return what starts the rounds, or resumes them where the journal ends."""
        self._phase = "running"
        start = self._opener.open(self._get("start") or b"")
        accepted = inbox.acceptances_of(start, self._opener)
        if not self._star:
            return []
        program = self.plan.program
        if program.summed:
            self._transcript = Participants.of(self._opener, accepted).first_link
        network: Any = program.network
        # on the host: on a device each leaf would be sliced by a separate program
        self._server = jax.tree.map(np.asarray, server_turns(program))
        self._publish(0, network.first_inboxes(program.executed, program.template), self._agents)
        while self._get(f"public.{self._turn + 1}") is not None:
            self._publish(self._turn + 1, None, ())
        return self._public_packets()

    # the rounds

    def _accept_message(self, envelope: Envelope) -> list[Packet]:
        """Take an agent's message of a round, or of the end, and go on."""
        before, name = self._standing(), self._opener.names[envelope.sender]
        packets: list[Packet] = []
        if envelope.kind == Kind.HEAD:
            self._heads[envelope.sender] = envelope
        elif envelope.kind == Kind.LEDGER_ENTRIES:
            plans = [self.plan.ledger] * self.plan.rounds
            plans += [] if self.evaluation is None else [self.evaluation.planned.ledger]
            questions = [ledger.kind.shape[2] for ledger in plans]
            entries = entries_from_json(envelope.values, questions, name)
            self._entries[envelope.sender] = entries
        elif envelope.kind == Kind.PROGRESS and not self._star:
            self._progress[envelope.sender] = max(self._progress[envelope.sender], envelope.round)
            self._turn = max(self._turn, min(self._progress.values()))
        else:
            packets = self._accept_numbers(envelope, name)
        packets += self._finish()
        if self._standing() != before:
            self._waiting.reset()
        return packets

    def _accept_numbers(self, envelope: Envelope, name: str) -> list[Packet]:
        exchange, due = self._exchange, self._due
        need = Need(envelope.kind, envelope.sender, envelope.round)
        if need not in (*due, *exchange.finals, *exchange.scores):
            return []  # of an earlier round: a repetition of what was used
        if need in due and envelope.transcript != self._transcript:
            raise BreachError(
                f"{name} answered round {envelope.round} after receiving other values than were "
                "published; ask its owner by telephone what the site received"
            )
        self._inbox.accept(envelope)
        if not self._inbox.missing(exchange.finals):
            self._turn = self.plan.rounds
        # repetitions count too: the disk may have been full when all had arrived
        return [] if need not in due or self._inbox.missing(due) else self._combine(due)

    def _combine(self, due: tuple[Need, ...]) -> list[Packet]:
        """Publish the value computed from all answers of a round."""
        program, messages = self.plan.program, self._inbox.bodies(due)
        if program.summed:
            total = np.add.reduce([np.asarray(one) for one in messages])
            open_total(total.view(np.uint64), len(messages))
        server = at(self._server, self._turn)
        value = _delivered(program.network, program.executed, self._public, messages, server)
        if not env.is_computable(value):  # the sites would refuse it, and name the coordinator
            loudest = max(due, key=lambda need: env.largest(messages[due.index(need)])).sender
            raise BreachError(
                f"{self._opener.names[loudest]} answered round {self._turn} with numbers too large "
                "to compute with; its owner should check its version of taciturn"
            )
        return self._proceed(value, self._members)

    def _proceed(self, value: PyTree, members: Collection[int]) -> list[Packet]:
        """Go on to the next round with these members and those who are back."""
        self._inbox.discard(self._due)
        # who was lost in this round is no member of the next, so that values tell the attendance
        lost = set(self._named) - set(members)
        members, self._back = sorted({*members, *(self._back - lost)}), self._back & lost
        if tuple(members) != self._members:
            names = ", ".join(self._opener.names[agent] for agent in members)
            self._report(f"from round {self._turn + 1} on: {names}")
        self._publish(self._turn + 1, value, members)
        return self._public_packets()

    def _lose(self, agents: Collection[int], line: str) -> list[Packet]:
        """Go on without some sites, or abandon the run if too few are left."""
        names = ", ".join(self._opener.names[agent] for agent in agents)
        left = [agent for agent in self._members if agent not in agents]
        if not self._started or len(left) < self.signed.quorum:
            return self._abandon(f"{names} {line}")
        if len(left) == len(self._members):  # none of them is asked at present
            return []
        self._report(f"round {self._turn}: {names} {line}")
        for agent in agents:
            self._losses[agent] += 1
        self._waiting.reset()
        if self._turn == self.plan.rounds:
            self._members = tuple(left)
            return self._finish()
        due = tuple(need for need in self._due if need.sender in left)
        if self.plan.program.summed:
            self._journal.put(self._digest, f"given up.{self._turn}", b"")
            return self._proceed(self._public, left)
        self._members, self._due = tuple(left), due
        return [] if self._inbox.missing(due) else self._combine(due)

    def _readmit(self, agent: int) -> None:
        """Ask a lost site again from the next round on, unless it was lost too often."""
        if self._losses[agent] < _MOST_LOSSES:
            self._back.add(agent)

    def _publish(self, turn: int, value: PyTree, members: Collection[int]) -> None:
        """Write a value and proceed to its round; a value that was written before is kept."""
        exchange, payload = self._exchange, self._get(f"public.{turn}")
        assert isinstance(exchange, StarExchange)
        if payload is None:
            body, before = exchange.pack(value, members), self._transcript
            payload = self._signer.seal(Kind.PUBLIC, turn, body, transcript=before)
            payload = self._journal.put(self._digest, f"public.{turn}", payload)
        envelope = self._opener.open(payload)
        body = exchange.final_layout.unpack(envelope.body)
        self._public, self._named = body[1], exchange.members([body])
        self._members = self._named
        self._transcript = env.chain(self._transcript, envelope.digest)
        self._published, self._turn = payload, turn
        needs = exchange.needs(turn) if turn < self.plan.rounds else ()
        self._due = tuple(need for need in needs if need.sender in self._members)

    def _public_packets(self) -> list[Packet]:
        """Return the value of a round on a star; nothing without an aggregator."""
        subject = self._exchange.subjects.public(self._turn)
        return [Packet(subject, self._published)] if self._star else []

    def _standing(self) -> tuple[int, int, int]:
        return self._turn, len(self._waited_for()), len(self._heads)

    def _waited_for(self) -> tuple[int, ...]:
        """Return the agents whose messages are missing."""
        exchange = self._exchange
        if self.outcome is not None:
            return ()
        if self._phase == "inviting":
            return tuple(a for a in self._agents if a not in self._acceptances)
        if self._inbox.missing(exchange.finals):
            last = min(self._progress.values())
            slowest = tuple(agent for agent, turn in self._progress.items() if turn == last)
            missing = self._inbox.missing(self._due)
            return tuple(need.sender for need in missing) if self._star else slowest
        missing = self._inbox.missing(exchange.scores)
        unsigned = (a for a in self._members if a not in self._heads or a not in self._entries)
        return tuple(need.sender for need in missing) if missing else tuple(unsigned)

    # the end

    def _head(self) -> bytes | None:
        """Return the head that every site must sign; None while the run goes on."""
        exchange = self._exchange
        if self._inbox.missing((*exchange.finals, *exchange.scores)):
            return None
        finals = self._inbox.envelopes(exchange.finals)
        # every site compares this chain with its, in the head that it signs
        before = finals[0].transcript if exchange.one_chain else NO_DIGEST
        trained = env.chain(before, env.joint_digest([one.digest for one in finals]))
        return env.head_of(trained, self._inbox.digests(exchange.scores))

    def _finish(self) -> list[Packet]:
        """Release the model, once every site has signed its head and sent its ledger entries."""
        head, names = self._head(), self._opener.names
        if head is None or not set(self._members) <= self._heads.keys() & self._entries.keys():
            return []
        signed = sorted(self._heads)
        other = [names[a] for a in signed if self._heads[a].transcript != head]
        if other:
            raise BreachError(
                f"{', '.join(other)} received other values than were published, so some party "
                "altered values in transit: no model is released"
            )
        self._check_entries([self._entries.get(agent, []) for agent in self._agents])
        exchange, bodies = self._exchange, self._inbox.bodies
        model = exchange.model(bodies(exchange.finals))
        released = exchange.with_scores(model, bodies(exchange.scores))
        # before the heads are sent: a site that has them ends with this model
        self._journal.put(self._digest, "model", exchange.released.pack(released))
        values = {"heads": [self._heads[agent].payload.hex() for agent in signed]}
        heads = self._signer.seal_values(Kind.HEADS, 0, values)
        heads = self._journal.put(self._digest, "heads", heads)
        self._end("finished", self._finished_line(), model=released)
        return [self._packet(heads)]

    def _finished_line(self) -> str:
        turns = range(self.plan.rounds)
        lost = sum(self._get(f"given up.{turn}") is not None for turn in turns)
        gone = f"; {lost} of its {len(turns)} rounds missed a site and made no step" if lost else ""
        return f"the run is finished{gone}"

    def _check_entries(self, entries: list[Rounds]) -> None:
        """Raise `PrivacyError` if the answers of a site deviate from the plan."""
        turns, names = self.plan.rounds, [self._opener.names[agent] for agent in self._agents]
        answered = [one[:turns] for one in entries]
        check_entries(self.plan.ledger, answered, names, may_lose=self.signed.may_lose > 0)
        evaluated = () if self.evaluation is None else self.evaluation.agents
        if self.evaluation is not None:
            scores = [entries[agent][turns:] for agent in evaluated]
            planned = self.evaluation.planned.ledger
            check_entries(planned, scores, [names[agent] for agent in evaluated])
        for agent, one in enumerate(entries):
            if agent not in evaluated and any(one[turns:]):
                raise PrivacyError(f"{names[agent]} answered a question that it was not asked")

    def _abandon(self, line: str) -> list[Packet]:
        values: dict[str, Any] = {"line": env.one_line(line)}
        if not self._started:  # without a journal entry: another attempt may repeat everything
            self._given_up = self._signer.seal_values(Kind.END, 0, {**values, "started": False})
            self._end("abandoned", line + inbox.NOT_STARTED)
            return [self._packet(self._given_up)]
        if self.signed.release_abandoned and self._public is not None:
            values["public"] = self._opener.open(self._published).body.hex()
        end = self._signer.seal_values(Kind.END, 0, values)
        end = self._journal.put(self._digest, "end", end)
        self._end("abandoned", line)
        return [self._packet(end)]

    def _end(self, ending: Ending, line: str, *, model: Released | None = None) -> None:
        released = ending == "abandoned" and self.signed.release_abandoned
        if released and self._public is not None:
            model = self._exchange.model([((), self._public)])
        self._phase = "ended"
        self.outcome = Outcome.of(ending, line, model, self.certificate)
        self._report(line)

    @override
    def _fail(self, line: str, *, breach: bool) -> list[Packet]:
        self._verdict = line
        return self._condemn()

    def _condemn(self) -> list[Packet]:
        """Abandon a run that an error has ended; if the disk is full, later."""
        if self._verdict is None or self.outcome is not None:
            return []
        try:
            return self._abandon(self._verdict)
        except InputError as error:
            self._report(str(error))
            return []

    # repeating and resuming

    def _repeat(self) -> list[Packet]:
        if self._phase == "inviting":
            payload = self._signer.seal(Kind.PROPOSAL, 0, self.signed.to_json().encode())
            return [self._packet(payload)]
        ends = (self._given_up, self._get("end"), self._get("heads"))
        last = next((payload for payload in ends if payload is not None), None)
        if last is not None and self.outcome is not None:
            return [self._packet(last)]
        # on a full disk the first value could not be written
        first = self._begin() if self._star and not self._published else []
        return [self._packet(self._get("start") or b""), *(first or self._public_packets())]

    @override
    def _resume(self) -> list[Packet]:
        if not self._started:
            return self._repeat()
        packets, end = self._begin(), self._get("end")
        if self._get("heads") is not None:
            model = self._exchange.released.unpack(self._get("model") or b"")
            self._end("finished", self._finished_line(), model=model)
        elif end is not None:
            self._end("abandoned", env.one_line(self._opener.open(end).values["line"]))
        return [*self._repeat(), *packets]

    def _packet(self, payload: bytes) -> Packet:
        return Packet(self._exchange.subjects.proposal, payload)

    def _get(self, name: str) -> bytes | None:
        return self._journal.get(self._digest, name)


@jax.jit
def _delivered(
    network: Any, algorithm: Any, public: PyTree, messages: list[PyTree], server: Any
) -> PyTree:
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *messages)
    return network.deliver(algorithm, public, stacked, server)
