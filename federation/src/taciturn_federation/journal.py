"""A party's journal: what it received and what it sends, on the disk before it is sent.

The chained store of accounts (`taciturn.budget`): every write adds an entry to a chain of digests,
whose head is kept in another folder, so that a journal that was restored from a backup is noticed.
Messages, states and other bytes stand beside the entries, which hold their digests. Keys of noise
are in neither.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from taciturn.budget import Entry as Link
from taciturn.budget import (
    add,
    chain_of,
    contains_head,
    head_lock,
    heads_folder,
    locked,
    private_folder,
    read_head,
    salted,
    sync_folder,
    synchronise,
    write_head,
)
from taciturn.errors import InputError, PrivacyError

_FORMAT = "taciturn.journal 2"
_TABLES = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL) STRICT;
CREATE TABLE content (entry INTEGER NOT NULL, name TEXT NOT NULL, bytes BLOB NOT NULL,
  PRIMARY KEY (entry, name)) STRICT;
"""
_ADVICE = "Put the newest file back, or name a new journal and request a new proposal"


class Entry(NamedTuple):
    """One answer as the ledger has it, without any number of the answer."""

    local: int
    kind: int
    scale: float
    exponent: int
    rate: float
    batch: int


class RunRow(NamedTuple):
    """A run as the journal has it."""

    digest: str
    proposal: str
    agent: int
    data: str  # salted digest of the file of records
    reserved: str  # the reservation in the account; empty without an account
    phase: str  # "accepted", "running", "finished", "abandoned" or "refused"
    line: str  # how it ended, in one line


class RoundRow(NamedTuple):
    """A round that was answered."""

    round: int
    inputs: bytes  # digests of the messages that it was computed from, 32 bytes each
    message: bytes  # the envelope
    state: bytes  # the method's state afterwards; empty once a later round is there
    transcript: bytes  # transcript digest, this round included
    entries: tuple[Entry, ...] = ()  # of its answers


