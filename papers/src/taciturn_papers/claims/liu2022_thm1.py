"""Liu et al. 2022, Theorem 1: the privacy of DP-VRADMM, with unspecified constants."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from taciturn.calibration import mu_of
from taciturn.problems import soft_threshold
from taciturn_papers.claims.claim import Claim, Finding

BUDGETS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
DELTA = 5e-4
FEATURES, RHO, WEIGHT = 8, 1.0, 1e-4


def needed_without_sampling(epsilon: float) -> float:
    """Return the c_2 at which the snapshot part of (6) alone spends the budget.

    Each of the S m answers holds the full gradient at the anchor, which one replaced record moves
    by 2 l / n at least: mu^2 = S m (2 l / n)^2 / sigma^2 with sigma^2 = c_2 l^2 S m ln(1/delta) /
    (n epsilon)^2, that is c_2 = 4 epsilon^2 / (mu^2 ln(1/delta)), whatever S, m, l and n are.
    """
    return 4 * (epsilon / float(mu_of(epsilon, DELTA))) ** 2 / math.log(1 / DELTA)


def recovered_gap(seed: int) -> float:
    """Return the relative error of the gradient recovered from a restart.

    The restart sets lambda = -(A')^+ grad f / beta without noise; then an observer of x_0 and of
    y_1 = soft(A x_0 + lambda, w / beta) can compute lambda where y_1 is not 0. Here A = I.
    """
    draw = np.random.default_rng(seed)
    gradient, start = draw.standard_normal(FEATURES), draw.standard_normal(FEATURES)
    dual = -gradient / RHO
    y = np.asarray(soft_threshold(jnp.asarray(start + dual), WEIGHT / RHO))
    seen = y != 0
    read = -RHO * (y + np.sign(y) * WEIGHT / RHO - start)
    return float(np.max(np.abs(read - gradient)[seen]) / np.max(np.abs(gradient)))


def decide() -> Finding:
    """Return the constants needed, and what the restart without noise reveals."""
    gap = max(recovered_gap(seed) for seed in range(10))
    rows = tuple(
        (epsilon, float(mu_of(epsilon, DELTA)), needed_without_sampling(epsilon))
        for epsilon in BUDGETS
    )
    return Finding(
        verdict="does not hold" if gap < 1e-9 else "not reproduced",
        summary=(
            "Decided under one reading, the strongly convex form: its restart uses the gradient "
            "without noise, and an observer "
            f"of the iterates recovers it to a relative {gap:.1e} on the support of y, so no c_2 "
            "makes the published algorithm private: epsilon is infinite. "
            "Under the other, the general convex form without restarts, a constant exists, but it "
            "is not given, and nothing is decided (Algorithm 1 calls it c_1, the theorem c_2): the "
            f"snapshot inside every answer alone needs c_2 >= {rows[0][2]:.2f} at epsilon "
            f"{rows[0][0]:g} and {rows[-1][2]:.2f} at epsilon {rows[-1][0]:g} (delta {DELTA:g})."
        ),
        columns=("epsilon", "mu", "c_2 needed by the snapshot part"),
        rows=rows,
    )


CLAIM = Claim(
    id="liu2022/thm1",
    paper="Liu et al. 2022, DP-VRADMM, Theorem 1",
    verdict="does not hold",
    statement=(
        "For epsilon <= c_1 S m / n^2, DP-VRADMM with sigma^2 = c_2 l^2 S m ln(1/delta) / "
        "(n^2 epsilon^2) is (epsilon, delta)-differentially private, for constants c_1 and c_2."
    ),
    reasoning=(
        "The noise protects the sum (6), and sampling does not hide a record in its snapshot part. "
        "The dual restart of Algorithm 1 (steps 12 and Initialize) uses the full gradient "
        "itself, without noise. If it is asked once with noise, and used for both control variate "
        "and restart, it is private and costs one answer per epoch."
    ),
    decide=decide,
)
