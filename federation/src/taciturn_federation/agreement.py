"""Signed public documents: invitation, request to join, and the proposal of a run.

Owner and coordinator compare fingerprints by telephone. That of the invitation vouches for the
hub's certificate and the coordinator's key, that of the request for the owner's keys and count.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import Field, model_validator

import taciturn
from taciturn import checks
from taciturn.algorithms import COUNTS
from taciturn.budget import AccountTerms
from taciturn.documents import Document, Part
from taciturn.errors import InputError, PrivacyError, install_command
from taciturn.regression import is_regression, parts_of
from taciturn.training import Proposal, TableFacts
from taciturn_federation.envelope import (
    COORDINATOR,
    BreachError,
    Opener,
    Subjects,
    check_token,
    read_values,
)
from taciturn_federation.keys import (
    Label,
    Nkey,
    check_certificate,
    check_nkey,
    fingerprint,
    is_signed,
    nkey_bytes,
    public_key,
    public_text,
    read_alike,
    sign_labelled,
)

UNSIGNED = ""
COORDINATOR_NAME = "coordinator"
START_PATIENCE = 900.0
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]*$", max_length=256)]


class Member(Part):
    """What is public of a party of a study."""

    name: str
    key: Hex  # the Ed25519 key of the signatures, 32 bytes in hexadecimal digits
    # with which it connects, as NATS writes it: envelopes rest on `key` and not on it
    nkey: Annotated[str, Field(max_length=56)]
    certified: Hex  # the signature with `key` that certifies `nkey`

    @model_validator(mode="after")
    def _named(self) -> Member:
        check_token("participant", self.name)
        public_key(self.key)
        return self

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the signing key, in groups that can be read aloud."""
        return fingerprint(bytes.fromhex(self.key))

    @property
    def keys(self) -> frozenset[bytes]:
        """Both public keys, 32 bytes each."""
        return frozenset({bytes.fromhex(self.key), nkey_bytes(self.nkey)})

    def check_nkey(self, study: str) -> None:
        """Raise `InputError` unless its signing key certified its nkey for this study."""
        check_nkey(self.key, study, self.name, self.nkey, self.certified)


class Participant(Member):
    """The owner of an agent's records."""

    count: Annotated[int, Field(ge=1, lt=2**53)]  # of records; of persons, of their places


