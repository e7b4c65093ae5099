"""Random words from a stream cipher that is keyed by the operating system."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from enum import IntEnum
from typing import NamedTuple, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from jaxtyping import UInt64

from taciturn.errors import InputError, PrivacyError
from taciturn.typing import HostArray

_WORD = 8  # bytes
_KEY = 32  # bytes
# fields of the nonce, in bytes: round, agent, question within the round, use
_WIDTHS = (4, 4, 3, 1)


class Use(IntEnum):
    """What the words of an answer are for; every use has a stream to itself."""

    NOISE = 0
    DIGITS = 1
    BATCH = 2


class Label(NamedTuple):
    """The place of an answer in a run."""

    round: int
    agent: int
    local: int


@dataclass(frozen=True, eq=False)
class Stream:
    """The random words of a run: for every answer and use a ChaCha20 stream of its own.

    **Guarantee.** ChaCha20 (RFC 8439) under one key of 256 bits, with a nonce of 96 bits that
    spells label and use, so that no two streams share a block: 2^32 blocks of 64 bytes fit into
    each, and the cipher raises an error beyond them. Whoever does not know the key cannot tell the
    words from independent uniform ones, under the usual assumption on the cipher; every statement
    about noise drawn from them is computational in this sense. The key comes from the operating
    system (`Stream.fresh`), is shown by no `repr` and written to no file. A stream serves one run
    (`claim`), and is neither copied nor pickled: a second run with its words would repeat the noise
    of the first.

    `key`: 32 bytes. `dataclasses.replace` does not have it.

    `secret`: the key.
    """

    key: InitVar[bytes]
    secret: bytes = field(init=False, repr=False)
    _free: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self, key: bytes) -> None:
        if len(key) != _KEY:
            raise InputError(f"the key has {len(key)} bytes; it must have {_KEY}")
        object.__setattr__(self, "secret", key)

    def claim(self) -> None:
        """Take the stream for one run.

        Raises `PrivacyError` if it was taken before.
        """
        if not self._free.acquire(blocking=False):
            raise PrivacyError(
                "this stream has served a run, and a second one would have the same noise, which "
                "their difference tells; give every run a stream of its own (Stream.fresh())"
            )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError(
            "a stream is neither pickled nor copied: whoever has its key can subtract the noise, "
            "and a copy would draw it again; give every run a stream of its own (Stream.fresh())"
        )

    @classmethod
    def fresh(cls) -> Stream:
        """Return a stream under a new key from the operating system."""
        return cls(secrets.token_bytes(_KEY))

    def words(
        self, labels: Sequence[Label], use: Use, count: int, *, skip: int = 0
    ) -> UInt64[HostArray, "n count"]:
        """Return words `skip` to `skip + count` of every label's stream, a row a label.

        Each word is uniform on 0..2^64 - 1, all of them independent.
        """
        total = skip + count
        zeros = bytes(_WORD * total)
        buffer = np.empty((len(labels), total), np.uint64)
        for row, label in zip(buffer, labels, strict=True):
            cipher = Cipher(algorithms.ChaCha20(self.secret, _nonce(label, use)), mode=None)
            cipher.encryptor().update_into(zeros, row.view(np.uint8).data)
        return buffer[:, skip:]

    def further(self, label: Label) -> Iterator[int]:
        """Yield further words of one answer, one by one, from a stream of their own."""
        for place in itertools.count():
            yield int(self.words([label], Use.DIGITS, 1, skip=place)[0, 0])


def _nonce(label: Label, use: Use) -> bytes:
    """Return the block counter, 0, and the 96 bits of the nonce; two labels never share them."""
    numbers = (*label, int(use))
    if not all(0 <= n < 256**width for n, width in zip(numbers, _WIDTHS, strict=True)):
        raise InputError(
            f"round {label.round}, agent {label.agent}, question {label.local} is out of range; a "
            f"run has fewer than 2^32 rounds and agents and 2^24 questions a round"
        )
    parts = (n.to_bytes(width, "little") for n, width in zip(numbers, _WIDTHS, strict=True))
    return bytes(4) + b"".join(parts)
