"""The least noise at which answers fit a budget, by the accountant of their sum."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.privacy import Event, Relation, account, gaussian_multiplier

_TOL = 1e-6
_WIDENINGS = 20


def multiplier_for(
    make: Callable[[float], Event], *, rounds: int, epsilon: float, delta: float, relation: Relation
) -> float:
    """Return a noise multiplier at which `rounds` answers `make(multiplier)` fit the budget.

    `account([(make(result), rounds)], ...).epsilon <= epsilon` has been evaluated for the result;
    it is within a relative 1e-6 of the least such multiplier. 0 for epsilon = infinity. Raises
    `InputError` if the budget or `rounds` is out of range, the combination of sampling and relation
    is not supported, or no amount of noise fits (an event without noise, or a delta too small).

    **Guarantee.** More noise never costs more (post-processing by further noise), so epsilon falls
    in the multiplier. The search starts from large noise, where the accountant is cheap, and
    returns only a multiplier whose cost it has computed.
    """
    rounds = checks.at_least("rounds", rounds, 1)
    return multiplier_for_all(
        lambda multiplier: [(make(multiplier), rounds)],
        epsilon=epsilon,
        delta=delta,
        relation=relation,
    )


def multiplier_for_all(
    make: Callable[[float], Sequence[tuple[Event, int]]],
    *,
    epsilon: float,
    delta: float,
    relation: Relation,
) -> float:
    """Return one noise multiplier at which the answers `make(multiplier)` together fit the budget.

    As `multiplier_for`, for answers of several kinds: pairs (event, how often).
    """
    answers = sum(count for _, count in make(1.0))
    start = gaussian_multiplier(epsilon, delta, answers)
    if math.isinf(epsilon):
        return 0.0

    @functools.cache
    def excess(log_multiplier: float) -> float:
        events = make(math.exp(log_multiplier))
        spent = account(events, delta=delta, relation=relation).epsilon
        # near a straight line in the logarithms; clipped where one side is 0 or infinite
        return math.log(min(max(spent / epsilon, 1e-9), 1e9))

    from scipy.optimize import brentq  # noqa: PLC0415 - which takes 0.2 s to import

    low, high = _bracket(excess, math.log(2 * start))
    # brentq narrows the bracket from both sides; a step on top ends on the private side
    root = float(brentq(excess, low, high, xtol=_TOL / 4, rtol=8.9e-16))
    while excess(root) > 0:
        root += _TOL / 4
    return math.exp(root)


def _bracket(excess: Callable[[float], float], start: float) -> tuple[float, float]:
    """Return logarithms (too little noise, enough noise) a factor of 4 apart."""
    step = math.log(4)
    high = start
    for _ in range(_WIDENINGS):
        if excess(high) <= 0:
            break
        high += step
    else:
        raise InputError(
            "no amount of noise fits this budget; use an event whose multiplier is noise (for "
            "noise inside an objective, a larger rho or fewer rounds), or a larger delta or epsilon"
        )
    low = high - step
    while excess(low) <= 0:
        low, high = low - step, low
    return low, high
