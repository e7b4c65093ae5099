"""What one participant adds to its words: a stream for each of the others, plus or minus."""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from jaxtyping import UInt64

from taciturn.errors import InputError, PrivacyError
from taciturn.typing import HostArray
from taciturn_federation.masks.keys import KEY_BYTES, MaskKey
from taciturn_federation.masks.participants import Participants

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

    Parameters
    ----------
    number
        The participant's, in the order of `participants`.
    part
        A name: each part of a run that counts its rounds anew has streams of its own.
    after
        The last round that was masked before, by an earlier process; -1 for none.

    Raises
    ------
    InputError
        If the key is not the one that the set has for this participant, or another's is none.
    """

    def __init__(
        self,
        key: MaskKey,
        participants: Participants,
        number: int,
        *,
        part: str,
        after: int = -1,
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
        """Return the words of a round as they may leave; the same again for the same words.

        Parameters
        ----------
        turn
            The round, from 0.
        heard
            The digest of what was heard until then, 32 bytes: the same at all, or nothing opens.

        Raises
        ------
        PrivacyError
            If the round was masked with other words, or a later one was masked.
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
