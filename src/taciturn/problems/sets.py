"""Closed convex sets: projections, and proximal maps of the l1 norm restricted to them.

An array of any shape stands for the vector of all its entries.
"""

from __future__ import annotations

import abc
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import Array, HostArray, Model, Scalar


class ConvexSet(eqx.Module):
    """A non-empty closed convex set C.

    `closed_form`: whether the error of `project` and `prox_l1` in double precision is at most
    (d + 24) 2^-53 times the norm of argument or result, whichever is larger, d the number of
    entries: only then does rounding stay within the sensitivity of a step that is computed before
    the noise. `whole`: whether it is the whole space.
    """

    closed_form: ClassVar[bool] = False
    whole: ClassVar[bool] = False

    @abc.abstractmethod
    def project(self, x: Model) -> Model:
        """Return argmin_{p in C} |p - x|_2."""

    @abc.abstractmethod
    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        """Return argmin_{x in C} threshold |x|_1 + |x - v|_2^2 / 2."""

    @abc.abstractmethod
    def contains(self, x: Model, tol: float) -> Bool[Array, ""]:
        """Return whether x meets every defining inequality up to `tol`."""


def soft_threshold(v: Model, threshold: Scalar) -> Model:
    """Return argmin_x threshold |x|_1 + |x - v|_2^2 / 2 = sign(v) max(|v| - threshold, 0)."""
    return jnp.sign(v) * jnp.maximum(jnp.abs(v) - jnp.asarray(threshold, v.dtype), 0)


@final
class WholeSpace(ConvexSet):
    """All vectors: no constraint."""

    closed_form: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    @override
    def project(self, x: Model) -> Model:
        return x

    @override
    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        return soft_threshold(v, threshold)

    @override
    def contains(self, x: Model, tol: float) -> Bool[Array, ""]:
        return jnp.all(~jnp.isnan(x))


def _bound(value: float | Array | HostArray) -> float | Array:
    return float(value) if np.ndim(value) == 0 else jnp.asarray(value, jnp.float64)


@final
class Box(ConvexSet):
    """{x : lower <= x <= upper}; the bounds are numbers or arrays that broadcast to x."""

    closed_form: ClassVar[bool] = True

    lower: float | Model = eqx.field(converter=_bound)
    upper: float | Model = eqx.field(converter=_bound)

    def __check_init__(self) -> None:
        if not np.all(np.asarray(self.lower) <= np.asarray(self.upper)):
            raise InputError("a lower bound of the box is NaN or above its upper bound; swap them")

    def project(self, x: Model) -> Model:
        """Return x clipped coordinate by coordinate."""
        return jnp.clip(x, jnp.asarray(self.lower, x.dtype), jnp.asarray(self.upper, x.dtype))

    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        """Return the clipped soft threshold of v: the problem separates over coordinates."""
        return self.project(soft_threshold(v, threshold))

    def contains(self, x: Model, tol: float) -> Bool[Array, ""]:
        """Return whether lower - tol <= x <= upper + tol."""
        return jnp.all((x >= self.lower - tol) & (x <= self.upper + tol))


@final
class Ball(ConvexSet):
    """{x : |x|_2 <= radius}, centred at 0."""

    closed_form: ClassVar[bool] = True

    radius: float = eqx.field(converter=lambda radius: checks.positive("radius", radius))

    def project(self, x: Model) -> Model:
        """Return x min(1, radius / |x|_2)."""
        norm = jnp.linalg.norm(x.ravel())
        radius = jnp.asarray(self.radius, x.dtype)
        return x * jnp.where(norm > radius, radius / norm, 1)

    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        """Return the projection of the soft threshold of v.

        With multiplier m >= 0 of (|x|^2 - radius^2) / 2 <= 0 the optimum minimises
        threshold |x|_1 + |x - v|^2 / 2 + m |x|^2 / 2, so x = soft(v, threshold) / (1 + m): the
        soft threshold itself if it lies inside (m = 0), else scaled back to the sphere. Yu 2013
        proves it for every positively homogeneous function.
        """
        return self.project(soft_threshold(v, threshold))

    def contains(self, x: Model, tol: float) -> Bool[Array, ""]:
        """Return whether |x|_2 <= radius + tol."""
        inside: Array = jnp.linalg.norm(x.ravel()) <= self.radius + tol
        return inside


