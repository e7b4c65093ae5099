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
    (t_K-1, t_K], t_K = `longest`. A record has in every interval a mass a_k, what the model expects
    of it while it is watched, and the event d_k, 1 where it died. Its score is that of the
    likelihood, stopped where the masses add up to H = `most`:

    .. math:: c_k = w_k s_k, \qquad
        w_k = \min \Bigl(1, \frac{(H - \sum_{j < k} a_j)_+}{a_k} \Bigr),

    s_k the derivative of the likelihood. **Unbiased**: w_k depends on what happened before interval
    k alone, and s_k has mean 0 given that, so that E c = 0 where the model is true; the covariance
    of c is at most the mean of its expected derivative, and equal to it but for intervals with
    0 < w_k < 1. **Bounded**: the masses that count add
    up to H at most, and an event to 1. For records with masses of H at most it is the likelihood.
    Watched until they die, a share exp(-H) of records has more; of most tables of records few.

    `value` is minus the log-likelihood, which the stopped score is not the derivative of. Times
    are parts of `longest` (`survival_target`), and so are cuts, rounded likewise.
    """

    slopes: ClassVar[Slopes] = "shared"
    is_gradient = False

    longest: float = eqx.field(static=True, converter=float)
    most: float = eqx.field(static=True, converter=float)
    cuts: tuple[float, ...] = eqx.field(
        static=True, converter=lambda cuts: tuple(float(one) for one in cuts)
    )

    def __check_init__(self) -> None:
        checks.positive("the longest time", self.longest)
        checks.positive("the largest hazard", self.most)
        ends = (0.0, *self.cuts, self.longest)
        if any(low >= high for low, high in pairwise(ends)) or np.any(np.diff(self.ends) <= 0):
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
        """sqrt(H^2 + 1): masses of sum H in other intervals than that of the event."""
        return math.hypot(self.most, 1) if self.cuts else max(self.most, 1.0)

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
        parts = np.array([0.0, *self.cuts, self.longest]) / self.longest
        found: HostArray = np.round(parts * _STEPS) / _STEPS
        return found

    def parts(self, times: _Times) -> Float[Array, "*B K"]:
        """Return the part of its time that a record spends in every interval."""
        low, high = (jnp.asarray(one) for one in (self.ends[:-1], self.ends[1:]))
        last = jnp.minimum(times.leaving[..., None], high)
        return jnp.maximum(last - jnp.maximum(times.entry[..., None], low), 0.0)

    def deaths(self, times: _Times) -> Float[Array, "*B K"]:
        """Return 1 for the interval in which a record died while it was watched."""
        low, high = (jnp.asarray(one) for one in (self.ends[:-1], self.ends[1:]))
        inside = (times.leaving[..., None] > low) & (times.leaving[..., None] <= high)
        died = times.died * (times.entry < times.leaving)
        return died[..., None] * inside

    def weights(self, mass: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        """Return w_k."""
        before = jnp.pad(jnp.cumsum(mass, axis=-1)[..., :-1], [(0, 0)] * (mass.ndim - 1) + [(1, 0)])
        left = jnp.maximum(self.most - before, 0.0)
        return jnp.where(mass > left, left / jnp.maximum(mass, 1e-300), 1.0)

    @override
    def predict(self, margins: Float[Array, "*B K"]) -> PerRecord:
        """Return the probability of the event until the longest time."""
        return -jnp.expm1(-jnp.sum(self.hazards(margins), axis=-1))

    def hazards(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        """Return the cumulative hazard of every whole interval."""
        raise NotImplementedError

    @override
    def check_targets(self, targets: HostArray) -> None:
        """Accept the numbers of `survival_target`."""
        if not np.all((targets >= 0) & (targets == np.floor(targets))):
            raise InputError("a target is no survival time; give time and event by Surv(...)")


@final
class PiecewiseExponential(Survival):
    r"""Survival with hazard exp(z_k) / `longest` in interval k: a_k = u_k exp(z_k).

    u_k is the part of its time that a record spends in interval k. The likelihood is Poisson's with
    the logarithms of the u_k as offsets: s_k = a_k - d_k, with the second derivative a_k. An event
    counts if all masses do.
    """

    def mass(self, margins: Float[Array, "*B K"], times: _Times) -> Float[Array, "*B K"]:
        """Return a_k."""
        return self.parts(times) * jnp.exp(jnp.minimum(margins, 500.0))

    @override
    def hazards(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        return jnp.asarray(np.diff(self.ends)) * jnp.exp(jnp.minimum(margins, 500.0))

    @override
    def value(self, margins: Float[Array, "*B K"], targets: TargetArray) -> PerRecord:
        times = _times(targets)
        return jnp.sum(self.mass(margins, times) - self.deaths(times) * margins, axis=-1)

    @override
    def coefficient(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K"]:
        times = _times(targets)
        mass = self.mass(margins, times)
        counts = jnp.sum(mass, axis=-1, keepdims=True) <= self.most
        return self.weights(mass) * mass - self.deaths(times) * counts

    @override
    def curvature_root(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K K"]:
        mass = self.mass(margins, _times(targets))
        return jnp.sqrt(self.weights(mass) * mass)[..., None] * jnp.eye(self.outputs)


class _Discrete(Survival):
    """Survival in discrete time: an event in interval k has probability p_k if it is at risk there.

    A record is at risk in every interval of which it sees a part, as in tables of persons and
    periods.
    """

    def risk(self, times: _Times) -> Float[Array, "*B K"]:
        """Return 1 for every interval that a record sees a part of."""
        return jnp.where(self.parts(times) > 0, 1.0, 0.0)


@final
class DiscreteLogistic(_Discrete):
    r"""Discrete time with log-odds z_k: a_k = p_k, s_k = p_k - d_k where it is at risk.

    The second derivative is p_k (1 - p_k), at most 1/4.
    """

    @property
    @override
    def lipschitz(self) -> float:
        """p_k <= 1, so that |p|^2 is at most the sum, and the event adds 1."""
        return math.sqrt(1 + min(self.most, self.most**2, self.outputs - 1))

    @property
    @override
    def largest_sum(self) -> float:
        return max(min(self.most, self.outputs), 1.0)

    @property
    @override
    def largest_trace(self) -> float:
        return min(self.most, self.outputs / 4)

    @override
    def hazards(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        return jax.nn.softplus(margins)

    @override
    def value(self, margins: Float[Array, "*B K"], targets: TargetArray) -> PerRecord:
        times = _times(targets)
        each = self.risk(times) * jax.nn.softplus(margins) - self.deaths(times) * margins
        return jnp.sum(each, axis=-1)

    @override
    def coefficient(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K"]:
        times = _times(targets)
        mass = self.risk(times) * jax.nn.sigmoid(margins)
        return self.weights(mass) * (mass - self.deaths(times))

    @override
    def curvature_root(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K K"]:
        mass = self.risk(_times(targets)) * jax.nn.sigmoid(margins)
        bent = self.weights(mass) * mass * jax.nn.sigmoid(-margins)
        return jnp.sqrt(bent)[..., None] * jnp.eye(self.outputs)


@final
class DiscreteCloglog(_Discrete):
    r"""Discrete time with p_k = 1 - exp(-u_k), u_k = exp(z_k): proportional hazards, grouped.

    a_k = u_k; s_k = u_k where it survived and -u_k / (exp(u_k) - 1) where it died. `curvature_root`
    is that of the expected second derivative u^2 / (exp(u) - 1), as in Fisher's scoring: it is at
    most 0.648 (at u = 1.59), and at most u.
    """

    @property
    @override
    def largest_trace(self) -> float:
        return min(self.most, 0.65 * self.outputs)

    @override
    def hazards(self, margins: Float[Array, "*B K"]) -> Float[Array, "*B K"]:
        return jnp.exp(jnp.minimum(margins, 500.0))

    @override
    def value(self, margins: Float[Array, "*B K"], targets: TargetArray) -> PerRecord:
        times = _times(targets)
        u, died = self.hazards(margins), self.deaths(times)
        log_p = jnp.log(-jnp.expm1(-jnp.exp(jnp.clip(margins, -500.0, 500.0))))
        return jnp.sum((self.risk(times) - died) * u - died * log_p, axis=-1)

    @override
    def coefficient(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K"]:
        times = _times(targets)
        died, mass = self.deaths(times), self.risk(times) * self.hazards(margins)
        u = jnp.exp(jnp.clip(margins, -500.0, 5.0))
        return self.weights(mass) * (mass * (1 - died) - died * u / jnp.expm1(u))

    @override
    def curvature_root(
        self, margins: Float[Array, "*B K"], targets: TargetArray
    ) -> Float[Array, "*B K K"]:
        risk = self.risk(_times(targets))
        u = jnp.exp(jnp.clip(margins, -500.0, 5.0))
        bent = self.weights(risk * self.hazards(margins)) * risk * u * (u / jnp.expm1(u))
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
        """b/a - 1, which is above 1 - a/b."""
        return self.highest / self.lowest - 1

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
