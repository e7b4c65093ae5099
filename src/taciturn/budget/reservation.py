"""A reservation: a place in an account that is kept for one run."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from taciturn.budget.balance import Balance, balance_after, record, status_of
from taciturn.budget.charge import Charge
from taciturn.budget.places import head_file
from taciturn.budget.store import (
    PATIENCE,
    digest_of,
    entries_of,
    head_locked,
    holds_head,
    last_of,
    locked,
    read_head,
    usable,
    write_head,
)
from taciturn.budget.sums import Share, share_of
from taciturn.errors import AccountError, InputError


@dataclass(eq=False)
class Reservation:
    """A place in an account that is kept for one run.

    It is good for one run of the process that made it: `begin` may be called once, and after it
    nothing is returned. A fork, a copy or another thread cannot use it a second time.

    Attributes
    ----------
    account, file
        The name of the account, and its file.
    run
        What the account calls it.
    share
        What its charge adds to the sums of the account.
    before, state
        The account before it, and after the last entry that was written here.
    begun
        Whether the mark was written after which records may be read.
    ready
        Whether head and mark are written, so that records may be read.
    """

    account: str
    file: Path
    run: str
    charge: Charge
    share: Share
    before: Balance
    state: Balance
    _connection: sqlite3.Connection
    _held: ExitStack
    begun: bool = False
    ready: bool = False
    _closed: bool = False
    # taken by the one run and never given back, also not to a copy, which has the same lock
    _unused: Lock = field(default_factory=Lock)
    _process: int = field(default_factory=os.getpid)

    def begin(self) -> None:
        """Write the mark after which records may be read.

        Raises `AccountError` if the reservation was returned or opened before. No record may be
        read then. `InputError` if the mark, or the head elsewhere, cannot be written. No record may
        be read then.

        **Guarantee.** Mark and head are on the disk when this returns; an error leaves the charge
        where it was.
        """
        self._add({"kind": "opened"}, status="reserved")
        self.begun = True
        advance_head(self._connection, self.account, self.file, head_file(self.state.identity))
        self.ready = True

    def use(self, charge: Charge) -> None:
        """Use the reservation for a run with these events; it is begun if it was not.

        Raises `AccountError` if it was made for other events or by another process, used before, or
        if its mark or head could not be written.
        """
        named = dataclasses.replace(charge, partition=self.charge.partition)
        mine = named == self.charge and self._process == os.getpid()
        # before the mark: of two threads, one must not pass while the other still writes the head
        if not mine or not self._unused.acquire(blocking=False):
            raise AccountError(
                "this reservation was made for another run or by another process, or used already; "
                "reserve for each run of its own"
            )
        if not self.ready:
            self.begin()

    def spend(self) -> None:
        """Mark it as used, so that it can only be closed."""
        self.begun = self.ready = True
        self._unused.acquire(blocking=False)

    def note_files(self, digests: Sequence[str]) -> None:
        """Write the salted digests of the files that the run reads."""
        self._add({"kind": "files", "digests": list(digests)}, status="opened")

    def give_back(self) -> None:
        """Return the reservation, if no record was read; else do nothing."""
        if not self.begun:
            self._add({"kind": "returned"}, status="reserved")
        self._held.close()

    def close(self, *, released: bool, answered: Charge | None = None) -> Balance:
        """Write how the run ended, and return what the account then holds; the charge stays.

        Nothing happens if it was closed before. Where the entry cannot be written the account shows
        the run as opened: the charge was on the disk before, and this is for the reader only.

        `answered`: the events that happened, of a run that others ended early; None for all of
        them.

        **Guarantee.** The sums of an account are over events that happened. A run that ends before
        its last round leaves events out; that is so whoever decides it, as long as the decision
        rests on what was answered and on public facts, as every choice of a filter's adversary
        does. Whether it does, the caller says by giving `answered`.
        """
        with self._held, suppress(InputError):
            if not self._closed:
                self._closed = True
                content: dict[str, Any] = {"result": "released" if released else "failed"}
                if answered is not None:
                    named = dataclasses.replace(answered, partition=self.charge.partition)
                    share = share_of(self.state.terms, self.state.caps.order, named)
                    content["charge"] = named.to_dict()
                    content["share"], content["instead_of"] = share.to_dict(), self.share.to_dict()
                self._add({"kind": "closed", **content}, status="opened")
        return self.state

    def _add(self, content: Mapping[str, Any], *, status: str) -> None:
        """Write an entry about this run, which must have that status, after those of others."""
        with usable(self.file):
            with locked(self._connection):
                entries, last = entries_of(self._connection, self.account), self.state.last
                if not holds_head(entries, last):
                    raise InputError(
                        f"account {self.account!r} was edited while a run was under way; put the "
                        "right file back"
                    )
                balance = balance_after(self.state, entries[last.number :])
                found = status_of(self.run, entries)
                if found != status:
                    raise AccountError(
                        f"the reservation of this run in account {self.account!r} is {found!r}, "
                        "so no record may be read for it; run again"
                    )
                balance = record(self._connection, balance, {**content, "run": self.run})
            self.state = balance


def advance_head(connection: sqlite3.Connection, name: str, file: Path, head: Path) -> None:
    """Write the last entry as the head, under the lock, so that it never goes back.

    Raises `InputError` if the head that stands is none of the entries: a copy of the account was
    charged.
    """
    with usable(file), locked(connection), head_locked(head, PATIENCE):
        stands = read_head(head)
        if stands is None or digest_of(connection, stands.number) != stands.digest:
            raise InputError(
                f"a copy of account {name!r} was charged meanwhile, or its head was lost, so no "
                "record is read; put the right file back"
            )
        write_head(head, last_of(connection))
