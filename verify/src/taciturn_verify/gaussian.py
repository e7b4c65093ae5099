"""Gaussian privacy: mu, its curve and attacker, and what a lattice adds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mpmath import mp, mpf

from taciturn_verify.bounds import bound_movement, find_ratio
from taciturn_verify.reading import Leg, RefusedError

FALSE_POSITIVES = 0.01


def find_mus(leg: Leg, agents: int) -> tuple[list[float], float]:
    """Return mu of every agent of a Gaussian leg, and of a unit at so many agents."""
    count = len(leg.agents)
    squares: list[list[float]] = [[] for _ in range(count)]
    total = []
    for slot in leg.slots:
        moves, variances = [0.0] * count, [0.0] * count
        for answer in slot.answers:
            move = bound_movement(answer, leg)
            for agent in answer.list_agents():
                moves[agent], variances[agent] = move, answer.scale**2
        hidden = _hide(leg, variances)
        for agent, move in enumerate(moves):
            if move:
                squares[agent].append(slot.times * find_ratio(move, math.sqrt(hidden[agent])) ** 2)
        if leg.colluders is not None:
            least = sorted(variances)[: max(1, count - leg.colluders)]
            moved = math.fsum(sorted(moves)[-agents:])
            total.append(slot.times * find_ratio(moved, math.sqrt(math.fsum(least))) ** 2)
    costs = [math.fsum(values) for values in squares]
    if leg.colluders is None:
        total = sorted(costs)[-agents:]
    return [math.sqrt(cost) for cost in costs], math.sqrt(math.fsum(total))


def _hide(leg: Leg, variances: Sequence[float]) -> Sequence[float]:
    """Return the variance that hides each agent; in a sum also the others' but the k largest."""
    if leg.colluders is None:
        return variances
    order = sorted(range(len(variances)), key=lambda agent: -variances[agent])
    known, kept = order[: leg.colluders], order[leg.colluders :]
    rest, swapped = (math.fsum(variances[agent] for agent in kept[i:]) for i in (0, 1))
    # without an agent of the k largest, the next largest takes its place among them
    inside = {agent: variances[agent] + swapped for agent in known}
    return [inside.get(agent, rest) for agent in range(len(variances))]


@cache
def solve_epsilon(mu: float, delta: float) -> float:
    """Return the least ε >= 0 with Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) <= δ, to 1e-14."""
    if mu in (0, math.inf) or delta <= 0:
        return 0.0 if mu == 0 else math.inf
    if mu > 1e8:
        raise OverflowError(f"the epsilon of mu = {mu:g} has too many digits")
    with mp.workdps(
        40 + int(max(0.0, -2 * math.log10(mu)))
    ):  # the two terms differ by a share of μ
        m, level = mpf(mu), mpf(delta)
        if 2 * mp.ncdf(m / 2) - 1 <= level:
            return 0.0
        # log δ is concave: from above the root (the Gaussian tail), Newton's rule stays above
        e = m * m / 2 + m * mp.sqrt(-2 * mp.log(level)) + m
        for _ in range(200):
            less = mp.exp(e) * mp.ncdf(-e / m - m / 2)
            curve = mp.ncdf(-e / m + m / 2) - less
            step = mp.log(curve / level) * curve / less
            e += step
            if abs(step) < mpf(10) ** -15 * e:
                break
        return float(e)


def rate_attacker(mu: float, eta1: float = 0.0, eta2: float = 0.0, gap: float = 0.0) -> float:
    """Return e^η₁ Φ(Φ⁻¹(e^η₂ (0.01 + g) + e^-100) + μ) + g or 1; η = g = 0 off a lattice."""
    if mu == math.inf or eta1 > 1 or eta2 > 1:
        return 1.0
    with mp.workdps(40):
        level = mp.exp(mpf(eta2)) * (mpf(FALSE_POSITIVES) + mpf(gap)) + (mp.exp(-100) if gap else 0)
        quantile = mp.sqrt(2) * mp.erfinv(2 * level - 1)
        return float(min(mpf(1), mp.exp(mpf(eta1)) * mp.ncdf(quantile + mpf(mu)) + mpf(gap)))


