"""The head of an account's chain, kept outside its file.

Two slots of fixed size are written in turn, each with a digest of its own: a write that is cut
short leaves the other one. One synchronisation a write.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tacit.budget.chain import Entry

_SLOT = 160


@dataclass(frozen=True)
class Head:
    """Number and digest of the last entry that was seen."""

    number: int
    digest: str


def read_head(file: Path) -> Head | None:
    """Return the newest head in a file; None if there is no whole one."""
    try:
        return _newest(file.read_bytes())
    except FileNotFoundError:
        return None


def write_head(file: Path, last: Entry, *, durable: bool = True) -> None:
    """Write the head; nothing is written if it stands there already.

    Parameters
    ----------
    durable
        Whether it is on the disk on return. If not, a power failure may leave an earlier one.
    """
    head, new = Head(last.number, last.digest), not file.exists()
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
    descriptor = os.open(file, flags, 0o600)
    try:
        content = os.read(descriptor, 2 * _SLOT)
        stands = _newest(content)
        if stands == head:
            return
        # never onto the newest one, which a write that is cut short must leave
        at = _SLOT if stands is not None and _parsed(content[:_SLOT]) == stands else 0
        os.lseek(descriptor, at, os.SEEK_SET)
        written = os.write(descriptor, _text(head))
        if written != _SLOT:
            raise OSError("the head was written in part")
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        sync_folder(file.parent)


def write_place(file: Path, identity: str) -> None:
    """Write which account is at a place, durably and whole or not at all."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="ascii") as stream:
            stream.write(identity)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(file.parent)


def replace_head(file: Path, last: Entry) -> None:
    """Write the head durably in place of whatever stands there, also of a later one."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        write_head(part, last)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(file.parent)


@contextmanager
def head_locked(file: Path, patience: float) -> Iterator[None]:
    """Hold the lock of a head, which copies of one account have in common.

    Their own locks are two. It is that of an empty database beside the head: nothing is written.

    Parameters
    ----------
    patience
        How many seconds to wait for another process.
    """
    lock = sqlite3.connect(
        file.with_suffix(".lock"),
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,  # a journal that was let go of is collected on any thread
    )
    with closing(lock):
        lock.execute("BEGIN EXCLUSIVE")
        yield


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _newest(content: bytes) -> Head | None:
    slots = (_parsed(content[at : at + _SLOT]) for at in (0, _SLOT))
    return max((slot for slot in slots if slot), key=lambda head: head.number, default=None)


def _text(head: Head) -> bytes:
    words = f"{head.number} {head.digest}"
    return f"{words} {_check(words)}".ljust(_SLOT - 1).encode() + b"\n"


def _parsed(slot: bytes) -> Head | None:
    words = slot.decode("ascii", errors="replace").split()
    if len(words) != 3 or not words[0].isdecimal():
        return None
    number, digest, check = words
    return Head(int(number), digest) if check == _check(f"{number} {digest}") else None


def _check(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()
