r"""The private score of a model of labels: every figure from one joint count.

**The AUC.** It is the chance that a record of the second class has a higher score than one of the
first, equal scores counting one half. With p_i records of the second class and q_i of the first in
bin i, of P and Q in all, pairs in different bins are decided, and those in one bin may all be
either way round, so that the AUC of these records lies between

    L = sum_i p_i sum_{j < i} q_j / (P Q),        L + sum_i p_i q_i / (P Q).

Both are smooth functions of the counts x. With g the gradient at their estimate, noise gives either
the variance v (|g|^2 - (sum g)^2 / d), and the sample, whose counts are multinomial, the variance
sum_k x_k g_k^2 (sum_k x_k g_k is 0, for neither changes with the number of records). The interval
reaches from the lower limit less z standard deviations to the upper one and z more: it covers the
AUC of the scores at least at its level.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float

from taciturn.evaluation.intervals import QUANTILE, Counts, Interval, ratio_interval
from taciturn.evaluation.score import Bin, PrivateScore, Scale
from taciturn.oracles import Tally
from taciturn.typing import HostArray

_FEWEST = 3  # of either class, in standard deviations of the noise, for an AUC


def score_of_labels(
    question: Tally,
    totals: Float[HostArray, " d"],
    records: int,
    variance: float,
    scale: Scale,
) -> PrivateScore:
    """Return the score from noised counts of label, prediction and bin (`taciturn.oracles.Tally`).

    Parameters
    ----------
    variance
        Of the noise of each count.
    scale
        With the labels.
    """
    names = scale.labels
    assert names is not None
    counts = Counts.of(totals, records, variance)
    label, guess, place = _axes(question)
    every, classes = np.ones(len(label), bool), range(len(names))
    sizes = [float(np.sum(counts.values[label == k])) for k in range(len(names))]
    commonest = int(np.argmax(sizes))
    auc = _auc(counts, label, place) if question.classes == 2 else None
    return PrivateScore(
        records=records,
        noise=math.sqrt(variance),
        error=ratio_interval(counts, label != guess, every),
        baseline=names[commonest],
        baseline_error=ratio_interval(counts, label != commonest, every),
        recall=tuple(
            (name, ratio_interval(counts, (label == k) & (guess == k), label == k))
            for k, name in enumerate(names)
        ),
        confusion=tuple(
            tuple(float(np.sum(counts.values[(label == k) & (guess == j)])) for j in classes)
            for k in classes
        ),
        calibration=_calibration(question, counts) if scale.probabilities else None,
        auc=None if auc is None else auc[0],
        auc_limits=None if auc is None else auc[1],
    )


def _axes(question: Tally) -> tuple[HostArray, HostArray, HostArray]:
    """Return label, prediction and bin of every cell."""
    where = np.indices(question.shape).reshape(len(question.shape), -1)
    if question.classes == 2:
        label, place = where
        return label, (place >= question.bins // 2).astype(int), place
    label, guess, place = where
    return label, guess, place


def _calibration(question: Tally, counts: Counts) -> tuple[Bin, ...]:
    label, guess, place = _axes(question)
    least = 0.0 if question.classes == 2 else 1 / question.classes
    right = label == 1 if question.classes == 2 else label == guess
    ends = least + (1 - least) * np.arange(question.bins + 1) / question.bins

    def observed(here: Bool[HostArray, " d"]) -> Interval | None:
        return ratio_interval(counts, right & here, here)

    return tuple(
        Bin(float(ends[k]), float(ends[k + 1]), observed(place == k)) for k in range(question.bins)
    )


def _auc(
    counts: Counts, label: HostArray, place: HostArray
) -> tuple[Interval, tuple[float, float]] | None:
    """Return the AUC with its limits; None where noise hides that there are both classes."""
    second, first = counts.values[label == 1], counts.values[label == 0]
    of_label = (label == 1).astype(np.float64)
    fewest = _FEWEST * math.sqrt(counts.noise(of_label, of_label))
    if min(float(np.sum(second)), float(np.sum(first))) <= max(fewest, 0.0):
        return None
    ends = []
    for ties, side in ((0.0, -1), (1.0, 1)):
        area, of_second, of_first = _area(second, first, ties)
        gradient = np.where(label == 1, of_second[place], of_first[place])
        sample = float(np.sum(np.maximum(counts.values, 0) * gradient**2))
        spread = math.sqrt(counts.noise(gradient, gradient) + sample)
        ends.append((min(max(area, 0.0), 1.0), area + side * QUANTILE * spread))
    (lower, low), (upper, high) = ends
    upper = max(lower, upper)
    middle = (lower + upper) / 2
    interval = Interval(middle, min(max(low, 0.0), lower), max(min(high, 1.0), upper))
    return interval, (lower, upper)


def _area(
    second: Float[HostArray, " B"], first: Float[HostArray, " B"], ties: float
) -> tuple[float, HostArray, HostArray]:
    """Return a limit of the AUC, and its derivatives by the counts of either class.

    Parameters
    ----------
    ties
        How much a pair in one bin counts.
    """
    whole, others = float(np.sum(second)), float(np.sum(first))
    below = np.cumsum(first) - first + ties * first
    above = np.cumsum(second[::-1])[::-1] - second + ties * second
    area = float(second @ below) / (whole * others)
    return area, (below / others - area) / whole, (above / whole - area) / others
