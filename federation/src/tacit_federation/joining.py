"""How a site comes into a study: the coordinator's invitation, and the owner's request.

Both are signed public documents. Who signed them is told by their fingerprints, which are compared
by telephone: that of the invitation vouches for the authority and the coordinator's key, that of
the request for the owner's keys and count.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import model_validator

import tacit
from tacit import checks
from tacit.errors import InputError, install_with
from tacit.proposal import Document, TableFacts
from tacit_federation.authority import check_party, read_certificate, requested_key
from tacit_federation.keys import fingerprint, public_key, public_text, signed_by

S = TypeVar("S", bound="Signed")
UNSIGNED = ""


class Signed(Document):
    """A document with the signature of the key that it names.

    Attributes
    ----------
    key
        The Ed25519 key of who signed it, in hexadecimal digits.
    signature
        Over the canonical JSON of the document in which this is empty.

    Raises
    ------
    InputError
        If the signature is not that of the key.
    """

    key: str
    signature: str

    @model_validator(mode="after")
    def _by_its_key(self) -> Signed:
        public_key(self.key)
        unsigned = self.model_copy(update={"signature": UNSIGNED})
        content = unsigned.to_json().encode()
        if self.signature != UNSIGNED and not signed_by(self.key, self.signature, content):
            raise InputError(
                f"the {self.FORMAT.removeprefix('tacit.')} is not signed by its own key: it was "
                "changed on its way; ask for it anew"
            )
        return self

    def signed(self: S, key: Ed25519PrivateKey) -> S:
        """Return the document with the signature of its key."""
        unsigned = self.model_copy(update={"key": public_text(key), "signature": UNSIGNED})
        signature = key.sign(unsigned.to_json().encode()).hex()
        return unsigned.model_copy(update={"signature": signature})

    def check_signed(self: S) -> S:
        """Return the document; raise `InputError` if it has no signature."""
        if self.signature == UNSIGNED:
            raise InputError(f"the {self.FORMAT.removeprefix('tacit.')} is not signed")
        return self

    @property
    def fingerprint(self) -> str:
        """What is compared by telephone; see `tacit_federation.keys.fingerprint`."""
        return fingerprint(self.to_json().encode())


class Invitation(Signed):
    """What an owner needs to join a study; the key is the coordinator's.

    Attributes
    ----------
    hub
        Host and port.
    authority
        The certificate of the study's authority, PEM.
    table
        The bounds: what is public of every owner's columns.
    rows_per_person
        K where persons are protected, None where records are.
    tacit
        The version that every party runs.
    """

    FORMAT: ClassVar[str] = "tacit.invitation"
    VERSION: ClassVar[int] = 1

    study: str
    hub: str
    authority: str
    table: TableFacts
    rows_per_person: int | None
    tacit: str

    @model_validator(mode="after")
    def _consistent(self) -> Invitation:
        check_party(self.study, "a study")
        check_address(self.hub)
        read_certificate(self.authority, "the authority's certificate")
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
    certificate
        The request for the TLS certificate, PEM.
    tacit
        The version that the site runs.
    """

    FORMAT: ClassVar[str] = "tacit.request"
    VERSION: ClassVar[int] = 1

    study: str
    name: str
    invitation: str
    count: int
    certificate: str
    tacit: str

    @model_validator(mode="after")
    def _consistent(self) -> JoinRequest:
        check_party(self.study, "a study")
        check_party(self.name)
        checks.at_least("count", self.count, 1)
        requested_key(self.certificate)
        return self

    def check_for(self, invitation: Invitation) -> None:
        """Raise `InputError` unless the request answers an invitation, with this version."""
        self.check_signed()
        if self.invitation != invitation.digest:
            raise InputError(
                f"the request of {self.name} answers another invitation than this study's; send "
                "the owner this one"
            )
        check_version(self.tacit, self.name)


def check_version(version: str, party: str) -> None:
    """Raise `InputError` unless a party runs this version of tacit."""
    if version != tacit.__version__:
        raise InputError(
            f"{party} runs tacit {version[:40]}, and this is tacit {tacit.__version__}; all "
            f"parties need the same: check out {tacit.__version__} and {install_with('federation')}"
        )


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
