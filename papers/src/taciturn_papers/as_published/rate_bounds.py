"""Theorems 5.3 to 5.5 of Ryu & Kim 2023 as numbers: bounds on the linearised ADMM's error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from taciturn.checks import at_least, not_negative, positive
from taciturn.errors import InputError
from taciturn.typing import HostArray


@dataclass(frozen=True, kw_only=True)
class RateFacts:
    """What the bounds are made of, in the units of the paper: f_p = (a/A) f_i, sums over agents.

    Attributes
    ----------
    agents, dimension, local_updates
        P, n and E.
    slope
        U_1: bound on the norm of a gradient of any f_p within the constraint.
    diameter
        U_2, of the *stacked* solutions: sqrt(P) times the diameter of W. The paper defines it for
        one agent, (5.1c), but its proofs bound |z* - z^t|^2, a sum over all agents, by its square:
        as printed the bounds lack a factor of P in the terms that carry U_2^2.
    variance
        U_3 / e^2, the variance of one coordinate of one agent's noise; 0 without noise.
    per_update
        e, the privacy of one update, as in (5.1a).
    rho_first, rho_last
        rho^1 and rho^max.
    gamma
        At least twice the norm of an optimal dual; for Theorem 5.5 also a bound on every dual.
    smoothness, strong_convexity
        L and alpha of every f_p, for the theorems that need them.

    The first dual is 0, as in `LinearisedADMM`.
    """

    agents: int
    dimension: int
    local_updates: int
    slope: float
    diameter: float
    variance: float
    per_update: float
    rho_first: float
    rho_last: float
    gamma: float
    smoothness: float = math.inf
    strong_convexity: float = 0.0

    def __post_init__(self) -> None:
        for name in ("agents", "dimension", "local_updates"):
            at_least(name, getattr(self, name), 1)
        for name in ("slope", "diameter", "variance", "gamma", "strong_convexity"):
            not_negative(name, getattr(self, name))
        positive("rho_first", self.rho_first)
        positive("rho_last", self.rho_last)
        positive("per_update", self.per_update, allow_infinity=True)
        if self.variance > 0 and math.isinf(self.per_update):
            raise InputError("noise of a positive variance needs a finite per_update; see (A.19)")

    @property
    def noise_energy(self) -> float:
        """P n U_3 / e^2: the expected squared norm of one round's noise on one update."""
        return self.agents * self.dimension * self.variance


def smooth_bound(facts: RateFacts, rounds: int) -> float:
    """Return (5.1b) after T rounds with the step (5.1a) and the averages (5.1c).

    (n P U_3 + U_2^2 / (2E)) / (e sqrt T) + (U_2^2 (rho_max + L/E) + gamma^2 / rho_1) / (2T).

    The noise term has no E in it: local updates do not shorten it, whatever the rate's summary
    says.
    """
    if math.isinf(facts.smoothness):
        raise InputError("Theorem 5.3 needs the smoothness L of every f_p; give smoothness")
    energy = facts.noise_energy * facts.per_update if facts.variance > 0 else 0.0
    spread = facts.diameter**2 / (2 * facts.local_updates)
    stretch = facts.rho_last + facts.smoothness / facts.local_updates
    late = facts.diameter**2 * stretch + facts.gamma**2 / facts.rho_first
    return (energy + spread / facts.per_update) / math.sqrt(rounds) + late / (2 * rounds)


def nonsmooth_bound(facts: RateFacts, rounds: int) -> float:
    """Return (5.2b) after T rounds with the step (5.2a) and the averages (5.2c).

    (n P U_3 / e^2 + P U_1^2 + U_2^2 / (2E)) / sqrt T
    + (U_2^2 rho_max + gamma^2 / rho_1 + 2 gamma U_2) / (2T).
    """
    early = facts.noise_energy + facts.agents * facts.slope**2
    early += facts.diameter**2 / (2 * facts.local_updates)
    late = facts.diameter**2 * facts.rho_last + facts.gamma**2 / facts.rho_first
    late += 2 * facts.gamma * facts.diameter
    return early / math.sqrt(rounds) + late / (2 * rounds)


def strongly_convex_bound(facts: RateFacts, rounds: int) -> float:
    """Return (5.3b) after T rounds with the step (5.3a) and the averages (5.3c).

    (2 U_2 gamma + U_2^2 rho_max + 4 gamma^2 / rho_1 + alpha U_2^2 / (2E)
    + 2 P (U_1^2 + n U_3 / e^2) / alpha) / (T + 1).
    """
    alpha, width = facts.strong_convexity, facts.diameter
    if not alpha > 0:
        raise InputError("Theorem 5.5 needs the strong convexity alpha of every f_p; give it")
    public = 2 * width * facts.gamma + width**2 * facts.rho_last
    public += 4 * facts.gamma**2 / facts.rho_first + alpha * width**2 / (2 * facts.local_updates)
    noisy = 2 * (facts.agents * facts.slope**2 + facts.noise_energy) / alpha
    return (public + noisy) / (rounds + 1)


def running_average(
    values: Float[HostArray, "T *S"], weights: Float[HostArray, " T"]
) -> Float[HostArray, "T *S"]:
    """Return xbar_t = xbar_{t-1} + a_t (x_t - xbar_{t-1}) for every t; a_1 must be 1.

    With the weights of `PublishedSettings.averaging` these are the averaged outputs of the
    theorems, here of values that a run left behind (solutions of single agents, say).

    Examples
    --------
    >>> running_average(np.array([1.0, 3.0]), np.array([1.0, 0.5])).tolist()
    [1.0, 2.0]
    """
    averages = np.array(values, dtype=np.float64)
    for t in range(1, len(averages)):
        averages[t] = averages[t - 1] + weights[t] * (averages[t] - averages[t - 1])
    return averages
