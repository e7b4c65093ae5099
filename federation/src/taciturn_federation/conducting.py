"""What a coordinator does while a run goes on: it combines on a star, and else it watches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from taciturn.engine.program import server_turns
from taciturn.engine.protocol import at
from taciturn.errors import InputError
from taciturn.typing import PyTree
from taciturn_federation.closing import with_scores
from taciturn_federation.envelope import (
    NOTHING,
    BreachError,
    Envelope,
    Kind,
    Opener,
    Seal,
    chained,
    is_computable,
    largest,
)
from taciturn_federation.exchange import Exchange, Need, StarExchange
from taciturn_federation.journal import Journal
from taciturn_federation.masking import check_total, first_link
from taciturn_federation.party import Packet, Released
from taciturn_federation.rounds import joint


class Conducting(ABC):
    """The coordinator's half of the rounds.

    Attributes
    ----------
    turn
        How many rounds are behind all.
    """

    def __init__(self, exchange: Exchange, journal: Journal, seal: Seal, opener: Opener) -> None:
        self.exchange, self.plan = exchange, exchange.plan
        self.turn = 0
        self._journal, self._seal, self._opener = journal, seal, opener
        self._run = seal.run.hex()
        self._scores = Collected(exchange.scores, exchange, opener)

    @abstractmethod
    def begin(self, accepted: Sequence[Envelope]) -> list[Packet]:
        """Return what starts the rounds, or what goes on where the journal ends.

        Parameters
        ----------
        accepted
            The acceptances of all agents, in their order.
        """

    def take(self, envelope: Envelope) -> list[Packet]:
        """Return what follows from what an agent said."""
        if envelope.kind == Kind.SCORE:
            self._scores.take(envelope)
            return []
        return self._take(envelope)

    @abstractmethod
    def _take(self, envelope: Envelope) -> list[Packet]:
        """Return what follows from what an agent said in the training."""

    @abstractmethod
    def again(self) -> list[Packet]:
        """Return what is repeated while somebody is waited for."""

    def lacks(self) -> tuple[int, ...]:
        """Return the agents that are waited for."""
        return self._late() if self._trained() is None else self._scores.lacks()

    @abstractmethod
    def _late(self) -> tuple[int, ...]:
        """Return the agents that are waited for in the training."""

    def head(self) -> bytes | None:
        """Return the head that every site must have signed; None while the run goes on."""
        trained = self._trained()
        if trained is None or self._scores.lacks():
            return None
        return with_scores(trained, self._scores.digests())

    @abstractmethod
    def _trained(self) -> bytes | None:
        """Return the head of the training; None while it goes on."""

    def released(self) -> Released:
        """Return what the run releases, once there is a head."""
        return self.exchange.scored(self.model(), self._scores.values())

    @abstractmethod
    def model(self) -> Released:
        """Return the model, once the training is over."""

    def so_far(self) -> bytes | None:
        """Return the last public value of a star, for a run that is abandoned; None for none."""
        return None


class Collected:
    """What agents tell all at the end, by what needs it; each tells one thing."""

    def __init__(self, needs: tuple[Need, ...], exchange: Exchange, opener: Opener) -> None:
        self._needs, self._exchange, self._opener = needs, exchange, opener
        self._heard: dict[Need, tuple[Envelope, PyTree]] = {}

    def take(self, envelope: Envelope) -> None:
        """Keep an envelope, if it is one of those that are needed."""
        need = Need(envelope.kind, envelope.sender, envelope.round)
        if need not in self._needs:
            return
        name, before = self._opener.names[envelope.sender], self._heard.get(need)
        if before is not None and before[0].digest != envelope.digest:
            raise BreachError(f"{name} told two different ends of the run; no model is accepted")
        try:
            value = self._exchange.layout(need).unpacked(envelope.body, name)
        except InputError as error:
            raise BreachError(str(error)) from None
        self._heard[need] = envelope, value

    def lacks(self) -> tuple[int, ...]:
        """Return the agents whose word is missing."""
        return tuple(need.sender for need in self._needs if need not in self._heard)

    def digests(self) -> list[bytes]:
        """Return the digests of what was told, in order, once nothing is missing."""
        return [self._heard[need][0].digest for need in self._needs]

    def heard(self) -> bytes:
        """Return the chain of what the first of them heard, once nothing is missing."""
        return self._heard[self._needs[0]][0].heard

    def values(self) -> list[PyTree]:
        """Return what was told, read, in order, once nothing is missing."""
        return [self._heard[need][1] for need in self._needs]


class StarConducting(Conducting):
    """It publishes a value, waits for every answer, and combines them.

    The bytes of every value are in the journal before they are published: computed again they might
    differ in the last place, and no site would answer.
    """

    def __init__(self, exchange: Exchange, journal: Journal, seal: Seal, opener: Opener) -> None:
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
            sealed = self._seal.sealed(Kind.PUBLIC, turn, body, heard=self._chain)
            sealed = self._journal.say(self._run, f"public.{turn}", sealed)
        envelope = self._opened(sealed)
        self._public = self._layouts.inbox.unpacked(envelope.body, "the coordinator's journal")
        self._chain = chained(self._chain, envelope.digest)
        self._sealed, self.turn, self._answers = sealed, turn, {}

    def _opened(self, sealed: bytes) -> Envelope:
        return self._opener.opened(sealed)

    @override
    def _take(self, envelope: Envelope) -> list[Packet]:
        name = self._opener.names[envelope.sender]
        if envelope.kind != Kind.MESSAGE or envelope.round > self.turn:
            return []
        if envelope.round < self.turn or self.turn == self.plan.rounds:
            return []  # a repetition of what was used
        if envelope.heard != self._chain:
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
            self._answers[envelope.sender] = envelope.digest, self._read(envelope, name)
        # repetitions count: when all had come the disk may have been full
        return self._combined() if len(self._answers) == self.plan.program.agents else []

    def _read(self, envelope: Envelope, name: str) -> PyTree:
        try:
            return self._layouts.message.unpacked(envelope.body, name)
        except InputError as error:
            raise BreachError(str(error)) from None

    def _combined(self) -> list[Packet]:
        messages = [self._answers[agent][1] for agent in range(self.plan.program.agents)]
        if self.plan.program.summed:
            check_total(np.add.reduce([np.asarray(one) for one in messages]), len(messages))
        value = _delivered(
            self._network, self._algorithm, self._public, messages, at(self._server, self.turn)
        )
        if not is_computable(value):  # the sites would refuse it, and name the coordinator
            loudest = max(range(len(messages)), key=lambda agent: largest(messages[agent]))
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
    def _late(self) -> tuple[int, ...]:
        agents = range(self.plan.program.agents)
        return tuple(agent for agent in agents if agent not in self._answers)

    @override
    def _trained(self) -> bytes | None:
        return self._chain if self.turn == self.plan.rounds else None

    @override
    def model(self) -> Released:
        return self.exchange.model([self._public])

    @override
    def so_far(self) -> bytes | None:
        return None if self._public is None else self._layouts.inbox.packed(self._public)


class Watching(Conducting):
    """It hears how far the agents are, and what they tell all at the end; no message of a round."""

    def __init__(self, exchange: Exchange, journal: Journal, seal: Seal, opener: Opener) -> None:
        super().__init__(exchange, journal, seal, opener)
        self._rounds = dict.fromkeys(range(self.plan.program.agents), 0)
        self._finals = Collected(exchange.finals, exchange, opener)

    @override
    def begin(self, accepted: Sequence[Envelope]) -> list[Packet]:
        return []

    @override
    def _take(self, envelope: Envelope) -> list[Packet]:
        sender = envelope.sender
        if envelope.kind == Kind.PROGRESS:
            self._rounds[sender] = max(self._rounds[sender], envelope.round)
            self.turn = min(self._rounds.values())
        self._finals.take(envelope)
        return []

    @override
    def again(self) -> list[Packet]:
        return []

    @override
    def _late(self) -> tuple[int, ...]:
        last = min(self._rounds.values())
        return tuple(agent for agent, turn in self._rounds.items() if turn == last)

    @override
    def _trained(self) -> bytes | None:
        if self._finals.lacks():
            return None
        self.turn = self.plan.rounds
        # every site compares this chain with its own, in the head that it signs
        before = self._finals.heard() if self.exchange.one_chain else NOTHING
        return chained(before, joint(self._finals.digests()))

    @override
    def model(self) -> Released:
        return self.exchange.model(self._finals.values())


@jax.jit
def _delivered(
    network: Any, algorithm: Any, public: PyTree, messages: list[PyTree], server: Any
) -> PyTree:
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *messages)
    return network.deliver(algorithm, public, stacked, server)


def conducting_of(exchange: Exchange, journal: Journal, seal: Seal, opener: Opener) -> Conducting:
    """Return the coordinator's half for the network of a plan."""
    conducting = StarConducting if isinstance(exchange, StarExchange) else Watching
    return conducting(exchange, journal, seal, opener)
