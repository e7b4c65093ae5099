"""Liu et al. 2022, Theorem 2: the privacy of DP-SADMM, under conditions on its own noise."""

from __future__ import annotations

import math

import numpy as np

from taciturn_papers.claims.claim import Claim, Finding

BUDGETS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
DELTA = 5e-4
# Table II: training records and mini-batch
SETTINGS = (
    ("covtype", 290_506, 50),
    ("w8a", 24_875, 20),
    ("bio-train", 72_876, 20),
    ("mushrooms", 4_062, 10),
)


def least_order(epsilon: float, delta: float) -> float:
    """Return 1 + ln(1/delta) / epsilon, below alpha = 1 + ln(1/delta) / ((1 - theta) epsilon)."""
    return 1 + math.log(1 / delta) / epsilon


def largest_order(records: int, batch: int) -> float:
    r"""Return ln(n / (2.5 b)), the most that the second condition lets the first allow.

    With u = 5 a b^2 T / (theta epsilon n^2) >= 1.5 the first condition, a <= ln(theta epsilon n^3 /
    (5 a b^3 T + theta epsilon b n^2)), is a <= ln(n / (b (u + 1))) <= ln(n / (2.5 b)).
    """
    return math.log(records / (2.5 * batch))


def decide() -> Finding:
    """Return the orders that Theorem 2 allows and those that it needs."""
    rows = tuple(
        (float(records), float(batch), largest_order(records, batch), least_order(1.0, DELTA))
        for _, records, batch in SETTINGS
    )
    ever = any(
        least_order(epsilon, DELTA) <= largest_order(records, batch)
        for epsilon in BUDGETS
        for _, records, batch in SETTINGS
    )
    smallest = math.log(1 / DELTA) / (np.max([row[2] for row in rows]) - 1)
    return Finding(
        verdict="holds with conditions" if ever else "vacuous",
        summary=(
            f"Its conditions allow an order alpha of at most {min(r[2] for r in rows):.1f} to "
            f"{max(r[2] for r in rows):.1f} on the four data sets, and delta {DELTA:g} needs one "
            f"of at least {rows[0][3]:.1f} even at epsilon 1: they are never met. The smallest "
            f"epsilon that could meet them is {smallest:.2f}."
        ),
        columns=("records n", "batch b", "largest order allowed", "least order needed, epsilon 1"),
        rows=rows,
    )


CLAIM = Claim(
    id="liu2022/thm2",
    paper="Liu et al. 2022, DP-SADMM, Theorem 2",
    verdict="vacuous",
    statement=(
        "DP-SADMM with sigma^2 = 20 alpha T l^2 / (theta epsilon n^2) is (epsilon, delta)-"
        "differentially private if alpha <= ln(theta epsilon n^3 / (5 alpha b^3 T + theta epsilon "
        "b n^2)) and 5 alpha b^2 T / (theta epsilon n^2) >= 1.5."
    ),
    reasoning=(
        "The second condition bounds the denominator of the first from below, so that alpha <= "
        "ln(n / (2.5 b)) whatever T and theta are; alpha = 1 + ln(1/delta) / ((1 - theta) epsilon) "
        "is larger at every budget of the experiments. The method itself is private at the value "
        "of the numerical accountant, which needs no such condition."
    ),
    decide=decide,
)
