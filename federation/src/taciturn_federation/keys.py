"""Keys of the parties, and the one function that signs with them: under a label.

Keys are made on the machine that uses them, for its user alone to read. A party has two, both
Ed25519: the signing key signs documents and envelopes; the nkey of
`taciturn_federation.credentials` answers the hub's challenges. In public stands the public half of
a key, or a fingerprint.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from enum import Enum
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from taciturn.errors import InputError

_KEY = re.compile(r"[0-9a-f]{64}")
_GROUPS, _DIGITS = 8, 4


class Label(Enum):
    """Kinds of content that a signing key signs; a signature of one kind is none of another.

    A label is one line, so no label with its content is another label with other content.
    """

    ENVELOPE = b"taciturn federation envelope 1\n"
    PROPOSAL = b"taciturn signed proposal 1\n"
    INVITATION = b"taciturn invitation 1\n"
    REQUEST = b"taciturn join request 1\n"
    NKEY = b"taciturn nkey 1\n"


def sign_labelled(key: Ed25519PrivateKey, label: Label, content: bytes) -> bytes:
    """Return the signature of a label and some content, 64 bytes.

    **Guarantee.** Signing keys sign by this function alone, so whoever obtains a signature for one
    kind of content has none for another.
    """
    return key.sign(label.value + content)


def is_signed(key: Ed25519PublicKey, label: Label, signature: bytes | str, content: bytes) -> bool:
    """Return whether a signature is that of a key over a label and some content.

    Parameters
    ----------
    signature
        64 bytes, or as many in hexadecimal digits.
    """
    try:
        given = bytes.fromhex(signature) if isinstance(signature, str) else signature
        key.verify(given, label.value + content)
    except (InvalidSignature, ValueError):
        return False
    return True


def public_text(key: Ed25519PublicKey) -> str:
    """Return a public signing key in 64 hexadecimal digits."""
    return key.public_bytes_raw().hex()


def public_key(text: str) -> Ed25519PublicKey:
    """Return the key of which `public_text` is the text.

    Raises
    ------
    InputError
        If the text is no such key.
    """
    if not _KEY.fullmatch(text):
        raise InputError("a signing key is not 64 hexadecimal digits; ask for the file anew")
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))


def fingerprint(content: bytes) -> str:
    """Return the first 128 bits of the SHA-256 of some content, in groups to be read aloud.

    Whoever wants other content of the same fingerprint has 2^128 to try.

    Examples
    --------
    >>> fingerprint(b"taciturn")
    '3749 1584 d54c 6a31 da4d f851 ec4d 4f20'
    """
    digits = hashlib.sha256(content).hexdigest()[: _GROUPS * _DIGITS]
    return " ".join(digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS))


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only its user can read; it must be new.

    Raises
    ------
    InputError
        If there is such a file, or it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(file, flags, 0o600)
        with os.fdopen(descriptor, "wb") as private:
            private.write(content)
            private.flush()
            os.fsync(private.fileno())
    except FileExistsError:
        raise InputError(f"there is a key {file} already; it is not replaced") from None
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}); make room") from None


def read_private(file: Path) -> bytes:
    """Return the content of a file that only its user can read.

    Raises
    ------
    InputError
        If it cannot be read, or others can read it too.
    """
    try:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise InputError(
                f"others can read {file}; take it for known and make new keys, or say chmod 600 if "
                "it is not"
            )
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}); it is made by taciturn study new or "
            "taciturn "
            "site join"
        ) from None


def write_key(file: Path, key: Ed25519PrivateKey | EllipticCurvePrivateKey) -> None:
    """Write a private key, PKCS #8 in PEM, into a new file; see `write_private`."""
    write_private(file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def read_key(file: Path) -> Ed25519PrivateKey:
    """Return the Ed25519 key in a file; see `read_private`."""
    content, key = read_private(file), None
    with suppress(ValueError, TypeError):  # their messages may quote the file
        key = load_pem_private_key(content, password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{file} is no Ed25519 key; put the right file back")
    return key