class SignedProposal(Document):
    """A proposal with those who take part, signed by the coordinator of the study.

    Raises `InputError` if the counts are not those of the proposal, two participants share a name
    or a key, the nkey of one is not certified by its signing key, the data are no table, or the
    model of an abandoned run is to be released where no party has it.

    **Guarantee.** None by itself: a site derives from `proposal` what it would answer, and trusts
    no other party. The signature shows who proposes.
    """

    FORMAT: ClassVar[str] = "taciturn.signed-proposal"
    VERSION: ClassVar[int] = 1

    study: str
    taciturn: str  # the version of the library that all parties must have
    nonce: Hex  # random: two runs of one proposal are two runs
    proposal: Proposal
    coordinator: Member
    participants: tuple[Participant, ...]  # in the order of the agents
    patience: float  # seconds without a message after which the run is abandoned
    start_patience: float  # the same before the start, where nothing is lost
    release_abandoned: bool  # whether the model so far of an abandoned run is released
    quorum: Annotated[int, Field(ge=1)]  # the least number of participants of a round
    signature: Hex  # of the coordinator over the canonical JSON in which this is empty

    @model_validator(mode="after")
    def _consistent(self) -> SignedProposal:
        check_token("study", self.study)
        checks.positive("patience", self.patience)
        checks.positive("start-patience", self.start_patience)
        counts = tuple(member.count for member in self.participants)
        if counts != self.proposal.all_counts:
            raise InputError(
                "the participants' counts are not those of the proposal; propose again with the "
                "counts of their requests"
            )
        everyone = (self.coordinator, *self.participants)
        if len({member.name for member in everyone}) < len(everyone):
            raise InputError("two who take part have the same name; admit each once")
        for member in everyone:
            member.check_nkey(self.study)
        if len(frozenset().union(*(member.keys for member in everyone))) < 2 * len(everyone):
            raise InputError("two who take part have the same key; admit each once")
        network = self.proposal.network
        if self.proposal.data.table is None:
            raise InputError(
                "a study is proposed for tables with a bounds file, not for a data set by name or "
                "bare numbers; propose with --bounds FILE"
            )
        if network is not None and network.exchanges > 1:
            raise InputError("a study exchanges each message once; leave the exchanges out")
        self._check_quorum()
        self._check_table()
        if self.release_abandoned and network is not None:
            raise InputError(
                "without an aggregator no party has the model so far, and none can be released of "
                "an abandoned run; leave --release-abandoned out"
            )
        return self

    @property
    def may_lose(self) -> int:
        """How many participants may be missing in a round."""
        return len(self.participants) - self.quorum

    def enough(self, members: tuple[int, ...], turn: int) -> tuple[int, ...]:
        """Return the members of a round; raise `BreachError` if they are fewer than the quorum."""
        if len(members) < self.quorum:
            raise BreachError(
                f"{self.coordinator.name} asks {len(members)} sites in round {turn}; the proposal "
                f"names {self.quorum} at least, so nothing is answered"
            )
        return members

    def _check_quorum(self) -> None:
        agents, budget = len(self.participants), self.proposal.budget
        if self.quorum > agents:
            raise InputError(f"the quorum is {self.quorum} of {agents} participants; lower it")
        if not self.may_lose:
            return
        if self.proposal.network is not None:
            raise InputError("only a coordinator can go on without a site; leave the quorum out")
        if self.proposal.evaluation is not None:
            raise InputError(
                "an evaluation is asked once, of all sites; leave it or the quorum out"
            )
        if budget.observer == "sum" and budget.colluders < self.may_lose:
            raise InputError(
                f"under sum a missing site counts among the colluders, whose noise is not counted "
                f"on: with a quorum of {self.quorum} of {agents}, give --colluders {self.may_lose} "
                "or more"
            )

    def _check_table(self) -> None:
        """Raise `InputError` unless the whole run yields the table that it is proposed for.

        The noise and the number of records in a table are those of all sites in the last round.
        """
        tabled = is_regression(self.proposal)
        if not tabled and self.proposal.method.name != COUNTS:
            return
        if self.may_lose:
            raise InputError("a table needs the answers of all sites; leave the quorum out")
        if self.release_abandoned:
            raise InputError(
                "an abandoned run has no table to release; leave --release-abandoned out"
            )
        if tabled:
            if math.isinf(self.proposal.budget.epsilon):
                raise InputError("a study estimates a table within a budget; give an epsilon")
            parts_of(self.proposal)  # nothing may fail after the charge

    @property
    def run(self) -> bytes:
        """The digest, 32 bytes."""
        return bytes.fromhex(self.digest)

    @property
    def code(self) -> str:
        """The code that owners compare by telephone if answers are masked: 40 hexadecimal digits.

        The coordinator signs the proposal and names the keys in it, so it could name its own keys
        for all sites but one. Every owner finds the key of its site in the proposal that it holds;
        if all hold the same one, the keys in it are the owners'. To find two proposals with one
        code the coordinator would need about 2^80 attempts.
        """
        digits = self.digest[:40]
        return "-".join(digits[at : at + 4] for at in range(0, 40, 4))

    def check_agreed(self, code: str | None) -> None:
        """Raise `InputError` unless an owner confirms that the others have this proposal, too."""
        if not read_alike(code, self.code):
            what = "is another proposal's" if code else "is not given"
            raise InputError(
                f"the code that the owners agreed on {what}: under the observer sum a coordinator "
                "who impersonates the other sites could read this one's answers; compare the code "
                "that taciturn site check prints with the other owners by telephone, then add "
                "--agreed CODE"
            )

    @property
    def subjects(self) -> Subjects:
        """The subjects of the run."""
        return Subjects(self.study, self.digest[:16])

    @property
    def opener(self) -> Opener:
        """The verifier of the envelopes of all parties."""
        members = dict(enumerate(self.participants)) | {COORDINATOR: self.coordinator}
        return Opener(
            self.run,
            {number: member.name for number, member in members.items()},
            {number: public_key(member.key) for number, member in members.items()},
        )

    def neighbours(self, agent: int) -> tuple[int, ...]:
        """Return the agents to which one may send: none on a star, on a tree its neighbours."""
        network = self.proposal.network
        if network is None:
            return ()
        along = network.network(len(self.participants)).along
        return tuple(along.neighbours()[agent].tolist())

    def agent_of(self, key: Ed25519PublicKey) -> int:
        """Return the agent whose signing key this is; `InputError` if none has it."""
        keys = [member.key for member in self.participants]
        if public_text(key) not in keys:
            raise InputError(
                "none of the participants of the proposal has this site's signing key; ask the "
                "coordinator to admit the site and to propose again"
            )
        return keys.index(public_text(key))

    def check(self, coordinator: Ed25519PublicKey) -> None:
        """Raise unless it was signed by this coordinator, with this version of the library.

        `PrivacyError` if another key is named, or the signature is invalid; else `InputError`.
        """
        check_version(self.taciturn)
        if self.coordinator.key != public_text(coordinator):
            raise PrivacyError(
                f"the proposal is signed by another coordinator than that of study {self.study!r}; "
                "ask the coordinator for the right file, and compare fingerprints by telephone"
            )
        if not is_signed(coordinator, Label.PROPOSAL, self.signature, _unsigned(self)):
            raise PrivacyError(
                "the signature of the proposal is invalid: the file was changed after signing; ask "
                "the coordinator for it again"
            )

    @classmethod
    def from_json(cls, text: str) -> SignedProposal:
        """Return the signed proposal that JSON describes; its version is checked first."""
        version = None
        # every version writes the field `taciturn`
        with contextlib.suppress(InputError):  # invalid JSON is refused below
            version = read_values(text.encode()).get("taciturn")
        if isinstance(version, str):
            check_version(version)
        return super().from_json(text)


