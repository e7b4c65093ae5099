"""An account: reserve before the door is opened, and keep what was reserved."""

from __future__ import annotations

import dataclasses
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from taciturn.budget.balance import (
    Balance,
    State,
    balance_of,
    check_files,
    check_table,
    opening_content,
    read_state,
    record,
    table_digest,
)
from taciturn.budget.caps import Guarantee, caps_of
from taciturn.budget.charge import AccountTerms, Charge, Purpose
from taciturn.budget.filter import check_fits
from taciturn.budget.places import (
    SUFFIX,
    account_file,
    accounts_folder,
    head_file,
    place_file,
    private_folder,
)
from taciturn.budget.reservation import Reservation, advance_head
from taciturn.budget.store import (
    PATIENCE,
    Entry,
    Head,
    connected,
    create,
    entries_of,
    head_locked,
    holds_head,
    locked,
    read_head,
    replace_file,
    replace_head,
    usable,
    write_head,
)
from taciturn.budget.sums import share_of
from taciturn.errors import AccountError, InputError

# after which a reservation that was not opened is returned
_PATIENCE = timedelta(hours=1)


@dataclass(frozen=True)
class Account:
    """An account by its name; nothing of it is held in memory.

    Attributes
    ----------
    folder
        Where its file lies; None for the user's data folder.
    partition
        A public name of the division of the records among agents. Runs with one name are added up
        agent by agent, so the same name must mean the same agent for every record. None charges
        every run as if its division were another one.
    table
        The names of the columns of the table that runs read; None where there is none.
    another_table, another_account
        Whether a table with other columns may be charged, and a file that another account in the
        folder was charged for.
    """

    name: str
    folder: Path | None = None
    partition: str | None = None
    table: tuple[str, ...] | None = None
    another_table: bool = False
    another_account: bool = False

    def for_table(self, columns: Iterable[str]) -> Account:
        """Return the account for runs on a table with these columns."""
        return dataclasses.replace(self, table=tuple(columns))

    def check_table(self) -> None:
        """Raise `AccountError` if the account was charged for other tables than this one only."""
        if self.table is not None and not self.another_table:
            state = self.state()
            check_table(state, table_digest(state.salt, self.table))

    def check_files(self, contents: Iterable[bytes]) -> None:
        """Raise `AccountError` if another account in the folder was charged for a file.

        `contents` are the digests of the files that a run would read.
        """
        if not self.another_account:
            check_files(self.state(), contents, _readable(accounts_in(self.folder)))

    @property
    def file(self) -> Path:
        """The file."""
        return account_file(self.name, accounts_folder(self.folder))

    def state(self) -> State:
        """Return what the account holds.

        Raises `InputError` if there is no such account, it cannot be read, or it was edited, cut or
        replaced.
        """
        with self._connected() as connection:
            return self._checked(connection)

    def around(self, run: str) -> tuple[Balance, Balance]:
        """Return what the account held before a run was reserved, and after its last entry.

        Runs that others reserved meanwhile are in the second balance.

        Raises `InputError` as `state`, or if the account has no such run.
        """
        with self._connected() as connection:
            self._checked(connection)
            entries = entries_of(connection, self.name)
        about = [entry for entry in entries if entry.content.get("run") == run]
        if not about:
            raise InputError(f"account {self.name!r} has no run {run!r}; name the right account")
        first, before = entries[0], entries[about[0].number - 2]
        return balance_of(first, before), balance_of(first, about[-1])

    def reserve(self, charge: Charge, purpose: Purpose) -> Reservation:
        """Reserve the events of a run, before a record is read, and return the reservation.

        Reservations that were not opened within an hour are returned first.

        Raises `AccountError` if they do not fit (`taciturn.budget.check_fits`), or the table has
        other columns than those that the account was charged for; `InputError` if the account
        cannot be used, or the charge does not suit its terms.

        **Guarantee.** State and decision are read and written under one write lock, so no other
        process reserves in between, and the entry is on the disk when this returns.
        """
        run = secrets.token_hex(8)
        if charge.partition is None and self.partition is not None:
            charge = dataclasses.replace(charge, partition=self.partition)
        with ExitStack() as stack:
            connection = stack.enter_context(self._connected())
            with usable(self.file), locked(connection):
                before = self._checked(connection).balance
                self._check_head_writable(before)
                before = _without_the_old(connection, before)
                table = self._checked_table(before)
                check_fits(before, charge, purpose)
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
        """Return the reservation of a run that is under way, of a process that is gone.

        It can be closed, and nothing else: its charge is on the disk, and its door was opened.

        Raises `InputError` if the account has no such run, or it is not under way.
        """
        with ExitStack() as stack:
            connection = stack.enter_context(self._connected())
            state = self._checked(connection)
            found = state.run(run)
            if found is None or found.status != "opened":
                raise InputError(
                    f"account {self.name!r} has no run {run!r} under way; name the account that "
                    "the run was accepted with"
                )
            # its process may have ended between the mark and the head
            advance_head(connection, self.name, self.file, head_file(state.identity))
            now, of_run = state.balance, (self.name, self.file, run, found.charge, found.share)
            reservation = Reservation(*of_run, now, now, connection, stack.pop_all())
        reservation.spend()
        return reservation

    def raise_to(self, guarantee: Guarantee) -> State:
        """Replace the guarantee by a larger one, which then is the guarantee for all runs.

        The order of divergences stays as it is, once there is a share for them.

        Raises `AccountError` if epsilon, delta or a cap would be smaller, or another order is
        given.

        **Guarantee.** Whether an account is raised may depend on its answers. As no cap shrinks,
        the new caps hold along every history, those in which nothing is raised included; so the new
        guarantee is that of a filter whose caps were the new ones from the start. Of several
        amounts that an owner might have raised it to, the largest is what holds.
        """
        old = self.state()
        if old.caps.divergence > 0 and guarantee.order is None and guarantee.curves > 0:
            guarantee = dataclasses.replace(guarantee, order=old.caps.order)

        def raised(state: State) -> dict[str, Any]:
            _check_larger(state, guarantee)
            return {"kind": "raised", "guarantee": dataclasses.asdict(guarantee)}

        return self._changed(raised)

    def accept(self) -> State:
        """State that the file is the right one, whatever the head elsewhere says.

        Raises `InputError` if the file cannot be read or its chain is broken: nothing can be
        accepted then.
        """
        with self._connected() as connection:
            with usable(self.file), locked(connection):
                entries = entries_of(connection, self.name)
                state = read_state(self.name, entries)
                head, known = (
                    self._head(state),
                    f"accepted by its owner with {len(entries)} entries",
                )
                why = None
                if head is None:
                    why = f"{known}; no head was kept here"
                elif not holds_head(entries, head):
                    why = (
                        f"{known}, which are not those that end in number {head.number}: answers "
                        "that they do not hold are not covered"
                    )
                elif not self._is_in_place(state):
                    why = "accepted by its owner in the place of another account"
                if why is not None:
                    record(connection, state.balance, {"kind": "accepted", "why": why})
            with usable(self.file), locked(connection):
                state = read_state(self.name, entries_of(connection, self.name))
                file = head_file(state.identity)
                private_folder(file.parent)
                with head_locked(file, PATIENCE):
                    replace_head(file, state.last)
                    replace_file(place_file(self.file), state.identity.encode())
        return state

    def _changed(self, change: Callable[[State], Mapping[str, Any]]) -> State:
        with self._connected() as connection:
            with usable(self.file), locked(connection):
                state = self._checked(connection)
                record(connection, state.balance, change(state))
            state = self._checked(connection)
            advance_head(connection, self.name, self.file, head_file(state.identity))
            return state

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if not self.file.is_file():
            raise InputError(
                f"there is no account {self.name!r} in {self.file.parent}; taciturn budget list "
                f"shows those there are, taciturn budget open {self.name} makes one"
            )
        with connected(self.file) as connection:
            yield connection

    def _checked_table(self, balance: Balance) -> str | None:
        """Return the digest of the table, which the account may be charged for; None without."""
        if self.table is None:
            return None
        table = table_digest(balance.salt, self.table)
        if not self.another_table:
            check_table(balance, table)
        return table

    def _checked(self, connection: sqlite3.Connection) -> State:
        """Return the account after reading every entry: digests, balances, the head and place.

        Raises `InputError` if it was edited, cut or replaced by an older copy, or by another
        account.
        """
        # the head first: another process may add entries meanwhile, and the head follows them
        head = self._head(read_state(self.name, entries_of(connection, self.name, most=1)))
        entries = entries_of(connection, self.name)
        state = read_state(self.name, entries)
        if head is None or not holds_head(entries, head):
            known = "no head of it is kept on this machine"
            if head is not None:
                known = (
                    f"the head kept elsewhere is number {head.number}, which its {len(entries)} "
                    "entries do not lead to"
                )
            raise InputError(
                f"account {self.name!r} may have been cut or replaced by an older copy: {known}. "
                f"Put the right file back, or say taciturn budget accept {self.name}"
            )
        if not self._is_in_place(state):
            raise InputError(
                f"the file {self.file} is another account of the name {self.name!r} than was "
                "opened there, so runs that were charged to that one are not in it. Put the right "
                f"file back, or say taciturn budget accept {self.name}"
            )
        return state

    def _head(self, balance: Balance) -> Head | None:
        with usable(self.file):
            return read_head(head_file(balance.identity))

    def _is_in_place(self, balance: Balance) -> bool:
        """Whether no other account was opened, or accepted, under this name in this folder.

        Of one that was moved here nothing is known, and it is taken as it is.
        """
        try:
            return place_file(self.file).read_text(encoding="ascii") == balance.identity
        except FileNotFoundError:
            return True
        except (OSError, UnicodeError):
            return False

    def _check_head_writable(self, balance: Balance) -> None:
        with usable(head_file(balance.identity)), head_file(balance.identity).open("r+b"):
            pass


