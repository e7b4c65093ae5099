"""The coordinator: it invites, starts, watches and ends a run; it sees no record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from taciturn.kernel.privacy import Certificate, Ledger
from taciturn.typing import PyTree
from taciturn_federation import envelope as env
from taciturn_federation import interface
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import COORDINATOR, NOTHING, BreachError, Envelope, Kind
from taciturn_federation.exchange import (
    Exchange,
    Need,
    RunParty,
    StarExchange,
    accepted_by_all,
    exchange_of,
)
from taciturn_federation.interface import Ending, Packet, Progress, Released, RetryTimer
from taciturn_federation.journal import Journal
from taciturn_federation.local import (
    Column,
    certificate_for,
    check_entries,
    check_runnable,
    entries_from_json,
    last_question,
)
from taciturn_federation.masks import check_total, first_link


class Conductor:
    """The coordinator's half of the rounds: without an aggregator it watches, and hears the end.

    `turn`: the number of rounds that all agents have finished.
    """

    def __init__(
        self, exchange: Exchange, journal: Journal, seal: env.Seal, opener: env.Opener
    ) -> None:
        self.exchange, self.plan = exchange, exchange.plan
        self.turn = 0
        self._journal, self._seal, self._opener = journal, seal, opener
        self._run = opener.run.hex()
        self._agents = range(self.plan.program.agents)
        self._rounds = dict.fromkeys(self._agents, 0)
        self._received: dict[Need, tuple[Envelope, PyTree]] = {}

    def begin(self, accepted: Sequence[Envelope]) -> list[Packet]:
        """Return what starts the rounds, or what goes on where the journal ends."""
        del accepted
        return []

    def accept(self, envelope: Envelope) -> list[Packet]:
        """Return what follows from an agent's message."""
        sender, need = envelope.sender, Need(envelope.kind, envelope.sender, envelope.round)
        if envelope.kind == Kind.PROGRESS:
            self._rounds[sender] = max(self._rounds[sender], envelope.round)
            self.turn = min(self._rounds.values())
        if need in (*self.exchange.finals, *self.exchange.scores):
            name, before = self._opener.names[sender], self._received.get(need)
            if before is not None and before[0].digest != envelope.digest:
                raise BreachError(
                    f"{name} told two different ends of the run; no model is accepted"
                )
            body = self.exchange.layout(need).received(envelope.body, name)
            self._received[need] = envelope, body
        return []

    def again(self) -> list[Packet]:
        """Return what is repeated while somebody is waited for."""
        return []

    def missing(self) -> tuple[int, ...]:
        """Return the agents that are waited for."""
        if self.trained() is None:
            return self._waited_for()
        scores = self.exchange.scores
        return tuple(need.sender for need in scores if need not in self._received)

    def _waited_for(self) -> tuple[int, ...]:
        """Return the agents that are waited for in the training."""
        last = min(self._rounds.values())
        return tuple(agent for agent, turn in self._rounds.items() if turn == last)

    def head(self) -> bytes | None:
        """Return the head that every site must have signed; None while the run goes on."""
        trained = self.trained()
        if trained is None or self.missing():
            return None
        return env.with_scores(trained, self._digests(self.exchange.scores))

    def _digests(self, needs: Sequence[Need]) -> list[bytes]:
        return [self._received[need][0].digest for need in needs]

    def _bodies(self, needs: Sequence[Need]) -> list[PyTree]:
        return [self._received[need][1] for need in needs]

    def trained(self) -> bytes | None:
        """Return the head of the training; None while it goes on."""
        finals = self.exchange.finals
        if not all(need in self._received for need in finals):
            return None
        self.turn = self.plan.rounds
        # every site compares this chain with its own, in the head that it signs
        first = self._received[finals[0]][0].transcript_digest
        before = first if self.exchange.one_chain else NOTHING
        return env.chained(before, env.joint(self._digests(finals)))

    def released(self) -> Released:
        """Return what the run releases, once there is a head."""
        return self.exchange.scored(self.model(), self._bodies(self.exchange.scores))

    def model(self) -> Released:
        """Return the model, once the training is over."""
        return self.exchange.model(self._bodies(self.exchange.finals))

    def so_far(self) -> bytes | None:
        """Return the last public value of a star, for a run that is abandoned; None for none."""
        return None


