"""Masks that reveal only the sum of all answers.

The masks of pairs of participants are words that look random alone and cancel in the sum over all.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from jaxtyping import Int64, UInt64

from taciturn.budget import heads_folder
from taciturn.errors import InputError, PrivacyError
from taciturn.typing import HostArray
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import NO_DIGEST, BreachError, Envelope, Opener, chain
from taciturn_federation.journal import Journal
from taciturn_federation.keys import read_private, write_private

__all__ = ["KEY_BYTES", "Masks", "Participants", "open_sum", "open_total", "shared_secret"]

KEY_BYTES = 32


def shared_secret(key: X25519PrivateKey, public: bytes) -> bytes:
    """Return the 32 bytes that only the owners of two keys can compute.

    Raises `InputError` if the other key has the wrong length, or is one of the few points of small
    order, for which the secret is the same for everyone.
    """
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise InputError("a mask key is not a valid X25519 key") from None


_LABEL = b"taciturn masks: participants 1\n"


@dataclass(frozen=True)
class Participants:
    """All participants of a run in order, each with a separate key."""

    run: bytes  # the digest of the signed proposal; it and each key are 32 bytes
    signers: tuple[bytes, ...]  # each one's long-term key, which signed its key of the run
    keys: tuple[bytes, ...]  # each one's public key of the run

    def __post_init__(self) -> None:
        if len(self.signers) != len(self.keys) or not self.keys:
            raise InputError(
                f"{len(self.keys)} mask keys were signed by {len(self.signers)} participants; "
                "each has one"
            )
        if any(len(part) != KEY_BYTES for part in (self.run, *self.signers, *self.keys)):
            raise InputError("the digest of a run or a key is not 32 bytes long")
        if len(set(self.keys)) < len(self.keys):
            raise InputError("two participants have the same mask key")

    @property
    def digest(self) -> bytes:
        """SHA-256 of run, signers and keys, 32 bytes: equal only for the same set."""
        parts = (len(self.keys).to_bytes(4, "little"), self.run, *self.signers, *self.keys)
        return hashlib.sha256(_LABEL + b"".join(parts)).digest()

    @property
    def first_link(self) -> bytes:
        """The transcript digest before anything was received."""
        return chain(NO_DIGEST, self.digest)

    @classmethod
    def of(cls, opener: Opener, accepted: Sequence[Envelope]) -> Participants:
        """Return the participants of a run from the acceptances of all, in order.

        Raises `BreachError` if the key of one is missing, invalid, or that of another.
        """
        keys: list[bytes] = []
        for one in accepted:
            name = opener.names[one.sender]
            try:
                key = bytes.fromhex(one.values["mask"])
                shared_secret(X25519PrivateKey.generate(), key)
            except (KeyError, TypeError, ValueError):
                raise BreachError(
                    f"{name} accepted without a mask key, which the observer sum needs; its owner "
                    "should check its version of taciturn"
                ) from None
            if key in keys:
                raise BreachError(f"{name} has the mask key of {opener.names[keys.index(key)]}")
            keys.append(key)
        return cls.with_keys(opener, keys)

    @classmethod
    def with_keys(cls, opener: Opener, keys: Sequence[bytes]) -> Participants:
        """Return the participants of a run with these keys."""
        signers = (opener.keys[agent].public_bytes_raw() for agent in opener.agents)
        return cls(opener.run, tuple(signers), tuple(keys))


_PAIR, _STREAM = b"taciturn masks: pair 1\n", b"taciturn masks: stream 1\n"
_NONCE = bytes(16)  # every stream has a separate key, so all may begin at the same block


class Masks:
    """The masks of one participant in one part of a run.

    With P_ij(t) the stream that i < j share in round t, participant i sends

        y_i = v_i + sum_(j > i) P_ij(t) - sum_(j < i) P_ji(t)      mod 2^64.

    **Guarantee.** P_ij(t) is ChaCha20 (RFC 8439) under a key from HKDF-SHA256 (RFC 5869) of the
    X25519 secret of i and j, bound to run, digest of all participants, i, j, part of the run,
    round and the transcript before it. To anyone without either key it looks uniform, and
    independent of all other streams. So the words of all honest participants but one look uniform
    and independent of their content, whatever sets of participants they were shown: among those who
    were shown the same set, the words of the last one are the sum less the others; streams between
    different sets do not cancel. No two messages are sent under one stream: a masked round is never
    masked with other words, nor is an earlier one.

    `part` is a name: each part of a run that counts its rounds from 0 has separate streams. `after`
    is the last round that an earlier process masked, -1 for none.

    In a round with some members only, their streams alone are added: they cancel in the sum over
    these members, who received one transcript, in which the members are named.
    """

    def __init__(
        self,
        key: X25519PrivateKey,
        participants: Participants,
        number: int,
        *,
        part: str,
        after: int = -1,
    ) -> None:
        if participants.keys[number] != key.public_key().public_bytes_raw():
            raise InputError(
                f"the mask key is not that of participant {number} in this run; put back the "
                "one of its acceptance"
            )
        others = [other for other in range(len(participants.keys)) if other != number]
        self._pairs = [
            (other, other > number, _pair(key, participants, number, other)) for other in others
        ]
        self._part = part.encode()
        self._after = after
        self._last: tuple[int, bytes] | None = None

    def mask(
        self,
        turn: int,
        transcript: bytes,
        words: UInt64[HostArray, " n"],
        members: Collection[int] | None = None,
    ) -> UInt64[HostArray, " n"]:
        """Return the masked words of a round, from 0; the same for the same words.

        Its `members` are all participants unless given.

        `transcript` is the digest of what was received until then, 32 bytes: the same at all
        participants, or nothing opens.

        Raises `PrivacyError` if the round was masked with other words, or a later one was masked.
        """
        self._claim(turn, transcript, words)
        total = np.array(words, np.uint64)
        zeros = bytes(total.nbytes)
        stream = np.empty(total.shape, "<u8")
        for other, adds, pair in self._pairs:
            if members is not None and other not in members:
                continue
            key = HKDFExpand(hashes.SHA256(), KEY_BYTES, self._label(turn, transcript)).derive(pair)
            cipher = Cipher(algorithms.ChaCha20(key, _NONCE), mode=None)
            cipher.encryptor().update_into(zeros, stream.view(np.uint8).data)
            (np.add if adds else np.subtract)(total, stream, out=total)
        return total

    def _claim(self, turn: int, transcript: bytes, words: HostArray) -> None:
        content = hashlib.sha256(transcript + np.asarray(words, "<u8").tobytes()).digest()
        last = (self._after, b"") if self._last is None else self._last
        if turn < last[0] or (turn == last[0] and content != last[1]):
            raise PrivacyError(
                f"round {turn} was masked before, with other words or before a later one: their "
                "difference would be plain, so nothing is sent"
            )
        self._last = turn, content

    def _label(self, turn: int, transcript: bytes) -> bytes:
        if len(transcript) != KEY_BYTES:
            raise InputError(f"a transcript digest has {len(transcript)} bytes; it must have 32")
        return _STREAM + turn.to_bytes(4, "little") + transcript + self._part


def _pair(key: X25519PrivateKey, participants: Participants, number: int, other: int) -> bytes:
    """Return the key that two participants share in a run."""
    first, second = sorted((number, other))
    numbers = first.to_bytes(4, "little") + second.to_bytes(4, "little")
    info = _PAIR + numbers + participants.digest
    derived = HKDF(hashes.SHA256(), KEY_BYTES, participants.run, info)
    return derived.derive(shared_secret(key, participants.keys[other]))


# an answer is cut at 2^51 steps, and its noise is smaller
_LIMIT_EACH, _LIMIT = 2**52, 2**62


def open_sum(
    messages: Sequence[UInt64[HostArray, " n"]], participants: int
) -> Int64[HostArray, " n"]:
    """Return the sum of the masked words of all participants, as whole numbers.

    Raises `InputError` if there is not a message from each, and as `open_total`.

    Examples
    --------
    >>> open_sum([np.array([2**64 - 5], np.uint64), np.array([3], np.uint64)], 2)
    array([-2])
    """
    if len(messages) != participants:
        raise InputError(
            f"there are words of {len(messages)} participants out of {participants}; a sum is "
            "opened over all of them or not at all"
        )
    return open_total(np.asarray(np.add.reduce(np.stack(messages))), participants)


def open_total(words: UInt64[HostArray, "..."], participants: int) -> Int64[HostArray, "..."]:
    """Return the whole numbers of a sum of words over all participants.

    Raises `BreachError` if it is larger than that of so many answers can be: one of them masked for
    another set, or not at all, and what is there looks random.
    """
    total = words.view(np.int64)
    limit = min(participants * _LIMIT_EACH, _LIMIT)
    if np.any(total > limit) or np.any(total < -limit):
        raise BreachError(
            "the masks do not cancel in the sum over all participants: one of them masked for "
            "another set or another round, or not as the protocol requires"
        )
    return total


# the evaluation counts its rounds from 0 again, so it has separate streams
_TRAINING, _EVALUATION = "training", "evaluation"


class Masking:
    """How the answers of a site leave it where only their sum may be read.

    **Guarantee.** What leaves is `Masks.mask`, under a key that serves this run alone, is in no
    journal and is removed at its end. The set of participants is that of the first start, and is in
    the journal before anything is masked. Every round that the journal holds is closed to another
    message. Masks of the evaluation cancel among those who answer in it, whose keys are in the
    names of its streams: they share none with the training's.
    """

    def __init__(self, agent: int, journal: Journal, opener: Opener) -> None:
        self._journal, self._opener, self._agent = journal, opener, agent
        self._run = opener.run.hex()
        self._file = key_file(self._run, agent)
        self._masks: Masks | None = None
        if journal.get(self._run, "mask") is None:
            public = self._new_key().public_key().public_bytes_raw()
            journal.put(self._run, "mask", public)
        with suppress(OSError):  # when a process last resumed the run
            os.utime(self._file)
        row = journal.run(self._run)
        if row is not None and row.phase not in ("accepted", "running"):
            self.forget()  # a process that was killed at the end may have left it

    @property
    def public(self) -> bytes:
        """The public half of the key of the run, which its acceptance carries."""
        return self._journal.get(self._run, "mask") or b""

    def agree(self, accepted: Sequence[Envelope]) -> None:
        """Store the participants by the acceptances of all, with which the run starts."""
        participants = Participants.of(self._opener, accepted)
        if participants.keys[self._agent] != self.public:
            raise BreachError(
                "the start of the run has another mask key for this site than it sent; another "
                "process has its signing key"
            )
        self._journal.put(self._run, "participants", b"".join(participants.keys))

    @property
    def participants(self) -> Participants:
        """The participants that were stored."""
        stored = self._journal.get(self._run, "participants") or b""
        keys = [stored[at : at + KEY_BYTES] for at in range(0, len(stored), KEY_BYTES)]
        return Participants.with_keys(self._opener, keys)

    def mask(self, turn: int, transcript: bytes, body: bytes, members: Collection[int]) -> bytes:
        """Return the masked body of a message in the sum over the members of a round."""
        if self._masks is None:
            latest = self._journal.last_round(self._run)
            after = -1 if latest is None else latest.round
            self._masks = Masks(
                self._key(), self.participants, self._agent, part=_TRAINING, after=after
            )
        words = np.frombuffer(body, "<u8")
        return self._masks.mask(turn, transcript, words, members).astype("<u8").tobytes()

    def mask_evaluation(self, agents: Sequence[int], transcript: bytes, body: bytes) -> bytes:
        """Return the masked body of the answer in the evaluation."""
        everyone, number = self.participants, agents.index(self._agent)
        some = Participants(
            everyone.run,
            tuple(everyone.signers[agent] for agent in agents),
            tuple(everyone.keys[agent] for agent in agents),
        )
        masks = Masks(self._key(), some, number, part=_EVALUATION)
        return masks.mask(0, transcript, np.frombuffer(body, "<u8")).astype("<u8").tobytes()

    def forget(self) -> None:
        """Remove the key: the run has ended."""
        self._masks = None
        with suppress(OSError):  # the run has ended all the same
            self._file.unlink(missing_ok=True)

    def _new_key(self) -> X25519PrivateKey:
        """Return the key of a run that is not in this journal.

        A key that is there was shown to no other party; or another journal has it, and
        `Journal.begin` will refuse the run. One that was half written is replaced.
        """
        with suppress(PrivacyError):
            return self._key()
        self._file.unlink(missing_ok=True)
        write_private(self._file, X25519PrivateKey.generate().private_bytes_raw())
        return self._key()

    def _key(self) -> X25519PrivateKey:
        try:
            return X25519PrivateKey.from_private_bytes(read_private(self._file))
        except ValueError:
            raise PrivacyError(
                f"the key of this run's masks ({self._file}) is not there, or others can read it; "
                "nothing more can be answered in this run, and another needs a new proposal"
            ) from None


def key_file(run: str, agent: int) -> Path:
    """Return the file of the secret half of a run's key: with the heads, and not the journal."""
    return heads_folder() / f"run-{run}-{agent}.masks"


