"""A study as its coordinator keeps it: authority, hub, admitted sites, proposals.

invitation.json                     what owners get
authority.pem, authority.key        signs certificates
hub.pem, hub.key                    the server's certificate
coordinator.pem, coordinator.key    the coordinator's certificate at the hub
signing.key                         signs invitation, proposals and what is published
members/NAME.json                   admitted sites
struck.json                         certificates that may not come back
proposals/RUN.json                  signed proposals, by the name of their run
runs/RUN/                           journals of runs, and reports for which no folder was named
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import tacit
from tacit.errors import InputError
from tacit.models import write_text
from tacit.proposal import Document, TableFacts
from tacit_federation import authority as x
from tacit_federation.agreement import Member, Participant, SignedProposal
from tacit_federation.joining import UNSIGNED, Invitation, JoinRequest, check_address, check_version
from tacit_federation.keys import (
    new_tls_key,
    private_pem,
    public_text,
    read_signing_key,
    read_tls_key,
    write_private,
)
from tacit_federation.places import make_folder
from tacit_federation.server import Files, User

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Admitted(Document):
    """A site that was admitted to a study.

    Attributes
    ----------
    number
        In the order of admission, which is that of the agents.
    request
        The digest of the request.
    earlier
        The users that the hub knew it as, with TLS keys that it has replaced.
    """

    FORMAT: ClassVar[str] = "tacit.member"
    VERSION: ClassVar[int] = 1

    number: int
    participant: Participant
    request: str
    struck: bool
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True)
class StudyFolder:
    """The folder of a study and what is public of it."""

    folder: Path
    invitation: Invitation

    @property
    def name(self) -> str:
        """What the study is called."""
        return self.invitation.study

    @property
    def files(self) -> Files:
        """The files of the hub's TLS."""
        names = ("hub.pem", "hub.key", "authority.pem")
        return Files(*(self.folder / name for name in names))

    @property
    def certificate(self) -> Path:
        """The coordinator's certificate; its key lies beside it."""
        return self.folder / "coordinator.pem"

    @property
    def key(self) -> Path:
        """The key of the coordinator's certificate."""
        return self.folder / "coordinator.key"

    def signing_key(self) -> Ed25519PrivateKey:
        """Return the coordinator's signing key."""
        return read_signing_key(self.folder / "signing.key")

    def authority(self) -> x.Authority:
        """Return the authority with its key."""
        pem = _text(self.folder / "authority.pem")
        return x.Authority(x.read_certificate(pem), read_tls_key(self.folder / "authority.key"))

    def coordinator(self) -> Member:
        """Return the coordinator as a proposal names it."""
        pem = _text(self.certificate)
        return Member(
            name=x.COORDINATOR,
            certificate=pem,
            fingerprint=certificate_digest(pem),
            key=self.invitation.key,
        )

    def admitted(self) -> tuple[Admitted, ...]:
        """Return the sites that were admitted, also those struck off, in that order."""
        files = sorted((self.folder / "members").glob("*.json"))
        found = (Admitted.from_json(_text(file)) for file in files)
        return tuple(sorted(found, key=lambda one: one.number))

    def members(self) -> tuple[Admitted, ...]:
        """Return the sites that may take part."""
        return tuple(one for one in self.admitted() if not one.struck)

    def proposals(self) -> tuple[SignedProposal, ...]:
        """Return the signed proposals of this study."""
        files = sorted((self.folder / "proposals").glob("*.json"))
        return tuple(SignedProposal.from_json(_text(file)) for file in files)

    def run_folder(self, proposal: SignedProposal) -> Path:
        """Return the folder of the coordinator's journal of a run; it may not be there yet."""
        return self.folder / "runs" / proposal.subjects.run

    def report_folder(self, proposal: SignedProposal) -> Path:
        """Return where the report of a run is kept if no other folder is named."""
        return self.run_folder(proposal) / "report"

    def struck(self) -> frozenset[str]:
        """Return the users whose certificates may not come back."""
        return frozenset(json.loads(_text(self.folder / "struck.json")))

    def users(self) -> tuple[User, ...]:
        """Return what the hub allows whom: what the proposals of the study give them to do."""
        return users_of(_text(self.certificate), self.proposals(), self.struck())


def new_study(
    folder: Path,
    name: str,
    table: TableFacts,
    *,
    hub: str,
    rows_per_person: int | None,
    now: datetime.datetime,
) -> StudyFolder:
    """Make a study: authority, keys, the hub's certificate and the invitation.

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
    x.check_party(name, "a study")
    host, _ = check_address(hub)
    make_folder(folder)
    authority, signing = x.new_authority(name, now), Ed25519PrivateKey.generate()
    hub_key, own_key = new_tls_key(), new_tls_key()
    invitation = Invitation(
        study=name,
        hub=hub,
        authority=x.pem_of(authority.certificate),
        table=table,
        rows_per_person=rows_per_person,
        tacit=tacit.__version__,
        key=public_text(signing),
        signature=UNSIGNED,
    ).signed(signing)
    own = x.party_certificate(authority, x.COORDINATOR, own_key.public_key(), now)
    server = x.hub_certificate(authority, hub_key.public_key(), (host, *LOOPBACK), now)
    write_private(folder / "authority.key", private_pem(authority.key))
    write_private(folder / "hub.key", private_pem(hub_key))
    write_private(folder / "coordinator.key", private_pem(own_key))
    write_private(folder / "signing.key", private_pem(signing))
    for file, certificate in (("authority", authority.certificate), ("hub", server)):
        write_text(x.pem_of(certificate), folder / f"{file}.pem")
    write_text(x.pem_of(own), folder / "coordinator.pem")
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
        If there is none, or another version of tacit made it.
    """
    file = folder / "invitation.json"
    if not file.is_file():
        raise InputError(
            f"there is no study in {folder}; make one with tacit study new, or name the folder of "
            "studies with --studies"
        )
    invitation = Invitation.from_json(_text(file)).check_signed()
    check_version(invitation.tacit, f"the study {invitation.study}")
    return StudyFolder(folder, invitation)


