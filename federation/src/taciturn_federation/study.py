"""A study as its coordinator keeps it: keys, hub, admitted sites, proposals.

invitation.json       what owners get
hub.pem, hub.key      the server's certificate, which the invitation names
nkey.key              lets the coordinator connect
signing.key           signs invitation, proposals and what is published
members/NAME.json     admitted sites
struck.json           public keys that may not come back
proposals/RUN.json    signed proposals, by the name of their run
runs/RUN/             journals of runs, and reports for which no folder was named
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import taciturn
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn.proposal import Document, TableFacts
from taciturn_federation.agreement import Member, Participant, SignedProposal, check_version
from taciturn_federation.joining import (
    COORDINATOR,
    UNSIGNED,
    Invitation,
    JoinRequest,
    check_address,
    check_party,
)
from taciturn_federation.keys import Nkey, certify_nkey, new_hub, public_text, read_key, write_key
from taciturn_federation.places import make_folder, read_text
from taciturn_federation.server import User


class Admitted(Document):
    """A site that was admitted to a study.

    Attributes
    ----------
    number
        In the order of admission, which is that of the agents.
    request
        The digest of the request.
    """

    FORMAT: ClassVar[str] = "taciturn.member"
    VERSION: ClassVar[int] = 1

    number: int
    participant: Participant
    request: str
    struck: bool


@dataclass(frozen=True)
class StudyFolder:
    """The folder of a study and what is public of it."""

    folder: Path
    invitation: Invitation

    @property
    def name(self) -> str:
        """What the study is called."""
        return self.invitation.study

    def signing_key(self) -> Ed25519PrivateKey:
        """Return the coordinator's signing key."""
        return read_key(self.folder / "signing.key")

    def nkey(self) -> Nkey:
        """Return the key with which the coordinator connects."""
        return Nkey.read(self.folder / "nkey.key")

    def coordinator(self) -> Member:
        """Return the coordinator as a proposal names it."""
        nkey = self.nkey().public
        return Member(
            name=COORDINATOR,
            key=self.invitation.key,
            nkey=nkey,
            certified=certify_nkey(self.signing_key(), self.name, COORDINATOR, nkey),
        )

    def admitted(self) -> tuple[Admitted, ...]:
        """Return the sites that were admitted, also those struck off, in that order."""
        files = sorted((self.folder / "members").glob("*.json"))
        found = (Admitted.from_json(read_text(file)) for file in files)
        return tuple(sorted(found, key=lambda one: one.number))

    def members(self) -> tuple[Admitted, ...]:
        """Return the sites that may take part."""
        return tuple(one for one in self.admitted() if not one.struck)

    def proposals(self) -> tuple[SignedProposal, ...]:
        """Return the signed proposals of this study."""
        files = sorted((self.folder / "proposals").glob("*.json"))
        return tuple(SignedProposal.from_json(read_text(file)) for file in files)

    def run_folder(self, proposal: SignedProposal) -> Path:
        """Return the folder of the coordinator's journal of a run; it may not be there yet."""
        return self.folder / "runs" / proposal.subjects.run

    def report_folder(self, proposal: SignedProposal) -> Path:
        """Return where the report of a run is kept if no other folder is named."""
        return self.run_folder(proposal) / "report"

    def struck(self) -> frozenset[str]:
        """Return the public keys of sites that were struck off, signing keys and nkeys."""
        return frozenset(json.loads(read_text(self.folder / "struck.json")))

    def users(self) -> tuple[User, ...]:
        """Return what the hub allows whom: what the proposals of the study give them to do."""
        return users_of(self.nkey().public, self.proposals(), self.struck())


def new_study(
    folder: Path,
    name: str,
    table: TableFacts,
    *,
    hub: str,
    rows_per_person: int | None,
) -> StudyFolder:
    """Make a study: keys, the hub's certificate and the invitation.

    Parameters
    ----------
    folder
        A new one.
    hub
        Host and port at which sites reach the hub.
    rows_per_person
        K where persons are protected; None where records are.

    Raises
    ------
    InputError
        If the folder is there already, or the name or the address is none.
    """
    check_party(name, "a study")
    check_address(hub)
    make_folder(folder)
    signing = Ed25519PrivateKey.generate()
    hub_key, certificate = new_hub()
    invitation = Invitation(
        study=name,
        hub=hub,
        certificate=certificate,
        table=table,
        rows_per_person=rows_per_person,
        taciturn=taciturn.__version__,
        key=public_text(signing.public_key()),
        signature=UNSIGNED,
    ).signed(signing)
    write_key(folder / "hub.key", hub_key)
    write_key(folder / "nkey.key", Ed25519PrivateKey.generate())
    write_key(folder / "signing.key", signing)
    write_text(certificate, folder / "hub.pem")
    for inside in ("members", "proposals", "runs"):
        make_folder(folder / inside)
    write_text("[]\n", folder / "struck.json")
    write_text(invitation.to_json() + "\n", folder / "invitation.json")  # last: now it is a study
    return StudyFolder(folder, invitation)


