"""A site as its owner keeps it: keys, the invitation, and which file it speaks for.

invitation.json     the coordinator's invitation
site.json           name, the file and how it is read
nkey.key            lets the site connect
signing.key         signs what the site sends
journal             what it was asked and answered
progress/RUN.json   how far a run is
reports/RUN/        reports of runs for which no other folder was named
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import taciturn
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn.proposal import Document
from taciturn.tables import Source, read_files
from taciturn.training import Division
from taciturn_federation.agreement import SignedProposal, check_version
from taciturn_federation.joining import UNSIGNED, Invitation, JoinRequest
from taciturn_federation.keys import (
    Nkey,
    certify_nkey,
    public_key,
    public_text,
    read_key,
    write_key,
)
from taciturn_federation.places import make_folder, read_text


class SiteFacts(Document):
    """What a site is called and which file it speaks for; nothing of the file itself.

    Attributes
    ----------
    data
        The file, as an absolute path.
    person_column
        The column that says which person a row is about, where persons are protected.
    """

    FORMAT: ClassVar[str] = "taciturn.site"
    VERSION: ClassVar[int] = 1

    name: str
    data: str
    person_column: str | None


@dataclass(frozen=True)
class SiteFolder:
    """The folder of a site and what is known there."""

    folder: Path
    invitation: Invitation
    facts: SiteFacts

    @property
    def name(self) -> str:
        """What the site is called in the study."""
        return self.facts.name

    @property
    def journal(self) -> Path:
        """The site's journal."""
        return self.folder / "journal"

    def progress_file(self, proposal: SignedProposal) -> Path:
        """Return where a run's process says how far it is; its folder is made."""
        folder = self.folder / "progress"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{proposal.subjects.run}.json"

    def report_folder(self, proposal: SignedProposal) -> Path:
        """Return where the report of a run is kept if its owner names no folder."""
        return self.folder / "reports" / proposal.subjects.run

    def signing_key(self) -> Ed25519PrivateKey:
        """Return the site's signing key."""
        return read_key(self.folder / "signing.key")

    def nkey(self) -> Nkey:
        """Return the key with which the site connects."""
        return Nkey.read(self.folder / "nkey.key")

    def source(self, data: Path | None = None) -> Source:
        """Return the site's file and how it is read.

        Parameters
        ----------
        data
            Another file than that of the request.
        """
        file = Path(self.facts.data) if data is None else data
        return source_of(file, self.invitation, self.facts)

    def take_part(self, proposal: SignedProposal) -> int:
        """Return the number of the agent that the site is.

        Raises
        ------
        PrivacyError
            If the coordinator did not sign the proposal.
        InputError
            If it is of another study, or the site has no part in it with its own keys.
        """
        if proposal.study != self.invitation.study:
            raise InputError(
                f"the proposal is of study {proposal.study!r}, and this site joined "
                f"{self.invitation.study!r}; name the right file, or join that study"
            )
        proposal.check(public_key(self.invitation.key))
        agent = proposal.agent_of(self.signing_key().public_key())
        if proposal.participants[agent].nkey != self.nkey().public:
            raise InputError(
                "the proposal names another nkey for this site than it has; put back the keys that "
                "taciturn site join made"
            )
        return agent


def read_invitation(file: Path) -> Invitation:
    """Return the invitation in a file; it must be signed, and for this version of taciturn."""
    invitation = Invitation.from_json(read_text(file)).check_signed()
    check_version(invitation.taciturn, f"the study {invitation.study} runs")
    return invitation


def join(
    folder: Path, invitation: Invitation, name: str, data: Path, person_column: str | None
) -> tuple[SiteFolder, JoinRequest]:
    """Make the keys of a site, and return it with the request to be sent to the coordinator.

    Raises
    ------
    InputError
        If there is such a site already, or the file has other columns than the invitation says.
    """
    facts = SiteFacts(name=name, data=str(data.absolute()), person_column=person_column)
    count = count_of(source_of(data, invitation, facts), invitation)
    make_folder(folder)
    write_key(folder / "nkey.key", Ed25519PrivateKey.generate())
    write_key(folder / "signing.key", Ed25519PrivateKey.generate())
    write_text(invitation.to_json() + "\n", folder / "invitation.json")
    write_text(facts.to_json() + "\n", folder / "site.json")
    site = SiteFolder(folder, invitation, facts)
    return site, request_of(site, count)


def renew_site(site: SiteFolder, data: Path | None) -> tuple[SiteFolder, JoinRequest]:
    """Return a site with a new request, for another count of records; its keys stay.

    Parameters
    ----------
    data
        Another file; None for that of the first request.
    """
    if data is not None:
        facts = site.facts.model_copy(update={"data": str(data.absolute())})
        write_text(facts.to_json() + "\n", site.folder / "site.json")
        site = SiteFolder(site.folder, site.invitation, facts)
    return site, request_of(site, count_of(site.source(), site.invitation))


def open_site(folder: Path) -> SiteFolder:
    """Return the site in a folder.

    Raises
    ------
    InputError
        If there is none, or the study is for another version of taciturn.
    """
    invitation = read_invitation(folder / "invitation.json")
    return SiteFolder(folder, invitation, SiteFacts.from_json(read_text(folder / "site.json")))


def request_of(site: SiteFolder, count: int) -> JoinRequest:
    """Return what the owner sends to the coordinator."""
    signing, nkey, study = site.signing_key(), site.nkey().public, site.invitation.study
    return JoinRequest(
        study=study,
        name=site.name,
        invitation=site.invitation.digest,
        count=count,
        nkey=nkey,
        certified=certify_nkey(signing, study, site.name, nkey),
        taciturn=taciturn.__version__,
        key=public_text(signing.public_key()),
        signature=UNSIGNED,
    ).signed(signing)


def source_of(data: Path, invitation: Invitation, facts: SiteFacts) -> Source:
    """Return the file of a site and how it is read."""
    if data.is_dir():
        raise InputError(f"{data} is a folder; a site speaks for one file")
    target = invitation.table.target.name
    return Source(path=data, target=target, bounds=None, person_column=facts.person_column)


def count_of(source: Source, invitation: Invitation) -> int:
    """Return how many records a file has, or how many places its persons have.

    Raises
    ------
    InputError
        If the file has other columns than the invitation describes.
    """
    bounds = invitation.table.bounds
    files = read_files(source, bounds)
    rows = invitation.rows_per_person
    (count,) = Division(agents=1, rows_per_person=rows).counts(files)
    return count
