"""What connects a party to the hub: its nkey, and the one TLS certificate that it accepts.

An nkey is an Ed25519 key whose holder a NATS server lets in. It is never the signing key of a
party, since the server chooses what it signs. The signing key certifies it, once.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import re
import ssl
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from taciturn.errors import InputError
from taciturn_federation.keys import Label, is_signed, public_key, read_key, sign_labelled

_USER = 20 << 3  # the first byte of a user's public nkey; in base 32 it reads U
_NKEY = re.compile(r"U[A-Z2-7]{55}")
# A client compares the certificate with that of the invitation; no calendar decides.
_FROM = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Nkey:
    """The key with which a party connects.

    Attributes
    ----------
    key
        The secret half; it signs nothing but challenges of the hub.
    """

    key: Ed25519PrivateKey

    @classmethod
    def read(cls, file: Path) -> Nkey:
        """Return the nkey in a file; see `taciturn_federation.keys.read_private`."""
        return cls(read_key(file))

    @property
    def public(self) -> str:
        """The public half as NATS writes it, 56 characters."""
        return nkey_text(self.key.public_key().public_bytes_raw())

    def answer(self, challenge: str) -> bytes:
        """Return the signature of a challenge of the server, in base 64."""
        return base64.b64encode(self.key.sign(challenge.encode()))


def nkey_text(public: bytes) -> str:
    """Return the public key of a user as NATS writes it.

    Parameters
    ----------
    public
        32 bytes.
    """
    content = bytes([_USER]) + public
    # CRC-16/XMODEM, least significant byte first
    return base64.b32encode(content + binascii.crc_hqx(content, 0).to_bytes(2, "little")).decode()


def nkey_bytes(text: str) -> bytes:
    """Return the 32 bytes of which `nkey_text` is the text.

    Raises
    ------
    InputError
        If the text is no public nkey of a user.
    """
    public = base64.b32decode(text)[1:33] if _NKEY.fullmatch(text) else b""
    if nkey_text(public) != text:
        raise InputError("a public nkey is not what NATS writes for a user; ask for the file anew")
    return public


def certify_nkey(key: Ed25519PrivateKey, study: str, name: str, nkey: str) -> str:
    """Return the signature by which a party says that it connects with an nkey.

    Parameters
    ----------
    key
        The party's signing key.
    name
        What the party is called in the study.

    Returns
    -------
    str
        128 hexadecimal digits.
    """
    return sign_labelled(key, Label.NKEY, _certified(study, name, nkey)).hex()


@lru_cache(10_000)  # a hub reads the proposals of its study several times a second
def check_nkey(key: str, study: str, name: str, nkey: str, signature: str) -> None:
    """Raise `InputError` unless the holder of a signing key certified an nkey of its own."""
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


def new_hub() -> tuple[ec.EllipticCurvePrivateKey, str]:
    """Return the TLS key of a hub and its self-signed certificate, PEM.

    The certificate names no address, and signs no other.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "taciturn hub")])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(_FROM).not_valid_after(_UNTIL)
    built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    return key, built.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def check_certificate(pem: str) -> None:
    """Raise `InputError` unless a text is one certificate, PEM, and nothing else."""
    with suppress(ValueError):
        if x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.PEM) == pem.encode():
            return
    raise InputError("the hub's certificate cannot be read; ask for the invitation anew")


def client_context(certificate: str) -> ssl.SSLContext:
    """Return the TLS of a party: version 1.3, and a hub with this very certificate alone.

    Parameters
    ----------
    certificate
        Of the invitation, PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The certificate is the only one that is trusted, so the name in it says nothing further.
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context
