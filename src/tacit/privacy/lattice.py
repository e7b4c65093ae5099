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
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit import checks

# beyond epsilon: e^(epsilon - tau) = e^-100
_TAIL = 100.0
# the correction is refused beyond this, where it would be no correction
_MOST = 1.0


def lattice_epsilon(
    epsilon_of: Callable[[float], float], delta: float, *, values: int, scale: float
) -> float:
    """Return an epsilon that holds, at `delta`, for answers under discrete Gaussian noise.

    Parameters
    ----------
    epsilon_of
        The epsilon at a delta of the same answers under rounded Gaussian noise.
    values
        n: how many numbers the agent that differs gives in all.
    scale
        s: the least noise scale of any of them, in steps of the lattice.

    Returns
    -------
    float
        Infinity where the lattice is too coarse for the correction to be below 1, or delta is below
        e^-100.

    Notes
    -----
    **Guarantee.** The inequality of this module, at tau = 100 + e with e = `epsilon_of(d)` and
    d = delta e^-eta1 - e^(epsilon - tau), where epsilon - tau = eta1 + eta2 - 100 is at most -99.

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
    if scale < 1:
        return math.inf
    once = values / (24 * scale**2)
    remaining = delta * math.exp(-once) * (1 - 1e-15) - math.exp(_MOST - _TAIL)
    if once > _MOST or remaining <= 0:
        return math.inf
    epsilon = epsilon_of(remaining)
    both = once + _good_histories(values, scale, _TAIL + epsilon)
    return epsilon + both if both <= _MOST else math.inf


def _good_histories(values: int, scale: float, tau: float) -> float:
    """Return eta2."""
    if math.isinf(tau):
        return math.inf
    norm = math.sqrt(1 + 2 * math.sqrt(tau / values) + 2 * tau / values) + 1 / (2 * scale)
    poisson = 3 * values * math.exp(-2 * (math.pi * scale) ** 2) if scale < 10 else 0.0
    # from s = 10 on, the last term is below 1e-850 n: far below the rounding that the 1e-12 covers
    return (values * norm**2 / (24 * scale**2) + poisson) * (1 + 1e-12)
