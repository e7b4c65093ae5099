"""Two-sided bounds on the ε of a composition of pairs, by privacy losses on a grid.

An event is cut into cells of the loss log(dP/dQ). Upwards every cell's P and Q masses go to its two
ends (connect the dots, Doroshenko et al. 2022); downwards cells are grouped until the ratio of a
group is that of a grid point, which is post-processing. Either error is of second order in the
step. The masses are tilted by e^(λ loss) before the Fourier transform, so that also a small δ is
resolved.
"""

import cmath
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from taciturn_verify.inside import trace_inside

# masses of P and Q at the losses in [start + k·fine, start + (k+1)·fine)
Cells = Mapping[int, tuple[float, float]]
FINE = 4  # cells in a step of the grid
LARGEST = 1 << 17  # the longest transform; in all, 64 of them


@dataclass(frozen=True)
class Event:
    """A pair: gaussian, laplace, or inside; 1/z; q; `two` unless zero_out; J of inside."""

    kind: str
    ratio: float
    rate: float = 1.0
    two: bool = False
    shift: float = 0.0


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _spread_gaussian(event: Event, loss: float) -> tuple[float, float, float, float]:
    """Return P(L < l), P(L >= l), Q(L < l), Q(L >= l)."""
    u, q = event.ratio, event.rate
    if not event.two:
        base = loss if q == 1 else _unmix(loss, q)
        x = base / u + u / 2  # where P₁ is N(u, 1) and P₀ is N(0, 1)
        zero, one = (_phi(x), _phi(-x)), (_phi(x - u), _phi(u - x))
        return _mix(q, zero, one) + zero
    c, grown = q / (1 - q) * math.exp(-u * u / 8), math.expm1(abs(loss))
    x = math.copysign(
        2 / u * math.log((grown + math.sqrt(grown * grown + 4 * (grown + 1) * c * c)) / (2 * c)),
        loss,
    )
    zero = (_phi(x), _phi(-x))
    return _mix(q, zero, (_phi(x - u / 2), _phi(u / 2 - x))) + _mix(
        q, zero, (_phi(x + u / 2), _phi(-u / 2 - x))
    )


def _spread_laplace(event: Event, loss: float) -> tuple[float, float, float, float]:
    u, q = event.ratio, event.rate
    base = loss if q == 1 else _unmix(loss, q)
    if abs(base) > u * (1 - 1e-12):  # the atoms, but for rounding, are at u and -u
        if base > u * (1 + 1e-12) or base < 0:
            return (1.0, 0.0, 1.0, 0.0) if base > 0 else (0.0, 1.0, 0.0, 1.0)
        base = u
    low, high = 0.5 * math.exp((base - u) / 2), 0.5 * math.exp((-base - u) / 2)
    zero, one = (1 - high, high), (low, 1 - low)
    return _mix(q, zero, one) + zero


def _unmix(loss: float, q: float) -> float:
    """Return the loss l₀ with log(1 - q + q e^l₀) = l."""
    excess = (math.expm1(loss) + q) / q
    return math.log(excess) if excess > 0 else -math.inf


def _mix(q: float, zero: tuple[float, float], one: tuple[float, float]) -> tuple[float, float]:
    return (1 - q) * zero[0] + q * one[0], (1 - q) * zero[1] + q * one[1]


def _spread(event: Event, loss: float) -> tuple[float, float, float, float]:
    return (_spread_laplace if event.kind == "laplace" else _spread_gaussian)(event, loss)


@cache
def cut_cells(event: Event, step: float, tail: float, turned: bool) -> tuple[Cells, float]:
    """Return the cells of an event (turned: of Q and P) but for tails, and their start."""
    if event.kind == "inside":
        return trace_inside(event.ratio, event.shift, not event.two, step / FINE, tail), 0.0
    fine, start = step / FINE, 0.0
    if event.kind == "laplace":  # the largest loss is an atom: it must be a point of the grid
        top = math.log1p(event.rate * math.expm1(event.ratio))
        start = -math.log1p(event.rate * math.expm1(-event.ratio)) if turned else top
        start = math.remainder(start, step) * (-1 if turned else 1)
    low, high = (_find_end(event, start, fine, tail, way) for way in (-1, 1))
    points = [_spread(event, start + k * fine) for k in range(low, high + 1)]
    cells = {
        low + i: (_part(a[0], a[1], b[0], b[1]), _part(a[2], a[3], b[2], b[3]))
        for i, (a, b) in enumerate(pairwise(points))
    }
    return ({-k - 1: (q, p) for k, (p, q) in cells.items()}, -start) if turned else (cells, start)


