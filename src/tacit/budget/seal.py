"""A seal: an account was verified whole, and nobody has touched its files since.

Verifying takes time in proportion to the entries; comparing times and sizes of two files does not.
A seal that is missing, old or damaged costs that time, and nothing else: what a charge is decided
on is verified with it and without it (`tacit.budget.verifying`).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from tacit.budget.chain import Entry
from tacit.budget.places import head_file

Seen: TypeAlias = str


def seen(file: Path) -> Seen:
    """Return what the system says of the file of an account and of its log.

    Of the file also the time at which anything of it changed, which no program sets back. That of
    the log says nothing: where root opens an account, SQLite gives the log its owner anew.
    """
    found: list[int] = []
    for path in (file, file.with_name(f"{file.name}-wal")):
        with suppress(FileNotFoundError):
            one = path.stat()
            found += [one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns]
            found += [one.st_ctime_ns] if path == file else []
    return " ".join(map(str, found))


def seen_alone(connection: sqlite3.Connection, file: Path, before: int) -> Seen | None:
    """Return the same after a commit of this connection; None if another one has committed since.

    Parameters
    ----------
    before
        The `data_version` of the connection when it held the lock.
    """
    found = seen(file)
    return found if data_version(connection) == before else None


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes with every commit of other connections, and with no own one."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def is_sealed(identity: str, last: Entry, files: Seen) -> bool:
    """Whether an account that ends in this entry was verified when its files were as they are."""
    try:
        return _file(identity).read_text(encoding="utf-8") == f"{last.digest}\n{files}\n"
    except (OSError, UnicodeError):
        return False


def write_seal(identity: str, last: Entry, files: Seen) -> None:
    """Write a seal, if it can be written; it need not be durable."""
    file = _file(identity)
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    with suppress(OSError):
        part.write_text(f"{last.digest}\n{files}\n", encoding="utf-8")
        part.replace(file)


def _file(identity: str) -> Path:
    return head_file(identity).with_suffix(".seal")
