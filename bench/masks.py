"""What masks cost a site in a round, and once at the start of a run."""

from __future__ import annotations

import os
import time

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from taciturn_federation.masks import Masks, Participants, open_sum

_NUMBERS, _RUN = 7840, bytes(32)


def masked_rounds(repeats: int = 60) -> dict[str, dict[str, float]]:
    """Return milliseconds a site and round at 7,840 numbers, and once at the start of a run."""
    return {f"{sites} sites": _masked(sites, repeats) for sites in (10, 50)}


def _masked(sites: int, repeats: int) -> dict[str, float]:
    keys = [X25519PrivateKey.generate() for _ in range(sites)]
    signers = tuple(os.urandom(32) for _ in keys)
    whole = Participants(_RUN, signers, tuple(key.public_key().public_bytes_raw() for key in keys))
    began = time.perf_counter()
    masks = [Masks(key, whole, number, part="bench") for number, key in enumerate(keys)]
    once = (time.perf_counter() - began) / sites
    draw = np.random.default_rng(0)
    values = draw.integers(-(2**40), 2**40, (sites, _NUMBERS)).view(np.uint64)
    seconds = []
    for turn in range(repeats):
        for one, words in zip(masks[:5], values, strict=False):
            began = time.perf_counter()
            one.mask(turn, _RUN, words)
            seconds.append(time.perf_counter() - began)
    sent = [one.mask(repeats, _RUN, words) for one, words in zip(masks, values, strict=True)]
    assert np.array_equal(open_sum(sent, sites), np.add.reduce(values).view(np.int64))
    return {
        "least, ms": 1e3 * min(seconds),
        "median, ms": 1e3 * float(np.median(seconds)),
        "once, ms": 1e3 * once,
        "load": os.getloadavg()[0],
    }
