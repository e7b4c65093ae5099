"""What a run without a seed draws: its keys, and its noise over long answers and many rounds.

The other layers look at seeded runs of small answers. Here the supply of a private run is tested as
it is used: a fresh key, several blocks of rounds, answers of hundreds of numbers.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.special import gammainc, gammaincc
from typing_extensions import override

from taciturn.audit.recorded import ResidualReport, replay, run_residuals
from taciturn.audit.subject import Canary, Fault
from taciturn.engine import behind_the_door
from taciturn.engine.door import Live
from taciturn.engine.planning import Plan
from taciturn.engine.runtimes import streamed
from taciturn.engine.supply import Supply
from taciturn.noise import Stream

# features and rounds of the run (three times those of an audit), and rounds that are drawn at once
WIDE, LONG = 200, 30
BLOCK = 5
KEYS = 2048
_PART = 64


def randomness_report(
    plan: Plan, pair: Canary, *, level: float, fault: Fault | None = None
) -> ResidualReport:
    """Return the tests of a run of `plan` without a seed, on the first data set of the pair.

    Those of `residual_report`, and two of `KEYS` fresh keys: repeated ones, and how often each of
    the 256 bits is set.
    """
    fresh = _short_stream if fault == "short-key" else Stream.fresh
    program, sides = plan.program, [behind_the_door(plan, one) for one in (pair.first, pair.second)]
    kind = {"repeated-noise": _Repeated, "part-noise": _Part}.get(fault or "", _InBlocks)
    supply = kind(program, fresh(), sides[0].shard.mask.shape[-1])
    door = Live(program.oracles, program.mechanism, None)
    keep = frozenset({"answers", "messages"})
    _, trace = streamed(program, door, sides[0], supply, keep=keep)
    exact = replay(plan, program.oracles, trace, *sides).exact
    residuals = run_residuals(plan, trace, exact, level=level)
    return ResidualReport(residuals.p_values | key_tests(fresh), level)


def key_tests(fresh: Callable[[], Stream]) -> dict[str, float]:
    """Return the p-values of repeated keys, and of the counts of their bits.

    Two of n independent keys of 256 bits are equal with probability below n^2 2^-257; the squares
    of the 256 whitened counts add to chi-squared.
    """
    keys = [fresh().secret for _ in range(KEYS)]
    bits = np.unpackbits(np.frombuffer(b"".join(keys), np.uint8).reshape(KEYS, -1), axis=1)
    whitened = (bits.sum(axis=0) - KEYS / 2) / np.sqrt(KEYS / 4)
    total, freedom = float(np.sum(whitened**2)) / 2, whitened.size / 2
    repeated = len(set(keys)) < KEYS
    return {
        "repeated keys": 2.0**-200 if repeated else 1.0,
        "bits of keys": float(2 * min(gammaincc(freedom, total), gammainc(freedom, total))),
    }


def _short_stream() -> Stream:
    """Return a stream whose key has 8 bits of entropy, spread over all of its bits."""
    return Stream(hashlib.sha256(secrets.token_bytes(1)).digest())


class _InBlocks(Supply):
    """The supply of a run, in blocks of a few rounds."""

    @override
    def length(self) -> int:
        return min(BLOCK, self.rounds)


class _Repeated(_InBlocks):
    """Gives the first block of rounds again."""

    _first: Any = None

    @override
    def block(self, first: int, last: int) -> Any:
        self._first = super().block(first, last) if self._first is None else self._first
        return jax.tree.map(lambda leaf: leaf[: last - first], self._first)


class _Part(_InBlocks):
    """Gives noise for the first numbers of an answer only."""

    @override
    def block(self, first: int, last: int) -> Any:
        raw = super().block(first, last)
        steps = raw.steps.reshape(*raw.steps.shape[:3], -1)
        steps[..., _PART:] = 0
        return raw._replace(steps=steps.reshape(raw.steps.shape))
