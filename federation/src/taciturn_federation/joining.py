"""How a site comes into a study: the coordinator's invitation, and the owner's request.

Both are signed public documents. Who signed them is told by their fingerprints, which are compared
by telephone: that of the invitation vouches for the hub's certificate and the coordinator's key,
that of the request for the owner's keys and count.
"""

from __future__ import annotations

import re
from typing import ClassVar, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import model_validator

from taciturn import checks
from taciturn.errors import InputError
from taciturn.proposal import Document, TableFacts
from taciturn_federation.agreement import Participant, check_version
from taciturn_federation.keys import (
    Label,
    check_certificate,
    fingerprint,
    is_signed,
    public_key,
    public_text,
    sign_labelled,
)

S = TypeVar("S", bound="Signed")
UNSIGNED = ""
COORDINATOR = "coordinator"
_PARTY = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")


class Signed(Document):
    """A document with the signature of the key that it names.

    Attributes
    ----------
    LABEL
        Of its signature.
    key
        The Ed25519 key of who signed it, in hexadecimal digits.
    signature
        Over the canonical JSON of the document in which this is empty.

    Raises
    ------
    InputError
        If the signature is not that of the key.
    """

    LABEL: ClassVar[Label]

    key: str
    signature: str

    @model_validator(mode="after")
    def _by_its_key(self) -> Signed:
        key, content = public_key(self.key), self._content()
        if self.signature != UNSIGNED and not is_signed(key, self.LABEL, self.signature, content):
            raise InputError(
                f"the {self.FORMAT.removeprefix('taciturn.')} is not signed by its own key: it was "
                "changed on its way; ask for it anew"
            )
        return self

    def signed(self: S, key: Ed25519PrivateKey) -> S:
        """Return the document with the signature of its key."""
        named = self.model_copy(update={"key": public_text(key.public_key())})
        signature = sign_labelled(key, self.LABEL, named._content()).hex()
        return named.model_copy(update={"signature": signature})

    def _content(self) -> bytes:
        return self.model_copy(update={"signature": UNSIGNED}).to_json().encode()

    def check_signed(self: S) -> S:
        """Return the document; raise `InputError` if it has no signature."""
        if self.signature == UNSIGNED:
            raise InputError(f"the {self.FORMAT.removeprefix('taciturn.')} is not signed")
        return self

    @property
    def fingerprint(self) -> str:
        """What is compared by telephone; see `taciturn_federation.keys.fingerprint`."""
        return fingerprint(self.to_json().encode())


class Invitation(Signed):
    """What an owner needs to join a study; the key is the coordinator's.

    Attributes
    ----------
    hub
        Host and port.
    certificate
        Of the hub, PEM; parties accept no other.
    table
        The bounds: what is public of every owner's columns.
    rows_per_person
        K where persons are protected, None where records are.
    taciturn
        The version that every party runs.
    """

    FORMAT: ClassVar[str] = "taciturn.invitation"
    VERSION: ClassVar[int] = 1
    LABEL: ClassVar[Label] = Label.INVITATION

    study: str
    hub: str
    certificate: str
    table: TableFacts
    rows_per_person: int | None
    taciturn: str

    @model_validator(mode="after")
    def _consistent(self) -> Invitation:
        check_party(self.study, "a study")
        check_address(self.hub)
        check_certificate(self.certificate)
        self.table.bounds  # noqa: B018 - checked
        if self.rows_per_person is not None:
            checks.at_least("rows-per-person", self.rows_per_person, 1)
        return self


class JoinRequest(Signed):
    """What an owner asks a coordinator for; it holds the count, and no more of the file.

    Attributes
    ----------
    name
        What the site is called in the study.
    invitation
        The digest of the invitation that it answers.
    count
        How many records there are; where persons are protected, how many places they have.
    nkey, certified
        The public key with which the site connects, and its certification; see
        `taciturn_federation.agreement.Member`.
    taciturn
        The version that the site runs.
    """

    FORMAT: ClassVar[str] = "taciturn.request"
    VERSION: ClassVar[int] = 1
    LABEL: ClassVar[Label] = Label.REQUEST

    study: str
    name: str
    invitation: str
    count: int
    nkey: str
    certified: str
    taciturn: str

    @model_validator(mode="after")
    def _consistent(self) -> JoinRequest:
        check_party(self.study, "a study")
        check_party(self.name)
        checks.at_least("count", self.count, 1)
        self.participant.check_nkey(self.study)
        return self

    @property
    def participant(self) -> Participant:
        """The site as a proposal names it."""
        return Participant(
            name=self.name,
            key=self.key,
            nkey=self.nkey,
            certified=self.certified,
            count=self.count,
        )

    def check_for(self, invitation: Invitation) -> None:
        """Raise `InputError` unless the request answers an invitation, with this version.

        It must be signed, and the nkey certified by the same key.
        """
        self.check_signed()
        self.participant.check_nkey(self.study)
        if self.invitation != invitation.digest:
            raise InputError(
                f"the request of {self.name} answers another invitation than this study's; send "
                "the owner this one"
            )
        check_version(self.taciturn, f"{self.name} runs")


def check_party(name: str, what: str = "a site") -> str:
    """Return the name of a party or study if it is one.

    Raises
    ------
    InputError
        If it is not one to 32 small letters, digits and hyphens within, or a reserved name.
    """
    if not _PARTY.fullmatch(name) or name == COORDINATOR:
        raise InputError(
            f"{name[:80]!r} is no name of {what}; use up to 32 small letters, digits and, between "
            f"them, hyphens, and not {COORDINATOR!r}"
        )
    return name


def check_address(address: str) -> tuple[str, int]:
    """Return host and port of an address such as hub.example.org:4222.

    Raises
    ------
    InputError
        If it is no address.
    """
    host, colon, port = address.rpartition(":")
    good = colon and host and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536
    if not good or any(not c.isprintable() or c in ' /"\\' for c in host):
        raise InputError(f"{address[:80]!r} is no address; give host:port, as hub.example.org:4222")
    return host.strip("[]"), int(port)
