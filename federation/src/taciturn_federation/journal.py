"""A site's journal: what it was asked and what it said, on the disk before it is said.

SQLite, write-ahead log, synchronous FULL. Every write is one transaction that also adds an entry to
a chain of digests, whose head is kept in another folder: a journal that was restored from a backup
is noticed. Keys of noise are in no table.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from taciturn.budget import (
    Entry as Link,
)
from taciturn.budget import (
    check_chain,
    following,
    head_locked,
    heads_folder,
    private_folder,
    read_head,
    salted,
    sync_folder,
    write_head,
)
from taciturn.errors import InputError
from taciturn_federation.ledger_entries import Entry


@dataclass
class _Written:
    """What the entries of a chain say was written; of blobs, their SHA-256."""

    runs: dict[str, list[Any]] = field(default_factory=dict)  # by digest, the row of `run`
    # by run and round, digests of inputs, chain, message and state
    sent: dict[tuple[str, int], tuple[str, str, str, str]] = field(default_factory=dict)
    # by run, round and question, the row of `answer` after these
    answers: dict[tuple[str, int, int], list[Any]] = field(default_factory=dict)
    # by run and name, the digest of the content
    said: dict[tuple[str, str], str] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)  # by run, the last round

    def add(self, content: Mapping[str, Any]) -> None:
        """Replay an entry."""
        match content.get("kind"):
            case "run":
                names = ("digest", "proposal", "agent", "data", "reserved", "phase", "line")
                self.runs[content["digest"]] = [content[name] for name in names]
            case "phase":
                row = self.runs[content["run"]]
                row[4] = content["reserved"] or row[4]
                row[5:] = content["phase"], content["line"]
            case "sent":
                run, turn = content["run"], content["round"]
                digests = [content[name] for name in ("heard", "chain", "message", "state")]
                self.sent[run, turn] = (digests[0], digests[1], digests[2], digests[3])
                self.last[run] = max(turn, self.last.get(run, turn))
                for local, *answer in content["answers"]:
                    self.answers[run, turn, local] = answer
            case "said":
                self.said[content["run"], content["what"]] = content["sha"]


def check_rows(connection: sqlite3.Connection, links: Iterable[Link], file: Path) -> None:
    """Raise `InputError` unless the tables of a journal hold what its entries say, and no more.

    Only the state after the last round of a run is kept: that of an earlier one is empty.

    **Guarantee.** A row that is missing, added or changed is an error, in every column of every
    table. What a site would answer anew after that is what it answered before, with other noise.
    """
    written = _Written()
    for link in links:
        written.add(link.content)
    for table, right in (
        ("run", _runs(connection, written)),
        ("sent", _sent(connection, written)),
        ("answer", _answers(connection, written)),
        ("said", _said(connection, written)),
    ):
        if not right:
            raise InputError(
                f"the journal {file} was edited or is damaged: its table {table!r} is not what was "
                "written, and answered rounds would be answered anew. Put the newest file back, or "
                "name a new journal and ask for a new proposal"
            )


def _runs(connection: sqlite3.Connection, written: _Written) -> bool:
    rows = connection.execute("SELECT * FROM run").fetchall()
    return {row[0]: list(row) for row in rows} == written.runs


def _sent(connection: sqlite3.Connection, written: _Written) -> bool:
    count = 0
    rows = connection.execute("SELECT run, round, heard, chain, message, state FROM sent")
    for run, turn, heard, chain, message, state in rows:
        known = written.sent.get((run, turn))
        if known is None or known[:3] != (heard.hex(), chain.hex(), _sha(message)):
            return False
        earlier = turn < written.last[run]
        if not (earlier and state == b"") and _sha(state) != known[3]:
            return False
        count += 1
    return count == len(written.sent)


def _answers(connection: sqlite3.Connection, written: _Written) -> bool:
    rows = connection.execute("SELECT * FROM answer").fetchall()
    return {tuple(row[:3]): list(row[3:]) for row in rows} == written.answers


def _said(connection: sqlite3.Connection, written: _Written) -> bool:
    rows = connection.execute("SELECT run, what, content FROM said")
    return {(run, what): _sha(content) for run, what, content in rows} == written.said


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
_FORMAT = "taciturn.journal 1"


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


class Journal:
    """The journal in a file, which no other process may use meanwhile.

    **Guarantee.** A method that writes returns once the write is on the disk, and the head of the
    chain with the operating system. If it raises, the journal is as it was before, or ahead of its
    head.

    Raises `InputError` if another process has it, it cannot be used, was edited in any row, or is
    older than its head.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        with journal_errors(file), ExitStack() as stack:
            private_folder(file.parent)
            self._connection = stack.enter_context(closing(_connection(file)))
            first = self._first()
            values = first.content
            if values.get("format") != _FORMAT:
                raise InputError(
                    f"{file} is no journal of this version of taciturn; name another file"
                )
            self._salt = str(values["salt"])
            self._identity = str(values["id"])
            self._head = heads_folder() / f"journal-{self._identity}.head"
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
        row = self._one("SELECT * FROM run WHERE digest = ?", digest)
        return None if row is None else RunRow(*row)

    def masked(self) -> list[str]:
        """Return the digests of the runs for which keys of masks were made."""
        with journal_errors(self.file):
            rows = self._connection.execute("SELECT run FROM said WHERE what = 'mask'").fetchall()
        return [str(run) for (run,) in rows]

    def begin(self, row: RunRow) -> None:
        """Write a run that was accepted.

        Raises `InputError` if another journal of this user began it: what that one said would be
        said anew.
        """
        with journal_errors(self.file):
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
            "kind": "sent",
            "run": digest,
            "round": sent.round,
            "heard": sent.inputs.hex(),
            "chain": sent.chain.hex(),
            "message": _sha_of(sent.message),
            "state": _sha_of(sent.state),
            "answers": [list(entry) for entry in entries],
        }
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
        query = "SELECT round, heard, message, state, chain FROM sent WHERE run = ? AND round = ?"
        row = self._one(query, digest, turn)
        return None if row is None else Sent(*row)

    def latest(self, digest: str) -> Sent | None:
        """Return the last round that was answered; None if none was."""
        row = self._one(
            "SELECT round, heard, message, state, chain FROM sent WHERE run = ? "
            "ORDER BY round DESC LIMIT 1",
            digest,
        )
        return None if row is None else Sent(*row)

    def answers(self, digest: str) -> dict[int, list[Entry]]:
        """Return the entries of every round that has some."""
        found: dict[int, list[Entry]] = {}
        with journal_errors(self.file):
            rows = self._connection.execute(
                "SELECT round, local, kind, scale, exponent, rate, batch FROM answer "
                "WHERE run = ? ORDER BY round, local",
                (digest,),
            ).fetchall()
        for turn, *entry in rows:
            found.setdefault(int(turn), []).append(Entry(*entry))
        return found

    def rounds(self, digest: str) -> list[int]:
        """Return the rounds that were answered with a question."""
        return sorted(self.answers(digest))

    # other bytes that must stay as they are

    def say(self, digest: str, what: str, content: bytes) -> bytes:
        """Return what is kept under a name; it is `content` if nothing was kept before."""
        kept = self.said(digest, what)
        if kept is not None:
            return kept
        with self._written({"kind": "said", "run": digest, "what": what, "sha": _sha_of(content)}):
            self._connection.execute("INSERT INTO said VALUES (?, ?, ?)", (digest, what, content))
        return content

    def said(self, digest: str, what: str) -> bytes | None:
        """Return what is kept under a name; None if nothing is."""
        row = self._one("SELECT content FROM said WHERE run = ? AND what = ?", digest, what)
        return None if row is None else bytes(row[0])

    # the file

    def _one(self, query: str, *values: Any) -> Any:
        with journal_errors(self.file):
            return self._connection.execute(query, values).fetchone()

    @contextmanager
    def _written(self, content: Mapping[str, Any]) -> Iterator[None]:
        """Write what the body writes, and an entry of the chain, in one transaction."""
        link = following(self._last, content)
        with journal_errors(self.file):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", _row(link))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._last = link
            # an earlier head is no error: it only notices less, and the journal itself is durable
            write_head(self._head, link, durable=False)

    def _first(self) -> Link:
        """Return the first entry, of a new file too."""
        found = self._connection.execute(
            "SELECT count(*) FROM sqlite_schema WHERE name = 'entries'"
        ).fetchone()[0]
        if found:
            row = self._connection.execute("SELECT * FROM entries WHERE number = 1").fetchone()
            return Link(*row)
        identity, salt = secrets.token_hex(16), secrets.token_hex(16)
        link = following(None, {"format": _FORMAT, "id": identity, "salt": salt})
        head = heads_folder() / f"journal-{identity}.head"
        private_folder(head.parent)
        write_head(head, link)
        self._connection.execute("BEGIN EXCLUSIVE")
        for statement in _TABLES.split(";"):
            self._connection.execute(statement)
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", _row(link))
        self._connection.execute("COMMIT")
        return link

    def _checked(self) -> Link:
        """Return the last entry, once chain, head and rows agree."""
        rows = self._connection.execute("SELECT * FROM entries ORDER BY number").fetchall()
        links = [Link(*row) for row in rows]
        check_chain(self.file.name, links)
        head = read_head(self._head)
        known = (
            head is not None
            and head.number <= len(links)
            and links[head.number - 1].digest == head.digest
        )
        if not known:
            raise InputError(
                f"the journal {self.file} is older than what was said from it (a restored backup, "
                "or its head was lost) and would say other things in answered rounds. Put "
                "the newest file back, or name a new journal and ask for a new proposal"
            )
        check_rows(self._connection, links, self.file)
        write_head(self._head, links[-1])
        return links[-1]


@contextmanager
def journal_errors(file: Path) -> Iterator[None]:
    """Raise errors of the database and of the system as `InputError`."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(
            f"the journal {file} cannot be written ({reason}), so nothing is answered; see that "
            "disk and folder can be written to, then start again: the run goes on where it was"
        ) from error


@contextmanager
def _alone(head: Path, file: Path) -> Iterator[None]:
    """Hold the lock of a journal, which copies of it have in common."""
    with ExitStack() as stack:
        try:
            stack.enter_context(head_locked(head, 0.0))
        except sqlite3.OperationalError:
            raise InputError(
                f"another process uses the journal {file}; end that one, or leave this run to it"
            ) from None
        yield


def _connection(file: Path) -> sqlite3.Connection:
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))  # before SQLite creates it for all
    connection = sqlite3.connect(file, timeout=1.0, isolation_level=None, check_same_thread=False)
    file.chmod(0o600)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")
    return connection


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


def _row(link: Link) -> tuple[int, str, str]:
    return link.number, link.body, link.digest


def _sha_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
