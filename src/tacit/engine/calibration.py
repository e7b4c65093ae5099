"""Calibration: the noise multiplier at which a plan's own certificate is within its budget."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tacit.engine.program import Design, Draft
from tacit.errors import PrivacyError
from tacit.privacy import (
    Certificate,
    Event,
    Gaussian,
    Laplace,
    Ledger,
    NoNoise,
    Terms,
    gaussian_multiplier,
    multiplier_for_all,
)
from tacit.privacy.lattice import Law, budget_left, lattice_share, lattice_width
from tacit.typing import HostArray

# how much of a budget may be left, relative, where the total is computed numerically
_CLOSE = 1e-6
# what is further below the budget than this is meant to be: bounds that hold for all agents at once
_FAR = 1e-3
# of epsilon, at a multiplier that was found for another lattice
_OTHER_LATTICE = 1e-5
_MOST_TRIES = 30
# -d log(epsilon) / d log(multiplier): the first guess, and what steps are limited to
_SLOPE, _FLATTEST, _STEEPEST = 3.0, 0.25, 20.0


class Settled(NamedTuple):
    """A multiplier, the plan's draft at it, and the certificate of that draft.

    Attributes
    ----------
    excess
        log(epsilon / budget), within [-1, 1]; above 0 if and only if epsilon is above the budget.
    """

    multiplier: float
    draft: Draft
    certificate: Certificate
    excess: float


def within_budget(
    draft: Callable[[float], Draft],
    certify: Callable[[Ledger], Certificate],
    start: float,
    epsilon: float,
    *,
    given: bool,
) -> Settled:
    """Return the least of the multipliers tried whose certificate is within the budget.

    Parameters
    ----------
    start
        The multiplier to start from.
    given
        Whether it is the caller's: it may then leave any part of the budget, and is raised only
        where it exceeds the budget by rounding.

    Raises
    ------
    PrivacyError
        If no certificate is within the budget: a multiplier that was given is too small.

    Notes
    -----
    **Guarantee.** `certificate.epsilon <= epsilon` has been evaluated, from the finished ledger of
    the draft that is returned. The search does not assume that a numerical accountant is monotone:
    its grid moves with the multiplier, so that epsilon jumps by some 1e-7 of itself, and the
    lattice doubles its step where a scale passes a power of two. Where the total is no mu, the
    search ends within a millionth of the budget, or at the cheapest certificate within it that 30
    tries have found. The exact curve of Gaussian answers is as close from the start.
    """

    def tried(multiplier: float) -> Settled:
        drafted = draft(multiplier)
        certificate = certify(drafted.ledger)
        return Settled(multiplier, drafted, certificate, _excess(certificate.epsilon, epsilon))

    settled, best = tried(start), None
    exact = given or start == 0 or settled.draft.ledger.has_mu or settled.excess < -_FAR
    room, most = math.inf if exact else _CLOSE, _OTHER_LATTICE if given else math.inf
    low, high, slope = -math.inf, math.inf, _SLOPE
    for _ in range(_MOST_TRIES):
        if settled.excess <= 0 and (best is None or settled.multiplier < best.multiplier):
            best = settled
        if -room <= settled.excess <= 0 or settled.excess > most or start == 0:
            break
        place = math.log(settled.multiplier)
        low, high = (place, high) if settled.excess > 0 else (low, place)
        step = (settled.excess + _CLOSE / 2) / slope
        if not low < place + step < high:
            step = (low + high) / 2 - place  # it left the bracket at an end that the bracket has
        if step == 0:
            break
        before, settled = settled, tried(settled.multiplier * math.exp(step))
        slope = min(max((before.excess - settled.excess) / step, _FLATTEST), _STEEPEST)
    if best is None:
        raise PrivacyError(
            f"the plan would spend epsilon {settled.certificate.epsilon:.9g}; the budget is "
            f"{epsilon:g}. Leave the multiplier out, or give a larger one or a larger epsilon"
        )
    return best


def _excess(spent: float, budget: float) -> float:
    """Return log(spent / budget) within [-1, 1]; 0 without a budget, above 0 for more than it."""
    if not spent <= budget:
        return max(math.log(min(spent / budget, math.e)), math.ulp(1.0))
    return 0.0 if math.isinf(budget) else math.log(max(spent / budget, math.exp(-1)))


def first_multiplier(design: Design, questions: HostArray, terms: Terms, spread: float) -> float:
    """Return the multiplier with which the budget holds for answers and noise on their lattice.

    Exact to a relative 1e-6 or so: `within_budget` settles the rest.

    Parameters
    ----------
    spread
        How many times the noise for a unit at a single agent (`Adjacency.spread`).
    """
    agents, adjacency, mechanism = design.spec.agents, terms.adjacency, design.mechanism
    asked = design.network.asked(questions) >= 0
    if isinstance(mechanism, NoNoise) or design.inside is not None or not np.any(asked):
        return spread * _multiplier(design, questions, terms)
    values = math.prod(design.oracles[0].answer_shape(design.spec.shape))
    answers = int(np.max(np.sum(asked, axis=(1, 2)))) * min(adjacency.agents_per_person, agents)
    law: Law = "laplace" if isinstance(mechanism, Laplace) else "gaussian"
    epsilon, delta = budget_left(terms.epsilon, terms.delta, values=values * answers, law=law)
    left = dataclasses.replace(terms, epsilon=epsilon, delta=delta)
    real = spread * _multiplier(design, questions, left)
    width = lattice_width(values, mechanism.norm)
    shares = [
        lattice_share(
            1.01 * real * oracle.noise.relative_multiplier,
            width,
            poisson=oracle.sampling.rate < 1 and not oracle.sampling.size,
        )
        for oracle in design.oracles
    ]
    return real * (1 + max(shares)) * (1 + 1e-12)


def _multiplier(design: Design, questions: HostArray, terms: Terms) -> float:
    """Return the multiplier at which all questions fit the budget, each with its relative one."""
    mechanism, inside = design.mechanism, design.inside
    asked = design.network.asked(questions)
    if asked.strides[0] == 0:  # all agents are asked the same
        asked = asked[:1]
    per_agent = [Counter(row[row >= 0].tolist()) for row in asked]
    most = functools.reduce(operator.or_, per_agent)  # the most answers of an agent, by question
    if isinstance(mechanism, NoNoise) or not most:
        return 0.0
    counts = [(design.oracles[number], count) for number, count in most.items()]
    plain = all(o.sampling.rate == 1 and o.noise.relative_multiplier == 1 for o, _ in counts)
    if isinstance(mechanism, Gaussian) and inside is None and plain:
        answers = max(counter.total() for counter in per_agent)
        return gaussian_multiplier(terms.epsilon, terms.delta, answers)

    def event(multiplier: float) -> Event:
        return mechanism.event(multiplier) if inside is None else inside.worst(multiplier)

    def events(multiplier: float) -> list[tuple[Event, int]]:
        return [
            (oracle.sampling.charged(event(multiplier * oracle.noise.relative_multiplier)), count)
            for oracle, count in counts
        ]

    return multiplier_for_all(
        events, epsilon=terms.epsilon, delta=terms.delta, relation=terms.adjacency.relation
    )
