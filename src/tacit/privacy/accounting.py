"""Accounting: epsilon of a sequence of answers at a given delta."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tacit import checks
from tacit.errors import InputError
from tacit.privacy import gaussian
from tacit.privacy.events import Event, Exact, FixedSize, GaussianAnswer, LaplaceAnswer, Sampled
from tacit.privacy.fixed_size import fixed_size_epsilon
from tacit.privacy.losses import numerical_epsilon
from tacit.privacy.relations import Relation


@dataclass(frozen=True)
class Spending:
    """A total: (epsilon, delta), and mu where the law is exactly Gaussian (else None)."""

    epsilon: float
    delta: float
    mu: float | None


def account(events: Sequence[tuple[Event, int]], *, delta: float, relation: Relation) -> Spending:
    """Return what answers given in sequence by one agent cost together.

    Plain Gaussian answers: mu = sqrt(sum count/multiplier^2), then the exact Gaussian curve.
    An exact answer: epsilon is infinite. Anything else: an upper bound by privacy-loss
    distributions, and for Laplace answers never more than sum count/multiplier (basic composition).
    No answers: epsilon is 0.

    Parameters
    ----------
    events
        Pairs (event, how often). Equal events are merged first.
    delta
        Above 0 and below 1.
    relation
        The neighbouring relation that the multipliers were computed for.

    Raises
    ------
    InputError
        If delta or a count is out of range, something is not an event, or sampling is combined
        with a relation for which no sound accountant is known.

    Notes
    -----
    **Guarantee.** Answers compose adaptively: each multiplier is fixed in advance and holds at
    every query, so choosing queries from earlier answers changes nothing. The Gaussian case is
    exact (`gaussian.compose`), the rest an upper bound (`losses.numerical_epsilon`).
    Batches of a fixed size have Renyi bounds (`fixed_size.fixed_size_epsilon`). Sampling at rate 1,
    or of all records, is no sampling.

    Examples
    --------
    >>> from tacit.privacy.relations import ReplaceOne
    >>> spent = account([(GaussianAnswer(10.0), 100)], delta=1e-6, relation=ReplaceOne())
    >>> f"{spent.epsilon:.5f}", spent.mu
    ('4.88655', 1.0)
    """
    delta = checks.delta(delta)
    counts = merged(events)
    if any(isinstance(event, Exact) for event in counts):
        return Spending(math.inf, delta, math.inf)
    plain = [(e, n) for e, n in counts.items() if isinstance(e, GaussianAnswer)]
    if len(plain) == len(counts):
        mu = math.sqrt(math.fsum(n / e.multiplier / e.multiplier for e, n in plain))
        return Spending(gaussian.epsilon_of(delta, mu), delta, mu)
    if any(isinstance(event, FixedSize) for event in counts):
        return Spending(fixed_size_epsilon(counts, delta, relation), delta, None)
    numerical = numerical_epsilon(counts, delta, relation)
    return Spending(min(numerical, _pure_epsilon(counts)), delta, None)


def _pure_epsilon(counts: Counter[Event]) -> float:
    """Return the basic composition of Laplace answers, epsilon = sum count/multiplier, delta 0."""
    if not all(isinstance(event, LaplaceAnswer) for event in counts):
        return math.inf
    return math.fsum(n / e.multiplier for e, n in counts.items() if isinstance(e, LaplaceAnswer))


def merged(events: Sequence[tuple[Event, int]]) -> Counter[Event]:
    """Return how often each different event took place; sampling at rate 1 is dropped."""
    counts: Counter[Event] = Counter()
    for event, count in events:
        if not isinstance(event, Event):
            raise InputError(
                f"{event!r} is not an event; use GaussianAnswer, LaplaceAnswer, Sampled, FixedSize "
                "or Exact"
            )
        plain: Event = event
        if isinstance(event, Sampled) and event.rate == 1:
            plain = event.event
        if isinstance(event, FixedSize) and event.batch == event.records:
            plain = event.event
        counts[plain] += checks.at_least("the count of an event", count, 0)
    return +counts
