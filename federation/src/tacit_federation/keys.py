"""Keys of the parties: made on the machine that uses them, for its user alone to read.

A party has two. The Ed25519 key signs what it sends; the other one, of P-256, is that of its TLS
certificate. What is said of a key in public is its public half, or a fingerprint.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tacit.errors import InputError

_KEY = re.compile(r"[0-9a-f]{64}")
_GROUPS, _DIGITS = 8, 4


def public_text(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """Return the public half of a signing key: 32 bytes in hexadecimal digits."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    return public.public_bytes_raw().hex()


def public_key(text: str) -> Ed25519PublicKey:
    """Return the key of which `public_text` is the text.

    Raises
    ------
    InputError
        If the text is no such key.
    """
    if not _KEY.fullmatch(text):
        raise InputError("a signing key is not 64 hexadecimal digits; ask for the file anew")
    try:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except ValueError as error:
        raise InputError(f"a signing key cannot be read ({error}); ask for the file anew") from None


def signed_by(key: str, signature: str, content: bytes) -> bool:
    """Return whether a signature, in hexadecimal digits, is that of a key over some content."""
    try:
        public_key(key).verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):  # an `InputError` is a `ValueError`
        return False
    return True


def fingerprint(content: bytes) -> str:
    """Return the first 128 bits of the SHA-256 of some content, in groups to be read aloud.

    Whoever wants other content of the same fingerprint has 2^128 to try.

    Examples
    --------
    >>> fingerprint(b"tacit")
    '497f d753 ad54 a793 ebeb b61b 84bf 7e82'
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
            f"{file} cannot be read ({error.strerror}); it is made by tacit study new or tacit "
            "site join"
        ) from None


def private_pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as it is written: PKCS #8 in PEM, for `write_private` alone."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_signing_key(file: Path) -> Ed25519PrivateKey:
    """Return the signing key in a file; see `read_private`."""
    key = _loaded(file)
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{file} is no Ed25519 key; put the right file back")
    return key


def read_tls_key(file: Path) -> ec.EllipticCurvePrivateKey:
    """Return the key of a certificate in a file; see `read_private`."""
    key = _loaded(file)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{file} is no key of an elliptic curve; put the right file back")
    return key


def new_tls_key() -> ec.EllipticCurvePrivateKey:
    """Return a new key for a TLS certificate, of the curve P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def _loaded(file: Path) -> object:
    content = read_private(file)
    try:
        return load_pem_private_key(content, password=None)
    except (ValueError, TypeError):  # their messages may quote the file
        pass
    raise InputError(f"{file} is no key; put the right file back")
