"""Gaussian privacy: mu, its curve and attacker, and what a lattice adds."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from mpmath import mp, mpf

from taciturn_verify.bounds import bound_movement, find_ratio
from taciturn_verify.reading import Fields, demand


def find_mus(leg: Fields, several: int, relation: str) -> tuple[list[float], float]:
    """Return mu of every agent of a Gaussian leg, and of a unit at several agents."""
    if "choice" in vars(leg):
        mu = choose_mu(leg.choice.rate, relation)
        return [mu] * len(leg.agents), mu
    squares: list[list[float]] = [[] for _ in leg.agents]
    together, colluders = [], getattr(leg.observer, "colluders", len(leg.agents))
    for slot in leg.slots:
        # below the largest step, a sum is about the other answers alone
        equal = leg.observer.name != "sum" or len({answer.step for answer in slot.answers}) < 2
        demand(equal, "answers that are added up must stand on one lattice")
        moves, variances = [0.0] * len(squares), [0.0] * len(squares)
        for answer in slot.answers:
            for agent in answer.agents:
                moves[agent], variances[agent] = bound_movement(leg, answer), answer.scale**2
        ordered, kept = sorted(variances), max(0, len(variances) - colluders)
        least, less = math.fsum(ordered[:kept]), math.fsum(ordered[: max(0, kept - 1)])
        for ratios, move, variance in zip(squares, moves, variances, strict=True):
            hidden = max(least, variance + less)  # as one kept, or one of the k largest
            ratios.append(slot.times * find_ratio(move, math.sqrt(hidden)) ** 2)
        moved, hidden = math.fsum(sorted(moves)[-several:]), math.fsum(ordered[: max(1, kept)])
        together.append(slot.times * find_ratio(moved, math.sqrt(hidden)) ** 2)
    costs = [math.fsum(ratios) for ratios in squares]
    total = together if leg.observer.name == "sum" else sorted(costs)[-several:]
    return [math.sqrt(cost) for cost in costs], math.sqrt(math.fsum(total))


def solve_epsilon(mu: float, delta: float) -> float:
    """Return the least ε ≥ 0 with Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) ≤ δ."""
    if mu in (0, math.inf) or delta <= 0:
        return 0.0 if mu == 0 else math.inf
    demand(mu < 1e8, "epsilon has too many digits to be computed")
    with mp.workdps(40 + int(max(0.0, -2 * math.log10(mu)))):  # the terms differ by a share of μ

        def rise(e: Any) -> Any:
            less = mp.exp(e) * mp.ncdf(-e / mu - mpf(mu) / 2)
            return mp.log((mp.ncdf(-e / mu + mpf(mu) / 2) - less) / delta)

        top = mpf(mu) ** 2 / 2 + mu * mp.sqrt(-2 * mp.log(delta)) + mu  # by the Gaussian tail
        return float(mp.findroot(rise, (0, top), solver="illinois")) if rise(mpf(0)) > 0 else 0.0


def choose_mu(rate: float, relation: str) -> float:
    """Return 2 Φ⁻¹(1/(1 + e^(-r'/2))) of a choice at rate r; r' is r for zero_out, else 2r."""
    half = rate / (2 if relation == "zero_out" else 1)
    demand(half <= 500, "the rate of a choice is beyond what can be computed")
    with mp.workdps(40 + int(half)):  # the probability is within e^-half of 1
        return float(2 * mp.sqrt(2) * mp.erfinv(mp.tanh(mpf(half) / 2)))


def rate_epsilon(epsilon: float, delta: float) -> float:
    """Return the attacker's rate where there is no mu."""
    grown = 0.01 * math.exp(min(epsilon, 700)) + delta
    return min(1.0, grown, 1 - math.exp(-epsilon) * (0.99 - delta))


class Lattice(NamedTuple):
    """Noise on a lattice: n values of it at s steps; n is 0 without one."""

    n: int = 0
    s: float = math.inf
    laplace: bool = False

    def find_etas(self, epsilon: float = 0.0) -> tuple[float, float]:
        """Return η₁, and η₂ for τ = 100 + ε'; infinite where steps are too large."""
        n, s, k = self.n, self.s, 1
        if n == 0 or s < 1:
            return (math.inf, math.inf) if n else (0.0, 0.0)
        if self.laplace:
            while k * (math.log(k) - 1 - math.log(n / (2 * s))) < 100:
                k = 1 + math.floor(1.1 * k)
            return k / (4 * s), n / (8 * s**2)
        tau = (100 + epsilon) / n
        root = math.sqrt(1 + 2 * math.sqrt(tau) + 2 * tau) + 1 / (2 * s)
        rest = 3 * n * math.exp(-2 * (math.pi * s) ** 2) if s < 10 else 0.0
        return n / (24 * s**2), n * root**2 / (24 * s**2) + rest

    def shrink(self, delta: float) -> float:
        """Return δ', at which the curve is read."""
        kept = (1 - 1e-10) * math.exp(-self.find_etas()[0]) * (1 - 1e-15)
        return delta * kept - math.exp(-99) if self.n else delta

    def lift(self, epsilons: Sequence[float], delta: float) -> list[float]:
        """Return ε' + η₁ + η₂ of all agents of a leg, infinite where there is no guarantee."""
        etas = self.find_etas(max((e for e in epsilons if e < math.inf), default=0.0))
        kept = sum(etas) <= 1 and self.shrink(delta) > 0
        return [epsilon + sum(etas) if kept else math.inf for epsilon in epsilons]

    def rate_mu(self, mu: float, delta: float) -> float:
        """Return the attacker's rate where there is a mu."""
        (eta1, eta2), gap = self.find_etas(), 1e-10 * delta if self.n else 0.0
        if mu == math.inf or max(eta1, eta2) > 1:
            return 1.0
        with mp.workdps(40):
            level = mp.exp(eta2) * (mpf("0.01") + gap) + (mp.exp(-100) if self.n else 0)
            quantile = mp.sqrt(2) * mp.erfinv(2 * level - 1)
            return float(min(mpf(1), mp.exp(eta1) * mp.ncdf(quantile + mu) + gap))


def find_lattice(leg: Fields) -> Lattice:
    """Return the lattice of a leg: most values of one agent, least σ/h."""
    drawn, stepped = Counter[int](), [answer for answer in leg.answers if answer.step > 0]
    for answer in stepped:
        drawn.update(dict.fromkeys(answer.agents, answer.times))
    steps = min((answer.scale / answer.step for answer in stepped), default=math.inf)
    return Lattice(leg.values * max(drawn.values(), default=0), steps, leg.noise == "laplace")
