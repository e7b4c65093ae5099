"""The set of those whose sum is opened, and its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from taciturn.errors import InputError
from taciturn_federation.masks.keys import KEY_BYTES

_LABEL = b"taciturn masks: participants 1\n"


@dataclass(frozen=True)
class Participants:
    """All participants of a run, in their order.

    Attributes
    ----------
    run
        The digest of what was agreed on, 32 bytes.
    signers
        Each one's long-term key, which signed its key of the run, 32 bytes each.
    keys
        Each one's public key of the run, 32 bytes each.

    Raises
    ------
    InputError
        If something has another length, there is no key for each signer, or two keys are the same.
    """

    run: bytes
    signers: tuple[bytes, ...]
    keys: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if len(self.signers) != len(self.keys) or not self.keys:
            raise InputError(
                f"{len(self.keys)} keys of masks were signed by {len(self.signers)} participants; "
                "each has one"
            )
        if any(len(part) != KEY_BYTES for part in (self.run, *self.signers, *self.keys)):
            raise InputError("the digest of a run or a key is not 32 bytes long; ask for it anew")
        if len(set(self.keys)) < len(self.keys):
            raise InputError("two participants have the same key of masks; each makes its own")

    @property
    def digest(self) -> bytes:
        """SHA-256 of run, signers and keys, 32 bytes: equal only for the same set."""
        parts = (len(self.keys).to_bytes(4, "little"), self.run, *self.signers, *self.keys)
        return hashlib.sha256(_LABEL + b"".join(parts)).digest()
