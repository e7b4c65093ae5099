r"""Confidence intervals of shares and means from noised counts and sums, for noise and sampling.

Let x be the noised counts of d cells: the number of records in each cell plus independent noise of
known variance v. The total n is public, so the sum of the noises is known, too. Subtracting it in
equal parts gives

    x + (n - sum_k x_k) / d,      covariance v (I - 11' / d),

the best linear unbiased estimate of the counts. It halves the noise variance of a sum over half of
the cells. `Counts` is that estimate.

**Shares.** Let r be the probability that a record in the cells b is in the cells a, a subset of b,
and N = a'x, M = b'x. Given the number of records in b, N - r M has mean 0 and variance

    V(r) = V_aa - 2 r V_ab + r^2 V_bb + r (1 - r) M,     V_ab = v (|a n b| - |a| |b| / d),

the last term due to sampling, in which M stands for the true number. The interval is the set of r
with (N - r M)^2 <= z^2 V(r): if b is all cells and there is no noise, it is Wilson's interval; with
noise alone, Fieller's for a ratio. It solves a quadratic inequality, and is all of [0, 1] if that
has no bounded solution, as for a label whose occurrence is hidden by the noise.

**Means.** For n values t in [0, 1] with noised sums S_1 of t and S_2 of t^2, each with noise of
variance v, the mean m = S_1 / n has variance v / n^2 + s^2 / n with s^2 = S_2 / n - m^2, projected
to [0, m (1 - m)] if noise moves it outside.

**Persons.** If persons are sampled and each contributes the mean over its rows, n is their number,
and the sampling terms above are bounds: with 0 <= f <= g <= 1 a person's contributions to N and M,
since f (1 - f) >= 0 and squares are convex,

    E (f - r g)^2  <=  E [f (1 - r)^2 + (g - f) r^2]  =  r (1 - r) E g,

with equality for persons with one row, or equal rows; and the mean of t^2 over a person's rows is
at least the square of their mean. So intervals attain their level, and exceed it if rows of a
person differ. Treating rows as separate persons would fall short of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from taciturn.typing import HostArray

LEVEL = 0.95
QUANTILE = 1.959963984540054  # of the standard normal law at (1 + LEVEL) / 2


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval at the confidence level `LEVEL`."""

    estimate: float
    low: float
    high: float

    def mapped(self, increasing: Callable[[float], float]) -> Interval:
        """Return the interval of an increasing function of the estimated number."""
        return Interval(*map(increasing, (self.estimate, self.low, self.high)))


@dataclass(frozen=True, eq=False)
class Counts:
    """Noised counts of d cells, adjusted to their known total.

    `variance` is that of the noise of one cell before it was adjusted.
    """

    values: Float[HostArray, " d"]
    total: int
    variance: float

    @classmethod
    def of(cls, noised: Float[HostArray, " d"], total: int, variance: float) -> Counts:
        """Return noised counts, adjusted to their total."""
        spread = (total - float(np.sum(noised))) / len(noised)
        return cls(np.asarray(noised, np.float64) + spread, total, variance)

    def noise(self, one: Float[HostArray, " d"], other: Float[HostArray, " d"]) -> float:
        """Return the covariance, due to noise, of two weighted sums of the counts."""
        shared = float(np.sum(one) * np.sum(other)) / len(self.values)
        return self.variance * (float(one @ other) - shared)


def ratio_interval(
    counts: Counts, part: Bool[HostArray, " d"], whole: Bool[HostArray, " d"]
) -> Interval | None:
    """Return the share of the records in the cells `whole` that are in the cells `part`.

    None if noise hides whether there is any record in `whole`.
    """
    a, b = part.astype(np.float64), whole.astype(np.float64)
    number, among = float(a @ counts.values), float(b @ counts.values)
    noise_a, noise_ab, noise_b = counts.noise(a, a), counts.noise(a, b), counts.noise(b, b)
    z2 = QUANTILE**2
    if among <= 0 or among**2 <= z2 * noise_b:
        return None
    # second * r^2 + first * r + constant <= 0
    second = among**2 - z2 * (noise_b - among)
    first = -2 * number * among + 2 * z2 * noise_ab - z2 * among
    constant = number**2 - z2 * noise_a
    estimate = min(max(number / among, 0.0), 1.0)
    inside = first**2 - 4 * second * constant
    if second <= 0 or inside < 0:
        return Interval(estimate, 0.0, 1.0)
    root = math.sqrt(inside)
    return _within(estimate, (-first - root) / (2 * second), (-first + root) / (2 * second))


def mean_interval(total: float, squares: float, records: int, variance: float) -> Interval:
    """Return the mean of numbers in [0, 1] from noised sums of them and of their squares."""
    mean = total / records
    inside = min(max(mean, 0.0), 1.0)
    spread = min(max(squares / records - mean**2, 0.0), inside * (1 - inside))
    half = QUANTILE * math.sqrt(variance / records**2 + spread / records)
    return _within(inside, mean - half, mean + half)


def _within(estimate: float, low: float, high: float) -> Interval:
    """Return the interval of a number known to be in [0, 1]."""
    low, high = (min(max(end, 0.0), 1.0) for end in (low, high))
    return Interval(estimate, min(low, estimate), max(high, estimate))
