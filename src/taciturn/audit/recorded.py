"""Tests of recorded runs: exact answers by replay, and randomness of residuals and keys.

They cover seeded runs with small answers, and a realistic run without a seed: a fresh key, several
blocks of rounds, answers of hundreds of numbers.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammainc, gammaincc, ndtr, pdtrc
from typing_extensions import override

from taciturn.audit.subject import Canary, Fault
from taciturn.engine import compute, records_for_door, simulate
from taciturn.engine.planning import Plan
from taciturn.engine.protocol import Trace
from taciturn.errors import InputError
from taciturn.kernel.door import Live, Private, Raw, Supply
from taciturn.kernel.exact import Replay
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import Gaussian, Laplace, Mechanism
from taciturn.kernel.questions import Oracle
from taciturn.typing import HostArray, PyTree


@dataclass(frozen=True)
class ReplayReport:
    """The comparison of a pair of data sets on one recorded run.

    - `exact`: `(T, E, A, *shape)`: The un-noised answers on the first data set.
    - `worst_ratio`: Largest |exact(D) - exact(D')| / bound over all answers; above 1 breaks law 1.
    - `realised_mu`, `planned_mu`: sqrt(sum |change|^2 / scale^2) of the pair on this history, and
      sqrt(sum (bound/scale)^2), the certificate's mu for an observer of messages; the maximum over
      agents. On sampled batches both are for an observer who knows the batches.
    - `message_gap`: Largest difference between a message as sent and as recomputed from recorded
      answers, relative to the largest message; beyond rounding it is a leak.
    """

    exact: HostArray
    worst_ratio: float
    realised_mu: float
    planned_mu: float
    message_gap: float

    @property
    def bounds_hold(self) -> bool:
        """Whether every change is within its bound and the realised mu within the planned one."""
        return self.worst_ratio <= 1 + 1e-9 and self.realised_mu <= self.planned_mu * (1 + 1e-9)

    @property
    def messages_hold(self) -> bool:
        """Whether messages were functions of recorded answers alone (to 1e-10)."""
        return self.message_gap <= 1e-10


def replay(
    plan: Plan,
    oracles: tuple[Oracle, ...],
    trace: Trace,
    first: Private,
    second: Private,
    *,
    raw: Raw | None = None,
) -> ReplayReport:
    """Return the replay of a run on `first` that kept its answers and messages.

    `oracles`: the questions as actually answered, including a faulty one. `raw`: the random numbers
    of the run, which determine its batches, if an oracle samples.
    """
    ledger, recorded = plan.ledger, trace.records.answer
    doors = [Replay(oracles, private, recorded) for private in (first, second)]
    replayed = [compute(plan.program, door, raw, keep=frozenset({"messages"}))[1] for door in doors]
    exact, other = (np.asarray(one.records.exact) for one in replayed)
    flat = (exact - other).reshape(*exact.shape[:3], -1)
    change = np.linalg.norm(flat, ord=1 if ledger.mechanism.norm == "l1" else 2, axis=-1)
    bound, scale = np.moveaxis(ledger.sensitivity, 0, -1), np.moveaxis(ledger.scale, 0, -1)
    asked = np.moveaxis(ledger.asked, 0, -1)
    realised = np.sqrt(np.sum(_quotient(change, scale, asked) ** 2, axis=(0, 1)))
    return ReplayReport(
        exact=exact,
        worst_ratio=float(np.max(_quotient(change, bound, asked))),
        realised_mu=float(np.max(realised)),
        planned_mu=float(np.max(np.sqrt(np.sum(ledger.ratios() ** 2, axis=(1, 2))))),
        message_gap=_gap(replayed[0].messages, trace.messages),
    )


def _quotient(change: HostArray, size: HostArray, asked: HostArray) -> HostArray:
    """Return change / size where a question was asked; elsewhere 0, or infinity if it changed."""
    unasked = np.where(change > 0, np.inf, 0.0)
    return np.divide(change, size, out=unasked, where=asked)


def _gap(recomputed: PyTree, sent: PyTree) -> float:
    difference, size = 0.0, 1e-300
    for ours, theirs in zip(jax.tree.leaves(recomputed), jax.tree.leaves(sent), strict=True):
        difference = max(difference, float(jnp.max(jnp.abs(ours - theirs))))
        size = max(size, float(jnp.max(jnp.abs(theirs))))
    return difference / size


@dataclass(frozen=True)
class ResidualReport:
    """P-values of the tests on whitened residuals; `passes` at the stated total level."""

    p_values: dict[str, float]
    level: float

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the tests that reject, at level / (number of tests)."""
        cut = self.level / len(self.p_values)
        return tuple(name for name, p in self.p_values.items() if not p >= cut)

    @property
    def passes(self) -> bool:
        """Whether no test rejects."""
        return not self.failed


def run_residuals(plan: Plan, trace: Trace, exact: HostArray, *, level: float) -> ResidualReport:
    """Return the tests of a run that kept its answers, given the exact answers of its replay."""
    records, law, finest = trace.records, plan.program.mechanism, 1 / plan.ledger.finest()
    answers, scale, kind = map(np.asarray, (records.answer, records.scale, records.kind))
    return residual_report(
        answers, exact, scale, law, level=level, asked=kind >= 0, resolution=finest
    )


def residual_report(  # noqa: PLR0913 - a run's record, and how it is tested
    answers: HostArray,
    exact: HostArray,
    scale: HostArray,
    mechanism: Mechanism,
    *,
    level: float,
    asked: HostArray | None = None,
    resolution: float = 0.0,
) -> ResidualReport:
    """Return the tests of u = (answer - exact) / scale against independent draws of the stated law.

    Tests: mean; size (sum |u|^p against its exact law) of all residuals, and of each agent, round
    and entry of an answer; distribution (Kolmogorov-Smirnov); correlation at every lag of rounds
    and between every pair of agents; repeated values, up to sign. A family of tests counts as its
    least p-value times its size, so the total false alarm rate is at most `level` (Bonferroni; mean
    and correlations use normal approximations).

    - `answers`, `exact`: `(T, E, A, *shape)`, from the run and from its replay.
    - `scale`, `asked`: `(T, E, A)`: The recorded scales, and where there was a question (None:
      everywhere). If some agents were not asked, all answers are treated as one agent's.
    - `resolution`: The largest lattice step, relative to the scale of its noise.
    """
    from scipy.stats import kstest  # noqa: PLC0415 - which takes 0.4 s to import

    law = _LAWS.get(type(mechanism))
    if law is None:
        raise InputError(f"{type(mechanism).__name__} has no law to test against")
    if asked is not None and not np.all(asked):  # as if one agent had given all answers
        answers, exact, scale = (values[asked][:, None, None] for values in (answers, exact, scale))
    wide = scale.reshape(scale.shape + (1,) * (answers.ndim - scale.ndim))
    if not np.all(scale > 0):
        raise InputError("an answer was given without noise; its residual cannot be tested")
    u = ((answers - exact) / wide).reshape(*scale.shape, -1)
    flat = u.ravel()
    by_round, by_agent = u.reshape(len(u), -1), np.moveaxis(u, 2, 0).reshape(u.shape[2], -1)
    by_entry = u.reshape(-1, u.shape[3]).T
    p_values = {
        "mean": _two_sided(np.sum(flat) / np.sqrt(flat.size * law.variance)),
        "variance": law.size(flat),
        "variance of an agent": _least([law.size(values) for values in by_agent]),
        "variance of a round": _least([law.size(values) for values in by_round]),
        "variance of an entry": _least([law.size(values) for values in by_entry]),
        "distribution": float(kstest(flat, law.cdf).pvalue),
        "rounds": _least(
            [
                _correlation(by_round[lag:], by_round[:-lag], law.variance)
                for lag in range(1, len(by_round))
            ]
        ),
        "agents": _least([_correlation(*pair, law.variance) for pair in combinations(by_agent, 2)]),
        "repeats": _repeats(np.abs(flat), resolution),
    }
    return ResidualReport(p_values, level)


class _Law(NamedTuple):
    """The law of a whitened residual: distribution function, variance, and the test of its size."""

    cdf: Callable[..., Any]
    variance: float
    size: Callable[[HostArray], float]


_LAWS: dict[type[Mechanism], _Law] = {  # sum u^2 is chi-squared, sum |u| gamma
    Gaussian: _Law(ndtr, 1.0, lambda u: _of_total(np.sum(u**2) / 2, u.size / 2)),
    Laplace: _Law(
        lambda u: np.where(u < 0, np.exp(-np.abs(u)) / 2, 1 - np.exp(-np.abs(u)) / 2),
        2.0,
        lambda u: _of_total(np.sum(np.abs(u)), u.size),
    ),
}


def _of_total(total: float, shape: float) -> float:
    """Return the two-sided p-value of a total under the gamma law of this shape."""
    return float(min(1.0, 2 * min(gammainc(shape, total), gammaincc(shape, total))))


def _least(p_values: list[float]) -> float:
    """Return the Bonferroni p-value of the least of several."""
    return min(1.0, len(p_values) * min(p_values)) if p_values else 1.0


def _correlation(u: HostArray, v: HostArray, variance: float) -> float:
    """P-value of sum u v over n independent pairs: mean 0, variance n variance^2."""
    return _two_sided(float(np.sum(u * v)) / (np.sqrt(u.size) * variance))


def _two_sided(z: float) -> float:
    return float(2 * ndtr(-abs(z)))


def _repeats(sizes: HostArray, resolution: float) -> float:
    """P-value of the number of neighbours closer than a gap that independent draws rarely produce.

    |u| has a density of at most 1 under both laws, so two independent draws are within g of each
    other with probability at most 2 g, and n draws form at most n^2 g such pairs on average: 1e-4
    for the least g used here, which is above rounding in double precision. On a lattice two draws
    may coincide: g is then at least two of its steps.
    """
    gap = max(1e-4 / sizes.size**2, 2 * resolution)
    close = int(np.sum(np.diff(np.sort(sizes)) < gap))
    return float(pdtrc(close - 1, sizes.size**2 * gap)) if close else 1.0


WIDE, LONG = 200, 30  # features and rounds of the run without a seed
BLOCK = 5  # rounds per draw
KEYS = 2048
_PART = 64  # entries of an answer that the fault part-noise noises


def randomness_report(
    plan: Plan, pair: Canary, *, level: float, fault: Fault | None = None
) -> ResidualReport:
    """Return the tests of a run of `plan` without a seed, on the first data set of the pair.

    The tests of `residual_report`, and two of `KEYS` fresh keys: for repeated keys, and for the
    frequency of each of the 256 bits.
    """
    fresh = _short_stream if fault == "short-key" else Stream.fresh
    program, sides = (
        plan.program,
        [records_for_door(plan, one) for one in (pair.first, pair.second)],
    )
    kind = {"repeated-noise": _Repeated, "part-noise": _Part}.get(fault or "", _InBlocks)
    supply = kind(program.agenda, fresh(), sides[0].rows)
    door = Live(program.oracles, program.mechanism, sides[0])
    _, trace = simulate(program, door, supply, keep=frozenset({"answers", "messages"}))
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
        return min(BLOCK, len(self.agenda.turns.question))


class _Repeated(_InBlocks):
    """Planted fault: repeats the first block of rounds."""

    _first: Any = None

    @override
    def block(self, first: int, last: int) -> Any:
        self._first = super().block(first, last) if self._first is None else self._first
        return jax.tree.map(lambda leaf: leaf[: last - first], self._first)


class _Part(_InBlocks):
    """Planted fault: noises only the first entries of an answer."""

    @override
    def block(self, first: int, last: int) -> Any:
        raw = super().block(first, last)
        steps = raw.steps.reshape(*raw.steps.shape[:3], -1)
        steps[..., _PART:] = 0
        return raw._replace(steps=steps.reshape(raw.steps.shape))
