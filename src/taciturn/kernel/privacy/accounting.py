"""Accounting: the total cost of answers given in sequence by one agent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.privacy import gaussian
from taciturn.kernel.privacy.terms import Relation


@dataclass(frozen=True)
class _NoisedAnswer:
    """An answer with added noise; the multiplier is its scale over the sensitivity.

    Raises `InputError` if the multiplier is not a positive, finite number.
    """

    multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "multiplier", checks.positive("multiplier", self.multiplier))


@dataclass(frozen=True)
class GaussianAnswer(_NoisedAnswer):
    """An answer with Gaussian noise; multiplier = standard deviation / Euclidean sensitivity."""


@dataclass(frozen=True)
class LaplaceAnswer(_NoisedAnswer):
    """An answer with Laplace noise; multiplier = scale b / sensitivity in the 1-norm."""


# below this rate the accountant's grid would have to resolve losses smaller than rounding errors
LEAST_RATE = 1e-9
# up to this epsilon the delta set aside covers batches that overflow
# (`taciturn.kernel.questions.sampling.poisson_draw`)
MOST_EPSILON_OF_POISSON = 50.0


@dataclass(frozen=True)
class Sampled:
    """A noised answer on a Poisson batch: every record takes part independently with `rate`.

    The batch must be drawn by the oracle and stay hidden, and the answer must be a sum over the
    batch divided by a public number. Under replace-one the sensitivity in the multiplier must be
    twice the norm bound of one record's term.
    """

    event: GaussianAnswer | LaplaceAnswer
    rate: float

    def __post_init__(self) -> None:
        if not isinstance(self.event, GaussianAnswer | LaplaceAnswer):
            raise InputError(
                f"a sampled event holds {self.event!r}; it must be GaussianAnswer or LaplaceAnswer"
            )
        object.__setattr__(self, "rate", checks.fraction("rate", self.rate))
        if self.rate < LEAST_RATE:
            raise InputError(f"rate is {self.rate:g}; it must be at least {LEAST_RATE:g}")


@dataclass(frozen=True)
class PerturbedAnswer:
    """The minimiser of a function with Gaussian noise in its gradient (`objective_deltas`).

    `multiplier`: standard deviation of the noise / how far one unit can move the gradient.
    `jacobian`: log(1 + beta / lam), beta the smoothness of one record's term, lam the strong
    convexity of everything else. `output_ratio`: the minimiser is computed up to a residual, which
    noise on the output of multiplier `multiplier / output_ratio` covers: one more Gaussian answer.
    """

    multiplier: float
    jacobian: float
    output_ratio: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "multiplier", checks.positive("multiplier", self.multiplier))
        for name in ("jacobian", "output_ratio"):
            object.__setattr__(self, name, checks.not_negative(name, getattr(self, name)))


@dataclass(frozen=True)
class FixedSize:
    """A Gaussian answer on a batch of `batch` of `records` records, drawn without replacement.

    Every batch of that size must be equally likely, drawn for each answer by the oracle and kept
    hidden. The multiplier is the standard deviation over the replace-one sensitivity on one batch.
    """

    event: GaussianAnswer
    batch: int
    records: int

    def __post_init__(self) -> None:
        if not isinstance(self.event, GaussianAnswer):
            raise InputError(f"a fixed-size batch holds {self.event!r}; it must be GaussianAnswer")
        for name in ("batch", "records"):
            object.__setattr__(self, name, checks.at_least(name, getattr(self, name), 1))
        if self.batch > self.records:
            raise InputError(
                f"a batch of {self.batch} is larger than the {self.records} records; "
                "ask for at most all of them"
            )


@dataclass(frozen=True)
class Exact:
    """An answer without noise, of infinite epsilon."""


Event: TypeAlias = GaussianAnswer | LaplaceAnswer | PerturbedAnswer | Sampled | FixedSize | Exact


def sampled(event: Event, rate: float, size: int = 0) -> Event:
    """Return the event on a Poisson batch, or on a fixed `size` out of `size / rate` records."""
    if isinstance(event, Exact) or rate == 1:
        return event
    if isinstance(event, Sampled | FixedSize | PerturbedAnswer):
        raise InputError(f"{event!r} cannot be sampled; give a noised answer on a full batch")
    if size:
        if not isinstance(event, GaussianAnswer):
            raise InputError(
                "batches of a fixed size are accounted for with Gaussian noise only; use Poisson "
                "batches or Gaussian noise"
            )
        return FixedSize(event, size, round(size / rate))
    return Sampled(event, rate)


@dataclass(frozen=True)
class Spending:
    """A total cost: (epsilon, delta), and mu if the law is exactly Gaussian (else None)."""

    epsilon: float
    delta: float
    mu: float | None


def account(events: Sequence[tuple[Event, int]], *, delta: float, relation: Relation) -> Spending:
    """Return the total cost of answers given in sequence by one agent.

    Plain Gaussian answers: mu = sqrt(sum count/multiplier^2), then the exact Gaussian curve.
    An exact answer: epsilon is infinite. Anything else: an upper bound by privacy-loss
    distributions, and for Laplace answers never more than sum count/multiplier (basic composition).
    No answers: epsilon is 0.

    `events`: pairs (event, how often). `relation`: the neighbouring relation that the multipliers
    were computed for. Raises `InputError` if sampling is combined with a relation for which no
    sound accountant is known.

    **Guarantee.** Answers compose adaptively: each multiplier is fixed in advance and holds at
    every query, so choosing queries from earlier answers changes nothing. The Gaussian case is
    exact (`Ledger.mu_per_agent`), the rest an upper bound (`numerical.numerical_epsilon`). Batches
    of a fixed size have Renyi bounds (`numerical.fixed_size_epsilon`). Sampling at rate 1, or of
    all records, counts as no sampling.
    """
    delta = checks.delta(delta)
    counts = merged(events)
    if any(isinstance(event, Exact) for event in counts):
        return Spending(math.inf, delta, math.inf)
    plain = [(e, n) for e, n in counts.items() if isinstance(e, GaussianAnswer)]
    if len(plain) == len(counts):
        mu = math.sqrt(math.fsum(n / e.multiplier / e.multiplier for e, n in plain))
        return Spending(gaussian.epsilon_of(delta, mu), delta, mu)
    from taciturn.kernel.privacy import numerical  # noqa: PLC0415 - dp_accounting takes 0.4 s to import

    if any(isinstance(event, FixedSize) for event in counts):
        return Spending(numerical.fixed_size_epsilon(counts, delta, relation), delta, None)
    epsilon = numerical.numerical_epsilon(counts, delta, relation)
    if all(isinstance(event, LaplaceAnswer) for event in counts):
        pure = (n / e.multiplier for e, n in counts.items() if isinstance(e, LaplaceAnswer))
        epsilon = min(epsilon, math.fsum(pure))  # basic composition
    return Spending(epsilon, delta, None)


def merged(events: Sequence[tuple[Event, int]]) -> Counter[Event]:
    """Return the count of each distinct event; sampling at rate 1 is dropped."""
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
