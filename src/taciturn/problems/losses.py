"""Losses for classification, weighted and clipped; the kernel defines `Loss` and clips."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, softmax
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.questions import (
    Loss,
    Margins,
    PerRecord,
    RegressionLoss,
    Slopes,
    TargetArray,
)
from taciturn.typing import Array, HostArray

Scores = TypeVar("Scores", Array, HostArray)


def is_second(scores: Scores) -> Scores:
    """Return where the second of two classes is predicted: at scores z >= 0."""
    return scores >= 0


class MarginLoss(Loss):
    """A function of y z, for two classes y in {-1, 1}; the prediction is the sign of z.

    A subclass defines `value` and `smoothness`; `lipschitz` if it is not 1; `start_coefficient`,
    the slope at z = 0, unless the default clip of 1 suits it; and `coefficient` if differentiation
    of `value` does not yield it.
    """

    lipschitz = 1.0

    @override
    def predict(self, margins: PerRecord) -> PerRecord:
        return jnp.where(is_second(margins), 1, -1).astype(margins.dtype)

    def within_domain(self, targets: TargetArray) -> TargetArray:
        """Return the targets clipped to [-1, 1]: the second derivative grows with their square."""
        return jnp.clip(targets, -1, 1)

    def check_targets(self, targets: HostArray) -> None:
        """Accept -1 and 1 only: a target of size s would multiply the Lipschitz constant by s."""
        if not np.all(np.abs(targets) == 1):
            raise InputError("a target is neither -1 nor 1; map the two classes to -1 and 1 first")


@final
class Logistic(MarginLoss):
    """l(z, y) = log(1 + exp(-y z)) for y in {-1, 1}, with coefficient -y / (1 + exp(y z)).

    The coefficient lies in (-1, 1) and approaches -y as y z goes to minus infinity. The second
    derivative s(1 - s), s = 1 / (1 + exp(z)), is at most 1/4. The exponential may overflow: -y /
    inf is the right limit, 0.
    """

    log_odds = True
    smoothness = 0.25
    start_coefficient = 0.5

    @override
    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return jnp.logaddexp(0.0, -targets * margins)

    @override
    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return -targets / (1 + jnp.exp(targets * margins))


@final
class CappedExponential(MarginLoss):
    r"""l(z, y) = exp(-m) / 2 for m = y z >= 0, and (1 - m) / 2 below; its scores are log-odds.

    The coefficient is -y phi(m), phi(m) = min(1, exp(-m)) / 2, continuous and not increasing in m,
    so l is convex; it lies in [-1/2, 1/2].

    **The minimiser.** Let p = 1 / (1 + exp(-z*)) be the probability of y = 1. The expected loss p
    l(z) + (1 - p) l(-z) is least where p phi(z) = (1 - p) phi(-z). Since phi(-z) / phi(z) = exp(z)
    for every z, this is at z = z* alone: in a population whose log-odds are x'w*, w* is the
    minimiser.

    **The least sensitivity.** Let l be a convex function of m whose minimiser is the log-odds, and
    scaled to have slope -1/2 at m = 0. Its -l' is not increasing in m, hence at least 1/2 below 0,
    and its supremum, which bounds what a record adds to a gradient, is at least 1/2. This loss
    attains it. The logistic loss has twice the supremum, and clipped at 1/2, where it has the same,
    its minimiser is not the log-odds (`ClippedLoss`).

    **The largest score.** A score psi_y(z) of conditional mean 0 at the log-odds satisfies
    p psi_1 + (1 - p) psi_-1 = 0, so |psi_1| / |psi_-1| = exp(-z): it is determined up to a weight
    that depends on z. Here the larger of the two has size 1/2 at every z, so no unbiased score of
    size at most 1/2 is larger anywhere. It is the conditionally unbiased score of Künsch, Stefanski
    and Carroll 1989 for the logistic model and this bound.

    **Curvature.** l'' = exp(-m) / 2 for m > 0 and 0 below, hence at most 1/2. At the log-odds its
    conditional mean is min(p, 1 - p) / 2 <= 1/4, as for the logistic loss; where all records are
    classified correctly by margins near 0, as may happen near w = 0, it is 1/2, and steps must not
    exceed what that allows. It jumps at 0, so the loss does not suit noise inside an objective.
    """

    log_odds = True
    lipschitz = 0.5
    smoothness = 0.5
    start_coefficient = 0.5

    @override
    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        products = targets * margins
        return (jnp.exp(-jnp.maximum(products, 0)) - jnp.minimum(products, 0)) / 2

    @override
    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return -targets * jnp.exp(-jnp.maximum(targets * margins, 0)) / 2


@final
class HuberHinge(MarginLoss):
    """The hinge max(0, 1 - y z) with its kink replaced by a parabola of half-width h = `smoothing`.

    l = 0 if y z > 1 + h; (1 + h - y z)^2 / (4 h) if |1 - y z| <= h; 1 - y z otherwise.
    Its coefficient is -y min(1, max(0, (1 + h - y z) / (2 h))). Source: Chaudhuri, Monteleoni and
    Sarwate 2011.
    """

    smoothing: float = eqx.field(static=True, converter=lambda h: checks.positive("smoothing", h))

    @property
    def smoothness(self) -> float:
        """1 / (2 h), attained in the parabola."""
        return 0.5 / self.smoothing

    @property
    def start_coefficient(self) -> float:
        """1, or (1 + h) / (2 h) when h > 1 puts the margin 0 inside the parabola."""
        return min(1.0, (1 + self.smoothing) / (2 * self.smoothing))

    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        """Return t^2 / (4 h) + max(0, 1 - h - y z) with t = 1 + h - y z clipped to [0, 2 h]."""
        smoothing = jnp.asarray(self.smoothing, margins.dtype)
        products = targets * margins
        bent = jnp.clip(1 + smoothing - products, 0, 2 * smoothing)
        return bent**2 / (4 * smoothing) + jnp.maximum(0, 1 - smoothing - products)

    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        """Return -y min(1, max(0, (1 + h - y z) / (2 h)))."""
        smoothing = jnp.asarray(self.smoothing, margins.dtype)
        return -targets * jnp.clip((1 + smoothing - targets * margins) / (2 * smoothing), 0, 1)


class _Multinomial(Loss):
    """The likelihood of the multinomial logistic model of K classes, for targets y in 0..K-1."""

    classes: int = eqx.field(static=True, converter=lambda k: checks.at_least("classes", k, 2))

    log_odds = True

    @property
    @override
    def outputs(self) -> int:
        return self.classes

    @property
    def start_coefficient(self) -> float:
        """sqrt((K - 1) / K), the distance of the uniform distribution from e_y."""
        return math.sqrt((self.classes - 1) / self.classes)

    def value(self, margins: Float[Array, "*B K"], targets: Int[Array, "*B"]) -> PerRecord:
        """Return log sum_k exp(z_k) - z_y."""
        chosen = jnp.take_along_axis(margins, targets[..., None], axis=-1)[..., 0]
        return jax.nn.logsumexp(margins, axis=-1) - chosen

    def predict(self, margins: Float[Array, "*B K"]) -> Int[Array, "*B"]:
        """Return the class of the largest margin, the first one if several are equal."""
        return jnp.argmax(margins, axis=-1)

    def check_targets(self, targets: HostArray) -> None:
        """Accept whole numbers 0..K-1 of an integer type only."""
        if not np.issubdtype(targets.dtype, np.integer):
            raise InputError(f"targets are {targets.dtype}; classes must be integers: use astype")
        if not np.all((targets >= 0) & (targets < self.classes)):
            raise InputError(
                f"a target is not the number of a class; {self.classes} classes must be "
                f"numbered 0..{self.classes - 1}"
            )


@final
class MultinomialLogistic(_Multinomial):
    """l(z, y) = log sum_k exp(z_k) - z_y for y in 0..K-1, with coefficient softmax(z) - e_y.

    |softmax(z) - e_y|^2 = (1 - p_y)^2 + sum_{k != y} p_k^2 <= 2 (1 - p_y)^2 < 2. The Hessian
    diag(p) - pp' is a covariance of an indicator: u'(diag(p) - pp')u is the variance of u_k, at
    most (max u - min u)^2 / 4 <= |u|^2 / 2 (Popoviciu), attained at p = (1/2, 1/2, 0, ...).
    z_k - z_j are the log-odds of class k against class j.
    """

    slopes: ClassVar[Slopes] = "reference"
    lipschitz = math.sqrt(2)
    smoothness = 0.5

    @property
    @override
    def largest_trace(self) -> float:
        """1 - 1/K: the trace of diag(p) - pp' is 1 - |p|^2, and its entries add up to 0."""
        return 1 - 1 / self.classes

    def curvature_root(
        self,
        margins: Float[Array, "*B K"],
        targets: TargetArray,  # noqa: ARG002
    ) -> Float[Array, "*B K K"]:
        """Return diag(p)^(1/2) - p (p^(1/2))', whose square is diag(p) - pp'."""
        p = jax.nn.softmax(margins, axis=-1)
        roots = jnp.sqrt(p)
        return roots[..., None] * jnp.eye(self.classes) - p[..., None] * roots[..., None, :]

    def coefficient(
        self, margins: Float[Array, "*B K"], targets: Int[Array, "*B"]
    ) -> Float[Array, "*B K"]:
        """Return softmax(z) - e_y."""
        chosen = jax.nn.one_hot(targets, self.classes, dtype=margins.dtype)
        return jax.nn.softmax(margins, axis=-1) - chosen


@final
class BoundedMultinomial(_Multinomial):
    r"""The multinomial log loss, trained by a bounded score with mean 0 where softmax(z) is true.

    Let p = softmax(z), s_y = p - e_y the gradient of l(z, y) = log sum_k exp(z_k) - z_y, C =
    sqrt((K - 1) / K) its norm at z = 0, and

    .. math:: c_y = h_y s_y, \quad h_y = \min(1, 1 / (\sqrt{2} |s_y|)), \qquad
        b = \sum_k p_k c_k, \qquad \psi_y = C (c_y - b) / \max_k |c_k - b|.

    The coefficient is psi_y, and `value` is l. **It is the gradient of no function for K > 2**: a
    method that follows it solves E[x psi'] = 0, the likelihood equation with the score bounded, and
    minimises nothing. `minimise` and questions whose answers are minimisers refuse it. This is the
    conditionally unbiased bounded score of Künsch, Stefanski and Carroll 1989, with another weight.

    **Bounded.** |psi_y| <= C, by the definition, and psi = s at z = 0.

    **Unbiased.** sum_y p_y psi_y = 0. With E over y ~ softmax(z*) and u = z - z*,

    .. math:: u' E \psi \ge 0, \quad \text{with equality only if } u_1 = ... = u_K.

    So in a population whose log-odds are x'W*, every root W of E[x psi'] has the log-odds of W*,
    and along -E[x psi'] the distance from W* decreases.

    *Proof.* Shift u so that softmax(z*)_y = p_y exp(-u_y), and let f_y = 1 - exp(-u_y), with sum p
    f = 0, and m = sum p u >= 0 (Jensen). Up to a positive weight u'E psi is S = sum p h f (u - m).
    A term is negative only in M = {0 < u < m}; let N = sum_M p f (m - u). The terms below 0 have
    sum p |f| (m - u) >= m sum_M p f >= N. Since sum p (u - m) = 0 and f increases with u, those
    from m on have sum p f (u - m) >= f(m) sum_M p (m - u) >= N. As |s| < sqrt(2), 1/2 < h <= 1, so
    S > N / 2 + N / 2 - N = 0 if M is not empty; else no term is negative, and one with u < 0, which
    exists unless u = 0, is positive. A smaller bound than 1 / sqrt(2) in h would not allow this
    proof, and a larger one gives a smaller slope between two classes that are equally probable.

    **Two classes.** Then psi is the derivative of `CappedExponential` in the difference of scores.

    **Curvature.** Differentiating sum p_y psi_y = 0 gives, where softmax(z) is true, E[d psi / dz]
    = w E[h s s'] with w = C / max_k |c_k - b|: symmetric, positive semidefinite, and at most C /
    sqrt(2). For w <= sqrt(2) C: the rarest class k has |c_k| = 1 / sqrt(2), since |s_k| >= C, and
    c_k'b <= 0, since b_j = p_j (sum p h - h_j) and h increases with p. For a single record the
    norm of d psi / dz is at most 3 sqrt(2) C (s and c have slopes of at most 1/2, b of 1, the
    largest norm of 3/2). `smoothness` is sqrt(2) C, the largest value that a numerical search has
    found (at p = (1/2, 1/2, 0, ...)), not proved; no guarantee rests on it. The score is not
    monotone in z for every distribution of y.

    **No loss does this at the same slope.** The mean over pairs of classes (2 / K) sum_{k != y}
    l(z_y - z_k), l the capped exponential loss, is convex, and least in expectation at the
    log-odds. Its gradient has entries (2 / K) a_k, a_k <= 1/2, and minus their sum, so that its
    norm is at most C, with equality at 0: no loss with the gradient s at 0 has a smaller Lipschitz
    constant. But between two equally probable classes, the others excluded, its curvature along
    their difference is 1 / K; here it is C / sqrt(2).
    """

    is_gradient = False

    @property
    @override
    def lipschitz(self) -> float:
        return self.start_coefficient

    @property
    @override
    def smoothness(self) -> float:
        return math.sqrt(2) * self.start_coefficient

    @override
    def coefficient(
        self, margins: Float[Array, "*B K"], targets: Int[Array, "*B"]
    ) -> Float[Array, "*B K"]:
        """Return psi_y(z), by O(K) operations: b_k = p_k (sum p h - h_k)."""
        p = jax.nn.softmax(margins, axis=-1)
        chosen = jax.nn.one_hot(targets, self.classes, dtype=margins.dtype)
        # |s_k|^2 = (1 - p_k)^2 + sum_{j != k} p_j^2, for every class k
        squared = 1 - 2 * p + jnp.sum(p**2, axis=-1, keepdims=True)
        factors = 1 / jnp.sqrt(jnp.maximum(2 * squared, 1))  # h_k
        mean = p * (jnp.sum(p * factors, axis=-1, keepdims=True) - factors)
        products = jnp.sum(p * mean, axis=-1, keepdims=True) - mean  # s_k'b
        sizes = factors * (factors * squared - 2 * products)  # |c_k - b|^2 - |b|^2
        largest = jnp.max(sizes, axis=-1, keepdims=True) + jnp.sum(mean**2, axis=-1, keepdims=True)
        factor = jnp.sum(factors * chosen, axis=-1, keepdims=True)
        score = factor * (p - chosen) - mean
        return jnp.asarray(self.lipschitz, margins.dtype) / jnp.sqrt(largest) * score


class CountLoss(RegressionLoss):
    r"""A loss whose score z is the logarithm of a mean, for targets encoded from [a, b].

    The target y in [-1, 1] stands for the response r = a + (b - a) (y + 1) / 2, and the prediction
    is encoded likewise. `lowest` is a, `highest` is b.
    """

    lowest: float = eqx.field(static=True)
    highest: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not 0 <= self.lowest < self.highest < math.inf:
            raise InputError(
                f"the response lies between {self.lowest:g} and {self.highest:g}; its public range "
                "must begin at 0 or above, and end above that"
            )

    def response(self, targets: TargetArray) -> TargetArray:
        """Return r of encoded targets, inside [a, b]."""
        part = (jnp.clip(targets, -1, 1) + 1) / 2
        return self.lowest + (self.highest - self.lowest) * part

    def mean(self, margins: PerRecord) -> PerRecord:
        """Return the mean exp(z) of the response, at most b."""
        return jnp.exp(jnp.minimum(margins, math.log(self.highest)))

    @override
    def predict(self, margins: PerRecord) -> PerRecord:
        share = (self.mean(margins) - self.lowest) / (self.highest - self.lowest)
        return jnp.clip(2 * share - 1, -1, 1)

    @override
    def error(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        """Return the squared error of the predicted mean, as encoded."""
        return (self.predict(margins) - targets) ** 2


@final
class Poisson(CountLoss):
    r"""l(z, r) = min(exp(z), b) - r z, with coefficient min(exp(z), b) - r: the Poisson likelihood.

    A response of at most b has a mean of at most b, so the limit changes no mean that the model may
    have; beyond z = log b the loss is b + b (z - log b) - r z, convex, with slope b - r >= 0. The
    coefficient lies in [-b, b - a]. The second derivative is exp(z) <= b, and 0 beyond the limit,
    where `curvature` returns b, so that Newton's method returns from there.
    """

    @property
    def lipschitz(self) -> float:
        """B, the largest size of the coefficient."""
        return self.highest

    @property
    def smoothness(self) -> float:
        """B."""
        return self.highest

    @override
    def value(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        beyond = jnp.maximum(margins - math.log(self.highest), 0)
        return self.mean(margins) + self.highest * beyond - self.response(targets) * margins

    @override
    def coefficient(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return self.mean(margins) - self.response(targets)

    @override
    def curvature(self, margins: PerRecord, targets: TargetArray) -> PerRecord:
        return self.mean(margins)


@final
class ClassWeighted(Loss):
    r"""v_y l(z, y): a classification loss times the weight of the record's class.

    **Guarantee.** A weight depends on the record's target and on public numbers, so a record still
    affects only its own term. Let V = max v, and c and s the constants `lipschitz` and `smoothness`
    of l. Then

    .. math:: |v_y \, dl/dz| \le V c, \qquad |v_y \, d^2 l/dz^2| \le V s,

    and these are the constants of the weighted loss. A target outside the classes also gets the
    weight of a class. As V <= 1, every bound that holds for l holds for the weighted loss: of
    gradients, of curvature and so of steps; and the clip of a coefficient is no larger. A weight of
    30 would let a record of its class move an answer 30 times as far as the bounds of l allow; only
    ratios of weights matter, so divide all by the largest. Weights computed from the records, such
    as from class counts, are not public, and this guarantee does not cover them.

    Everything else is as for the loss l, with two classes or K: errors count every record equally.
    There is one weight per class, for -1 and 1, or for 0 to K - 1.

    Examples
    --------
    >>> from taciturn.problems import Logistic
    >>> rare = ClassWeighted(Logistic(), (0.1, 1.0))
    >>> rare.coefficient(jnp.zeros(2), jnp.array([-1.0, 1.0]))
    Array([ 0.05, -0.5 ], dtype=float64)
    """

    loss: Loss
    weights: tuple[float, ...] = eqx.field(
        static=True, converter=lambda weights: tuple(float(weight) for weight in weights)
    )

    def __check_init__(self) -> None:
        bad = [weight for weight in self.weights if not 0 < weight <= 1]
        if bad:
            raise InputError(
                f"a class weight is {bad[0]:g}; weights must lie above 0 and at most 1, so that no "
                "record counts for more than without them: divide all weights by the largest"
            )
        classes = 2 if isinstance(self.loss, MarginLoss) else self.loss.outputs
        if classes is None:
            raise InputError("class weights are for classification losses; leave them out")
        if len(self.weights) != classes:
            raise InputError(
                f"{len(self.weights)} class weights are given for {classes} classes; give one each"
            )

    @property
    @override
    def outputs(self) -> int | None:
        return self.loss.outputs

    @property
    @override
    def is_gradient(self) -> bool:
        return self.loss.is_gradient

    @property
    def log_odds(self) -> bool:
        """Whether scores are log-odds for records weighted in this way: see `ClippedLoss`."""
        return self.loss.log_odds

    @property
    @override
    def lipschitz(self) -> float:
        return max(self.weights) * self.loss.lipschitz

    @property
    @override
    def smoothness(self) -> float:
        return max(self.weights) * self.loss.smoothness

    @property
    def start_coefficient(self) -> float | None:
        """The largest coefficient at margins 0."""
        start = self.loss.start_coefficient
        return None if start is None else max(self.weights) * start

    def value(self, margins: Margins, targets: TargetArray) -> PerRecord:
        """Return v_y l(z, y)."""
        values = self.loss.value(margins, targets)
        return self._of(targets, values.dtype) * values

    def coefficient(self, margins: Margins, targets: TargetArray) -> Margins:
        """Return v_y dl/dz."""
        coefficients = self.loss.coefficient(margins, targets)
        weights = self._of(targets, coefficients.dtype)
        return coefficients * (weights if self.outputs is None else weights[..., None])

    @override
    def predict(self, margins: Margins) -> TargetArray:
        return self.loss.predict(margins)

    @override
    def error(self, margins: Margins, targets: TargetArray) -> PerRecord:
        return self.loss.error(margins, targets)

    @override
    def within_domain(self, targets: TargetArray) -> TargetArray:
        return self.loss.within_domain(targets)

    @override
    def check_targets(self, targets: HostArray) -> None:
        self.loss.check_targets(targets)

    def _of(self, targets: TargetArray, dtype: jnp.dtype) -> Float[Array, "*#B"]:
        """Return the weight of each record, rounded towards 0: the bounds hold for it."""
        exact = np.array(self.weights)
        near = exact.astype(dtype)
        weights = jnp.asarray(np.where(near > exact, np.nextafter(near, near.dtype.type(0)), near))
        if self.outputs is None:
            return jnp.where(targets > 0, weights[1], weights[0])
        return weights[jnp.clip(targets, 0, len(self.weights) - 1)]


def likelihood(loss: Loss) -> Loss:
    """Return the loss whose gradient is the unbounded score of a loss that is no gradient.

    For `BoundedMultinomial` it is `MultinomialLogistic`, weighted if the loss is; any other is its
    own. In a population that follows the model both have the same root.
    """
    if isinstance(loss, ClassWeighted):
        return ClassWeighted(likelihood(loss.loss), loss.weights)
    return MultinomialLogistic(loss.classes) if isinstance(loss, BoundedMultinomial) else loss


def default_clip(loss: Loss) -> float:
    """Return the largest norm that a record's coefficient can have at the starting point w = 0.

    It is the smallest public bound on coefficients, hence with the least noise, that leaves the
    first gradient exact. For the logistic loss it is 1/2. For the squared loss it is 1, since
    targets lie in [-1, 1] (half the range of the target); where its coefficient z - y is clipped at
    c, the gradient is that of the Huber loss with threshold c.
    """
    start = loss.start_coefficient
    return 1.0 if start is None else start


class ClippedLoss(NamedTuple):
    r"""A loss whose coefficient is clipped at C: the loss that a training actually minimises.

    For a scalar margin, clipping dl/dz at C is differentiating

    .. math:: l_C(z, y) = l(0, y) + \int_0^z \max(-C, \min(C, l'(s, y))) \, ds,

    another convex loss, linear where |l'| > C. For C >= `Loss.lipschitz` nothing is clipped and l_C
    is l. For the logistic loss and C = 1/2, l_C is the logistic loss of a correctly classified
    record and linear otherwise: its minimiser differs, in a population of any size, and sigma(z) is
    not the probability of a class. Clipped coefficients of several margins need not be the gradient
    of any function.

    **Class weights.** The minimiser of E v_y l(z, y) is that of E l(z, y) in a population whose
    classes are weighted: where P(k) are the probabilities of the classes given a row, those of the
    weighted classes are v_k P(k) / sum_j v_j P(j). So if l is proper, z_k - z_j is the log-odds of
    class k against class j plus log(v_k / v_j), and `probabilities` subtracts that.
    """

    name: str  # of the loss, with its numbers
    loss: Loss  # with class weights if there are any
    clip: float | None  # C; None if unknown

    @property
    def robust(self) -> bool:
        """Whether the clip is below a finite Lipschitz constant, which changes the loss."""
        return self.clip is not None and self.clip < self.loss.lipschitz < math.inf

    @property
    def log_odds(self) -> bool:
        """Whether scores are log-odds of the (weighted) classes; False for an unknown clip."""
        return self.loss.log_odds and self.clip is not None and not self.robust

    @property
    def log_weights(self) -> HostArray:
        """The numbers log v_k, by which the scores of weighted classes exceed log-odds; or 0."""
        weights = self.loss.weights if isinstance(self.loss, ClassWeighted) else (1.0,)
        return np.log(weights)

    def probabilities(self, scores: Float[HostArray, "N *K"]) -> Float[HostArray, "N C"] | None:
        """Return the probability of each class, without its weight; None if there are none.

        Of two classes sigma(z - log(v_1 / v_0)) is that of the second; of K they are
        softmax(z - log v). So the prediction, the class of the largest v_k P(k), need not be the
        most probable class.
        """
        if not self.log_odds:
            return None
        shift = self.log_weights
        if scores.ndim > 1:
            likely: HostArray = softmax(scores - shift, axis=1)
            return likely
        odds = scores - (shift[-1] - shift[0])
        return np.stack([expit(-odds), expit(odds)], axis=1)

    def __str__(self) -> str:
        if self.clip is None and self.loss.log_odds:
            return f"{self.name}, clip unknown"
        return f"robust {self.name}, clip {self.clip:g}" if self.robust else self.name

    def without_probabilities(self, form: Literal["--clip ", "clip="]) -> str:
        """Return one line on why there are no probabilities, and how to get them.

        `form`: how the clip is given, as an option of the command line or as a parameter.
        """
        if not self.loss.log_odds:
            return (
                f"a model with the loss {str(self)!r} has no probabilities; train a classifier "
                "with its default loss, or the logistic or multinomial one"
            )
        needed = math.ceil(100 * self.loss.lipschitz) / 100
        return (
            f"a model with the loss {str(self)!r} has no probabilities, since its scores are not "
            f"known to be log-odds; train with {form}{needed:g}, which takes more noise"
        )


def weighted(loss: Loss, weights: tuple[float, ...] | None) -> Loss:
    """Return the loss with its class weights, if any."""
    return loss if weights is None else ClassWeighted(loss, weights)
