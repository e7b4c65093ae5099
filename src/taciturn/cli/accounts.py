"""The account that a command charges: its options and confirmations."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from taciturn.budget import Account, ChargedRun
from taciturn.cli.console import Option, error_line
from taciturn.errors import AccountError, InputError
from taciturn.report.accounts import cost_text

ACCOUNT_OPTIONS: Mapping[str, Option] = {
    "account": Option(str, "Account to charge (see taciturn budget open). [default: none]"),
    "accounts": Option(Path, "Folder of accounts. [default: in the user's data folder]", "Account"),
    "another_table": Option(
        bool, "Charge --account although its earlier runs read other columns.", "Account"
    ),
    "another_account": Option(
        bool, "Charge --account although another account was charged for a file.", "Account"
    ),
}


def account_given(given: dict[str, Any], *, charges: bool = True) -> Account | None:
    """Remove the options of the account from `given`, and return the account, checked.

    None if no account is named, or another process charges it.
    """
    name, folder, *another = (given.pop(option, None) for option in ACCOUNT_OPTIONS)
    if name is None:
        if folder is not None:
            raise InputError("--accounts names a folder and no account; add --account NAME")
        if any(another):
            raise InputError("--another-table and --another-account go with --account NAME")
        return None
    if not charges:
        return None
    account = Account(name, folder, None, None, *map(bool, another))
    state = account.state()
    for run in state.charged[-1:]:
        if run.status == "opened":
            error_line(
                f"the last run of account {state.name!r} ({run.purpose.what}, {run.when}) is "
                f"under way or was killed; it may have answered, and stays charged: "
                f"{cost_text(state, run)}",
                kind="warning: ",
            )
    return account


def confirmed(
    account: Account, files: Iterable[bytes], columns: Iterable[str] | None = None
) -> Account:
    """Return the account for runs that read files of these digests, tables with these columns.

    If the account was charged for a table with other columns, or another account for one of the
    files, and no option permits it, the user must confirm; without a terminal, or if the answer is
    no, an `AccountError` refuses the run.
    """
    account = account if columns is None else account.for_table(columns)
    contents = list(files)
    if _is_meant(account.check_table):
        account = replace(account, another_table=True)
    if contents and _is_meant(lambda: account.check_files(contents)):
        account = replace(account, another_account=True)
    return account


@contextmanager
def failed_if_interrupted(account: Account | None) -> Iterator[None]:
    """Close the runs that the body charges as failed if Ctrl-C abandons the thread they run on.

    An error after a charge says that it was charged.

    **Guarantee.** Their charge stays. A run that is closed here is not released by its thread.
    """
    if account is None:
        yield
        return
    before = {run.run for run in account.state().runs}
    try:
        yield
    except InputError as error:
        if _opened_here(account, before):
            raise InputError(
                f"{error}; the run is charged to {account.name!r} all the same"
            ) from None
        raise
    except KeyboardInterrupt:
        with suppress(InputError):  # else they are shown as opened
            for run in _opened_here(account, before):
                if run.status == "opened":
                    account.reopened(run.run).close(released=False)
        raise


def _opened_here(account: Account, before: set[str]) -> list[ChargedRun]:
    """Return the runs that this process has charged since; none if the account cannot be read."""
    with suppress(InputError):
        runs = account.state().runs
        return [one for one in runs if one.process == os.getpid() and one.run not in before]
    return []


def _is_meant(check: Callable[[], None]) -> bool:
    """Return whether a check failed and the user overrides it; False if it passed."""
    try:
        check()
    except AccountError as error:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        error_line(str(error), kind="warning: ")
        if not typer.confirm("Charge it all the same?", err=True):
            raise
        return True
    return False
