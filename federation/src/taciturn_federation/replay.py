"""Whether the rows of a journal are those that its chain of digests says were written."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taciturn.budget import (
    Entry as Link,
)
from taciturn.errors import InputError


@dataclass
class _Written:
    """What the entries of a chain say was written; of blobs, their SHA-256.

    Attributes
    ----------
    runs
        By digest, the row of `run`.
    sent
        By run and round, digests of what was heard, chain, message and state.
    answers
        By run, round and question, the row of `answer` after these.
    said
        By run and name, the digest of the content.
    last
        By run, the last round.
    """

    runs: dict[str, list[Any]] = field(default_factory=dict)
    sent: dict[tuple[str, int], tuple[str, str, str, str]] = field(default_factory=dict)
    answers: dict[tuple[str, int, int], list[Any]] = field(default_factory=dict)
    said: dict[tuple[str, str], str] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

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
