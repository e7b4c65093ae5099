"""From the questions of a certificate to its figures, and from the figures to a verdict."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from taciturn_verify.bounds import bound_movement, check_answer, find_ratio
from taciturn_verify.gaussian import Lattice, find_lattice, find_mus, rate_epsilon, solve_epsilon
from taciturn_verify.losses import Event, bound_epsilon
from taciturn_verify.reading import Fields, RefusedError, demand, read


class Verdict(NamedTuple):
    """The verdict, its reason in one sentence, and computed bounds (least, most) of the figures."""

    verdict: str
    reason: str
    figures: Mapping[str, Any]


class Price(NamedTuple):
    """What one leg, or all, cost: mu, bounds on epsilon, and bounds on the attacker's rate."""

    mu: float
    low: float
    high: float
    low_rate: float
    high_rate: float


def verify(document: Mapping[str, Any]) -> Verdict:
    """Return whether the claim of a certificate follows from the rest of it."""
    figures: dict[str, Any] = {}
    try:
        certificate = read(document)
        _check_legs(certificate)
        _compare_figures(certificate, figures)
    except RefusedError as refused:
        return Verdict("does not follow", str(refused), figures)
    except (ArithmeticError, ValueError):
        return Verdict("does not follow", "a number is beyond floating-point arithmetic", figures)
    if certificate.claim.reproduction:
        return Verdict("no guarantee", "a seed repeats noise or the division of records", figures)
    if certificate.claim.epsilon == math.inf:
        return Verdict("no guarantee", "epsilon is infinite", figures)
    if certificate.claim.conditional:
        return Verdict("follows under conditions", "every figure follows, if they hold", figures)
    return Verdict("follows", "every figure follows from questions, noise and records", figures)


def _check_legs(certificate: Fields) -> None:
    terms, legs = certificate.terms, certificate.legs
    alone, single = len(legs) == 1 and "choice" not in vars(legs[0]), terms.agents_per_person == 1
    demand(alone or (single and terms.unit != "agent"), "an agent must be in one part, no choice")
    demand(single or legs[0].gaussian, "at several agents only Gaussian costs are specified")
    for leg in legs:
        for answer in leg.answers:
            sworn = answer.question.kind != "claimed" or certificate.claim.conditional
            demand(sworn, "a sensitivity is claimed, but conditional is false")
            for m in {leg.records[agent] for agent in answer.agents}:
                check_answer(leg, answer, terms, m)


def _compare_figures(certificate: Fields, figures: dict[str, Any]) -> None:
    terms, claim = certificate.terms, certificate.claim
    exact = [leg.gaussian for leg in certificate.legs]
    owed = [[Price(0.0, 0.0, 0.0, 0.01, 0.01)] for _ in claim.per_agent_epsilon]
    for leg in certificate.legs:
        each, total = price_leg(leg, terms)
        for agent, price in zip(leg.agents, each, strict=True):
            owed[agent].append(price)
    agents = [Price(*map(max, zip(*prices, strict=True))) for prices in owed]
    dearest = Price(*map(max, zip(*agents, strict=True)))
    total = total if terms.agents_per_person > 1 else dearest
    agents = [dearest] * len(agents) if terms.dealt else agents
    rate = total[3:] if any(exact) else (rate_epsilon(claim.epsilon, terms.delta),) * 2
    figures |= {
        "epsilon": (total.low, total.high),
        "per_agent_epsilon": [(price.low, price.high) for price in agents],
        "mu": (total.mu, total.mu) if all(exact) else None,
        "per_agent_mu": [(price.mu, price.mu) for price in agents] if all(exact) else None,
        "attacker_tpr": (1.0, 1.0) if claim.reproduction else rate,
    }
    most = max(claim.per_agent_epsilon)
    rows = [("epsilon", claim.epsilon, (most, most))] if terms.agents_per_person == 1 else []
    rows += [("dealt", own, (most, most)) for own in claim.per_agent_epsilon if terms.dealt]
    for name, needed in figures.items():
        claimed = getattr(claim, name)
        demand((claimed is None) == (needed is None), f"{name} must be null unless all is Gaussian")
        listed = zip(claimed, needed, strict=True) if isinstance(claimed, list) else None
        rows += [(name, *both) for both in listed or [(claimed, needed)] if needed]
    for name, figure, (low, high) in rows:
        slack = 1e-9 * max(1.0, min(figure, 1e300))
        within = low - slack <= figure <= high + slack and (figure < math.inf) == (high < math.inf)
        demand(within, f"{name} is {figure:.12g}, not from {low:.12g} to {high:.12g}")


def price_leg(leg: Fields, terms: Fields) -> tuple[list[Price], Price]:
    """Return the cost of a leg for each agent, and for a unit at the most agents that hold it."""
    delta, several, lattice = terms.delta, terms.agents_per_person, find_lattice(leg)
    if leg.gaussian:
        mus, mu = find_mus(leg, several, terms.relation)
        together = _price_mus([mu], lattice._replace(n=several * lattice.n), delta)
        return _price_mus(mus, lattice, delta), together[0]
    events: list[Counter[Event]] = [Counter() for _ in leg.agents]
    for answer in leg.answers:
        for agent in answer.agents:
            own = _make_events(leg, answer, terms, leg.records[agent])
            events[agent].update(dict.fromkeys(own, answer.times))
    found = [bound_epsilon(tuple(sorted(own.items())), lattice.shrink(delta)) for own in events]
    lows, highs = (lattice.lift(ends, delta) for ends in zip(*found, strict=True))
    ends = zip(lows, (1.01 * high for high in highs), strict=True)  # as high as claims may be
    each = [Price(0.0, *pair, *(rate_epsilon(end, delta) for end in pair)) for pair in ends]
    return each, each[0]


def _price_mus(mus: Sequence[float], lattice: Lattice, delta: float) -> list[Price]:
    curve = {mu: solve_epsilon(mu, lattice.shrink(delta)) for mu in set(mus)}
    rates = {mu: (lattice.rate_mu(mu, delta),) * 2 for mu in curve}
    lifted = lattice.lift([curve[mu] for mu in mus], delta)
    return [Price(mu, end, end, *rates[mu]) for mu, end in zip(mus, lifted, strict=True)]


def _make_events(leg: Fields, answer: Fields, terms: Fields, m: int) -> list[Event]:
    question, two = answer.question, terms.relation != "zero_out"
    ratio = find_ratio(bound_movement(leg, answer), answer.scale)
    if question.kind == "perturbed":  # if no gradient moves, curvature may
        jump = math.log1p(question.smoothness / (m * question.rho))
        again = 2 * m * question.residual / question.output_noise * ratio
        return [Event("inside", max(ratio, 1e-9), two=two, jump=jump), Event("gaussian", again)]
    if ratio == 0:
        return []
    if answer.batch:
        n = round(answer.batch / answer.rate)
        return [Event("fixed" if answer.batch < n else "gaussian", ratio, answer.batch / n)]
    return [Event(leg.noise, ratio, answer.rate, two)]
