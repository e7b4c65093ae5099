"""An account: reserve before the door is opened, and keep what was reserved."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.budget.caps import Guarantee, caps_of
from tacit.budget.chain import Entry
from tacit.budget.charge import Charge
from tacit.budget.filter import check_fits
from tacit.budget.head import Head, read_head, replace_head, write_head
from tacit.budget.places import SUFFIX, account_file, accounts_folder, heads_folder
from tacit.budget.process import is_gone, this_process
from tacit.budget.state import AccountTerms, Purpose, State, state_of
from tacit.budget.store import add, connected, create, entries_of, last_of, locked, told
from tacit.errors import AccountError, InputError


@dataclass(frozen=True)
class Account:
    """An account by its name; nothing of it is held in memory.

    Attributes
    ----------
    name
        Of the account.
    folder
        Where its file lies; None for the user's data folder.
    partition
        A public name of the division of the records among agents. Runs with one name are added up
        agent by agent, so the same name must mean the same agent for every record. None charges
        every run as if its division were another one.
    """

    name: str
    folder: Path | None = None
    partition: str | None = None

    @property
    def file(self) -> Path:
        """The file."""
        return account_file(self.name, accounts_folder(self.folder))

    def state(self) -> State:
        """Return what the account holds.

        Raises
        ------
        InputError
            If there is no such account, it cannot be read, or it was edited, cut or replaced.
        """
        with self._connected() as connection:
            return self._checked(connection)

    def reserve(self, charge: Charge, purpose: Purpose) -> Reservation:
        """Reserve the events of a run, before a record is read, and return the reservation.

        Reservations of processes that are gone, which never opened their door, are returned first.

        Raises
        ------
        AccountError
            If they do not fit (`tacit.budget.check_fits`).
        InputError
            If the account cannot be used, or the charge does not suit its terms.

        Notes
        -----
        **Guarantee.** State and decision are read and written under one write lock, so no other
        process reserves in between, and the entry is on the disk when this returns.
        """
        run = secrets.token_hex(8)
        if charge.partition is None and self.partition is not None:
            charge = dataclasses.replace(charge, partition=self.partition)
        with ExitStack() as stack:
            connection = stack.enter_context(self._connected())
            with told(self.file), locked(connection):
                state = self._checked(connection)
                self._check_head_writable(state)
                last = _without_the_gone(connection, state)
                state = self._checked(connection)
                check_fits(state, charge, purpose)
                content = {
                    "kind": "reserved",
                    "run": run,
                    "charge": charge.to_dict(),
                    "purpose": _written(purpose),
                    "process": this_process(),
                }
                add(connection, last, _dated(content))
            return Reservation(self, run, charge, connection, stack.pop_all())

    def raise_to(self, guarantee: Guarantee) -> State:
        """Replace the guarantee by a larger one, which then is the guarantee for all runs.

        Raises
        ------
        AccountError
            If epsilon or delta would be smaller, or a cap below what is charged already.
        """

        def raised(state: State) -> dict[str, Any]:
            _check_larger(state, guarantee)
            return {"kind": "raised", "guarantee": dataclasses.asdict(guarantee)}

        return self._changed(raised)

    def accept(self) -> State:
        """State that the file is the right one, whatever the head elsewhere says.

        Raises
        ------
        InputError
            If the file cannot be read or its chain is broken: nothing can be accepted then.
        """
        with self._connected() as connection:
            with told(self.file), locked(connection):
                entries = entries_of(connection, self.name)
                state = self._state(entries)
                why = self._accepted(entries, self._head(state))
                if why is not None:
                    add(connection, entries[-1], _dated({"kind": "accepted", "why": why}))
            with told(self.file), locked(connection):
                state = self._state(entries_of(connection, self.name))
                file = self._head_file(state)
                file.parent.mkdir(parents=True, exist_ok=True)
                replace_head(file, state.last)
        return state

    def _accepted(self, entries: Sequence[Entry], head: Head | None) -> str | None:
        """Return what is accepted, in words; None if nothing is amiss."""
        if head is None:
            return f"accepted by its owner with {len(entries)} entries; no head was kept here"
        if _contains(entries, head):
            return None
        return (
            f"accepted by its owner with {len(entries)} entries, which are not those that end in "
            f"number {head.number}: answers that they do not hold are not covered"
        )

    def _changed(self, change: Callable[[State], Mapping[str, Any]]) -> State:
        with self._connected() as connection:
            with told(self.file), locked(connection):
                state = self._checked(connection)
                add(connection, state.last, _dated(change(state)))
            self._advance_head(connection)
            return self._checked(connection)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if not self.file.is_file():
            raise InputError(
                f"there is no account {self.name!r} in {self.file.parent}; tacit budget list shows "
                f"those there are, tacit budget open {self.name} makes one"
            )
        with connected(self.file) as connection:
            yield connection

    def _checked(self, connection: sqlite3.Connection) -> State:
        entries = entries_of(connection, self.name)
        state = self._state(entries)
        head = self._head(state)
        if head is None or not _contains(entries, head):
            known = "no head of it is kept on this machine"
            if head is not None:
                known = (
                    f"the head kept elsewhere is number {head.number}, which its {len(entries)} "
                    "entries do not lead to"
                )
            raise InputError(
                f"account {self.name!r} may have been cut or replaced by an older copy: {known}. "
                f"Put the right file back, or say tacit budget accept {self.name}"
            )
        return state

    def _state(self, entries: Sequence[Entry]) -> State:
        try:
            state = state_of(entries)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"account {self.name!r} does not hold what an account holds; put the right file "
                "back"
            ) from error
        if state.name != self.name:
            raise InputError(
                f"the file {self.file} is the account {state.name!r}; give it its name back"
            )
        return state

    def _head_file(self, state: State) -> Path:
        return heads_folder() / f"{state.identity}.head"

    def _head(self, state: State) -> Head | None:
        with told(self.file):
            return read_head(self._head_file(state))

    def _check_head_writable(self, state: State) -> None:
        with told(self._head_file(state)), self._head_file(state).open("r+b"):
            pass

    def _advance_head(self, connection: sqlite3.Connection) -> None:
        """Write the last entry as the head, under the lock, so that it never goes back."""
        with told(self.file), locked(connection):
            state_file = self._head_file(_first(connection))
            write_head(state_file, last_of(connection))


@dataclass(eq=False)
class Reservation:
    """A place in an account that is kept for one run.

    It is good for one run: `begin` may be called once, and after it nothing is returned.
    """

    account: Account
    run: str
    charge: Charge
    _connection: sqlite3.Connection
    _held: ExitStack
    _begun: bool = False
    _used: bool = False

    def begin(self) -> None:
        """Write the mark after which records may be read.

        Raises
        ------
        AccountError
            If the reservation was returned or opened before. No record may be read then.
        InputError
            If the mark, or the head elsewhere, cannot be written. No record may be read then.

        Notes
        -----
        **Guarantee.** Mark and head are on the disk when this returns; an error leaves the charge
        where it was.
        """
        self._add({"kind": "opened"}, allowed=("reserved",))
        self._begun = True
        self.account._advance_head(self._connection)

    def use(self, charge: Charge) -> None:
        """Use the reservation for a run with these events; it is begun if it was not.

        Raises
        ------
        AccountError
            If it was made for other events, or used before.
        """
        named = dataclasses.replace(charge, partition=self.charge.partition)
        if self._used or named != self.charge:
            raise AccountError(
                "this reservation was made for another run, or used already; reserve for each run "
                "of its own"
            )
        if not self._begun:
            self.begin()
        self._used = True

    def note_files(self, digests: Sequence[str]) -> None:
        """Write the salted digests of the files that the run reads."""
        self._add({"kind": "files", "digests": list(digests)}, allowed=("opened",))

    def give_back(self) -> None:
        """Return the reservation, if no record was read; else do nothing."""
        if not self._begun:
            self._add({"kind": "returned"}, allowed=("reserved",))
        self._held.close()

    def close(self, *, released: bool) -> State:
        """Write how the run ended, and return what the account then holds; the charge stays."""
        with self._held:
            result = "released" if released else "failed"
            self._add({"kind": "closed", "result": result}, allowed=("opened",))
            return self.account._checked(self._connection)

    def _add(self, content: Mapping[str, Any], *, allowed: tuple[str, ...]) -> None:
        file = self.account.file
        with told(file), locked(self._connection):
            state = self.account._checked(self._connection)
            status = state.run(self.run).status
            if status not in allowed:
                raise AccountError(
                    f"the reservation of this run in account {self.account.name!r} is "
                    f"{status!r}, so no record may be read for it; run again"
                )
            add(self._connection, state.last, _dated({**content, "run": self.run}))


def open_account(
    name: str, guarantee: Guarantee, terms: AccountTerms, *, folder: Path | None = None
) -> Account:
    """Open an account and return it.

    Raises
    ------
    AccountError
        If there is one of that name.
    InputError
        If the name is none, the guarantee leaves no room, or nothing can be written.
    """
    account = Account(name, folder)
    caps_of(guarantee)
    file, identity = account.file, secrets.token_hex(16)
    content = {
        "kind": "account",
        "format": "tacit.account",
        "version": 1,
        "id": identity,
        "name": name,
        "salt": secrets.token_hex(16),
        "guarantee": dataclasses.asdict(guarantee),
        "terms": dataclasses.asdict(terms),
    }
    heads = heads_folder()

    def head_first(entry: Entry) -> None:
        heads.mkdir(parents=True, exist_ok=True)
        write_head(heads / f"{identity}.head", entry)

    create(file, _dated(content), head_first)
    return account


def accounts_in(folder: Path | None = None) -> tuple[Account, ...]:
    """Return the accounts in a folder, by name; none if there is no such folder."""
    place = accounts_folder(folder)
    with told(place):
        files = sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else []
    names = (file.name.removesuffix(SUFFIX) for file in files if file.name[0] != ".")
    return tuple(Account(name, folder) for name in names)


def salted(salt: str, content: bytes) -> str:
    """Return the salted digest of a file, given the digest of its content."""
    return hashlib.sha256(bytes.fromhex(salt) + content).hexdigest()


def _without_the_gone(connection: sqlite3.Connection, state: State) -> Entry:
    """Return reservations without a mark whose process is gone, and the last entry."""
    last = state.last
    for run in state.runs:
        if run.status == "reserved" and is_gone(run.process):
            last = add(connection, last, _dated({"kind": "returned", "run": run.run}))
    return last


def _check_larger(state: State, guarantee: Guarantee) -> None:
    before = state.guarantee
    if guarantee.epsilon < before.epsilon or guarantee.delta < before.delta:
        raise AccountError(
            f"account {state.name!r} has epsilon {before.epsilon:g} at delta {before.delta:g}, and "
            "what was promised of answers that are given cannot be made smaller; give larger ones"
        )
    after = dataclasses.replace(state, guarantee=guarantee)
    total, caps = after.total, caps_of(guarantee)
    if (
        total.squares > caps.squares
        or total.divergence > caps.divergence
        or total.values > caps.values
    ):
        raise AccountError(
            "what is charged already would not fit the new shares; give a larger epsilon, or "
            "change the share of the curves by less"
        )


def _contains(entries: Sequence[Entry], head: Head) -> bool:
    return head.number <= len(entries) and entries[head.number - 1].digest == head.digest


def _first(connection: sqlite3.Connection) -> State:
    row = connection.execute("SELECT number, body, digest FROM entries WHERE number = 1").fetchone()
    return state_of([Entry(*row)])


def _dated(content: Mapping[str, Any]) -> dict[str, Any]:
    return {**content, "when": datetime.now(UTC).isoformat(timespec="seconds")}


def _written(purpose: Purpose) -> dict[str, Any]:
    return {
        name: "infinity" if isinstance(value, float) and math.isinf(value) else value
        for name, value in dataclasses.asdict(purpose).items()
    }
