"""A chained store: numbered entries in SQLite, added in durable transactions.

Accounts are such files; an extension may keep further tables beside the entries. The order of
writes, and the state after a crash at each, is in `docs/explanation/accounts.md`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from taciturn.errors import AccountError, InputError

START = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One entry: its number from 1, its content as canonical JSON, its digest."""

    number: int
    body: str
    digest: str

    @cached_property
    def content(self) -> dict[str, Any]:
        """The content as a dictionary."""
        values: dict[str, Any] = json.loads(self.body)
        return values


def canonical(content: Mapping[str, Any]) -> str:
    """Return the canonical JSON of an entry."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def following(last: Entry | None, content: Mapping[str, Any]) -> Entry:
    """Return the entry that follows `last`."""
    body = canonical(content)
    number, previous = (1, START) if last is None else (last.number + 1, last.digest)
    return Entry(number, body, _digest(previous, number, body))


def check_chain(what: str, entries: Sequence[Entry]) -> None:
    """Raise `InputError` unless there are entries, numbered from 1, and every digest is right.

    `what`: the name of the file in the error, as "account 'study'".
    """
    previous = START
    for number, entry in enumerate(entries, start=1):
        digest = _digest(previous, number, entry.body)
        if entry.number != number or entry.digest != digest:
            raise InputError(
                f"{what} was edited or is damaged: entry {number} is not what was written; put "
                "the right file back, or use a new one"
            )
        previous = digest
    if not entries:
        raise InputError(f"{what} is empty; put the right file back")


def _digest(previous: str, number: int, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{number}\n{body}".encode()).hexdigest()


_SLOT = 160


@dataclass(frozen=True)
class Head:
    """Number and digest of the last entry that was seen."""

    number: int
    digest: str


def read_head(file: Path) -> Head | None:
    """Return the newest head in a file; None if there is no complete one."""
    try:
        return _newest(file.read_bytes())
    except FileNotFoundError:
        return None


def write_head(file: Path, last: Entry, *, durable: bool = True) -> None:
    """Write the head; nothing is written if it is there already.

    `durable`: whether it is on disk on return. If not, a power failure may leave an earlier one.
    """
    head, new = Head(last.number, last.digest), not file.exists()
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
    descriptor = os.open(file, flags, 0o600)
    try:
        content = os.read(descriptor, 2 * _SLOT)
        old = _newest(content)
        if old == head:
            return
        # never overwrite the newest slot: an interrupted write must leave it intact
        at = _SLOT if old is not None and _parsed(content[:_SLOT]) == old else 0
        os.lseek(descriptor, at, os.SEEK_SET)
        written = os.write(descriptor, head_text(head))
        if written != _SLOT:
            raise OSError("the head was written in part")
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        sync_folder(file.parent)


def contains_head(entries: Sequence[Entry], head: Head | Entry) -> bool:
    """Whether a head is one of the entries."""
    return head.number <= len(entries) and entries[head.number - 1].digest == head.digest


def replace_file(file: Path, content: bytes) -> None:
    """Write a small file durably and atomically."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        with open(part, "wb", opener=private_opener) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(file.parent)


@contextmanager
def head_lock(file: Path, patience: float) -> Iterator[None]:
    """Hold the lock of a head, which copies of one account share.

    The lock of an empty database beside the head: nothing is written. `patience`: how many seconds
    to wait for another process.
    """
    lock = sqlite3.connect(
        file.with_suffix(".lock"),
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,  # a released journal may be collected on any thread
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


def head_text(head: Head | Entry) -> bytes:
    """Return the content of a head's slot."""
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


PATIENCE = 30.0  # seconds that a transaction waits for that of another process
_TABLE = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL) STRICT
"""


@contextmanager
def connected(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the file of an account, which must exist.

    Commits are on disk when they return (`synchronise`), in a write-ahead log. Raises `InputError`
    if the file cannot be opened, is no account, or a write fails.
    """
    with usable(file), ExitStack() as stack:
        # a read-only connection that is closed last keeps SQLite from merging the log on closing,
        # which would cost four synchronisations a run
        keeper = stack.enter_context(closing(_connection(file, "ro")))
        keeper.execute("SELECT 1 FROM sqlite_schema").fetchone()
        connection = stack.enter_context(closing(_connection(file, "rw")))
        synchronise(connection)
        yield connection


def synchronise(connection: sqlite3.Connection) -> None:
    """Make commits durable before they return, also on disks that would answer early."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")


def _connection(file: Path, mode: str) -> sqlite3.Connection:
    address = f"{file.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(
        address, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )


@contextmanager
def usable(file: Path) -> Iterator[None]:
    """Raise errors of the database and of the system as `InputError`."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(
            f"the account {file} cannot be used ({reason}), so no record is read; see that file, "
            "folder and disk can be written to, and that the file is an account"
        ) from error


