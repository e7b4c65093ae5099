"""Private scores of probabilities: exact without noise, with intervals that hold the truth."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import brier_score_loss

from taciturn.kernel.questions import Point, Tally
from taciturn.kernel.records import Shard
from taciturn.training.evaluation import Scale, score_of_labels
from taciturn.training.intervals import Counts
from taciturn.training.probabilities import Sums

RECORDS = 3000


def calibration_error(likely, hits, ends):
    place = np.clip(np.searchsorted(ends, likely, side="right") - 1, 0, len(ends) - 2)
    gaps = [np.sum((likely - hits)[place == k]) for k in range(len(ends) - 1)]
    return np.sum(np.abs(gaps)) / len(likely)


def answer(question, scores, targets):
    """The answer without noise about records that are their own scores."""
    rows = scores[:, None] if scores.ndim == 1 else scores
    shard = Shard(jnp.asarray(rows), jnp.asarray(targets), jnp.ones(len(rows)))
    model = jnp.ones(1) if scores.ndim == 1 else jnp.eye(scores.shape[1])
    return np.asarray(question.exact(shard, jnp.asarray(float(len(rows))), Point(model)))


@pytest.mark.parametrize("shift", [0.0, 2.5])
def test_without_noise_the_scores_of_two_classes_are_those_of_their_definitions(shift):
    draw = np.random.default_rng(0)
    z = 2 * draw.standard_normal(RECORDS)
    likely = 1 / (1 + np.exp(shift - z))
    y = np.where(draw.uniform(size=RECORDS) < likely**1.3, 1.0, -1.0)
    question = Tally(2, offsets=0.25, shift=shift)
    score = score_of_labels(question, answer(question, z, y), RECORDS, 0.0, Scale(("a", "b"), 1.0))
    assert score.brier.estimate == pytest.approx(brier_score_loss(y, likely), rel=1e-9)
    expected = calibration_error(likely, y > 0, question.ends())
    assert score.calibration_error.estimate == pytest.approx(expected, rel=1e-9)
    assert score.error.estimate == pytest.approx(np.mean((z >= 0) != (y > 0)))
    if not shift:
        np.testing.assert_allclose(question.ends(), np.linspace(0, 1, 11), atol=1e-15)


def test_without_noise_the_scores_of_several_classes_are_those_of_their_definitions():
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, RECORDS)
    z = draw.standard_normal((RECORDS, 3)) + np.eye(3)[y]
    likely, question = softmax(z, axis=1), Tally(3, offsets=0.25)
    totals = answer(question, z, y)
    score = score_of_labels(question, totals, RECORDS, 0.0, Scale(("a", "b", "c"), 1.0))
    wrong = np.mean(np.sum((likely - np.eye(3)[y]) ** 2, axis=1))
    assert score.brier.estimate == pytest.approx(wrong, rel=1e-9)
    hits = likely.argmax(axis=1) == y
    expected = calibration_error(likely.max(axis=1), hits, np.linspace(1 / 3, 1, 11))
    assert score.calibration_error.estimate == pytest.approx(expected, rel=1e-9)


def share_that_holds(records, noise, bend, *, told=1.0, classes=2, repetitions=400):
    """How often intervals hold the scores of a population; `bend`: how untrue probabilities are."""
    draw = np.random.default_rng(5)
    size = 20_000  # the population
    question = Tally(classes, offsets=0.25)
    if classes == 2:
        z = 1.5 * draw.standard_normal(size) - 1
        y = np.where(draw.uniform(size=size) < 1 / (1 + np.exp(-bend * z)), 1.0, -1.0)
    else:
        z = 1.5 * draw.standard_normal((size, classes))
        y = (softmax(bend * z, axis=1).cumsum(axis=1) < draw.uniform(size=(size, 1))).sum(axis=1)
    cells = np.asarray(question.cells(jnp.asarray(z), jnp.asarray(y)))
    parts = np.asarray(question.within(jnp.asarray(z), jnp.asarray(cells)))
    count = math.prod(question.shape)

    def totals(chosen):
        found = [np.bincount(cells[chosen], weights, count) for weights in (None, parts[0, chosen])]
        return np.concatenate([found[0], 0.25 * found[1], [0.25 * parts[1, chosen].sum()]])

    def sums(exact, number, variance):
        return Sums.of(question, exact, Counts.of(exact[:count], number, variance))

    truth = sums(totals(np.arange(size)), size, 0.0)
    brier, gap = truth.brier().estimate, truth.calibration_error().estimate
    held = []
    for _ in range(repetitions):
        exact = totals(draw.integers(0, size, records))
        found = sums(exact + noise * draw.standard_normal(len(exact)), records, (told * noise) ** 2)
        pairs = ((found.brier(), brier), (found.calibration_error(), gap))
        held.append([one.low <= true <= one.high for one, true in pairs])
    return np.mean(held, axis=0)


@pytest.mark.parametrize(("records", "noise"), [(4000, 15.0), (400, 5.0), (4000, 0.0)])
@pytest.mark.parametrize("bend", [1.0, 0.5])
def test_intervals_hold_the_scores_of_the_population(records, noise, bend):
    brier, gap = share_that_holds(records, noise, bend)
    assert 0.93 <= brier <= 0.985
    assert gap >= 0.95


def test_intervals_of_several_classes_hold_the_scores_of_the_population():
    brier, gap = share_that_holds(2000, 4.0, 0.5, classes=3)
    assert brier >= 0.94
    assert gap >= 0.95


def test_an_interval_that_forgets_the_noise_holds_the_scores_less_often():
    brier, gap = share_that_holds(4000, 40.0, 1.0, told=0.0)
    assert brier < 0.7
    assert gap < 0.85


def test_a_calibration_error_that_noise_may_explain_is_only_bounded():
    question = Tally(2, offsets=0.25)
    draw = np.random.default_rng(0)
    z = draw.standard_normal(1000)
    y = np.where(draw.uniform(size=1000) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    totals, scale = answer(question, z, y), Scale(("a", "b"), 1.0)
    noised = totals + 20 * draw.standard_normal(len(totals))
    lines = score_of_labels(question, noised, 1000, 400.0, scale).lines()
    assert any("calibration error, 10 bins: at most " in line for line in lines)
    wrong = answer(question, 4 * z - 4, y)
    found = score_of_labels(question, wrong, 1000, 0.0, scale)
    assert found.calibration_error.low > 0
    assert any("calibration error, 10 bins: " in line and " to " in line for line in found.lines())
