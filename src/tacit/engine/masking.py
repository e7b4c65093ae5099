"""Masks on request: one process that plays all agents sends what they would send under `sum`."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
from jaxtyping import Int64

from tacit.typing import Array, HostArray
from tacit_federation.masks import MaskKey, Masks, Participants


class Masking:
    """Every agent's masks for one run, in the process that plays all of them.

    Called once a round with the agents' whole numbers, it returns the words that would leave: each
    agent's alone look uniform, and their sum over all agents is that of the numbers, modulo 2^64.
    So model, ledger and certificate are those of a run without masks, to the bit.

    **Guarantee.** None beyond that of the run: this process holds all keys and all records. The
    words are those of `tacit_federation.masks.Masks` under fresh keys, which nobody signs here.
    """

    def __init__(self, agents: int) -> None:
        keys = [MaskKey.fresh() for _ in range(agents)]
        public = tuple(key.public for key in keys)
        participants = Participants(secrets.token_bytes(32), public, public)
        self._masks = [
            Masks(key, participants, number, part="training") for number, key in enumerate(keys)
        ]
        self._round, self._heard = 0, bytes(32)

    def __call__(self, numbers: Int64[Array, "A ..."]) -> Int64[HostArray, "A ..."]:
        """Return the words of the next round; every agent has heard the totals before it."""
        words = np.asarray(numbers).view(np.uint64).reshape(len(self._masks), -1)
        pairs = zip(self._masks, words, strict=True)
        masked = np.stack([one.masked(self._round, self._heard, own) for one, own in pairs])
        total = words.sum(axis=0, dtype=np.uint64)
        self._heard = hashlib.sha256(self._heard + total.astype("<u8").tobytes()).digest()
        self._round += 1
        return masked.view(np.int64).reshape(np.shape(numbers))
