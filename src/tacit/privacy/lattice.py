r"""What the discrete Gaussian costs beyond the Gaussian curve.

An answer is a vector of whole numbers, steps h of a lattice, and its noise is discrete Gaussian of
scale s = sigma / h, in steps. If the noise were a *rounded* Gaussian, x = round(s g) with g from
N(0, 1), the noised answer would be the Gaussian mechanism on the lattice answer, rounded: the exact
Gaussian curve, with nothing to add. So the discrete law p_d is compared with the rounded one, p_r.

**The ratio.** p_d(x) = exp(-x^2 / (2 s^2)) / Z with Z = s sqrt(2 pi) (1 + theta), 0 <= theta <=
3 exp(-2 pi^2 s^2) for s >= 1 (Poisson's summation), and p_r(x) = exp(-x^2 / (2 s^2)) I(x) /
(s sqrt(2 pi)) with I(x) = E exp(-(2 x u + u^2) / (2 s^2)), u uniform on (-1/2, 1/2). Jensen's
inequality gives I(x) >= exp(-1 / (24 s^2)); and I(x) <= E cosh(x u / s^2) = sinh(y) / y with
y = x / (2 s^2), which is at most exp(y^2 / 6) = exp(x^2 / (24 s^4)). With t = x / s

    -1 / (24 s^2)  <=  ln(p_r / p_d)  <=  t^2 / (24 s^2) + 3 exp(-2 pi^2 s^2).

**Composition.** Let D and D' be neighbours, E an event of all answers, n the number of values that
the agent that differs gives, s the least scale. Queries may depend on earlier answers: the ratios
multiply along every history. First P_d(E | D) <= e^eta1 P_r(E | D) with eta1 = n / (24 s^2). Then
let G be the histories with sum t_i^2 <= n kappa under D'. There P_r <= e^eta2 P_d with
eta2 = n kappa / (24 s^2) + 3 n exp(-2 pi^2 s^2). Since |t_i| <= |g_i| + 1 / (2 s), and
sum g_i^2 <= n + 2 sqrt(n tau) + 2 tau but with probability e^-tau (Laurent and Massart 2000),
kappa = (sqrt(1 + 2 sqrt(tau / n) + 2 tau / n) + 1 / (2 s))^2 leaves P_r(not G | D') <= e^-tau.
With delta_G the curve of the rounded mechanism, and e = epsilon - eta1 - eta2,

    P_d(E | D) <= e^eta1 (e^e P_r(E | D') + delta_G(e))
               <= e^eta1 (e^(e + eta2) P_d(E | D') + e^(e - tau) + delta_G(e)),

    delta(epsilon) <= e^eta1 (delta_G(epsilon - eta1 - eta2) + e^(epsilon - tau)).

Nothing here uses that delta_G is Gaussian: where answers are computed on sampled batches, it holds
given the batches, and delta_G is the curve of the sampled mechanism.

**Sums.** If all agents' noises stand on one lattice, the sum of k discrete Gaussians differs from
one of the joint variance by |ln ratio| <= 5 sum_j exp(-2 pi^2 / (S_j^-2 + s_(j+1)^-2)), S_j^2 the
sum of the first j squared scales: 0 to any precision from s = 8 on. Then the above holds with the
scale of the sum, and all the more with that of one agent, which is smaller.

**Laplace.** With u = 1 / (2 t), t = b / h, the discrete law tanh(u) e^(-|x| / t) is compared with
the rounded one, e^(-|x| / t) sinh(u) and at 0 1 - e^-u. The ratio p_r / p_d is cosh(u) <= e^(u^2/2)
but at 0, where it is between e^(-u/2) and 1. So P_r <= e^(n u^2 / 2) P_d, and on histories with at
most k zeros of the noise P_d <= e^(k u / 2) P_r; more than k have, under either law of the answers,
probability at most (e n u / k)^k, since p_d(0) = tanh(u) <= u. Hence with eta1 = k u / 2 and
eta2 = n u^2 / 2

    delta(epsilon) <= e^eta1 delta_L(epsilon - eta1 - eta2) + (e n u / k)^k.

**The step.** An answer is divided by public numbers, at most three roundings of 2^-53, and then
rounded to a whole number of steps, of which at most 2^51 are used. So what is rounded differs from
the real number by at most 1/2 + 3/8 steps, and two answers that differ by t before differ by at
most t + 2 h in every entry after: by 2 h sqrt(d) more in Euclidean norm, 2 h d in the 1-norm
(`lattice_width`). On Poisson batches an answer is compared with that of a batch without the record,
and two such differences make the sensitivity: twice as much. The step is the largest power of two
with s = sigma / h >= max(2^24, 2^22 z w), z = sigma / Delta and w = sqrt(d) or d, up to 2^38: the
lattice adds 2^-21 of the sensitivity at most, twice that on Poisson batches, where that limit does
not bite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float, Int

from tacit import checks
from tacit.errors import InputError
from tacit.privacy.bounds import Norm
from tacit.typing import HostArray

# of delta: what the test of the noise costs at most (`tacit.privacy.drawn`)
SHARE = 1e-10
# beyond epsilon: e^(epsilon - tau) = e^-100
_TAIL = 100.0
# the correction is refused beyond this, where it would be no correction
_MOST = 1.0


# scale over step: at least the first, and the second times z w, but for at least the third
LEAST_SCALE = 2.0**24
_FINER = 2.0**22
_MOST_SCALE = 2.0**38


def lattice_width(values: int, norm: Norm) -> float:
    """Return the size of an answer of `values` entries, all 1: sqrt(d) or d."""
    return float(values) if norm == "l1" else math.sqrt(values)


def step_exponents(
    scale: Float[HostArray, "..."], multiplier: Float[HostArray, "..."], width: float
) -> Int[HostArray, "..."]:
    """Return the binary logarithms of the steps; 0 where the scale is 0."""
    fineness = np.maximum(LEAST_SCALE, _FINER * multiplier * width)
    target = scale / np.minimum(fineness, _MOST_SCALE)
    _, exponent = np.frexp(target)
    return np.where(scale > 0, exponent - 1, 0).astype(np.int32)


def lattice_share(multiplier: float, width: float, *, poisson: bool) -> float:
    """Return what the lattice adds to a sensitivity of 1, at most."""
    fineness = max(LEAST_SCALE, _FINER * multiplier * width)
    return (4 if poisson else 2) * width * multiplier / min(fineness, _MOST_SCALE)


def budget_left(epsilon: float, delta: float, *, values: int, law: Law) -> tuple[float, float]:
    """Return the epsilon and delta that are left for the curve of rounded noise.

    Both pay for the lattice, and delta for the test of the noise, too (`SHARE`). What is calibrated
    to them is within (epsilon, delta) by `lattice_epsilon`, on any lattice that `step_exponents`
    gives.

    Raises
    ------
    InputError
        If the correction is larger than the budget.
    """
    once = _once(values, LEAST_SCALE, law)
    left = epsilon - (once + _again(values, LEAST_SCALE, law, epsilon))
    remaining = _remaining(delta, once)
    if left <= 0 or once > _MOST or remaining <= 0:
        raise InputError(
            f"{values} numbers on a lattice cannot be answered within epsilon {epsilon:g} at delta "
            f"{delta:g}; ask for fewer rounds or give a larger budget"
        )
    return left, remaining


def lattice_rate(
    rate_of: Callable[[float], float],
    false_positives: float,
    *,
    values: int,
    scale: float,
    refused: float = 0.0,
) -> float:
    """Return an attacker's true-positive rate under discrete Gaussian noise, at most.

    `refused` is the probability that the noise is refused by its test (`tacit.privacy.drawn`).

    1 where the lattice is too coarse for the correction to be below 1. With `rate_of` that of
    rounded noise: an event of probability a under D' has at most
    e^eta2 a + e^-100 under rounded noise, and one of probability b under D then at most e^eta1 b
    (`lattice_epsilon`, tau = 100).
    """
    once, again = _once(values, scale, "gaussian"), _again(values, scale, "gaussian", 0.0)
    if scale < 1 or max(once, again) > _MOST:
        return 1.0
    allowed = math.exp(again) * (false_positives + refused) + math.exp(-_TAIL)
    return min(1.0, math.exp(once) * rate_of(allowed) + refused) if allowed < 1 else 1.0


Law: TypeAlias = Literal["gaussian", "laplace"]
Epsilons = TypeVar("Epsilons", float, HostArray)


def lattice_epsilon(
    epsilon_of: Callable[[float], Epsilons],
    delta: float,
    *,
    values: int,
    scale: float,
    law: Law = "gaussian",
) -> Epsilons:
    """Return an epsilon that holds, at `delta`, for answers under discrete noise.

    Parameters
    ----------
    epsilon_of
        The epsilon at a delta of the same answers under rounded noise; or those of several agents.
    values
        n: how many numbers the agent that differs gives in all, at most.
    scale
        s or t: the least noise scale of any of them, in steps of the lattice.

    Returns
    -------
    float or array
        Infinity where the lattice is too coarse for the correction to be below 1, or delta is below
        e^-98.

    Notes
    -----
    **Guarantee.** The inequalities of this module, with delta less `SHARE` of it, which the test of
    the noise costs at most (`tacit.privacy.drawn`): for the Gaussian law at tau = 100 + epsilon'
    with epsilon' = `epsilon_of(d)`, d = delta e^-eta1 - e^(eta1 + eta2 - 100); for the Laplace law
    with the least k for which (e n u / k)^k <= e^-100, and d = (delta - e^-100) e^-eta1.

    Examples
    --------
    >>> lattice_epsilon(lambda _: 1.0, 1e-6, values=1000, scale=2.0**24) - 1.0 < 1e-10
    True
    """
    delta = checks.delta(delta)
    values = checks.at_least("values", values, 0)
    scale = checks.positive("scale", scale)
    if values == 0:
        return epsilon_of(delta)
    once = _once(values, scale, law)
    remaining = _remaining(delta, once)
    if scale < 1 or once > _MOST or remaining <= 0:
        return epsilon_of(delta) + math.inf
    epsilon = epsilon_of(remaining)
    finite = np.asarray(epsilon)[np.isfinite(epsilon)]
    both = once + _again(values, scale, law, float(np.max(finite, initial=0.0)))
    return epsilon + (both if both <= _MOST else math.inf)


def _remaining(delta: float, once: float) -> float:
    """Return the delta that is left for rounded noise, after the test and the lattice are paid."""
    tested = delta * (1 - SHARE)
    return tested * math.exp(-min(once, _MOST)) * (1 - 1e-15) - math.exp(_MOST - _TAIL)


def _once(values: int, scale: float, law: Law) -> float:
    """Return eta1."""
    if law == "gaussian":
        return values / (24 * scale**2)
    return _most_zeros(values / (2 * scale)) / (4 * scale)


def _again(values: int, scale: float, law: Law, epsilon: float) -> float:
    """Return eta2."""
    if law == "gaussian":
        return _good_histories(values, scale, _TAIL + epsilon)
    return values / (8 * scale**2) * (1 + 1e-12)


def _most_zeros(expected: float) -> int:
    """Return a number k for which (e times the expected number / k)^k <= e^-100."""
    zeros = 1
    while zeros * (math.log(zeros) - 1 - math.log(expected)) < _TAIL:
        zeros = 1 + int(1.1 * zeros)
    return zeros


def _good_histories(values: int, scale: float, tau: float) -> float:
    """Return eta2 of the Gaussian law."""
    norm = math.sqrt(1 + 2 * math.sqrt(tau / values) + 2 * tau / values) + 1 / (2 * scale)
    poisson = 3 * values * math.exp(-2 * (math.pi * scale) ** 2) if scale < 10 else 0.0
    # from s = 10 on, the last term is below 1e-850 n: far below the rounding that the 1e-12 covers
    return (values * norm**2 / (24 * scale**2) + poisson) * (1 + 1e-12)
