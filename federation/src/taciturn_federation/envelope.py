"""Envelopes: a fixed header, a body and a signature over both, and nothing that is executed.

    magic 4 | version 1 | kind 1 | reserved 2 | sender 4 | round 4 | run 32 | heard 32
            | digest of the body 32 | length of the body 8 | body | signature 64

Numbers are little-endian. The signature is Ed25519 (RFC 8032) over a label and the header, which
holds the SHA-256 of the body; so it covers both.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from taciturn.errors import InputError
from taciturn_federation.keys import Label, is_signed, sign_labelled

_HEADER = struct.Struct("<4sBBHII32s32s32sQ")
_MAGIC, _VERSION, _SIGNATURE = b"TACT", 1, 64
COORDINATOR = 2**32 - 1
NOTHING = bytes(32)


class Kind(IntEnum):
    """What an envelope holds: JSON below 16, or nothing; arrays from there on."""

    PROPOSAL = 1
    ACCEPTANCE = 2
    START = 3
    WISH = 4
    HEADS = 5
    HEAD = 6
    REFUSAL = 7
    DONE = 8
    END = 9
    COLUMN = 10
    PROGRESS = 11
    PUBLIC = 16
    MESSAGE = 17
    FINAL = 18
    SCORE = 19
    TOTAL = 20


@dataclass(frozen=True)
class Envelope:
    """What was in an envelope whose signature is right.

    Attributes
    ----------
    sender
        The agent's number; `COORDINATOR` for the coordinator.
    round
        Of the run, from 0.
    heard
        The chain of what the sender heard before it said this, 32 bytes.
    digest
        SHA-256 of the body.
    sealed
        All its bytes.
    """

    kind: Kind
    sender: int
    round: int
    heard: bytes
    body: bytes
    digest: bytes
    sealed: bytes

    def values(self) -> dict[str, Any]:
        """Return the JSON object in the body; `InputError` if there is none."""
        return read_values(self.body)


@dataclass(frozen=True)
class Seal:
    """What a party signs with: its number, its key, and the run that its envelopes are for.

    Attributes
    ----------
    run
        Digest of the signed proposal, 32 bytes.
    """

    run: bytes
    sender: int
    key: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"Seal(sender={self.sender})"

    def sealed(self, kind: Kind, turn: int, body: bytes, *, heard: bytes = NOTHING) -> bytes:
        """Return the bytes of an envelope."""
        header = _HEADER.pack(
            _MAGIC, _VERSION, kind, 0, self.sender, turn, self.run, heard, _sha(body), len(body)
        )
        return b"".join([header, body, sign_labelled(self.key, Label.ENVELOPE, header)])

    def values(self, kind: Kind, turn: int, values: Mapping[str, Any]) -> bytes:
        """Return the bytes of an envelope with canonical JSON."""
        text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return self.sealed(kind, turn, text.encode())


@dataclass(frozen=True)
class Opener:
    """Whose signatures a party believes, and for which run.

    Attributes
    ----------
    names, keys
        By number: what error messages call a sender, and its key.
    """

    run: bytes
    names: Mapping[int, str]
    keys: Mapping[int, Ed25519PublicKey]

    def opened(self, sealed: bytes) -> Envelope:
        """Return what is in an envelope.

        Raises
        ------
        InputError
            If it is cut short, of another version, for another run, of nobody who takes part, or
            not signed by its sender's key.
        """
        if len(sealed) < _HEADER.size + _SIGNATURE:
            raise InputError(f"a message has {len(sealed)} bytes and was cut short; it is not used")
        header, body = sealed[: _HEADER.size], sealed[_HEADER.size : -_SIGNATURE]
        magic, version, kind, _, sender, turn, run, heard, digest, length = _HEADER.unpack(header)
        if magic != _MAGIC or version != _VERSION:
            raise InputError("a message is not one of this version of taciturn; it is not used")
        if sender not in self.keys:
            raise InputError(f"a message names the sender {sender}, who takes no part in this run")
        name = self.names[sender]
        if length != len(body) or digest != _sha(body):
            raise InputError(f"a message of {name} was cut short or changed; it is not used")
        if run != self.run:
            raise InputError(f"a message of {name} belongs to another run; it is not used")
        if not is_signed(self.keys[sender], Label.ENVELOPE, sealed[-_SIGNATURE:], header):
            raise InputError(
                f"a message in the name of {name} was not signed with the key of {name}; somebody "
                "else sent it, or changed it on its way"
            )
        return Envelope(_kind(kind, name), sender, turn, heard, body, digest, sealed)


def read_values(body: bytes) -> dict[str, Any]:
    """Return the JSON object in some bytes; raise `InputError` if there is none."""
    try:
        values = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InputError("a message holds no JSON; it is not used") from None
    if not isinstance(values, dict):
        raise InputError("a message holds no JSON object; it is not used")
    return values


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def from_hex(text: Any) -> bytes:
    """Return the bytes that hexadecimal digits stand for; raise `InputError` if these are none."""
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise InputError("a message holds no hexadecimal digits where it must") from None


def chained(heard: bytes, digest: bytes) -> bytes:
    """Return h_t = SHA-256(h_(t-1) | digest of what was heard in round t)."""
    return _sha(heard + digest)


def _kind(number: int, name: str) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise InputError(f"a message of {name} is of an unknown kind; it is not used") from None


def _sha(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
