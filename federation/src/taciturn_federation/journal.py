"""A site's journal: what it was asked and what it said, on the disk before it is said.

The chained store of accounts (`taciturn.budget`), with rows beside its entries: a transaction that
writes a row adds an entry, and the head of the chain is kept in another folder, so that a journal
that was restored from a backup is noticed. Keys of noise are in no table.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from taciturn.budget import Entry as Link
from taciturn.budget import (
    add,
    chain_of,
    head_locked,
    heads_folder,
    holds_head,
    locked,
    private_folder,
    read_head,
    salted,
    sync_folder,
    synchronise,
    write_head,
)
from taciturn.errors import InputError
from taciturn_federation.interface import Entry

_FORMAT = "taciturn.journal 1"
_TABLES = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL) STRICT;
CREATE TABLE run (digest TEXT PRIMARY KEY, proposal TEXT NOT NULL, agent INTEGER NOT NULL,
  data TEXT NOT NULL, reserved TEXT NOT NULL, phase TEXT NOT NULL, line TEXT NOT NULL) STRICT;
CREATE TABLE answer (run TEXT NOT NULL, round INTEGER NOT NULL, local INTEGER NOT NULL,
  kind INTEGER NOT NULL, scale REAL NOT NULL, exponent INTEGER NOT NULL, rate REAL NOT NULL,
  batch INTEGER NOT NULL, PRIMARY KEY (run, round, local)) STRICT;
CREATE TABLE sent (run TEXT NOT NULL, round INTEGER NOT NULL, heard BLOB NOT NULL,
  message BLOB NOT NULL, state BLOB NOT NULL, chain BLOB NOT NULL,
  PRIMARY KEY (run, round)) STRICT;
CREATE TABLE said (run TEXT NOT NULL, what TEXT NOT NULL, content BLOB NOT NULL,
  PRIMARY KEY (run, what)) STRICT;
"""


class RunRow(NamedTuple):
    """A run as the journal has it."""

    digest: str
    proposal: str
    agent: int
    data: str  # salted digest of the file of records
    reserved: str  # what the account calls it; empty without an account
    phase: str  # "accepted", "running", "finished", "abandoned" or "refused"
    line: str  # how it ended, in one line


class Sent(NamedTuple):
    """A round that was answered."""

    round: int
    inputs: bytes  # digests of the messages it was computed from, 32 bytes each
    message: bytes  # the envelope that was sent
    state: bytes  # the method's state afterwards
    chain: bytes  # transcript digest, this round included


_SENT = "SELECT round, heard, message, state, chain FROM sent WHERE run = ?"


