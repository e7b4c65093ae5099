"""Rényi divergences of batches of a fixed size (Wang, Balle, Kasiviswanathan 2019, theorem 27)."""

import math
from collections.abc import Sequence
from functools import cache

from mpmath import mp, mpf

LIMITS = (32, 128, 512, 1024)  # orders that are tried, more where the best is not among the first


def difference(u: float, limit: int) -> list[float]:
    """Return log B(l) for l = 0..limit (even l only, else 0), from differences of e^((i-1)ρ(i)).

    They cancel: B(l) is at least (e^ρ(2) - 1)^(l/2), while its terms are up to 2^l e^((l-1)ρ(l)).
    """
    if u < 1e-5:  # (l-1)!! u^l, right to l²u², in place of as many digits as there are orders
        moments = [math.lgamma(i + 1) - math.lgamma(i / 2 + 1) for i in range(limit + 1)]
        return [moments[i] + i * math.log(u) - i / 2 * math.log(2) for i in range(limit + 1)]
    bits = 100 + limit + int(limit / 2 * max(0.0, -math.log2(math.expm1(u * u))))
    logs = [0.0] * (limit + 1)
    with mp.workprec(bits + int(limit**2 * u * u / 1.3)):
        diagonal: list[int] = []
        for i in range(limit + 1):
            value = int(mp.ldexp(mp.exp((i - 1) * i * mpf(u) ** 2 / 2), bits))
            for j, last in enumerate(diagonal):
                diagonal[j], value = value, value - last
            diagonal.append(value)
            if i % 2 == 0:
                logs[i] = float(mp.log(mp.ldexp(value, -bits)))
    return logs


@cache
def grow_batches(u: float, gamma: float, limit: int) -> list[float]:
    """Return log A(a), a = 0, ..., limit, of a batch that is the share gamma, at the ratio u."""
    if gamma >= 1 and u == 0:
        return [0.0] * (limit + 1)
    rho = [j * u * u / 2 for j in range(limit + 2)]
    logs = difference(u, limit + 2)
    least = [0.0, 0.0, min(math.log(4 * math.expm1(rho[2])), math.log(2) + rho[2])]
    for j in range(3, limit + 1):
        mixed = math.log(4) + (logs[2 * (j // 2)] + logs[2 * ((j + 1) // 2)]) / 2
        least.append(min(mixed, math.log(2) + (j - 1) * rho[j]))
    least = [j * math.log(gamma) - math.lgamma(j + 1) + term for j, term in enumerate(least)]
    factorials = [math.lgamma(a + 1) for a in range(limit + 1)]
    grown = [0.0, 0.0]
    for a in range(2, limit + 1):
        terms = [0.0, *(least[j] + factorials[a] - factorials[a - j] for j in range(2, a + 1))]
        most = max(terms)
        grown.append(most + math.log(math.fsum(math.exp(term - most) for term in terms)))
    return grown


@cache
def convert(
    batches: tuple[tuple[float, float, int], ...], plain: float, delta: float
) -> tuple[float, float]:
    """Return the least ε of all orders, twice, for batches (u, share, times) and Σ u² `plain`."""
    if any(u > 8 for u, _, _ in batches):  # ε is in the hundreds, and its digits are too many
        return 0.0, math.inf
    best = math.inf
    for limit in LIMITS:
        grown = [0.0] * (limit + 1)
        for u, gamma, times in batches:
            more = grow_batches(u, gamma, limit)
            grown = [old + times * new for old, new in zip(grown, more, strict=True)]
        grown = [old + (a - 1) * a * plain / 2 for a, old in enumerate(grown)]
        best = _minimise(grown, plain, delta)
        # divergences grow with the order, and -log(δa)/(a-1) is above -δ at these
        if best == 0 or grown[limit] / (limit - 1) + math.log1p(-1 / limit) - delta > best:
            break
    return best, best


def _minimise(grown: Sequence[float], plain: float, delta: float) -> float:
    """Return the minimum over real orders, log A being a chord between whole ones."""
    if delta * delta > -math.expm1(
        plain * 0.45 - grown[2]
    ):  # divergences are least at the order 1.1
        return 0.0

    def cost(order: float) -> float:
        a = min(int(order), len(grown) - 2)
        part = order - a
        # the Gaussian events' divergence is known at every order, only the rest is interpolated
        curve = [grown[a + i] - (a + i - 1) * (a + i) * plain / 2 for i in (0, 1)]
        log_a = (1 - part) * curve[0] + part * curve[1] + (order - 1) * order * plain / 2
        return log_a / (order - 1) + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)

    whole = min(range(2, len(grown)), key=cost)
    best = cost(whole)
    for left in range(max(1, whole - 2), min(whole + 2, len(grown) - 1)):
        orders = [max(1.1, left + i / 200) for i in range(1, 201)]
        near = min(orders, key=cost)
        low, high = max(1.1, near - 0.005), min(near + 0.005, len(grown) - 1.0)
        for _ in range(60):
            one, two = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, two) if cost(one) < cost(two) else (one, high)
        best = min(best, cost(near), cost((low + high) / 2))
    return max(0.0, best)
