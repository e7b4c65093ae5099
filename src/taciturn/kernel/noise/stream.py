"""Random words from a stream cipher that is keyed by the operating system."""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from enum import IntEnum
from typing import NamedTuple, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from jaxtyping import UInt64

from taciturn import checks
from taciturn.errors import InputError, PrivacyError
from taciturn.typing import HostArray

_WORD, _BLOCK = 8, 64  # bytes
_KEY = 32  # bytes
# fields of the nonce, in bytes: round, group of agents, question within the round
_WIDTHS = (4, 4, 4)
# the most agents that share a nonce, and the most blocks under one nonce
_GROUP, _BLOCKS = 2**16, 2**32


class Use(IntEnum):
    """The use of an answer's words; every use has a separate stream."""

    NOISE = 0
    DIGITS = 1
    BATCH = 2


class Label(NamedTuple):
    """The position of an answer in a run."""

    round: int
    agent: int
    local: int


@dataclass(frozen=True, eq=False)
class Stream:
    """The random words of a run: a separate ChaCha20 stream for every answer and use.

    **Guarantee.** ChaCha20 (RFC 8439) under keys of 256 bits, each derived by HKDF-Expand from the
    key of the stream, the use, and the number of words of an answer. Under each key the nonce of 96
    bits encodes round, group of agents and question within the round, and every agent of the group
    has enough consecutive blocks of 64 bytes for its words, so that no two answers share a block; a
    group is small enough to have fewer than 2^32 blocks. Without the key the words cannot be
    distinguished from independent uniform ones, under the usual assumptions on cipher and hash;
    every statement about noise drawn from them is computational in this sense. The key comes from
    the operating system (`Stream.fresh`), is shown by no `repr` and written to no file. A stream
    serves one run (`claim`), and is neither copied nor pickled: a second run with its words would
    repeat the noise of the first. The stream of a reproduction (`Stream.seeded`) has the same law
    and hides nothing, since anyone can compute it.

    `key`: 32 bytes, kept as `secret`; `dataclasses.replace` does not copy it.
    """

    key: InitVar[bytes]
    secret: bytes = field(init=False, repr=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)
    _keys: dict[tuple[Use, int], bytes] = field(default_factory=dict, init=False, repr=False)
    _free: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self, key: bytes) -> None:
        if len(key) != _KEY:
            raise InputError(f"the key has {len(key)} bytes; it must have {_KEY}")
        object.__setattr__(self, "secret", key)

    def claim(self) -> None:
        """Reserve the stream for one run; raise `PrivacyError` if it is taken."""
        if not self._free.acquire(blocking=False):
            raise PrivacyError(
                "this stream has served a run, and a second run would repeat its noise, which "
                "their difference would reveal; give every run a new stream (Stream.fresh())"
            )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError(
            "a stream is neither pickled nor copied: whoever has its key can subtract the noise, "
            "and a copy would repeat it; give every run a new stream (Stream.fresh())"
        )

    @classmethod
    def fresh(cls) -> Stream:
        """Return a stream under a new key from the operating system."""
        return cls(secrets.token_bytes(_KEY))

    @classmethod
    def seeded(cls, seed: int) -> Stream:
        """Return the stream of a reproduction, which follows from a public whole number."""
        seed = checks.at_least("seed", seed, -(2**63))
        return cls(hashlib.sha256(f"taciturn reproduction {seed}".encode()).digest())

    def words(
        self, labels: Sequence[Label], use: Use, count: int, *, skip: int = 0
    ) -> UInt64[HostArray, "n count"]:
        """Return words `skip` to `skip + count` of every label, one row per label.

        All words are independent and uniform on 0..2^64 - 1. The key depends on `skip + count`, so
        calls with another total return other words.
        """
        if os.getpid() != self._process:
            raise PrivacyError(
                "this stream was made in another process, which may draw the same noise; make one "
                "in each (Stream.fresh())"
            )
        total = skip + count
        blocks = max(1, -(-_WORD * total // _BLOCK))
        if blocks > _BLOCKS:
            raise InputError(f"an answer takes {total} words; it may have at most 2^35")
        together = min(_GROUP, _BLOCKS // blocks)
        key, zeros = self._key(use, total), bytes(_BLOCK * blocks * min(len(labels), together))
        buffer = np.empty((len(labels), _BLOCK * blocks // _WORD), np.uint64)
        for start, stop in _neighbours(labels, together):
            first, size = labels[start], _BLOCK * blocks * (stop - start)
            place = (first.agent % together * blocks).to_bytes(4, "little")
            nonce = place + _nonce(first._replace(agent=first.agent // together))
            cipher = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()
            cipher.update_into(zeros[:size], buffer[start:stop].view(np.uint8).data)
        return buffer[:, skip:total]

    def further(self, label: Label) -> Iterator[int]:
        """Yield further words of one answer, one by one, independent of its other words."""
        for place in itertools.count():
            yield int(self.words([label], Use.DIGITS, 1, skip=place)[0, 0])

    def _key(self, use: Use, count: int) -> bytes:
        """Return the key for a use and a number of words per answer."""
        if (use, count) not in self._keys:
            purpose = b"taciturn words %d %d" % (use, count)
            self._keys[use, count] = HKDFExpand(SHA256(), _KEY, purpose).derive(self.secret)
        return self._keys[use, count]


def _neighbours(labels: Sequence[Label], together: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of labels that differ only in the agent, consecutively, within one group."""
    start = 0
    for place in range(1, len(labels) + 1):
        last = labels[place - 1]
        following = last._replace(agent=last.agent + 1) if place < len(labels) else None
        if place < len(labels) and labels[place] == following and following.agent % together:
            continue
        yield start, place
        start = place


def _nonce(label: Label) -> bytes:
    """Return the 96 bits of a nonce, unique for each label."""
    if not all(0 <= n < 256**width for n, width in zip(label, _WIDTHS, strict=True)):
        raise InputError(
            f"round {label.round}, agent {label.agent}, question {label.local} is out of range; a "
            "run has fewer than 2^32 rounds, agents and questions a round"
        )
    parts = (n.to_bytes(width, "little") for n, width in zip(label, _WIDTHS, strict=True))
    return b"".join(parts)