def open_account(
    name: str, guarantee: Guarantee, terms: AccountTerms, *, folder: Path | None = None
) -> Account:
    """Open an account and return it.

    Raises `AccountError` if there is one of that name; `InputError` if the name is none, the
    guarantee leaves no room, or nothing can be written.
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
    head = head_file(identity)

    def head_first(entry: Entry) -> None:
        private_folder(head.parent)
        write_head(head, entry)

    create(file, opening_content(content), head_first)
    with usable(file):
        replace_file(place_file(file), identity.encode())
    return account


def accounts_in(folder: Path | None = None) -> tuple[Account, ...]:
    """Return the accounts in a folder, by name; none if there is no such folder."""
    place = accounts_folder(folder)
    with usable(place):
        files = sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else []
    names = (file.name.removesuffix(SUFFIX) for file in files if file.name[0] != ".")
    return tuple(Account(name, folder) for name in names)


def _readable(accounts: Iterable[Account]) -> Iterator[State]:
    """Yield the states of accounts; one that is refused says why when it is used itself."""
    for account in accounts:
        with suppress(InputError):
            yield account.state()


def _without_the_old(connection: sqlite3.Connection, balance: Balance) -> Balance:
    """Return reservations that were not opened in time; the balance is that afterwards.

    Their processes are gone, as a rule. One that lives after all finds its reservation returned,
    and reads no record.
    """
    now = datetime.now(UTC)
    for run, waiting in balance.waiting.items():
        if now - datetime.fromisoformat(waiting["when"]) > _PATIENCE:
            balance = record(connection, balance, {"kind": "returned", "run": run})
    return balance


def _check_larger(state: State, guarantee: Guarantee) -> None:
    before = state.guarantee
    if guarantee.epsilon < before.epsilon or guarantee.delta < before.delta:
        raise AccountError(
            f"account {state.name!r} has epsilon {before.epsilon:g} at delta {before.delta:g}, and "
            "what was promised of answers that are given cannot be made smaller; give larger ones"
        )
    old, new = state.caps, caps_of(guarantee)
    if old.divergence > 0 and new.order != old.order:
        raise AccountError(
            f"divergences are added up at the order {old.order} in account {state.name!r}, and the "
            f"order was fixed when it was opened; leave --order out"
        )
    if new.squares < old.squares or new.divergence < old.divergence or new.values < old.values:
        raise AccountError(
            "a cap would become smaller, and runs were chosen while it was larger; give a larger "
            "epsilon, or change the share of the curves by less"
        )