class StarConductor(Conductor):
    """It publishes a value, waits for every answer, and combines them.

    The bytes of every value are in the journal before they are published: computed again they might
    differ in the last place, and no site would answer.
    """

    def __init__(
        self, exchange: Exchange, journal: Journal, seal: env.Seal, opener: env.Opener
    ) -> None:
        super().__init__(exchange, journal, seal, opener)
        program = self.plan.program
        self._algorithm, self._network = program.executed, program.network
        # on the host: on a device each leaf would be cut out by a program of its own
        self._server = jax.tree.map(np.asarray, server_turns(program))
        self._layouts = exchange.layouts
        self._public: PyTree = None
        self._sealed, self._chain = b"", NOTHING
        self._answers: dict[int, tuple[bytes, PyTree]] = {}

    @override
    def begin(self, accepted: Sequence[Envelope]) -> list[Packet]:
        self._chain = first_link(self.plan, self._opener, accepted)
        first = self._network.first_inboxes(self._algorithm, self.plan.program.template)
        self._publish(0, first)
        while self._journal.said(self._run, f"public.{self.turn + 1}") is not None:
            self._publish(self.turn + 1, None)
        return self.again()

    def _publish(self, turn: int, value: PyTree) -> None:
        """Write a value and go on to its round; a value that was written stands."""
        sealed = self._journal.said(self._run, f"public.{turn}")
        if sealed is None:
            body = self._layouts.inbox.packed(value)
            sealed = self._seal.sealed(Kind.PUBLIC, turn, body, transcript=self._chain)
            sealed = self._journal.say(self._run, f"public.{turn}", sealed)
        envelope = self._opener.opened(sealed)
        self._public = self._layouts.inbox.unpacked(envelope.body, "the coordinator's journal")
        self._chain = env.chained(self._chain, envelope.digest)
        self._sealed, self.turn, self._answers = sealed, turn, {}

    @override
    def accept(self, envelope: Envelope) -> list[Packet]:
        name = self._opener.names[envelope.sender]
        if envelope.kind == Kind.SCORE:
            return super().accept(envelope)
        # of an earlier round it is a repetition of what was used
        due = envelope.round == self.turn < self.plan.rounds
        if envelope.kind != Kind.MESSAGE or not due:
            return []
        if envelope.transcript_digest != self._chain:
            raise BreachError(
                f"{name} answered round {envelope.round} having heard something else than was "
                "published; ask its owner, and compare notes by telephone"
            )
        before = self._answers.get(envelope.sender)
        if before is not None:
            if before[0] != envelope.digest:
                raise BreachError(
                    f"{name} answered round {envelope.round} twice with different content; its "
                    "owner should look for a second process or a restored journal"
                )
        else:
            message = self._layouts.message.received(envelope.body, name)
            self._answers[envelope.sender] = envelope.digest, message
        # repetitions count: when all had come the disk may have been full
        return self._combined() if len(self._answers) == len(self._agents) else []

    def _combined(self) -> list[Packet]:
        messages = [self._answers[agent][1] for agent in self._agents]
        if self.plan.program.summed:
            check_total(np.add.reduce([np.asarray(one) for one in messages]), len(messages))
        value = _delivered(
            self._network, self._algorithm, self._public, messages, at(self._server, self.turn)
        )
        if not env.is_computable(value):  # the sites would refuse it, and name the coordinator
            loudest = max(range(len(messages)), key=lambda agent: env.largest(messages[agent]))
            raise BreachError(
                f"{self._opener.names[loudest]} answered round {self.turn} with numbers so large "
                "that nothing can be computed from them; its owner should look at its version of "
                "taciturn"
            )
        self._publish(self.turn + 1, value)
        return self.again()

    @override
    def again(self) -> list[Packet]:
        return [Packet(self.exchange.subjects.public(self.turn), self._sealed)]

    @override
    def _waited_for(self) -> tuple[int, ...]:
        return tuple(agent for agent in self._agents if agent not in self._answers)

    @override
    def trained(self) -> bytes | None:
        return self._chain if self.turn == self.plan.rounds else None

    @override
    def model(self) -> Released:
        return self.exchange.model([self._public])

    @override
    def so_far(self) -> bytes | None:
        return None if self._public is None else self._layouts.inbox.packed(self._public)


