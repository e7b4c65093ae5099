"""Bounds on the ε of a composition of pairs of distributions, by privacy losses on a grid.

The masses of an event's losses log(dP/dQ) between two points of a grid are moved to these so that
neither P nor Q changes in all (Doroshenko et al. 2022): this dominates the event. And moving adds D
in a range of one step to a loss, E e^-D = 1, so E e^(sD) ≤ e^((s + s²) step²/8) by Hoeffding's
lemma, and n moves add more than t = a + 2√(a log(1/p)), a = n step²/8, with a probability of at
most p. Where moved losses have δ(ε) > δ + p, therefore, δ(ε - t) > δ.
"""

import cmath
import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise
from operator import add
from typing import NamedTuple

from mpmath import mp, mpf

from taciturn_verify.reading import RefusedError, demand

Parts = Sequence[tuple[dict[int, float], int]]  # log masses at numbers of steps; how often
LARGEST = 1 << 20  # the longest transform times the number of different events
POWERS = [2.0**j for j in range(-3, 14)]
ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 64), 128, 256, 512, 1024)


class Event(NamedTuple):
    """A pair: gaussian, laplace, inside or fixed; 1/z; q or γ; `two` but for zero_out; J."""

    kind: str
    ratio: float
    rate: float = 1.0
    two: bool = False
    jump: float = 0.0

    def read_curve(self, e: float, turned: bool) -> float:
        """Return δ(e) of an event, e ≥ 0; turned: of Q and P."""
        kind, u, q, two, _ = self

        def spread(x: float) -> float:
            return math.erfc(-x / math.sqrt(2)) / 2

        if two and q < 1:  # the loss is e at x; with w = e^(ux/2), c w² + (1 - e^e) w - c e^e = 0
            c, grown = q / (1 - q) * math.exp(-u * u / 8), math.expm1(e)
            x = 2 / u * math.log((grown + math.sqrt(grown**2 + 4 * (grown + 1) * c * c)) / (2 * c))
            most, least = (q * spread(centre - x) for centre in (u / 2, -u / 2))
            return most - math.exp(e) * least - grown * (1 - q) * spread(-x)
        # P - e^e Q = share (P₁ - e^e' P₀), or share (P₀ - e^e' P₁)
        share = 1 - (1 - q) * math.exp(e) if turned else q
        if share <= 0:
            return 0.0
        e = e + math.log(q / share) if turned else math.log1p(math.expm1(e) / q)
        if kind == "laplace":
            return share * max(0.0, -math.expm1((e - u) / 2))
        return share * (spread(u / 2 - e / u) - math.exp(e) * spread(-u / 2 - e / u))

    def weigh(self, step: float, tail: float, turned: bool) -> dict[int, float]:
        """Return log of P's masses at numbers of steps, but for tails (turned: of Q's)."""
        masses, curves = dict[int, float](), list[list[float]]()

        def slope(one: tuple[float, float, int], two: tuple[float, float, int]) -> float:
            return (two[1] - one[1]) / (two[0] - one[0])

        for order in (turned, not turned):
            curve = self.trace_inside(step, tail) if self.kind == "inside" else []
            while len(curve) < LARGEST and (not curve or curve[-1] > tail):
                curve.append(self.read_curve(len(curve) * step, order))
            demand(curve[-1] <= tail, "the losses are too large")
            curves.append([*curve, curve[-1]])  # level where the tail is left
        for way, (curve, other) in ((1, curves), (-1, curves[::-1])):
            hull = list[tuple[float, float, int]]()
            for k in range(1 - len(other), len(curve)):  # losses below 0 are those of Q and P
                x = math.exp(k * step)
                point = x, curve[k] if k >= 0 else 1 - x * (1 - other[-k]), k
                while len(hull) > 1 and slope(hull[-2], hull[-1]) >= slope(hull[-1], point):
                    hull.pop()
                hull.append(point)
            hull = hull[sum(k <= 0 for _, _, k in hull) - 1 :]
            for before, point, after in zip(hull, hull[1:], hull[2:], strict=False):
                q = slope(point, after) - slope(before, point)  # in e^e, it falls by Q(L > e)
                masses[way * point[2]] = q * point[0] if way > 0 else q
        masses[0] = 1 - math.fsum(masses.values())
        return {k: math.log(p) for k, p in masses.items() if p > 0}

    def find_first(self, j: int, m: float) -> float:
        """Return x + y - xy, of whose integrals that of P₁ is the largest."""
        u, t = self.ratio, m - self.jump
        sides = u * math.cos(j * math.pi / 64), u * math.sin((j + 1) * math.pi / 64)
        x, y = (math.erfc(max(0.0, t / a - a / 2) / math.sqrt(2)) for a in sides)
        return x + y - x * y

    def find_second(self, m: float) -> float:
        """Return P₂(m)."""
        u, t, grown = self.ratio, m - self.jump - self.ratio**2 / 2, math.expm1(self.jump)
        if t < 0:
            return 1.0
        if not self.two:
            far = math.sqrt(t / grown) if grown else math.inf
            return (math.erfc(t / u / math.sqrt(2)) + math.erfc(max(t / u, far) / math.sqrt(2))) / 2
        radii = [t / u + (2 * i / 48) ** 2 for i in range(49)]
        total = math.exp(-(radii[48] ** 2) / 2)
        for near, far in pairwise(radii):
            cosine = (t - grown * far * far) / (u * far)
            share = 1.0 if cosine <= 0 else math.acos(min(1.0, cosine)) / math.pi
            total += (math.exp(-near * near / 2) - math.exp(-far * far / 2)) * share
        return total

    def trace_inside(self, step: float, tail: float) -> list[float]:
        """Return δ(e) at e = 0, step, ... of noise inside an objective, down to the tail."""
        count, fall = 1, math.exp(-step / 2)
        while self.find_second(count * step) > tail:
            count += count // 4 + 1
        demand(count <= 1 << 16, "the losses are too large")
        firsts = [partial(self.find_first, j) for j in range(16 if self.two else 0)]
        curves = []
        for p in (partial(self.find_second), *firsts):
            curve = [p(count * step)]  # P falls: this is above its last integral
            for k in range(count - 1, -1, -1):  # by Simpson's rule
                left, middle, right = (p((k + part) * step) for part in (0, 0.5, 1))
                part = step / 6 * (left + 4 * fall * middle + fall**2 * right)
                curve.append(fall**2 * curve[-1] + part)
            curves.append(curve[::-1])
        return [min(last, max(rest, default=last)) for last, *rest in zip(*curves, strict=True)]


