"""Noise: its law, samples and likelihood ratios."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, TypeAlias, TypeVar, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Int64
from scipy.special import expit, log_ndtr, ndtri
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.noise import Label, Stream, discrete_gaussian, discrete_laplace
from taciturn.kernel.privacy.accounting import Event, Exact, GaussianAnswer, LaplaceAnswer
from taciturn.kernel.privacy.terms import Norm, Relation, ZeroOut
from taciturn.typing import Array, HostArray, Scalar

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
        """Return noise in steps of a lattice, a row for every label, from its exact discrete law.

        `scale`: in steps, from 1 to 2^40.
        """

    @abc.abstractmethod
    def size(self, noise: Answer) -> Float[Array, ""]:
        """Return what the test of the noise adds up: squares, or absolute values; nothing is 0."""

    @abc.abstractmethod
    def log_ratio(self, residual: Answer, rival: Answer, scale: Scalar) -> Float[Array, ""]:
        """Return log density of `residual` minus log density of `rival`, in nats.

        With residual = released - exact answer on D, rival = released - exact answer on D', it is
        the attacker's evidence for D. `scale` must be above zero; it is not checked under jit.
        """

    @abc.abstractmethod
    def event(self, multiplier: float) -> Event:
        """Return the accountant's name for one answer; multiplier = scale / sensitivity.

        A multiplier of 0 is an answer without noise, `Exact`. Raises `InputError` if the multiplier
        is negative, NaN or infinite.
        """


@final
class Gaussian(Mechanism):
    """Normal noise of standard deviation `scale`."""

    norm: ClassVar[Norm] = "l2"

    @override
    def size(self, noise: Answer) -> Float[Array, ""]:
        return jnp.sum(jnp.square(noise.astype(jnp.float64)))

    def log_ratio(self, residual: Answer, rival: Answer, scale: Scalar) -> Float[Array, ""]:
        """Return (|rival|_2^2 - |residual|_2^2) / (2 scale^2)."""
        # a difference of squares as a product: no cancellation when the two are close
        return jnp.sum((rival - residual) * (rival + residual)) / (
            2 * jnp.square(jnp.asarray(scale, residual.dtype))
        )

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

    def log_ratio(self, residual: Answer, rival: Answer, scale: Scalar) -> Float[Array, ""]:
        """Return (|rival|_1 - |residual|_1) / scale."""
        return jnp.sum(jnp.abs(rival) - jnp.abs(residual)) / jnp.asarray(scale, residual.dtype)

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
    def log_ratio(self, residual: Answer, rival: Answer, scale: Scalar) -> Float[Array, ""]:
        """Raise `PrivacyError`: without noise there are no densities to compare."""
        raise PrivacyError(
            "an answer without noise has an infinite or undefined likelihood ratio; "
            "use Gaussian() or Laplace() with a scale above 0"
        )

    @override
    def event(self, multiplier: float) -> Event:
        return Exact()


# of delta: what the test of the noise costs at most (`taciturn.kernel.privacy.drawn`)
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
    gives. Raises `InputError` if the correction is larger than the budget.
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

    `refused` is the probability that the noise is refused by its test
    (`taciturn.kernel.privacy.drawn`).

    1 where the lattice is too coarse for the correction to be below 1. With `rate_of` that of
    rounded noise: an event of probability a under D' has at most
    e^eta2 a + e^-100 under rounded noise, and one of probability b under D then at most e^eta1 b
    (`lattice_epsilon`, tau = 100).
    """
    if values == 0:
        return rate_of(false_positives)
    once, again = _once(values, scale, "gaussian"), _again(values, scale, "gaussian", 0.0)
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

    Infinity where the lattice is too coarse for the correction to be below 1, or delta is below
    e^-98.

    `epsilon_of`: the epsilon at a delta of the same answers under rounded noise; or those of
    several agents. `values`: n: how many numbers the agent that differs gives in all, at most.
    `scale`: s or t: the least noise scale of any of them, in steps of the lattice.

    **Guarantee.** The inequalities of this module, with delta less `SHARE` of it, which the test of
    the noise costs at most (`taciturn.kernel.privacy.drawn`): for the Gaussian law at tau = 100 +
    epsilon' with epsilon' = `epsilon_of(d)`, d = delta e^-eta1 - e^(eta1 + eta2 - 100); for the
    Laplace law with the least k for which (e n u / k)^k <= e^-100, and d = (delta - e^-100)
    e^-eta1.
    """
    delta = checks.delta(delta)
    values = checks.at_least("values", values, 0)
    if values == 0:
        return epsilon_of(delta)
    scale = checks.positive("scale", scale)
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
    expected, zeros = values / (2 * scale), 1  # (e times the expected number / k)^k <= e^-100
    while zeros * (math.log(zeros) - 1 - math.log(expected)) < _TAIL:
        zeros = 1 + int(1.1 * zeros)
    return zeros / (4 * scale)


def _again(values: int, scale: float, law: Law, epsilon: float) -> float:
    """Return eta2; for the Gaussian law with tau = 100 + epsilon."""
    if law == "laplace":
        return values / (8 * scale**2) * (1 + 1e-12)
    tau = _TAIL + epsilon
    norm = math.sqrt(1 + 2 * math.sqrt(tau / values) + 2 * tau / values) + 1 / (2 * scale)
    poisson = 3 * values * math.exp(-2 * (math.pi * scale) ** 2) if scale < 10 else 0.0
    # from s = 10 on, the last term is below 1e-850 n: far below the rounding that the 1e-12 covers
    return (values * norm**2 / (24 * scale**2) + poisson) * (1 + 1e-12)


_OF_CHOICE = 1e-12  # covers the rounding of either direction


def mu_of_choice(rate: float, relation: Relation) -> float:
    """Return the mu of one choice at that rate among costs that are sums of terms in [0, 1].

    Raises `InputError` if the rate is no finite number of at least 0.
    """
    half = _width(relation) * checks.not_negative("rate", rate) / 2
    return 2 * float(ndtri(expit(half))) * (1 + _OF_CHOICE)


def rate_of_choice(mu: float, relation: Relation) -> float:
    """Return the largest rate of a choice that is mu-Gaussian private, but for rounding.

    Raises `InputError` if mu is not above 0, or infinite.
    """
    half = checks.positive("mu", mu) / 2
    logit = float(log_ndtr(half) - log_ndtr(-half))
    return 2 * logit / _width(relation) * (1 - 4 * _OF_CHOICE)


def _width(relation: Relation) -> float:
    return 1.0 if isinstance(relation, ZeroOut) else 2.0
