"""Theorems 3 and 4 of Huang et al. 2019 as numbers: bounds on the error of DP-ADMM."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ConsensusFacts:
    """What (32) and (37) are made of, in the paper's units: sums over agents.

    After t rounds both bound the expectation of

        sum_i (f_i(wbar_i) - f_i(w*) + beta |wbar_i - wbar|),

    wbar_i and wbar the means of an agent's noised iterates and of the public values.

    *Derivation.* Lemma 2 (or 3), summed over the rounds with w_i = w* and 0 as start, has on its
    right sum_k (|w* - w_i^{k-1}|^2 - |w* - w_i^k|^2) / (2 eta_k), for which (73) and (88) put
    c_w^2 / (2 eta_t). That is right if eta_k is the same in every round. With eta_k = O(1/sqrt k)
    the sum is larger by sum_k (1/eta_{k+1} - 1/eta_k) |w* - w_i^k|^2 / 2 less what is bounded, and
    nothing bounds these distances by c_w: an agent moves towards the minimiser of its f_i. The
    rest, noise of expectation 0 in each inner product, |gamma_i| <= beta, and
    sum_k 1/sqrt k <= 2 sqrt t, holds. With eta_t in all of t rounds, both bounds are true (for (32)
    with wbar_i over rounds 1 to t in the distance, which its proof uses).

    Attributes
    ----------
    agents, dimension
        n, and dp: the number of coefficients.
    norm
        c_w = |w*|, also that of the steps (29) and (34).
    noise
        s = sigma_k (rho + 1/eta_k), the standard deviation of (14) in units of a gradient:
        2 c_1 sqrt(2 ln(1.25/delta)) / (m epsilon), the same for all agents.
    slope, curvature
        c_1 + lambda c_2 / n for (32), and c_3 + lambda c_4 / n for (37).
    rho, beta
        The penalty, and the weight of the distance.
    """

    agents: int
    dimension: int
    norm: float
    noise: float
    rho: float
    beta: float
    slope: float = 0.0
    curvature: float = 0.0

    @property
    def spread(self) -> float:
        """The root of the expected squared norm of a round's noise, sqrt(dp) s."""
        return math.sqrt(self.dimension) * self.noise


def consensus_bound(facts: ConsensusFacts, rounds: int) -> float:
    """Return (32) after t rounds with the step (29).

    n c_w sqrt(2 (slope^2 + dp s^2)) / sqrt t + n (rho c_w^2 + beta^2 / rho) / (2t).
    """
    first = facts.agents * facts.norm * math.sqrt(2) * math.hypot(facts.slope, facts.spread)
    return first / math.sqrt(rounds) + _second(facts, 0.0) / rounds


def smooth_consensus_bound(facts: ConsensusFacts, rounds: int) -> float:
    """Return (37) after t rounds with the step (34).

    n c_w s sqrt(2 dp) / sqrt t + n (c_w^2 (curvature + rho) + beta^2 / rho) / (2t).
    """
    first = facts.agents * facts.norm * math.sqrt(2) * facts.spread
    return first / math.sqrt(rounds) + _second(facts, facts.curvature) / rounds


def _second(facts: ConsensusFacts, curvature: float) -> float:
    inner = facts.norm**2 * (curvature + facts.rho) + facts.beta**2 / facts.rho
    return facts.agents * inner / 2
