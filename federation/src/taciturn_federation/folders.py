"""Folders of coordinator and owner, which only their user can read.

A study has:

invitation.json       for every owner
hub.pem, hub.key      the server's certificate, which the invitation names
nkey.key              lets the coordinator connect
signing.key           signs invitation, proposals and published messages
members/NAME.json     admitted sites
struck.json           public keys that may not come back
requests/NAME.*.json  requests that came through the hub
proposals/RUN.json    signed proposals, by the name of their run
runs/RUN/             journals of runs, and reports for which no folder was named

A site has:

invitation.json       the coordinator's invitation
site.json             name, the file and how it is read
policy.toml           what it takes part in without asking, if its owner allows anything
nkey.key              lets the site connect
signing.key           signs what the site sends
journal               what it received and answered
progress/RUN.json     how far a run is
reports/RUN/          reports of runs for which no folder was named
runs/RUN/             proposals that a standing site received, and their state
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import taciturn
from taciturn.budget import data_folder, private_folder
from taciturn.documents import Document
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn.tables import Source, read_files
from taciturn.training import Division, TableFacts, count_files
from taciturn_federation.agreement import (
    COORDINATOR_NAME,
    UNSIGNED,
    Invitation,
    JoinRequest,
    Member,
    Participant,
    SignedProposal,
    check_address,
    check_party,
    check_version,
)
from taciturn_federation.envelope import Subjects
from taciturn_federation.keys import (
    Nkey,
    certify_nkey,
    new_hub,
    public_key,
    public_text,
    read_key,
    write_key,
    write_private,
)


def study_folder(study: str, folder: Path | None = None) -> Path:
    """Return the folder of a coordinator's study."""
    studies = data_folder() / "studies" if folder is None else folder
    return studies / check_party(study, "a study")


def sites_folder(given: Path | None = None) -> Path:
    """Return the folder of an owner's sites; if none is given, in the user's data folder."""
    return data_folder() / "sites" if given is None else given


def site_folder(study: str, name: str, folder: Path | None = None) -> Path:
    """Return the folder of a site in a study."""
    return sites_folder(folder) / check_party(study, "a study") / check_party(name)


def find_site(study: str, name: str | None, folder: Path | None = None) -> Path:
    """Return the folder of the site of a study; without a name that of the only one."""
    place = sites_folder(folder) / check_party(study, "a study")
    if name is not None:
        found = [one for one in (place / check_party(name),) if one.is_dir()]
    else:
        found = sorted(one for one in place.glob("*") if one.is_dir())
    if not found:
        site = "site" if name is None else f"site {name!r}"
        raise InputError(
            f"there is no {site} of study {study!r} in {place}; join first (taciturn site join), "
            "or name the folder with --sites"
        )
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise InputError(f"there are several sites of study {study!r} ({names}); add --name")
    return found[0]


def make_folder(folder: Path) -> Path:
    """Create a folder that only its user can enter, and return it."""
    try:
        private_folder(folder.parent)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise InputError(f"there is {folder} already, with keys that are not replaced") from None
    except OSError as error:
        raise InputError(f"{folder} cannot be created ({error.strerror}); make room") from None
    return folder


def _make_keys(folder: Path) -> Ed25519PrivateKey:
    """Create the two keys of a party, and return the signing key; complete ones are kept."""
    for file in (folder / "nkey.key", folder / "signing.key"):
        if file.exists() and not file.stat().st_size:  # its process was killed before it wrote
            file.unlink()
        if not file.exists():
            write_key(file, Ed25519PrivateKey.generate())
    return read_key(folder / "signing.key")