@final
class Simplex(ConvexSet):
    """{x : x >= 0, sum x = total}."""

    closed_form: ClassVar[bool] = True

    total: float = eqx.field(converter=lambda total: checks.positive("total", total))

    def project(self, x: Model) -> Model:
        """Return max(x - theta, 0) with theta such that the sum is `total`.

        theta = max_k (x_(1) + ... + x_(k) - total) / k over the sorted coordinates x_(1) >= x_(2)
        >= ... (Held, Wolfe and Crowder 1974), since the sum of max(x_j - theta, 0) is the maximum
        over k of x_(1) + ... + x_(k) - k theta, and 0.
        """
        # relative to the maximum, so that a large common offset cannot swallow `total`
        shifted = x.ravel() - jnp.max(x)
        sizes = jnp.arange(1, shifted.size + 1, dtype=x.dtype)
        sums = jnp.cumsum(jnp.sort(shifted)[::-1]) - jnp.asarray(self.total, x.dtype)
        return jnp.maximum(shifted - jnp.max(sums / sizes), 0).reshape(x.shape)

    @override
    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        """Return the projection of v: on this set |x|_1 = `total` is a constant."""
        return self.project(v)

    def contains(self, x: Model, tol: float) -> Bool[Array, ""]:
        """Return whether x >= -tol and |sum x - total| <= tol."""
        return jnp.all(x >= -tol) & (jnp.abs(jnp.sum(x) - self.total) <= tol)


@final
class Direction(eqx.Module):
    """That a score rises with a number (`sign` 1) or falls with it (-1).

    `column` is the coordinate of the number itself, and `block` those of its features in the order
    of the number, if a feature map has any.
    """

    sign: int = eqx.field(static=True)
    column: int = eqx.field(static=True)
    block: tuple[int, ...] = eqx.field(static=True, default=())


@final
class Monotone(ConvexSet):
    """{x : s x_c >= 0, and s x_b does not fall along the block, for every direction (s, c, block)}.

    Let a score contain a t + sum_k h_k phi_k(t) of a number t, phi the bins or hats of its range in
    order. If a >= 0 and h_1 <= ... <= h_N, it does not fall with t. No function is lost: with bins
    a and the jumps h_(k+1) - h_k of one that does not fall are at least 0 anyway; with hats it is
    also that of a = 0, and of its values at the nodes as h.
    """

    directions: tuple[Direction, ...]

    def __check_init__(self) -> None:
        places = [k for one in self.directions for k in (one.column, *one.block)]
        if len(set(places)) < len(places) or any(abs(one.sign) != 1 for one in self.directions):
            raise InputError("a column has two directions, or one that is neither 1 nor -1")

    def project(self, x: Model) -> Model:
        """Return max(s x_c, 0) s for the columns and isotonic regressions for the blocks.

        The set is a product, so that each part is projected alone.
        """
        for one in self.directions:
            sign, column, block = one.sign, one.column, one.block
            x = x.at[column].set(sign * jnp.maximum(sign * x[column], 0))
            if block:
                places = jnp.asarray(block)
                x = x.at[places].set(sign * isotonic(sign * x[places]))
        return x

    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        """Return the soft threshold of the projection of v.

        On a run of equal entries of an isotonic regression the l1 norm replaces their mean by its
        soft threshold, which keeps the order of the means, and so the runs.
        """
        return soft_threshold(self.project(v), threshold)

    def contains(self, x: Model, tol: float) -> Bool[Array, ""]:
        """Return whether every inequality holds up to tol."""
        steps = [
            one.sign * jnp.append(x[one.column], jnp.diff(x[jnp.asarray(one.block, int)]))
            for one in self.directions
        ]
        return jnp.all(jnp.concatenate([jnp.zeros(1), *steps]) >= -tol)


def isotonic(y: Float[Array, "N"]) -> Float[Array, "N"]:
    """Return argmin |z - y|_2 over z_1 <= ... <= z_N: z_k = max_{i<=k} min_{j>=k} mean(y_i..y_j).

    That is the max-min formula of Robertson, Wright and Dykstra 1988, section 1.4. Every z_(k+1) is
    a maximum over more, of minima over less, than z_k, so that no rounding breaks their order.
    """
    first, last = jnp.arange(y.size)[:, None], jnp.arange(y.size)[None, :]
    sums = jnp.append(jnp.zeros(1, y.dtype), jnp.cumsum(y))
    means = (sums[last + 1] - sums[first]) / jnp.maximum(last - first + 1, 1).astype(y.dtype)
    least = jax.lax.cummin(jnp.where(last >= first, means, jnp.inf), axis=1, reverse=True)
    return jnp.max(jnp.where(last >= first, least, -jnp.inf), axis=0)
