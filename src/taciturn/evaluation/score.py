r"""The figures of a private evaluation, with their intervals, from noised counts or sums.

Every figure of labels comes from one joint count of label, prediction and bin of the score.

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

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from taciturn.evaluation.intervals import (
    LEVEL,
    QUANTILE,
    Counts,
    Interval,
    mean_interval,
    ratio_interval,
)
from taciturn.oracles import Tally
from taciturn.typing import HostArray

MOST_NAMED = 12  # classes whose recall is written out
_FEWEST = 3  # of either class, in standard deviations of the noise, for an AUC


class Scale(NamedTuple):
    """The units of a score: class labels, None for numbers, or half the target's range.

    `probabilities` says whether scores are log-odds (`taciturn.problems.ClippedLoss.log_odds`).
    """

    labels: tuple[str, ...] | None
    probabilities: bool
    unit: float


@dataclass(frozen=True)
class Bin:
    """Records whose predicted probability lies in [low, high].

    `share` of them belong to the second of two classes, or are recognised, of several classes; None
    where noise hides whether there are any.
    """

    low: float
    high: float
    share: Interval | None


@dataclass(frozen=True)
class PrivateScore:
    r"""How good a model is, by noised counts of records that were held out.

    Every interval is of the figure for the population that the records are a sample of, at the
    confidence level 95 %, one figure at a time (`taciturn.evaluation.intervals`).

    Attributes
    ----------
    records
        n, how many records, or persons, were held out.
    noise
        Standard deviation of the noise of one number of the sum of all agents' answers.
    error
        The fraction of wrong labels.
    baseline, baseline_error
        The commonest label by the noised counts, and the error of always answering it.
    confusion
        Records by label (rows) and prediction (columns); noised, so some may be negative.
    calibration
        By bin of the predicted probability; None for scores that are no log-odds.
    auc, auc_limits
        Of two classes: the middle of the limits with an interval that covers both, and the limits
        themselves, between which the AUC of the scores lies that are known by their bin only.
    absolute, root_square
        Of numbers, in the user's units: the mean absolute error and the root of the mean squared
        error, errors above half the range counted as half the range.
    unit
        "person" where persons were held out: each counts once, with the mean over its rows.

    Notes
    -----
    **Guarantee.** Post-processing of one noised answer, which is in the certificate.
    """

    records: int
    noise: float
    error: Interval | None = None
    baseline: str | None = None
    baseline_error: Interval | None = None
    recall: tuple[tuple[str, Interval | None], ...] | None = None
    confusion: tuple[tuple[float, ...], ...] | None = None
    calibration: tuple[Bin, ...] | None = None
    auc: Interval | None = None
    auc_limits: tuple[float, float] | None = None
    absolute: Interval | None = None
    root_square: Interval | None = None
    unit: Literal["record", "person"] = "record"

    @property
    def head(self) -> str:
        """What the figures are, as a sentence."""
        each = ", each counting once" if self.unit == "person" else ""
        return (
            f"Private score, of {self.records:,} {self.unit}s held out{each} (in brackets "
            f"{LEVEL:.0%} intervals, for noise and sample; each holds for one figure by itself, "
            f"among the {self.unit}s that those held out are a sample of):"
        )

    def rows(self) -> list[tuple[str, str]]:
        """Return the figures as names and texts, the most important first."""
        if self.absolute is not None and self.root_square is not None:
            return [
                ("mean absolute error", _number(self.absolute)),
                ("root-mean-square error", _number(self.root_square)),
            ]
        found = [("error", percent(self.error))]
        found.append((f"always answering {self.baseline!r}", percent(self.baseline_error)))
        if self.auc is not None and self.auc_limits is not None:
            low, high = self.auc_limits
            between = f"{low:.3f} to {high:.3f} by its bins"
            found.append(("AUC", f"{between} ({self.auc.low:.3f} to {self.auc.high:.3f})"))
        recalls = sorted(self.recall or (), key=_least_first)[:MOST_NAMED]
        return found + [(f"recall of {label!r}", percent(share)) for label, share in recalls]

    def lines(self) -> list[str]:
        """Return the figures as sentences."""
        return [self.head, *(f"  {name}: {text}" for name, text in self.rows())]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-safe values, with the sentences."""
        values = dataclasses.asdict(self)
        values["recall"] = None if self.recall is None else dict(values["recall"])
        return {**values, "level": LEVEL, "statement": self.lines()}


def percent(share: Interval | None) -> str:
    """Return a share with its interval, in per cent."""
    if share is None:
        return "hidden by the noise"
    return f"{share.estimate:.2%} ({share.low:.2%} to {share.high:.2%})"


def _number(value: Interval) -> str:
    return f"{value.estimate:.4g} ({value.low:.4g} to {value.high:.4g})"


def _least_first(entry: tuple[str, Interval | None]) -> float:
    return 2.0 if entry[1] is None else entry[1].estimate


def score_of_labels(
    question: Tally, totals: Float[HostArray, " d"], records: int, variance: float, scale: Scale
) -> PrivateScore:
    """Return the score from the counts of a `Tally`, each with noise of that variance."""
    names = scale.labels
    assert names is not None
    counts = Counts.of(totals, records, variance)
    label, guess, place = tally_axes(question)
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


def tally_axes(question: Tally) -> tuple[HostArray, HostArray, HostArray]:
    """Return label, prediction and bin of every cell of the counts."""
    where = np.indices(question.shape).reshape(len(question.shape), -1)
    if question.classes == 2:
        label, place = where
        return label, (place >= question.bins // 2).astype(int), place
    label, guess, place = where
    return label, guess, place


def _calibration(question: Tally, counts: Counts) -> tuple[Bin, ...]:
    label, guess, place = tally_axes(question)
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
    """Return the AUC with pairs in one bin counted `ties`, and its derivatives by the counts."""
    whole, others = float(np.sum(second)), float(np.sum(first))
    below = np.cumsum(first) - first + ties * first
    above = np.cumsum(second[::-1])[::-1] - second + ties * second
    area = float(second @ below) / (whole * others)
    return area, (below / others - area) / whole, (above / whole - area) / others


def score_of_numbers(
    totals: Float[HostArray, "3"], records: int, variance: float, unit: float
) -> PrivateScore:
    """Return the score from the sums of `ClippedErrors`, each with noise of that variance.

    `unit` is half the range of the target.
    """
    first, second, fourth = (float(total) for total in totals)
    absolute = mean_interval(first, second, records, variance)
    squared = mean_interval(second, fourth, records, variance)
    return PrivateScore(
        records=records,
        noise=math.sqrt(variance),
        absolute=absolute.scaled(unit),
        root_square=squared.root.scaled(unit),
    )
