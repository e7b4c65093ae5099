"""`taciturn budget`: open, raise and look at accounts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn.budget import (
    Account,
    AccountTerms,
    Guarantee,
    accounts_folder,
    accounts_in,
    open_account,
)
from taciturn.cli.console import Json, emit, error_line, path, printable, table, takes
from taciturn.errors import InputError
from taciturn.report.accounts import account_text, bar, export, promise

budget = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

NameArgument = Annotated[str, typer.Argument(help="The name of the account.", metavar="NAME")]
_FOLDER = "The folder of accounts. [default: in the user's data folder]"
Folder = Annotated[Path | None, typer.Option("--accounts", parser=path, help=_FOLDER)]
_CURVES: dict[str, tuple[Any, ...]] = {
    "curves": (float, "Share for answers that are not Gaussian on all records. [default: 0]"),
    "order": (int, "Of their divergences. [default: by the share]"),
}
_TERMS: dict[str, tuple[Any, ...]] = {
    "relation": (str, "replace_one [default], zero_out, bounded_change:BETA, target_change:BETA."),
    "unit": (str, "record, agent or person. [default: record]"),
    "observer": (str, "messages, or sum, by secure aggregation on trust. [default: messages]"),
    "colluders": (int, "Of the observer sum: how many agents tell their noise. [default: 1]"),
}


@budget.command("open")
@takes({**_CURVES, **_TERMS})
def open_(
    *,
    name: NameArgument,
    epsilon: Annotated[float, typer.Option(help="E, for all runs together.")],
    delta: Annotated[float, typer.Option(help="D, for all runs together.")],
    accounts: Folder = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Open an account: a guarantee for all runs on one body of records."""
    curves = {k: given[k] for k in _CURVES if given[k] is not None}
    terms = {k: given[k] for k in _TERMS if given[k] is not None}
    opened = open_account(
        name, Guarantee(epsilon, delta, **curves), AccountTerms(**terms), folder=accounts
    )
    _shown(opened, json=json)


_RAISED: dict[str, tuple[Any, ...]] = {
    "epsilon": (float, "The new E. [default: as it is]"),
    "delta": (float, "The new D. [default: as it is]"),
    "curves": (float, "The new share of curves."),
    "order": (int, "The new order of divergences."),
}


@budget.command("raise")
@takes(_RAISED)
def raise_(
    *, name: NameArgument, accounts: Folder = None, json: Json = False, **given: Any
) -> None:
    """Replace the guarantee of an account by a larger one, for all its runs."""
    account = Account(name, accounts)
    before = account.state().guarantee
    after = replace(before, **{k: new for k, new in given.items() if new is not None})
    if after == before:
        raise InputError("nothing is raised; give --epsilon, --delta, --curves or --order")
    account.raise_to(after)
    error_line(
        f"what was promised, epsilon {before.epsilon:g} at delta {before.delta:g}, is replaced: "
        f"of all runs, those before included, epsilon {after.epsilon:g} at delta {after.delta:g} "
        "holds from now on",
        kind="warning: ",
    )
    _shown(account, json=json)


@budget.command("list")
def list_(accounts: Folder = None, json: Json = False) -> None:
    """List the accounts in a folder, with what is left."""
    found = accounts_in(accounts)
    rows = [["account", "guarantee", "runs", "left"]]
    values: list[dict[str, Any]] = []
    for account in found:
        try:
            state = account.state()
        except InputError as error:
            rows.append([account.name, "refused", "", ""])
            values.append({"account": account.name, "refused": str(error)})
            error_line(str(error), kind="warning: ")
            continue
        rows.append([account.name, promise(state.guarantee), str(len(state.charged)),
                     state.left_text()])  # fmt: skip
        values.append(export(state, entries=False))
    if json:
        emit({"folder": str(accounts_folder(accounts)), "accounts": values})
    elif not found:
        typer.echo(f"There is no account in {printable(str(accounts_folder(accounts)))}")
    else:
        typer.echo(table(rows))


@budget.command("show")
def show(name: NameArgument, accounts: Folder = None, json: Json = False) -> None:
    """Show an account: its guarantee, every run with its cost, and what is left."""
    _shown(Account(name, accounts), json=json)


@budget.command("export")
def export_(name: NameArgument, accounts: Folder = None) -> None:
    """Print an account as one JSON object, with the events of every run."""
    emit(export(Account(name, accounts).state(), entries=True))


@budget.command("accept")
def accept(name: NameArgument, accounts: Folder = None, json: Json = False) -> None:
    """Accept the file of an account although its head differs or is missing."""
    account = Account(name, accounts)
    account.accept()
    error_line(
        "answers that this file does not hold are covered by nothing that it says", kind="warning: "
    )
    _shown(account, json=json)


def _shown(account: Account, *, json: bool) -> None:
    state = account.state()
    if json:
        emit(export(state, entries=False))
    else:
        typer.echo("\n".join([f"{account_text(state)}", "", bar(state), f"File: {account.file}"]))
