"""From the questions of a certificate to its figures, and from these to a verdict."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from taciturn_verify.bounds import bound_movement, check_answer, find_ratio
from taciturn_verify.gaussian import (
    FALSE_POSITIVES,
    Lattice,
    choose_mu,
    find_lattice,
    find_mus,
    rate_attacker,
    rate_from_epsilon,
    solve_epsilon,
)
from taciturn_verify.losses import Event, bound_epsilon
from taciturn_verify.reading import Answer, Certificate, Claim, Leg, RefusedError, Terms, read
from taciturn_verify.renyi import convert

Interval = tuple[float, float]
# events, each with the share of its batch of a fixed size (0: none), and how often they occur
Events = dict[tuple[Event, float], int]


@dataclass(frozen=True)
class Verdict:
    """The verdict, its reason in one sentence, and computed bounds (least, most) of the figures."""

    verdict: str
    reason: str
    figures: Mapping[str, Any]


@dataclass(frozen=True)
class Price:
    """What one leg, or all, cost: bounds on epsilon and on the attacker's rate; mu or None."""

    epsilon: Interval = (0.0, 0.0)
    mu: float | None = 0.0
    rate: Interval = (FALSE_POSITIVES, FALSE_POSITIVES)


def verify(document: Mapping[str, Any]) -> Verdict:
    """Return whether the claim of a certificate follows from the rest of it."""
    figures: dict[str, Any] = {}
    try:
        certificate = read(document)
        for leg in certificate.legs:
            _check_leg(leg, certificate.terms)
        _check_parts(certificate)
        _judge(certificate, figures)
        return _conclude(certificate, figures)
    except RefusedError as refused:
        return Verdict("does not follow", str(refused), figures)
    except (ArithmeticError, ValueError):
        return Verdict("does not follow", "a number is beyond what can be computed with", figures)


def _conclude(certificate: Certificate, figures: Mapping[str, Any]) -> Verdict:
    claim = certificate.claim
    asked = [
        a.question.kind for leg in certificate.legs for slot in leg.slots for a in slot.answers
    ]
    if "claimed" in asked and not claim.conditional:
        raise RefusedError("a sensitivity is claimed, but conditional is false")
    if claim.reproduction:
        return Verdict(
            "no guarantee", "a seed repeats the noise or the division of the records", figures
        )
    if claim.epsilon == math.inf:
        return Verdict("no guarantee", "epsilon is infinite", figures)
    if claim.conditional:
        return Verdict(
            "follows under conditions", "every figure follows, where the conditions hold", figures
        )
    return Verdict(
        "follows", "every figure follows from the questions, the noise and the records", figures
    )


def _check_leg(leg: Leg, terms: Terms) -> None:
    for slot in leg.slots:
        for answer in slot.answers:
            for m in {leg.records[agent] for agent in answer.list_agents()}:
                check_answer(answer, leg, terms, m)


def _check_parts(certificate: Certificate) -> None:
    terms = certificate.terms
    several = len(certificate.legs) > 1
    choice = any(leg.choice is not None for leg in certificate.legs)
    if (terms.agents_per_person > 1 or terms.unit == "agent") and (several or choice):
        raise RefusedError(
            "an agent, or a person at several agents, may be in one part and no choice"
        )


def _judge(certificate: Certificate, figures: dict[str, Any]) -> None:
    """Refuse a claim with a figure that does not follow."""
    terms, claim = certificate.terms, certificate.claim
    prices: list[list[Price]] = [[] for _ in claim.agents_epsilon]
    totals = []
    for leg in certificate.legs:
        each, total = _price_leg(leg, terms)
        totals.append(total)
        for agent, price in zip(leg.agents, each, strict=True):
            prices[agent].append(price)
    agents = [_take_dearest(own) for own in prices]
    if any(price.mu is None for price in agents):  # one leg without a mu leaves none to anyone
        agents = [replace(price, mu=None) for price in agents]
    dearest = _take_dearest(agents)
    total = dearest if terms.agents_per_person == 1 else _take_dearest(totals)
    agents = [dearest] * len(agents) if terms.dealt else agents
    figures |= {"epsilon": total.epsilon, "mu": total.mu, "attacker_tpr": total.rate}
    figures["per_agent_epsilon"] = [price.epsilon for price in agents]
    figures["per_agent_mu"] = [price.mu for price in agents]
    _compare("epsilon", claim.epsilon, total.epsilon)
    _compare_mu("mu", claim.mu, total.mu)
    _compare_agents(claim, agents)
    rate = total.rate
    if claim.reproduction:
        rate = 1.0, 1.0
    elif all(price.mu is None for price in totals):
        rate = (rate_from_epsilon(claim.epsilon, terms.delta),) * 2
    figures["attacker_tpr"] = rate
    _compare("attacker_tpr", claim.rate, rate)