@jax.jit
def _delivered(
    network: Any, algorithm: Any, public: PyTree, messages: list[PyTree], server: Any
) -> PyTree:
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *messages)
    return network.deliver(algorithm, public, stacked, server)


# seconds in which sites that accepted hear that the run does not start
_NOT_STARTED = 10.0


class Coordinator(RunParty):
    """The coordinator of a run, as a party (`taciturn_federation.interface.Party`).

    Its journal has the bytes of what it published. Lost, a new one will do: the sites say again
    what they said.
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
        self.last = last_question(signed.proposal, plan)
        self._subjects = signed.subjects
        exchange = exchange_of(plan, self._subjects, COORDINATOR, self.last)
        _, hears = self._subjects.of_coordinator
        super().__init__(signed, exchange, hears, journal, key, report)
        conducting = StarConductor if isinstance(exchange, StarExchange) else Conductor
        self._conductor = conducting(exchange, journal, self._seal, self._opener)
        self._layout = exchange.released
        self._agents = range(len(signed.participants))
        self._acceptances: dict[int, bytes] = {}
        self._heads: dict[int, Envelope] = {}
        self._columns: dict[int, Column] = {}
        self._done: set[int] = set()
        self._leaving, self._spacing = RetryTimer(), interface.BroadcastLimiter()
        self._phase = "inviting"
        self._verdict: str | None = None
        self._given_up: bytes | None = None
        self.ledger: Ledger | None = None

    # Party

    @property
    @override
    def needed(self) -> bool:
        # whether a site may not know yet how the run ended; for as long as the patience lasts
        if self.outcome is None:
            return True
        if self._started:
            missing, most = set(self._agents) - self._done, self.signed.patience
        else:  # who has not accepted by then waits for a next attempt
            missing, most = set(self._acceptances) - self._done, _NOT_STARTED
        return bool(missing) and self._leaving.elapsed < min(most, self.signed.patience)

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run, with what its proposal takes as public."""
        return certificate_for(self.signed.proposal, self.plan, self.last)

    @override
    def progress(self) -> Progress:
        names = tuple(self._opener.names[agent] for agent in self._waited_for())
        rounds = self.plan.rounds
        return Progress(self._conductor.turn, rounds, names, self._waiting.elapsed)

    def tick(self, now: float) -> list[Packet]:
        """Return what is repeated, once a second; a run that nobody goes on with is abandoned."""
        self._waiting.tick(now)
        if self.outcome is not None:
            self._leaving.tick(now)
        elif self._waiting.elapsed > self.signed.patience:
            names = ", ".join(self._opener.names[agent] for agent in self._waited_for())
            what, then = ("accept", "") if not self._started else (
                "answer", "; see to it, then propose again"
            )  # fmt: skip
            line = f"{names} did not {what} for {self.signed.patience:g} s{then}"
            return self._guarded(lambda: self._abandon(line))
        if not self._waiting.due():
            return []
        ending = self._verdict is not None and self.outcome is None
        return self._condemned() if ending else self._guarded(self._again)

    @override
    def receive(self, packet: Packet, now: float) -> list[Packet]:
        if self._verdict is not None and self.outcome is None:
            return []  # nothing more is used; `tick` writes the end once there is room
        return super().receive(packet, now)

    # the steps of a run

    @override
    def _resume(self) -> list[Packet]:
        if self._said("start") is None:
            return self._again()
        self._phase = "running"
        packets = self._begun()
        if self._said("heads") is not None:
            model = self._said("model") or b""
            released = self._layout.unpacked(model, "the coordinator's journal", finite=False)
            self._end("finished", "the run is finished", model=released)
        elif self._said("end") is not None:
            values = self._opener.opened(self._said("end") or b"").values()
            self._end("abandoned", env.one_line(values["line"]))
        return [*self._again(), *packets]

    @override
    def _dispatch(self, subject: str, envelope: Envelope) -> list[Packet]:
        self._grammar.check(envelope)
        if envelope.kind == Kind.RESEND_REQUEST:
            return self._again() if self._spacing.allows(self._now) else []
        # a site may refuse to begin what has begun: its journal goes on with the run
        refused = envelope.kind == Kind.REFUSAL
        if refused and self._started and not envelope.values().get("started", True):
            return []
        if envelope.kind in (Kind.DONE, Kind.REFUSAL):
            self._done.add(envelope.sender)
        return [] if self.outcome is not None else self._step(envelope)

    def _step(self, envelope: Envelope) -> list[Packet]:
        """Return what follows from a message while the run goes on."""
        name = self._opener.names[envelope.sender]
        if envelope.kind == Kind.REFUSAL:
            return self._abandon(f"{name} refused: {env.one_line(envelope.values()['line'])}")
        if envelope.kind == Kind.DONE:  # before the run has ended, it answers nothing more
            gave_up = envelope.values()["ending"] == "abandoned"
            return self._abandon(f"{name} gave up waiting") if gave_up else []
        if envelope.kind == Kind.ACCEPTANCE:
            return self._accepted(envelope)
        return self._accept_round(envelope) if self._phase == "running" else []

    def _accepted(self, envelope: Envelope) -> list[Packet]:
        if self._phase != "inviting":
            return self._again() if self._spacing.allows(self._now) else []
        if envelope.sender not in self._acceptances:  # who is there already says so every second
            self._waiting.reset()
        self._acceptances[envelope.sender] = envelope.sealed
        if len(self._acceptances) < len(self._agents):
            return []
        acceptances = [self._acceptances[agent].hex() for agent in self._agents]
        start = self._seal.values(Kind.START, 0, {"acceptances": acceptances})
        start = self._journal.say(self._digest, "start", start)
        self._phase = "running"
        return [self._packet(start), *self._begun()]

    def _begun(self) -> list[Packet]:
        start = self._opener.opened(self._said("start") or b"")
        return self._conductor.begin(accepted_by_all(start, self._opener))

    def _accept_round(self, envelope: Envelope) -> list[Packet]:
        """Take what an agent said in a round, or at the end."""
        before = self._stands()
        if envelope.kind == Kind.HEAD:
            self._heads[envelope.sender] = envelope
        elif envelope.kind == Kind.LEDGER_ENTRIES:
            plans = [self.plan.ledger] * self.plan.rounds
            plans += [] if self.last is None else [self.last.planned.ledger]
            questions = [ledger.kind.shape[2] for ledger in plans]
            name = self._opener.names[envelope.sender]
            self._columns[envelope.sender] = entries_from_json(envelope.values(), questions, name)
        packets = [*self._conductor.accept(envelope), *self._closing()]
        if self._stands() != before:
            self._waiting.reset()
        return packets

    def _stands(self) -> tuple[int, int, int]:
        return self._conductor.turn, len(self._conductor.missing()), len(self._heads)

    def _closing(self) -> list[Packet]:
        """Release the model, once every site has signed its head and sent its ledger entries."""
        head, agents = self._conductor.head(), set(self._agents)
        if head is None or set(self._heads) != agents or set(self._columns) != agents:
            return []
        names = self._opener.names
        other = [names[a] for a in self._agents if self._heads[a].transcript_digest != head]
        if other:
            raise BreachError(
                f"{', '.join(other)} heard something else than was published, so somebody on the "
                "way told sites different things: no model is released"
            )
        self.ledger = self._observed([self._columns[agent] for agent in self._agents])
        # before the heads are told: a site that has them ends with this model
        self._journal.say(self._digest, "model", self._layout.packed(self._conductor.released()))
        heads = {"heads": [self._heads[agent].sealed.hex() for agent in self._agents]}
        sealed = self._journal.say(self._digest, "heads", self._seal.values(Kind.HEADS, 0, heads))
        self._end("finished", "the run is finished", model=self._conductor.released())
        return [self._packet(sealed)]

    def _observed(self, columns: list[Column]) -> Ledger:
        """Return the ledger of the training, once it and that of the last question are as planned.

        Raises `PrivacyError` if a site answered otherwise than planned.
        """
        turns, names = self.plan.rounds, [self._opener.names[agent] for agent in self._agents]
        trained = [column[:turns] for column in columns]
        observed = check_entries(self.plan.ledger, trained, names)
        asked = () if self.last is None else self.last.agents
        if self.last is not None:
            scores = [columns[agent][turns:] for agent in asked]
            check_entries(self.last.planned.ledger, scores, [names[agent] for agent in asked])
        for agent, column in enumerate(columns):
            if agent not in asked and any(column[turns:]):
                raise PrivacyError(f"{names[agent]} answered a question of nobody")
        return observed

    def _abandon(self, line: str) -> list[Packet]:
        values: dict[str, Any] = {"line": env.one_line(line)}
        if not self._started:  # in no journal: nothing happened that a next attempt must not repeat
            self._given_up = self._seal.values(Kind.END, 0, {**values, "started": False})
            self._end("abandoned", line + interface.NOT_STARTED)
            return [self._packet(self._given_up)]
        so_far = self._conductor.so_far() if self.signed.release_abandoned else None
        if so_far is not None:
            values["public"] = so_far.hex()
        sealed = self._journal.say(self._digest, "end", self._seal.values(Kind.END, 0, values))
        self._end("abandoned", line)
        return [self._packet(sealed)]

    @property
    def _started(self) -> bool:
        """Whether the start is in the journal, so that a site may have answered."""
        return self._said("start") is not None

    def _end(self, ending: Ending, line: str, *, model: Released | None = None) -> None:
        if ending == "abandoned" and self.signed.release_abandoned and self._conductor.so_far():
            model = self._conductor.model()
        self._phase = "ended"
        self.outcome = interface.outcome_of(ending, line, model, self.certificate)
        self._report(line)

    # asking again

    def _again(self) -> list[Packet]:
        if self._phase == "inviting":
            sealed = self._seal.sealed(Kind.PROPOSAL, 0, self.signed.to_json().encode())
            return [self._packet(sealed)]
        kept = [self._given_up, *(self._said(what) for what in ("end", "heads"))]
        last = next((sealed for sealed in kept if sealed is not None), None)
        if last is not None and self.outcome is not None:
            return [self._packet(last)]
        start = self._packet(self._said("start") or b"")
        return [start, *self._conductor.again()]

    def _waited_for(self) -> tuple[int, ...]:
        if self.outcome is not None:
            return ()
        if self._phase == "inviting":
            return tuple(a for a in self._agents if a not in self._acceptances)
        if self._conductor.head() is not None:
            return tuple(a for a in self._agents if a not in self._heads or a not in self._columns)
        return self._conductor.missing()

    def _packet(self, sealed: bytes) -> Packet:
        return Packet(self._subjects.proposal, sealed)

    def _said(self, what: str) -> bytes | None:
        return self._journal.said(self._digest, what)

    @override
    def _fail(self, line: str, *, breach: bool) -> list[Packet]:
        self._verdict = line
        return self._condemned()

    def _condemned(self) -> list[Packet]:
        """Abandon a run that a breach has ended; on a full disk, nothing yet."""
        if self._verdict is None or self.outcome is not None:
            return []
        try:
            return self._abandon(self._verdict)
        except InputError as error:
            self._report(str(error))
            return []
