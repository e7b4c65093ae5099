r"""Scores of predicted probabilities: the Brier score and the calibration error.

Let p_jk be the probability that a model gives record j for class k, and y_j its class.

**The Brier score** is the mean over n records of sum_k (p_jk - [y_j = k])^2 for K > 2 classes; of
two classes it is half of that, the mean of (p_j - [y_j = 1])^2 with p_j for the second (Brier 1950;
as `brier_score_loss` in scikit-learn). It is least at the true probabilities.

**The calibration error** (expected calibration error; Naeini, Cooper and Hauskrecht 2015) divides
[0, 1] into B bins of equal width. With q_j the probability of the second of two classes and h_j
whether it is the record's, or of K with q_j the largest probability and h_j whether the prediction
is right,

.. math:: \frac1n \sum_{b=1}^{B} \Big| \sum_{j: q_j \in b} (q_j - h_j) \Big|.

It never vanishes on finitely many records: of a model whose probabilities are true the sum of a bin
has mean 0 and variance V_b = sum q_j (1 - q_j), so by the normal law the error is
sqrt(2 / pi) sum_b sqrt(V_b) / n on average, which is stated beside it as *chance*.

**From noised sums** (`Sums`) over the cells of a `Tally` with offsets. In a cell q - h = m + t d, m
its middle and d its width, so sum (q - h) = m x + d T is linear in the count x and the sum T of
offsets. The Brier score is the sum over cells of a x, a the least squared error in the cell, plus
what exceeds that, which the answer sums over all cells. A convex function f of t lies below its
chord, f(-1/2) (1/2 - t) + f(1/2) (1/2 + t), which bounds sums of (q - h)^2 and (q - h)^4 by sums
that are linear in x and T: the sampling variances are taken from these. (Of several classes that of
the Brier score is taken from the bound b^2 <= b on its half b, so its interval exceeds its level.)

Let X_b be the noised sum of bin b over n, D_b its mean in the population, and tau_b^2 its variance
due to noise, plus (in place of that due to sampling) the mean of (q - h)^2 in b over n. The known
total of the counts and the multinomial law only add negative correlation, so the covariance of X is
at most diag(tau^2). For the calibration error D = sum_b |D_b| and its noised form S = sum_b |X_b|,
with Gaussian X and T^2 = sum_b tau_b^2:

- Upper end S + z T: with e_b the sign of D_b, S >= sum e_b X_b, which has mean D and variance at
  most T^2.
- Lower end S - sqrt(2 / pi) sum_b tau_b - z T: S <= D + sum_b |X_b - D_b|. The sum is a convex
  function of Gaussian noise with Lipschitz constant at most T, so it exceeds its median by z T with
  probability at most Phi(-z), and its median is at most its mean (Kwapien 1994).

Each end fails with probability at most 2.5 %. If the lower end is 0, noise and sampling explain the
whole of S, and the upper end alone is stated. The estimate is sum_b sqrt(max(X_b^2 - v_b, 0)), v_b
the variance due to noise: X_b^2 - v_b has mean D_b^2 on these records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from taciturn.kernel.questions import Tally
from taciturn.training.intervals import QUANTILE, Counts, Interval, mean_interval
from taciturn.typing import HostArray

BINS = 15  # of the calibration error on test records


@dataclass(frozen=True)
class ProbabilityScores:
    """Scores of the probabilities of one model on test records, as the module defines them.

    - `brier`, `baseline_brier`: Of the model, and of always predicting these records' shares of the
      classes.
    - `calibration_error`, `calibration_chance`: With `bins` bins; and its mean if the probabilities
      were true.
    """

    brier: float
    baseline_brier: float
    calibration_error: float
    calibration_chance: float
    bins: int = BINS

    def lines(self) -> list[str]:
        """Return the scores as sentences."""
        return [
            f"Brier score {self.brier:.4f}; always predicting the shares of the labels: "
            f"{self.baseline_brier:.4f}",
            f"Calibration error {self.calibration_error:.2%} ({self.bins} bins); chance, were the "
            f"probabilities true: {self.calibration_chance:.2%}",
        ]


def score_probabilities(
    likely: Float[HostArray, "N K"], codes: Int[HostArray, "N"]
) -> ProbabilityScores:
    """Return the scores of the probabilities of each record's classes 0 to K - 1."""
    records, classes = likely.shape
    shares = np.bincount(codes, minlength=classes) / records
    scale = 0.5 if classes == 2 else 1.0
    brier = scale * float(np.mean(np.sum((likely - np.eye(classes)[codes]) ** 2, axis=1)))
    if classes == 2:
        judged, hits = likely[:, 1], codes == 1
    else:
        judged, hits = likely.max(axis=1), codes == likely.argmax(axis=1)
    place = np.minimum((judged * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, judged - hits, minlength=BINS)
    spreads = np.sqrt(np.bincount(place, judged * (1 - judged), minlength=BINS))
    return ProbabilityScores(
        brier=brier,
        baseline_brier=scale * (1 - float(shares @ shares)),
        calibration_error=float(np.sum(np.abs(gaps))) / records,
        calibration_chance=math.sqrt(2 / math.pi) * float(np.sum(spreads)) / records,
    )


@dataclass(frozen=True)
class Sums:
    """Noised sums over the cells of a `Tally` with offsets, in all `units` records or persons.

    `counts`: of the cells, adjusted to their total; `offsets`: of t by cell, and `rest`: of r, both
    divided by the weight s of the question, so that with noise of variance v in an entry of the
    answer theirs has variance v / s^2.
    """

    question: Tally
    counts: Counts
    offsets: Float[HostArray, " d"]
    rest: float

    @classmethod
    def of(cls, question: Tally, totals: Float[HostArray, "S"], counts: Counts) -> Sums:
        """Return the sums in the answer to a question with offsets."""
        cells, weight = len(counts.values), question.offsets
        assert weight is not None
        return cls(question, counts, totals[cells:-1] / weight, float(totals[-1]) / weight)

    @property
    def variance(self) -> float:
        """The noise variance of one sum of offsets."""
        assert self.question.offsets is not None
        return self.counts.variance / self.question.offsets**2

    def gaps(self) -> tuple[HostArray, HostArray]:
        """Return q - h at the lower and at the upper end of every cell."""
        label, guess, place = self.question.axes()
        hits = label if self.question.classes == 2 else label == guess
        ends = self.question.ends()
        return ends[place] - hits, ends[place + 1] - hits

    def chord(self, power: int) -> HostArray:
        """Return an upper bound on the sum by cell of an even power of q - h: that of its chord."""
        low, high = (gap**power for gap in self.gaps())
        bounds: HostArray = self.counts.values * (low + high) / 2 + self.offsets * (high - low)
        return bounds

    def brier(self) -> Interval:
        """Return the Brier score."""
        least, most = self.question.squares()
        widest = float(np.max(most - least))
        total = float(least @ self.counts.values) + widest * self.rest
        noise = self.counts.noise(least, least) + widest**2 * self.variance
        two = self.question.classes == 2
        # half the score of several classes is in [0, 1], so its square is no larger
        square = float(np.sum(self.chord(4))) if two else total
        half = mean_interval(total, square, self.counts.total, noise)
        return half if two else half.mapped(lambda mean: 2 * mean)

    def calibration_error(self) -> Interval:
        """Return the calibration error over the bins of the question."""
        (low, high), (_, _, place) = self.gaps(), self.question.axes()
        middle, width = (low + high) / 2, high - low
        here = place == np.arange(self.question.bins)[:, None]
        found = here @ (middle * self.counts.values + width * self.offsets)
        noise = here @ (self.counts.variance * middle**2 + self.variance * width**2)
        spread = np.sqrt(noise + np.maximum(here @ self.chord(2), 0))
        size, reach = np.sum(np.abs(found)), QUANTILE * math.sqrt(float(spread @ spread))
        upper = min(float(size + reach) / self.counts.total, 1.0)
        bias = math.sqrt(2 / math.pi) * float(np.sum(spread))
        lower = max(float(size - bias - reach) / self.counts.total, 0.0)
        unbiased = float(np.sum(np.sqrt(np.maximum(found**2 - noise, 0)))) / self.counts.total
        return Interval(min(max(unbiased, lower), upper), lower, upper)
