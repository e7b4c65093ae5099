"""Intervals of private scores: 95 % of them hold the truth, and without the noise they do not."""

import math

import numpy as np
import pytest

from taciturn.kernel.questions import Tally
from taciturn.training.evaluation import (
    Counts,
    Scale,
    _auc,
    ratio_interval,
    score_of_labels,
    score_of_numbers,
)

SCALE = Scale(("no", "yes"), 1.0)
REPETITIONS = 1000


def population(question, *, draw, common=0.7):
    """Probabilities of the cells of labels that a model has some idea of."""
    cells = draw.dirichlet(np.full(math.prod(question.shape), 0.5)).reshape(question.shape)
    cells[0] *= common / np.sum(cells[0])
    cells[1:] *= (1 - common) / np.sum(cells[1:])
    return cells.ravel() / np.sum(cells)


def wrong_of(question):
    label, *rest = np.indices(question.shape).reshape(len(question.shape), -1)
    guess = rest[0] if len(rest) > 1 else (rest[0] >= question.bins // 2).astype(int)
    return label, guess


def scores(question, chances, records, noise, *, seed, scale=SCALE):
    draw = np.random.default_rng(seed)
    for _ in range(REPETITIONS):
        counts = draw.multinomial(records, chances) + noise * draw.standard_normal(len(chances))
        yield score_of_labels(question, counts, records, noise**2, scale)


def holds(interval, truth):
    return interval is not None and interval.low <= truth <= interval.high


SETTINGS = [(Tally(2), 4000, 20.0), (Tally(2), 400, 5.0), (Tally(3), 2000, 4.0)]


def shares_held(told):
    """How often the interval of the error holds it, if the noise is said to be `told` times it."""
    question, draw, noise, records = Tally(2), np.random.default_rng(1), 20.0, 4000
    chances = population(question, draw=np.random.default_rng(3))
    wrong, every = np.not_equal(*wrong_of(question)), np.ones(20, bool)
    found = []
    for _ in range(REPETITIONS):
        counts = draw.multinomial(records, chances) + noise * draw.standard_normal(20)
        known = Counts.of(counts, records, (told * noise) ** 2)
        found.append(holds(ratio_interval(known, wrong, every), float(chances[wrong].sum())))
    return np.mean(found)


def test_95_per_cent_of_the_intervals_hold_the_error():
    assert 0.93 <= shares_held(1.0) <= 0.97


def test_an_interval_without_the_noise_holds_the_error_less_often():
    assert shares_held(0.0) < 0.85


@pytest.mark.slow
@pytest.mark.parametrize(("question", "records", "noise"), SETTINGS)
def test_95_per_cent_of_the_intervals_hold_the_error_recall_and_baseline(question, records, noise):
    chances = population(question, draw=np.random.default_rng(3))
    label, guess = wrong_of(question)
    scale = Scale(tuple("abc"[: question.classes]), 1.0)
    error, others = float(chances[label != guess].sum()), float(chances[label != 0].sum())
    recall = float(chances[(label == 0) & (guess == 0)].sum() / chances[label == 0].sum())
    found = list(scores(question, chances, records, noise, seed=1, scale=scale))
    of = {
        "error": np.mean([holds(one.error, error) for one in found]),
        "recall": np.mean([holds(one.recall[0][1], recall) for one in found]),
        "baseline": np.mean([holds(one.baseline_error, others) for one in found]),
    }
    assert all(0.93 <= share <= 0.97 for share in of.values()), of


@pytest.mark.parametrize(("records", "noise"), [(400, 3.0), (4000, 20.0)])
def test_95_per_cent_of_the_intervals_hold_the_mean_errors_of_numbers(records, noise):
    draw = np.random.default_rng(0)
    powers = np.array([1, 2, 4])
    mean, square = 2 / 7, 2 * 3 / (7 * 8)  # of the beta law
    held = []
    for _ in range(REPETITIONS):
        t = draw.beta(2, 5, records)
        sums = (t[:, None] ** powers).sum(axis=0) + noise * draw.standard_normal(3)
        score = score_of_numbers(sums, records, noise**2, 10.0)
        held.append((holds(score.absolute, 10 * mean), holds(score.root_square, 10 * square**0.5)))
    assert np.all((np.mean(held, axis=0) >= 0.93) & (np.mean(held, axis=0) <= 0.97)), held


def test_knowing_the_number_of_records_halves_the_noise_of_half_of_the_cells():
    draw = np.random.default_rng(0)
    half = np.arange(20) < 10
    sums = [np.sum(Counts.of(draw.standard_normal(20), 0, 1.0).values[half]) for _ in range(4000)]
    assert np.var(sums) == pytest.approx(5.0, rel=0.1)
    weights = half.astype(float)
    assert Counts.of(np.zeros(20), 0, 1.0).noise(weights, weights) == pytest.approx(5.0)


def test_a_label_that_noise_hides_has_no_recall():
    counts = np.zeros(20)
    counts[0] = 1000.0
    score = score_of_labels(Tally(2), counts, 1000, 50.0**2, SCALE)
    assert dict(score.recall)["yes"] is None
    assert score.auc is None
    assert "hidden by the noise" in "\n".join(score.lines())


def test_a_figure_has_one_interval_and_one_too_wide_to_use_says_so():
    draw, noise = np.random.default_rng(3), 12.0
    few = draw.multinomial(325, population(Tally(2), draw=draw)) + noise * draw.standard_normal(20)
    score = score_of_labels(Tally(2), few, 325, noise**2, SCALE)
    rows = dict(score.rows())
    assert rows["AUC"] == f"{score.auc.low:.3f} to {score.auc.high:.3f}, too wide to use"
    assert "AUC" in rows["too few held-out records for this budget"]
    assert "auc_limits" not in score.to_dict()
    many = population(Tally(2), draw=draw) * 100_000
    score = score_of_labels(Tally(2), many, 100_000, noise**2, SCALE)
    rows = dict(score.rows())
    auc = score.auc
    assert rows["AUC"] == f"{auc.estimate:.3f} ({auc.low:.3f} to {auc.high:.3f})"
    assert not any("too" in text for row in rows.items() for text in row)


@pytest.mark.slow
def test_the_auc_of_the_scores_lies_between_the_limits_of_its_bins_and_the_interval_covers_them():
    draw = np.random.default_rng(0)
    question, size = Tally(2), 100_000
    label = draw.random(size) < 0.3
    score = 1 / (1 + np.exp(-(draw.standard_normal(size) + 1.5 * label - 1)))
    cells = label * 10 + np.minimum((score * 10).astype(int), 9)
    ranks = np.argsort(np.argsort(score)) + 1.0
    positive = int(label.sum())
    area = (ranks[label].sum() - positive * (positive + 1) / 2) / (positive * (size - positive))
    whole = np.bincount(cells, minlength=20)
    exact = score_of_labels(question, whole.astype(float), size, 0.0, SCALE)
    assert exact.auc_limits[0] <= area <= exact.auc_limits[1]
    held = [
        one.auc.low <= area <= one.auc.high
        for one in scores(question, whole / size, 2000, 4.0, seed=2)
    ]
    assert np.mean(held) >= 0.95


def test_the_variance_of_a_limit_of_the_auc_is_that_of_repeated_draws():
    draw = np.random.default_rng(1)
    chances = population(Tally(2), draw=draw)
    label, place = np.indices((2, 10)).reshape(2, -1)
    records, noise, seen, told = 2000, 6.0, [], []
    for _ in range(REPETITIONS):
        counts = draw.multinomial(records, chances) + noise * draw.standard_normal(20)
        interval, (lower, _) = _auc(Counts.of(counts, records, noise**2), label, place)
        seen.append(lower)
        told.append((lower - interval.low) / 1.96)
    assert np.mean(told) == pytest.approx(np.std(seen), rel=0.1)


def wilson(part, whole, z=1.959963984540054):
    share = part / whole
    middle = (share + z**2 / (2 * whole)) / (1 + z**2 / whole)
    half = math.sqrt(share * (1 - share) / whole + z**2 / (4 * whole**2)) * z / (1 + z**2 / whole)
    return middle - half, middle + half


def test_without_noise_the_interval_of_a_share_is_that_of_wilson():
    counts = Counts.of(np.array([30.0, 70.0]), 100, 0.0)
    part = np.array([True, False])
    found = ratio_interval(counts, part, np.ones(2, bool))
    assert (found.low, found.high) == pytest.approx(wilson(30, 100), abs=1e-12)
