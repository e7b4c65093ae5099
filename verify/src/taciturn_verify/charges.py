"""What the guarantee of an account has room for, and what the events of a charge cost."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mpmath import mp

from taciturn_verify.gaussian import Lattice, solve_epsilon
from taciturn_verify.losses import Event, add_logs, grow_batches
from taciturn_verify.reading import Fields, demand

THETA = 1 - 1e-4  # the share of ε and δ that is not for the lattice
Pair = tuple[Any, Any]  # squares and divergence of one agent


def add_divergence(order: int, delta: float) -> float:
    """Return v(a), by which ε at δ exceeds a divergence."""
    return math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


def solve_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ with δ(ε; μ) ≤ δ."""

    def exceed(mu: Any) -> float:
        return solve_epsilon(float(mu), delta) - epsilon

    high = next(2.0**k for k in range(-30, 30) if exceed(2.0**k) >= 0)
    return float(mp.findroot(exceed, (high / 2, high), solver="illinois", verify=False))


@cache
def find_caps(epsilon: float, delta: float, curves: float, order: int | None) -> Fields:
    """Return the caps of a guarantee."""
    ranged = epsilon <= 1e6 and curves < 1 and (order is None or (curves and 2 <= order <= 1024))
    demand(ranged, "a guarantee is out of range")

    def leaves_room(n: int) -> bool:
        left, rest = epsilon, delta
        for lattice in (Lattice(n, 2.0**24), Lattice(n, 2.0**24, laplace=True)):
            left, rest = left - sum(lattice.find_etas(epsilon)), lattice.shrink(rest)
        rest -= n * 2.0**-100 * (1 + math.exp(min(epsilon, 700)))
        return left >= THETA * epsilon and rest >= THETA * delta

    values = 0
    for digit in reversed(range(44)):
        values += (1 << digit) * leaves_room(values + (1 << digit))
    mu = solve_mu((1 - curves) * THETA * epsilon, (1 - curves) * THETA * delta)
    rooms = {2: 0.0}
    if curves:
        e, d = curves * THETA * epsilon, curves * THETA * delta
        rooms = {a: e - add_divergence(a, d) for a in ([order] if order else range(2, 1025))}
    chosen = max(rooms, key=lambda a: rooms[a] / a)
    demand(values and (rooms[chosen] > 0 or not curves), "a guarantee leaves no room")
    return Fields(squares=mu**2, divergence=rooms[chosen], values=values, order=chosen)


def find_epsilons(
    guarantee: Mapping[str, Any], caps: Mapping[str, Any], total: Mapping[str, Any]
) -> tuple[float, float]:
    """Return the ε at δ that is spent, and the one that is left for one more Gaussian run."""
    delta, share = guarantee["delta"], guarantee["curves"] if total["divergence"] else 0.0
    spent = solve_epsilon(math.sqrt(total["squares"]), (1 - share) * THETA * delta)
    if share:
        spent += total["divergence"] + add_divergence(caps["order"], share * THETA * delta)
    if total["values"]:
        spent += (1 - THETA) * guarantee["epsilon"]
    room = caps["squares"] - total["squares"] if total["values"] < caps["values"] else 0.0
    return spent, solve_epsilon(math.sqrt(max(0.0, room)), delta)


@cache
def find_divergence(event: Event, a: int) -> float:
    """Return the Rényi divergence of order a of an event."""
    _, u, q, two, _ = event
    gaussian = event.kind == "gaussian"
    if event.kind == "fixed":
        return grow_batches(u, q, a)[a] / (a - 1)
    if q == 1:
        ends = [(a / (2 * a - 1), (a - 1) * u), ((a - 1) / (2 * a - 1), -a * u)]
        laplace = add_logs([math.log(share) + loss for share, loss in ends]) / (a - 1)
        return a * u**2 / 2 if gaussian else laplace
    if gaussian:  # by the trapezoidal rule, in error by less than e^-100
        count, unit = math.ceil(20 * a * u + 400), math.sqrt(2 * math.pi) / u
        nodes = [(k / u / 10, 0.1 / u) for k in range(-count, count + 1)]
    else:  # by Simpson's; below 0 and above 1 densities fall as e^(-u|x|)
        unit, nodes = 2 / u, [(k / 4000, (1 + k % 2) / 6000) for k in range(1, 4000)]
        nodes += [(0.0, 1 / u + 1 / 12000), (1.0, 1 / u + 1 / 12000)]

    def log(x: float, shift: float) -> float:
        near, far = u * abs(x), u * abs(x - shift)
        mixed = (near**2 / 2, far**2 / 2) if gaussian else (near, far)
        return add_logs([math.log1p(-q) - mixed[0], math.log(q) - mixed[1]])

    def find_moment(p: float, r: float) -> float:
        logs = [a * log(x, p) - (a - 1) * log(x, r) + math.log(w / unit) for x, w in nodes]
        return add_logs(logs)

    orders = [(0.5, -0.5)] if two else [(1.0, 0.0), (0.0, 1.0)]
    return max(find_moment(*order) for order in orders) / (a - 1)


def find_costs(charge: Fields, terms: Fields, order: int) -> list[Pair]:
    """Return the costs of every agent; of a division without a name, the largest ones."""
    relation, costs = charge.relation, []
    steps = 1 if relation == terms.relation else 2
    alike = steps == 1 or (relation, terms.relation) == ("zero_out", "replace_one")
    demand(alike and charge.unit == terms.unit, "a charge has another unit or relation")
    fine = charge.least_scale is None or charge.least_scale >= 2**24
    demand(fine, "the lattice of a charge is too coarse")
    demand(charge.partition is None or not charge.dealt, "a division that was dealt has a name")
    summed = terms.observer == "sum" and charge.summed
    demand(not summed or charge.colluders >= terms.colluders, "a charge is against fewer colluders")
    seen = charge.summed if summed else charge.messages
    for events in seen.lists:
        squares, others = [], []
        for e in events:
            gaussian, two, sizes = (
                e.event == "gaussian",
                relation == "replace_one",
                (e.batch, e.records),
            )
            if gaussian and (e.rate, *sizes) == (0, 0, 0):
                squares.append(e.count * (steps / e.multiplier) ** 2)
                continue
            if any(sizes):
                ruled = gaussian and two and e.rate == 0 < e.batch <= e.records
                event = Event("fixed", 1 / e.multiplier, e.batch / max(1, e.records))
            else:
                ruled = e.rate in (0, 1) or relation == "zero_out" or (two and gaussian)
                event = Event(e.event, 1 / e.multiplier, e.rate or 1.0, two)
            ruled = ruled and steps == 1 and e.event in ("gaussian", "laplace")
            demand(ruled, "an event of a charge has no rule")
            others.append(e.count * find_divergence(event, order))
        costs.append((math.fsum(squares), math.fsum(others)))
    demand(all(index < len(costs) for index, _ in seen.agents), "a list of events is missing")
    found = spread([(n, *costs[index]) for index, n in seen.agents])
    return found if charge.partition is not None else [find_largest(found)]


def find_largest(costs: Sequence[Pair]) -> Pair:
    """Return the largest squares and the largest divergence."""
    return max(squares for squares, _ in costs), max(other for _, other in costs)


def spread(groups: Sequence[Sequence[Any]]) -> list[Pair]:
    """Return the pair of every agent, given how many have it."""
    demand(0 < sum(n for n, *_ in groups) <= 10**7, "a charge has no agents, or too many")
    return [(squares, other) for n, squares, other in groups for _ in range(n)]
