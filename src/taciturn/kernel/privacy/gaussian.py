"""The exact trade-off of Gaussian noise: mu, epsilon and delta, without overflow.

An answer of Euclidean sensitivity Delta with noise of standard deviation sigma in every
coordinate is as private as the test of N(0, 1) against N(mu, 1), mu = Delta/sigma
(Dong, Roth and Su 2022); for answers in sequence mu^2 adds up.
"""

from __future__ import annotations

import math
from typing import TypeAlias, TypeVar, cast

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import HostArray

Real = TypeVar("Real", float, HostArray)
# numpy returns scalars for arrays without axes
Values: TypeAlias = HostArray | np.float64

# enough to bisect any bracket that occurs down to neighbouring floats
_HALVINGS = 100
# relative error of a computed logarithm of a normal tail: more than four units in the last place
_WRONG = 1e-15


def delta_of(epsilon: Real, mu: Real) -> Real:
    """Return the smallest delta at which mu-Gaussian privacy is (epsilon, delta)-private.

        delta(epsilon; mu) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2)

    (Balle and Wang 2018, theorem 8). Both arguments are floats, or arrays that broadcast.
    It is 0 for mu = 0 or epsilon = infinity, and 1 for mu = infinity. Rounded up: by 1e-9 of it in
    common settings, by 1e-2 where mu is 1e-9 and delta 1e-60.

    Raises `InputError` if an argument is negative or NaN.
    """
    return _like(_delta(_not_negative("epsilon", epsilon), _not_negative("mu", mu)), epsilon, mu)


def epsilon_of(delta: float, mu: Real) -> Real:
    """Return the smallest epsilon at which mu-Gaussian privacy is (epsilon, delta)-private.

    The inverse of `delta_of` in epsilon, rounded up: `delta_of(epsilon, mu) <= delta` holds in
    floating point. It is 0 where delta >= delta_of(0, mu), and infinity for mu = infinity.
    `mu` is a float or an array.

    Raises `InputError` if delta is not above 0 and below 1, or mu is negative or NaN.

    **Guarantee.** delta(epsilon; mu) falls in epsilon and is at most Phi(mu/2 - epsilon/mu), so
    epsilon = mu (mu/2 - Phi^-1(delta)) is large enough; bisection keeps that property at the upper
    end, which is returned.
    """
    delta = checks.delta(delta)
    size = _not_negative("mu", mu)
    usable = np.where(np.isfinite(size), size, 1.0)
    low = np.zeros_like(usable)
    high = np.maximum(usable * (usable / 2 - ndtri(delta)), 0.0) * (1 + 1e-12)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        private = _delta(middle, usable) <= delta
        low, high = np.where(private, low, middle), np.where(private, middle, high)
    free = _delta(np.zeros_like(usable), usable) <= delta
    return _like(np.where(np.isinf(size), np.inf, np.where(free, 0.0, high)), mu)


def true_positive_rate(mu: Real, false_positive_rate: float) -> Real:
    """Return an attacker's best true-positive rate, Phi(Phi^-1(a) + mu), at a false-positive rate.

    Raises `InputError` if the false-positive rate a is not above 0 and below 1, or mu is negative
    or NaN.
    """
    if not 0 < false_positive_rate < 1:
        raise InputError(
            f"false_positive_rate is {false_positive_rate:g}; it must be above 0 and below 1"
        )
    return _like(np.asarray(ndtr(ndtri(false_positive_rate) + _not_negative("mu", mu))), mu)


def _delta(epsilon: Values, mu: Values) -> HostArray:
    """Return the curve, rounded up by more than the error of its terms in double precision.

    The terms cancel where mu is tiny: their logarithms may differ by a relative 1e-9.
    """
    with np.errstate(all="ignore"):
        near, far = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
        first = log_ndtr(near)
        # exp(epsilon) phi(far) = phi(near), so epsilon, which may be thousands, cancels by algebra
        second = -near * near / 2 + np.log(erfcx(far / math.sqrt(2)) / 2)
        wrong = _WRONG * (np.abs(first) + np.abs(second) + 4)
        # `near` is rounded, and both terms with it: by as much as the hazard times its rounding
        moved = (np.maximum(-near, 0.0) + 1) * (mu / 2 + epsilon / mu) * _WRONG
        value = -np.exp(first) * np.expm1(np.minimum(second - first - wrong, 0.0))
        value = value * (1 + wrong + moved)
    value = np.where(np.isinf(mu), 1.0, value)
    return np.where((mu == 0) | np.isinf(epsilon), 0.0, value)


def _not_negative(name: str, value: float | HostArray) -> HostArray:
    array = np.asarray(value, dtype=np.float64)
    if not bool(np.all(array >= 0)):
        raise InputError(f"{name} is NaN or negative; it must be 0 or more")
    return array


def _like(value: Values, *given: Real) -> Real:
    scalar = not any(isinstance(entry, np.ndarray) for entry in given)
    return cast("Real", float(value) if scalar else value)
