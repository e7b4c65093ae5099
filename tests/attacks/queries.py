"""Hostile queries: numbers at which rounding, overflow or cancellation decides what is answered.

A record has to be hidden at every query, since queries follow from earlier answers. The kinds of
`QUERIES` are those at which floating point is furthest from real numbers. Each is tried with random
records, on which one is negated, given the opposite target, drawn anew or set to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np
from tests.attacks.subjects import BETA, PERSON, RATE, Finding, Trials, everyone, ratios

from taciturn.kernel.privacy import TargetChange, ZeroOut
from taciturn.kernel.questions import Drawn
from taciturn.kernel.questions.sampling import capacity
from taciturn.kernel.records import clip_rows
from taciturn.problems import MultinomialLogistic
from taciturn.typing import HostArray, Precision

Drawer = np.random.Generator
# of the shape of a model, one for every trial, given the records that are changed `(N, D)`
Points = Callable[[Drawer, tuple[int, ...], HostArray], HostArray]


def _sized(least, most):
    """Return points of sizes between two powers of ten."""

    def points(draw, shape, _):
        return _sizes(draw, shape, least, most) * _directions(draw, shape)

    return points


def _filled(value):
    """Return points with one number in all places, or in a random one of them, of either sign."""

    def points(draw, shape, _):
        everywhere = draw.random((shape[0], *(1 for _ in shape[1:]))) < 0.5
        somewhere = draw.random(shape) < 1 / np.prod(shape[1:])
        sign = np.sign(draw.standard_normal(shape))
        return np.where(everywhere | somewhere, value * sign, 0.0)

    return points


def _cancelling(least, most):
    """Return large points at right angles to the records: their margins are rounding alone."""

    def points(draw, shape, records):
        point = _directions(draw, shape)
        unit = records / np.maximum(np.linalg.norm(records, axis=1, keepdims=True), 1e-300)
        along = np.einsum("nd,nd...->n...", unit, point)
        point -= np.einsum("nd,n...->nd...", unit, along)
        return _sizes(draw, shape, least, most) * point

    return points


def _sizes(draw, shape, least, most):
    size: HostArray = 10 ** draw.uniform(least, most, shape[0])
    shaped: HostArray = size.reshape(-1, *(1 for _ in shape[1:]))
    return shaped


def _directions(draw, shape):
    points = draw.standard_normal(shape)
    norms = np.linalg.norm(points.reshape(shape[0], -1), axis=1)
    directions: HostArray = points / norms.reshape(-1, *(1 for _ in shape[1:]))
    return directions


QUERIES: Mapping[Precision, Mapping[str, Points]] = {
    "float32": {
        "zero": _filled(0.0),
        "ordinary": _sized(-3, 2),
        "centres 1e4 to 1e6": _sized(4, 6),
        "slopes to 8e6": _sized(6, np.log10(8e6)),
        "1e8 to 1e10": _sized(8, 10),
        "cancelling": _cancelling(3, 10),
        "denormal": _filled(1e-40),
        "1e38": _filled(1e38),
        "infinite": _filled(np.inf),
        "NaN": _filled(np.nan),
    },
    "float64": {
        "zero": _filled(0.0),
        "ordinary": _sized(-3, 2),
        "slopes to 8e6": _sized(6, np.log10(8e6)),
        "centres 1e12 to 1e14": _sized(12, 14),
        "1e17 to 1e19": _sized(17, 19),
        "cancelling": _cancelling(12, 19),
        "denormal": _filled(1e-310),
        "1e300": _filled(1e300),
        "infinite": _filled(np.inf),
        "NaN": _filled(np.nan),
    },
}


def hostile(subject, precision, *, records, columns, trials, seed):
    """Return the worst that queries of each kind do to the answers of an oracle."""
    planned = subject.planned(records, columns, precision)
    draw = np.random.default_rng(seed)
    found = []
    for kind, points in QUERIES[precision].items():
        pairs = _random(subject, points, draw, (trials, records, columns), precision)
        worst = float(np.max(ratios(subject, planned, pairs)))
        shown, outputs = f"queries: {kind}, {subject.terms}", subject.outputs(columns)
        found.append(Finding(subject.name, shown, precision, records, columns, outputs, worst))
    return tuple(found)


def _random(subject, points, draw, size, precision):
    """Return random pairs of neighbours, and queries of a kind."""
    trials, records, columns = size
    rows = _rows(draw, size, precision)
    targets = _targets(subject, draw, (trials, records), precision).astype(
        np.int32 if isinstance(subject.problem.loss, MultinomialLogistic) else precision
    )
    aligned = draw.random((trials, 1)) < 0.2  # only then can all records move an answer one way
    rows = np.where(aligned[..., None], rows[:, :1], rows)
    targets = np.where(aligned, targets[:, :1], targets)
    others, other_targets, kept = rows.copy(), targets.copy(), np.ones((trials, records))
    changed = np.zeros((trials, records), bool)
    changed[np.arange(trials), draw.integers(0, records, trials)] = True
    changed |= subject.unit == "agent"
    if subject.unit == "person":
        changed |= np.arange(records) < PERSON
        changed &= np.cumsum(changed, axis=1) <= PERSON
    if isinstance(subject.relation, ZeroOut):
        kept[changed] = 0
    elif isinstance(subject.relation, TargetChange):
        other_targets[changed] = _moved(targets[changed], precision)
    else:
        choice = np.broadcast_to(draw.integers(0, 3, (trials, 1)), targets.shape)
        fresh = _rows(draw, size, precision)
        same = np.where((choice == 1)[..., None], rows, fresh)
        turned = np.where((choice == 0)[..., None], -rows, same)
        opposite = np.where(choice == 0, targets, _opposite(subject, targets))
        others, other_targets = (
            np.where(changed[..., None], turned, rows),
            np.where(changed, opposite, targets),
        )
    shape = (trials, *subject.shape(columns))
    one = rows[np.arange(trials), np.argmax(changed, axis=1)]
    query = subject.ask(points(draw, shape, one), points(draw, shape, one))
    batches = everyone(trials, records) if subject.name.startswith("mini-batch") else None
    return Trials(rows, targets, others, other_targets, kept, query, batches)


def _rows(draw, size, precision):
    """Return rows of norm 1, of any norm below, with one entry, or with entries of one size."""
    rows = draw.standard_normal(size)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    small = 10 ** draw.uniform(-42 if precision == "float32" else -320, 0, (*size[:2], 1))
    single = np.zeros(size)
    single[..., 0] = np.sign(rows[..., 0])
    flat = np.sign(rows) / np.sqrt(size[2])
    kind = draw.integers(0, 6, (*size[:2], 1))
    rows = np.where(kind == 0, rows * small, np.where(kind == 1, single, rows))
    rows = np.where(kind == 2, flat, rows)
    stored = clip_rows(rows.reshape(-1, size[2]), 1.0, precision)
    return stored.astype(np.float64).reshape(size)


def _targets(subject, draw, size, precision):
    """Return targets of all sizes, or classes."""
    if isinstance(subject.problem.loss, MultinomialLogistic):
        return draw.integers(0, subject.problem.loss.classes, size)
    most = np.where(draw.random((size[0], 1)) < 0.5, 12.0, 36 if precision == "float32" else 300)
    sizes = 10 ** draw.uniform(-2, most)
    signs: HostArray = np.sign(draw.standard_normal(size))
    return signs * np.where(draw.random((size[0], 1)) < 0.3, 1.0, sizes)


def _opposite(subject, targets):
    if isinstance(subject.problem.loss, MultinomialLogistic):
        return (targets + 1) % subject.problem.loss.classes
    return -targets


def _moved(targets, precision):
    """Return targets as far away as a bounded change allows, in the run's precision."""
    kind = np.dtype(precision).type
    stored = targets.astype(kind)
    moved = (stored + kind(BETA)).astype(kind)
    beyond = moved.astype(np.longdouble) - stored.astype(np.longdouble) > BETA
    return np.asarray(np.where(beyond, np.nextafter(moved, stored), moved))