def read_text(file: Path) -> str:
    """Return the text of a file of a study or a site."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read ({type(error).__name__}); name the file of the coordinator, or "
            "put back the file of taciturn study new or taciturn site join"
        ) from None


@dataclass(frozen=True)
class User:
    """What the hub allows a party."""

    nkey: str  # its public nkey
    publish: tuple[str, ...]  # the subjects, with wildcards; empty: none
    subscribe: tuple[str, ...]


class Admission(Document):
    """A site that was admitted to a study."""

    FORMAT: ClassVar[str] = "taciturn.member"
    VERSION: ClassVar[int] = 1

    number: int  # in the order of admission, which is that of the agents
    participant: Participant


@dataclass(frozen=True)
class PartyFolder:
    """The folder of a study or a site, with its keys and the invitation."""

    folder: Path
    invitation: Invitation

    def signing_key(self) -> Ed25519PrivateKey:
        """Return the signing key of coordinator or site."""
        return read_key(self.folder / "signing.key")

    def nkey(self) -> Nkey:
        """Return the key with which coordinator or site connects."""
        return Nkey(read_key(self.folder / "nkey.key"))

    def _credentials(self, name: str) -> dict[str, Any]:
        """Return what proposals and requests have of the party: name, key, nkey, certified."""
        key, nkey = self.signing_key(), self.nkey().public
        certified = certify_nkey(key, self.invitation.study, name, nkey)
        text = public_text(key.public_key())
        return {"name": name, "key": text, "nkey": nkey, "certified": certified}


class StudyFolder(PartyFolder):
    """The folder of a study and what is public of it."""

    @property
    def name(self) -> str:
        """What the study is called."""
        return self.invitation.study

    def coordinator(self) -> Member:
        """Return the coordinator as a proposal names it."""
        return Member(**self._credentials(COORDINATOR_NAME) | {"key": self.invitation.key})

    def admitted(self) -> tuple[Admission, ...]:
        """Return the sites that were admitted, also those struck off, in that order."""
        files = sorted((self.folder / "members").glob("*.json"))
        found = (Admission.from_json(read_text(file)) for file in files)
        return tuple(sorted(found, key=lambda one: one.number))

    def members(self) -> tuple[Admission, ...]:
        """Return the sites that may take part."""
        struck = self.struck()
        return tuple(one for one in self.admitted() if one.participant.key not in struck)

    def proposals(self) -> tuple[SignedProposal, ...]:
        """Return the signed proposals of this study."""
        files = sorted((self.folder / "proposals").glob("*.json"))
        return tuple(SignedProposal.from_json(read_text(file)) for file in files)

    def run_folder(self, proposal: SignedProposal) -> Path:
        """Return the folder of the coordinator's journal of a run; it may not exist yet."""
        return self.folder / "runs" / proposal.subjects.run

    def report_folder(self, proposal: SignedProposal) -> Path:
        """Return the folder of the report of a run if no other is named."""
        return self.run_folder(proposal) / "report"

    def struck(self) -> frozenset[str]:
        """Return the public keys of sites that were struck off, signing keys and nkeys."""
        return frozenset(json.loads(read_text(self.folder / "struck.json")))

    def versions(self) -> frozenset[tuple[str, int, int, int]]:
        """Return which files `users` reads, and their version: inode, time in ns and size.

        Every change replaces a file, so it has another inode than the one before.
        """
        folders = (self.folder / "members", self.folder / "proposals")
        inside = [file for folder in folders for file in folder.glob("*.json")]
        files = (self.folder / "struck.json", *inside)
        facts = ((f"{file.parent.name}/{file.name}", file.stat()) for file in files)
        return frozenset((name, one.st_ino, one.st_mtime_ns, one.st_size) for name, one in facts)

    def guest(self) -> User:
        """Return the user of the hub that whoever has the invitation may connect as."""
        nkey = self.invitation.guest_nkey()
        return User(nkey.public, (Subjects.of_guests(self.name),), ())

    def users(self) -> tuple[User, ...]:
        """Return the users of the hub: the coordinator, the members and all who were proposed.

        A member receives every proposal, and takes part in those that name it. Those struck off may
        not connect, in spite of any proposal.
        """
        coordinator, struck = self.nkey().public, self.struck()
        users = {coordinator: User(coordinator, (), (Subjects.of_guests(self.name),))}

        def allow(nkey: str, publish: tuple[str, ...], subscribe: tuple[str, ...]) -> None:
            known = users.get(nkey, User(nkey, (), ()))
            users[nkey] = User(nkey, known.publish + publish, known.subscribe + subscribe)

        for one in self.members():
            allow(one.participant.nkey, (), (Subjects.of_study(self.name),))
        for proposal in self.proposals():
            subjects = proposal.subjects
            allow(coordinator, *subjects.of_coordinator)
            for agent, site in enumerate(proposal.participants):
                allow(site.nkey, *subjects.of_agent(agent, proposal.neighbours(agent)))
        return tuple(user for nkey, user in users.items() if nkey not in struck)


