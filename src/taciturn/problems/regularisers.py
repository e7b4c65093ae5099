"""Regularisers r of the model, with the constants that schedules and certificates need."""

from __future__ import annotations

import abc
import math
from typing import ClassVar, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.problems.sets import ConvexSet, WholeSpace
from taciturn.typing import Array, Model, Scalar


class Regulariser(eqx.Module):
    """A convex function r(x) of all coordinates of the model, of any shape.

    The constants below are for planning, on the host, and must not be read inside jit.
    """

    # whether `prox_within` on a set with a closed form has the accuracy that `ConvexSet` states
    closed_form: ClassVar[bool] = False

    @abc.abstractmethod
    def value(self, x: Model) -> Float[Array, ""]:
        """Return r(x)."""

    @abc.abstractmethod
    def subgradient(self, x: Model) -> Model:
        """Return the element of least norm of the subdifferential of r at x."""

    @abc.abstractmethod
    def prox_within(self, constraint: ConvexSet, v: Model, step: Scalar) -> Model:
        """Return argmin_{x in C} r(x) + |x - v|_2^2 / (2 step), exactly."""

    @abc.abstractmethod
    def gradient_bound(self, dimension: int) -> float:
        """Return c_2 >= |subgradient|_2 over all x of `dimension` coordinates; may be infinite."""

    @property
    @abc.abstractmethod
    def smoothness(self) -> Scalar:
        """c_4: Lipschitz constant of the gradient; infinite where r has a kink."""

    @property
    def strong_convexity(self) -> Scalar:
        """The largest m for which r - m |x|^2 / 2 is convex; 0 unless a subclass overrides it."""
        return 0.0

    def prox(self, v: Model, step: Scalar) -> Model:
        """Return argmin_x r(x) + |x - v|_2^2 / (2 step)."""
        return self.prox_within(WholeSpace(), v, step)


def _weight(value: float) -> float:
    return checks.not_negative("a regulariser's weight", value)


class _Norms(Regulariser):
    """r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2."""

    closed_form: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def _weights(self) -> tuple[Scalar, Scalar]:
        """l1 and l2; an absent term has the Python number 0, in compiled programs too."""

    @override
    def value(self, x: Model) -> Float[Array, ""]:
        l1, l2 = self._weights
        total = jnp.zeros((), x.dtype)
        if not _is_zero(l1):
            total = total + jnp.asarray(l1, x.dtype) * jnp.sum(jnp.abs(x))
        if not _is_zero(l2):
            total = total + 0.5 * jnp.asarray(l2, x.dtype) * jnp.sum(x**2)
        return total

    @override
    def subgradient(self, x: Model) -> Model:
        """Return l1 sign(x) + l2 x, the sign of 0 being 0."""
        l1, l2 = self._weights
        total = jnp.zeros_like(x)
        if not _is_zero(l1):
            total = total + jnp.asarray(l1, x.dtype) * jnp.sign(x)
        if not _is_zero(l2):
            total = total + jnp.asarray(l2, x.dtype) * x
        return total

    @override
    def prox_within(self, constraint: ConvexSet, v: Model, step: Scalar) -> Model:
        """Return the l1 proximal map at v s with threshold step l1 s, s = 1 / (1 + step l2).

        Completing the square: step l2 |x|^2 / 2 + |x - v|^2 / 2 equals (1 + step l2) |x - v
        s|^2 / 2 plus a constant. Dividing by 1 + step l2 leaves an isotropic distance, so that
        without an l1 term the minimiser over any set is the projection of v s.
        """
        l1, l2 = self._weights
        shrinkage = 1 if _is_zero(l2) else jnp.asarray(1 / (1 + step * l2), v.dtype)
        if _is_zero(l1):
            return constraint.project(v * shrinkage)
        return constraint.prox_l1(v * shrinkage, step * l1 * shrinkage)

    @override
    def gradient_bound(self, dimension: int) -> float:
        """Return sqrt(dimension) l1; infinity with l2 above 0, where the gradient grows with x."""
        l1, l2 = self._weights
        if l2:
            return math.inf
        return math.sqrt(dimension) * float(l1) if l1 else 0.0

    @property
    def smoothness(self) -> Scalar:
        """l2; infinite with l1 above 0, whose term has a kink at 0."""
        l1, l2 = self._weights
        return math.inf if l1 else l2

    @property
    def strong_convexity(self) -> Scalar:
        """l2."""
        return self._weights[1]


def _is_zero(weight: Scalar) -> bool:
    return isinstance(weight, float) and weight == 0


@final
class NoRegulariser(_Norms):
    """r(x) = 0."""

    _weights = (0.0, 0.0)


@final
class L1(_Norms):
    """r(x) = weight |x|_1."""

    weight: float = eqx.field(converter=_weight)

    @property
    @override
    def _weights(self) -> tuple[Scalar, Scalar]:
        return self.weight, 0.0


@final
class L2(_Norms):
    """r(x) = (weight / 2) |x|_2^2."""

    weight: float = eqx.field(converter=_weight)

    @property
    @override
    def _weights(self) -> tuple[Scalar, Scalar]:
        return 0.0, self.weight


@final
class ElasticNet(_Norms):
    """r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2."""

    l1: float = eqx.field(converter=_weight)
    l2: float = eqx.field(converter=_weight)

    @property
    @override
    def _weights(self) -> tuple[Scalar, Scalar]:
        return self.l1, self.l2