def _part(below: float, above: float, below_next: float, above_next: float) -> float:
    """Return the mass between two points, from whichever tail does not cancel."""
    return max(0.0, above - above_next if above < below else below_next - below)


def _find_end(event: Event, start: float, fine: float, tail: float, way: int) -> int:
    """Return a grid point, out from 0, beyond which P and Q have at most the tail."""

    def ends(reach: int) -> bool:
        spread = _spread(event, start + way * reach * fine)
        return max(spread[1::2] if way > 0 else spread[::2]) <= tail

    low, high = 0, 1
    while not ends(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if ends(middle) else (middle, high)
    return way * high


def raise_masses(cells: Cells, start: float, step: float) -> dict[int, float]:
    """Return masses of P on the grid start + k·step that are no more private than the cells."""
    whole: dict[int, tuple[float, float]] = {}
    for cell, (p, q) in cells.items():
        old = whole.get(cell // FINE, (0.0, 0.0))
        whole[cell // FINE] = old[0] + p, old[1] + q
    masses: dict[int, float] = {}
    for k, (p, q) in whole.items():
        # x + y = p and x e^-a + y e^-(a+step) = q
        y = min(p, max(0.0, (p - q * math.exp(start + k * step)) / -math.expm1(-step)))
        masses[k] = masses.get(k, 0.0) + p - y
        masses[k + 1] = masses.get(k + 1, 0.0) + y
    return {k: p for k, p in masses.items() if p > 0}


def lower_masses(cells: Cells, start: float, step: float) -> dict[int, float]:
    """Return masses of P that are no less private: groups of cells of the ratio of a grid point.

    Groups are filled from the largest losses on, which matter most.
    """
    masses: dict[int, float] = {}

    def put(k: int, p: float, q: float) -> None:
        masses[k] = masses.get(k, 0.0) + min(p, q * math.exp(start + k * step))

    goal, held_p, held_q = 0, 0.0, 0.0
    for cell in sorted(cells, reverse=True):
        p, q = cells[cell]
        if p <= 0 or q <= 0:  # outcomes left out make a lower bound
            continue
        point = math.floor((math.log(p / q) - start) / step + 1e-9)
        goal = goal if held_p else point
        ratio = math.exp(start + goal * step)
        if held_p + p < ratio * (held_q + q):
            share = min(1.0, max(0.0, (held_p - ratio * held_q) / (ratio * q - p)))
            put(goal, held_p + share * p, held_q + share * q)
            p, q, goal, held_p, held_q = p * (1 - share), q * (1 - share), point, 0.0, 0.0
        held_p, held_q = held_p + p, held_q + q
    if held_p and held_q:
        goal, held_p, held_q = _fill_last(masses, start, step, held_p, held_q)
        put(goal, held_p, held_q)
    return masses


def _fill_last(
    masses: dict[int, float], start: float, step: float, p: float, q: float
) -> tuple[int, float, float]:
    """Return the place and masses of the last group, filled from near groups, else rounded down."""
    low = math.floor((math.log(p / q) - start) / step + 1e-9)
    ratio = math.exp(start + (low + 1) * step)
    taken: list[int] = []
    if (
        p < q * (ratio + 9 * math.exp(start + low * step)) / 10
    ):  # all but there: rounding costs less
        return low, p, q
    full_p, full_q = p, q
    for k in range(low + 2, low + 6):
        more_p = masses.get(k, 0.0)
        more_q = more_p * math.exp(-start - k * step)
        if more_p and full_p + more_p >= ratio * (full_q + more_q):
            share = (ratio * full_q - full_p) / (more_p - ratio * more_q)
            masses[k] *= 1 - share
            for other in taken:
                del masses[other]
            return low + 1, full_p + share * more_p, full_q + share * more_q
        full_p, full_q = full_p + more_p, full_q + more_q
        taken += [k] if more_p else []
    return low, p, q


def transform(values: Sequence[complex]) -> list[complex]:
    """Return Σ_j x_j e^(-2πi jk/N), N a power of 2 (Stockham's order of the steps)."""
    old, half, block = list(values), len(values) // 2, 1
    while block <= half:
        low, high = old[:half], old[half:]
        sums = [a + b for a, b in zip(low, high, strict=True)]
        turns = _find_turns(half, block)
        turned = [(a - b) * turn for a, b, turn in zip(low, high, turns, strict=True)]
        for q in range(block) if block * block < half else ():
            old[q :: 2 * block], old[q + block :: 2 * block] = sums[q::block], turned[q::block]
        for p in range(0, half, block) if block * block >= half else ():
            old[2 * p : 2 * (p + block)] = sums[p : p + block] + turned[p : p + block]
        block *= 2
    return old


@cache
def _find_turns(half: int, block: int) -> list[complex]:
    turns = [cmath.exp(-1j * math.pi * k / half) for k in range(0, half, block)]
    return [turns[k // block] for k in range(half)]


@dataclass(frozen=True)
class Part:
    """The masses of one event, how often it occurs, and the place of their 0."""

    above: Mapping[int, float]
    below: Mapping[int, float]
    start: float
    times: int


def _grow(parts: Sequence[Part], step: float, power: float) -> float:
    """Return log E e^(power·loss) of the composition, of the upper masses."""
    total = 0.0
    for part in parts:
        terms = [
            math.log(p) + power * (part.start + k * step) for k, p in part.above.items() if p > 0
        ]
        most = max(terms)
        total += part.times * (most + math.log(math.fsum(math.exp(term - most) for term in terms)))
    return total


def _find_tilt(parts: Sequence[Part], step: float, delta: float) -> tuple[float, float, float]:
    """Return the tilt for δ, and the steps up and down from it that bound the ends best."""
    powers = [2 ** (j / 2) for j in range(-4, 29)]
    spans = [2.0**j for j in range(-2, 15)]

    # δ(ε) <= E e^(power (loss - ε)) power^power / (power+1)^(power+1)
    def bound(power: float) -> float:
        most = power * math.log(power) - (power + 1) * math.log1p(power)
        return (_grow(parts, step, power) - math.log(delta) + most) / power

    tilt = min(powers, key=bound)
    # between the powers -1 and 0 the upper masses are no bound for the lower
    below = [-s for s in spans if not -1 < tilt - s < 0]
    return (
        tilt,
        min(spans, key=lambda s: _end_window(parts, step, tilt, s)),
        max(below, key=lambda s: _end_window(parts, step, tilt, s)),
    )


def _end_window(parts: Sequence[Part], step: float, tilt: float, s: float) -> float:
    """Return the loss above (s < 0: below) which the tilted mass is at most e^-36 (Chernoff)."""
    return (_grow(parts, step, tilt + s) - _grow(parts, step, tilt) + 36) / s


def _compose(
    parts: Sequence[Part], step: float, delta: float, lost: float, tilts: tuple[float, float, float]
) -> tuple[float, float] | None:
    """Return the bounds on ε(δ) that masses give; None where they need too long a transform."""
    tilt, above, below = tilts
    grown = _grow(parts, step, tilt)
    high, low = (_end_window(parts, step, tilt, s) for s in (above, below))
    start = sum(part.start * part.times for part in parts)
    first = math.floor((low - start) / step)
    size = 1 << max(4, math.ceil((high - start) / step) - first + 2).bit_length()
    if size > LARGEST or size * len(parts) > 64 * LARGEST:
        return None
    totals: list[list[complex]] = [[1 + 0j] * size, [1 + 0j] * size]
    for part in parts:
        log_sum = _grow([Part(part.above, {}, part.start, 1)], step, tilt)
        packed = [0j] * size
        for masses, unit in ((part.above, 1), (part.below, 1j)):
            for k, p in masses.items():
                packed[k % size] += unit * p * math.exp(tilt * (part.start + k * step) - log_sum)
        spectrum = transform(packed)
        mirrored = [value.conjugate() for value in spectrum[:1] + spectrum[:0:-1]]
        pairs = list(zip(spectrum, mirrored, strict=True))
        totals[0] = [
            t * ((a + b) / 2) ** part.times for t, (a, b) in zip(totals[0], pairs, strict=True)
        ]
        totals[1] = [
            t * ((a - b) / 2j) ** part.times for t, (a, b) in zip(totals[1], pairs, strict=True)
        ]
    back = transform([(a + 1j * b).conjugate() for a, b in zip(*totals, strict=True)])
    # rounding adds at most this to the sum of the masses' errors, by Cauchy and Schwarz
    slack = 2 * math.exp(-36) + 1e-15 * size.bit_length() * math.sqrt(size) * sum(
        part.times for part in parts
    )
    grid = [start + k * step for k in range(first, first + size)]
    upper = [back[k % size].real / size for k in range(first, first + size)]
    lower = [-back[k % size].imag / size for k in range(first, first + size)]
    aims = math.log(delta - lost) - grown, math.log(delta) - grown
    return _solve(lower, grid, tilt, aims[1], -slack), _solve(upper, grid, tilt, aims[0], slack)


def _solve(
    tilted: Sequence[float], grid: Sequence[float], tilt: float, aim: float, slack: float
) -> float:
    """Return the ε at which log δ(ε) is the aim.

    δ(ε) = e^(-tilt ε) (Σ_{l>ε} t e^(-tilt (l-ε)) (1 - e^(ε-l)) + slack).
    """
    step = grid[1] - grid[0]
    fall, fall_more = math.exp(-tilt * step), math.exp(-(tilt + 1) * step)
    u = v = 0.0
    beyond = -math.inf  # log δ at the next point, relative to δ
    for k in range(len(grid) - 1, -1, -1):
        u, v = tilted[k] + fall * u, tilted[k] + fall_more * v
        level = u - v + slack
        here = math.log(level) - tilt * grid[k] - aim if level > 0 else -math.inf
        if here > 0:
            if k == len(grid) - 1:
                return math.inf
            share = -math.expm1(-here) / -math.expm1(
                beyond - here
            )  # δ is a line in e^ε between points
            return max(0.0, grid[k] + math.log1p(share * math.expm1(step)))
        if grid[k] < 0:
            return 0.0
        beyond = here
    return 0.0


@cache
def bound_epsilon(events: tuple[tuple[Event, int], ...], delta: float) -> tuple[float, float]:
    """Return bounds on the ε(δ) of a composition; (0, infinity) if it cannot be found."""
    if any(event.ratio == math.inf for event, _ in events):
        return math.inf, math.inf
    plain = [
        times * event.ratio**2
        for event, times in events
        if event.kind == "gaussian" and event.rate == 1
    ]
    merged = [
        (event, times)
        for event, times in events
        if not (event.kind == "gaussian" and event.rate == 1)
    ]
    if sum(plain) > 0:
        merged.append((Event("gaussian", math.sqrt(math.fsum(plain))), 1))
    merged = [(event, times) for event, times in merged if event.ratio > 0 or event.shift > 0]
    if not merged or delta <= 1e-300:
        return (0.0, 0.0) if not merged else (0.0, math.inf)
    orders = (
        (False, True) if any(event.rate < 1 and not event.two for event, _ in merged) else (False,)
    )
    low = high = 0.0
    for turned in orders:
        bounds = _refine(merged, delta, turned, low)
        low, high = max(low, bounds[0]), max(high, bounds[1])
    return low, high


def _refine(
    events: Sequence[tuple[Event, int]], delta: float, turned: bool, known: float
) -> tuple[float, float]:
    """Return bounds of one order, on grids ever finer until within 0.6 % or below the known."""
    count = sum(times for _, times in events)
    tail = 1e-7 * delta / count
    low, high, step, tilts = 0.0, math.inf, 0.5 / math.sqrt(count), None
    if any(event.ratio > 30 for event, _ in events):  # losses beyond what floats hold
        return low, high
    laplace = [
        (times, event.ratio, event.rate) for event, times in events if event.kind == "laplace"
    ]
    try:
        for _ in range(16):
            if laplace:  # the least and the largest loss, atoms, must be points of the grid
                _, u, q = max(laplace)
                span = math.log1p(q * math.expm1(u)) - math.log1p(q * math.expm1(-u))
                step = span / math.ceil(span / step)
            parts = []
            for event, times in events:
                cells, start = cut_cells(event, step, tail, turned)
                above, below = raise_masses(cells, start, step), lower_masses(cells, start, step)
                parts.append(Part(above, below, start, times))
            tilts = tilts or _find_tilt(parts, step, delta)
            found = _compose(parts, step, delta, 2 * tail * count, tilts)
            if found is None:
                break
            # the hull of an objective's curve at points is above that of the curve by this much
            hull = (
                sum(times for event, times in events if event.kind == "inside") * (step / FINE) ** 2
            )
            low, high = max(low, found[0] - hull / 8), min(high, found[1])
            if high - low <= 0.006 * high or high <= known:
                break
            tilts = tilts if high - low < 0.2 * high else None  # of a grid that is too coarse
            # either bound is wrong by the square of the step
            step *= (
                min(0.6, max(0.25, math.sqrt(0.005 * high / (high - low))))
                if high < math.inf
                else 0.3
            )
    except (OverflowError, ValueError):  # losses beyond what floats hold
        pass
    return low, high
