"""What is verified of an account before it is believed, and before each charge.

The head of the chain stands outside the file, and so it is the head that says which file is right.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tacit.budget.balance import Balance, balance_of
from tacit.budget.chain import Entry
from tacit.budget.head import Head, read_head
from tacit.budget.places import head_file, place_file
from tacit.budget.state import State, state_of
from tacit.budget.store import entries_of, told
from tacit.errors import InputError

Found = TypeVar("Found", bound=Balance)


def checked_state(connection: sqlite3.Connection, name: str, file: Path) -> State:
    """Return an account after reading every entry: digests, balances and the head.

    Raises
    ------
    InputError
        If it was edited, cut or replaced by an older copy.
    """
    # the head first: another process may add entries meanwhile, and the head follows them
    first = entries_of(connection, name, most=1)
    head = head_of(understood(name, file, lambda: balance_of(first[0], first[0])), file)
    entries = entries_of(connection, name)
    state = whole(entries, name, file)
    check_head(head, entries, name)
    _check_place(state, file)
    return state


def whole(entries: Sequence[Entry], name: str, file: Path) -> State:
    """Return what entries say whose digests were checked."""
    return understood(name, file, lambda: state_of(entries))


def understood(name: str, file: Path, read: Callable[[], Found]) -> Found:
    """Return what is read of an account, which must be that of its name."""
    try:
        found = read()
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"account {name!r} does not hold what an account holds; put the right file back"
        ) from error
    if found.name != name:
        raise InputError(f"the file {file} is the account {found.name!r}; give it its name back")
    return found


def head_of(balance: Balance, file: Path) -> Head | None:
    """Return the head that is kept elsewhere."""
    with told(file):
        return read_head(head_file(balance.identity))


def is_in_place(identity: str, file: Path) -> bool:
    """Whether no other account was opened, or accepted, under this name in this folder.

    Of one that was moved here nothing is known, and it is taken as it is.
    """
    try:
        return place_file(file).read_text(encoding="ascii") == identity
    except FileNotFoundError:
        return True
    except (OSError, UnicodeError):
        return False


def _check_place(balance: Balance, file: Path) -> None:
    if not is_in_place(balance.identity, file):
        raise InputError(
            f"the file {file} is another account of the name {balance.name!r} than was opened "
            "there, so runs that were charged to that one are not in it. Put the right file back, "
            f"or say tacit budget accept {balance.name}"
        )


def check_head(head: Head | None, entries: Sequence[Entry], name: str) -> None:
    """Raise `InputError` unless the head is one of the entries."""
    if head is None or not contains(entries, head):
        raise _another(head, len(entries), name)


def _another(head: Head | None, entries: int, name: str) -> InputError:
    known = "no head of it is kept on this machine"
    if head is not None:
        known = (
            f"the head kept elsewhere is number {head.number}, which its {entries} entries do not "
            "lead to"
        )
    return InputError(
        f"account {name!r} may have been cut or replaced by an older copy: {known}. "
        f"Put the right file back, or say tacit budget accept {name}"
    )


def contains(entries: Sequence[Entry], head: Head) -> bool:
    """Whether a head is one of the entries."""
    return head.number <= len(entries) and entries[head.number - 1].digest == head.digest
