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


def _weight(value: float) -> float:
    return checks.not_negative("a regulariser's weight", value)


class Regulariser(eqx.Module):
    """A convex function r(x) of all coordinates of the model, of any shape.

    The constants below are for planning, on the host; they are not to be read inside jit.

    Attributes
    ----------
    closed_form
        Of `prox_within` on a set that has it too: as for `ConvexSet`.
    """

    closed_form: ClassVar[bool] = False

    @abc.abstractmethod
    def value(self, x: Model) -> Float[Array, ""]:
        """Return r(x)."""

    @abc.abstractmethod
    def subgradient(self, x: Model) -> Model:
        """Return one element of the subdifferential of r at x, the smallest one."""

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
        """Largest m for which r - m |x|^2 / 2 is convex; 0 unless a subclass says otherwise."""
        return 0.0

    def prox(self, v: Model, step: Scalar) -> Model:
        """Return argmin_x r(x) + |x - v|_2^2 / (2 step)."""
        return self.prox_within(WholeSpace(), v, step)


@final
class NoRegulariser(Regulariser):
    """r(x) = 0."""

    closed_form: ClassVar[bool] = True

    def value(self, x: Model) -> Float[Array, ""]:
        """Return 0."""
        return jnp.zeros((), x.dtype)

    def subgradient(self, x: Model) -> Model:
        """Return 0."""
        return jnp.zeros_like(x)

    @override
    def prox_within(self, constraint: ConvexSet, v: Model, step: Scalar) -> Model:
        """Return the projection of v."""
        return constraint.project(v)

    @override
    def gradient_bound(self, dimension: int) -> float:
        """Return 0."""
        return 0.0

    @property
    def smoothness(self) -> float:
        """0."""
        return 0.0


@final
class L1(Regulariser):
    """r(x) = weight |x|_1.

    Examples
    --------
    >>> L1(weight=2.0).prox(jnp.array([-3.0, 0.5]), 0.5)
    Array([-2.,  0.], dtype=float64)
    """

    closed_form: ClassVar[bool] = True

    weight: float = eqx.field(converter=_weight)

    def value(self, x: Model) -> Float[Array, ""]:
        """Return weight |x|_1."""
        return jnp.asarray(self.weight, x.dtype) * jnp.sum(jnp.abs(x))

    def subgradient(self, x: Model) -> Model:
        """Return weight sign(x), 0 where x is 0."""
        return jnp.asarray(self.weight, x.dtype) * jnp.sign(x)

    def prox_within(self, constraint: ConvexSet, v: Model, step: Scalar) -> Model:
        """Return the proximal map of the l1 norm within the set, at threshold step weight."""
        return constraint.prox_l1(v, step * self.weight)

    def gradient_bound(self, dimension: int) -> float:
        """Return weight sqrt(dimension)."""
        return math.sqrt(dimension) * self.weight

    @property
    def smoothness(self) -> float:
        """Infinite: the kink at 0."""
        return math.inf if self.weight else 0.0


@final
class L2(Regulariser):
    """r(x) = (weight / 2) |x|_2^2.

    Examples
    --------
    >>> L2(weight=1.0).prox(jnp.array([3.0]), 0.5)
    Array([2.], dtype=float64)
    """

    closed_form: ClassVar[bool] = True

    weight: float = eqx.field(converter=_weight)

    def value(self, x: Model) -> Float[Array, ""]:
        """Return (weight / 2) |x|_2^2."""
        return 0.5 * jnp.asarray(self.weight, x.dtype) * jnp.sum(x**2)

    def subgradient(self, x: Model) -> Model:
        """Return weight x."""
        return jnp.asarray(self.weight, x.dtype) * x

    def prox_within(self, constraint: ConvexSet, v: Model, step: Scalar) -> Model:
        """Return the projection of v / (1 + step weight).

        Completing the square: step weight |x|^2 / 2 + |x - v|^2 / 2 equals
        (1 + step weight) |x - v / (1 + step weight)|^2 / 2 plus a constant, an isotropic
        distance, so that its minimiser over any set is a projection.
        """
        return constraint.project(v * _shrinkage(self.weight, v, step))

    @override
    def gradient_bound(self, dimension: int) -> float:
        """Return infinity: the gradient grows with x."""
        return math.inf if self.weight else 0.0

    @property
    def smoothness(self) -> Scalar:
        """The weight."""
        return self.weight

    @property
    def strong_convexity(self) -> Scalar:
        """The weight."""
        return self.weight


@final
class ElasticNet(Regulariser):
    """r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2.

    Examples
    --------
    >>> ElasticNet(l1=1.0, l2=1.0).prox(jnp.array([3.0]), 1.0)
    Array([1.], dtype=float64)
    """

    closed_form: ClassVar[bool] = True

    l1: float = eqx.field(converter=_weight)
    l2: float = eqx.field(converter=_weight)

    def value(self, x: Model) -> Float[Array, ""]:
        """Return l1 |x|_1 + (l2 / 2) |x|_2^2."""
        l1, l2 = jnp.asarray(self.l1, x.dtype), jnp.asarray(self.l2, x.dtype)
        return l1 * jnp.sum(jnp.abs(x)) + 0.5 * l2 * jnp.sum(x**2)

    def subgradient(self, x: Model) -> Model:
        """Return l1 sign(x) + l2 x."""
        l1, l2 = jnp.asarray(self.l1, x.dtype), jnp.asarray(self.l2, x.dtype)
        return l1 * jnp.sign(x) + l2 * x

    def prox_within(self, constraint: ConvexSet, v: Model, step: Scalar) -> Model:
        """Return the l1 proximal map at v s with threshold step l1 s, s = 1 / (1 + step l2).

        The square is completed as for `L2`; dividing the objective by 1 + step l2 leaves the
        l1 term with weight step l1 / (1 + step l2).
        """
        shrinkage = _shrinkage(self.l2, v, step)
        return constraint.prox_l1(v * shrinkage, step * self.l1 * shrinkage)

    def gradient_bound(self, dimension: int) -> float:
        """Return infinity, unless l2 is 0."""
        return math.inf if self.l2 else math.sqrt(dimension) * self.l1

    @property
    def smoothness(self) -> Scalar:
        """Infinite, unless l1 is 0."""
        return math.inf if self.l1 else self.l2

    @property
    def strong_convexity(self) -> Scalar:
        """The weight l2."""
        return self.l2


def _shrinkage(weight: Scalar, v: Model, step: Scalar) -> Array:
    return jnp.asarray(1 / (1 + step * weight), v.dtype)
