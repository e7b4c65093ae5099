"""A site that cannot take part in a run says so, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import contextlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taciturn.errors import TaciturnError
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import COORDINATOR, Kind, Seal
from taciturn_federation.hearing import believed
from taciturn_federation.party import Outcome, Packet, Progress
from taciturn_federation.transport import Link, Watch, serve

_LINE = "it could not begin; its owner has the reason"
# seconds for which the owner waits besides, where hub or coordinator are away
_PATIENCE = 3.0


class Declining:
    """The party that a site is when it does not begin: it refuses, until the coordinator ends.

    **Guarantee.** It sends one fixed line. That a site does not begin is seen anyway, since it does
    not accept; why it does not is told to its owner alone.
    """

    def __init__(self, signed: SignedProposal, agent: int, key: Ed25519PrivateKey) -> None:
        self.subjects = (signed.subjects.proposal,)
        self.outcome: Outcome | None = None
        self.needed = False
        values = {"line": _LINE, "started": False}
        sealed = Seal(signed.run, agent, key).values(Kind.REFUSAL, 0, values)
        self._refusal = Packet(signed.subjects.state(agent), sealed)
        self._signed, self._said = signed, -1.0

    def start(self, now: float) -> list[Packet]:
        """Return the refusal."""
        return self.tick(now)

    def heard(self, packet: Packet, now: float) -> list[Packet]:
        """Return nothing; the end of the run ends this party."""
        del now
        signed = self._signed
        with contextlib.suppress(TaciturnError):
            envelope = believed(packet, signed.opener, signed.subjects, self.subjects)
            if envelope.sender == COORDINATOR and envelope.kind == Kind.END:
                self.outcome = Outcome("refused", _LINE)
        return []

    def tick(self, now: float) -> list[Packet]:
        """Return the refusal, about once a second."""
        if now - self._said < 1.0 or self.outcome is not None:
            return []
        self._said = now
        return [self._refusal]

    def progress(self) -> Progress:
        """Return that nothing was done."""
        return Progress(0, 0, (), 0.0)

    def close(self) -> None:
        """Do nothing: there is no journal."""


def decline(signed: SignedProposal, agent: int, key: Ed25519PrivateKey, link: Link) -> None:
    """Tell the coordinator that a site does not begin, if it can be reached within seconds."""

    async def told() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(_PATIENCE, stop.set)
        await serve(Declining(signed, agent, key), link, Watch(), stop)

    with contextlib.suppress(TaciturnError):  # the owner is told why the site does not begin
        asyncio.run(told())
