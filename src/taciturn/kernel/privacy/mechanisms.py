r"""Noise on a lattice: its law, and its cost beyond the privacy curve of real-valued noise.

An answer is rounded to whole numbers of a step h, and its noise is a whole number of steps, of the
discrete Gaussian law of scale s = sigma / h, or the discrete Laplace law of scale t = b / h. Under
*rounded* real noise the noised answer would be a function of the plain mechanism on the rounded
answer, whose privacy curve would hold unchanged. So the discrete law p_d is compared with the
rounded one, p_r.

**The ratio.** p_d(x) = exp(-x^2 / (2 s^2)) / Z with Z = s sqrt(2 pi) (1 + theta) and 0 <= theta <=
3 exp(-2 pi^2 s^2) for s >= 1, by Poisson's summation; p_r(x) = exp(-x^2 / (2 s^2)) I(x) /
(s sqrt(2 pi)), I(x) = E exp(-(2 x u + u^2) / (2 s^2)), u uniform on (-1/2, 1/2). By Jensen's
inequality I(x) >= exp(-1 / (24 s^2)); and I(x) <= E cosh(x u / s^2) = sinh(y) / y <= exp(y^2 / 6)
with y = x / (2 s^2). Hence

    -1 / (24 s^2)  <=  log(p_r / p_d)  <=  (x / s)^2 / (24 s^2) + 3 exp(-2 pi^2 s^2).

**Composition.** Let D, D' be neighbours, E an event of all answers, n the number of values that the
differing agent answers, and s the least scale. However queries are chosen, ratios multiply along a
history, so P_d(E | D) <= e^eta1 P_r(E | D) with eta1 = n / (24 s^2). Let G be the histories with
sum (x / s)^2 <= n kappa under D': there P_r <= e^eta2 P_d, eta2 = n kappa / (24 s^2) + 3 n
exp(-2 pi^2 s^2). With x = round(s g), |x / s| <= |g| + 1 / (2 s), and sum g^2 <= n + 2 sqrt(n tau)
+ 2 tau except with probability e^-tau (Laurent and Massart 2000): kappa = (sqrt(1 + 2 sqrt(tau / n)
+ 2 tau / n) + 1 / (2 s))^2 leaves P_r(not G | D') <= e^-tau. Where the plain mechanism is
(e, d)-private,

    P_d(E | D) <= e^eta1 (e^e P_r(E | D') + d)
               <= e^eta1 (e^(e + eta2) P_d(E | D') + e^(e - tau) + d),

which with tau = 100 + e is (e + eta1 + eta2, e^eta1 (d + e^-100))-privacy. Nothing here uses that
the curve is Gaussian: on sampled batches it is that of the sampled mechanism, given the batches.

**Laplace.** With u = 1 / (2 t), p_d(x) = tanh(u) e^(-|x| / t), and p_r(x) = sinh(u) e^(-|x| / t)
but p_r(0) = 1 - e^-u. So p_r / p_d is cosh(u) <= e^(u^2 / 2), and at 0 between e^(-u / 2) and 1:
P_r <= e^eta2 P_d with eta2 = n u^2 / 2, and P_d <= e^eta1 P_r with eta1 = k u / 2 on histories with
at most k zeros of the noise. Since p_d(0) <= u, more zeros have probability at most (e n u / k)^k:
k is such that this is at most e^-100. This gives (e + eta1 + eta2, e^eta1 d + e^-100)-privacy.

**Sums.** If agents' noises are on one lattice, the sum of discrete Gaussians differs from the one
of the joint variance by |log ratio| <= 5 sum_j exp(-2 pi^2 / (S_j^-2 + s_(j+1)^-2)), S_j^2 the sum
of the first j squared scales: 0 to any precision from s = 8 on. Then the above holds with the scale
of the sum, hence also with the least scale of an agent.

**The step.** An answer is divided by public numbers, in at most three roundings of 2^-53, then
rounded to a whole number of steps, at most 2^51. So the rounded answer differs from the real number
by at most 1/2 + 3/8 steps, and two answers that differ by v differ by at most v + 2 h in every
entry afterwards: by 2 h sqrt(d) more in Euclidean norm, 2 h d in the 1-norm (`lattice_width`). On a
Poisson batch an answer is compared with that of a batch without the record, and the sensitivity
consists of two such differences: twice as much (`Ledger.moves`).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, TypeAlias, TypeVar, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int64
from scipy.special import expit, ndtri
from typing_extensions import override

from taciturn import checks
from taciturn.kernel.noise import Label, Stream, discrete_gaussian, discrete_laplace
from taciturn.kernel.privacy.accounting import Event, Exact, GaussianAnswer, LaplaceAnswer
from taciturn.kernel.privacy.terms import Norm, Relation, ZeroOut
from taciturn.typing import Array, HostArray

Answer: TypeAlias = Float[Array, "..."]


class Mechanism(eqx.Module):
    """Additive noise, independent and equal in every coordinate. Holds no arrays.

    `norm`: the norm in which sensitivity must be bounded for this noise.
    """

    norm: ClassVar[Norm]

    @abc.abstractmethod
    def integers(
        self, stream: Stream, labels: Sequence[Label], count: int, scale: float
    ) -> Int64[HostArray, "n count"]:
        """Return noise in steps of a lattice, one row per label, from its exact discrete law.

        `scale`: in steps, from 1 to 2^40.
        """

    @abc.abstractmethod
    def size(self, noise: Answer) -> Float[Array, ""]:
        """Return the statistic of the noise test: a sum of squares, or of absolute values."""

    @abc.abstractmethod
    def event(self, multiplier: float) -> Event:
        """Return the event of one answer of multiplier scale / sensitivity; `Exact` for 0."""


@final
class Gaussian(Mechanism):
    """Normal noise of standard deviation `scale`."""

    norm: ClassVar[Norm] = "l2"

    @override
    def size(self, noise: Answer) -> Float[Array, ""]:
        return jnp.sum(jnp.square(noise.astype(jnp.float64)))

    @override
    def integers(
        self, stream: Stream, labels: Sequence[Label], count: int, scale: float
    ) -> Int64[HostArray, "n count"]:
        return discrete_gaussian(stream, labels, count, scale)

    @override
    def event(self, multiplier: float) -> Event:
        return Exact() if multiplier == 0 else GaussianAnswer(multiplier)


@final
class Laplace(Mechanism):
    """Laplace noise of density exp(-|x|/scale) / (2 scale)."""

    norm: ClassVar[Norm] = "l1"

    @override
    def size(self, noise: Answer) -> Float[Array, ""]:
        return jnp.sum(jnp.abs(noise.astype(jnp.float64)))

    @override
    def integers(
        self, stream: Stream, labels: Sequence[Label], count: int, scale: float
    ) -> Int64[HostArray, "n count"]:
        return discrete_laplace(stream, labels, count, scale)

    @override
    def event(self, multiplier: float) -> Event:
        return Exact() if multiplier == 0 else LaplaceAnswer(multiplier)


@final
class NoNoise(Mechanism):
    """No noise at all: the non-private reference."""

    norm: ClassVar[Norm] = "l2"  # by convention; nothing depends on it

    @override
    def integers(
        self, stream: Stream, labels: Sequence[Label], count: int, scale: float
    ) -> Int64[HostArray, "n count"]:
        return np.zeros((len(labels), count), np.int64)

    @override
    def size(self, noise: Answer) -> Float[Array, ""]:
        return jnp.zeros((), jnp.float64)

    @override
    def event(self, multiplier: float) -> Event:
        return Exact()


# the share of delta that pays for the test of the noise (`taciturn.kernel.privacy.drawn`)
SHARE = 1e-10
# tau - epsilon, so that e^(epsilon - tau) = e^-100
_TAIL = 100.0
# the largest eta1 or eta2 that is accepted
_MOST = 1.0


# least scale over step, which the test of the noise assumes (`taciturn.kernel.privacy.drawn`)
LEAST_SCALE = 2.0**24


def lattice_width(values: int, norm: Norm) -> float:
    """Return the norm of an answer of `values` entries, all 1: sqrt(d) or d."""
    return float(values) if norm == "l1" else math.sqrt(values)


def lattice_rate(
    rate_of: Callable[[float], float],
    false_positives: float,
    *,
    values: int,
    scale: float,
    refused: float = 0.0,
) -> float:
    """Return an upper bound on an attacker's true-positive rate under discrete Gaussian noise.

    `rate_of`: that under rounded noise. `refused`: the probability that noise is refused by its
    test (`taciturn.kernel.privacy.drawn`). 1 where the lattice is too coarse.

    An event of probability a under D' has at most e^eta2 a + e^-100 under rounded noise, and one of
    probability b under D then at most e^eta1 b (`lattice_epsilon`, tau = 100).
    """
    if values == 0:
        return rate_of(false_positives)
    once, again = eta1(values, scale, "gaussian"), eta2(values, scale, "gaussian", 0.0)
    if scale < 1 or max(once, again) > _MOST:
        return 1.0
    allowed = math.exp(again) * (false_positives + refused) + math.exp(-_TAIL)
    return min(1.0, math.exp(once) * rate_of(allowed) + refused) if allowed < 1 else 1.0


Law: TypeAlias = Literal["gaussian", "laplace"]
Epsilons = TypeVar("Epsilons", float, HostArray)


def law_of(mechanism: Mechanism) -> Law:
    """Return the name of the law of noise on a lattice."""
    return "laplace" if isinstance(mechanism, Laplace) else "gaussian"


def lattice_epsilon(
    epsilon_of: Callable[[float], Epsilons],
    delta: float,
    *,
    values: int,
    scale: float,
    law: Law = "gaussian",
) -> Epsilons:
    """Return an epsilon that holds, at `delta`, for answers under discrete noise.

    Infinity where the lattice is too coarse for the correction, or delta is below e^-98.

    `epsilon_of`: the epsilon at a delta of the same answers under rounded noise, of one or several
    agents. `values`: n, the largest number of values that an agent answers in all. `scale`: s or t,
    their least noise scale, in steps of the lattice.

    **Guarantee.** The inequalities of this module, with delta less `SHARE` of it, which the test of
    the noise costs at most (`taciturn.kernel.privacy.drawn`): at e = `epsilon_of(d)` with d =
    delta e^-eta1 - e^-99, which is at most delta e^-eta1 - e^-100 and (delta - e^-100) e^-eta1; of
    several agents with tau that of the largest finite e, and a k for which (e n u / k)^k <= e^-100.
    """
    delta = checks.delta(delta)
    values = checks.at_least("values", values, 0)
    if values == 0:
        return epsilon_of(delta)
    scale = checks.positive("scale", scale)
    once = eta1(values, scale, law)
    remaining = remaining_delta(delta, once)
    if scale < 1 or remaining <= 0:
        return epsilon_of(delta) + math.inf
    epsilon = epsilon_of(remaining)
    finite = np.asarray(epsilon)[np.isfinite(epsilon)]
    both = once + eta2(values, scale, law, float(np.max(finite, initial=0.0)))
    return epsilon + (both if both <= _MOST else math.inf)


def remaining_delta(delta: float, once: float) -> float:
    """Return the delta that remains for rounded noise after the costs of test and lattice.

    `once`: eta1; 0 is returned if it is above 1.
    """
    if once > _MOST:
        return 0.0
    return delta * (1 - SHARE) * math.exp(-once) * (1 - 1e-15) - math.exp(_MOST - _TAIL)


def eta1(values: int, scale: float, law: Law) -> float:
    """Return eta1."""
    if law == "gaussian":
        return values / (24 * scale**2)
    expected, zeros = values / (2 * scale), 1  # (e times the expected number / k)^k <= e^-100
    while zeros * (math.log(zeros) - 1 - math.log(expected)) < _TAIL:
        zeros = 1 + int(1.1 * zeros)
    return zeros / (4 * scale)


def eta2(values: int, scale: float, law: Law, epsilon: float) -> float:
    """Return eta2; for the Gaussian law with tau = 100 + epsilon."""
    if law == "laplace":
        return values / (8 * scale**2) * (1 + 1e-12)
    tau = _TAIL + epsilon
    norm = math.sqrt(1 + 2 * math.sqrt(tau / values) + 2 * tau / values) + 1 / (2 * scale)
    poisson = 3 * values * math.exp(-2 * (math.pi * scale) ** 2) if scale < 10 else 0.0
    # from s = 10 on, the last term is below 1e-850 n: far below the rounding that the 1e-12 covers
    return (values * norm**2 / (24 * scale**2) + poisson) * (1 + 1e-12)


def mu_of_choice(rate: float, relation: Relation) -> float:
    """Return the mu of a choice at that rate, costs being sums over records of terms in [0, 1]."""
    width = 1.0 if isinstance(relation, ZeroOut) else 2.0
    half = width * checks.not_negative("rate", rate) / 2
    return 2 * float(ndtri(expit(half))) * (1 + 1e-12)  # for rounding
