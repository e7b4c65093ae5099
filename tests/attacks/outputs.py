r"""Outputs of runs: what the last bits and tails of noised answers give away, and how often.

A generator of normal numbers in floating point has gaps: few numbers z can be drawn at all, and an
exact answer g makes only the outputs fl(g + s z) attainable. Whoever knows two candidates for g
asks of which of them an output can come (Mironov 2012). Noise on a lattice does not help while the
exact answer stays off it: output minus candidate is then on the lattice for the true one alone.
`power` attacks runs end to end, as a user makes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import erf, ndtr, ndtri
from tests.attacks.orders import Order, climbing, staircase
from tests.attacks.subjects import Finding, Subject, subject_named

from taciturn.audit.epsilon import upper_rate
from taciturn.engine import Plan, run
from taciturn.kernel.privacy import Certificate, ReplaceOne
from taciturn.kernel.privacy.gaussian import true_positive_rate
from taciturn.kernel.records import Shards, pack
from taciturn.typing import HostArray

# a power of two, so that both exact answers have few bits
_RECORDS, _COLUMNS = 64, 20
_FAR = 1e4
_ALPHA = 0.01
# how many neighbours of a uniform number are tried, for what the generator's inverse may be off by
_NEAR = 64
_BITS = {"float32": 23, "float64": 52}


# from a plan and data to the noised answer of one run of one agent
Ask = Callable[[Plan, Shards], HostArray]


@dataclass(frozen=True)
class _Repeats:
    runs: int
    seed: int


@dataclass(frozen=True)
class ErrorRate:
    """How often an attacker who sees one noised answer names the wrong one of two data sets."""

    errors: int
    runs: int  # half of them on each data set
    allowed: float  # the certificate says that no attacker can go below
    records: int
    columns: int

    @property
    def ratio(self):
        """Allowed rate over the upper Clopper-Pearson bound, at 1 %, on what was seen."""
        return self.allowed / upper_rate(self.errors, self.runs, 2 * _ALPHA)


def porous(precision, *, runs, seed=0, ask=None):
    """Return how often the gaps of normal numbers in floating point give a data set away.

    The exact answers g and g' are numbers of few bits, so there is no doubt about them. An output
    speaks for the candidate from which more of its coordinates are attainable; a tie is a coin.
    """
    signs = np.ones(_RECORDS)
    other = signs.copy()
    other[0] = -1
    rows = np.full((_RECORDS, _COLUMNS), 0.125)
    candidates = [0.125 * float(np.mean(side)) * np.ones(_COLUMNS) for side in (signs, other)]

    def score(answer, scale):
        first, second = (attainable(answer, g, scale, precision) for g in candidates)
        return float(np.sum(first) - np.sum(second))

    sides = [(rows, side) for side in (signs, other)]
    return _error_rate(sides, score, precision, ask or answer_of, _Repeats(runs, seed))


def off_lattice(*, runs, seed=0, ask=None):
    """Return how often the lattice of the noise gives a data set away, in double precision.

    An agent has one record, whose cells have all 53 bits: its row is the exact answer, or its
    truncation is. An output speaks for the candidate from which it differs by fewer bits.
    """
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((2, 1, _COLUMNS))
    rows /= 1.01 * np.linalg.norm(rows, axis=2, keepdims=True)

    def score(answer, _):
        first, second = (np.median(last_bit(answer - row[0])) for row in rows)
        return float(first - second)

    sides = [(row, np.ones(1)) for row in rows]
    return _error_rate(sides, score, "float64", ask or answer_of, _Repeats(runs, seed))


def last_bit(values):
    """Return the power of 2 of the last bit that is set in each number."""
    parts, powers = np.frexp(values)
    whole = np.abs(parts * 2.0**53).astype(np.int64)
    last: HostArray = powers - 53 + np.log2(np.maximum(whole & -whole, 1))
    return last


def attainable(answer, exact, scale, precision):
    """Return which coordinates are fl(exact + scale z) for a z that JAX's generator can draw.

    It draws z = sqrt(2) erfinv(u), with u one of 2^23 or 2^52 numbers from -1 to 1. Those about the
    u that the output would come from are tried, with one rounding of the sum and with two.
    """
    kind, bits = np.dtype(precision).type, _BITS[precision]
    low = np.nextafter(kind(-1), kind(0))
    wanted = erf((answer.astype(np.float64) - exact) / (scale * math.sqrt(2)))
    middle = np.rint((wanted - float(low)) / 2 * 2.0**bits)
    places = np.clip(middle[:, None] + np.arange(-_NEAR, _NEAR + 1), 0, 2.0**bits - 1)
    uniform = np.maximum(low, (places * 2.0**-bits).astype(kind) * kind(2) + low)
    drawn = kind(math.sqrt(2)) * np.asarray(_erfinv(jnp.asarray(uniform)))
    start, factor = exact.astype(kind)[:, None], kind(scale)
    twice = start + drawn * factor
    wide = start.astype(np.longdouble) + drawn.astype(np.longdouble) * factor
    seen = answer.astype(kind)[:, None]
    return np.asarray(np.any((seen == twice) | (seen == wide.astype(kind)), axis=1))


_erfinv = jax.jit(jax.lax.erf_inv)


def tails(precision, *, draws, beyond=5.25, ask=None):
    """Return the normal mass beyond some standard deviations over what was drawn there, at most.

    The worse of the two sides; what is drawn there is bounded by Clopper and Pearson at 99.5 %. A
    generator that cannot reach so far gives, on one data set only, outputs that the certificate
    takes for possible on both.
    """
    columns = 2**16
    subject = subject_named("gradient", 1, ReplaceOne())
    planned = subject.planned(1, columns, precision)
    shards = _shards(np.zeros((1, columns)), np.ones(1), precision)
    scale = float(planned.ledger.scale.flat[0])
    rounds, far = math.ceil(draws / columns), np.zeros(2, int)
    for _ in range(rounds):
        noise = (ask or answer_of)(planned, shards) / scale
        far += np.sum(noise > beyond), np.sum(noise < -beyond)
    least = upper_rate(int(np.min(far)), rounds * columns, _ALPHA)
    ratio = float(ndtr(-beyond)) / least
    shown = f"noise beyond {beyond:g} deviations"
    return Finding("gradient", shown, precision, 1, columns, columns, ratio)


def answer_of(planned, shards):
    """Return the noised answer of one run of one agent, with noise from the operating system."""
    done = run(planned, shards, runtime="simulate", seed=None, keep=frozenset({"answers"}))
    answer: HostArray = np.asarray(done.trace.records.answer)[0, 0, 0]
    return answer


def _error_rate(sides, score, precision, ask, repeats):
    """Return the errors of an attacker who says the first data set where the score is above 0."""
    rows = sides[0][0]
    subject: Subject = subject_named("gradient", len(rows), ReplaceOne())
    planned = subject.planned(len(rows), rows.shape[1], precision)
    scale = float(np.asarray(planned.program.scales).flat[0])
    coin = np.random.default_rng(repeats.seed)
    errors = 0
    for number, (features, signs) in enumerate(sides):
        shards = _shards(features, signs, precision)
        for _ in range(repeats.runs):
            evidence = score(ask(planned, shards), scale)
            guess = int(evidence < 0) if evidence else int(coin.integers(0, 2))
            errors += int(guess != number)
    return ErrorRate(errors, 2 * repeats.runs, least_error(planned.certificate), *rows.shape)


def least_error(certificate):
    """Return the least error rate that a certificate leaves to who tells two data sets apart.

    Phi(-mu / 2) for a mu; else (1 - delta) / (1 + exp(epsilon)).
    """
    if certificate.mu is not None:
        return float(ndtr(-certificate.mu / 2))
    return (1 - certificate.delta) / (1 + math.exp(certificate.epsilon))


def most_hits(certificate, alarms):
    """Return the true positives that a certificate allows at a rate of false ones."""
    if not 0 < alarms < 1:
        return 1.0
    if certificate.mu is not None:
        return float(true_positive_rate(certificate.mu, alarms))
    grown = math.exp(certificate.epsilon) * alarms + certificate.delta
    missed = math.exp(-certificate.epsilon) * (1 - certificate.delta - alarms)
    return min(1.0, grown, 1 - missed)


def _shards(features, signs, precision):
    """Return the records of one agent whose coefficients at 0 have these signs and norm 1."""
    parts = [np.arange(len(features))]
    targets = -signs * _FAR
    return pack(features, targets, parts, record_norm=1.0, precision=precision)


@dataclass(frozen=True)
class Power:
    """What an attacker who sees one noised answer of each run attains."""

    hits: int  # runs on the first data set that are named rightly
    alarms: int  # runs on the second that are not
    runs: int  # on each
    certificate: Certificate

    @property
    def true_positives(self):
        """The Clopper-Pearson interval of the rate of true positives, at 98 %."""
        return _interval(self.hits, self.runs)

    @property
    def allowed(self):
        """The true positives that the certificate allows at the upper bound on the false ones."""
        return most_hits(self.certificate, _interval(self.alarms, self.runs)[1])

    @property
    def ratio(self):
        """The lower bound on the true positives over what is allowed."""
        return self.true_positives[0] / self.allowed


def power(*, records, runs, precision="float32", ask=None):
    """Return what an attacker attains with records that climb the stairs, end to end.

    Runs are as a user makes them, with noise from the operating system. A third of them show where
    the answers lie; a threshold at which a normal attacker has 1 % of false positives is fixed from
    these, and applied to the others. Gradient, one answer, epsilon 1.
    """
    subject = subject_named("gradient", records, ReplaceOne())
    planned = subject.planned(records, 2, precision)
    trials = climbing(subject, staircase(records, Order(), 1.0, precision), records, 2)
    sides = ((trials.features, trials.targets), (trials.others, trials.other_targets))
    first, second = (_first_coordinates(planned, *side, runs, ask or answer_of) for side in sides)
    known = max(1, runs // 3)
    gap = float(np.mean(first[:known]) - np.mean(second[:known]))
    way, scale = (1.0 if gap >= 0 else -1.0), float(planned.ledger.scale.flat[0])
    threshold = float(np.mean(way * second[:known])) - float(ndtri(0.01)) * scale
    hits, alarms = (int(np.sum(way * side[known:] > threshold)) for side in (first, second))
    return Power(hits, alarms, runs - known, planned.certificate)


def _first_coordinates(planned, features, targets, runs, ask):
    parts = [np.arange(targets.shape[1])]
    shards = pack(features[0], targets[0], parts, record_norm=1.0, precision=planned.precision)
    return np.array([float(ask(planned, shards)[0]) for _ in range(runs)])


def _interval(events, runs):
    return 1 - upper_rate(runs - events, runs, 0.02), upper_rate(events, runs, 0.02)
