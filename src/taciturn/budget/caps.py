"""The caps of an account: limits on the summed costs of its answers that ensure (E, D).

Derived in `docs/explanation/accounts.md`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from taciturn import checks
from taciturn.calibration import budget_after_lattice, mu_of
from taciturn.errors import InputError
from taciturn.kernel.privacy import LEAST_SCALE, MOST_EPSILON, PER_VALUE

# share of epsilon and of delta for the correction of the arithmetic and the test of the noise
ARITHMETIC_SHARE = 1e-4
_MOST_ORDER = 1024
_MOST_VALUES = 2**44


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of an account for all runs that it ever charges.

    `epsilon`, `delta`: E and D, the pair that holds for all runs together. `curves`: the share of
    both, in [0, 1), for answers other than Gaussian on all records. `order`: of the Renyi
    divergences in which those are summed; None for the order that leaves most room for small
    events; batches of small rates need a lower one. Raises `InputError` if a number is out of
    range.
    """

    epsilon: float
    delta: float
    curves: float = 0.0
    order: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", checks.delta(self.delta))
        object.__setattr__(self, "curves", checks.below_one("curves", self.curves))
        if self.order is not None:
            object.__setattr__(self, "order", checks.at_least("order", self.order, 2))
            if self.order > _MOST_ORDER or self.curves == 0:
                raise InputError(
                    f"order is {self.order}; give one of at most {_MOST_ORDER}, together with a "
                    "share of the curves"
                )
        if self.epsilon > MOST_EPSILON:
            raise InputError(
                f"epsilon {self.epsilon:g} protects nothing; give at most {MOST_EPSILON:g}"
            )


@dataclass(frozen=True)
class Caps:
    """Limits on the summed costs of an account's answers.

    - `order`, `divergence`: a and r: r limits the sum of Renyi divergences of order a, over all
      other answers.
    - `least_scale`: The least noise scale allowed, in steps of its lattice.
    """

    squares: float  # M^2: limits the sum of mu^2 over Gaussian answers on all records
    order: int
    divergence: float
    values: int  # N: limits the count of released numbers
    least_scale: float = LEAST_SCALE


@functools.lru_cache(maxsize=64)
def caps_of(guarantee: Guarantee) -> Caps:
    """Return the caps under which a guarantee holds.

    Raises `InputError` if delta is too small for the correction of the arithmetic.

    **Guarantee.** With N values the correction leaves at least (1 - 1e-4) of E and of D for rounded
    noise, the tests of the noise of all runs included: honest noise of all runs is refused, or a
    Poisson batch overflows, with probability at most N `PER_VALUE`, which costs (1 + e^E) times as
    much of D (`taciturn.kernel.privacy.drawn`). Of the remainder, the share 1 - c goes to Gaussian
    answers, whose filter at M^2 is M-Gaussian private, and c to the others, whose filter at (a, r)
    is (a, r)-Renyi private; the two compose concurrently, and their epsilons and deltas add.
    """
    values = _values(guarantee)
    left = 1 - ARITHMETIC_SHARE
    epsilon, delta, curves = guarantee.epsilon * left, guarantee.delta * left, guarantee.curves
    squares = mu_of((1 - curves) * epsilon, (1 - curves) * delta) ** 2 * (1 - 1e-12)
    if curves == 0:
        return Caps(squares, 2, 0.0, values)
    order, divergence = _renyi(curves * epsilon, curves * delta, guarantee.order)
    return Caps(squares, order, divergence, values)


def _values(guarantee: Guarantee) -> int:
    """Return the largest number of values whose correction stays within its share."""

    def fits(values: int) -> bool:
        try:
            epsilon, delta = guarantee.epsilon, guarantee.delta
            epsilon, delta = budget_after_lattice(epsilon, delta, values=values, law="gaussian")
            epsilon, delta = budget_after_lattice(epsilon, delta, values=values, law="laplace")
            delta -= values * PER_VALUE * (1 + math.exp(guarantee.epsilon))
        except (InputError, OverflowError):
            return False
        left = 1 - ARITHMETIC_SHARE
        return epsilon >= guarantee.epsilon * left and delta >= guarantee.delta * left

    if not fits(1):
        raise InputError(
            f"epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g} leaves no room for the "
            "cost of the arithmetic and the test of the noise; give a larger delta, and an epsilon "
            "that is neither tiny nor above 30"
        )
    low, high = 1, _MOST_VALUES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _renyi(epsilon: float, delta: float, given: int | None) -> tuple[int, float]:
    """Return the order, and the divergence that it allows.

    The order with most room for small events, whose divergence is proportional to the order.
    """
    orders = range(2, _MOST_ORDER + 1) if given is None else (given,)

    def conversion(order: int) -> float:
        """Return epsilon minus divergence (Canonne, Kamath and Steinke 2020)."""
        shrunk = (order - 1) * math.log1p(-1 / order)
        return (math.log(1 / delta) + shrunk - math.log(order)) / (order - 1)

    rooms = ((order, epsilon - conversion(order)) for order in orders)
    order, room = max(rooms, key=lambda pair: pair[1] / pair[0])
    if not room > 0:
        raise InputError(
            f"the share of the curves, epsilon {epsilon:g} at delta {delta:g}, admits no answer at "
            f"order {order}; give a larger share or a higher order, or no share"
        )
    return order, room * (1 - 1e-12)