class Journal:
    """The journal in a file, which no other process may use meanwhile.

    **Guarantee.** A method that writes returns once the write is on the disk, and the head of the
    chain with the operating system. If it raises, the journal is as it was before, or ahead of its
    head. A row that is missing, added or changed is an error at the next start: what a site would
    answer anew after that is what it answered before, with other noise.

    Raises `InputError` if another process has it, it cannot be used, was edited in any row, or is
    older than its head.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        with self._usable(), ExitStack() as stack:
            private_folder(file.parent)
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))  # or SQLite creates it for all
            connection = sqlite3.connect(
                file, timeout=1.0, isolation_level=None, check_same_thread=False
            )
            self._connection = stack.enter_context(closing(connection))
            file.chmod(0o600)
            connection.execute("PRAGMA journal_mode = WAL")
            synchronise(connection)
            first = self._first().content
            if first.get("format") != _FORMAT:
                raise InputError(
                    f"{file} is no journal of this version of taciturn; name another file"
                )
            self._salt, self._identity = str(first["salt"]), str(first["id"])
            self._head = _head_file(self._identity)
            private_folder(self._head.parent)
            stack.enter_context(_alone(self._head, file))
            self._last = self._checked()
            self._held = stack.pop_all()

    def close(self) -> None:
        """Let go of the file and its lock."""
        self._held.close()

    # runs

    def run(self, digest: str) -> RunRow | None:
        """Return a run; None if the journal has none of that digest."""
        rows = self._rows("SELECT * FROM run WHERE digest = ?", digest)
        return RunRow(*rows[0]) if rows else None

    def masked(self) -> list[str]:
        """Return the digests of the runs for which keys of masks were made."""
        return [str(run) for (run,) in self._rows("SELECT run FROM said WHERE what = 'mask'")]

    def begin(self, row: RunRow) -> None:
        """Write a run that was accepted.

        Raises `InputError` if another journal of this user began it: what that one said would be
        said anew.
        """
        with self._usable():
            marker = self._head.with_name(f"run-{row.digest}-{row.agent}.journal")
            if not _claimed(marker, self._identity):
                raise InputError(
                    f"run {row.digest[:16]} was begun with another journal, and {self.file} does "
                    "not hold what was answered; put that journal back, or ask for a new proposal"
                )
        with self._written({"kind": "run", **row._asdict()}):
            self._connection.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def set_phase(self, digest: str, phase: str, *, line: str = "", reserved: str = "") -> None:
        """Write how far a run is; a reservation that is named stays."""
        content = {"kind": "phase", "run": digest, "phase": phase, "line": line}
        with self._written({**content, "reserved": reserved}):
            self._connection.execute(
                "UPDATE run SET phase = ?, line = ?, "
                "reserved = CASE ? WHEN '' THEN reserved ELSE ? END WHERE digest = ?",
                (phase, line, reserved, reserved, digest),
            )

    def data_digest(self, content: bytes) -> str:
        """Return the digest of a file of records as this journal writes it."""
        return salted(self._salt, content)

    # rounds

    def add(self, digest: str, sent: Sent, entries: Sequence[Entry]) -> None:
        """Write a round in one transaction: its charge, its message and its state."""
        content = {
            "kind": "sent", "run": digest, "round": sent.round, "heard": sent.inputs.hex(),
            "chain": sent.chain.hex(), "message": _sha(sent.message), "state": _sha(sent.state),
            "answers": [list(entry) for entry in entries],
        }  # fmt: skip
        with self._written(content):
            self._connection.executemany(
                "INSERT INTO answer VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(digest, sent.round, *entry) for entry in entries],
            )
            self._connection.execute("INSERT INTO sent VALUES (?, ?, ?, ?, ?, ?)", (digest, *sent))
            # only the latest state is gone on from
            self._connection.execute(
                "UPDATE sent SET state = x'' WHERE run = ? AND round < ? AND state <> x''",
                (digest, sent.round),
            )

    def sent(self, digest: str, turn: int) -> Sent | None:
        """Return what was said in a round; None if nothing was."""
        rows = self._rows(f"{_SENT} AND round = ?", digest, turn)
        return Sent(*rows[0]) if rows else None

    def latest(self, digest: str) -> Sent | None:
        """Return the last round that was answered; None if none was."""
        rows = self._rows(f"{_SENT} ORDER BY round DESC LIMIT 1", digest)
        return Sent(*rows[0]) if rows else None

    def answers(self, digest: str) -> dict[int, list[Entry]]:
        """Return the entries of every round that has some, in order."""
        found: dict[int, list[Entry]] = {}
        query = "SELECT * FROM answer WHERE run = ? ORDER BY round, local"
        for _, turn, *entry in self._rows(query, digest):
            found.setdefault(int(turn), []).append(Entry(*entry))
        return found

    # other bytes that must stay as they are

    def say(self, digest: str, what: str, content: bytes) -> bytes:
        """Return what is kept under a name; it is `content` if nothing was kept before."""
        kept = self.said(digest, what)
        if kept is not None:
            return kept
        with self._written({"kind": "said", "run": digest, "what": what, "sha": _sha(content)}):
            self._connection.execute("INSERT INTO said VALUES (?, ?, ?)", (digest, what, content))
        return content

    def said(self, digest: str, what: str) -> bytes | None:
        """Return what is kept under a name; None if nothing is."""
        rows = self._rows("SELECT content FROM said WHERE run = ? AND what = ?", digest, what)
        return bytes(rows[0][0]) if rows else None

    # the file

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._usable():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _written(self, content: Mapping[str, Any]) -> Iterator[None]:
        """Write what the body writes, and an entry of the chain, in one transaction."""
        with self._usable():
            with locked(self._connection):
                yield
                link = add(self._connection, self._last, content)
            self._last = link
            # an earlier head is no error: it only notices less, and the journal itself is durable
            write_head(self._head, link, durable=False)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise errors of the database and of the system as `InputError`."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise InputError(
                f"the journal {self.file} cannot be written ({reason}), so nothing is answered; "
                "see that disk and folder can be written to, then start again: the run goes on "
                "where it was"
            ) from error

    def _first(self) -> Link:
        """Return the first entry, of a new file too."""
        connection, schema = self._connection, "SELECT * FROM sqlite_schema WHERE name = 'entries'"
        if connection.execute(schema).fetchone():
            return Link(*connection.execute("SELECT * FROM entries WHERE number = 1").fetchone())
        identity, salt = secrets.token_hex(16), secrets.token_hex(16)
        private_folder(heads_folder())
        with locked(connection):
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            link = add(connection, None, {"format": _FORMAT, "id": identity, "salt": salt})
            # before the journal is there: without its head it could not be used
            write_head(_head_file(identity), link)
        return link

    def _checked(self) -> Link:
        """Return the last entry, once chain, head and rows agree."""
        links, head = chain_of(self._connection, f"journal {self.file}"), read_head(self._head)
        if head is None or not holds_head(links, head):
            raise InputError(
                f"the journal {self.file} is older than what was said from it (a restored backup, "
                "or its head was lost) and would say other things in answered rounds. Put "
                "the newest file back, or name a new journal and ask for a new proposal"
            )
        held = _held(self._connection)
        for table, rows in _written_rows(links[1:], held["sent"]).items():
            if held[table] != rows:
                raise InputError(
                    f"the journal {self.file} was edited or is damaged: its table {table!r} is not "
                    "what was written, and answered rounds would be answered anew. Put the newest "
                    "file back, or name a new journal and ask for a new proposal"
                )
        write_head(self._head, links[-1])
        return links[-1]


_Rows = dict[Any, list[Any]]  # the rows of a table, by their keys; of blobs their digests


def _held(connection: sqlite3.Connection) -> dict[str, _Rows]:
    """Return the rows of every table."""

    def rows(query: str, keys: int) -> _Rows:
        found = connection.execute(query)
        return {row[:keys]: [_sha(c) if isinstance(c, bytes) else c for c in row[keys:]]
                for row in found}  # fmt: skip

    return {
        "run": rows("SELECT * FROM run", 1),
        "sent": rows("SELECT run, round, hex(heard), hex(chain), message, state FROM sent", 2),
        "answer": rows("SELECT * FROM answer", 3),
        "said": rows("SELECT * FROM said", 2),
    }


def _written_rows(links: Sequence[Link], held: _Rows) -> dict[str, _Rows]:
    """Return the rows that the entries of a chain say were written.

    The state of a round before the last one of its run may be empty, where `held` has it so.
    """
    run: _Rows = {}
    sent: _Rows = {}
    answer: _Rows = {}
    said: _Rows = {}
    last: dict[str, int] = {}
    for content in (link.content for link in links):
        match content["kind"]:
            case "run":
                run[content["digest"],] = [content[name] for name in RunRow._fields[1:]]
            case "phase":
                row = run[content["run"],]
                row[3:] = content["reserved"] or row[3], content["phase"], content["line"]
            case "sent":
                name, turn = content["run"], content["round"]
                last[name] = max(turn, last.get(name, turn))
                sent[name, turn] = [content["heard"].upper(), content["chain"].upper(),
                                    content["message"], content["state"]]  # fmt: skip
                answer |= {(name, turn, one[0]): one[1:] for one in content["answers"]}
            case "said":
                said[content["run"], content["what"]] = [content["sha"]]
    for (name, turn), row in sent.items():
        if turn < last[name] and held.get((name, turn), [None])[-1] == _sha(b""):
            row[-1] = _sha(b"")
    return {"run": run, "sent": sent, "answer": answer, "said": said}


@contextmanager
def _alone(head: Path, file: Path) -> Iterator[None]:
    """Hold the lock of a journal, which copies of it have in common.

    It does not hold the journal: one that was let go of lets go of its lock.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(head_locked(head, 0.0))
        except sqlite3.OperationalError:
            raise InputError(
                f"another process uses the journal {file}; end that one, or leave this run to it"
            ) from None
        yield


def _claimed(marker: Path, identity: str) -> bool:
    """Whether a run is this journal's; the first one that asks has it.

    The marker is there with what it says, or not at all: an empty one would be everybody's.
    """
    part = marker.with_name(f"{marker.name}.{identity}")
    try:
        with part.open("w") as stream:
            stream.write(identity)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(part, marker)
        sync_folder(marker.parent)
    except FileExistsError:
        return marker.read_text() == identity
    finally:
        part.unlink(missing_ok=True)
    return True


def _head_file(identity: str) -> Path:
    return heads_folder() / f"journal-{identity}.head"


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