class Journal:
    """The journal in a file, which no other process may use meanwhile.

    **Guarantee.** A method that writes returns once the write is on the disk, and the head of the
    chain with the operating system. If it raises, the journal is as it was before, or ahead of its
    head. An entry or content that is missing, added or changed is an error at the next start: a
    site would answer those rounds again, with other noise.

    Raises `InputError` if another process has it, it cannot be used, was edited, or is older than
    its head.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._runs: dict[str, RunRow] = {}
        self._rounds: dict[str, dict[int, tuple[int, RoundRow]]] = {}  # with the entry's number
        self._states: dict[str, int] = {}  # the entry whose state a run resumes from
        self._values: dict[tuple[str, str], int] = {}
        self._digests: dict[tuple[int, str], str] = {}  # of all content
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
            try:  # copies of a journal share the lock
                stack.enter_context(head_lock(self._head, 0.0))
            except sqlite3.OperationalError:
                raise InputError(
                    f"another process uses the journal {file}; end that one, or leave this run to "
                    "it"
                ) from None
            self._last = self._verified()
            self._held = stack.pop_all()

    def close(self) -> None:
        """Release the file and its lock."""
        self._held.close()

    @property
    def head(self) -> tuple[int, str]:
        """The number of its last entry, and the digest of the chain up to it."""
        return self._last.number, self._last.digest

    # runs

    def run(self, digest: str) -> RunRow | None:
        """Return a run; None if the journal has none of that digest."""
        return self._runs.get(digest)

    def begin(self, row: RunRow) -> None:
        """Write a run that was accepted.

        Raises `InputError` if another journal of this user began it: this one would answer rounds
        that were answered from that one.
        """
        with self._usable():
            marker = self._head.with_name(f"run-{row.digest}-{row.agent}.journal")
            if not _claim(marker, self._identity):
                raise InputError(
                    f"run {row.digest[:16]} was begun with another journal, and {self.file} does "
                    "not hold what was answered; put that journal back, or request a new proposal"
                )
        self._write({"kind": "run", **row._asdict()})

    def set_phase(self, digest: str, phase: str, *, line: str = "", reserved: str = "") -> None:
        """Write how far a run is; without another reservation the one before stays."""
        content = {"kind": "phase", "run": digest, "phase": phase, "line": line}
        self._write({**content, "reserved": reserved or self._runs[digest].reserved})

    def data_digest(self, content: bytes) -> str:
        """Return the digest of a file of records as this journal writes it."""
        return salted(self._salt, content)

    # rounds

    def add(self, digest: str, row: RoundRow) -> None:
        """Write a round in one transaction: its charge, its message and its state."""
        if row.round in self._rounds.get(digest, {}):
            raise PrivacyError(f"round {row.round} is in the journal; it is answered once")
        self._write(
            {
                "kind": "round", "run": digest, "round": row.round, "inputs": row.inputs.hex(),
                "transcript": row.transcript.hex(), "entries": row.entries,
            },
            message=row.message,
            state=row.state,
        )  # fmt: skip

    def round(self, digest: str, turn: int) -> RoundRow | None:
        """Return a round that was answered; None if it was not."""
        if turn not in self._rounds.get(digest, {}):
            return None
        number, row = self._rounds[digest][turn]
        state = self._content(number, "state") if (number, "state") in self._digests else b""
        return row._replace(message=self._content(number, "message"), state=state)

    def last_round(self, digest: str) -> RoundRow | None:
        """Return the last round that was answered; None if none was."""
        rounds = self._rounds.get(digest)
        return self.round(digest, max(rounds)) if rounds else None

    def entries(self, digest: str) -> dict[int, tuple[Entry, ...]]:
        """Return the entries of every round that has some, in order."""
        rounds = sorted(self._rounds.get(digest, {}).items())
        return {turn: row.entries for turn, (_, row) in rounds if row.entries}

    # other bytes that must not change

    def put(self, digest: str, name: str, content: bytes) -> bytes:
        """Return what stands under a name of a run; `content` if nothing did before."""
        before = self.get(digest, name)
        if before is not None:
            return before
        self._write({"kind": "value", "run": digest, "name": name}, value=content)
        return content

    def get(self, digest: str, name: str) -> bytes | None:
        """Return what stands under a name of a run; None if nothing does."""
        number = self._values.get((digest, name))
        return None if number is None else self._content(number, "value")

    def runs_with(self, name: str) -> list[str]:
        """Return the digests of the runs that have something under a name."""
        return [run for run, other in self._values if other == name]

    # the file

    def _content(self, number: int, name: str) -> bytes:
        query = "SELECT bytes FROM content WHERE entry = ? AND name = ?"
        with self._usable():
            (row,) = self._connection.execute(query, (number, name)).fetchall()
        return bytes(row[0])

    def _write(self, values: Mapping[str, Any], **content: bytes) -> None:
        """Write an entry with its content in one transaction."""
        digests = {name: _sha(one) for name, one in content.items()}
        with self._usable():
            with locked(self._connection):
                link = add(self._connection, self._last, {**values, "content": digests})
                rows = [(link.number, name, one) for name, one in content.items()]
                self._connection.executemany("INSERT INTO content VALUES (?, ?, ?)", rows)
                if values["kind"] == "round":  # the run resumes from the latest state alone
                    before = (self._states.get(values["run"], 0),)
                    query = "DELETE FROM content WHERE entry = ? AND name = 'state'"
                    self._connection.execute(query, before)
            self._last = link
            self._apply(link)
            # an earlier head is no error: it only notices less, and the journal itself is durable
            write_head(self._head, link, durable=False)

    def _apply(self, link: Link) -> None:
        """Take an entry into the tables in memory, which are those of all entries in order."""
        values, number = link.content, link.number
        for name, digest in values["content"].items():
            self._digests[number, name] = digest
        match values["kind"]:
            case "run":
                row = RunRow(*(values[name] for name in RunRow._fields))
                self._runs[row.digest] = row
            case "phase":
                change = {name: values[name] for name in ("phase", "line", "reserved")}
                self._runs[values["run"]] = self._runs[values["run"]]._replace(**change)
            case "round":
                run, turn = values["run"], values["round"]
                self._digests.pop((self._states.get(run, 0), "state"), None)
                self._states[run] = number
                inputs, transcript = (bytes.fromhex(values[n]) for n in ("inputs", "transcript"))
                entries = tuple(Entry(*one) for one in values["entries"])
                answered = RoundRow(turn, inputs, b"", b"", transcript, entries)
                self._rounds.setdefault(run, {})[turn] = number, answered
            case "value":
                self._values[values["run"], values["name"]] = number

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise errors of the database and of the system as `InputError`."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise InputError(
                f"the journal {self.file} cannot be written ({reason}), so nothing is answered; "
                "see that disk and folder can be written to, then start again: the run resumes "
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

    def _verified(self) -> Link:
        """Return the last entry, once chain, head and content agree."""
        links, head = chain_of(self._connection, f"journal {self.file}"), read_head(self._head)
        if head is None or not contains_head(links, head):
            raise InputError(
                f"the journal {self.file} is older than what was sent from it (a restored backup, "
                f"or its head was lost), and would answer rounds again. {_ADVICE}"
            )
        for link in links[1:]:
            self._apply(link)
        rows = self._connection.execute("SELECT entry, name, bytes FROM content")
        if {(number, name): _sha(content) for number, name, content in rows} != self._digests:
            raise InputError(
                f"the journal {self.file} was edited or is damaged: its content is not what was "
                f"written, and answered rounds would be answered again. {_ADVICE}"
            )
        write_head(self._head, links[-1])
        return links[-1]


def _claim(marker: Path, identity: str) -> bool:
    """Whether a run is this journal's: the first one that claims it has it.

    The marker is there with its content, or not at all: an empty one would match every journal.
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