def _compare_agents(claim: Claim, agents: Sequence[Price]) -> None:
    for i, (price, epsilon) in enumerate(zip(agents, claim.agents_epsilon, strict=True)):
        _compare(f"per_agent_epsilon of agent {i}", epsilon, price.epsilon)
        if claim.agents_mu is not None and price.mu is not None:
            _compare(f"per_agent_mu of agent {i}", claim.agents_mu[i], (price.mu, price.mu))
    if (claim.agents_mu is None) != (None in [price.mu for price in agents]):
        raise RefusedError("per_agent_mu must be null if a leg is not Gaussian, and only then")


def _compare(name: str, claimed: float, bounds: Interval) -> None:
    low, high = bounds
    slack = 1e-9 * max(1.0, min(claimed, 1e300))
    if not (claimed == low or low - slack <= claimed <= high + slack) or (claimed == math.inf) != (
        high == math.inf
    ):
        needed = f"{low:.12g}" if low == high else f"between {low:.6g} and {high:.6g}"
        raise RefusedError(f"{name} is {needed}, not {claimed:.12g}")


def _compare_mu(name: str, claimed: float | None, mu: float | None) -> None:
    if (claimed is None) != (mu is None):
        raise RefusedError(
            f"{name} must be {'null' if mu is None else f'{mu:.12g}'}, not {claimed}"
        )
    if claimed is not None and mu is not None:
        _compare(name, claimed, (mu, mu))


def _take_dearest(prices: Sequence[Price]) -> Price:
    """Return the largest figures; no mu where one has none."""
    if not prices:
        return Price()
    mus = [price.mu for price in prices if price.mu is not None]
    return Price(
        _take_largest(price.epsilon for price in prices),
        max(mus) if len(mus) == len(prices) else None,
        _take_largest(price.rate for price in prices),
    )


def _take_largest(intervals: Iterable[Interval]) -> Interval:
    lows, highs = zip(*intervals, strict=True)
    return max(lows), max(highs)


def _is_gaussian(leg: Leg) -> bool:
    answers = [answer for slot in leg.slots for answer in slot.answers]
    return leg.noise == "gaussian" and all(
        a.rate == 1 and a.question.kind != "perturbed" for a in answers
    )


def _price_leg(leg: Leg, terms: Terms) -> tuple[list[Price], Price]:
    """Return what a leg costs each of its agents, and a unit at as many as it may be at."""
    count = terms.agents_per_person
    lattice, together = find_lattice(leg, 1), find_lattice(leg, count)
    if leg.choice is not None:
        mus = [choose_mu(leg.choice, terms.relation)] * len(leg.agents)
        each = _price_mus(mus, lattice, terms.delta)
        return each, each[0]
    if leg.noise == "nonoise":
        moved = [math.fsum(e.ratio for e, _ in events) for events in _list_events(leg, terms)]
        each = _price_mus(moved, lattice, terms.delta)
        return each, _take_dearest(each)
    if _is_gaussian(leg):
        mus, total = find_mus(leg, count)
        each = _price_mus(mus, lattice, terms.delta)
        return each, _take_dearest(
            _price_mus([total], together, terms.delta) if count > 1 else each
        )
    if count > 1:
        raise RefusedError(
            "what a leg that is not Gaussian costs a unit at several agents is unspecified"
        )
    delta = lattice.shrink_delta(terms.delta)
    costs = [_bound_events(events, delta) for events in _list_events(leg, terms)]
    each = _price_bounds(costs, lattice, terms)
    return each, _take_dearest(each)


