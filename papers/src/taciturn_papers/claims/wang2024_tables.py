"""Wang et al. 2024, Tables IV and V: relative errors of 1e-15 at epsilon 12."""

from __future__ import annotations

from functools import partial

import numpy as np

from taciturn.typing import HostArray
from taciturn_papers.as_published import NoisedStep, dp_recal
from taciturn_papers.claims.claim import Claim, Finding
from taciturn_papers.claims.wang2024_setting import AGENTS, FEATURES, Ring, small_ring, soft

WEIGHT = 0.5
SCALES = (0.0, 0.01, 0.1, 0.5)
ALPHA, DECAY = 0.9, 1.0


def _logistic(subject: Ring, agent: int, point: HostArray) -> HostArray:
    """Return the gradient of mean_j log(1 + exp(-y_j b_j'x))."""
    rows, targets = subject.features[agent] * np.sqrt(FEATURES), subject.targets[agent]
    coefficient = -targets / (1 + np.exp(targets * (rows @ point)))
    answer: HostArray = rows.T @ coefficient / len(rows)
    return answer


def largest_slope(subject: Ring) -> float:
    """Return |grad f(0)|_inf of the logistic problem, at most 1/2 for features in [0, 1]."""
    zero = np.zeros(FEATURES)
    mean = np.mean([_logistic(subject, agent, zero) for agent in range(AGENTS)], axis=0)
    return float(np.max(np.abs(mean)))


def final_norms(subject: Ring, scale: float) -> tuple[float, float]:
    """Return the norms of the last model with that constant noise: with the weights, without."""
    setting = NoisedStep(ALPHA, scale, DECAY)
    weight = AGENTS * WEIGHT
    proxes = (partial(soft, weight, weight), lambda v: v)
    first, second = (
        dp_recal(
            partial(_logistic, subject), prox, subject.walk, FEATURES, setting,
            variant="A", seed=2,
        ).model[-1]
        for prox in proxes
    )  # fmt: skip
    return float(np.linalg.norm(first)), float(np.linalg.norm(second))


def decide() -> Finding:
    """Return the finding: the optimum of the published setting, and what noise does to it."""
    subject = small_ring(balanced=False)
    slope = largest_slope(subject)
    rows = tuple((scale, slope, *final_norms(subject, scale)) for scale in SCALES)
    zero = slope <= WEIGHT and all(row[2] == 0 for row in rows)
    return Finding(
        verdict="vacuous" if zero else "not reproduced",
        summary=(
            "With the published weights (1/2)|x|^2 + (1/2)|x|_1 and features in [0, 1] the optimum "
            f"of every logistic problem is x = 0: |grad f(0)|_inf <= 1/2 (here {slope:.3g}). The "
            f"prox then cuts everything below {AGENTS * WEIGHT:g} to exactly 0: the last model is "
            f"0 at every noise up to {SCALES[-1]:g}, which says nothing about accuracy; without "
            f"the weights the same noise leaves a model of norm {rows[-1][3]:.2g} (noiseless "
            f"{rows[0][3]:.2g}). A linear regression has x = 0 for optimum iff |mean(y b)|_inf <= "
            "1/2."
        ),
        columns=("sigma", "|grad f(0)|_inf", "norm of x, as published", "norm of x, no weights"),
        rows=rows,
    )


CLAIM = Claim(
    id="wang2024/tables4-5",
    paper="Wang et al. 2024, DP-RECAL, Tables IV and V",
    verdict="vacuous",
    statement="At epsilon 12 DP-RECAL has relative errors of about 1e-15.",
    reasoning=(
        "0 minimises f + (1/2)|x|^2 + (1/2)|x|_1 iff |grad f(0)|_inf <= 1/2. For the logistic "
        "loss grad f(0) = -mean(y b)/2, and features in [0, 1] with labels of size 1 make that at "
        "most 1/2 in every coordinate. A soft threshold then returns 0 exactly, whatever noise of "
        "moderate size its argument carries. The paper names neither c nor R: with c as the data "
        "meet it, `taciturn reproduce wang2024` ends at exactly 0 in most cells, and with c as "
        "large as a record allows it does not."
    ),
    decide=decide,
)