def sign(  # noqa: PLR0913 - one parameter per field
    study: str,
    proposal: Proposal,
    participants: Sequence[Participant],
    *,
    coordinator: Member,
    key: Ed25519PrivateKey,
    nonce: str,
    patience: float,
    release_abandoned: bool,
    start_patience: float | None = None,
    quorum: int | None = None,
) -> SignedProposal:
    """Return a proposal, signed with the coordinator's key.

    `nonce`: fresh random hexadecimal digits, for example `secrets.token_hex(16)`. By default the
    `start_patience` is the patience, and 900 s at most, and all participants are the quorum.
    """
    waits = min(patience, START_PATIENCE) if start_patience is None else start_patience
    unsigned = SignedProposal(
        study=study, taciturn=taciturn.__version__, nonce=nonce, proposal=proposal,
        coordinator=coordinator, participants=tuple(participants), patience=patience,
        start_patience=waits, release_abandoned=release_abandoned, signature=UNSIGNED,
        quorum=len(participants) if quorum is None else quorum,
    )  # fmt: skip
    signature = sign_labelled(key, Label.PROPOSAL, _unsigned(unsigned)).hex()
    return unsigned.model_copy(update={"signature": signature})


def check_version(version: str, who: str = "the proposal needs") -> None:
    """Raise `InputError` unless this version of the library is the named one."""
    if version != taciturn.__version__:
        raise InputError(
            f"{who} taciturn {version[:40]}, and this is taciturn {taciturn.__version__}; all "
            f"parties need the same: check out one commit and {install_command('federation')}"
        )


def _unsigned(document: Document) -> bytes:
    """Return the signed bytes of a document: its canonical JSON with an empty signature."""
    return document.model_copy(update={"signature": UNSIGNED}).to_json().encode()


S = TypeVar("S", bound="Signed")
_PARTY = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")