def _price_mus(mus: Sequence[float], lattice: Lattice, delta: float) -> list[Price]:
    shrunk = lattice.shrink_delta(delta)
    curves = [solve_epsilon(mu, shrunk) for mu in mus]
    largest = max((epsilon for epsilon in curves if epsilon < math.inf), default=0.0)
    etas = (
        (lattice.find_eta1(), lattice.find_eta2(), 1e-10 * delta) if lattice.n else (0.0, 0.0, 0.0)
    )
    lifted = [lattice.lift(epsilon, largest) if shrunk > 0 else math.inf for epsilon in curves]
    return [
        Price((epsilon, epsilon), mu, (rate_attacker(mu, *etas),) * 2)
        for epsilon, mu in zip(lifted, mus, strict=True)
    ]


def _price_bounds(costs: Sequence[Interval], lattice: Lattice, terms: Terms) -> list[Price]:
    """Return prices without a mu; a claim may be 1.01 of the upper bound."""
    largest = [max((cost[i] for cost in costs if cost[i] < math.inf), default=0.0) for i in (0, 1)]
    prices = []
    for low, high in costs:
        if low < high and (high == math.inf or high - low > 0.02 * high):
            raise RefusedError(
                f"epsilon could not be decided: it is between {low:.6g} and {high:.6g}"
            )
        lifted = [lattice.lift(cost, most) for cost, most in zip((low, high), largest, strict=True)]
        if lattice.shrink_delta(terms.delta) <= 0:
            lifted = [math.inf, math.inf]
        lifted[1] *= 1.01
        rates = [rate_from_epsilon(epsilon, terms.delta) for epsilon in lifted]
        prices.append(Price((lifted[0], lifted[1]), None, (rates[0], rates[1])))
    return prices


def _list_events(leg: Leg, terms: Terms) -> list[Events]:
    """Return the events of every agent."""
    found: list[Events] = [{} for _ in leg.agents]
    for slot in leg.slots:
        for answer in slot.answers:
            ratio = find_ratio(
                bound_movement(answer, leg), 0.0 if leg.noise == "nonoise" else answer.scale
            )
            for agent in answer.list_agents():
                for key in _make_events(answer, leg, terms, leg.records[agent], ratio):
                    found[agent][key] = found[agent].get(key, 0) + slot.times
    return found


def _make_events(
    answer: Answer, leg: Leg, terms: Terms, m: int, ratio: float
) -> list[tuple[Event, float]]:
    question = answer.question
    kind = "laplace" if leg.noise == "laplace" else "gaussian"
    if ratio in (0, math.inf):
        return [(Event(kind, ratio), 0.0)] if ratio else []
    if question.kind == "perturbed":
        jump = math.log1p(question.get("smoothness") / (m * question.get("rho")))
        again = 2 * m * question.get("residual") / question.get("output_noise") * ratio
        inside = Event("inside", ratio, 1.0, terms.relation != "zero_out", jump)
        return [(inside, 0.0), (Event("gaussian", again), 0.0)]
    if answer.batch:
        n = round(answer.batch / answer.rate)
        return [(Event("gaussian", ratio), answer.batch / n if answer.batch < n else 0.0)]
    return [
        (Event(kind, ratio, answer.rate, answer.rate < 1 and terms.relation != "zero_out"), 0.0)
    ]


def _bound_events(events: Events, delta: float) -> Interval:
    """Return bounds on ε(δ) of the events of one agent."""
    laplace = math.fsum(event.ratio * times for (event, _), times in events.items())
    if not events or delta <= 0:
        return laplace, laplace
    fixed = [(event.ratio, gamma, times) for (event, gamma), times in events.items() if gamma]
    if fixed and all(event.ratio < math.inf for event, _ in events):
        if any(event.kind != "gaussian" or event.rate < 1 for event, _ in events):
            raise RefusedError(
                "batches of a fixed size together with others of another kind are not specified"
            )
        plain = math.fsum(
            event.ratio**2 * times for (event, gamma), times in events.items() if not gamma
        )
        return convert(tuple(sorted(fixed)), plain, delta)
    ordered = sorted(events.items(), key=repr)
    low, high = bound_epsilon(tuple((event, times) for (event, _), times in ordered), delta)
    if all(event.kind == "laplace" and event.rate == 1 for event, _ in events):
        high = min(high, laplace)
    return low, high