def transform(values: Sequence[complex]) -> Sequence[complex]:
    """Return Σ_j x_j e^(-2πi jk/N), N a power of 2."""
    if len(values) == 1:
        return values
    even, odd = transform(values[::2]), transform(values[1::2])
    turned = [x * cmath.rect(1, -math.pi * k / len(odd)) for k, x in enumerate(odd)]
    pairs = list(zip(even, turned, strict=True))
    return [a + b for a, b in pairs] + [a - b for a, b in pairs]


def add_logs(terms: Sequence[float]) -> float:
    """Return log Σ e^term."""
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))


def grow(parts: Parts, step: float, s: float) -> float:
    """Return log E e^(s L) of the composition."""
    return math.fsum(n * add_logs([p + s * k * step for k, p in logs.items()]) for logs, n in parts)


def compose(parts: Parts, step: float, delta: float, lost: float) -> tuple[float, float]:
    """Return the bounds on ε(δ) that masses give; the upper one is infinite if it is not found."""
    count = sum(times for _, times in parts)
    # masses times e^(tilt L) keep a small δ: it is at most E e^(s (L - ε)) s^s / (s + 1)^(s + 1)
    tops = {s: grow(parts, step, s) + s * math.log(s) - (s + 1) * math.log1p(s) for s in POWERS}
    tilt = min(POWERS, key=lambda s: (tops[s] - math.log(delta)) / s)
    grown = grow(parts, step, tilt)
    # the losses above and below which the tilted mass is at most e^-36, by Chernoff's bound
    high = min((grow(parts, step, tilt + s) - grown + 36) / s for s in POWERS)
    low = max((grow(parts, step, tilt - s) - grown + 36) / -s for s in POWERS)
    first = math.floor(low / step)
    size = 1 << (math.ceil(high / step) - first + 1).bit_length()
    demand(size * len(parts) <= LARGEST, "the transforms are too long")
    total = [1 + 0j] * size
    for logs, times in parts:
        one, packed = grow([(logs, 1)], step, tilt), [0j] * size
        for k, log in logs.items():
            packed[k % size] += math.exp(log + tilt * k * step - one)
        total = [a * b**times for a, b in zip(total, transform(packed), strict=True)]
    back = transform([value.conjugate() for value in total])
    # rounding adds at most this to the sum of the errors of the masses, by Cauchy and Schwarz
    slack = 2 * math.exp(-36) + 1e-15 * size.bit_length() * math.sqrt(size) * count
    chance, a = delta * 1e-3, count * step * step / 8
    moved = min(count * step, a + 2 * math.sqrt(-a * math.log(chance)))
    ends = []
    for aim, error in ((delta + chance, -slack), (delta - lost, slack)):
        # δ(ε) = e^(grown - tilt ε) (Σ_{l > ε} t e^(-tilt (l - ε)) (1 - e^(ε - l)) + error) > aim
        u, v, k, level = 0.0, 0.0, first + size, -math.inf
        while k > first and level <= math.log(aim):
            k -= 1
            u = back[k % size].real / size + u * math.exp(-tilt * step)
            v = back[k % size].real / size + v * math.exp(-(tilt + 1) * step)
            over = u - v + error
            level = math.log(over) + grown - tilt * k * step if over > 0 else -math.inf
        ends.append(-math.inf if level <= math.log(aim) else k * step)
    most = math.inf if ends[1] == (first + size - 1) * step else max(ends[1], first * step) + step
    return max(0.0, ends[0] - moved), max(0.0, most)