def create(file: Path, content: Mapping[str, Any], before: Callable[[Entry], None]) -> None:
    """Create the file of an account with its first entry, atomically.

    `before` is called with the entry before the file has its name. Raises `AccountError` if there
    is such a file.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    with usable(file):
        private_folder(file.parent)
        if file.exists():
            raise _taken(file)
        try:
            before(_write_first(part, content))
            try:
                os.link(part, file)  # the name must be free
            except FileExistsError:
                raise _taken(file) from None
            except OSError:  # a file system without links
                if file.exists():
                    raise _taken(file) from None
                part.rename(file)
        finally:
            for suffix in ("", "-wal", "-shm"):
                part.with_name(part.name + suffix).unlink(missing_ok=True)
        sync_folder(file.parent)


def _write_first(part: Path, content: Mapping[str, Any]) -> Entry:
    """Write a file with its first entry.

    It has no name yet, so only the last write is synchronised, to the whole file.
    """
    # SQLite gives its log the permissions of this file
    os.close(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
    with closing(_connection(part, "rw")) as connection:
        for line in ("PRAGMA synchronous = OFF", "PRAGMA journal_mode = MEMORY", "BEGIN", _TABLE):
            connection.execute(line)
        entry = add(connection, None, content)
        connection.execute("COMMIT")
        for setting in ("synchronous = FULL", "fullfsync = ON", "journal_mode = WAL"):
            connection.execute(f"PRAGMA {setting}")
    return entry


def _taken(file: Path) -> AccountError:
    return AccountError(
        f"there is an account {file} already, and its guarantee stands; open another name, or use "
        "taciturn budget raise"
    )


@contextmanager
def locked(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the write lock of a store; the body's writes are committed at its end, or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def entries_of(connection: sqlite3.Connection, name: str, *, most: int = -1) -> list[Entry]:
    """Return the entries, or the first `most` of them, their chain checked."""
    schema = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    if schema != [("table", "entries", _TABLE.lstrip())]:
        raise InputError(
            f"account {name!r} was edited: it holds more than its entries, or another table of "
            "them; put the right file back"
        )
    return chain_of(connection, f"account {name!r}", most=most)


def chain_of(connection: sqlite3.Connection, what: str, *, most: int = -1) -> list[Entry]:
    """Return the entries of a store, or the first `most` of them, checked as by `check_chain`."""
    rows = connection.execute("SELECT * FROM entries ORDER BY number LIMIT ?", (most,))
    entries = [Entry(int(number), str(body), str(digest)) for number, body, digest in rows]
    check_chain(what, entries)
    return entries


def last_of(connection: sqlite3.Connection) -> Entry:
    """Return the last entry."""
    rows = connection.execute("SELECT * FROM entries ORDER BY number DESC LIMIT 1")
    number, body, digest = rows.fetchone()
    return Entry(int(number), str(body), str(digest))


def digest_of(connection: sqlite3.Connection, number: int) -> str | None:
    """Return the digest of an entry by its number; None if there is none."""
    row = connection.execute("SELECT digest FROM entries WHERE number = ?", (number,)).fetchone()
    return None if row is None else str(row[0])


def add(connection: sqlite3.Connection, last: Entry | None, content: Mapping[str, Any]) -> Entry:
    """Write the entry that follows `last`, and return it; the caller holds the lock."""
    entry = following(last, content)
    connection.execute(
        "INSERT INTO entries VALUES (?, ?, ?)", (entry.number, entry.body, entry.digest)
    )
    return entry


SUFFIX = ".account"
STATE_DIR = "TACITURN_STATE_DIR"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def accounts_folder(given: Path | None = None) -> Path:
    """Return the folder of accounts: the given one, or `taciturn/accounts` in the user's data."""
    return data_folder() / "accounts" if given is None else given


def data_folder() -> Path:
    """Return the folder `taciturn` in the user's data folder."""
    return _user_folder("XDG_DATA_HOME", ".local/share") / "taciturn"


def heads_folder() -> Path:
    """Return the folder of heads: `heads` in TACITURN_STATE_DIR, or in the user's state folder."""
    named = os.environ.get(STATE_DIR, "")
    if named:
        return Path(named).expanduser() / "heads"
    return _user_folder("XDG_STATE_HOME", ".local/state") / "taciturn" / "heads"


def private_folder(folder: Path) -> Path:
    """Make a folder and its missing parents for the user alone, and return it.

    A folder that exists keeps its permissions.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    return folder


def private_opener(file: str, flags: int) -> int:
    """Open a file as `open` does; a new one is readable by its user alone."""
    return os.open(file, flags, 0o600)


def head_file(identity: str) -> Path:
    """Return the file of the head of an account."""
    return heads_folder() / f"{identity}.head"


def place_file(file: Path) -> Path:
    """Return the file that records which account was opened under a name in a folder."""
    place = hashlib.sha256(os.fsencode(file.resolve())).hexdigest()
    return heads_folder() / f"place-{place[:32]}.id"


def account_file(name: str, folder: Path) -> Path:
    """Return the file of an account; `InputError` if the name is invalid."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a valid name of an account; use up to 64 letters, digits, dots, "
            "hyphens and underscores, the first a letter or a digit"
        )
    return folder / f"{name}{SUFFIX}"


def _user_folder(variable: str, inside: str) -> Path:
    """Return the user's folder that an environment variable or the system names."""
    named = os.environ.get(variable, "")
    if named and Path(named).is_absolute():
        return Path(named)
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", Path.home()))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path.home() / inside
