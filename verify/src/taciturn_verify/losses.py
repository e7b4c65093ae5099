"""Bounds on the ε of a composition of pairs of distributions, by privacy losses on a grid.

The losses log(dP/dQ) of an event are cut into cells, and the mass of a cell is moved to its ends so
that neither P nor Q changes in all (Doroshenko et al. 2022): this dominates the event. It also
gives a lower bound. Moving adds D in a range of one step to a loss, E e^-D = 1. By Hoeffding's
lemma E e^(sD) ≤ e^((s + s²) step²/8), so n moves add more than t = a + 2√(a log(1/p)) with a
probability of at most p, a = n step²/8. Where moved losses have δ(ε) > δ + p, δ(ε - t) > δ.
"""

import cmath
import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from taciturn_verify.inside import trace_curve, weigh_inside
from taciturn_verify.reading import RefusedError
from taciturn_verify.renyi import add_logs

# logarithms of the masses of P at whole numbers of steps, and how often the event occurs
Parts = Sequence[tuple[dict[int, float], int]]
LARGEST = 1 << 20  # the longest transform times the number of different events
GOAL = 0.01  # how far apart, relative to the upper, bounds may be
POWERS = [2.0**j for j in range(-3, 14)]


class Event(NamedTuple):
    """A pair: gaussian, laplace, inside or fixed; 1/z; q or γ; `two` but for zero_out; J."""

    kind: str
    ratio: float
    rate: float = 1.0
    two: bool = False
    jump: float = 0.0


def find_place(event: Event, loss: float) -> float:
    """Return the x at which the loss of an event, which grows with x, is this."""
    kind, u, q, two, _ = event
    if two and q < 1:  # with w = e^(ux/2), c w² + (1 - e^l) w - c e^l = 0
        c, grown = q / (1 - q) * math.exp(-u * u / 8), math.expm1(abs(loss))
        w = (grown + math.sqrt(grown * grown + 4 * (grown + 1) * c * c)) / (2 * c)
        return math.copysign(2 / u * math.log(w), loss)
    unmixed = (math.expm1(loss) + q) / q
    loss = math.log(unmixed) if unmixed > 0 else -math.inf
    if kind == "gaussian":
        return loss / u + u / 2
    return (loss + u) / 2 if abs(loss) <= u else math.copysign(math.inf, loss)


def find_tails(event: Event, loss: float) -> list[float]:
    """Return P(L < l), P(L ≥ l), Q(L < l), Q(L ≥ l) of the loss L of an event."""
    kind, u, q, two, _ = event

    def spread(x: float) -> float:
        if kind == "gaussian":
            return math.erfc(-x / math.sqrt(2)) / 2
        return math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2

    x, centres = find_place(event, loss), (u / 2, -u / 2) if two and q < 1 else (u, 0.0)
    return [
        (1 - q) * spread(way * x) + q * spread(way * (x - centre))
        for centre in centres
        for way in (1, -1)
    ]


def weigh(event: Event, step: float, tail: float, turned: bool) -> dict[int, float]:
    """Return the masses of P, but for tails, moved to whole numbers of steps (turned: of Q)."""
    if event.kind == "inside":
        curve = trace_curve(event.ratio, event.jump, not event.two, step, tail)
        return weigh_inside(curve, step)
    reach = 1
    while max(find_tails(event, -reach * step)[::2] + find_tails(event, reach * step)[1::2]) > tail:
        reach += reach // 4 + 1
    points = [find_tails(event, k * step) for k in range(-reach, reach + 1)]
    masses: dict[int, float] = defaultdict(float)
    for k, (a, b) in enumerate(pairwise(points), -reach):
        # the difference of the tails that are the smaller ones, for these do not cancel
        p, q = (b[i] - a[i] if a[i] < a[i + 1] else a[i + 1] - b[i + 1] for i in (0, 2))
        low, p, q = (-k - 1, q, p) if turned else (k, p, q)
        # x + y = p and x e^-l + y e^-(l + step) = q
        y = min(p, max(0.0, (p - q * math.exp(low * step)) / -math.expm1(-step)))
        masses[low] += p - y
        masses[low + 1] += y
    return masses


def transform(values: Sequence[complex]) -> Sequence[complex]:
    """Return Σ_j x_j e^(-2πi jk/N), N a power of 2."""
    if len(values) == 1:
        return values
    even, odd = transform(values[::2]), transform(values[1::2])
    turned = [x * cmath.rect(1, -math.pi * k / len(odd)) for k, x in enumerate(odd)]
    pairs = list(zip(even, turned, strict=True))
    return [a + b for a, b in pairs] + [a - b for a, b in pairs]


