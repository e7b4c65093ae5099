"""The file of an account: numbered entries in SQLite, added in transactions that are synced.

The order of writes, and what a crash leaves after each, stands in `docs/explanation/accounts.md`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from tacit.budget.chain import Entry, check_chain, following
from tacit.budget.head import sync_folder
from tacit.budget.places import private_folder
from tacit.errors import AccountError, InputError

# how long a transaction waits for that of another process
PATIENCE = 30.0
_TABLE = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL) STRICT
"""


@contextmanager
def connected(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the file of an account, which must exist.

    Commits are on the disk when they return: write-ahead log, synchronous FULL (and F_FULLFSYNC
    where a disk would otherwise answer early).

    Raises
    ------
    InputError
        If the file cannot be opened, is no account, or a write fails.
    """
    with told(file), ExitStack() as stack:
        stack.enter_context(closing(_keeper(file)))
        connection = _connection(file, "rw")
        stack.enter_context(closing(connection))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        yield connection


def _connection(file: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )


def _keeper(file: Path) -> sqlite3.Connection:
    """Return a connection that cannot write; while it is there the log is not folded in.

    Closed last, it saves four synchronisations a run: the log stays, with nothing left to write.
    """
    connection = _connection(file, "ro")
    connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    return connection


@contextmanager
def told(file: Path) -> Iterator[None]:
    """Raise errors of the database and of the system as `InputError`."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(
            f"the account {file} cannot be used ({reason}), so no record is read; see that file, "
            "folder and disk can be written to, and that the file is an account"
        ) from error


def create(file: Path, content: Mapping[str, Any], before: Callable[[Entry], None]) -> Entry:
    """Create the file of an account with its first entry; it is there whole or not at all.

    Parameters
    ----------
    before
        Called with the entry before the file has its name.

    Raises
    ------
    AccountError
        If there is such a file.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    with told(file):
        private_folder(file.parent)
        if file.exists():
            raise _taken(file)
        try:
            entry = _written(part, content)
            before(entry)
            _name(part, file)
        finally:
            for suffix in ("", "-wal", "-shm"):
                part.with_name(part.name + suffix).unlink(missing_ok=True)
        sync_folder(file.parent)
    return entry


def _written(part: Path, content: Mapping[str, Any]) -> Entry:
    """Write a file with its first entry.

    It has no name yet, so one synchronisation will do: that of the last write, to the whole file.
    """
    # SQLite gives its own files, the log among them, the permissions of this one
    os.close(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
    with closing(_connection(part, "rw")) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN")
        connection.execute(_TABLE)
        entry = add(connection, None, content)
        connection.execute("COMMIT")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA journal_mode = WAL")
    return entry


def _name(part: Path, file: Path) -> None:
    """Give a written file its name, which must be free."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise _taken(file) from None
    except OSError:  # a file system without links
        if file.exists():
            raise _taken(file) from None
        part.rename(file)


def _taken(file: Path) -> AccountError:
    return AccountError(
        f"there is an account {file} already, and its guarantee stands; open another name, or use "
        "tacit budget raise"
    )


@contextmanager
def locked(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the write lock of an account; what was written is committed at the end, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        _undo(connection)
        raise
    try:
        connection.execute("COMMIT")
    except BaseException:
        _undo(connection)
        raise


def _undo(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def entries_of(
    connection: sqlite3.Connection, name: str, *, after: Entry | None = None, most: int = -1
) -> list[Entry]:
    """Return entries, their chain checked.

    Parameters
    ----------
    after
        Those after this one, which must still be there; None for those from the first on.
    most
        How many at most; -1 for all.
    """
    schema = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    if schema != [("table", "entries", _TABLE.lstrip())]:
        raise InputError(
            f"account {name!r} was edited: it holds more than its entries, or another table of "
            "them; put the right file back"
        )
    number = 0 if after is None else after.number
    rows = connection.execute(
        "SELECT number, body, digest FROM entries WHERE number >= ? ORDER BY number LIMIT ?",
        (number, most),
    )
    entries = [Entry(int(number), str(body), str(digest)) for number, body, digest in rows]
    if after is not None:
        if entries[:1] != [after]:
            raise InputError(
                f"account {name!r} was edited while a run was under way; put the right file back"
            )
        entries = entries[1:]
    check_chain(name, entries, after=after)
    return entries


def last_of(connection: sqlite3.Connection) -> Entry:
    """Return the last entry."""
    number, body, digest = connection.execute(
        "SELECT number, body, digest FROM entries ORDER BY number DESC LIMIT 1"
    ).fetchone()
    return Entry(int(number), str(body), str(digest))


def digest_of(connection: sqlite3.Connection, number: int) -> str | None:
    """Return the digest of the entry of a number; None if there is none."""
    row = connection.execute("SELECT digest FROM entries WHERE number = ?", (number,)).fetchone()
    return None if row is None else str(row[0])


def add(connection: sqlite3.Connection, last: Entry | None, content: Mapping[str, Any]) -> Entry:
    """Write the entry that follows `last`, and return it; the caller holds the lock."""
    entry = following(last, content)
    connection.execute(
        "INSERT INTO entries VALUES (?, ?, ?)", (entry.number, entry.body, entry.digest)
    )
    return entry