@cache
def bound_epsilon(events: tuple[tuple[Event, int], ...], delta: float) -> tuple[float, float]:
    """Return bounds on the ε(δ) of a composition, or refuse what cannot be decided."""
    largest = max((event.ratio for event, _ in events), default=0.0)
    if largest in (0, math.inf) or delta <= 0:
        return largest, largest
    rest = [(event, n) for event, n in events if event.kind != "gaussian" or event.rate < 1]
    plain = math.fsum(event.ratio**2 * n for event, n in events if (event, n) not in rest)
    kinds = {event.kind for event, _ in rest}
    if "fixed" in kinds:
        demand(len(kinds) == 1, "batches of a fixed size must stand alone")
        epsilon = convert([(event.ratio, event.rate, n) for event, n in rest], plain, delta)
        return epsilon * (1 - 1e-5), epsilon  # the least order is found to less than this
    merged = rest + ([(Event("gaussian", math.sqrt(plain)), 1)] if plain > 0 else [])
    orders = {False, *(event.rate < 1 and not event.two for event, _ in rest)}
    low, high = map(max, zip(*(refine(merged, delta, order) for order in orders), strict=True))
    if all(event.kind == "laplace" and event.rate == 1 for event, _ in events):
        high = min(high, math.fsum(event.ratio * n for event, n in events))
    return low, high


def refine(events: Sequence[tuple[Event, int]], delta: float, turned: bool) -> tuple[float, float]:
    """Return bounds of one order, on ever finer grids: their distance is a multiple of the step."""
    count = sum(n for _, n in events)
    low, high, step, tail = 0.0, math.inf, 0.5 / math.sqrt(count), 1e-7 * delta / count
    with suppress(ArithmeticError, ValueError):  # losses beyond what floats hold
        for _ in range(8 if delta > 1e-200 else 0):
            parts = [(event.weigh(step, tail, turned), n) for event, n in events]
            low, high = compose(parts, step, delta, 2 * tail * count)
            if high < math.inf and high - low <= 0.01 * high:
                return low, high
            step *= max(0.1, 0.008 * high / (high - low)) if high < math.inf else 0.3
    raise RefusedError(f"epsilon could not be decided: it is between {low:.6g} and {high:.6g}")


def grow_batches(u: float, gamma: float, limit: int) -> dict[int, float]:
    """Return log A(a) at whole ORDERS, of a batch that is the share gamma, at the ratio u."""
    rho, sharp, logs, grown = u * u / 2, min(limit, 256), list[float](), {1: 0.0}
    # differences cancel: B(l) ≥ (e^ρ(2) - 1)^(l/2), with terms up to 2^l e^((l-1)ρ(l))
    bits = 100 + sharp - int(sharp / 2 * min(0.0, math.log2(math.expm1(u * u))))
    with mp.workprec(bits + int(sharp**2 * u * u / 1.3)):
        row = [mp.exp((i - 1) * i * mpf(u) ** 2 / 2) for i in range(sharp + 3)]
        while row:
            logs.append(float(mp.log(abs(row[0]))))  # log B(l)
            row = [a - b for a, b in pairwise(row)]
    mixed = [math.log(4) + (logs[j - j % 2] + logs[j + j % 2]) / 2 for j in range(3, sharp + 1)]
    mixed = [math.log(4 * math.expm1(2 * rho)), *mixed]
    plain = [math.log(2) + (j - 1) * j * rho for j in range(2, limit + 1)]
    for a in (a for a in ORDERS if a % 1 == 0 and a <= limit):
        terms = [*map(min, mixed, plain)] if a <= 256 else [min(mixed[0], plain[0]), *plain[1:]]
        ways = (math.log(math.comb(int(a), j)) + j * math.log(gamma) for j in range(2, int(a) + 1))
        grown[int(a)] = add_logs([0.0, *map(add, ways, terms)])
    return grown


def convert(batches: Sequence[tuple[float, float, int]], plain: float, delta: float) -> float:
    """Return ε of batches (ratio, γ, times) and plain Gaussian events with Σ 1/z² = plain."""
    demand(all(1e-4 < u < 8 for u, _, _ in batches), "epsilon could not be decided: extreme noise")
    for limit in (32, 63, 128, 256, 1024):  # divergences grow with orders, and -log(δa)/(a-1) > -δ
        grown = [(times, grow_batches(u, q, limit)) for u, q, times in batches]
        total = {a: math.fsum(n * logs[a] for n, logs in grown) for a in grown[0][1]}
        orders = [a for a in ORDERS if a <= limit]
        logs = {a: total[int(a)] + a % 1 * (total[int(a + 0.95)] - total[int(a)]) for a in orders}
        rates = {a: log / (a - 1) + a * plain / 2 for a, log in logs.items()}
        costs = [rates[a] + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a in orders]
        if rates[limit] + math.log1p(-1 / limit) - delta > min(costs):
            break
    return 0.0 if delta**2 > -math.expm1(-rates[1.1]) else float(max(0.0, min(costs)))
