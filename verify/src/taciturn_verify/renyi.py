"""Rényi divergences of batches of a fixed size (Wang, Balle, Kasiviswanathan 2019, theorem 27)."""

import math
from collections.abc import Sequence
from itertools import pairwise

from mpmath import mp, mpf


def find_differences(u: float, limit: int) -> list[float]:
    """Return log B(l) for l = 0, ..., limit (0 for odd l), from differences of e^((i-1)ρ(i)).

    They cancel: B(l) is at least (e^ρ(2) - 1)^(l/2), while its terms are up to 2^l e^((l-1)ρ(l)).
    """
    bits = 100 + limit - int(limit / 2 * min(0.0, math.log2(math.expm1(u * u))))
    with mp.workprec(bits + int(limit**2 * u * u / 1.3)):
        row, logs = [mp.exp((i - 1) * i * mpf(u) ** 2 / 2) for i in range(limit + 1)], []
        for order in range(limit + 1):
            logs.append(0.0 if order % 2 else float(mp.log(row[0])))
            row = [a - b for a, b in pairwise(row)]
    return logs


def add_logs(terms: Sequence[float]) -> float:
    """Return log Σ e^term."""
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))


def grow_batches(u: float, gamma: float, limit: int) -> list[float]:
    """Return log A(a), a = 0, ..., limit, of a batch that is the share gamma, at the ratio u."""
    logs, rho, grown = find_differences(u, limit + 2), u * u / 2, [0.0, 0.0]
    least = [0.0, 0.0, min(math.log(4 * math.expm1(2 * rho)), math.log(2) + 2 * rho)]
    for j in range(3, limit + 1):
        mixed = math.log(4) + (logs[2 * (j // 2)] + logs[2 * ((j + 1) // 2)]) / 2
        least.append(min(mixed, math.log(2) + (j - 1) * j * rho))
    for a in range(2, limit + 1):
        ways = [math.log(math.comb(a, j)) + j * math.log(gamma) for j in range(a + 1)]
        grown.append(add_logs([0.0, *(ways[j] + least[j] for j in range(2, a + 1))]))
    return grown


def convert(batches: Sequence[tuple[float, float, int]], plain: float, delta: float) -> float:
    """Return ε of batches (ratio, γ, times) and plain Gaussian events with Σ 1/z² = plain.

    The limits are tried in turn: at higher orders divergences are larger, and -log(δa)/(a-1) is
    above -δ. Of too much or too little noise, the digits would be too many.
    """
    if any(not 1e-4 < u < 8 for u, _, _ in batches):
        raise OverflowError
    for limit in (32, 128, 512, 1024):
        grown = [[times * log for log in grow_batches(u, q, limit)] for u, q, times in batches]
        total = [math.fsum(logs) for logs in zip(*grown, strict=True)]

        def diverge(a: float, total: Sequence[float] = total) -> float:
            low = min(int(a), len(total) - 2)
            chord = total[low] + (a - low) * (total[low + 1] - total[low])
            return chord / (a - 1) + a * plain / 2

        if delta**2 > -math.expm1(-diverge(1.1)):
            return 0.0
        steps = range(int(math.log(10 * limit - 10, 1.001)))
        orders = [*range(2, limit + 1), *(1 + 0.1 * 1.001**i for i in steps)]
        costs = [diverge(a) + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a in orders]
        if diverge(limit) + math.log1p(-1 / limit) - delta > min(costs):
            break
    return float(max(0.0, min(costs)))
