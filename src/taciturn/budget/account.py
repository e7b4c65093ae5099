"""Accounts: a run reserves its charge before it reads a record, and the charge stays."""

from __future__ import annotations

import dataclasses
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from taciturn.budget import balance as balances
from taciturn.budget import store
from taciturn.budget.balance import Balance, State, read_state, record
from taciturn.budget.caps import Guarantee, caps_of
from taciturn.budget.charge import AccountTerms, Charge, Purpose, Share, share_of
from taciturn.errors import AccountError, InputError

_PATIENCE = timedelta(hours=1)  # a reservation not opened by then is returned


@dataclass(frozen=True)
class Account:
    """An account, by name; its content stays on disk.

    - `partition`: A public name of the division of the records among agents. Runs with the same
      name are added agent by agent, so the name must imply the same agent for every record. None
      charges every run as if on a new division.
    - `table`: The column names of the table that runs read; None without a table.
    - `another_table`, `another_account`: Whether to allow a table with other columns, and a file
      that another account in the folder was charged for.
    """

    name: str
    folder: Path | None = None  # of its file; None for the user's data folder
    partition: str | None = None
    table: tuple[str, ...] | None = None
    another_table: bool = False
    another_account: bool = False

    def for_table(self, columns: Iterable[str]) -> Account:
        """Return the account for runs on a table with these columns."""
        return dataclasses.replace(self, table=tuple(columns))

    def check_table(self) -> None:
        """Raise `AccountError` if the account was charged only for tables with other columns."""
        if self.table is not None:
            self._checked_table(self.state())

    def check_files(self, contents: Iterable[bytes]) -> None:
        """Raise `AccountError` if another account in the folder was charged for a file.

        `contents`: digests of the files that a run would read.
        """
        if not self.another_account:
            others = []
            for other in accounts_in(self.folder):
                with suppress(InputError):  # a damaged account raises when it is used itself
                    others.append(other.state())
            balances.check_files(self.state(), contents, others)

    @property
    def file(self) -> Path:
        """The account's file."""
        return store.account_file(self.name, store.accounts_folder(self.folder))

    def state(self) -> State:
        """Return the account's state.

        Raises `InputError` if there is no such account, it cannot be read, or it was edited,
        truncated or replaced.
        """
        with self._connected() as connection:
            return self._checked(connection)

    def around(self, run: str) -> tuple[Balance, Balance]:
        """Return the balances before a run was reserved and after its last entry.

        The second includes runs reserved in between. Raises `InputError` as `state` does, or if the
        account has no such run.
        """
        with self._connected() as connection:
            self._checked(connection)
            entries = store.entries_of(connection, self.name)
        about = [entry for entry in entries if entry.content.get("run") == run]
        if not about:
            raise InputError(f"account {self.name!r} has no run {run!r}; name the right account")
        first, before = entries[0], entries[about[0].number - 2]
        return balances.balance_of(first, before), balances.balance_of(first, about[-1])

    def reserve(self, charge: Charge, purpose: Purpose) -> Reservation:
        """Reserve the events of a run, before a record is read, and return the reservation.

        Reservations not opened within an hour are returned first. Raises `AccountError` if the
        events do not fit (`taciturn.budget.check_fits`) or the table's columns differ from the
        account's; `InputError` if the account cannot be used, or the charge does not suit its
        terms.

        **Guarantee.** One write lock covers reading the state and writing the entry, so no other
        process reserves in between; the entry is on disk when this returns.
        """
        run = secrets.token_hex(8)
        if charge.partition is None and self.partition is not None:
            charge = dataclasses.replace(charge, partition=self.partition)
        with ExitStack() as stack:
            connection = stack.enter_context(self._connected())
            with store.usable(self.file), store.locked(connection):
                before = self._checked(connection).balance
                head = store.head_file(before.identity)
                with store.usable(head), head.open("r+b"):
                    pass  # fail before the entry is written if the head cannot be
                before = _without_the_old(connection, before)
                table = self._checked_table(before)
                balances.check_fits(before, charge, purpose)
                share = share_of(before.terms, before.caps.order, charge)
                content = {
                    "kind": "reserved",
                    "run": run,
                    "charge": charge.to_dict(),
                    "share": share.to_dict(),
                    "purpose": purpose.to_dict(),
                    "process": os.getpid(),
                    **({} if table is None else {"table": table}),
                }
                after = record(connection, before, content)
            of_run = (self.name, self.file, run, charge, share, before, after)
            return Reservation(*of_run, connection, stack.pop_all())

    def reopened(self, run: str) -> Reservation:
        """Return the reservation of a run in progress whose process has ended.

        It can only be closed: its charge is on disk, and its door was opened. Raises `InputError`
        if the account has no such run, or it is not in progress.
        """
        with ExitStack() as stack:
            connection = stack.enter_context(self._connected())
            state = self._checked(connection)
            found = next((one for one in state.runs if one.run == run), None)
            if found is None or found.status != "opened":
                raise InputError(
                    f"account {self.name!r} has no run {run!r} under way; name the account that "
                    "the run was accepted with"
                )
            # its process may have ended between writing the mark and the head
            advance_head(connection, state, self.file)
            now, of_run = state.balance, (self.name, self.file, run, found.charge, found.share)
            reservation = Reservation(*of_run, now, now, connection, stack.pop_all())
        reservation.begun = reservation.ready = True
        reservation._unused.acquire(blocking=False)
        return reservation

    def raise_to(self, guarantee: Guarantee) -> State:
        """Replace the guarantee by a larger one, which then holds for all runs.

        The order of divergences is fixed once there is a share for them. Raises `AccountError` if
        epsilon, delta or a cap would be smaller, or the order different.

        **Guarantee.** Whether an account is raised may depend on its answers. As no cap shrinks,
        the new caps hold along every history, those in which nothing is raised included; so the new
        guarantee is that of a filter whose caps were the new ones from the start. If an owner might
        have raised it to several amounts, the largest one holds.
        """
        with self._connected() as connection:
            with store.usable(self.file), store.locked(connection):
                old = self._checked(connection)
                if old.caps.divergence > 0 and guarantee.order is None and guarantee.curves > 0:
                    guarantee = dataclasses.replace(guarantee, order=old.caps.order)
                balances.check_larger(old, guarantee)
                content = {"kind": "raised", "guarantee": dataclasses.asdict(guarantee)}
                record(connection, old.balance, content)
            state = self._checked(connection)
            advance_head(connection, state, self.file)
            return state

    def accept(self) -> State:
        """Accept the file as the right one, whatever head is stored.

        Raises `InputError` if the file cannot be read or its chain is broken.
        """
        with self._connected() as connection:
            with store.usable(self.file), store.locked(connection):
                entries = store.entries_of(connection, self.name)
                state = read_state(self.name, entries)
                head = self._head(state)
                known = f"accepted by its owner with {len(entries)} entries"
                if head is None:
                    why = f"{known}; no head was kept here"
                elif not store.contains_head(entries, head):
                    why = (
                        f"{known}, which are not those that end in number {head.number}: answers "
                        "that they do not hold are not covered"
                    )
                elif not self._is_in_place(state):
                    why = "accepted by its owner in the place of another account"
                else:
                    why = None
                if why is not None:
                    record(connection, state.balance, {"kind": "accepted", "why": why})
            with store.usable(self.file), store.locked(connection):
                state = read_state(self.name, store.entries_of(connection, self.name))
                file = store.head_file(state.identity)
                store.private_folder(file.parent)
                with store.head_lock(file, store.PATIENCE):
                    # overwrite any head, a later one included
                    store.replace_file(file, store.head_text(state.last))
                    store.replace_file(store.place_file(self.file), state.identity.encode())
        return state

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if not self.file.is_file():
            raise InputError(
                f"there is no account {self.name!r} in {self.file.parent}; taciturn budget list "
                f"shows those there are, taciturn budget open {self.name} makes one"
            )
        with store.connected(self.file) as connection:
            yield connection

    def _checked_table(self, balance: Balance) -> str | None:
        """Return the table's digest, if the account may be charged for it; None without one."""
        if self.table is None:
            return None
        table = balances.table_digest(balance.salt, self.table)
        if not self.another_table:
            balances.check_table(balance, table)
        return table

    def _checked(self, connection: sqlite3.Connection) -> State:
        """Return the account after checking every entry: digests, balances, head and place.

        Raises `InputError` if it was edited, truncated, or replaced by an older copy or another
        account.
        """
        # read the head first: another process may meanwhile add entries and then advance the head
        head = self._head(read_state(self.name, store.entries_of(connection, self.name, most=1)))
        entries = store.entries_of(connection, self.name)
        state = read_state(self.name, entries)
        if head is None or not store.contains_head(entries, head):
            known = "no head of it is kept on this machine"
            if head is not None:
                known = (
                    f"the head kept elsewhere is number {head.number}, which its {len(entries)} "
                    "entries do not lead to"
                )
            raise InputError(
                f"account {self.name!r} may have been cut or replaced by an older copy: {known}. "
                f"Put the right file back, or run taciturn budget accept {self.name}"
            )
        if not self._is_in_place(state):
            raise InputError(
                f"the file {self.file} is not the account {self.name!r} that was opened there, so "
                "it lacks the runs that were charged to that one. Put the right file back, or run "
                f"taciturn budget accept {self.name}"
            )
        return state

    def _head(self, balance: Balance) -> store.Head | None:
        with store.usable(self.file):
            return store.read_head(store.head_file(balance.identity))

    def _is_in_place(self, balance: Balance) -> bool:
        """Whether no other account was opened, or accepted, under this name in this folder.

        True for an account that was moved here, for which no place is recorded.
        """
        try:
            return store.place_file(self.file).read_text(encoding="ascii") == balance.identity
        except FileNotFoundError:
            return True
        except (OSError, UnicodeError):
            return False


