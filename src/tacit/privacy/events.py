"""Events for the accountant: released answers by their noise relative to sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tacit import checks
from tacit.errors import InputError


@dataclass(frozen=True)
class _NoisedAnswer:
    """An answer with added noise; the multiplier is its scale over the sensitivity.

    Raises
    ------
    InputError
        If the multiplier is not a positive, finite number.
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


# below this the accountant's grid would have to resolve losses finer than rounding
LEAST_RATE = 1e-9


@dataclass(frozen=True)
class Sampled:
    """A noised answer on a Poisson batch: every record takes part independently with `rate`.

    The batch must have been drawn by the oracle itself and stay hidden, and the answer must be a
    sum over the batch divided by a public number.
    Under replace-one the sensitivity behind the multiplier must be twice the norm bound of one
    record's term (the accountant relies on it).

    Raises
    ------
    InputError
        If the rate is not in [1e-9, 1], or the event inside is not one noised answer.
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

    Attributes
    ----------
    multiplier
        Standard deviation of the noise / how far one unit can move the gradient.
    jacobian
        log(1 + beta / lam), beta the smoothness of one record's term, lam the strong convexity of
        everything else.
    output_ratio
        The minimiser is computed to a residual only and released with a little noise on top, of
        multiplier `multiplier / output_ratio`, which covers the residual: one more Gaussian answer.

    Raises
    ------
    InputError
        If the multiplier is not positive and finite, or another number is negative or not finite.
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

    Every batch of that size must be equally likely, drawn afresh by the oracle and kept hidden.
    The multiplier is the standard deviation over the replace-one sensitivity on one batch.

    Raises
    ------
    InputError
        If the batch is empty or larger than the data, or the event is not a Gaussian answer.
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
    """An answer without noise: nothing finite can be promised."""


Event: TypeAlias = GaussianAnswer | LaplaceAnswer | PerturbedAnswer | Sampled | FixedSize | Exact


def sampled(event: Event, rate: float, size: int = 0) -> Event:
    """Return the event on a batch: itself at rate 1 and where nothing hides it.

    The batch is Poisson, or of a fixed size if one is given: `size` out of `size / rate` records.

    Examples
    --------
    >>> sampled(GaussianAnswer(2.0), 0.1)
    Sampled(event=GaussianAnswer(multiplier=2.0), rate=0.1)
    """
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
