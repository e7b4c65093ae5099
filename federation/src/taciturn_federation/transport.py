"""A party over NATS: the thin shell around a machine without input and output.

The party computes in a thread of its own, so that the connection lives on meanwhile. Messages may
be lost, for whoever waits asks again; so nothing is kept for a hub that is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from typing_extensions import override

from taciturn.errors import InputError, TaciturnError
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import COORDINATOR, Kind, Seal
from taciturn_federation.exchange import verify_packet
from taciturn_federation.interface import Outcome, Packet, Party, Progress
from taciturn_federation.keys import Nkey, client_context

TICK = 0.1
# between attempts to reach the hub, and when it does not let this party write or hear
_AGAIN, _ALLOWED = 0.2, 1.0
_CONNECT = 10.0
_FAREWELL = 2
# waiting messages of a party that computes; further ones are asked for again
_MOST_WAITING = 4096


@dataclass(frozen=True)
class Link:
    """Where the hub is, and with what a party comes to it."""

    address: str  # host and port
    certificate: str  # that of the hub, PEM, from the invitation
    nkey: Nkey  # of the party


@dataclass(frozen=True)
class Watch:
    """Who is told what happens: events with plain values, as a log line holds, and progress."""

    event: Callable[..., None] = lambda _name, **_values: None
    progress: Callable[[Progress], None] = lambda _progress: None


def run_party(party: Party, link: Link, watch: Watch) -> Outcome | None:
    """Return the outcome of a party that runs until it ends; None if it was interrupted.

    SIGINT and SIGTERM end it cleanly: what is being computed is finished, nothing is lost. In the
    end the party is closed. Raises as `serve`.
    """
    # it warns of every connection that a server closes
    logging.getLogger("asyncio").setLevel(logging.ERROR)

    async def until_the_end() -> Outcome | None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        return await serve(party, link, watch, stop)

    try:
        return asyncio.run(until_the_end())
    finally:
        party.close()


def serve(
    party: Party, link: Link, watch: Watch, stop: asyncio.Event
) -> Coroutine[Any, Any, Outcome | None]:
    """Return the coroutine that runs a party until it ends, or until `stop`, resumable.

    Raises `InputError` if the hub has another certificate than that of the invitation.
    """
    return _Shell(party, link, watch, stop).run()


class _Shell:
    """A party, its connection and its thread."""

    def __init__(self, party: Party, link: Link, watch: Watch, stop: asyncio.Event) -> None:
        self.party, self.link, self.watch, self.stop = party, link, watch, stop
        self.context = client_context(link.certificate)
        self.client: Client | None = None
        self.received: list[Packet] = []
        self.woken = asyncio.Event()
        self.lost = asyncio.Event()
        self.why = ""
        self.said = ""

    async def run(self) -> Outcome | None:
        """Return the outcome of the party; None if it was stopped before there was one."""
        with ThreadPoolExecutor(1, "taciturn party") as thread:
            connecting = asyncio.create_task(self._connected())
            try:
                return await self._pumped(thread, connecting)
            finally:
                connecting.cancel()
                with contextlib.suppress(asyncio.CancelledError, InputError):
                    await connecting
                if self.client is not None:
                    with contextlib.suppress(Exception):  # whatever was lost is asked for again
                        await self.client.flush(timeout=_FAREWELL)
                    await _close(self.client)

    async def _pumped(
        self, thread: ThreadPoolExecutor, connecting: asyncio.Task[None]
    ) -> Outcome | None:
        begun, ticked, shown = False, 0.0, 0.0
        while not self.stop.is_set():
            if connecting.done():
                connecting.result()  # raises what cannot be mended by waiting
            if not self.received:  # wait for a message, or until a tick is due
                left = max(0.001, min(TICK, ticked + TICK - time.monotonic()))
                # a timer, where asyncio.wait_for would make a task for every message
                timer = asyncio.get_running_loop().call_later(left, self.woken.set)
                try:
                    await self.woken.wait()
                finally:
                    timer.cancel()
            self.woken.clear()
            packets, self.received = self.received, []
            if not begun and self.client is None:
                continue
            now = time.monotonic()
            due = now - ticked >= TICK
            ticked = now if due else ticked
            first, begun = not begun, True
            work = partial(self._compute, packets, now, first=first, due=due)
            if first or packets or due:
                await self._sent(await asyncio.get_running_loop().run_in_executor(thread, work))
            if now - shown >= 1:
                shown = now
                self.watch.progress(self.party.progress())
            if self.party.outcome is not None and not self.party.needed:
                break
        return self.party.outcome

    def _compute(
        self, packets: list[Packet], now: float, *, first: bool, due: bool
    ) -> list[Packet]:
        """Return what the party says; on a thread of its own."""
        sent = self.party.start(now) if first else []
        answers = [answer for packet in packets for answer in self.party.receive(packet, now)]
        return [*sent, *answers, *(self.party.tick(now) if due else ())]

    async def _sent(self, packets: list[Packet]) -> None:
        for packet in packets:
            client = self.client
            if client is None:
                return
            try:
                await client.publish(packet.subject, packet.payload)
            except nats_errors.MaxPayloadError:
                raise InputError(
                    f"a message has {len(packet.payload):,} bytes, more than the hub allows; raise "
                    "max_payload in its configuration"
                ) from None
            except nats_errors.Error as error:
                self._lose(str(error))

    async def _connected(self) -> None:
        """Connect, and again whenever the connection is lost."""
        while True:
            self.lost.clear()
            try:
                client = await asyncio.wait_for(self._connect(), _CONNECT)
            except ssl.SSLCertVerificationError as error:
                raise InputError(
                    f"the hub at {self.link.address} is not that of this study "
                    f"({error.verify_message}): its certificate is another one than that in the "
                    "invitation; check the address, or ask the coordinator whether there is a new "
                    "study"
                ) from None
            except (OSError, TimeoutError, nats_errors.Error) as error:
                self._say("hub_away", _reason(error))
                await asyncio.sleep(_AGAIN)
                continue
            self.client = client
            if not _forbidden(self.said):
                self.said = ""
                self.watch.event("connected", hub=self.link.address)
            await self.lost.wait()
            self.client = None
            self._say("hub_lost", self.why)
            await _close(client)
            await asyncio.sleep(_ALLOWED if _forbidden(self.why) else _AGAIN)

    async def _connect(self) -> Client:
        """Return a connection that hears what the party listens to."""
        client, nkey = Client(), self.link.nkey
        # nats-py has no other way to name an nkey without giving it the secret half
        client._public_nkey = nkey.public
        await client.connect(
            f"tls://{self.link.address}",
            signature_cb=nkey.answer,
            tls=self.context,
            tls_handshake_first=True,
            allow_reconnect=False,
            connect_timeout=5,
            ping_interval=5,
            max_outstanding_pings=2,
            no_echo=True,
            error_cb=self._gone,
            disconnected_cb=self._gone,
            closed_cb=self._gone,
        )
        try:
            for subject in self.party.subjects:
                await client.subscribe(subject, cb=self._hear)
            await client.flush(timeout=5)
        except BaseException:
            await _close(client)
            raise
        return client

    async def _hear(self, message: Msg) -> None:
        if len(self.received) < _MOST_WAITING:
            self.received.append(Packet(message.subject, message.data))
        self.woken.set()

    async def _gone(self, error: Exception | None = None) -> None:
        """Take note of an end, or of what the client tells nobody else: a violated permission."""
        self._lose("the connection ended" if error is None else _reason(error))

    def _lose(self, why: str) -> None:
        if not self.lost.is_set():
            self.why = why
            self.lost.set()

    def _say(self, event: str, why: str) -> None:
        """Tell of trouble once, until it is another."""
        if why != self.said:
            self.said = why
            self.watch.event(event, hub=self.link.address, reason=why)


async def _close(client: Client) -> None:
    with contextlib.suppress(Exception):  # it may be closed already
        await asyncio.wait_for(client.close(), _FAREWELL)


_FORBIDDEN = "the hub does not allow this"


def _forbidden(why: str) -> bool:
    return why.startswith(_FORBIDDEN)


def _reason(error: BaseException) -> str:
    """Return why the hub cannot be used, and by whom that can be mended."""
    text = str(error) or type(error).__name__
    low = text.lower()
    if "permissions violation" in low:
        return (
            f"{_FORBIDDEN} ({text.removeprefix('nats: ')}); the coordinator's hub "
            "must know the proposal and its parties (taciturn study hub)"
        )
    if "authorization" in low:
        return (
            "the hub does not know this key; the coordinator must propose with this site, and not "
            "have struck it off"
        )
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there; the coordinator's hub must run (taciturn study hub)"
    return text


_LINE = "it could not begin; its owner has the reason"
# seconds for which the owner waits besides, where hub or coordinator are away
_PATIENCE = 3.0


class Declining(Party):
    """The party that a site is when it does not begin: it refuses, until the coordinator ends.

    **Guarantee.** It sends one fixed line, and again each second: why it does not begin is told to
    its owner alone, and that it does not is seen anyway, since it does not accept.
    """

    def __init__(self, signed: SignedProposal, agent: int, key: Ed25519PrivateKey) -> None:
        self.subjects = (signed.subjects.proposal,)
        self.outcome: Outcome | None = None
        values = {"line": _LINE, "started": False}
        sealed = Seal(signed.run, agent, key).values(Kind.REFUSAL, 0, values)
        self._refusal = Packet(signed.subjects.state(agent), sealed)
        self._signed, self._said = signed, -1.0

    @override
    def receive(self, packet: Packet, now: float) -> list[Packet]:
        signed = self._signed
        with contextlib.suppress(TaciturnError):
            envelope = verify_packet(packet, signed.opener, signed.subjects, self.subjects)
            if envelope.sender == COORDINATOR and envelope.kind == Kind.END:
                self.outcome = Outcome("refused", _LINE)
        return []

    @override
    def close(self) -> None:
        pass

    @override
    def tick(self, now: float) -> list[Packet]:
        if now - self._said < 1.0 or self.outcome is not None:
            return []
        self._said = now
        return [self._refusal]


def decline(signed: SignedProposal, agent: int, key: Ed25519PrivateKey, link: Link) -> None:
    """Tell the coordinator that a site does not begin, if it can be reached within seconds."""

    async def told() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(_PATIENCE, stop.set)
        await serve(Declining(signed, agent, key), link, Watch(), stop)

    with contextlib.suppress(TaciturnError):  # the owner is told why the site does not begin
        asyncio.run(told())
