"""The entries of an account: canonical text, each with the digest of the one before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.errors import InputError

START = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One entry: its number from 1, its content as canonical JSON, its digest."""

    number: int
    body: str
    digest: str

    @property
    def content(self) -> dict[str, Any]:
        """The content, read."""
        values: dict[str, Any] = json.loads(self.body)
        return values


def following(last: Entry | None, content: Mapping[str, Any]) -> Entry:
    """Return the entry that comes after `last`."""
    body = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    number, previous = (1, START) if last is None else (last.number + 1, last.digest)
    return Entry(number, body, _digest(previous, number, body))


def check_chain(name: str, entries: Sequence[Entry], *, after: Entry | None = None) -> None:
    """Raise `InputError` unless numbers follow one another and every digest is right.

    Parameters
    ----------
    after
        The entry before the first of these; None for the start of the chain.
    """
    number, previous = (0, START) if after is None else (after.number, after.digest)
    for entry in entries:
        number += 1
        digest = _digest(previous, number, entry.body)
        if entry.number != number or entry.digest != digest:
            raise InputError(
                f"account {name!r} was edited or is damaged: entry {number} is not what was "
                "written; put the right file back, or open a new account"
            )
        previous = digest
    if number == 0:
        raise InputError(f"account {name!r} is empty; put the right file back")


def _digest(previous: str, number: int, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{number}\n{body}".encode()).hexdigest()