def rate_from_epsilon(epsilon: float, delta: float) -> float:
    """Return min(1, 0.01 e^ε + δ, 1 - e^-ε (0.99 - δ)), the rate where there is no mu."""
    grown = FALSE_POSITIVES * math.exp(min(epsilon, 700)) + delta
    return min(1.0, grown, 1 - math.exp(-epsilon) * (1 - FALSE_POSITIVES - delta))


def choose_mu(rate: float, relation: str) -> float:
    """Return 2 Φ⁻¹(1/(1 + e^(-r'/2))) of a choice at rate r; r' is r for zero_out, else 2r."""
    half = rate / (2 if relation == "zero_out" else 1)
    if half > 500:
        raise RefusedError(f"a choice at rate {rate:g} is beyond what can be computed")
    with mp.workdps(40 + int(half)):  # the probability is within e^-half of 1
        return float(2 * mp.sqrt(2) * mp.erfinv(mp.tanh(mpf(half) / 2)))


@dataclass(frozen=True)
class Lattice:
    """Noise on a lattice: n values of it at s steps for δ; n is 0 without one."""

    n: int
    s: float
    laplace: bool

    def find_eta1(self) -> float:
        """Return η₁: n/24s², or k/4s of Laplace noise."""
        if not self.n or self.s == math.inf:
            return 0.0
        if not self.laplace:
            return self.n / 24 / self.s**2 if self.s >= 1 else math.inf
        k = 1
        while self.s >= 1 and k * (math.log(k) - 1 - math.log(self.n / (2 * self.s))) < 100:
            k = 1 + math.floor(1.1 * k)
        return k / 4 / self.s if self.s >= 1 else math.inf

    def find_eta2(self, epsilon: float = 0.0) -> float:
        """Return η₂ for τ = 100 + ε'."""
        if not self.n or self.s < 1 or self.laplace:
            return 0.0 if not self.n else math.inf if self.s < 1 else self.n / 8 / self.s**2
        tau = (100 + epsilon) / self.n
        near = (
            self.n
            * (math.sqrt(1 + 2 * math.sqrt(tau) + 2 * tau) + 0.5 / self.s) ** 2
            / 24
            / self.s**2
        )
        return near + (3 * self.n * math.exp(-2 * (math.pi * self.s) ** 2) if self.s < 10 else 0.0)

    def shrink_delta(self, delta: float) -> float:
        """Return δ', at which the curve is read; at most 0 where there is no guarantee."""
        eta1 = self.find_eta1()
        if not self.n or eta1 > 1:
            return delta if not self.n else 0.0
        return delta * (1 - 1e-10) * math.exp(-eta1) * (1 - 1e-15) - math.exp(-99)

    def lift(self, epsilon: float, largest: float) -> float:
        """Return ε' + η₁ + η₂, τ being 100 + the largest ε' of the leg; infinite above 1."""
        added = self.find_eta1() + self.find_eta2(largest) if self.n else 0.0
        return epsilon + added if added <= 1 else math.inf


def find_lattice(leg: Leg, agents: int) -> Lattice:
    """Return the lattice of a unit at so many agents: most values of one agent, least σ/h."""
    drawn: Mapping[int, list[int]] = {agent: [] for agent in range(len(leg.agents))}
    steps = math.inf
    for slot in leg.slots:
        for answer in slot.answers:
            if answer.step and leg.noise != "nonoise":
                steps = min(steps, answer.scale / answer.step)
                for agent in answer.list_agents():
                    drawn[agent].append(slot.times)
    return Lattice(
        agents * leg.values * max(map(sum, drawn.values())), steps, leg.noise == "laplace"
    )
