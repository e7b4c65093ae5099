"""`taciturn budget`: open, raise and look at accounts."""

from __future__ import annotations

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
from taciturn.cli.console import Json, emit, error_line, path, printable, table
from taciturn.errors import InputError
from taciturn.report.accounts import account_text, bar, export, promise

budget = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

NameArgument = Annotated[str, typer.Argument(help="The name of the account.", metavar="NAME")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--accounts",
        parser=path,
        help="The folder of accounts. [default: in the user's data folder]",
    ),
]
Epsilon = Annotated[float, typer.Option(help="E, of all runs together.")]
Delta = Annotated[float, typer.Option(help="D, of all runs together.")]


@budget.command("open")
def open_(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: NameArgument,
    epsilon: Epsilon,
    delta: Delta,
    curves: Annotated[
        float,
        typer.Option(help="Share set aside for answers that are not Gaussian on all records."),
    ] = 0.0,
    order: Annotated[
        int | None, typer.Option(help="Of their divergences. [default: by the share]")
    ] = None,
    relation: Annotated[
        str,
        typer.Option(help="replace_one, zero_out, bounded_change:BETA or target_change:BETA."),
    ] = "replace_one",
    unit: Annotated[str, typer.Option(help="record, agent or person.")] = "record",
    observer: Annotated[
        str, typer.Option(help="messages, or sum, which takes secure aggregation on trust.")
    ] = "messages",
    colluders: Annotated[
        int, typer.Option(help="Of the observer sum: how many agents tell their noise.")
    ] = 1,
    accounts: Folder = None,
    json: Json = False,
) -> None:
    """Open an account: a guarantee for all runs on one body of records."""
    guarantee = Guarantee(epsilon, delta, curves, order)
    terms = AccountTerms(relation, unit, observer, colluders)
    _shown(open_account(name, guarantee, terms, folder=accounts), json=json)


@budget.command("raise")
def raise_(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: NameArgument,
    epsilon: Annotated[float | None, typer.Option(help="The new E. [default: as it is]")] = None,
    delta: Annotated[float | None, typer.Option(help="The new D. [default: as it is]")] = None,
    curves: Annotated[float | None, typer.Option(help="The new share of curves.")] = None,
    order: Annotated[int | None, typer.Option(help="The new order of divergences.")] = None,
    accounts: Folder = None,
    json: Json = False,
) -> None:
    """Replace the guarantee of an account by a larger one, for all its runs."""
    account = Account(name, accounts)
    before = account.state().guarantee
    after = Guarantee(
        before.epsilon if epsilon is None else epsilon,
        before.delta if delta is None else delta,
        before.curves if curves is None else curves,
        before.order if order is None else order,
    )
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
    """State that the file of an account is the right one though its head says otherwise."""
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
