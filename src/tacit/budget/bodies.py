"""The body of records that an account is about: the columns of its table, and its files.

An account promises a guarantee for all runs on one body of records. It cannot see which records a
run reads, so it is held to what is public about them: an account that was charged for a table
refuses one with other columns, and a file that one account was charged for is refused by another in
the same folder. Either may be right, when a column was added or an account was lost; the owner then
says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from tacit.budget.balance import Balance
from tacit.budget.state import State
from tacit.errors import AccountError


def salted(salt: str, content: bytes) -> str:
    """Return the salted digest of a file, given the digest of its content."""
    return hashlib.sha256(bytes.fromhex(salt) + content).hexdigest()


def table_digest(salt: str, columns: Iterable[str]) -> str:
    """Return the salted digest of the names of a table's columns, in whatever order.

    Examples
    --------
    >>> table_digest("00", ("age", "ill")) == table_digest("00", ("ill", "age"))
    True
    """
    return salted(salt, json.dumps(["columns", *sorted(set(columns))]).encode())


def check_table(balance: Balance, table: str) -> None:
    """Raise `AccountError` if an account was charged, and only for tables with other columns.

    Parameters
    ----------
    table
        Its digest.

    Notes
    -----
    Reservations that have not read a record count, so that of two first runs at a time one waits.
    """
    waiting = (one.get("table") for one in balance.waiting.values())
    known = {*balance.tables, *(one for one in waiting if one is not None)}
    if known and table not in known:
        raise AccountError(
            f"account {balance.name!r} was charged for a table with other columns than this one, "
            "so nothing is charged and no record read: its guarantee is of one body of records. "
            "Open an account for this table; if the records are the same, pass --another-table "
            "(another_table=True of Account)"
        )


def check_files(balance: Balance, contents: Iterable[bytes], others: Iterable[State]) -> None:
    """Raise `AccountError` if another account was charged for one of these files.

    Parameters
    ----------
    contents
        The digests of the files.
    others
        The accounts to look into.

    Notes
    -----
    **Guarantee.** Had a record been another one, the file that the other account was charged for
    would have held that one too: whether both are the same file does not depend on any record, as
    long as what was written into the file did not.
    """
    digests = list(contents)
    for other in others:
        known = {digest for run in other.charged for digest in run.files}
        if other.identity != balance.identity and known & {salted(other.salt, d) for d in digests}:
            raise AccountError(
                f"a file of this run was charged to account {other.name!r}, so nothing is charged "
                f"to account {balance.name!r} and no record read: the guarantees of both would add "
                f"up for its records. Charge account {other.name!r}; if both are meant, pass "
                "--another-account (another_account=True of Account)"
            )