def open_study(folder: Path) -> StudyFolder:
    """Return the study in a folder.

    Raises
    ------
    InputError
        If there is none, or another version of taciturn made it.
    """
    file = folder / "invitation.json"
    if not file.is_file():
        raise InputError(
            f"there is no study in {folder}; make one with taciturn study new, or name the folder "
            "of "
            "studies with --studies"
        )
    invitation = Invitation.from_json(read_text(file)).check_signed()
    check_version(invitation.taciturn, f"the study {invitation.study} runs")
    return StudyFolder(folder, invitation)


def admit(study: StudyFolder, request: JoinRequest) -> Admitted:
    """Write a site down as a member, and return it.

    A member that asks again, with the keys that it has, keeps its place; its count is the new one.

    Raises
    ------
    InputError
        If the request answers another invitation, its nkey is not certified by its signing key, one
        of its keys was struck off or is another party's, or a member of that name has other keys.
    """
    request.check_for(study.invitation)
    if study.struck() & {request.key, request.nkey}:
        raise InputError(
            f"a key of {request.name} was struck off; its owner moves the folder of the site away "
            "and joins again, which makes new keys"
        )
    site, known = request.participant, {one.participant.name: one for one in study.admitted()}
    before = known.get(site.name)
    if before is not None and not before.struck and before.participant.keys != site.keys:
        raise InputError(
            f"there is a site {site.name} with other keys; strike it off first (taciturn study "
            "strike), if its owner says so"
        )
    others = [one.participant for one in study.members() if one.participant.name != site.name]
    for other in (study.coordinator(), *others):
        if other.keys & site.keys:
            raise InputError(f"{other.name} has a key of {site.name}; each has keys of its own")
    member = Admitted(
        number=len(known) if before is None else before.number,
        participant=site,
        request=request.digest,
        struck=False,
    )
    write_text(member.to_json() + "\n", study.folder / "members" / f"{site.name}.json")
    return member


def strike(study: StudyFolder, name: str) -> Admitted:
    """Strike a site off: neither of its keys may connect, be proposed with or be admitted again.

    Raises
    ------
    InputError
        If there is no such site.
    """
    known = {one.participant.name: one for one in study.admitted()}
    if name not in known:
        raise InputError(f"study {study.name!r} has no site {name!r}; see taciturn study status")
    member = known[name].model_copy(update={"struck": True})
    gone = study.struck() | {member.participant.key, member.participant.nkey}
    write_text(json.dumps(sorted(gone)) + "\n", study.folder / "struck.json")
    write_text(member.to_json() + "\n", study.folder / "members" / f"{name}.json")
    return member


def keep_proposal(study: StudyFolder, proposal: SignedProposal) -> Path:
    """Write a signed proposal into the study, so that the hub allows its run."""
    file = study.folder / "proposals" / f"{proposal.subjects.run}.json"
    write_text(proposal.to_json() + "\n", file)
    return file


def users_of(
    coordinator: str, proposals: Sequence[SignedProposal], struck: frozenset[str]
) -> tuple[User, ...]:
    """Return the users of a hub: the coordinator, and whoever takes part in a proposal.

    Parameters
    ----------
    coordinator
        The coordinator's public nkey.
    struck
        Public nkeys that may not connect, whatever a proposal says.
    """
    writes: dict[str, list[str]] = {coordinator: []}
    hears: dict[str, list[str]] = {coordinator: []}
    for proposal in proposals:
        subjects = proposal.subjects
        writes[coordinator] += subjects.coordinator_writes()
        hears[coordinator] += subjects.coordinator_hears()
        for agent, site in enumerate(proposal.participants):
            writes.setdefault(site.nkey, []).extend(
                subjects.agent_writes(agent, proposal.neighbours(agent))
            )
            hears.setdefault(site.nkey, []).extend(subjects.agent_hears(agent))
    return tuple(
        User(nkey, tuple(writes[nkey]), tuple(hears[nkey])) for nkey in writes if nkey not in struck
    )
