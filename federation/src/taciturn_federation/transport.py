"""A party and its transport: what delivers packets to a party, which has no sockets or threads.

A party takes packets and the time and returns packets; a transport delivers them, here over NATS,
in `taciturn_federation.sockets` by another engine. The party computes in a separate thread, so that
the connection stays alive meanwhile. Messages may be lost, since a party requests what it lacks; so
nothing is stored while the hub is unreachable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from typing_extensions import override

from taciturn.errors import InputError, TaciturnError
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import COORDINATOR, Kind, Packet, Signer
from taciturn_federation.inbox import Outcome, Party, Progress, verify_packet
from taciturn_federation.keys import Nkey, client_context

TICK = 0.1
# between attempts to reach the hub, and when it denies this party a subject
_RETRY, _RETRY_DENIED = 0.2, 1.0
_CONNECT, _FLUSH = 10.0, 2
# queued messages of a party that computes; further ones are dropped, and requested again
_MAX_WAITING = 4096


@dataclass(frozen=True)
class Watch:
    """Callbacks: events with plain values, as in a log line, and progress.

    What they cannot write, or a party cannot read for them, ends no run: it is left out.
    """

    event: Callable[..., None] = lambda _name, **_values: None
    progress: Callable[[Progress], None] = lambda _progress: None

    def note(self, name: str, **values: object) -> None:
        """Pass an event on."""
        with contextlib.suppress(OSError, TaciturnError):
            self.event(name, **values)

    def show(self, party: Party) -> None:
        """Pass the progress of a party on."""
        with contextlib.suppress(OSError, TaciturnError):
            self.progress(party.progress())


@runtime_checkable
class Connection(Protocol):
    """The packets of one party; any of them may be lost, repeated, delayed or reordered."""

    @property
    def connected(self) -> bool:
        """Whether packets can be sent now; until the first time, a party does not start."""

    async def hold(self) -> None:
        """Connect, and again whenever the connection is lost; `InputError` if waiting is vain."""

    async def packets(self, seconds: float) -> list[Packet]:
        """Return what arrived, waiting for it that long."""

    async def send(self, packets: list[Packet]) -> None:
        """Publish packets, or drop them."""

    async def close(self) -> None:
        """Deliver what can be delivered within seconds, then let go."""


@runtime_checkable
class Transport(Protocol):
    """What delivers packets between parties: the seam to NATS, Flower, NVFlare and others.

    A packet sent on a subject should reach every other party with a pattern for it in its
    `subjects`.

    **Guarantee.** None is needed: a party verifies signature, run and sender of all it receives,
    accepts each message once and requests what it lacks. A transport can read messages, which are
    noised, and withhold them, and thereby end a run; it cannot change one.
    """

    def connect(self, subjects: tuple[str, ...], watch: Watch) -> Connection:
        """Return the connection of a party that subscribes to these subjects; not yet open."""


@dataclass(frozen=True)
class Link:
    """The transport over NATS: where the hub is, and the credentials of a party."""

    address: str  # host and port
    certificate: str  # that of the hub, PEM, from the invitation
    nkey: Nkey  # of the party

    def connect(self, subjects: tuple[str, ...], watch: Watch) -> Connection:
        """Return the connection of a party to the hub, not yet open."""
        return _NatsConnection(subjects, self, watch)


def run_party(party: Party, link: Transport, watch: Watch) -> Outcome | None:
    """Return the outcome of a party that runs until it ends; None if it was interrupted.

    SIGINT and SIGTERM end it cleanly: the current round is finished, nothing is lost. Finally the
    party is closed. Raises as `serve`.
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


async def serve(party: Party, link: Transport, watch: Watch, stop: asyncio.Event) -> Outcome | None:
    """Return the outcome of a party that runs until it ends; None if `stop` is set first.

    Raises `InputError` if the hub's certificate is not that of the invitation.
    """
    connection = link.connect(party.subjects, watch)
    with ThreadPoolExecutor(1, "taciturn party") as thread:
        connecting = asyncio.create_task(connection.hold())
        try:
            return await _pump(party, connection, connecting, thread, watch, stop)
        finally:
            connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError, InputError):
                await connecting
            await connection.close()


async def _pump(
    party: Party,
    connection: Connection,
    connecting: asyncio.Task[None],
    thread: ThreadPoolExecutor,
    watch: Watch,
    stop: asyncio.Event,
) -> Outcome | None:
    """Hand packets and ticks to the party, and send its packets, until its end or `stop`."""
    loop, started, ticked, shown = asyncio.get_running_loop(), False, 0.0, 0.0

    def compute(packets: list[Packet], now: float, *, first: bool, due: bool) -> list[Packet]:
        sent = party.start(now) if first else []
        answers = [answer for packet in packets for answer in party.receive(packet, now)]
        return [*sent, *answers, *(party.tick(now) if due else ())]

    while not stop.is_set():
        if connecting.done():
            connecting.result()  # raises errors that waiting cannot fix
        packets = await connection.packets(max(0.001, min(TICK, ticked + TICK - time.monotonic())))
        now, due = time.monotonic(), time.monotonic() - ticked >= TICK
        # without a hub the patience of a party runs out, too
        first = not started and connection.connected
        started = started or first
        ticked = now if due else ticked
        if first or packets or due:
            work = partial(compute, packets, now, first=first, due=due)
            await connection.send(await loop.run_in_executor(thread, work))
        if now - shown >= 1:
            shown = now
            watch.show(party)
        if party.outcome is not None and not party.needed:
            break
    return party.outcome


