"""The coordinator: it invites, starts, watches and ends a run; it sees no record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taciturn.algorithms import METHODS, Method
from taciturn.errors import InputError, PrivacyError, TaciturnError
from taciturn.privacy import Certificate, Ledger
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.conducting import Conducting, conducting_of
from taciturn_federation.envelope import COORDINATOR, BreachError, Envelope, Kind, Seal
from taciturn_federation.exchange import exchange_of
from taciturn_federation.hearing import (
    Column,
    Spacing,
    Waiting,
    accepted_by_all,
    believed,
    check_columns,
    column_of,
)
from taciturn_federation.journal import Journal
from taciturn_federation.last_question import last_question
from taciturn_federation.local import certificate_for, check_runnable
from taciturn_federation.messages import Grammar, one_line
from taciturn_federation.party import (
    NOT_STARTED,
    Ending,
    Outcome,
    Packet,
    Progress,
    Released,
    outcome_of,
)

# seconds in which sites that accepted hear that the run does not start
_NOT_STARTED = 10.0


class Coordinator:
    """The coordinator of a run, as a party (`taciturn_federation.party.Party`).

    Parameters
    ----------
    journal
        Of the coordinator: the bytes of what it published. Lost, a new one will do: the sites say
        again what they said.
    key
        The coordinator's signing key.
    report
        Called with each line that the coordinator should see.
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
        self.signed, self._journal, self._report = signed, journal, report
        self.plan = signed.proposal.plan(methods)
        self._run, self._subjects = signed.digest, signed.subjects
        self._opener, self._seal = signed.opener, Seal(signed.run, COORDINATOR, key)
        self.last = last_question(signed.proposal, self.plan)
        self._grammar = Grammar(self._opener.names, self.plan.rounds)
        exchange = exchange_of(self.plan, self._subjects, COORDINATOR, self.last)
        self._conducting: Conducting = conducting_of(exchange, journal, self._seal, self._opener)
        self._layout = exchange.released
        self._agents = range(len(signed.participants))
        self._acceptances: dict[int, bytes] = {}
        self._heads: dict[int, Envelope] = {}
        self._columns: dict[int, Column] = {}
        self._done: set[int] = set()
        self._waiting, self._leaving = Waiting(), Waiting()
        self._spacing, self._now = Spacing(), 0.0
        self._phase, self._outcome = "inviting", None  # type: str, Outcome | None
        self._verdict: str | None = None
        self._given_up: bytes | None = None
        self.ledger: Ledger | None = None

    # Party

    @property
    def subjects(self) -> tuple[str, ...]:
        """What it listens to: no edge of a network."""
        return self._subjects.coordinator_hears()

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while it goes on."""
        return self._outcome

    @property
    def needed(self) -> bool:
        """Whether a site may not know yet how the run ended; for as long as the patience lasts."""
        if self._outcome is None:
            return True
        if self._started:
            missing, most = set(self._agents) - self._done, self.signed.patience
        else:  # who has not accepted by then waits for a next attempt
            missing, most = set(self._acceptances) - self._done, _NOT_STARTED
        return bool(missing) and self._leaving.seconds < min(most, self.signed.patience)

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run, with what its proposal takes as public."""
        return certificate_for(self.signed.proposal, self.plan, self.last)

    def progress(self) -> Progress:
        """Return where the run stands."""
        names = tuple(self._opener.names[agent] for agent in self._late())
        rounds = self.plan.rounds
        return Progress(self._conducting.turn, rounds, names, self._waiting.seconds)

    def start(self, now: float) -> list[Packet]:
        """Return the invitation, or what a run that was under way goes on with."""
        self._waiting.look(now)
        return self._guarded(self._resumed)

    def tick(self, now: float) -> list[Packet]:
        """Return what is repeated, once a second; a run that nobody goes on with is abandoned."""
        self._waiting.look(now)
        if self._outcome is not None:
            self._leaving.look(now)
        elif self._waiting.seconds > self.signed.patience:
            names = ", ".join(self._opener.names[agent] for agent in self._late())
            what, then = ("accept", "") if not self._started else (
                "answer", "; see to it, then propose again"
            )  # fmt: skip
            line = f"{names} did not {what} for {self.signed.patience:g} s{then}"
            return self._guarded(lambda: self._abandon(line))
        if not self._waiting.again():
            return []
        ending = self._verdict is not None and self._outcome is None
        return self._condemned() if ending else self._guarded(self._again)

    def heard(self, packet: Packet, now: float) -> list[Packet]:
        """Return what is said to a packet."""
        self._waiting.look(now)
        self._now = now
        if self._verdict is not None and self._outcome is None:
            return []  # nothing more is used; `tick` writes the end once there is room
        try:
            envelope = believed(packet, self._opener, self._subjects, self.subjects)
        except InputError as error:
            self._report(str(error))
            return []
        return self._guarded(lambda: self._take(envelope))

    def close(self) -> None:
        """Let go of the journal."""
        self._journal.close()

    # the steps of a run

    def _resumed(self) -> list[Packet]:
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
            self._end("abandoned", one_line(values["line"]))
        return [*self._again(), *packets]

    def _take(self, envelope: Envelope) -> list[Packet]:
        if envelope.sender == COORDINATOR:
            return []
        self._grammar.check(envelope)
        if envelope.kind == Kind.WISH:
            return self._again() if self._spacing.allows(self._now) else []
        if envelope.kind == Kind.REFUSAL and self._is_late(envelope):
            return []
        if envelope.kind in (Kind.DONE, Kind.REFUSAL):
            self._done.add(envelope.sender)
        if self._outcome is not None:
            return []
        steps = {
            Kind.DONE: self._left,
            Kind.ACCEPTANCE: self._accepted,
            Kind.REFUSAL: self._refused,
        }
        return steps.get(envelope.kind, self._rounds)(envelope)

    def _refused(self, envelope: Envelope) -> list[Packet]:
        name = self._opener.names[envelope.sender]
        return self._abandon(f"{name} refused: {one_line(envelope.values()['line'])}")

    def _is_late(self, envelope: Envelope) -> bool:
        """Whether a site refuses to begin what has begun: its journal goes on with the run."""
        return not envelope.values().get("started", True) and self._started

    def _accepted(self, envelope: Envelope) -> list[Packet]:
        if self._phase != "inviting":
            return self._again() if self._spacing.allows(self._now) else []
        if envelope.sender not in self._acceptances:  # who is there already says so every second
            self._waiting.came()
        self._acceptances[envelope.sender] = envelope.sealed
        if len(self._acceptances) < len(self._agents):
            return []
        acceptances = [self._acceptances[agent].hex() for agent in self._agents]
        start = self._seal.values(Kind.START, 0, {"acceptances": acceptances})
        start = self._journal.say(self._run, "start", start)
        self._phase = "running"
        return [self._packet(start), *self._begun()]

    def _begun(self) -> list[Packet]:
        start = self._opener.opened(self._said("start") or b"")
        return self._conducting.begin(accepted_by_all(start, self._opener))

    def _rounds(self, envelope: Envelope) -> list[Packet]:
        """Take what an agent said in a round, or at the end."""
        if self._phase != "running":
            return []
        before = self._conducting.turn, len(self._conducting.lacks()), len(self._heads)
        if envelope.kind == Kind.HEAD:
            self._heads[envelope.sender] = envelope
        elif envelope.kind == Kind.COLUMN:
            name = self._opener.names[envelope.sender]
            column = column_of(envelope.values(), self._questions(), name)
            self._columns[envelope.sender] = column
        packets = self._conducting.take(envelope)
        packets += self._closing()
        after = self._conducting.turn, len(self._conducting.lacks()), len(self._heads)
        if after != before:
            self._waiting.came()
        return packets

    def _closing(self) -> list[Packet]:
        """Release the model, once every site has signed what it heard and sent its column."""
        head, agents = self._conducting.head(), set(self._agents)
        if head is None or set(self._heads) != agents or set(self._columns) != agents:
            return []
        names = self._opener.names
        other = [names[a] for a in self._agents if self._heads[a].heard != head]
        if other:
            raise BreachError(
                f"{', '.join(other)} heard something else than was published, so somebody on the "
                "way told sites different things: no model is released"
            )
        self.ledger = self._observed([self._columns[agent] for agent in self._agents])
        # before the heads are told: a site that has them ends with this model
        self._journal.say(self._run, "model", self._layout.packed(self._conducting.released()))
        heads = {"heads": [self._heads[agent].sealed.hex() for agent in self._agents]}
        sealed = self._journal.say(self._run, "heads", self._seal.values(Kind.HEADS, 0, heads))
        self._end("finished", "the run is finished", model=self._conducting.released())
        return [self._packet(sealed)]

    def _observed(self, columns: list[Column]) -> Ledger:
        """Return the ledger of the training, once it and that of the last question are as planned.

        Raises
        ------
        PrivacyError
            If a site answered otherwise than planned.
        """
        turns, names = self.plan.rounds, [self._opener.names[agent] for agent in self._agents]
        trained = [column[:turns] for column in columns]
        observed = check_columns(self.plan.ledger, trained, names)
        asked = () if self.last is None else self.last.agents
        if self.last is not None:
            scores = [columns[agent][turns:] for agent in asked]
            check_columns(self.last.planned.ledger, scores, [names[agent] for agent in asked])
        for agent, column in enumerate(columns):
            if agent not in asked and any(column[turns:]):
                raise PrivacyError(f"{names[agent]} answered a question of nobody")
        return observed

    def _questions(self) -> list[int]:
        """Return how many questions every round has at most, the last question after them."""
        training = [self.plan.ledger.kind.shape[2]] * self.plan.rounds
        last = [] if self.last is None else [self.last.planned.ledger.kind.shape[2]]
        return training + last

    def _left(self, envelope: Envelope) -> list[Packet]:
        """End, if a site has ended before the run has: it answers nothing more."""
        if envelope.values()["ending"] == "abandoned":
            return self._abandon(f"{self._opener.names[envelope.sender]} gave up waiting")
        return []

    def _abandon(self, line: str) -> list[Packet]:
        values: dict[str, Any] = {"line": one_line(line)}
        if not self._started:  # in no journal: nothing happened that a next attempt must not repeat
            self._given_up = self._seal.values(Kind.END, 0, {**values, "started": False})
            self._end("abandoned", line + NOT_STARTED)
            return [self._packet(self._given_up)]
        so_far = self._conducting.so_far() if self.signed.release_abandoned else None
        if so_far is not None:
            values["public"] = so_far.hex()
        sealed = self._journal.say(self._run, "end", self._seal.values(Kind.END, 0, values))
        self._end("abandoned", line)
        return [self._packet(sealed)]

    @property
    def _started(self) -> bool:
        """Whether the start is in the journal, so that a site may have answered."""
        return self._said("start") is not None

    def _end(self, ending: Ending, line: str, *, model: Released | None = None) -> None:
        if ending == "abandoned" and self.signed.release_abandoned and self._conducting.so_far():
            model = self._conducting.model()
        self._phase = "ended"
        self._outcome = outcome_of(ending, line, model, self.certificate)
        self._report(line)

    # asking again

    def _again(self) -> list[Packet]:
        if self._phase == "inviting":
            sealed = self._seal.sealed(Kind.PROPOSAL, 0, self.signed.to_json().encode())
            return [self._packet(sealed)]
        kept = [self._given_up, *(self._said(what) for what in ("end", "heads"))]
        last = next((sealed for sealed in kept if sealed is not None), None)
        if last is not None and self._outcome is not None:
            return [self._packet(last)]
        start = self._packet(self._said("start") or b"")
        return [start, *self._conducting.again()]

    def _late(self) -> tuple[int, ...]:
        if self._outcome is not None:
            return ()
        if self._phase == "inviting":
            return tuple(a for a in self._agents if a not in self._acceptances)
        if self._conducting.head() is not None:
            return tuple(a for a in self._agents if a not in self._heads or a not in self._columns)
        return self._conducting.lacks()

    def _packet(self, sealed: bytes) -> Packet:
        return Packet(self._subjects.proposal, sealed)

    def _said(self, what: str) -> bytes | None:
        return self._journal.said(self._run, what)

    def _guarded(self, work: Callable[[], list[Packet]]) -> list[Packet]:
        """Return the packets of some work; a breach ends the run, a full disk does not."""
        try:
            return work()
        except InputError as error:
            self._report(str(error))
            return []
        except TaciturnError as error:
            self._verdict = str(error)
        except Exception as error:  # the run ends, and not the process that tells the sites so
            self._verdict = f"an error in taciturn ({type(error).__name__})"
        return self._condemned()

    def _condemned(self) -> list[Packet]:
        """Abandon a run that a breach has ended; on a full disk, nothing yet."""
        if self._verdict is None or self._outcome is not None:
            return []
        try:
            return self._abandon(self._verdict)
        except InputError as error:
            self._report(str(error))
            return []