class Signed(Document):
    """A document with the signature of the key that it names, or not yet signed."""

    LABEL: ClassVar[Label]  # of its signature

    key: str  # the Ed25519 key of its signature, in hexadecimal digits
    signature: str  # over the canonical JSON of the document in which this is empty

    @model_validator(mode="after")
    def _by_its_key(self) -> Signed:
        key, content = public_key(self.key), _unsigned(self)
        if self.signature != UNSIGNED and not is_signed(key, self.LABEL, self.signature, content):
            raise InputError(
                f"the {self.FORMAT.removeprefix('taciturn.')} is not signed by its key: it was "
                "changed on its way; request it again"
            )
        return self

    def signed(self: S, key: Ed25519PrivateKey) -> S:
        """Return the document with the signature of its key."""
        named = self.model_copy(update={"key": public_text(key.public_key())})
        signature = sign_labelled(key, self.LABEL, _unsigned(named)).hex()
        return named.model_copy(update={"signature": signature})

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
    """What an owner needs to join a study; the key is the coordinator's."""

    FORMAT: ClassVar[str] = "taciturn.invitation"
    VERSION: ClassVar[int] = 2
    LABEL: ClassVar[Label] = Label.INVITATION

    study: str
    hub: str  # host and port
    certificate: str  # of the hub, PEM; parties trust no other
    table: TableFacts  # what is public of every owner's columns
    rows_per_person: int | None  # K where persons are protected, None where records are
    # of the study's runs, unless a proposal says otherwise; owners open accounts for these
    observer: str
    colluders: int
    # the secret half of the nkey of guests, 32 bytes: it connects whoever has the invitation, to
    # file requests to join
    guest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    taciturn: str

    @model_validator(mode="after")
    def _consistent(self) -> Invitation:
        check_party(self.study, "a study")
        check_address(self.hub)
        check_certificate(self.certificate)
        self.table.bounds  # noqa: B018 - checked
        self.account_terms  # noqa: B018 - checked
        if self.rows_per_person is not None:
            checks.at_least("rows-per-person", self.rows_per_person, 1)
        return self

    def guest_nkey(self) -> Nkey:
        """Return the key with which a site that is not admitted connects."""
        return Nkey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.guest)))

    @property
    def account_terms(self) -> AccountTerms:
        """The terms of an account for the runs of this study."""
        unit = "record" if self.rows_per_person is None else "person"
        return AccountTerms(unit=unit, observer=self.observer, colluders=self.colluders)


class JoinRequest(Signed):
    """An owner's request to a coordinator; it holds the count, and no more of the file."""

    FORMAT: ClassVar[str] = "taciturn.request"
    VERSION: ClassVar[int] = 1
    LABEL: ClassVar[Label] = Label.REQUEST

    study: str
    name: str
    invitation: str  # the digest of the one that it answers
    count: int  # of records; where persons are protected, of their places
    nkey: str
    certified: str
    taciturn: str

    @model_validator(mode="after")
    def _consistent(self) -> JoinRequest:
        check_party(self.study, "a study")
        check_party(self.name)
        checks.at_least("count", self.count, 1)
        return self

    @property
    def participant(self) -> Participant:
        """The site as a proposal names it."""
        return Participant(**{name: getattr(self, name) for name in Participant.model_fields})

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
    """Return the name of a party or study; raise `InputError` if it is none."""
    if not _PARTY.fullmatch(name) or name == COORDINATOR_NAME:
        raise InputError(
            f"{name[:80]!r} is no name of {what}; use up to 32 small letters, digits and, between "
            f"them, hyphens, and not {COORDINATOR_NAME!r}"
        )
    return name


def check_address(address: str) -> tuple[str, int]:
    """Return host and port of an address; raise `InputError` if it is none."""
    host, colon, port = address.rpartition(":")
    good = colon and host and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536
    if not good or any(not c.isprintable() or c in ' /"\\' for c in host):
        raise InputError(f"{address[:80]!r} is no address; give host:port, as hub.example.org:4222")
    return host.strip("[]"), int(port)
