"""Noise inside an objective: its curve."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise


def find_first(m: float, j: int, u: float, jump: float) -> float:
    """Return x + y - xy, of whose integrals that of P₁ is the largest."""
    sides = u * math.cos(j * math.pi / 64), u * math.sin((j + 1) * math.pi / 64)
    x, y = (math.erfc(max(0.0, (m - jump) / a - a / 2) / math.sqrt(2)) for a in sides)
    return x + y - x * y


def find_second(m: float, u: float, jump: float, zero_out: bool) -> float:
    """Return P₂(m)."""
    t, grown = m - jump - u * u / 2, math.expm1(jump)
    if t < 0:
        return 1.0
    if zero_out:
        far = math.sqrt(t / grown) if grown else math.inf
        return (math.erfc(t / u / math.sqrt(2)) + math.erfc(max(t / u, far) / math.sqrt(2))) / 2
    radii = [t / u + (2 * i / 48) ** 2 for i in range(49)]
    total = math.exp(-(radii[48] ** 2) / 2)
    for near, far in pairwise(radii):
        cosine = (t - grown * far * far) / (u * far)
        share = 1.0 if cosine <= 0 else math.acos(min(1.0, cosine)) / math.pi
        total += (math.exp(-near * near / 2) - math.exp(-far * far / 2)) * share
    return total


def integrate(p: Callable[[float], float], step: float, count: int) -> list[float]:
    """Return ∫_e^∞ e^(e-m) P(m) dm at e = 0, step, ..., count·step, by Simpson's rule."""
    curve, fall = [p(count * step)], math.exp(-step / 2)  # P falls: this is above the last one
    for k in range(count - 1, -1, -1):
        left, middle, right = (p((k + part) * step) for part in (0, 0.5, 1))
        part = step / 6 * (left + 4 * fall * middle + fall**2 * right)
        curve.append(fall**2 * curve[-1] + part)
    return curve[::-1]


def trace_curve(u: float, jump: float, zero_out: bool, step: float, tail: float) -> list[float]:
    """Return δ(e) at e = 0, step, ..., until it is below the tail: the smaller of both bounds."""
    count = 1
    while find_second(count * step, u, jump, zero_out) > tail:
        count += count // 4 + 1
        if count > 1 << 16:
            raise OverflowError
    last = partial(find_second, u=u, jump=jump, zero_out=zero_out)
    second = integrate(last, step, count)
    if zero_out:
        return second
    firsts = [integrate(partial(find_first, j=j, u=u, jump=jump), step, count) for j in range(16)]
    return [min(max(values), other) for *values, other in zip(*firsts, second, strict=True)]
