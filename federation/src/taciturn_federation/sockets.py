"""The transport over a socket: another engine than NATS takes and hands in the packets.

A party listens at a Unix socket in a folder of its owner's; a process of the engine on the same
machine connects (`taciturn_federation.engines.delivery`). It needs no key of the study and cannot
read the records, nor anything else of the party.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from taciturn.budget import private_folder
from taciturn.errors import InputError
from taciturn_federation.engines import delivery
from taciturn_federation.envelope import Packet
from taciturn_federation.transport import Arrivals, Connection, Watch

# seconds for which a party that ends waits until its last packets were taken
_LINGER, _TICK = 15.0, 0.05
_LONGEST = 60.0  # seconds for which an engine may wait for packets
_MOST = 100  # bytes of the path of a socket that every system allows


@dataclass(frozen=True)
class SocketLink:
    """The transport by an engine that connects to sockets in a folder."""

    folder: Path

    def connect(self, subjects: tuple[str, ...], watch: Watch) -> Connection:
        """Return the connection of a party to an engine, not yet open."""
        return _SocketConnection(subjects, self.folder, watch)


class _SocketConnection(Arrivals):
    """A socket at which an engine takes what the party sends, and hands in what it receives."""

    def __init__(self, subjects: tuple[str, ...], folder: Path, watch: Watch) -> None:
        super().__init__()
        self._subjects, self._watch, self.connected = subjects, watch, False
        self._file = folder.absolute() / f"{secrets.token_hex(4)}{delivery.SUFFIX}"
        self._server: asyncio.AbstractServer | None = None
        self._waiting, self._written = delivery.Waiting(), asyncio.Event()
        self._engines: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def hold(self) -> None:
        """Listen; raises `InputError` if the folder has no place for a socket."""
        if len(os.fsencode(self._file)) > _MOST:
            raise InputError(
                f"the path of a socket in {self._file.parent} is longer than {_MOST} bytes; name "
                "a shorter folder with --sockets"
            )
        try:
            private_folder(self._file.parent)
            _remove_stale(self._file.parent)
            self._server = await asyncio.start_unix_server(self._talk, self._file)
            self._file.chmod(0o660)  # who may enter the folder may connect
        except OSError as error:
            raise InputError(
                f"no socket can be made in {self._file.parent} ({error.strerror}); name another "
                "folder with --sockets"
            ) from None
        self.connected = True
        self._watch.note("connected", hub=str(self._file))
        await asyncio.Event().wait()

    async def send(self, packets: list[Packet]) -> None:
        """Keep packets until an engine takes them; the oldest are dropped."""
        self._waiting.put(packets)
        if packets:
            self._written.set()

    async def close(self) -> None:
        """Wait a while until an engine has taken the last packets, then remove the socket."""
        left = _LINGER if self.connected else 0.0
        while self._waiting and left > 0:
            await asyncio.sleep(_TICK)
            left -= _TICK
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(OSError):
            self._file.unlink()
        for writer in self._engines.values():
            writer.close()
        await asyncio.gather(*self._engines, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one process of an engine until it leaves."""
        task = asyncio.current_task()
        assert task is not None
        self._engines[task] = writer
        # what it sent unsigned, or in another form, nobody reads: it is left alone then
        with contextlib.suppress(OSError, ValueError, struct.error):
            writer.write(
                delivery.frame(Packet(delivery.CONTROL, "\n".join(self._subjects).encode()))
            )
            await self._exchange(reader, writer)
        del self._engines[task]
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rest = b""
        while data := await reader.read(1 << 20):
            packets, rest = delivery.parsed(rest + data)
            for packet in packets:
                if packet.subject != delivery.CONTROL:
                    self.arrive(packet)
                    continue
                (seconds,) = delivery.SECONDS.unpack(packet.payload)
                await self._until_written(min(max(seconds, 0.0), _LONGEST))
                for one in (*self._waiting.take(), Packet(delivery.CONTROL, b"")):
                    writer.write(delivery.frame(one))
                await writer.drain()

    async def _until_written(self, seconds: float) -> None:
        """Wait until the party has sent something, and so long at most."""
        self._written.clear()
        if self._waiting:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._written.wait(), seconds)


def _remove_stale(folder: Path) -> None:
    """Remove the sockets of processes that were killed."""
    for file in folder.glob(f"*{delivery.SUFFIX}"):
        with socket.socket(socket.AF_UNIX) as one, contextlib.suppress(FileNotFoundError):
            one.settimeout(1.0)
            try:
                one.connect(str(file))
            except ConnectionRefusedError:
                file.unlink()