def new_study(  # noqa: PLR0913 - one parameter per fact of an invitation
    folder: Path,
    name: str,
    table: TableFacts,
    *,
    hub: str,
    rows_per_person: int | None,
    observer: str = "messages",
    colluders: int = 1,
) -> StudyFolder:
    """Create a study in a new folder: keys, the hub's certificate and the invitation.

    `hub`: host and port at which sites reach it. `observer`, `colluders`: of its runs, for which
    owners open accounts.
    """
    check_party(name, "a study")
    check_address(hub)
    signing = _make_keys(make_folder(folder))
    hub_key, certificate = new_hub()
    guest = Ed25519PrivateKey.generate().private_bytes_raw().hex()
    invitation = Invitation(
        study=name, hub=hub, certificate=certificate, table=table,
        rows_per_person=rows_per_person, taciturn=taciturn.__version__,
        observer=observer, colluders=colluders, guest=guest, key=public_text(signing.public_key()),
        signature=UNSIGNED,
    ).signed(signing)  # fmt: skip
    write_private(folder / "hub.key", hub_key)
    write_text(certificate, folder / "hub.pem")
    for inside in ("members", "proposals", "requests", "runs"):
        make_folder(folder / inside)
    write_text("[]\n", folder / "struck.json")
    write_text(invitation.to_json() + "\n", folder / "invitation.json")  # last: now it is a study
    return StudyFolder(folder, invitation)


def open_study(folder: Path) -> StudyFolder:
    """Return the study in a folder, which must be of this version of taciturn."""
    file = folder / "invitation.json"
    if not file.is_file():
        raise InputError(
            f"there is no study in {folder}; make one with taciturn study new, or name the folder "
            "of studies with --studies"
        )
    return StudyFolder(folder, read_invitation(file))


def admit(study: StudyFolder, request: JoinRequest) -> Admission:
    """Store a site as a member, and return it.

    A member with another request, and the same keys, keeps its place; its count is the new one.

    Raises `InputError` if the request answers another invitation, its nkey is not certified by its
    signing key, one of its keys was struck off or is another party's, or a member of that name has
    other keys.
    """
    request.check_for(study.invitation)
    if study.struck() & {request.key, request.nkey}:
        raise InputError(
            f"a key of {request.name} was struck off; its owner moves the folder of the site away "
            "and joins again, with new keys"
        )
    site, known = request.participant, {one.participant.name: one for one in study.admitted()}
    before, members = known.get(site.name), [one.participant for one in study.members()]
    for other in (study.coordinator(), *members):
        if other.name == site.name and other.keys != site.keys:
            raise InputError(
                f"there is a site {site.name} with other keys; strike it off first (taciturn study "
                "strike), if its owner says so"
            )
        if other.name != site.name and other.keys & site.keys:
            raise InputError(f"{other.name} has a key of {site.name}; no two share a key")
    number = len(known) if before is None else before.number
    member = Admission(number=number, participant=site)
    write_text(member.to_json() + "\n", study.folder / "members" / f"{site.name}.json")
    return member


def strike(study: StudyFolder, name: str) -> None:
    """Strike a site off: none of its keys may connect, be proposed with or be admitted again.

    These are the keys of its admission, and all that a stored proposal names for it.
    """
    known = {one.participant.name: one.participant for one in study.admitted()}
    if name not in known:
        raise InputError(f"study {study.name!r} has no site {name!r}; see taciturn study status")
    proposed = (site for one in study.proposals() for site in one.participants)
    sites = (known[name], *(site for site in proposed if site.name == name))
    gone = study.struck().union(*({site.key, site.nkey} for site in sites))
    write_text(json.dumps(sorted(gone)) + "\n", study.folder / "struck.json")


def keep_proposal(study: StudyFolder, proposal: SignedProposal) -> None:
    """Write a signed proposal into the study, so that the hub allows its run."""
    file = study.folder / "proposals" / f"{proposal.subjects.run}.json"
    write_text(proposal.to_json() + "\n", file)


class SiteFacts(Document):
    """The name of a site and its file; nothing of the content."""

    FORMAT: ClassVar[str] = "taciturn.site"
    VERSION: ClassVar[int] = 1

    name: str
    data: str  # the file, as an absolute path
    # the column that says which person a row is about, where persons are protected
    person_column: str | None
    account: str | None = None  # that its runs charge


