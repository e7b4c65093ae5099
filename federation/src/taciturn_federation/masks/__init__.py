"""Masks of pairs of participants: words that look random alone and cancel in the sum over all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from jaxtyping import Int64, UInt64

from taciturn.errors import InputError, PrivacyError
from taciturn.typing import HostArray

__all__ = ["KEY_BYTES", "MaskKey", "Masks", "Participants", "opened", "opened_total"]

KEY_BYTES = 32


@dataclass(frozen=True)
class MaskKey:
    """The secret half of a key, 32 bytes, which serves one run; it is shown by no `repr`."""

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

        Raises `InputError` if the other key is of another length, or one of the few points with
        which everybody shares the same secret.
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


_LABEL = b"taciturn masks: participants 1\n"


@dataclass(frozen=True)
class Participants:
    """All participants of a run, in their order; each has a key of its own."""

    run: bytes  # the digest of what was agreed on; it and each key are 32 bytes
    signers: tuple[bytes, ...]  # each one's long-term key, which signed its key of the run
    keys: tuple[bytes, ...]  # each one's public key of the run

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


_PAIR, _STREAM = b"taciturn masks: pair 1\n", b"taciturn masks: stream 1\n"
_NONCE = bytes(16)  # a key of its own for every stream, so all may begin at the same block


class Masks:
    """The masks of one participant in one part of a run.

    With P_ij(t) the stream that i < j share in round t, participant i sends

        y_i = v_i + sum_(j > i) P_ij(t) - sum_(j < i) P_ji(t)      mod 2^64.

    **Guarantee.** P_ij(t) is ChaCha20 (RFC 8439) under a key from HKDF-SHA256 (RFC 5869) of the
    X25519 secret of i and j, bound to run, digest of all participants, i, j, part of the run,
    round and what was heard before it. To whoever has neither key it looks uniform, and
    independent of all other streams. So the words of all honest participants but one look uniform
    and independent of what they carry, whatever set of participants the others were
    shown: among those who were shown the same, the last one's words add what is missing to the sum,
    and streams of others do not cancel.
    No two messages are sent under one stream: a round that was masked is not masked with other
    words, nor is an earlier one.

    `part` is a name: each part of a run that counts its rounds anew has streams of its own. `after`
    is the last round that an earlier process masked, -1 for none.
    """

    def __init__(
        self, key: MaskKey, participants: Participants, number: int, *, part: str, after: int = -1
    ) -> None:
        if participants.keys[number] != key.public:
            raise InputError(
                f"the key of masks is not that of participant {number} in this run; put back the "
                "one that was made when the run was accepted"
            )
        others = [other for other in range(len(participants.keys)) if other != number]
        self._pairs = [
            (other > number, _pair(key, participants, number, other)) for other in others
        ]
        self._part = part.encode()
        self._after = after
        self._last: tuple[int, bytes] | None = None

    def masked(
        self, turn: int, heard: bytes, words: UInt64[HostArray, " n"]
    ) -> UInt64[HostArray, " n"]:
        """Return the words of a round, from 0, as they may leave; the same for the same words.

        `heard` is the digest of what was heard until then, 32 bytes: the same at all, or nothing
        opens.

        Raises `PrivacyError` if the round was masked with other words, or a later one was masked.
        """
        self._claim(turn, heard, words)
        total = np.array(words, np.uint64)
        zeros = bytes(total.nbytes)
        stream = np.empty(total.shape, "<u8")
        for adds, pair in self._pairs:
            key = HKDFExpand(hashes.SHA256(), KEY_BYTES, self._label(turn, heard)).derive(pair)
            cipher = Cipher(algorithms.ChaCha20(key, _NONCE), mode=None)
            cipher.encryptor().update_into(zeros, stream.view(np.uint8).data)
            (np.add if adds else np.subtract)(total, stream, out=total)
        return total

    def _claim(self, turn: int, heard: bytes, words: HostArray) -> None:
        content = hashlib.sha256(heard + np.asarray(words, "<u8").tobytes()).digest()
        last = (self._after, b"") if self._last is None else self._last
        if turn < last[0] or (turn == last[0] and content != last[1]):
            raise PrivacyError(
                f"round {turn} was masked before, with other words or before a later one: their "
                "difference would be plain, so nothing is sent"
            )
        self._last = turn, content

    def _label(self, turn: int, heard: bytes) -> bytes:
        if len(heard) != KEY_BYTES:
            raise InputError(
                f"the digest of what was heard has {len(heard)} bytes; it must have 32"
            )
        return _STREAM + turn.to_bytes(4, "little") + heard + self._part


def _pair(key: MaskKey, participants: Participants, number: int, other: int) -> bytes:
    """Return the key that two participants share in a run."""
    first, second = sorted((number, other))
    numbers = first.to_bytes(4, "little") + second.to_bytes(4, "little")
    info = _PAIR + numbers + participants.digest
    derived = HKDF(hashes.SHA256(), KEY_BYTES, participants.run, info)
    return derived.derive(key.shared_with(participants.keys[other]))


# an answer is cut at 2^51 steps, and its noise is smaller
_MOST_EACH, _MOST = 2**52, 2**62


def opened(
    messages: Sequence[UInt64[HostArray, " n"]], participants: int
) -> Int64[HostArray, " n"]:
    """Return the sum of what all participants masked, as whole numbers.

    Raises `InputError` if there is not a message from each, or the sum is larger than that of so
    many answers can be: somebody masked for another set, or not at all, and what is there looks
    random.

    Examples
    --------
    >>> opened([np.array([2**64 - 5], np.uint64), np.array([3], np.uint64)], 2)
    array([-2])
    """
    if len(messages) != participants:
        raise InputError(
            f"there are words of {len(messages)} participants out of {participants}; a sum is "
            "opened over all of them or not at all"
        )
    return opened_total(np.asarray(np.add.reduce(np.stack(messages))), participants)


def opened_total(words: UInt64[HostArray, "..."], participants: int) -> Int64[HostArray, "..."]:
    """Return the whole numbers of a sum of words over all participants; raise as `opened`."""
    total = words.view(np.int64)
    most = min(participants * _MOST_EACH, _MOST)
    if np.any(total > most) or np.any(total < -most):
        raise InputError(
            "the masks do not cancel in the sum over all participants: one of them masked for "
            "another set or another round, or not as the protocol says"
        )
    return total