def shifted_slots(subject, precision, *, records, columns, trials, seed):
    """Return how far a batch with one record more moves the answer, all later slots shifted.

    A Poisson batch is accounted for as the mixture of those without the record and those with it:
    the two may differ by the term of one record. The data are the same on both sides. Where the
    record is taken, the rows behind it stand one slot further on, where a matrix product may sum
    their margins in another order. Queries are so large that a margin is rounded by more than 1,
    and targets are the margins before rounding, so that rounding decides the coefficients.
    """
    draw = np.random.default_rng(seed)
    rows = _rows(draw, (trials, records, columns), precision)
    shape = (trials, *subject.shape(columns))
    least, most = (8, 10) if precision == "float32" else (17, 19)
    point = (_sizes(draw, shape, least, most) * _directions(draw, shape)).astype(precision)
    targets = np.einsum("nmd,nd->nm", rows.astype(np.longdouble), point.astype(np.longdouble))
    targets = targets.astype(precision)
    query = subject.ask(point, np.zeros(shape))
    batches = _with_and_without(draw, trials, records, capacity(records, RATE))
    pairs = Trials(rows, targets, rows, targets, np.ones(targets.shape), query, batches)
    planned = subject.planned(records, columns, precision)
    worst = float(np.max(ratios(subject, planned, pairs)))
    outputs = subject.outputs(columns)
    return Finding(subject.name, "shifted slots", precision, records, columns, outputs, worst)


def _with_and_without(draw, trials, records, slots):
    """Return random batches as places, and the same with their first record left out."""
    size = min(slots, records) - 1
    chosen = np.sort(
        np.stack([draw.permutation(records)[:size] for _ in range(trials)]), axis=1
    ).astype(np.int32)
    spare = np.full((trials, slots), records - 1, np.int32)
    places, taken = spare.copy(), np.zeros((trials, slots), bool)
    places[:, :size], taken[:, :size] = chosen, True
    fewer, fewer_taken = spare.copy(), np.zeros((trials, slots), bool)
    fewer[:, : size - 1], fewer_taken[:, : size - 1] = chosen[:, 1:], True
    first, second = (places, taken), (fewer, fewer_taken)
    return Drawn(*map(jnp.asarray, first)), Drawn(*map(jnp.asarray, second))
