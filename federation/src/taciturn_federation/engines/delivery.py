"""Packets between an engine and the parties of one machine, over sockets in a folder.

Every party that runs here listens at a socket in a folder of its owner's. To a process that
connects it sends the patterns of the subjects that it subscribes to; the process then hands packets
in, and takes those that the party sends, by a request with the seconds for which it waits. Packets
may be lost: parties request what they lack.

Standard library only, as this file also runs where an engine is installed and taciturn is not.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".sock"
# lengths of subject and payload; the longest packet is that of the hub
HEADER = struct.Struct(">HI")
MAX_PAYLOAD = 64 * 1024 * 1024
# packets, and their bytes, that wait for one receiver; the oldest are dropped first
MAX_WAITING, MAX_BYTES = 4096, 4 * MAX_PAYLOAD
# no packet: a request to a party, with the seconds in its payload, and the end of the response
CONTROL, SECONDS = "", struct.Struct(">d")
# seconds: of one call of the system; in which several parties take turns, and new ones are found
_TIMEOUT, _STEP, _LOOK = 10.0, 0.05, 1.0


class Packet(NamedTuple):
    """A message in transit: its subject, and its bytes, which are an envelope."""

    subject: str
    payload: bytes


def frame(packet: Packet) -> bytes:
    """Return a packet as it travels over a socket."""
    subject, payload = packet.subject.encode(), packet.payload
    return HEADER.pack(len(subject), len(payload)) + subject + payload


def parsed(data: bytes) -> tuple[list[Packet], bytes]:
    """Return the packets in some bytes, and the rest; `ValueError` if a packet is too long.

    Examples
    --------
    >>> parsed(frame(Packet("a.b", b"x")) + b"rest")
    ([Packet(subject='a.b', payload=b'x')], b'rest')
    """
    packets, at = [], 0
    while len(data) - at >= HEADER.size:
        subject, payload = HEADER.unpack_from(data, at)
        if payload > MAX_PAYLOAD:
            raise ValueError("a packet is longer than a message can be")
        start, end = at + HEADER.size + subject, at + HEADER.size + subject + payload
        if len(data) < end:
            break
        name = data[at + HEADER.size : start].decode(errors="replace")
        packets.append(Packet(name, data[start:end]))
        at = end
    return packets, data[at:]


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject is one that a pattern stands for.

    Examples
    --------
    >>> matches("a.b.answer.*", "a.b.answer.3"), matches("a.b.answer.*", "a.b.answer")
    (True, False)
    """
    wanted, given = pattern.split("."), subject.split(".")
    return len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given))  # noqa: B905 - of one length


class Waiting:
    """Packets for one receiver, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._packets: dict[Packet, None] = {}
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._packets)

    def __iter__(self) -> Iterator[Packet]:
        return iter(self._packets)

    def put(self, packets: Iterable[Packet]) -> None:
        """Add packets; the oldest beyond the limit are dropped."""
        for packet in packets:
            if packet not in self._packets:
                self._packets[packet] = None
                self._bytes += len(packet.payload)
            while len(self._packets) > MAX_WAITING or self._bytes > MAX_BYTES:
                oldest = next(iter(self._packets))
                del self._packets[oldest]
                self._bytes -= len(oldest.payload)

    def take(self) -> list[Packet]:
        """Return all, and forget them."""
        packets, self._packets, self._bytes = list(self._packets), {}, 0
        return packets


class _Local:
    """The socket of one party."""

    def __init__(self, file: Path) -> None:
        self._rest, self._packets = b"", list[Packet]()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(_TIMEOUT)
        try:
            self.socket.connect(str(file))
            self.subjects = self._next().payload.decode(errors="replace").split()
        except (OSError, ValueError):
            self.socket.close()
            raise

    def _next(self) -> Packet:
        while not self._packets:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionResetError("the party has ended")
            self._packets, self._rest = parsed(self._rest + data)
        return self._packets.pop(0)

    def send(self, packets: Sequence[Packet]) -> None:
        """Hand those packets in that the party subscribes to."""
        for packet in packets:
            if any(matches(pattern, packet.subject) for pattern in self.subjects):
                self.socket.sendall(frame(packet))

    def take(self, seconds: float) -> list[Packet]:
        """Return what the party has sent, once there is something, or after some seconds."""
        self.socket.settimeout(_TIMEOUT + seconds)
        self.socket.sendall(frame(Packet(CONTROL, SECONDS.pack(seconds))))
        return list(iter(self._next, Packet(CONTROL, b"")))


class Parties:
    """The parties that listen in a folder, however often they start and end."""

    def __init__(self, folder: Path | str) -> None:
        self._folder, self._parties = Path(folder), dict[Path, _Local]()

    def __len__(self) -> int:
        return len(self._parties)

    def look(self) -> None:
        """Connect to the parties that have started."""
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            if file not in self._parties:
                with contextlib.suppress(OSError, ValueError):  # one that has ended, or is starting
                    self._parties[file] = _Local(file)

    def deliver(self, packets: Sequence[Packet]) -> None:
        """Hand packets to the parties that subscribe to them."""
        for file in list(self._parties):
            self._try(file, lambda party: party.send(packets))

    def collect(self, seconds: float) -> list[Packet]:
        """Return what the parties have sent, waiting so long for the first packet."""
        packets: list[Packet] = []
        until = time.monotonic() + seconds
        while True:
            self.look()
            left = max(0.0, until - time.monotonic())
            if not self._parties:
                time.sleep(min(left, _STEP))
            # several take turns, as one of them may have nothing to send for hours; and another
            # may start meanwhile
            wait = min(left, _LOOK if len(self._parties) == 1 else _STEP)
            for file in list(self._parties):
                packets += self._try(file, lambda party: party.take(wait)) or []  # noqa: B023
            if packets or not left:
                return packets

    def answers(self, packets: Sequence[Packet], seconds: float) -> list[Packet]:
        """Deliver packets and return what the parties send, until they answered them.

        What they had sent before is no answer to these packets, so it ends no waiting.
        """
        sent = Waiting()
        sent.put(self.collect(0.0))
        if packets:
            self.deliver(packets)
            sent.put(self.collect(seconds))
        return sent.take()

    def close(self) -> None:
        """Leave the parties to themselves."""
        for party in self._parties.values():
            party.socket.close()
        self._parties.clear()

    def _try(self, file: Path, act: Callable[[_Local], list[Packet] | None]) -> list[Packet] | None:
        """Act on a party, or forget it if it has ended."""
        try:
            return act(self._parties[file])
        except (OSError, ValueError):
            self._parties.pop(file).socket.close()
            return None
