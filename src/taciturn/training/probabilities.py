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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

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