def admit(study: StudyFolder, request: JoinRequest, now: datetime.datetime) -> Admitted:
    """Sign the certificate of a site and write it down as a member; returns it.

    A member that asks again gets a new certificate; its count and its place stay or are renewed.

    Raises
    ------
    InputError
        If the request answers another invitation, or a member of that name has another signing key.
    """
    request.check_for(study.invitation)
    known = {one.participant.name: one for one in study.admitted()}
    before = known.get(request.name)
    if before is not None and before.participant.key != request.key and not before.struck:
        raise InputError(
            f"there is a site {request.name} with another signing key; strike it off first (tacit "
            "study strike), if its owner says so"
        )
    taken = {one.participant.key: one.participant.name for one in study.members()}
    if taken.get(request.key, request.name) != request.name:
        raise InputError(
            f"{taken[request.key]} has this signing key already; each site has its own"
        )
    public = x.requested_key(request.certificate)
    pem = x.pem_of(x.party_certificate(study.authority(), request.name, public, now))
    if user_in(pem) in study.struck():
        raise InputError(
            f"the key of {request.name} was struck off; the owner makes another: tacit site join "
            "--renew"
        )
    member = Admitted(
        number=len(known) if before is None else before.number,
        participant=Participant(
            name=request.name,
            certificate=pem,
            fingerprint=certificate_digest(pem),
            key=request.key,
            count=request.count,
        ),
        request=request.digest,
        struck=False,
        earlier=() if before is None else tuple(sorted(users_of_member(before))),
    )
    write_text(member.to_json() + "\n", study.folder / "members" / f"{request.name}.json")
    return member


def users_of_member(member: Admitted) -> frozenset[str]:
    """Return the users that the hub knows a site as: one for each TLS key that it ever had."""
    return frozenset(member.earlier) | {user_in(member.participant.certificate)}


def strike(study: StudyFolder, name: str) -> Admitted:
    """Strike a site off: none of its certificates may connect any more, nor be proposed with.

    Its earlier TLS keys count, too: proposals that name them may still be kept.

    Raises
    ------
    InputError
        If there is no such site.
    """
    known = {one.participant.name: one for one in study.admitted()}
    if name not in known:
        raise InputError(f"study {study.name!r} has no site {name!r}; see tacit study status")
    member = known[name].model_copy(update={"struck": True})
    proposed = (one for kept in study.proposals() for one in kept.participants if one.name == name)
    gone = study.struck() | users_of_member(member)
    gone |= {user_in(one.certificate) for one in proposed}
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
        The coordinator's certificate, PEM.
    struck
        Users who may not connect, whatever a proposal says.
    """
    writes: dict[str, list[str]] = {user_in(coordinator): []}
    hears: dict[str, list[str]] = {user_in(coordinator): []}
    for proposal in proposals:
        subjects = proposal.subjects
        writes[user_in(coordinator)] += subjects.coordinator_writes()
        hears[user_in(coordinator)] += subjects.coordinator_hears()
        for agent, site in enumerate(proposal.participants):
            user = user_in(site.certificate)
            writes.setdefault(user, []).extend(
                subjects.agent_writes(agent, proposal.neighbours(agent))
            )
            hears.setdefault(user, []).extend(subjects.agent_hears(agent))
    return tuple(
        User(user, tuple(writes[user]), tuple(hears[user])) for user in writes if user not in struck
    )


def user_in(pem: str) -> str:
    """Return the user that the hub takes the owner of a certificate for."""
    return x.user_of(x.read_certificate(pem))


def certificate_digest(pem: str) -> str:
    """Return the SHA-256 of a certificate's DER in hexadecimal digits."""
    return x.read_certificate(pem).fingerprint(hashes.SHA256()).hex()


def renew(study: StudyFolder, now: datetime.datetime) -> Mapping[str, x509.Certificate]:
    """Sign the certificates of hub and coordinator anew, for the keys that they have.

    Returns
    -------
    Mapping
        The certificates by name; the server has to read them again.
    """
    authority = study.authority()
    host, _ = check_address(study.invitation.hub)
    keys = {
        name: cast(
            ec.EllipticCurvePublicKey,
            x.read_certificate(_text(study.folder / f"{name}.pem")).public_key(),
        )
        for name in ("hub", "coordinator")
    }
    renewed = {
        "hub": x.hub_certificate(authority, keys["hub"], (host, *LOOPBACK), now),
        "coordinator": x.party_certificate(authority, x.COORDINATOR, keys["coordinator"], now),
    }
    for name, certificate in renewed.items():
        write_text(x.pem_of(certificate), study.folder / f"{name}.pem")
    return renewed


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read ({type(error).__name__}); put back what tacit study new made"
        ) from None
