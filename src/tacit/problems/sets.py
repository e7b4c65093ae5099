"""Closed convex sets: Euclidean projection, and the proximal map of the l1 norm restricted to them.

Arrays of any shape are read as one vector of all their coordinates.
"""

from __future__ import annotations

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from tacit import checks
from tacit.errors import InputError
from tacit.typing import Array


class ConvexSet(eqx.Module):
    """A non-empty closed convex set C."""

    @abc.abstractmethod
    def project(self, x: Float[Array, "*S"]) -> Float[Array, "*S"]:
        """Return argmin_{p in C} |p - x|_2."""

    @abc.abstractmethod
    def prox_l1(
        self, v: Float[Array, "*S"], threshold: float | Float[Array, ""]
    ) -> Float[Array, "*S"]:
        """Return argmin_{x in C} threshold |x|_1 + |x - v|_2^2 / 2."""

    @abc.abstractmethod
    def contains(self, x: Float[Array, "*S"], tol: float) -> Bool[Array, ""]:
        """Return whether x meets every defining inequality up to `tol`."""


def soft_threshold(
    v: Float[Array, "*S"], threshold: float | Float[Array, ""]
) -> Float[Array, "*S"]:
    """Return argmin_x threshold |x|_1 + |x - v|_2^2 / 2 = sign(v) max(|v| - threshold, 0).

    Examples
    --------
    >>> soft_threshold(jnp.array([-3.0, 0.5]), 1.0)
    Array([-2.,  0.], dtype=float64)
    """
    return jnp.sign(v) * jnp.maximum(jnp.abs(v) - jnp.asarray(threshold, v.dtype), 0)


@final
class WholeSpace(ConvexSet):
    """All vectors: no constraint."""

    def project(self, x: Float[Array, "*S"]) -> Float[Array, "*S"]:
        """Return x."""
        return x

    def prox_l1(
        self, v: Float[Array, "*S"], threshold: float | Float[Array, ""]
    ) -> Float[Array, "*S"]:
        """Return the soft threshold of v."""
        return soft_threshold(v, threshold)

    def contains(self, x: Float[Array, "*S"], tol: float) -> Bool[Array, ""]:  # noqa: ARG002
        """Return True for every x without a NaN."""
        return jnp.all(~jnp.isnan(x))


def _bound(value: float | Array) -> float | Array:
    return float(value) if np.ndim(value) == 0 else jnp.asarray(value, jnp.float64)


@final
class Box(ConvexSet):
    """{x : lower <= x <= upper}, the bounds numbers or arrays that broadcast to x; may be infinite.

    Raises
    ------
    InputError
        If a lower bound exceeds its upper bound, or one is NaN.

    Examples
    --------
    >>> Box(lower=-1.0, upper=1.0).project(jnp.array([-3.0, 0.5]))
    Array([-1. ,  0.5], dtype=float64)
    """

    lower: float | Float[Array, "*S"] = eqx.field(converter=_bound)
    upper: float | Float[Array, "*S"] = eqx.field(converter=_bound)

    def __check_init__(self) -> None:
        if not np.all(np.asarray(self.lower) <= np.asarray(self.upper)):
            raise InputError("a lower bound of the box is NaN or above its upper bound; swap them")

    def project(self, x: Float[Array, "*S"]) -> Float[Array, "*S"]:
        """Return x clipped coordinate by coordinate."""
        return jnp.clip(x, jnp.asarray(self.lower, x.dtype), jnp.asarray(self.upper, x.dtype))

    def prox_l1(
        self, v: Float[Array, "*S"], threshold: float | Float[Array, ""]
    ) -> Float[Array, "*S"]:
        """Return the clipped soft threshold of v.

        The problem separates, and a convex function of one variable is minimised over an
        interval by clipping its free minimiser to it.
        """
        return self.project(soft_threshold(v, threshold))

    def contains(self, x: Float[Array, "*S"], tol: float) -> Bool[Array, ""]:
        """Return whether lower - tol <= x <= upper + tol."""
        return jnp.all((x >= self.lower - tol) & (x <= self.upper + tol))


@final
class Ball(ConvexSet):
    """{x : |x|_2 <= radius}, centred at 0.

    Examples
    --------
    >>> Ball(radius=1.0).project(jnp.array([3.0, 4.0]))
    Array([0.6, 0.8], dtype=float64)
    """

    radius: float = eqx.field(converter=lambda radius: checks.positive("radius", radius))

    def project(self, x: Float[Array, "*S"]) -> Float[Array, "*S"]:
        """Return x min(1, radius / |x|_2)."""
        norm = jnp.linalg.norm(x.ravel())
        radius = jnp.asarray(self.radius, x.dtype)
        return x * jnp.where(norm > radius, radius / norm, 1)

    def prox_l1(
        self, v: Float[Array, "*S"], threshold: float | Float[Array, ""]
    ) -> Float[Array, "*S"]:
        """Return the projection of the soft threshold of v.

        With multiplier m >= 0 of (|x|^2 - radius^2) / 2 <= 0 the optimum minimises
        threshold |x|_1 + |x - v|^2 / 2 + m |x|^2 / 2, so x = soft(v, threshold) / (1 + m): the
        soft threshold itself if it lies inside (m = 0), else scaled back to the sphere. Yu 2013
        proves it for every positively homogeneous function.
        """
        return self.project(soft_threshold(v, threshold))

    def contains(self, x: Float[Array, "*S"], tol: float) -> Bool[Array, ""]:
        """Return whether |x|_2 <= radius + tol."""
        inside: Array = jnp.linalg.norm(x.ravel()) <= self.radius + tol
        return inside


@final
class Simplex(ConvexSet):
    """{x : x >= 0, sum x = total}.

    Examples
    --------
    >>> Simplex(total=1.0).project(jnp.array([2.0, 1.5, -1.0]))
    Array([0.75, 0.25, 0.  ], dtype=float64)
    """

    total: float = eqx.field(converter=lambda total: checks.positive("total", total))

    def project(self, x: Float[Array, "*S"]) -> Float[Array, "*S"]:
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

    def prox_l1(
        self,
        v: Float[Array, "*S"],
        threshold: float | Float[Array, ""],  # noqa: ARG002
    ) -> Float[Array, "*S"]:
        """Return the projection of v: on this set |x|_1 = `total` is a constant."""
        return self.project(v)

    def contains(self, x: Float[Array, "*S"], tol: float) -> Bool[Array, ""]:
        """Return whether x >= -tol and |sum x - total| <= tol."""
        return jnp.all(x >= -tol) & (jnp.abs(jnp.sum(x) - self.total) <= tol)
