"""Wang et al. 2024, Theorem 4: DP-RECAL is (epsilon, delta)-differentially private."""

from __future__ import annotations

from functools import partial
from typing import get_args

import numpy as np

from taciturn.typing import HostArray
from taciturn_papers.as_published import (
    NoisedStep,
    Variant,
    claimed_epsilon,
    dp_recal,
    recover,
    unprox_elastic,
    unprox_none,
)
from taciturn_papers.claims.claim import Claim, Finding
from taciturn_papers.claims.wang2024_setting import AGENTS, FEATURES, Ring, small_ring, soft

SCALES = (0.01, 1.0, 100.0)
DELTA = 1e-3
ALPHA, DECAY = 0.9, 1.02
RIDGE, LASSO = 0.01, 0.01
EXACT = 1e-9


def decide() -> Finding:
    """Return the finding: how exactly the links give the gradients away, for every reading."""
    smooth, sparse = small_ring(), small_ring(balanced=False)
    rows = tuple(
        _row(smooth, sparse, scale, variant) for scale in SCALES for variant in get_args(Variant)
    )
    worst = max(row[4] for row in rows)
    broken = worst <= EXACT and all(row[3] == AGENTS for row in rows)
    return Finding(
        verdict="does not hold" if broken else "not reproduced",
        summary=(
            f"Without a regulariser the links alone give the gradients of all {AGENTS} agents, to "
            f"a relative error of at most {worst:.1g}, whatever the noise (claimed epsilon "
            f"{rows[-1][2]:.2g} to {rows[0][2]:.2g} at delta {DELTA:g}). With l1 and an optimum "
            "other than 0 they give differences of gradients on the support, to "
            f"{max(row[5] for row in rows):.1g}. The true epsilon is infinite."
        ),
        columns=(
            "sigma_1", "variant (1 A, 2 B, 3 C)", "claimed epsilon", "agents recovered",
            "worst relative error", "the same, l1, differences",
        ),
        rows=rows,
    )  # fmt: skip


def _row(smooth: Ring, sparse: Ring, scale: float, variant: Variant) -> tuple[float, ...]:
    setting = NoisedStep(ALPHA, scale, DECAY)
    plf = smooth.walk.privacy_leakage_frequency
    recovered, error = attack_smooth(smooth, setting, variant)
    return (
        scale,
        float(get_args(Variant).index(variant) + 1),
        # Assumption 3's c, for models of norm at most 1
        claimed_epsilon(setting, 2.0, AGENTS, plf, DELTA),
        float(recovered),
        error,
        attack_sparse(sparse, setting, variant),
    )


def attack_smooth(subject: Ring, setting: NoisedStep, variant: Variant) -> tuple[int, float]:
    """Return how many agents' gradients are recovered to `EXACT`, and the worst relative error."""
    walk = subject.walk
    links = dp_recal(
        subject.gradient, lambda v: v, walk, FEATURES, setting, variant=variant, seed=1
    )
    found = recover(links, walk, setting.steps(walk), unprox_none).gradients
    errors = [
        _relative(found[hops[:-1]], links.gradients[hops[:-1]])
        for hops in (np.flatnonzero(walk.holders == agent) for agent in range(AGENTS))
    ]
    return sum(error <= EXACT for error in errors), max(errors)


def attack_sparse(subject: Ring, setting: NoisedStep, variant: Variant) -> float:
    """Return the worst relative error of recovered differences, where the links determine them."""
    walk = subject.walk
    ridge, lasso = AGENTS * RIDGE, AGENTS * LASSO
    links = dp_recal(
        subject.gradient, partial(soft, ridge, lasso), walk, FEATURES, setting,
        variant=variant, seed=1,
    )  # fmt: skip
    found = recover(links, walk, setting.steps(walk), unprox_elastic(ridge, lasso)).differences
    truth = np.full_like(found, np.nan)
    for agent in range(AGENTS):
        hops = np.flatnonzero(walk.holders == agent)
        truth[hops[1:]] = np.diff(links.gradients[hops], axis=0)
    known = np.isfinite(found)
    return _relative(found[known], truth[known]) if known.any() else np.inf


def _relative(found: HostArray, truth: HostArray) -> float:
    return float(np.max(np.abs(found - truth)) / np.max(np.abs(truth)))


CLAIM = Claim(
    id="wang2024/thm4",
    paper="Wang et al. 2024, DP-RECAL, Theorem 4",
    verdict="does not hold",
    statement=(
        "Algorithm 1 is (epsilon, delta)-differentially private, epsilon = rho + 2 sqrt(rho "
        "ln(1/delta)), rho = rho_1 (R^PLF - 1)/(R - 1), rho_1 = 8 alpha^2 beta^2 c^2 / sigma_1^2."
    ),
    reasoning=(
        "Noise is added to u, while y_i and lambda_i stay un-noised and x is sent as it is. From "
        "what arrives at and leaves an agent, x^{k+1} = x^k - u~^k - beta (x^k - y_i^k) gives "
        "y_i^k whatever the noise; with lambda_i = 0 at first, two consecutive activations give "
        "the gradient. The proof bounds one step of u at equal y_i and lambda_i, not the joint "
        "law of what is sent. The sound form asks for a noised gradient: taciturn.algorithms.RECAL."
    ),
    decide=decide,
)
