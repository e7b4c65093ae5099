"""`taciturn site`: what the owner of records does in a study."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn.budget import Account, heads_folder
from taciturn.cli import (
    ACCOUNT_OPTIONS,
    emit,
    interruptible,
    path,
    read_text,
)
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn_federation import (
    Journal,
    SignedProposal,
    SiteFolder,
    check_proposal,
    found_site,
    join,
    open_site,
    read_invitation,
    remove_stale_keys,
    renew_site,
    site_folder,
    sites_folder,
)
from taciturn_federation.commands.running import (
    Algorithm,
    Json,
    Log,
    Quiet,
    ReportFolder,
    Shows,
    check_free,
    methods_for,
    say,
    stands_in,
    take_part,
)

site = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

ProposalFile = Annotated[
    Path, typer.Argument(parser=path, metavar="PROPOSAL", help="The file from the coordinator.")
]
Data = Annotated[
    Path | None,
    typer.Option("--data", parser=path, help="The file of records; that of the request if not "
                 "given."),
]  # fmt: skip
Name = Annotated[
    str | None, typer.Option("--name", help="Of the site, where this machine has several.")
]
Sites = Annotated[
    Path | None,
    typer.Option("--sites", parser=path, help="The folder of sites; if not given, that in the "
                 "user's data folder."),
]  # fmt: skip
AccountName = Annotated[
    str | None, typer.Option("--account", help="The account to charge (taciturn budget open).")
]
Accounts = Annotated[
    Path | None, typer.Option("--accounts", parser=path, help="The folder of accounts.")
]
AnotherTable = Annotated[
    bool, typer.Option("--another-table", help=ACCOUNT_OPTIONS["another_table"][1])
]
AnotherAccount = Annotated[
    bool, typer.Option("--another-account", help=ACCOUNT_OPTIONS["another_account"][1])
]


@site.command("join")
def join_(  # noqa: PLR0913, PLR0917 - one parameter per option
    invitation: Annotated[Path, typer.Argument(parser=path, help="The file from the coordinator.")],
    name: Annotated[str, typer.Option(help="What the site is called in the study.")],
    data: Annotated[Path, typer.Option(parser=path, help="The file of records, CSV or Parquet.")],
    person_column: Annotated[
        str | None, typer.Option(help="Where persons are protected: the column that says whose.")
    ] = None,
    renew: Annotated[
        bool,
        typer.Option("--renew", help="Of a site that is there: a new request, of another count."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(parser=path, help="The request; NAME.request if not given.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier request.")] = False,
    sites: Sites = None,
    json: Json = False,
) -> None:
    """Join a study: make keys, which stay on this machine, and a request for the coordinator."""
    file = Path(f"{name}.request") if out is None else out
    check_free(file, force=force)
    invited = read_invitation(invitation)
    folder = site_folder(invited.study, name, sites)
    if renew:
        found = open_site(found_site(invited.study, name, sites))
        made, request = interruptible(lambda: renew_site(found, data))
    else:
        made, request = interruptible(lambda: join(folder, invited, name, data, person_column))
    write_text(request.to_json() + "\n", file)
    if json:
        emit(
            {
                "study": invited.study,
                "site": name,
                "folder": str(made.folder),
                "request": str(file),
                "count": request.count,
                "fingerprint": request.fingerprint,
                "invitation": invited.fingerprint,
            }
        )
        return
    unit = "records" if invited.rows_per_person is None else "places for rows of persons"
    say(
        f"Site {name} of study {invited.study} in {made.folder}; its keys stay there",
        f"Request: {file}, for the coordinator; of {data.name} it says {request.count:,} {unit}, "
        "and no more",
        "To be compared with the coordinator by telephone:",
        f"  fingerprint of the invitation  {invited.fingerprint}",
        f"  fingerprint of the request     {request.fingerprint}",
    )


@site.command("check")
def check(  # noqa: PLR0913, PLR0917 - one parameter per option
    proposal: ProposalFile,
    data: Data = None,
    account: AccountName = None,
    accounts: Accounts = None,
    another_table: AnotherTable = False,
    another_account: AnotherAccount = False,
    algorithm: Algorithm = None,
    name: Name = None,
    sites: Sites = None,
    json: Json = False,
) -> None:
    """Derive what a proposal would cost this site and what would leave it; nothing is spent."""
    signed, opened = _opened(proposal, name, sites)
    charged = _account(account, accounts, another_table, another_account)
    methods = methods_for(signed, algorithm)
    source = opened.source(data)
    found = interruptible(
        lambda: check_proposal(opened, signed, methods, source=source, account=charged)
    )
    if json:
        emit(found.values)
        return
    say(*found.lines)


@site.command("run")
def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    proposal: ProposalFile,
    data: Data = None,
    account: AccountName = None,
    accounts: Accounts = None,
    another_table: AnotherTable = False,
    another_account: AnotherAccount = False,
    out: ReportFolder = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    algorithm: Algorithm = None,
    reproduction: Annotated[
        int | None,
        typer.Option(help="A seed of the noise: then the run is a reproduction, not private."),
    ] = None,
    agreed: Annotated[
        str | None,
        typer.Option(help="Under the observer sum: the code that the owners compared."),
    ] = None,
    name: Name = None,
    quiet: Quiet = False,
    log: Log = None,
    sites: Sites = None,
    json: Json = False,
) -> None:
    """Accept a proposal and answer its rounds; called again, it goes on where it stood."""
    signed, opened = _opened(proposal, name, sites)
    charged = _account(account, accounts, another_table, another_account)
    take_part(
        opened,
        signed,
        methods_for(signed, algorithm),
        data=data,
        account=charged,
        seed=reproduction,
        agreed=agreed,
        shows=Shows(out, force, quiet, log, json),
    )


@site.command("status")
def status(sites: Sites = None, json: Json = False) -> None:
    """Show the sites of this machine, and where their runs stand."""
    folder = sites_folder(sites)
    found = [open_site(one.parent) for one in sorted(folder.glob("*/*/site.json"))]
    values = [_status(one) for one in found]
    if json:
        emit({"folder": str(folder), "sites": values})
        return
    if not found:
        say(f"There is no site in {folder}")
    for one in values:
        say(f"{one['site']} of study {one['study']}, {one['data']}, hub {one['hub']}")
        for run_, stands in one["runs"].items():
            say(f"  run {run_}: {stands}")
        for line in one["cleared"]:
            say(f"  {line}")


def _status(opened: SiteFolder) -> dict[str, Any]:
    runs, cleared = {}, _cleared(opened)
    for file in sorted((opened.folder / "progress").glob("*.json")):
        stands = stands_in(file)
        if stands is not None:
            runs[file.stem] = stands
    return {
        "site": opened.name,
        "study": opened.invitation.study,
        "data": opened.facts.data,
        "hub": opened.invitation.hub,
        "runs": runs,
        "cleared": cleared,
    }


def _cleared(opened: SiteFolder) -> list[str]:
    """Remove keys of masks that no run needs, unless a process is at work on the journal."""
    if not opened.journal.exists() or not any(heads_folder().glob("*.masks")):
        return []  # the lock of the journal is left to those who run
    with suppress(InputError), closing(Journal(opened.journal)) as journal:
        return remove_stale_keys(journal)
    return []


def _opened(
    proposal: Path, name: str | None, sites: Path | None
) -> tuple[SignedProposal, SiteFolder]:
    signed = SignedProposal.from_json(read_text(proposal))
    return signed, open_site(found_site(signed.study, name, sites))


def _account(
    name: str | None, folder: Path | None, another_table: bool, another_account: bool
) -> Account | None:
    if name is None:
        return None
    return Account(name, folder, another_table=another_table, another_account=another_account)
