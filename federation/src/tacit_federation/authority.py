"""The authority of a study: who may connect to its hub, by X.509 certificates of its own.

The hub's certificate names its addresses. Those of parties have no alternative names, which a
server would look at before the subject: CN is the party's name and OU the fingerprint of its key,
so a renewed certificate is another user than the one before, which can be struck off by itself.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.errors import InputError
from tacit_federation.keys import fingerprint, new_tls_key

_PARTY = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
COORDINATOR = "coordinator"
AUTHORITY_DAYS, CERTIFICATE_DAYS = 3650, 397
# clocks of parties differ, and a certificate that begins tomorrow is refused today
_EARLIER = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """The certificate of an authority with its key, which signs certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


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


def new_authority(study: str, now: datetime.datetime) -> Authority:
    """Return a new authority for a study; it signs certificates of parties and no authorities."""
    key = new_tls_key()
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, f"tacit study {study}"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, key_name(key.public_key())),
        ]
    )
    built = _builder(subject, subject, key.public_key(), now, AUTHORITY_DAYS)
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    built = built.add_extension(_usage(signs=True), critical=True)
    return Authority(built.sign(key, hashes.SHA256()), key)


def hub_certificate(
    authority: Authority,
    public: ec.EllipticCurvePublicKey,
    hosts: Sequence[str],
    now: datetime.datetime,
) -> x509.Certificate:
    """Return the certificate of a hub that is reached at these hosts, names or addresses."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tacit hub")])
    built = _of_party(authority, subject, public, ExtendedKeyUsageOID.SERVER_AUTH, now)
    names = x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys(hosts)])
    return built.add_extension(names, critical=False).sign(authority.key, hashes.SHA256())


def party_certificate(
    authority: Authority, name: str, public: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.Certificate:
    """Return the certificate of a party; its user at the hub is `user_of` it."""
    built = _of_party(
        authority, _subject(name, public), public, ExtendedKeyUsageOID.CLIENT_AUTH, now
    )
    return built.sign(authority.key, hashes.SHA256())


def signing_request(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateSigningRequest:
    """Return the request for a party's certificate; its signature proves who holds the key."""
    built = x509.CertificateSigningRequestBuilder().subject_name(_subject(name, key.public_key()))
    return built.sign(key, hashes.SHA256())


def requested_key(pem: str) -> ec.EllipticCurvePublicKey:
    """Return the public key of a request for a certificate; nothing else in it is used.

    Raises
    ------
    InputError
        If it is none, or not signed by the key that it is about.
    """
    try:
        request = x509.load_pem_x509_csr(pem.encode())
        valid = request.is_signature_valid
        key = request.public_key()
    except ValueError as error:
        raise InputError(f"the request holds no request for a certificate ({error})") from None
    if not valid or not isinstance(key, ec.EllipticCurvePublicKey):
        raise InputError("the request is not signed by its own key; ask the owner for another")
    return key


def read_certificate(pem: str, what: str = "a certificate") -> x509.Certificate:
    """Return the certificate in a text.

    Raises
    ------
    InputError
        If the text holds none.
    """
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as error:
        raise InputError(f"{what} cannot be read ({error}); ask for it anew") from None


def check_certificate(certificate: x509.Certificate, authority: x509.Certificate) -> None:
    """Raise `InputError` unless the authority signed a certificate, and it is still valid."""
    now = datetime.datetime.now(datetime.UTC)
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        raise InputError(
            f"the certificate of {name_of(certificate)!r} is not of this study's authority; ask "
            "the coordinator"
        ) from None
    if now > certificate.not_valid_after_utc:
        raise InputError(
            f"the certificate of {name_of(certificate)!r} ended on "
            f"{certificate.not_valid_after_utc:%Y-%m-%d}; renew it with tacit site join --renew"
        )


def pem_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return a certificate, or a request for one, as text."""
    return certificate.public_bytes(Encoding.PEM).decode()


def certificate_fingerprint(certificate: x509.Certificate) -> str:
    """Return the fingerprint of a certificate; see `tacit_federation.keys.fingerprint`."""
    return fingerprint(certificate.public_bytes(Encoding.DER))


def name_of(certificate: x509.Certificate) -> str:
    """Return the name of the party of a certificate; empty if it has none."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def user_of(certificate: x509.Certificate) -> str:
    """Return the user that the hub takes a party for: the subject as RFC 2253 writes it."""
    return certificate.subject.rfc4514_string()


def key_name(public: ec.EllipticCurvePublicKey) -> str:
    """Return the fingerprint of a key as one word."""
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return fingerprint(der).replace(" ", "")


def _subject(name: str, public: ec.EllipticCurvePublicKey) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, key_name(public)),
        ]
    )


def _of_party(
    authority: Authority,
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    purpose: x509.ObjectIdentifier,
    now: datetime.datetime,
) -> x509.CertificateBuilder:
    built = _builder(subject, authority.certificate.subject, public, now, CERTIFICATE_DAYS)
    built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    built = built.add_extension(_usage(signs=False), critical=True)
    return built.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InputError(f"{host!r} is no name of a host; use letters of ASCII") from None
