"""Huang et al. 2019, Theorem 1: the noise of (14) makes a round (epsilon, delta)-private."""

from __future__ import annotations

import math

from taciturn.kernel.privacy import delta_of, epsilon_of
from taciturn_papers.claims.claim import Claim, Finding, Verdict
from taciturn_papers.claims.huang2019_thm2 import DELTA, PER_ROUND, mu_after

DIMENSIONS = (1, 2, 10, 104, 1_000)
GRID = tuple((e, d) for e in (0.001, 0.01, 0.1, 0.5, 1.0) for d in (0.5, 1e-2, 1e-5, 1e-10))


def entry_epsilon(dimension: int) -> float:
    """Return the exact epsilon if (14) has the bound of one entry for the bound of the whole.

    If one record moves each of d entries by the bound c of one, the whole moves by sqrt(d) c, and
    the noise, of one standard deviation and independent in every entry, has mu = sqrt(d) times that
    of one entry.
    """
    return float(epsilon_of(DELTA, math.sqrt(dimension) * mu_after(1, PER_ROUND, DELTA)))


def slack() -> float:
    """Return the largest exact delta of a round, over the stated one, on `GRID`; at most 1."""
    return max(float(delta_of(e, mu_after(1, e, d))) / d for e, d in GRID)


def decide() -> Finding:
    """Return the finding: what a round spends if the whole is bounded, and if an entry is."""
    worst = slack()
    whole = entry_epsilon(1)
    rows = tuple((float(d), PER_ROUND, whole, entry_epsilon(d)) for d in DIMENSIONS)
    verdict: Verdict = "holds with conditions" if rows[-1][3] > PER_ROUND else "holds"
    return Finding(
        verdict=verdict if worst <= 1 else "does not hold",
        summary=(
            f"With the Euclidean norm of all entries bounded, as in Lemma 1, a round of epsilon "
            f"{PER_ROUND:g} spends {whole:.3g}, in every dimension, and at most {worst:.2g} of "
            f"delta for epsilon in (0, 1]. (17) and (18) bound one entry alone: if that were "
            f"enough, each of 104 entries could move by the bound, and the round would spend "
            f"{entry_epsilon(104):.3g}."
        ),
        columns=(
            "entries d", "epsilon as stated", "exact, norm of all bounded",
            "exact, each entry bounded",
        ),
        rows=rows,
    )  # fmt: skip


CLAIM = Claim(
    id="huang2019/thm1",
    paper="Huang et al. 2019, DP-ADMM, Theorem 1",
    verdict="holds with conditions",
    statement=(
        "If |l'| <= c_1, a round with noise of sigma = 2 c_1 sqrt(2 ln(1.25/delta)) / (m epsilon "
        "(rho + 1/eta)) is (epsilon, delta)-private for epsilon in (0, 1]."
    ),
    reasoning=(
        "The condition: |l'| is the Euclidean norm of all entries of the gradient. The proof sets "
        "the density of the whole matrix equal to that of one entry, (16), and bounds the loss of "
        "that entry, (17) and (18); the loss of independent entries is the sum of theirs. The "
        "noise is the same in every direction, so only the component along the difference counts, "
        "whose size is the Euclidean norm that Lemma 1 bounds: with it in place of the entry, the "
        "lines of the proof are right. A bound on entries, or on the largest of them, is not "
        "enough, whatever their number."
    ),
    decide=decide,
)
