"""Ryu & Kim 2023, Theorem 4.6: the total privacy of T rounds with E updates each."""

from __future__ import annotations

import math

from scipy.optimize import brentq

from taciturn.kernel.privacy import delta_of
from taciturn_papers.claims.claim import Claim, Finding, Verdict
from taciturn_papers.claims.huang2019_thm2 import claimed_constant, exact_epsilon, mu_after

DELTA = 1e-6
ANSWERS = (5_000, 25_000, 50_000)  # T = 5,000 and E = 1, 5, 10: the paper's experiments
PER_UPDATE = (0.05, 0.1, 0.5, 1.0)


def claimed_epsilon(answers: float, epsilon: float, delta: float) -> float:
    """Return sqrt(T E ln(1/delta) / ln(1.25/delta)) epsilon, the total that is claimed."""
    return math.sqrt(answers) * claimed_constant(delta) * epsilon


def largest_per_update(answers: float, delta: float) -> float:
    """Return the largest epsilon of one update for which the claimed total is enough."""

    def excess(epsilon: float) -> float:
        claimed = claimed_epsilon(answers, epsilon, delta)
        return exact_epsilon(answers, epsilon, delta) - claimed

    return float(brentq(excess, 1e-3 / math.sqrt(answers), 1.0))


def decide() -> Finding:
    """Return the finding: claimed and exact totals, and the delta at the claimed total."""
    rows = tuple(_row(answers, epsilon) for answers in ANSWERS for epsilon in PER_UPDATE)
    verdict: Verdict = "holds" if all(row[3] <= row[2] for row in rows) else "does not hold"
    worst = next(row for row in rows if row[1] == 1.0)
    limits = ", ".join(f"{largest_per_update(n, DELTA):.4f} for {n:,} updates" for n in ANSWERS)
    return Finding(
        verdict=verdict,
        summary=(
            f"At delta {DELTA:g} the claimed total is enough only while the epsilon of one update "
            f"is at most {limits}. It fails above, within the theorem's range epsilon <= 1 and in "
            f"the paper's experiments: for {int(worst[0]):,} updates with epsilon 1 it says "
            f"{worst[2]:.1f}, the exact total is {worst[3]:.1f}, and at the claimed epsilon delta "
            f"is {worst[4]:.4f}."
        ),
        columns=("updates TE", "epsilon of one", "claimed total", "exact total", "true delta"),
        rows=rows,
    )


def _row(answers: int, epsilon: float) -> tuple[float, ...]:
    claimed = claimed_epsilon(answers, epsilon, DELTA)
    exact = exact_epsilon(answers, epsilon, DELTA)
    missing = float(delta_of(claimed, mu_after(answers, epsilon, DELTA)))
    return float(answers), epsilon, claimed, exact, missing


CLAIM = Claim(
    id="ryu2023/thm4.6",
    paper="Ryu & Kim 2023, Differentially private distributed convex optimization, Theorem 4.6",
    verdict="does not hold",
    statement=(
        "If one update of (4.3) is (epsilon, delta)-differentially private with the noise of "
        "Theorem 4.4, the T E updates of Algorithm 3.1 are "
        "(sqrt(T E ln(1/delta) / ln(1.25/delta)) epsilon, delta)-differentially private."
    ),
    reasoning=(
        "The map from noise to output of (4.3) is one to one, so an output tells as much as the "
        "noised gradient. With a loss that is linear in the model one pair of data sets attains "
        "(4.9) at every update, whatever the iterate, so that T E updates compose exactly to mu = "
        "sqrt(T E) epsilon / sqrt(2 ln(1.25/delta)): the exact total is then the truth and not "
        "only a bound. The proof turns ln(delta) >= -e^2 ln(1.25/delta) / (T E epsilon^2) into a "
        "bound on e from below, where one from above is needed, and (4.12e) assumes that e is "
        "large in the first place. With exact projection (3.2) instead of (4.3), outputs on the "
        "boundary tell less; that is another algorithm than the theorem's."
    ),
    decide=decide,
)
