"""Noise inside an objective: the pair of distributions that has the stated curve."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise


def _tail(t: float, a: float) -> float:
    """Return T(t; a) = erfc(max(0, t/a - a/2)/√2)."""
    if a <= 1e-300:
        return 1.0 if t <= 0 else 0.0
    return math.erfc(max(0.0, t / a - a / 2) / math.sqrt(2))


def _list_tails(u: float, jump: float, zero_out: bool) -> list[Callable[[float], float]]:
    """Return P₁ for every j (none for zero_out), and P₂."""

    def split(j: int) -> Callable[[float], float]:
        a, b = u * math.cos(j * math.pi / 64), u * math.sin((j + 1) * math.pi / 64)

        def first(m: float) -> float:
            x, y = _tail(m - jump, a), _tail(m - jump, b)
            return x + y - x * y

        return first

    grown = math.expm1(jump)

    def second(m: float) -> float:
        t = m - jump - u * u / 2
        if t < 0:
            return 1.0
        if zero_out:
            far = math.sqrt(t / grown) if grown else (math.inf if t else 0.0)
            return (math.erfc(t / u / math.sqrt(2)) + math.erfc(max(t / u, far) / math.sqrt(2))) / 2
        radii = [t / u] + [t / u + (2 * i / 48) ** 2 for i in range(1, 49)]
        total = math.exp(-(radii[48] ** 2) / 2)
        for near, far in pairwise(radii):
            cosine = (t - grown * far * far) / (u * far)
            share = 1.0 if cosine <= 0 else math.acos(min(1.0, cosine)) / math.pi
            total += (math.exp(-near * near / 2) - math.exp(-far * far / 2)) * share
        return total

    return [second] if zero_out else [*(split(j) for j in range(16)), second]


def trace_curve(u: float, jump: float, zero_out: bool, step: float, tail: float) -> list[float]:
    """Return δ(k·step), k = 0, 1, ..., until it is below the tail: the smaller of both bounds.

    δ(e) = ∫_e^∞ e^(e-m) P(m) dm is summed from above, by Simpson's rule between the points.
    """
    tails = _list_tails(u, jump, zero_out)
    count = 1
    while tails[-1](count * step) > tail / 10:
        count *= 2
        if count > 1 << 15 or count * step > 650:
            raise OverflowError(
                f"the losses of noise inside an objective at the ratio {u:g} are too large"
            )
    while count > 1 and tails[-1]((count - 1) * step) <= tail / 10:
        count -= max(1, count // 64)
    curves = [_integrate(p, step, count, tail) for p in tails]
    first = [max(values) for values in zip(*curves[:-1], strict=True)] or curves[-1]
    return [min(pair) for pair in zip(first, curves[-1], strict=True)]


def _integrate(p: Callable[[float], float], step: float, count: int, tail: float) -> list[float]:
    curve = [0.0] * count + [min(tail, p(count * step))]
    half, whole = math.exp(-step / 2), math.exp(-step)
    right = p(count * step)
    for k in range(count - 1, -1, -1):
        left, middle = p(k * step), p((k + 0.5) * step)
        curve[k] = whole * curve[k + 1] + step / 6 * (left + 4 * half * middle + whole * right)
        right = left
    return curve


def trace_inside(
    u: float, jump: float, zero_out: bool, step: float, tail: float
) -> Mapping[int, tuple[float, float]]:
    """Return the pair as cells: cell k has masses of P and Q at the loss k·step.

    The curve is the lower convex hull, in e^e, of its values at the points; negative arguments by
    δ(-e) = 1 - e^-e (1 - δ(e)). The slopes of the hull are those of -Q(loss > e).
    """
    curve = trace_curve(u, jump, zero_out, step, tail)
    last = len(curve) - 1
    points = [
        (math.exp(-k * step), 1 - math.exp(-k * step) * (1 - curve[k]), -k)
        for k in range(last, 0, -1)
    ]
    hull = _find_hull(points + [(math.exp(k * step), curve[k], k) for k in range(last + 1)])
    cells: dict[int, tuple[float, float]] = {}
    for before, here, after in zip(hull, hull[1:], hull[2:], strict=False):
        if here[2] > 0:
            q = (after[1] - here[1]) / (after[0] - here[0]) - (here[1] - before[1]) / (
                here[0] - before[0]
            )
            p = q * here[0]
            cells[here[2]], cells[-here[2]] = (p, q), (q, p)
    rest = max(0.0, 1.0 - math.fsum(p for p, _ in cells.values()))
    # the curve beyond its last point is below the tail; what is left over stands at 0
    cells[0] = rest, rest
    return cells


def _find_hull(points: Sequence[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    hull: list[tuple[float, float, int]] = []
    for x, y, k in points:
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) >= (
            y - hull[-2][1]
        ) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append((x, y, k))
    return hull
