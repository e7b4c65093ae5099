"""Joining through the hub: a guest files a request, the process of the hub keeps it.

The protocol and its threats are in docs/explanation/federation.md, "How a site joins".
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from typing_extensions import override

from taciturn.budget import private_folder
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn_federation.agreement import JoinRequest
from taciturn_federation.envelope import Packet, Subjects
from taciturn_federation.folders import SiteFolder, StudyFolder, read_text
from taciturn_federation.hub import MAX_REQUEST
from taciturn_federation.inbox import Outcome, Party
from taciturn_federation.transport import Link, Watch, serve

# requests that are kept: in all, and of one name
MOST_REQUESTS, MOST_OF_A_NAME = 64, 8
MOST_IN_A_SECOND = 20  # requests that are read; further ones are dropped
INTERVAL = 2.0  # seconds between two requests of a site that waits

_FULL = (
    f"{MOST_REQUESTS} requests to join wait, or {MOST_OF_A_NAME} of one name, and further ones are "
    "ignored: the invitation may be in wrong hands; refuse those you do not know (taciturn study "
    "admit), or start the hub with --closed"
)
_INVALID = (
    "ignored a request to join: it is none, is not signed by its key, answers another invitation, "
    "or is of another version of taciturn"
)


class Waiting(NamedTuple):
    """A request that came through the hub, and its file."""

    file: Path
    request: JoinRequest


def waiting_requests(study: StudyFolder) -> tuple[Waiting, ...]:
    """Return the requests to join a study that came through the hub, by name."""
    found = []
    for file in sorted((study.folder / "requests").glob("*.json")):
        with suppress(InputError):  # it may be admitted meanwhile
            found.append(Waiting(file, JoinRequest.from_json(read_text(file))))
    return tuple(found)


@dataclass
class Reception(Party):
    """Of the coordinator: keeps requests to join, for `taciturn study admit`.

    **Guarantee.** It admits nobody. Whatever guests send, it reads `MOST_IN_A_SECOND` messages of
    at most `MAX_REQUEST` bytes in a second, keeps `MOST_REQUESTS` files, and reports a line for
    each of these; other lines are fixed.
    """

    study: StudyFolder
    report: Callable[[str], None] = lambda _: None
    outcome: Outcome | None = None
    _second: int = -1
    _read: int = 0

    def __post_init__(self) -> None:
        self.subjects = (Subjects.of_guests(self.study.name),)

    @override
    def receive(self, packet: Packet, now: float) -> list[Packet]:
        """Keep a request that is valid and new."""
        self._read = 1 if int(now) != self._second else self._read + 1
        self._second = int(now)
        if self._read > MOST_IN_A_SECOND or len(packet.payload) > MAX_REQUEST:
            return []
        try:
            request = JoinRequest.from_json(packet.payload.decode(errors="replace"))
            request.check_for(self.study.invitation)
        except InputError:
            self.report(_INVALID)
            return []
        with suppress(InputError):  # a full disk: the site asks again
            self._keep(request)
        return []

    @override
    def tick(self, now: float) -> list[Packet]:
        return []

    @override
    def close(self) -> None:
        pass

    def _keep(self, request: JoinRequest) -> None:
        folder = self.study.folder / "requests"
        file = folder / f"{request.name}.{request.digest[:32]}.json"
        known = {one.participant for one in self.study.members()}
        if file.exists() or request.participant in known:
            return
        names = [one.name.split(".")[0] for one in folder.glob("*.json")]
        if len(names) >= MOST_REQUESTS or names.count(request.name) >= MOST_OF_A_NAME:
            self.report(_FULL)
            return
        private_folder(folder)
        write_text(request.to_json() + "\n", file)
        self.report(
            f"{request.name} asks to join, fingerprint {request.fingerprint}; once its owner has "
            f"read the same by telephone: taciturn study admit {self.study.name} {request.name}"
        )


@contextmanager
def receiving(study: StudyFolder, address: str, report: Callable[[str], None]) -> Iterator[None]:
    """Receive requests to join in a thread, while a hub runs at an address of this machine."""
    link, ended = Link(address, study.invitation.certificate, study.nkey()), Event()

    _quieten()

    async def receive() -> None:
        stop = asyncio.Event()
        party = asyncio.create_task(serve(Reception(study, report), link, Watch(), stop))
        while not (ended.is_set() or party.done()):
            await asyncio.sleep(0.1)
        stop.set()
        await party

    thread = Thread(target=lambda: asyncio.run(receive()), name="requests", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


def _quieten() -> None:
    """Do without the warnings of asyncio about every connection that a server closes."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)


@dataclass
class _Once(Party):
    """A party that sends what it has as soon as it is connected, and ends."""

    packets: tuple[Packet, ...] = ()
    subjects: tuple[str, ...] = ()
    outcome: Outcome | None = None

    @override
    def start(self, now: float) -> list[Packet]:
        self.outcome = Outcome("finished", "connected")
        return list(self.packets)

    @override
    def receive(self, packet: Packet, now: float) -> list[Packet]:
        return []

    @override
    def tick(self, now: float) -> list[Packet]:
        return []

    @override
    def close(self) -> None:
        pass


def await_admission(site: SiteFolder, request: JoinRequest, watch: Watch) -> bool:
    """File a request again and again until the hub lets the site in; False if interrupted.

    Raises `InputError` if the hub's certificate is not that of the invitation.
    """
    _quieten()

    async def wait() -> bool:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        return await admitted(site, request, watch, stop)

    return asyncio.run(wait())


async def admitted(
    site: SiteFolder, request: JoinRequest, watch: Watch, stop: asyncio.Event
) -> bool:
    """Return whether the hub lets a site in before `stop` is set; its request is filed till then.

    It is filed twice at least: a member's request is one with another count.
    """
    invited, tried = site.invitation, 0
    guest = Link(invited.hub, invited.certificate, invited.guest_nkey())
    this = Link(invited.hub, invited.certificate, site.nkey())
    packet = Packet(Subjects.of_guests(invited.study), request.to_json().encode())
    while not stop.is_set():
        await _connects(_Once((packet,)), guest, watch, stop)
        tried += 1
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), INTERVAL)
        if tried > 1 and await _connects(_Once(), this, watch, stop):
            return True
    return False


async def _connects(party: _Once, link: Link, watch: Watch, stop: asyncio.Event) -> bool:
    """Return whether a party is let in; it waits for a hub that cannot be reached."""
    done = asyncio.Event()

    def event(name: str, **values: Any) -> None:
        if "reason" in values and "does not know this key" in values["reason"]:
            done.set()
        elif name != "connected":
            watch.note(name, **values)

    async def interrupted() -> None:
        await stop.wait()
        done.set()

    waiting = asyncio.create_task(interrupted())
    try:
        return await serve(party, link, Watch(event), done) is not None
    finally:
        waiting.cancel()
