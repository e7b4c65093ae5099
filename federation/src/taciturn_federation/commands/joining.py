"""`taciturn study start` and `taciturn site join`: a study from nothing, through its hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from taciturn import checks
from taciturn.algorithms import COUNTS, METHODS
from taciturn.budget import Account
from taciturn.cli import emit, error_line, interruptible, path
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn_federation import folders
from taciturn_federation.accounts import SiteAccount
from taciturn_federation.agreement import Invitation, JoinRequest
from taciturn_federation.commands.parties import (
    EVERYWHERE,
    HUB,
    INTERRUPTED,
    BoundsFile,
    Colluders,
    Force,
    Host,
    HubAddress,
    Json,
    Log,
    NoAccount,
    ObserverName,
    PersonColumn,
    RowsPerPerson,
    Sites,
    Studies,
    StudyName,
    check_free,
    new,
    say,
    site,
    stand_by,
    study,
)
from taciturn_federation.commands.parties import hub as run_hub
from taciturn_federation.folders import SiteFacts, SiteFolder
from taciturn_federation.joining import await_admission
from taciturn_federation.reports import events_to
from taciturn_federation.transport import Watch

__all__ = ["join", "site", "start", "study"]


@dataclass(frozen=True)
class Choice:
    """The account that an owner asks for: by name, by its total, or none."""

    name: str | None
    epsilon: float | None
    delta: float | None
    nowhere: bool

    def of(self, site: SiteFolder) -> SiteAccount | None:
        """Return the account of a site; None if it is charged nowhere."""
        stated = (self.name, self.epsilon, self.delta)
        if not self.nowhere:
            return SiteAccount.chosen(site, *stated)
        if stated != (None, None, None):
            raise InputError("--no-account goes without --account, --epsilon and --delta")
        return None


@study.command("start")
def start(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: StudyName,
    bounds: BoundsFile,
    hub: HubAddress = HUB,
    host: Host = EVERYWHERE,
    rows_per_person: RowsPerPerson = None,
    observer: ObserverName = "messages",
    colluders: Colluders = 1,
    log: Log = None,
    studies: Studies = None,
) -> None:
    """Create a study, unless there is one of the name, and run its hub, where owners join."""
    if not folders.study_folder(name, studies).exists():
        new(name, bounds, hub, rows_per_person, observer, colluders, studies=studies)
    run_hub(name, host, log=log, studies=studies)


@site.command("join")
def join(  # noqa: PLR0913, PLR0917 - one parameter per option
    invitation: Annotated[Path, typer.Argument(parser=path, help="The coordinator's invitation.")],
    name: Annotated[str, typer.Option(help="The name of the site in the study.")],
    data: Annotated[Path, typer.Option(parser=path, help="The file of records, CSV or Parquet.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Total epsilon of the account of all runs, if it is new.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Total delta of that account.")] = None,
    account: Annotated[
        str | None, typer.Option(help="Account that the runs charge. [default: the site's name]")
    ] = None,
    no_account: NoAccount = False,
    allow: Annotated[
        float | None,
        typer.Option(help="Epsilon that a run may cost without asking. [default: every run waits]"),
    ] = None,
    person_column: PersonColumn = None,
    renew: Annotated[
        bool,
        typer.Option("--renew", help="Request again as an existing site, with a new count."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(parser=path, help="File of the request, to be sent; nothing is connected."),
    ] = None,
    force: Force = False,
    log: Log = None,
    sites: Sites = None,
    json: Json = False,
) -> None:
    """Join a study through its hub, and stand by for runs once admitted; Ctrl-C ends it.

    It makes keys, which stay on this machine, and an account. The same command goes on. With
    --renew, the site sends another request and ends.
    """
    if out is not None:
        check_free(out, force=force)
    invited = folders.read_invitation(invitation)
    choice = Choice(account, epsilon, delta, no_account)
    if renew:
        found = folders.open_site(folders.find_site(invited.study, name, sites))
        joined, request = interruptible(lambda: folders.renew_site(found, data))
    else:
        folder = folders.site_folder(invited.study, name, sites)
        facts = SiteFacts(name=name, data=str(data.absolute()), person_column=person_column)
        joined, request = interruptible(lambda: _joined(folder, invited, facts, choice))
    if allow is not None:
        write_policy(joined, allow)
    if out is not None:
        write_text(request.to_json() + "\n", out)
    if json:
        emit({"study": invited.study, "site": name, "folder": str(joined.folder),
              "account": joined.facts.account, "request": None if out is None else str(out),
              "count": request.count, "fingerprint": request.fingerprint,
              "invitation": invited.fingerprint})  # fmt: skip
    else:
        say(*_lines(joined, request, out))
    if out is None:
        _ask(joined, request, log)
        if not renew:  # a site that is renewed stands by already, or is started with site serve
            stand_by(joined, joined.policy, sites, log)


def _lines(joined: SiteFolder, request: JoinRequest, out: Path | None) -> list[str]:
    invited, data = joined.invitation, Path(joined.facts.data)
    unit = "records" if invited.rows_per_person is None else "places for rows of persons"
    charged = "none; runs need --no-account, and are charged nowhere"
    where = "to the hub" if out is None else f"{out}, for the coordinator"
    return [
        f"Site {joined.name} of study {invited.study} in {joined.folder}; its keys stay there",
        f"Account: {joined.facts.account or charged}",
        f"Request: {where}; of {data.name} it holds only the count, {request.count:,} {unit}",
        "To be compared with the coordinator by telephone:",
        f"  fingerprint of the invitation  {invited.fingerprint}",
        f"  fingerprint of the request     {request.fingerprint}",
    ]


def _ask(joined: SiteFolder, request: JoinRequest, log: Path | None) -> None:
    """Hand the request to the hub until the site is admitted."""
    with events_to(log, quiet=False) as events:
        if not await_admission(joined, request, Watch(event=events)):
            error_line("stopped; the same command goes on", kind="")
            raise typer.Exit(INTERRUPTED)
    say(f"Site {joined.name} may connect")


def _joined(
    folder: Path, invited: Invitation, facts: SiteFacts, choice: Choice
) -> tuple[SiteFolder, JoinRequest]:
    """Return a new site and its request, once its account is open."""
    chosen = choice.of(SiteFolder(folder, invited, facts))
    name = None if chosen is None else chosen.account.name
    where = (Path(facts.data), facts.person_column)
    made = folders.join(folder, invited, facts.name, *where, name)
    if chosen is not None:
        chosen.open()
    return made


def write_policy(joined: SiteFolder, epsilon: float) -> None:
    """Write the policy of a site that takes part in every run of at most so large an epsilon."""
    if joined.facts.account is None:
        raise InputError("--allow starts runs, and this site has no account that limits them all")
    delta = Account(joined.facts.account).state().guarantee.delta
    methods = ", ".join(f'"{name}"' for name in sorted((*METHODS, COUNTS)))
    text = (
        "# what this site takes part in without asking; others wait (taciturn site approve)\n"
        f"epsilon = {checks.positive('allow', epsilon)!r}\ndelta = {delta!r}\n"
        f"methods = [{methods}]\n"
        'observers = ["messages", "sum"]\nsites = 2\n'
        "# for sum: the fingerprints that owners compared, by the names of their sites\n[agreed]\n"
    )
    write_text(text, joined.policy)
