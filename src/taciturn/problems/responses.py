"""Losses of regression tables: survival times, ordered classes, counts, amounts and quantiles."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.questions import Loss, PerRecord, RegressionLoss, Slopes, TargetArray
from taciturn.problems.losses import CountLoss
from taciturn.typing import Array, HostArray

# parts of the range of times that a target resolves: entry, exit and event fit 53 digits
_STEPS = 2**24


def survival_target(
    entry: Float[HostArray, "N"], leaving: Float[HostArray, "N"], event: HostArray
) -> Float[HostArray, "N"]:
    """Return a whole number for each record: times from 0 to 1, the longest, and whether it died.

    At time 1 nobody dies: the record is censored there.

    Examples
    --------
    >>> survival_target(np.array([0.0]), np.array([0.5]), np.array([True])).tolist()
    [16777217.0]
    """
    first, last = (np.round(np.clip(one, 0, 1) * _STEPS) for one in (entry, leaving))
    died = event & (last < _STEPS)
    found: HostArray = 2 * (first * (_STEPS + 1) + last) + died
    return found


class _Times(NamedTuple):
    """Entry and exit from 0 to 1, and whether the record died."""

    entry: Array
    leaving: Array
    died: Array


def _times(targets: TargetArray) -> _Times:
    whole = jnp.floor(targets / 2)
    entry = jnp.floor(whole / (_STEPS + 1))
    leaving = whole - entry * (_STEPS + 1)
    return _Times(entry / _STEPS, leaving / _STEPS, targets - 2 * whole)


class Survival(Loss):
    r"""Minus the log-likelihood of a time to an event, for hazards constant in public intervals.

    The margin z_k = alpha_k + x'beta is that of the k-th of the intervals (0, t_1], (t_1, t_2] to
    (t_K-1, t_K], t_K = `longest`. With S the cumulative hazard of a record, from its entry to its
    exit, and h the hazard where it died,

    .. math:: l = \varphi(S) - d \log h, \qquad
        \varphi(S) = \min(S, H + H \log(S / H)),

    d = 1 if it died. phi bounds how much a single record counts: its derivative is min(1, H / S),
    so that no record's hazards add up to more than H = `most`. It changes nothing for records with
    S <= H. Under the true model S has, up to death, an exponential law: of records that are watched
    until they die a share exp(-H) is beyond H.

    Times and margins: as targets times are parts of `longest` (`survival_target`).
    """

    slopes: ClassVar[Slopes] = "shared"

    longest: float = eqx.field(static=True, converter=float)
    most: float = eqx.field(static=True, converter=float)
    cuts: tuple[float, ...] = eqx.field(
        static=True, converter=lambda cuts: tuple(float(one) for one in cuts)
    )

    def __check_init__(self) -> None:
        checks.positive("the longest time", self.longest)
        checks.positive("the largest hazard", self.most)
        ends = (0.0, *self.cuts, self.longest)
        if any(low >= high for low, high in pairwise(ends)):
            raise InputError(
                f"cuts are {', '.join(f'{one:g}' for one in self.cuts) or 'missing'}; they must "
                f"increase, from above 0 to below the longest time, {self.longest:g}"
            )

    @property
    @override
    def outputs(self) -> int:
        return len(self.cuts) + 1

    @property
    @override
    def lipschitz(self) -> float:
        """sqrt(H^2 + 1): hazards of sum H in other intervals than that of the event."""
        return math.hypot(self.most, 1)

    @property
    @override
    def largest_sum(self) -> float:
        return max(self.most, 1.0)

    @property
    @override
    def smoothness(self) -> float:
        return self.largest_trace

    @property
    @override
    def largest_trace(self) -> float:
        return self.most

    @property
    def ends(self) -> Float[HostArray, "K_and_1"]:
        """0, the cuts and the longest time, as parts of the longest time."""
        return np.array([0.0, *self.cuts, self.longest]) / self.longest

    def parts(self, times: _Times) -> Float[Array, "*B K"]:
        """Return the part of its time that a record spends in every interval."""
        low, high = (jnp.asarray(one) for one in (self.ends[:-1], self.ends[1:]))
        last = jnp.minimum(times.leaving[..., None], high)
        return jnp.maximum(last - jnp.maximum(times.entry[..., None], low), 0.0)

    def deaths(self, times: _Times) -> Float[Array, "*B K"]:
        """Return 1 for the interval in which a record died."""
        low, high = (jnp.asarray(one) for one in (self.ends[:-1], self.ends[1:]))
        inside = (times.leaving[..., None] > low) & (times.leaving[..., None] <= high)
        return times.died[..., None] * inside

    def hazards(self, margins: Float[Array, "*B K"], times: _Times) -> Float[Array, "*B K"]:
        """Return the part of S of every interval."""
        raise NotImplementedError

    def log_hazard(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        """Return log h."""
        return margins

    def least(self, total: PerRecord) -> PerRecord:
        """Return phi'(S) = min(1, H / S)."""
        return jnp.minimum(1.0, self.most / jnp.maximum(total, self.most))

    @override
    def value(self, margins: Float[Array, "*B K"], targets: TargetArray) -> PerRecord:
        times = _times(targets)
        total = jnp.sum(self.hazards(margins, times), axis=-1)
        beyond = self.most * (1 + jnp.log(jnp.maximum(total, self.most) / self.most))
        died = jnp.sum(self.deaths(times) * self.log_hazard(margins), axis=-1)
        return jnp.where(total <= self.most, total, beyond) - died

    @override
    def predict(self, margins: Float[Array, "*B K"]) -> PerRecord:
        """Return the probability of the event until the longest time."""
        whole = _Times(jnp.zeros(()), jnp.ones(()), jnp.zeros(()))
        return -jnp.expm1(-jnp.sum(self.hazards(margins, whole), axis=-1))

    @override
    def check_targets(self, targets: HostArray) -> None:
        """Accept the numbers of `survival_target`."""
        if not np.all((targets >= 0) & (targets == np.floor(targets))):
            raise InputError("a target is no survival time; give time and event by Surv(...)")


