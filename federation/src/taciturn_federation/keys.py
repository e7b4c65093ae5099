"""Keys of the parties, and the one function that signs with them: under a label.

Keys are generated on the machine that uses them, for its user alone to read. A party has two, both
Ed25519: the signing key signs documents and envelopes, the nkey answers the hub's challenges.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import json
import os
import re
import ssl
import stat
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from taciturn.budget import private_opener
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

    **Guarantee.** Signing keys sign by this function alone, so a signature for one kind of content
    is none for another.
    """
    return key.sign(label.value + content)


def is_signed(key: Ed25519PublicKey, label: Label, signature: bytes | str, content: bytes) -> bool:
    """Return whether a signature, in bytes or hexadecimal digits, is that of a key over both."""
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
    """Return the key of which `public_text` is the text; `InputError` if it is none."""
    if not _KEY.fullmatch(text):
        raise InputError("a signing key is not 64 hexadecimal digits; request the file again")
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


def read_alike(given: str | None, shown: str) -> bool:
    """Whether digits that were read aloud are those shown, whatever stands between them."""
    one, other = ("".join(filter(str.isalnum, text or "")).lower() for text in (given, shown))
    return one == other


def write_private(file: Path, content: bytes) -> None:
    """Write a new file that only its user can read; `InputError` if it is there, or cannot be."""
    try:
        with open(file, "xb", opener=private_opener) as private:
            private.write(content)
            private.flush()
            os.fsync(private.fileno())
    except FileExistsError:
        raise InputError(f"there is a key {file} already; it is not replaced") from None
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}); make room") from None


def read_private(file: Path) -> bytes:
    """Return the content of a file; `InputError` if others than its user can read it."""
    try:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise InputError(
                f"others can read {file}; replace the key, as others may know it, or chmod 600 the "
                "file if none does"
            )
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}); taciturn study new or taciturn site join "
            "creates it"
        ) from None


def write_key(file: Path, key: Ed25519PrivateKey) -> None:
    """Write a private key, 32 bytes, into a new file; see `write_private`."""
    write_private(file, key.private_bytes_raw())


def read_key(file: Path) -> Ed25519PrivateKey:
    """Return the Ed25519 key in a file; see `read_private`."""
    content = read_private(file)
    if len(content) != 32:
        raise InputError(f"{file} is no Ed25519 key; put the right file back")
    return Ed25519PrivateKey.from_private_bytes(content)


_USER = 20 << 3  # the first byte of a user's public nkey; in base 32 it reads U
_NKEY = re.compile(r"U[A-Z2-7]{55}")
# A client compares the certificate with that of the invitation; no calendar decides.
_FROM = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Nkey:
    """The key with which a party connects; it signs nothing but challenges of the hub."""

    key: Ed25519PrivateKey

    @property
    def public(self) -> str:
        """The public half as NATS writes it, 56 characters."""
        return nkey_text(self.key.public_key().public_bytes_raw())

    def answer(self, challenge: str) -> bytes:
        """Return the signature of a challenge of the server, in base 64."""
        return base64.b64encode(self.key.sign(challenge.encode()))


def nkey_text(public: bytes) -> str:
    """Return the public key of a user, 32 bytes, as NATS writes it."""
    content = bytes([_USER]) + public
    # CRC-16/XMODEM, least significant byte first
    return base64.b32encode(content + binascii.crc_hqx(content, 0).to_bytes(2, "little")).decode()


def nkey_bytes(text: str) -> bytes:
    """Return the 32 bytes of which `nkey_text` is the text; `InputError` if it is none."""
    public = base64.b32decode(text)[1:33] if _NKEY.fullmatch(text) else b""
    if nkey_text(public) != text:
        raise InputError("a public nkey is not what NATS writes for a user; request the file again")
    return public


def certify_nkey(key: Ed25519PrivateKey, study: str, name: str, nkey: str) -> str:
    """Return a party's signature that it connects with an nkey, 128 hexadecimal digits."""
    return sign_labelled(key, Label.NKEY, _certified(study, name, nkey)).hex()


@lru_cache(10_000)  # a hub reads the proposals of its study several times a second
def check_nkey(key: str, study: str, name: str, nkey: str, signature: str) -> None:
    """Raise `InputError` unless the holder of a signing key certified another key as its nkey."""
    if nkey_bytes(nkey).hex() == key:
        raise InputError(f"{name} connects with its signing key; it needs another key for that")
    content = _certified(study, name, nkey)
    if not is_signed(public_key(key), Label.NKEY, signature, content):
        raise InputError(
            f"the nkey of {name} is not certified by the signing key of {name}; its owner joins "
            "again (taciturn site join)"
        )


def _certified(study: str, name: str, nkey: str) -> bytes:
    values = {"study": study, "name": name, "nkey": nkey}
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def new_hub() -> tuple[bytes, str]:
    """Return the TLS key of a hub and its self-signed certificate, without an address; both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "taciturn hub")])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(_FROM).not_valid_after(_UNTIL)
    built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, built.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def check_certificate(pem: str) -> None:
    """Raise `InputError` unless a text is one certificate, PEM, and nothing else."""
    with suppress(ValueError):
        if x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.PEM) == pem.encode():
            return
    raise InputError("the hub's certificate cannot be read; request the invitation again")


def client_context(certificate: str) -> ssl.SSLContext:
    """Return the TLS of a party: version 1.3, and a hub with this very certificate alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The certificate is the only one that is trusted, so the name in it says nothing further.
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context
