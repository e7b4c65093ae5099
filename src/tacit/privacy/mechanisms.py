"""Noise: its law, samples and likelihood ratios."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int64
from typing_extensions import override

from tacit.errors import PrivacyError
from tacit.noise import Label, Stream, discrete_gaussian, discrete_laplace
from tacit.privacy.bounds import Norm
from tacit.privacy.events import Event, Exact, GaussianAnswer, LaplaceAnswer
from tacit.typing import Array, HostArray, Key, Scalar

Answer: TypeAlias = Float[Array, "..."]


class Mechanism(eqx.Module):
    """Additive noise, independent and equal in every coordinate. Holds no arrays.

    Attributes
    ----------
    norm
        The norm in which sensitivity must be bounded for this noise.
    """

    norm: ClassVar[Norm]

    @abc.abstractmethod
    def sample(self, key: Key, like: Answer, scale: Scalar) -> Answer:
        """Return noise for a reproduction, with the shape and dtype of `like`."""

    def integers(
        self, stream: Stream, labels: Sequence[Label], count: int, scale: float
    ) -> Int64[HostArray, "n count"]:
        """Return noise in steps of a lattice, a row for every label, from its exact discrete law.

        Raises
        ------
        PrivacyError
            If no exact sampler of this noise is known, as here.
        """
        del stream, labels, count, scale
        raise PrivacyError(
            f"no exact sampler of {type(self).__name__} noise is known, so it would not be "
            "private; give a seed for a reproduction, or use Gaussian or Laplace noise"
        )

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

        A multiplier of 0 is an answer without noise, `Exact`.

        Raises
        ------
        InputError
            If the multiplier is negative, NaN or infinite.
        """


@final
class Gaussian(Mechanism):
    """Normal noise of standard deviation `scale`.

    Examples
    --------
    >>> Gaussian().event(2.0)
    GaussianAnswer(multiplier=2.0)
    """

    norm: ClassVar[Norm] = "l2"

    def sample(self, key: Key, like: Answer, scale: Scalar) -> Answer:
        """Return normal noise with the shape and dtype of `like`."""
        return jax.random.normal(key, like.shape, like.dtype) * jnp.asarray(scale, like.dtype)

    @override
    def size(self, noise: Answer) -> Float[Array, ""]:
        """Return |noise|_2^2."""
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

    def event(self, multiplier: float) -> Event:
        """Return a `GaussianAnswer`, or `Exact` for a multiplier of 0."""
        return Exact() if multiplier == 0 else GaussianAnswer(multiplier)


@final
class Laplace(Mechanism):
    """Laplace noise of density exp(-|x|/scale) / (2 scale).

    Examples
    --------
    >>> Laplace().event(0.0)
    Exact()
    """

    norm: ClassVar[Norm] = "l1"

    def sample(self, key: Key, like: Answer, scale: Scalar) -> Answer:
        """Return Laplace noise with the shape and dtype of `like`."""
        return jax.random.laplace(key, like.shape, like.dtype) * jnp.asarray(scale, like.dtype)

    @override
    def size(self, noise: Answer) -> Float[Array, ""]:
        """Return |noise|_1."""
        return jnp.sum(jnp.abs(noise.astype(jnp.float64)))

    def log_ratio(self, residual: Answer, rival: Answer, scale: Scalar) -> Float[Array, ""]:
        """Return (|rival|_1 - |residual|_1) / scale."""
        return jnp.sum(jnp.abs(rival) - jnp.abs(residual)) / jnp.asarray(scale, residual.dtype)

    @override
    def integers(
        self, stream: Stream, labels: Sequence[Label], count: int, scale: float
    ) -> Int64[HostArray, "n count"]:
        return discrete_laplace(stream, labels, count, scale)

    def event(self, multiplier: float) -> Event:
        """Return a `LaplaceAnswer`, or `Exact` for a multiplier of 0."""
        return Exact() if multiplier == 0 else LaplaceAnswer(multiplier)


@final
class NoNoise(Mechanism):
    """No noise at all: the non-private reference."""

    norm: ClassVar[Norm] = "l2"  # by convention; nothing depends on it

    @override
    def sample(self, key: Key, like: Answer, scale: Scalar) -> Answer:
        """Return zeros with the shape and dtype of `like`."""
        return jnp.zeros_like(like)

    @override
    def size(self, noise: Answer) -> Float[Array, ""]:
        """Return 0."""
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
        """Return `Exact`, whatever the multiplier."""
        return Exact()