@final
class PiecewiseExponential(Survival):
    r"""Survival with hazard exp(z_k) / `longest` in interval k: S = sum_k u_k exp(z_k).

    u_k is the part of its time that a record spends in interval k. The likelihood is Poisson's with
    the logarithms of the u_k as offsets. The coefficient is phi'(S) u_k exp(z_k) - d_k. The second
    derivative of phi(S) is at most diag(phi'(S) u_k exp(z_k)), of trace H at most, and equal to it
    for S <= H.
    """

    @override
    def hazards(self, margins: Float[Array, "*B K"], times: _Times) -> Float[Array, "*B K"]:
        return self.parts(times) * jnp.exp(jnp.minimum(margins, 500.0))

    @override
    def coefficient(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K"]:
        times = _times(targets)
        hazards = self.hazards(margins, times)
        return hazards * self.least(jnp.sum(hazards, axis=-1))[..., None] - self.deaths(times)

    @override
    def curvature_root(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K K"]:
        hazards = self.hazards(margins, _times(targets))
        bent = hazards * self.least(jnp.sum(hazards, axis=-1))[..., None]
        return jnp.sqrt(bent)[..., None] * jnp.eye(self.outputs)


class _Discrete(Survival):
    """Survival in discrete time: an event in interval k has probability p_k = 1 - exp(-h_k).

    h_k is a function of the margin. A record is at risk in every interval of which it sees a part,
    as in tables of persons and periods; S is the sum of the h_k there, but for the interval in
    which it died, where it adds -log p_k.
    """

    def risk(self, times: _Times) -> Float[Array, "*B K"]:
        """Return 1 for every interval that a record survived, or in which it was censored."""
        return jnp.where(self.parts(times) > 0, 1.0, 0.0) * (1 - self.deaths(times))

    def rate(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        """Return h_k."""
        raise NotImplementedError

    @override
    def hazards(self, margins: Float[Array, "*B K"], times: _Times) -> Float[Array, "*B K"]:
        return self.risk(times) * self.rate(jnp.minimum(margins, 500.0))


@final
class DiscreteLogistic(_Discrete):
    r"""Discrete time with log-odds z_k: h_k = log(1 + exp(z_k)), -log p_k = h_k - z_k.

    The coefficient is phi'(S) p_k where the record survived and p_k - 1 where it died; the second
    derivatives are at most phi'(S) p_k (1 - p_k) and p_k (1 - p_k) <= 1/4, and p_k <= h_k.
    """

    @property
    @override
    def largest_trace(self) -> float:
        return min(self.most + 0.25, self.outputs / 4)

    @override
    def rate(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        return jax.nn.softplus(margins)

    @override
    def log_hazard(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        return jax.nn.log_sigmoid(margins)

    @override
    def coefficient(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K"]:
        times, p = _times(targets), jax.nn.sigmoid(margins)
        factor = self.least(jnp.sum(self.hazards(margins, times), axis=-1))[..., None]
        return self.risk(times) * factor * p - self.deaths(times) * (1 - p)

    @override
    def curvature_root(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K K"]:
        times, p = _times(targets), jax.nn.sigmoid(margins)
        factor = self.least(jnp.sum(self.hazards(margins, times), axis=-1))[..., None]
        bent = (self.risk(times) * factor + self.deaths(times)) * p * (1 - p)
        return jnp.sqrt(bent)[..., None] * jnp.eye(self.outputs)


@final
class DiscreteCloglog(_Discrete):
    r"""Discrete time with h_k = exp(z_k): the hazards of a proportional-hazards model, grouped.

    With u = exp(z_k) the coefficient is phi'(S) u where the record survived and -u / (exp(u) - 1)
    where it died. `curvature_root` is that of the expected second derivative of an interval at
    risk, u^2 / (exp(u) - 1), as in Fisher's scoring; it is at most 0.648 (at u = 1.59), and at most
    u.
    """

    @property
    @override
    def largest_trace(self) -> float:
        return self.most + 0.65

    @override
    def rate(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        return jnp.exp(margins)

    @override
    def log_hazard(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        return jnp.log(-jnp.expm1(-jnp.exp(jnp.clip(margins, -500.0, 500.0))))

    @override
    def coefficient(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K"]:
        times = _times(targets)
        hazards = self.hazards(margins, times)
        factor = self.least(jnp.sum(hazards, axis=-1))[..., None]
        u = jnp.exp(jnp.clip(margins, -500.0, 5.0))
        return hazards * factor - self.deaths(times) * u / jnp.expm1(u)

    @override
    def curvature_root(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K K"]:
        times = _times(targets)
        factor = self.least(jnp.sum(self.hazards(margins, times), axis=-1))[..., None]
        u = jnp.exp(jnp.clip(margins, -500.0, 5.0))
        bent = (self.risk(times) * factor + self.deaths(times)) * u * (u / jnp.expm1(u))
        return jnp.sqrt(bent)[..., None] * jnp.eye(self.outputs)


@final
class CumulativeLogistic(Loss):
    r"""The sum over k of the logistic losses of y > k with log-odds z_k = alpha_k + x'beta.

    For ordered classes y in 0..K-1 and k = 0..K-2. Where the proportional-odds model holds,
    log P(y > k) / P(y <= k) = z_k, every one of the K - 1 losses is the likelihood of its event, so
    alpha and beta are the minimiser (estimating equations with independence as working
    correlation). It is not the likelihood of all K classes, whose derivative is unbounded for rare
    classes; standard errors must be robust.
    """

    slopes: ClassVar[Slopes] = "shared"

    classes: int = eqx.field(static=True, converter=lambda k: checks.at_least("classes", k, 2))

    @property
    @override
    def outputs(self) -> int:
        return self.classes - 1

    @property
    @override
    def lipschitz(self) -> float:
        return math.sqrt(self.classes - 1)

    @property
    @override
    def smoothness(self) -> float:
        return 0.25

    def events(self, targets: TargetArray) -> Float[Array, "*B K"]:
        """Return 1 where y > k."""
        return (targets[..., None] > jnp.arange(self.classes - 1)).astype(jnp.float64)

    @override
    def value(self, margins: Float[Array, "*B K"], targets: TargetArray) -> PerRecord:
        each = jax.nn.softplus(margins) - self.events(targets) * margins
        return jnp.sum(each, axis=-1)

    @override
    def coefficient(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K"]:
        return jax.nn.sigmoid(margins) - self.events(targets)

    @override
    def curvature_root(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K K"]:
        p = jax.nn.sigmoid(margins)
        return jnp.sqrt(p * (1 - p))[..., None] * jnp.eye(self.classes - 1)

    @override
    def predict(self, margins: Float[Array, "*B K"]) -> TargetArray:
        """Return the median: the number of k with P(y > k) >= 1/2."""
        return jnp.sum(margins >= 0, axis=-1)

    @override
    def check_targets(self, targets: HostArray) -> None:
        """Accept the numbers of classes."""
        if not np.all((targets >= 0) & (targets < self.classes)):
            raise InputError(f"a target is not the number of one of {self.classes} classes")


@final
class NegativeBinomial(CountLoss):
    r"""(r + 1/a) log(1 + a mu) - r z, mu = exp(z): variance mu + a mu^2, the dispersion a given.

    The coefficient (mu - r) / (1 + a mu) lies in [-b, b]; mu is limited to b, as for `Poisson`.
    `curvature` is the expected second derivative, mu / (1 + a mu), as in Fisher's scoring.
    """

    dispersion: float = eqx.field(static=True, converter=lambda a: checks.positive("dispersion", a))

    @property
    @override
    def lipschitz(self) -> float:
        """b: |mu - r| <= b."""
        return self.highest

    @property
    @override
    def smoothness(self) -> float:
        """The second derivative is mu (1 + a r) / (1 + a mu)^2."""
        a = self.dispersion
        at = min(self.highest, 1 / a)
        return (1 + a * self.highest) * at / (1 + a * at) ** 2

    @property
    @override
    def largest_trace(self) -> float:
        return self.highest / (1 + self.dispersion * self.highest)

    @override
    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        a, most, r = self.dispersion, self.highest, self.response(targets)
        beyond = jnp.maximum(margins - math.log(most), 0)
        slope = (1 + a * r) * most / (1 + a * most)
        return (r + 1 / a) * jnp.log1p(a * self.mean(margins)) + slope * beyond - r * margins

    @override
    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        mean = self.mean(margins)
        return (mean - self.response(targets)) / (1 + self.dispersion * mean)

    @override
    def curvature(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        mean = self.mean(margins)
        return mean / (1 + self.dispersion * mean)


@final
class Gamma(CountLoss):
    r"""r exp(-z) + z: the likelihood of an amount r of mean exp(z) and variance phi mean^2.

    The mean is limited to the range [a, b] of the response, a > 0, so that the coefficient
    1 - r exp(-z) lies in [1 - b/a, 1 - a/b]. `curvature` is the expected second derivative, 1, as
    in Fisher's scoring.
    """

    largest_trace = 1.0

    def __check_init__(self) -> None:
        if not self.lowest > 0:
            raise InputError("an amount with a gamma law is above 0; give its range a min above 0")

    @override
    def mean(self, margins: PerRecord) -> PerRecord:
        low, high = math.log(self.lowest), math.log(self.highest)
        return jnp.exp(jnp.clip(margins, low, high))

    @property
    @override
    def lipschitz(self) -> float:
        """The larger of b/a - 1 and 1."""
        return max(self.highest / self.lowest - 1, 1.0)

    @property
    @override
    def smoothness(self) -> float:
        return self.highest / self.lowest

    @override
    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        mean, r = self.mean(margins), self.response(targets)
        return r / mean + jnp.log(mean) + (margins - jnp.log(mean)) * (1 - r / mean)

    @override
    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return 1 - self.response(targets) / self.mean(margins)

    @override
    def curvature(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return jnp.ones_like(margins)


def in_target_units(loss: Loss) -> bool:
    """Return whether scores are in the units of a numeric target, and not of logarithms."""
    return not isinstance(loss, CountLoss | Survival)


@final
class Huber(RegressionLoss):
    """(z - y)^2 / 2 for |z - y| <= t, and t |z - y| - t^2 / 2 beyond; t is `threshold`."""

    threshold: float = eqx.field(static=True, converter=lambda t: checks.positive("threshold", t))

    @property
    @override
    def lipschitz(self) -> float:
        return self.threshold

    @property
    @override
    def smoothness(self) -> float:
        return 1.0

    @override
    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        size, t = jnp.abs(margins - targets), self.threshold
        return jnp.where(size <= t, size**2 / 2, t * size - t**2 / 2)

    @override
    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return jnp.clip(margins - targets, -self.threshold, self.threshold)

    @override
    def curvature(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return jnp.where(jnp.abs(margins - targets) <= self.threshold, 1.0, 0.0)


@final
class SmoothedQuantile(RegressionLoss):
    r"""The check loss of the quantile `share`, convolved with a logistic law of scale `smoothing`.

    With s the logistic function, t the share and h the smoothing, its coefficient is
    s((z - y) / h) - t, which has mean 0 where P(y <= z) = t but for an error of order h^2. It lies
    in [-t, 1 - t]; the second derivative is at most 1 / (4 h). Source: Fernandes, Guerre and Horta
    2021.
    """

    share: float = eqx.field(static=True)
    smoothing: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.positive("smoothing", self.smoothing)
        if not 0 < self.share < 1:
            raise InputError(f"the quantile is {self.share:g}; give a share above 0 and below 1")

    @property
    @override
    def lipschitz(self) -> float:
        return max(self.share, 1 - self.share)

    @property
    @override
    def smoothness(self) -> float:
        return 1 / (4 * self.smoothing)

    @override
    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        away = margins - targets
        return self.smoothing * jax.nn.softplus(away / self.smoothing) - self.share * away

    @override
    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return jax.nn.sigmoid((margins - targets) / self.smoothing) - self.share

    @override
    def curvature(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        s = jax.nn.sigmoid((margins - targets) / self.smoothing)
        return s * (1 - s) / self.smoothing