class Arrivals:
    """Packets that arrived and that a party, which may compute, has not taken yet."""

    def __init__(self) -> None:
        self._received: list[Packet] = []
        self._woken = asyncio.Event()

    def arrive(self, packet: Packet) -> None:
        """Take a packet; one too many is dropped, and requested again."""
        if len(self._received) < _MAX_WAITING:
            self._received.append(packet)
        self._woken.set()

    async def packets(self, seconds: float) -> list[Packet]:
        """Return what arrived, waiting for it that long."""
        if not self._received:
            # a timer, where asyncio.wait_for would make a task for every message
            timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()
        self._woken.clear()
        packets, self._received = self._received, []
        return packets


class _NatsConnection(Arrivals):
    """The connection of a party to its hub, which is renewed whenever it is lost."""

    def __init__(self, subjects: tuple[str, ...], link: Link, watch: Watch) -> None:
        super().__init__()
        self.subjects, self.link, self.watch = subjects, link, watch
        self.context = client_context(link.certificate)
        self.client: Client | None = None
        self._lost = asyncio.Event()
        self._why = ""  # it was lost
        self._reported = ""  # the last trouble that the watch was informed of

    @property
    def connected(self) -> bool:
        """Whether the hub has the subscriptions of the party."""
        return self.client is not None

    async def close(self) -> None:
        """Flush what was published, and close the socket."""
        if self.client is not None:
            with contextlib.suppress(Exception):  # lost messages are requested again
                await self.client.flush(timeout=_FLUSH)
            await _close(self.client)

    async def send(self, packets: list[Packet]) -> None:
        """Publish packets, or drop them while the hub is away."""
        for packet in packets:
            if self.client is None:
                return
            try:
                await self.client.publish(packet.subject, packet.payload)
            except nats_errors.MaxPayloadError:
                raise InputError(
                    f"a message has {len(packet.payload):,} bytes, more than the hub allows; raise "
                    "max_payload in its configuration"
                ) from None
            except nats_errors.Error as error:
                self._lose(str(error))

    async def hold(self) -> None:
        """Connect, and again whenever the connection is lost."""
        while True:
            self._lost.clear()
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
                self._trouble("hub_away", _reason(error))
                await asyncio.sleep(_RETRY)
                continue
            self.client = client
            if not _is_denied(self._reported):
                self._reported = ""
                self.watch.note("connected", hub=self.link.address)
            await self._lost.wait()
            self.client = None
            self._trouble("hub_lost", self._why)
            await _close(client)
            await asyncio.sleep(_RETRY_DENIED if _is_denied(self._why) else _RETRY)

    async def _connect(self) -> Client:
        """Return a connection with the party's subscriptions."""
        client, nkey = Client(), self.link.nkey
        # nats-py has no other way to name an nkey without giving it the secret half
        client._public_nkey = nkey.public
        try:
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
            for subject in self.subjects:
                await client.subscribe(subject, cb=self._receive)
            await client.flush(timeout=5)
        except ssl.SSLCertVerificationError:  # the handshake has closed the socket
            raise
        except BaseException:  # cancelled while it connects, too: the socket is open by then
            await _close(client)
            raise
        return client

    async def _receive(self, message: Msg) -> None:
        self.arrive(Packet(message.subject, message.data))

    async def _gone(self, error: Exception | None = None) -> None:
        """Note an end, or what the client only passes here: a violated permission."""
        self._lose("the connection ended" if error is None else _reason(error))

    def _lose(self, why: str) -> None:
        if not self._lost.is_set():
            self._why = why
            self._lost.set()

    def _trouble(self, event: str, why: str) -> None:
        """Report trouble once, until it is another."""
        if why != self._reported:
            self._reported = why
            self.watch.note(event, hub=self.link.address, reason=why)


async def _close(client: Client) -> None:
    with contextlib.suppress(Exception):  # it may be closed already
        await asyncio.wait_for(client.close(), _FLUSH)


_DENIED = "the hub does not allow this"


def _is_denied(why: str) -> bool:
    return why.startswith(_DENIED)


def _reason(error: BaseException) -> str:
    """Return why the hub cannot be used, and who can fix that."""
    text = str(error) or type(error).__name__
    low = text.lower()
    if "permissions violation" in low:
        return (
            f"{_DENIED} ({text.removeprefix('nats: ')}); the coordinator's hub "
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
# seconds for which the owner waits longer, if hub or coordinator cannot be reached
_PATIENCE = 3.0


class DecliningSite(Party):
    """A site that cannot begin: it refuses until the coordinator ends the run.

    **Guarantee.** It sends one fixed line each second: only its owner learns why it cannot begin;
    that it cannot is visible anyway, since it does not accept.
    """

    def __init__(self, signed: SignedProposal, agent: int, key: Ed25519PrivateKey) -> None:
        self.subjects = (signed.subjects.proposal,)
        self.outcome: Outcome | None = None
        values = {"line": _LINE, "started": False}
        payload = Signer(signed.run, agent, key).seal_values(Kind.REFUSAL, 0, values)
        self._refusal = Packet(signed.subjects.state(agent), payload)
        self._signed, self._sent = signed, -1.0

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
        if now - self._sent < 1.0 or self.outcome is not None:
            return []
        self._sent = now
        return [self._refusal]


def decline(signed: SignedProposal, agent: int, key: Ed25519PrivateKey, link: Transport) -> None:
    """Inform the coordinator that a site cannot begin, if it can be reached within seconds."""

    async def refuse() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(_PATIENCE, stop.set)
        await serve(DecliningSite(signed, agent, key), link, Watch(), stop)

    with contextlib.suppress(TaciturnError):  # the command reports why the site does not begin
        asyncio.run(refuse())
