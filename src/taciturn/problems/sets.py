"""Closed convex sets: projection, and the proximal map of the l1 norm restricted to them.

Arrays of any shape are read as one vector of all their coordinates.
"""

from __future__ import annotations

import abc
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import Array, HostArray, Model, Scalar


class ConvexSet(eqx.Module):
    """A non-empty closed convex set C.

    `closed_form`: whether `project` and `prox_l1` are wrong by at most (d + 24) 2^-53 of the norm
    of their argument or their result, whichever is larger, in double precision, d its entries: only
    then does rounding stay within the sensitivity of a step that is computed before the noise.
    `whole`: whether it is the whole space.
    """

    closed_form: ClassVar[bool] = False
    whole: ClassVar[bool] = False

    @abc.abstractmethod
    def project(self, x: Model) -> Model:
        """Return argmin_{p in C} |p - x|_2."""

    def project_in(self, x: Model, metric: float | Model) -> Model:
        """Return argmin_{p in C} sum_k metric_k (p_k - x_k)^2 / 2, the metric above 0 and finite.

        Other weights raise `InputError`; inside a compiled program, where values cannot be read,
        the result is NaN instead.
        """
        weights = jnp.broadcast_to(jnp.asarray(metric, x.dtype), x.shape)
        good = jnp.all((weights > 0) & jnp.isfinite(weights))
        if not isinstance(good, jax.core.Tracer) and not good:
            raise InputError("a weight of the metric is not above 0 and finite; give positive ones")
        return jnp.where(good, self._project_in(x, weights), jnp.nan)

    @abc.abstractmethod
    def _project_in(self, x: Model, metric: Model) -> Model:
        """Return the projection in a metric that is above 0 and finite."""

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
    def _project_in(self, x: Model, metric: Model) -> Model:
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

    @override
    def _project_in(self, x: Model, metric: Model) -> Model:
        """Return x clipped: the problem separates, so no weight plays a part."""
        return self.project(x)

    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        """Return the clipped soft threshold of v: the problem separates, an interval at a time."""
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

    def _project_in(self, x: Model, metric: Model) -> Model:
        """Return x / (1 + m / metric), with the multiplier m >= 0 of |p|^2 <= radius^2.

        m = 0 inside. Outside, m is the root of 1/|p(m)| - 1/radius, which is increasing and concave
        (Conn, Gould and Toint 2000, section 7.3.3), so that Newton's method from 0 grows towards
        the root and never passes it.
        """
        weights, radius = metric / jnp.max(metric), jnp.asarray(self.radius, x.dtype)
        rounding = 4 * float(np.finfo(x.dtype).eps)

        def newton(m: Array) -> Array:
            p = x / (1 + m / weights)
            norm = jnp.linalg.norm(p.ravel())
            slope = jnp.sum(p**2 / (weights + m))
            return jnp.asarray(m + (norm / radius - 1) * norm**2 / slope)

        def grows(pair: tuple[Array, Array]) -> Array:
            return jnp.asarray(pair[1] > pair[0] * (1 + rounding))

        start = jnp.zeros((), x.dtype)
        first = jnp.where(jnp.linalg.norm(x.ravel()) > radius, newton(start), start)
        m = jax.lax.while_loop(grows, lambda pair: (pair[1], newton(pair[1])), (start, first))[1]
        return x / (1 + m / weights)

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

        theta = max_k (x_(1) + ... + x_(k) - total) / k over the sorted coordinates
        x_(1) >= x_(2) >= ... (Held, Wolfe and Crowder 1974): the concave piecewise linear
        equation for theta is the minimum of its chords.
        """
        # relative to the maximum, so that a large common offset cannot swallow `total`
        shifted = x.ravel() - jnp.max(x)
        sizes = jnp.arange(1, shifted.size + 1, dtype=x.dtype)
        sums = jnp.cumsum(jnp.sort(shifted)[::-1]) - jnp.asarray(self.total, x.dtype)
        return jnp.maximum(shifted - jnp.max(sums / sizes), 0).reshape(x.shape)

    def _project_in(self, x: Model, metric: Model) -> Model:
        """Return max(x - theta / metric, 0) with theta such that the sum is `total`.

        For every set S of coordinates the sum is at least that of x_k - theta / metric_k over S,
        with equality for those above 0. Hence theta is the largest of
        (sum_S x_k - total) / sum_S 1 / metric_k, and it is enough to let S grow along
        metric_k x_k, from the largest: theta of k coordinates in the plain case.
        """
        weights = metric.ravel() / jnp.max(metric)
        slopes = weights * x.ravel()
        # relative to the largest, as above
        shifted = (slopes - jnp.max(slopes)) / weights
        order = jnp.argsort(-weights * shifted)
        sums = jnp.cumsum(shifted[order]) - jnp.asarray(self.total, x.dtype)
        theta = jnp.max(sums / jnp.cumsum(1 / weights[order]))
        return jnp.maximum(shifted - theta / weights, 0).reshape(x.shape)

    @override
    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        """Return the projection of v: on this set |x|_1 = `total` is a constant."""
        return self.project(v)

    def contains(self, x: Model, tol: float) -> Bool[Array, ""]:
        """Return whether x >= -tol and |sum x - total| <= tol."""
        return jnp.all(x >= -tol) & (jnp.abs(jnp.sum(x) - self.total) <= tol)
