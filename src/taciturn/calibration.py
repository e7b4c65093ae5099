"""The least noise that meets a budget, the step of a lattice, and the rate of a choice.

`taciturn.kernel.privacy.compose` recomputes the cost of these proposals from the finished ledger.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_ndtr, ndtri

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel import privacy
from taciturn.typing import HostArray

Real = TypeVar("Real", float, HostArray)
# numpy returns a scalar for an array without axes
Values: TypeAlias = HostArray | np.float64

_HALVINGS = 100  # of a bracket, down to neighbouring floats
_TOL = 1e-6
_WIDENINGS = 20
# scale over step is max(LEAST_SCALE, _FINER z w), at most _MOST_SCALE (`step_exponents`)
_FINER = 2.0**22
_MOST_SCALE = 2.0**38


def mu_of(epsilon: Real, delta: float) -> Real:
    """Return the largest mu whose Gaussian privacy is (epsilon, delta)-private.

    The inverse of `delta_of` in mu, rounded down: `delta_of(epsilon, mu) <= delta` holds in
    floating point. Infinite for epsilon = infinity. `epsilon` is a float or an array. Raises
    `InputError` if delta is not in (0, 1), or epsilon is negative or NaN.

    **Guarantee.** delta(epsilon; mu) grows in mu and is below Phi(mu/2 - epsilon/mu), so the root
    of mu^2/2 - mu Phi^-1(delta) - epsilon = 0 is small enough; bisection keeps that property at the
    lower end, which is returned.
    """
    delta = checks.delta(delta)
    target = np.asarray(epsilon, dtype=np.float64)
    if not bool(np.all(target >= 0)):
        raise InputError("epsilon is NaN or negative; it must be 0 or more")
    usable = np.where(np.isfinite(target), target, 1.0)
    low = _root_below(usable, float(ndtri(delta))) * (1 - 1e-12)
    high = np.maximum(2 * low, 4 * ndtri((1 + delta) / 2) * np.ones_like(low))
    while bool(np.any(privacy.delta_of(usable, high) <= delta)):
        high = 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        private = privacy.delta_of(usable, middle) <= delta
        low, high = np.where(private, middle, low), np.where(private, high, middle)
    found = np.where(np.isinf(target), np.inf, low)
    return cast("Real", found if isinstance(epsilon, np.ndarray) else found.item())


def gaussian_multiplier(epsilon: float, delta: float, rounds: int) -> float:
    """Return the least noise multiplier for `rounds` Gaussian answers: sqrt(rounds) / mu.

    mu = `mu_of(epsilon, delta)`; 0 for epsilon = infinity. Raises `InputError` for arguments out of
    range.

    **Guarantee.** `rounds` answers of multiplier s compose to mu = sqrt(rounds)/s exactly.
    """
    checks.positive("epsilon", epsilon, allow_infinity=True)
    rounds = checks.at_least("rounds", rounds, 1)
    mu = mu_of(float(epsilon), delta)
    margin = 1e-14  # covers the rounding of the square root and the quotient
    # for a tiny epsilon the curve is steep, and the rounding of mu costs more
    while privacy.epsilon_of(delta, mu * (1 - margin) * (1 + 1e-15)) > epsilon:
        margin *= 10
    return math.sqrt(rounds) / mu * (1 + margin)


def _root_below(epsilon: Values, quantile: float) -> Values:
    root = np.sqrt(quantile**2 + 2 * epsilon)
    return quantile + root if quantile >= 0 else np.asarray(2 * epsilon / (root - quantile))


def spread_of(adjacency: privacy.Adjacency, agents: int, observer: privacy.Observer) -> float:
    """Return the factor by which a unit at several agents costs more than one at a single agent.

    At equal noise: 1 for units at one agent; for a person at M agents that answer the same
    questions, sqrt(M) under `Messages` and M under `Sum`.
    """
    most = min(adjacency.agents_per_person, agents)
    return float(most) if isinstance(observer, privacy.Sum) else math.sqrt(most)


def scales_for(sensitivity: HostArray, multiplier: float, observer: privacy.Observer) -> HostArray:
    """Return noise scales, given sensitivities with agents on the first axis."""
    if multiplier == 0:
        return np.zeros_like(sensitivity)
    if not isinstance(observer, privacy.Sum):
        return multiplier * sensitivity
    honest = max(1, sensitivity.shape[0] - observer.colluders)
    largest = np.max(sensitivity, axis=0, keepdims=True) / np.sqrt(honest)
    return multiplier * np.broadcast_to(largest, sensitivity.shape).copy()


def deviation_of(scale: HostArray, mechanism: privacy.Mechanism) -> HostArray:
    """Return the standard deviations of noise of that scale: of Laplace noise sqrt(2) times it."""
    return scale * (math.sqrt(2) if isinstance(mechanism, privacy.Laplace) else 1.0)


def step_exponents(
    scale: Float[HostArray, "..."], multiplier: Float[HostArray, "..."], width: float
) -> Int[HostArray, "..."]:
    """Return the binary logarithms of the steps h of a lattice; 0 where the scale is 0.

    The largest with sigma / h >= max(2^24, 2^22 z w), z = sigma / Delta the `multiplier` and w the
    `width`, up to 2^38: a lattice adds at most 2^-21 of the sensitivity, twice that on Poisson
    batches, unless that limit applies.
    """
    fineness = np.maximum(privacy.LEAST_SCALE, _FINER * multiplier * width)
    target = scale / np.minimum(fineness, _MOST_SCALE)
    _, exponent = np.frexp(target)
    return np.where(scale > 0, exponent - 1, 0).astype(np.int32)


def lattice_share(multiplier: float, width: float, *, poisson: bool) -> float:
    """Return an upper bound on what the lattice adds to a sensitivity of 1."""
    fineness = max(privacy.LEAST_SCALE, _FINER * multiplier * width)
    return (4 if poisson else 2) * width * multiplier / min(fineness, _MOST_SCALE)


def budget_after_lattice(
    epsilon: float, delta: float, *, values: int, law: privacy.Law
) -> tuple[float, float]:
    """Return the epsilon and delta that remain for the curve of rounded noise.

    Both pay for the lattice, and delta also for the test of the noise (`SHARE`). Noise calibrated
    to them is within (epsilon, delta) by `lattice_epsilon`, on any lattice of `step_exponents`.
    Raises `InputError` if the correction is larger than the budget.
    """
    once = privacy.eta1(values, privacy.LEAST_SCALE, law)
    left = epsilon - (once + privacy.eta2(values, privacy.LEAST_SCALE, law, epsilon))
    remaining = privacy.remaining_delta(delta, once)
    if left <= 0 or remaining <= 0:
        raise InputError(
            f"{values} numbers on a lattice cannot be answered within epsilon {epsilon:g} at delta "
            f"{delta:g}; ask for fewer rounds or give a larger budget"
        )
    return left, remaining


def rate_of_choice(mu: float, relation: privacy.Relation) -> float:
    """Return the largest rate of a choice that is mu-Gaussian private, up to rounding."""
    half = checks.positive("mu", mu) / 2
    logit = float(log_ndtr(half) - log_ndtr(-half))
    width = 1.0 if isinstance(relation, privacy.ZeroOut) else 2.0
    return 2 * logit / width * (1 - 4e-12)


def multiplier_for(
    make: Callable[[float], privacy.Event],
    *,
    rounds: int,
    epsilon: float,
    delta: float,
    relation: privacy.Relation,
) -> float:
    """Return a noise multiplier at which `rounds` answers `make(multiplier)` fit the budget.

    `multiplier_for_all` for a single kind of answer.
    """
    rounds = checks.at_least("rounds", rounds, 1)
    return multiplier_for_all(
        lambda multiplier: [(make(multiplier), rounds)],
        epsilon=epsilon,
        delta=delta,
        relation=relation,
    )


def multiplier_for_all(
    make: Callable[[float], Sequence[tuple[privacy.Event, int]]],
    *,
    epsilon: float,
    delta: float,
    relation: privacy.Relation,
) -> float:
    """Return one noise multiplier at which the answers `make(multiplier)` together fit the budget.

    `make` returns pairs (event, how often). The epsilon of `account(make(result), ...)`
    was evaluated and is at most `epsilon`; the result is within a relative 1e-6 of the least such
    multiplier, and 0 for epsilon = infinity. Raises `InputError` if the budget or a number is out
    of range, the combination of sampling and relation is not supported, or no amount of noise fits
    (an event without noise, or a delta too small).

    **Guarantee.** More noise never costs more (post-processing by further noise), so epsilon falls
    in the multiplier. The search starts from large noise, where the accountant is cheap, and
    returns only a multiplier whose cost it has computed.
    """
    answers = sum(count for _, count in make(1.0))
    start = gaussian_multiplier(epsilon, delta, answers)
    if math.isinf(epsilon):
        return 0.0

    @functools.cache
    def excess(log_multiplier: float) -> float:
        events = make(math.exp(log_multiplier))
        spent = privacy.account(events, delta=delta, relation=relation).epsilon
        # nearly linear in the logarithms; clipped where one side is 0 or infinite
        return math.log(min(max(spent / epsilon, 1e-9), 1e9))

    from scipy.optimize import brentq  # noqa: PLC0415 - which takes 0.2 s to import

    low, high = _bracket(excess, math.log(2 * start))
    # brentq may end on either side of the root; step to the private one
    root = float(brentq(excess, low, high, xtol=_TOL / 4, rtol=8.9e-16))
    while excess(root) > 0:
        root += _TOL / 4
    return math.exp(root)


def _bracket(excess: Callable[[float], float], start: float) -> tuple[float, float]:
    """Return logarithms of two multipliers a factor of 4 apart: too little noise, enough noise."""
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
