"""Renyi divergences of answers, of one whole order, for the filter of an account."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from taciturn import checks
from taciturn.errors import InputError
from taciturn.privacy import (
    Event,
    FixedSize,
    GaussianAnswer,
    LaplaceAnswer,
    Relation,
    ReplaceOne,
    Sampled,
    ZeroOut,
)
from taciturn.typing import HostArray

# integrals are sums over at least this many points; what rounding may lose is added
_POINTS = 4001
_MARGIN = 1e-9
_ROUNDING = 1e-12
_MOST_EXPONENT = 700.0
# below it the integrand is not smooth on the grid, and no account has room for such an answer
_LEAST_SCALE = 0.2


@lru_cache(maxsize=4096)
def renyi_divergence(event: Event, relation: Relation, order: int) -> float:
    """Return the Renyi divergence of a whole order a >= 2 that an answer has at most.

    The largest over neighbouring data sets, in both directions, rounded up. Infinite for an answer
    without noise, and where it is too large for double precision.

    Raises `InputError` if the order is no whole number of at least 2, or no sound bound is known
    for the event under this relation: as in `taciturn.privacy.account`, and for noise inside an
    objective.

    **Guarantee.** With s the multiplier, q the rate, D the Renyi divergence of order a:

    - Gaussian: a / (2 s^2).
    - Laplace: that of Lap(0, s) and Lap(1, s), which dominate a vector answer
      (`taciturn.privacy.numerical`; pairs that dominate do so in every divergence), in closed form
      (Mironov 2017, proposition 6).
    - Poisson batches of rate 1 are all records. Else
      the pairs (p, r) of `taciturn.privacy.numerical` dominate, and D is
      log(integral of p^a r^(1 - a)) / (a - 1), in the larger direction. Gaussian: the trapezoidal
      rule at distances of s / 10 at most, over all but e^-700 of bells of width s, on an integrand
      that is analytic within pi s^2 of the real line: wrong by less than e^-39 for s >= 0.2, and
      infinite, to be safe, below. Laplace: constant ratios outside [0, 1], upper bounds inside.
    - Batches of fixed size b out of n, replace_one: theorem 9 of Wang, Balle and Kasiviswanathan
      (2019) with gamma = b / n and the divergences j / (2 s^2) of the orders j.
    """
    order = checks.at_least("the order of a divergence", order, 2)
    if isinstance(event, Sampled) and event.rate == 1:
        event = event.event
    match event, relation:
        case GaussianAnswer(multiplier), _:
            found = order / (2 * multiplier**2)
        case LaplaceAnswer(multiplier), _:
            found = _laplace(multiplier, order)
        case Sampled(GaussianAnswer(multiplier), rate), ZeroOut():
            found = _mixtures(multiplier, rate, order, opposite=False)
        case Sampled(GaussianAnswer(multiplier), rate), ReplaceOne():
            found = _mixtures(2 * multiplier, rate, order, opposite=True)
        case Sampled(LaplaceAnswer(multiplier), rate), ZeroOut():
            found = _sampled_laplace(multiplier, rate, order)
        case FixedSize(GaussianAnswer(multiplier), batch, records), ReplaceOne():
            found = _fixed_size(multiplier, batch / records, order)
        case _:
            raise InputError(
                f"an account has no bound for {type(event).__name__} under {relation.name}; use "
                "Gaussian or Laplace noise that is added to the answer, Poisson batches under "
                "zero_out (Gaussian: replace_one too), or fixed ones under replace_one"
            )
    return found * (1 + _MARGIN)


def _laplace(scale: float, order: int) -> float:
    once = math.log(order / (2 * order - 1)) + (order - 1) / scale
    again = math.log((order - 1) / (2 * order - 1)) - order / scale
    return _over(float(np.logaddexp(once, again)), order)


def _over(log_moment: float, order: int) -> float:
    """Return the divergence of a logarithm of a moment; it cancels near 0, so that is covered."""
    return (max(log_moment, 0.0) + _ROUNDING) / (order - 1)


def _mixtures(scale: float, rate: float, order: int, *, opposite: bool) -> float:
    """Return the divergence of (1-q) N(0) + q N(1) and N(0), or (1-q) N(0) + q N(-1)."""
    if scale < _LEAST_SCALE:
        return math.inf
    # completing the square shows bells between 1 - 2 a and 2 a - 1
    reach = 2 * order + math.sqrt(2 * _MOST_EXPONENT) * scale
    count = max(_POINTS, math.ceil(20 * reach / scale))
    points, width = np.linspace(-reach, reach, count), 2 * reach / (count - 1)
    first = _log_mixture(points, scale, rate, 1.0)
    second = _log_mixture(points, scale, rate, -1.0) if opposite else _log_normal(points, scale)
    pairs = [(first, second)] if opposite else [(first, second), (second, first)]
    moments = [
        float(logsumexp(order * one - (order - 1) * other)) + math.log(width)
        for one, other in pairs
    ]
    return max(_over(moment, order) for moment in moments)


def _log_normal(x: HostArray, scale: float) -> HostArray:
    logs: HostArray = -(x**2) / (2 * scale**2) - math.log(scale * math.sqrt(2 * math.pi))
    return logs


def _log_mixture(x: HostArray, scale: float, rate: float, shift: float) -> HostArray:
    mixed: HostArray = np.logaddexp(
        math.log1p(-rate) + _log_normal(x, scale), math.log(rate) + _log_normal(x - shift, scale)
    )
    return mixed


def _sampled_laplace(scale: float, rate: float, order: int) -> float:
    """Return the divergence of (1-q) Lap(0) + q Lap(1) and Lap(0), in the larger direction."""
    edges = np.linspace(0, 1, _POINTS)
    logs = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * edges - 1) / scale)
    # the logarithms of the masses of Lap(0) below 0, in the cells of [0, 1], and above 1
    cells = math.log(0.5) - edges[:-1] / scale + math.log(-math.expm1(-1 / scale / (_POINTS - 1)))
    below, above = math.log(0.5), math.log(0.5) - 1 / scale
    moments = []
    for power in (order, 1 - order):
        inside = power * (logs[1:] if power > 0 else logs[:-1])
        parts = [below + power * logs[0], above + power * logs[-1], *(cells + inside)]
        moments.append(float(logsumexp(parts)))
    return max(_over(moment, order) for moment in moments)


def _fixed_size(scale: float, rate: float, order: int) -> float:
    orders = np.arange(2, order + 1)
    choices = gammaln(order + 1) - gammaln(orders + 1) - gammaln(order - orders + 1)
    of_order = orders / (2 * scale**2)
    terms = choices + orders * math.log(rate) + (orders - 1) * of_order + math.log(2)
    first = 1 / scale**2  # of order 2
    least = min(math.log(4) + _log_expm1(first), first + math.log(2))
    terms[0] = choices[0] + 2 * math.log(rate) + least
    return _over(float(logsumexp([0.0, *terms])), order)


def _log_expm1(x: float) -> float:
    return math.log(math.expm1(x)) if x < 30 else x + math.log1p(-math.exp(-x))