def open_account(
    name: str, guarantee: Guarantee, terms: AccountTerms, *, folder: Path | None = None
) -> Account:
    """Open an account and return it.

    Raises `AccountError` if the name is taken; `InputError` if the name is invalid, the guarantee
    leaves no room, or nothing can be written.
    """
    account = Account(name, folder)
    caps_of(guarantee)
    file, identity = account.file, secrets.token_hex(16)
    content = {
        "kind": "account",
        "id": identity,
        "name": name,
        "salt": secrets.token_hex(16),
        "guarantee": dataclasses.asdict(guarantee),
        "terms": dataclasses.asdict(terms),
    }
    head = store.head_file(identity)

    def head_first(entry: store.Entry) -> None:
        store.private_folder(head.parent)
        store.write_head(head, entry)

    store.create(file, balances.opening_content(content), head_first)
    with store.usable(file):
        store.replace_file(store.place_file(file), identity.encode())
    return account


def accounts_in(folder: Path | None = None) -> tuple[Account, ...]:
    """Return the accounts in a folder, ordered by name; none if there is no such folder."""
    place = store.accounts_folder(folder)
    with store.usable(place):
        files = sorted(place.glob(f"*{store.SUFFIX}")) if place.is_dir() else []
    names = (file.name.removesuffix(store.SUFFIX) for file in files if file.name[0] != ".")
    return tuple(Account(name, folder) for name in names)


