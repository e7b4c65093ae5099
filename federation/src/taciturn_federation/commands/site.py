"""`taciturn site`: what the owner of records does in a study."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn.budget import Account, heads_folder
from taciturn.cli import ACCOUNT_OPTIONS, emit, interruptible, path, read_text, takes
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn_federation import folders
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.commands import running
from taciturn_federation.journal import Journal
from taciturn_federation.masks import remove_stale_keys
from taciturn_federation.reports import check_proposal

site = running.group()

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
    json: running.Json = False,
) -> None:
    """Join a study: make keys, which stay on this machine, and a request for the coordinator."""
    file = Path(f"{name}.request") if out is None else out
    running.check_free(file, force=force)
    invited = folders.read_invitation(invitation)
    folder = folders.site_folder(invited.study, name, sites)
    if renew:
        found = folders.open_site(folders.found_site(invited.study, name, sites))
        made, request = interruptible(lambda: folders.renew_site(found, data))
    else:
        made, request = interruptible(
            lambda: folders.join(folder, invited, name, data, person_column)
        )
    write_text(request.to_json() + "\n", file)
    if json:
        emit({"study": invited.study, "site": name, "folder": str(made.folder),
              "request": str(file), "count": request.count, "fingerprint": request.fingerprint,
              "invitation": invited.fingerprint})  # fmt: skip
        return
    unit = "records" if invited.rows_per_person is None else "places for rows of persons"
    running.say(
        f"Site {name} of study {invited.study} in {made.folder}; its keys stay there",
        f"Request: {file}, for the coordinator; of {data.name} it says {request.count:,} {unit}, "
        "and no more",
        "To be compared with the coordinator by telephone:",
        f"  fingerprint of the invitation  {invited.fingerprint}",
        f"  fingerprint of the request     {request.fingerprint}",
    )


@site.command("check")
@takes(ACCOUNT_OPTIONS)
def check(
    *,
    proposal: ProposalFile,
    data: Data = None,
    algorithm: running.Algorithm = None,
    name: Name = None,
    sites: Sites = None,
    json: running.Json = False,
    **given: Any,
) -> None:
    """Derive what a proposal would cost this site and what would leave it; nothing is spent."""
    signed, opened = _opened(proposal, name, sites)
    methods, source, account = (
        running.methods_for(signed, algorithm),
        opened.source(data),
        _account(given),
    )
    found = interruptible(
        lambda: check_proposal(opened, signed, methods, source=source, account=account)
    )
    if json:
        emit(found.values)
        return
    running.say(*found.lines)


@site.command("run")
@takes(ACCOUNT_OPTIONS)
def run(  # noqa: PLR0913 - one parameter per option
    *,
    proposal: ProposalFile,
    data: Data = None,
    out: running.ReportFolder = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    algorithm: running.Algorithm = None,
    reproduction: Annotated[
        int | None,
        typer.Option(help="A seed of the noise: then the run is a reproduction, not private."),
    ] = None,
    agreed: Annotated[
        str | None, typer.Option(help="Under the observer sum: the code that the owners compared.")
    ] = None,
    name: Name = None,
    quiet: running.Quiet = False,
    log: running.Log = None,
    sites: Sites = None,
    json: running.Json = False,
    **given: Any,
) -> None:
    """Accept a proposal and answer its rounds; called again, it goes on where it stood."""
    signed, opened = _opened(proposal, name, sites)
    shows = running.Shows(out, force, quiet, log, json)
    running.take_part(
        opened, signed, running.methods_for(signed, algorithm), data=data, account=_account(given),
        seed=reproduction, agreed=agreed, shows=shows,
    )  # fmt: skip


@site.command("status")
def status(sites: Sites = None, json: running.Json = False) -> None:
    """Show the sites of this machine, and where their runs stand."""
    folder = folders.sites_folder(sites)
    found = [folders.open_site(one.parent) for one in sorted(folder.glob("*/*/site.json"))]
    values = [_status(one) for one in found]
    if json:
        emit({"folder": str(folder), "sites": values})
        return
    if not found:
        running.say(f"There is no site in {folder}")
    for one in values:
        running.say(f"{one['site']} of study {one['study']}, {one['data']}, hub {one['hub']}")
        for run_, stands in one["runs"].items():
            running.say(f"  run {run_}: {stands}")
        for line in one["cleared"]:
            running.say(f"  {line}")


def _status(opened: folders.SiteFolder) -> dict[str, Any]:
    files, cleared = sorted((opened.folder / "progress").glob("*.json")), _cleared(opened)
    runs = {file.stem: stands for file in files if (stands := running.stands_in(file)) is not None}
    return {"site": opened.name, "study": opened.invitation.study, "data": opened.facts.data,
            "hub": opened.invitation.hub, "runs": runs, "cleared": cleared}  # fmt: skip


def _cleared(opened: folders.SiteFolder) -> list[str]:
    """Remove keys of masks that no run needs, unless a process is at work on the journal."""
    if not opened.journal.exists() or not any(heads_folder().glob("*.masks")):
        return []  # the lock of the journal is left to those who run
    with suppress(InputError), closing(Journal(opened.journal)) as journal:
        return remove_stale_keys(journal)
    return []


def _opened(
    proposal: Path, name: str | None, sites: Path | None
) -> tuple[SignedProposal, folders.SiteFolder]:
    signed = SignedProposal.from_json(read_text(proposal))
    return signed, folders.open_site(folders.found_site(signed.study, name, sites))


def _account(given: dict[str, Any]) -> Account | None:
    name, folder, *another = (given[option] for option in ACCOUNT_OPTIONS)
    return None if name is None else Account(name, folder, None, None, *map(bool, another))
