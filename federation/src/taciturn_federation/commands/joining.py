"""`taciturn site join`: keys, an account and a request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from taciturn.cli import emit, interruptible, path
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn_federation import folders
from taciturn_federation.accounts import SiteAccount
from taciturn_federation.agreement import Invitation, JoinRequest
from taciturn_federation.commands.parties import (
    Force,
    Json,
    NoAccount,
    Out,
    PersonColumn,
    Sites,
    check_free,
    say,
    site,
    study,
)
from taciturn_federation.folders import SiteFacts, SiteFolder

__all__ = ["join", "site", "study"]


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
    person_column: PersonColumn = None,
    renew: Annotated[
        bool,
        typer.Option("--renew", help="Write a new request for an existing site, with a new count."),
    ] = False,
    out: Out = None,
    force: Force = False,
    sites: Sites = None,
    json: Json = False,
) -> None:
    """Join a study: create keys, which stay on this machine, an account, and a request."""
    file = Path(f"{name}.request") if out is None else out
    check_free(file, force=force)
    invited = folders.read_invitation(invitation)
    choice = Choice(account, epsilon, delta, no_account)
    if renew:
        found = folders.open_site(folders.find_site(invited.study, name, sites))
        joined, request = interruptible(lambda: folders.renew_site(found, data))
    else:
        folder = folders.site_folder(invited.study, name, sites)
        facts = SiteFacts(name=name, data=str(data.absolute()), person_column=person_column)
        joined, request = interruptible(lambda: _joined(folder, invited, facts, choice))
    write_text(request.to_json() + "\n", file)
    if json:
        emit({"study": invited.study, "site": name, "folder": str(joined.folder),
              "account": joined.facts.account, "request": str(file), "count": request.count,
              "fingerprint": request.fingerprint, "invitation": invited.fingerprint})  # fmt: skip
        return
    unit = "records" if invited.rows_per_person is None else "places for rows of persons"
    charged = "none; runs need --no-account, and are charged nowhere"
    say(
        f"Site {name} of study {invited.study} in {joined.folder}; its keys stay there",
        f"Account: {joined.facts.account or charged}",
        f"Request: {file}, for the coordinator; of {data.name} it holds only the count, "
        f"{request.count:,} {unit}",
        "To be compared with the coordinator by telephone:",
        f"  fingerprint of the invitation  {invited.fingerprint}",
        f"  fingerprint of the request     {request.fingerprint}",
    )


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