def _without_the_old(connection: sqlite3.Connection, balance: Balance) -> Balance:
    """Return reservations that were not opened in time to the budget, and the balance thereafter.

    Their processes have usually ended. One that still runs finds its reservation returned and reads
    no record.
    """
    now = datetime.now(UTC)
    for run, waiting in balance.waiting.items():
        if now - datetime.fromisoformat(waiting["when"]) > _PATIENCE:
            balance = record(connection, balance, {"kind": "returned", "run": run})
    return balance


@dataclass(eq=False)
class Reservation:
    """A reserved charge, valid for one run of the process that made it.

    `begin` may be called once, after which the charge is not returned. A fork, a copy or another
    thread cannot use the reservation again.

    - `account`, `file`: The name of the account, and its file.
    - `before`, `state`: The balance before the reservation, and after the last entry it wrote.
    """

    account: str
    file: Path
    run: str  # the account's identifier of the run
    charge: Charge
    share: Share  # the charge's contribution to the sums of the account
    before: Balance
    state: Balance
    _connection: sqlite3.Connection
    _held: ExitStack
    begun: bool = False  # whether the mark is written, after which the charge stays
    ready: bool = False  # whether mark and head are written, so that records may be read
    _closed: bool = False
    # acquired by the one run and never released; a copy shares the lock
    _unused: Lock = field(default_factory=Lock)
    _process: int = field(default_factory=os.getpid)

    def begin(self) -> None:
        """Write the mark after which records may be read.

        Raises `AccountError` if the reservation was returned or already opened; `InputError` if the
        mark, or the stored head, cannot be written. After an error no record may be read.

        **Guarantee.** Mark and head are on disk when this returns; after an error the charge stays.
        """
        self._add({"kind": "opened"}, status="reserved")
        self.begun = True
        advance_head(self._connection, self.state, self.file)
        self.ready = True

    def use(self, charge: Charge) -> None:
        """Use the reservation for a run with these events; begin it if necessary.

        Raises `AccountError` if it was made for other events or by another process, was used
        before, or its mark or head could not be written.
        """
        named = dataclasses.replace(charge, partition=self.charge.partition)
        mine = named == self.charge and self._process == os.getpid()
        # lock before the mark: a second thread must not pass while the first writes the head
        if not mine or not self._unused.acquire(blocking=False):
            raise AccountError(
                "this reservation was made for another run or by another process, or used already; "
                "reserve for each run separately"
            )
        if not self.ready:
            self.begin()

    def note_files(self, digests: Sequence[str]) -> None:
        """Write the salted digests of the files that the run reads."""
        self._add({"kind": "files", "digests": list(digests)}, status="opened")

    def give_back(self) -> None:
        """Return the reservation to the budget if no record was read; else do nothing."""
        if not self.begun:
            self._add({"kind": "returned"}, status="reserved")
        self._held.close()

    def close(self, *, released: bool, answered: Charge | None = None) -> Balance:
        """Record the outcome of the run and return the balance; the charge stays.

        No effect if it was closed before. If the entry cannot be written, the account shows the run
        as opened: the entry only informs, since the charge is on disk. Raises `AccountError` if
        another thread or process closed the run, which may then not be released.

        `answered`: the events that occurred in a run that others ended early; None for all events.

        **Guarantee.** An account sums the costs of events that occurred. A run that ends before its
        last round may omit the remaining events, whoever ended it, if that decision depends only on
        answers and public facts, like every choice of a filter's adversary. By passing `answered`
        the caller asserts this.
        """
        if self._closed:
            return self.state
        self._closed = True
        content: dict[str, Any] = {"result": "released" if released else "failed"}
        with self._held:
            try:
                if answered is not None:
                    named = dataclasses.replace(answered, partition=self.charge.partition)
                    share = share_of(self.state.terms, self.state.caps.order, named)
                    content["charge"] = named.to_dict()
                    content["share"], content["instead_of"] = share.to_dict(), self.share.to_dict()
                self._add({"kind": "closed", **content}, status="opened")
            except InputError as error:
                if released and isinstance(error, AccountError):
                    raise
        return self.state

    def _add(self, content: Mapping[str, Any], *, status: str) -> None:
        """Append an entry about this run, which must have that status."""
        with store.usable(self.file):
            with store.locked(self._connection):
                entries, last = store.entries_of(self._connection, self.account), self.state.last
                if not store.contains_head(entries, last):
                    raise InputError(
                        f"account {self.account!r} was edited while a run was under way; put the "
                        "right file back"
                    )
                state = read_state(self.account, entries)
                found = next((run.status for run in state.runs if run.run == self.run), None)
                if found != status:
                    raise AccountError(
                        f"the reservation of this run in account {self.account!r} is {found!r}, "
                        "so no record may be read under it; run again"
                    )
                after = record(self._connection, state.balance, {**content, "run": self.run})
            self.state = after


def advance_head(connection: sqlite3.Connection, balance: Balance, file: Path) -> None:
    """Write the last entry as the head, under the lock, so that the head never moves back.

    Raises `InputError` if the present head is not among the entries: a copy of the account was
    charged.
    """
    head = store.head_file(balance.identity)
    with store.usable(file), store.locked(connection), store.head_lock(head, store.PATIENCE):
        old = store.read_head(head)
        if old is None or store.digest_of(connection, old.number) != old.digest:
            raise InputError(
                f"a copy of account {balance.name!r} was charged meanwhile, or its head was lost, "
                "so no record is read; restore the right file"
            )
        store.write_head(head, store.last_of(connection))
