"""The key of a participant for one run: X25519 (RFC 7748)."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from taciturn.errors import InputError

KEY_BYTES = 32


@dataclass(frozen=True)
class MaskKey:
    """The secret half of a key, which serves one run; it is shown by no `repr`.

    Attributes
    ----------
    secret
        32 bytes.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise InputError(f"a key of masks has {len(self.secret)} bytes; it must have 32")

    @classmethod
    def fresh(cls) -> MaskKey:
        """Return a new key, from the operating system."""
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> bytes:
        """The public half, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def shared_with(self, public: bytes) -> bytes:
        """Return the 32 bytes that the owners of two keys can compute, and nobody else.

        Raises
        ------
        InputError
            If the other key is none: of another length, or one of the few points with which
            everybody shares the same secret.
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise InputError(
                "a key of masks is not one of X25519; its owner makes another for another run"
            ) from None

    @property
    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.secret)