# a machine may be off for a night in the middle of a run
_MIN_AGE = 86_400.0


def remove_stale_keys(journal: Journal, *, now: float | None = None, but: str = "") -> list[str]:
    """Remove the mask keys of runs that are over, and return a line for each.

    A run is over that ended by the journal, that was never accepted, or that no process of
    this site has resumed for a day and for twice the patience of its study: the coordinator
    gave it up long before, or is gone as well. The journal then states that it was abandoned, so it
    is not resumed; in an account it stays charged as it stands there.

    The lock of the `journal` is held, so no process is at work on a run of it. `now` is in seconds
    since 1970; `but` the digest of a run that is about to resume.
    """
    now = time.time() if now is None else now
    lines = []
    for digest in journal.runs_with("mask"):
        file, row = _file_of(journal, digest), journal.run(digest)
        if digest == but or file is None:
            continue
        line = f"run {digest[:16]} is over; the key of its masks was removed"
        if row is not None and row.phase in {"accepted", "running"}:
            patience = SignedProposal.from_json(row.proposal).patience
            if now - file.stat().st_mtime <= max(_MIN_AGE, 2 * patience):
                continue
            line = f"run {digest[:16]} was given up, since no process resumed it here; the key of "
            line += "its masks was removed"
            journal.set_phase(digest, "abandoned", line=line)
        with suppress(OSError):
            file.unlink(missing_ok=True)
            lines.append(line)
    return lines


def _file_of(journal: Journal, digest: str) -> Path | None:
    """Return the file of this site's key; other sites of this machine may have one of the run."""
    public = journal.get(digest, "mask")
    for file in heads_folder().glob(f"run-{digest}-*.masks"):
        with suppress(ValueError):
            key = X25519PrivateKey.from_private_bytes(read_private(file))
            if key.public_key().public_bytes_raw() == public:
                return file
    return None