@dataclass(frozen=True)
class SiteFolder(PartyFolder):
    """The folder of a site and what is known there."""

    facts: SiteFacts

    @property
    def name(self) -> str:
        """What the site is called in the study."""
        return self.facts.name

    @property
    def policy(self) -> Path:
        """The file of what the site takes part in without asking, if its owner wrote one."""
        return self.folder / "policy.toml"

    @property
    def journal(self) -> Path:
        """The site's journal."""
        return self.folder / "journal"

    def progress_file(self, proposal: SignedProposal) -> Path:
        """Return the file of a run's progress."""
        return self.folder / "progress" / f"{proposal.subjects.run}.json"

    def report_folder(self, proposal: SignedProposal) -> Path:
        """Return the folder of the report of a run if its owner names no other."""
        return self.folder / "reports" / proposal.subjects.run

    def source(self, data: Path | None = None) -> Source:
        """Return the site's file and how it is read."""
        file = Path(self.facts.data) if data is None else data
        if file.is_dir():
            raise InputError(f"{file} is a folder; a site has one file")
        target = self.invitation.table.target.name
        return Source(path=file, target=target, bounds=None, person_column=self.facts.person_column)

    def count(self) -> int:
        """Return how many records the file has, or how many places its persons have."""
        files, invited = read_files(self.source(), self.invitation.table.bounds), self.invitation
        division = Division(agents=1, rows_per_person=invited.rows_per_person)
        (count,) = count_files(division, files).all_counts
        return count

    def request(self, count: int) -> JoinRequest:
        """Return what the owner sends to the coordinator."""
        invited = self.invitation
        return JoinRequest(
            study=invited.study, invitation=invited.digest, count=count,
            taciturn=taciturn.__version__, signature=UNSIGNED, **self._credentials(self.name),
        ).signed(self.signing_key())  # fmt: skip

    def take_part(self, proposal: SignedProposal) -> int:
        """Return the number of the agent that the site is.

        Raises `PrivacyError` if the coordinator did not sign the proposal, and `InputError` if it
        is of another study or with other bounds, or the site has no part in it with its keys.
        """
        if proposal.study != self.invitation.study:
            raise InputError(
                f"the proposal is of study {proposal.study!r}, and this site joined "
                f"{self.invitation.study!r}; name the right file, or join that study"
            )
        proposal.check(public_key(self.invitation.key))
        if proposal.proposal.data.table != TableFacts.of(self.invitation.table.bounds):
            raise InputError(
                "the proposal describes the columns otherwise than the invitation that this site "
                "joined with; ask the coordinator to propose with the bounds of the study"
            )
        agent = proposal.agent_of(self.signing_key().public_key())
        if proposal.participants[agent].nkey != self.nkey().public:
            raise InputError(
                "the proposal names another nkey for this site than it has; put back the keys of "
                "taciturn site join"
            )
        return agent


def read_invitation(file: Path) -> Invitation:
    """Return the invitation in a file; it must be signed, and for this version of taciturn."""
    invitation = Invitation.from_json(read_text(file)).check_signed()
    check_version(invitation.taciturn, f"the study {invitation.study} runs")
    return invitation


def join(
    folder: Path,
    invitation: Invitation,
    name: str,
    data: Path,
    person_column: str | None,
    account: str | None = None,
) -> tuple[SiteFolder, JoinRequest]:
    """Create a site with its keys, and return it with the request for the coordinator.

    `account`: the name of the account that its runs charge; None for none.

    What an earlier attempt left is kept: the same call again returns the same site and request.

    Raises `InputError` if there is another site in the folder.
    """
    facts = SiteFacts(
        name=name, data=str(data.absolute()), person_column=person_column, account=account
    )
    site = SiteFolder(folder, invitation, facts)
    count = site.count()  # before there is a folder
    if not folder.is_dir():
        make_folder(folder)
    files = {"invitation.json": invitation.to_json(), "site.json": facts.to_json()}
    for file in (folder / name for name in files):
        if file.exists() and read_text(file) != files[file.name] + "\n":
            raise InputError(
                f"there is another site in {folder} already, whose keys are not replaced; add "
                "--renew for another file of the same site, or move that folder away"
            )
    _make_keys(folder)
    for place, text in files.items():
        write_text(text + "\n", folder / place)
    return site, site.request(count)


def renew_site(site: SiteFolder, data: Path | None) -> tuple[SiteFolder, JoinRequest]:
    """Return a site with a new request, for another count of records; its keys stay."""
    if data is not None:
        facts = site.facts.model_copy(update={"data": str(data.absolute())})
        write_text(facts.to_json() + "\n", site.folder / "site.json")
        site = SiteFolder(site.folder, site.invitation, facts)
    return site, site.request(site.count())


def open_site(folder: Path) -> SiteFolder:
    """Return the site in a folder, whose study must be for this version of taciturn."""
    invitation = read_invitation(folder / "invitation.json")
    return SiteFolder(folder, invitation, SiteFacts.from_json(read_text(folder / "site.json")))
