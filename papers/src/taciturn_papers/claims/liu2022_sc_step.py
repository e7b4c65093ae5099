"""Liu et al. 2022: the step size of the strongly convex DP-SADMM, as printed."""

from __future__ import annotations

import math

from taciturn_papers.claims.claim import Claim, Finding
from taciturn_papers.reproductions.liu2022.settings import TABLE_II

# Table II: training records
RECORDS = {"covtype": 290_506, "w8a": 24_875, "bio-train": 72_876, "mushrooms": 4_062}
EPOCHS = 3  # of 2 n / b steps; the paper gives no number
STRENGTHS, PENALTIES = (0.0, 2.0), (0.1, 1.0)


def step(t: int, *, ridge: float, strength: float, penalty: float) -> float:
    """Return the eta that solves eta = 2 gamma |Q| / (mu t), gamma = 1 + eta penalty.

    With c = 2 |Q| / (mu t) that is eta = c / (1 - c penalty), negative while c penalty > 1.

    Parameters
    ----------
    t
        t + 1 of the paper, from 1.
    penalty
        rho |A'A|.
    """
    c = 2 * (1 + 4 * strength) / (ridge * t)
    return c / (1 - c * penalty) if c * penalty != 1 else -math.inf


def first_positive(ridge: float, strength: float, penalty: float) -> int:
    """Return the first t with a positive step; from there on all are."""
    low, high = 0, 1
    while step(high, ridge=ridge, strength=strength, penalty=penalty) <= 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        positive = step(middle, ridge=ridge, strength=strength, penalty=penalty) > 0
        low, high = (low, middle) if positive else (middle, high)
    return high


def decide() -> Finding:
    """Return the first round with a positive step on the data sets of Table II."""
    rows = tuple(
        (
            float(RECORDS[name]), ridge, strength, penalty,
            float(first_positive(ridge, strength, penalty)),
            float(EPOCHS * (2 * RECORDS[name] // batch)),
        )
        for name, (batch, _, ridge) in TABLE_II.items()
        for strength in STRENGTHS
        for penalty in PENALTIES
    )  # fmt: skip
    first, never = min(row[4] for row in rows), sum(row[4] > row[5] for row in rows)
    return Finding(
        verdict="does not hold" if first > 1 else "holds",
        summary=(
            "With gamma = 1 + eta rho |A'A| the rule is an equation for eta, and its solution is "
            f"negative for t < 2 |Q_v| rho |A'A| / mu: at the lambda_2 of Table II for at least "
            f"{first - 1:,.0f} rounds, and at {never} of {len(rows)} settings for all {EPOCHS} "
            "epochs. Under the other reading, gamma = 1 (Section V-B), the step is positive, and "
            f"at first {step(1, ridge=1e-5, strength=0.0, penalty=0.0):,.0f} long, while Lemma 5 "
            "needs one below 1 / g."
        ),
        columns=("records n", "lambda_2", "v", "rho |A'A|", "first round with a positive step",
                 "rounds in three epochs"),
        rows=rows,
    )  # fmt: skip


CLAIM = Claim(
    id="liu2022/sc-step",
    paper="Liu et al. 2022, DP-SADMM for strongly convex objectives, Theorem 6",
    verdict="does not hold",
    statement=(
        "The rule eta_t = 2 gamma |Q_v| / (mu (t + 1)), gamma = 1 + eta_t rho |A'A|, gives a step "
        "size in every round."
    ),
    reasoning=(
        "gamma contains eta. Solved for it, eta = c / (1 - c rho |A'A|) with c = 2 |Q_v| / (mu "
        "(t + 1)), which is positive only once t + 1 > 2 |Q_v| rho |A'A| / mu. If the factor "
        "gamma is left out, eta = c and the method moves by eta / gamma < 1 / (rho |A'A|)."
    ),
    decide=decide,
)
