"""Noise inside the objective: the privacy curve of the minimiser of a perturbed function."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.special import erfc

from taciturn.typing import HostArray

# intervals of the angle between two records, and of the length of the noise in their plane; the
# bound holds for any number and is tighter with more
_ANGLES = 16
_RADII = 48
# integrals are upper sums over steps of at most this part of the loss
_FINEST = 1 / 2000


def objective_deltas(
    step: float, reach: int, *, shift: float, jacobian: float, replaced: bool
) -> Float[HostArray, "N"]:
    r"""Return delta(e) of one answer at e = k step, k = -reach..reach.

    The answer is y = argmin_w G(w) + b'w, b ~ N(0, sigma^2 I), for G strongly convex and
    differentiable with a Lipschitz gradient, a sum of terms of records' margins x'w and public
    terms. Neighbouring data sets differ in one such term.

    `shift`: u = Delta / sigma, Delta the most that grad G can move. `jacobian`: j = log(1 + beta /
    lam): one record's term is beta-smooth, everything else lam-strongly convex. `replaced`: whether
    one term becomes another; else one term appears or disappears.

    **Guarantee.** y = w if and only if b = -grad G(w), a bijection with Lipschitz inverse, so y has
    density N(-grad G(w)) |det Hess G(w)|. With g = grad G(y) ~ N(0, sigma^2 I) under D, the loss is

        log p_D / p_D' = (2 g'd + |d|^2) / (2 sigma^2) + log det Hess G / det Hess G',

    d = grad G'(y) - grad G(y). (i) Hess G = H + a x x', Hess G' = H + a' z z' with H >= lam I and
    0 <= a |x|^2, a' |z|^2 <= beta, hence the last term is at most log(1 + a x' H^-1 x) <= J, in
    both directions. (ii) d = s z - t x with public x, z and |s z|, |t x| <= c, where 2 c = Delta
    if a term is replaced, while d = t x with |t x| <= c = Delta otherwise. The middle term is
    convex in (s, t), so largest at a corner. With one record that gives u |Z| + u^2 / 2, Z standard
    normal. With two at an angle 2 phi the corners are, up to sign, orthogonal vectors of norms
    Delta cos phi and Delta sin phi, which gives

        M_phi = max(a |Z_1| + a^2 / 2, b |Z_2| + b^2 / 2),       a = u cos phi, b = u sin phi,

    with independent normal Z_1, Z_2, whatever y does. So the loss is at most L = J + M_phi
    pointwise, and delta(e) <= E (1 - exp(e - L))_+ . The angle is not known: the largest value
    over phi is taken, over intervals [phi, phi'] with cos phi and sin phi' (an upper bound).
    (iii) d moves little where a term is smooth. The Jacobian of d in g is
    (a' z z' - a x x') (Hess G)^-1, of norm at most k = beta / lam = exp(J) - 1. Let N and m be the
    components of g / sigma and d / sigma in the span of x and z, and m_0 the value of m at N = 0
    with the rest of g as it is: then N is standard normal given m_0, |m - m_0| <= k |N| and
    |m|, |m_0| <= u. Hence, with Z = N'm_0 / |m_0|,

        N'm + |m|^2 / 2 <= u^2 / 2 + min(u max(Z, 0) + k |N|^2, u |N|),

    a normal tail but for terms in k, where (ii) has twice that tail: composed answers then cost
    little more than plain Gaussian ones plus J each. This gives a second bound on delta(e); the
    smaller of the two holds. With one record N = Z, and the minimum is u Z for Z >= 0. With two,
    the tail is an upper sum over |N|, given which the direction of N is uniform.
    (iv) Exchanging D and D' gives the same bound for e >= 0, and hence
    delta(-e) = 1 - exp(-e) (1 - delta'(e)) for negative arguments. As a function of exp(e) the
    truth is convex, so the lower convex hull of the bound is a bound as well: it is returned.
    Integrals are upper sums. For one record and e >= 0, (ii) is Theorem 4.1 of Redberg, Koskela and
    Wang 2023, with log(1 + beta/lam) in place of -log(1 - beta/lam): there lam includes the
    record's own curvature.
    """
    grid = step * np.arange(reach + 1)
    upper = _one_sided(grid, step, shift, jacobian, replaced=replaced)
    lower = 1 - np.exp(-grid[:0:-1]) * (1 - upper[:0:-1])
    return _hull(step * np.arange(-reach, reach + 1), np.concatenate([lower, upper]))


def _one_sided(
    grid: HostArray, step: float, shift: float, jacobian: float, *, replaced: bool
) -> HostArray:
    """Return the smaller of the bounds (ii) and (iii) at the points of the grid, e >= 0."""
    substeps = math.ceil(step / (_FINEST * max(shift, 0.1 * jacobian)))
    fine = step / substeps
    # values of M: from below -J, so that every e - J of the grid is met or rounded down
    least = -math.ceil(jacobian / fine)
    points = fine * np.arange(least, least + substeps * len(grid) + 1)

    def bound(tail: HostArray) -> HostArray:
        return _expectation(tail, fine)[::substeps][: len(grid)]

    tail = _smooth_tail(points - shift**2 / 2, shift, math.expm1(jacobian), replaced=replaced)
    smooth = np.minimum(bound(tail), 1.0)
    if not replaced:  # (iii) is then nowhere above (ii)
        return smooth
    corners = np.zeros(len(grid))
    angles = np.linspace(0, np.pi / 4, _ANGLES + 1)
    for cosine, sine in zip(np.cos(angles[:-1]), np.sin(angles[1:]), strict=True):
        # P(max(a |Z_1| + a^2/2, b |Z_2| + b^2/2) > m)
        first, second = (_beyond(points, float(shift * part)) for part in (cosine, sine))
        corners = np.maximum(corners, bound(first + second - first * second))
    return np.minimum(corners, smooth)


def _expectation(tail: HostArray, fine: float) -> HostArray:
    """Return an upper sum of int_e^inf exp(e - m) P(M > m) dm at every point e.

    `tail` is P(M > m) at the points, `fine` apart; beyond the last it is bounded by its value
    there.
    """
    from scipy.signal import lfilter  # noqa: PLC0415 - which takes 0.4 s to import

    tail = tail[::-1]
    decay = math.exp(-fine)
    start = [decay * tail[0]]  # as if the last value went on for ever
    values, _ = lfilter([1 - decay], [1, -decay], tail, zi=start)
    return np.asarray(values[::-1])


def _beyond(points: HostArray, size: float) -> HostArray:
    at_least = np.maximum(0.0, points / size - size / 2)
    return np.asarray(erfc(at_least / math.sqrt(2)))


def _smooth_tail(excess: HostArray, shift: float, stretch: float, *, replaced: bool) -> HostArray:
    """Return P(min(u max(Z, 0) + k |N|^2, u |N|) > t), 1 where t < 0."""
    t = np.maximum(excess, 0.0)
    least = t / shift
    if not replaced:
        with np.errstate(divide="ignore", invalid="ignore"):
            other_side = np.fmax(least, np.sqrt(t / stretch))
        tail = (erfc(least / math.sqrt(2)) + erfc(other_side / math.sqrt(2))) / 2
        return np.where(excess < 0, 1.0, tail)
    total, beyond = np.zeros(len(t)), np.exp(-(least**2) / 2)
    # |N| from t/u on; the probability of a direction rises with it, so its value at the far end
    for far in np.linspace(0, 2, _RADII + 1)[1:] ** 2:
        radius = least + far
        cosine = (t - stretch * radius**2) / (shift * radius)
        share = np.where(cosine <= 0, 1.0, np.arccos(np.clip(cosine, 0, 1)) / np.pi)
        rest = np.exp(-(radius**2) / 2)
        total, beyond = total + (beyond - rest) * share, rest
    return np.where(excess < 0, 1.0, total + beyond)


def _hull(arguments: HostArray, values: HostArray) -> HostArray:
    """Return the lower convex hull, in exp(argument), of the points, at the same arguments."""
    x = np.exp(arguments)
    kept: list[int] = []
    for k in range(len(x)):
        while len(kept) > 1 and _above(x, values, kept[-2], kept[-1], k):
            kept.pop()
        kept.append(k)
    return np.minimum(values, np.interp(x, x[kept], values[kept]))


def _above(x: HostArray, y: HostArray, first: int, middle: int, last: int) -> bool:
    """Whether the middle point lies on or above the chord between the other two."""
    rise = (y[last] - y[first]) * (x[middle] - x[first])
    return bool((y[middle] - y[first]) * (x[last] - x[first]) >= rise)