def grow(parts: Parts, step: float, power: float) -> float:
    """Return log E e^(power L) of the composition."""
    each = ((add_logs([log + power * k * step for k, log in logs.items()]), n) for logs, n in parts)
    return math.fsum(n * grown for grown, n in each)


def compose(parts: Parts, step: float, delta: float, lost: float) -> tuple[float, float]:
    """Return the bounds on ε(δ) that masses give; the upper one is infinite if it is not found.

    Masses times e^(tilt L) are transformed, so that a small δ is not lost in rounding.
    """
    count = sum(times for _, times in parts)

    def bound(s: float) -> float:  # for δ(ε) ≤ E e^(s (L - ε)) s^s / (s + 1)^(s + 1)
        most = s * math.log(s) - (s + 1) * math.log1p(s)
        return (grow(parts, step, s) + most - math.log(delta)) / s

    tilt = min(POWERS, key=bound)
    grown = grow(parts, step, tilt)
    # the losses above and below which the tilted mass is at most e^-36, by Chernoff's bound
    high = min((grow(parts, step, tilt + s) - grown + 36) / s for s in POWERS)
    low = max((grow(parts, step, tilt - s) - grown + 36) / -s for s in POWERS)
    first = math.floor(low / step)
    size = 1 << (math.ceil(high / step) - first + 1).bit_length()
    if size * len(parts) > LARGEST:
        raise OverflowError
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

    def find_last(aim: float, error: float) -> float:
        """Return the last loss of the grid at which δ is above the aim.

        δ(ε) = e^(grown - tilt ε) (Σ_{l > ε} t e^(-tilt (l - ε)) (1 - e^(ε - l)) + error).
        """
        u = v = 0.0
        for k in range(first + size - 1, first - 1, -1):
            u = back[k % size].real / size + u * math.exp(-tilt * step)
            v = back[k % size].real / size + v * math.exp(-(tilt + 1) * step)
            level = u - v + error
            if level > 0 and math.log(level) + grown - tilt * k * step > math.log(aim):
                return k * step if k < first + size - 1 else math.inf
        return 0.0

    least, most = find_last(delta + chance, -slack) - moved, find_last(delta - lost, slack) + step
    return max(0.0, least), most


@cache
def bound_epsilon(events: tuple[tuple[Event, int], ...], delta: float) -> tuple[float, float]:
    """Return bounds on the ε(δ) of a composition, or refuse what cannot be decided.

    Noise inside an objective costs at least what it costs without the Jacobian.
    """
    rest = [(event, n) for event, n in events if event.kind != "gaussian" or event.rate < 1]
    plain = math.fsum(event.ratio**2 * n for event, n in events if (event, n) not in rest)
    merged = rest + ([(Event("gaussian", math.sqrt(plain)), 1)] if plain > 0 else [])
    orders = {False, *(event.rate < 1 and not event.two for event, _ in rest)}
    found = [refine(merged, delta, turned) for turned in orders]
    low, high = map(max, zip(*found, strict=True))
    if any(event.kind == "inside" for event, _ in rest):
        least = [(Event("gaussian", e.ratio) if e.kind == "inside" else e, n) for e, n in events]
        low = bound_epsilon(tuple(least), delta)[0]
    return low, high


def refine(events: Sequence[tuple[Event, int]], delta: float, turned: bool) -> tuple[float, float]:
    """Return bounds of one order, on grids ever finer until they are near each other."""
    count = sum(n for _, n in events)
    low, high, step, tail = 0.0, math.inf, 0.5 / math.sqrt(count), 1e-7 * delta / count
    with suppress(ArithmeticError, ValueError):  # losses beyond what floats hold
        for _ in range(8 if delta > 1e-200 else 0):
            masses = [(weigh(event, step, tail, turned), n) for event, n in events]
            parts = [({k: math.log(p) for k, p in m.items() if p > 0}, n) for m, n in masses]
            low, high = compose(parts, step, delta, 2 * tail * count)
            if high < math.inf and high - low <= GOAL * high:
                return low, high
            # the distance is a multiple of the step
            step *= max(0.1, 0.8 * GOAL * high / (high - low)) if high < math.inf else 0.3
    raise RefusedError(f"epsilon could not be decided: it is between {low:.6g} and {high:.6g}")
