"""One constrained local step: the question of output perturbation."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float
from typing_extensions import override

from tacit.oracles.gradient import Gradient
from tacit.oracles.oracle import Assumptions, Oracle, Point
from tacit.privacy import Adjacency, Norm, SensitivityBound
from tacit.problems import Problem, Shard
from tacit.spec import Spec
from tacit.typing import Array

# larger queries are answered at the neutral one: rounding could exceed a record's part
LARGEST = 1e7


class Step(NamedTuple):
    """A question about a step from `point`: with g the gradient of f_i there, it goes to

        prox_{step r}(point - (g + slope) / curvature)        within the constraint.

    Attributes
    ----------
    point, slope
        Of the model's shape; `slope` is the gradient of everything public that is minimised too.
    curvature, step
        Above 0; the step of the proximal map need not be 1 / curvature.
    """  # noqa: D400 - the sentence ends in its equation

    point: Float[Array, "..."]
    slope: Float[Array, "..."]
    curvature: Float[Array, ""]
    step: Float[Array, ""]


class ProjectedStep(Oracle):
    r"""The gradient mapping of a constrained step, in units of the gradient.

    With g the clipped mean gradient of `Gradient` at the query's point x, slope s, curvature c and
    v = x - (g + s) / c, the answer is

        G_i = c (x - prox_{step r}(v))                               shape of w,

    so that x - G_i / c is the projected step. Without constraint and regulariser G_i = g + s.
    Noise of scale sigma on G_i is noise of scale sigma / c on the projected point: this is the
    output perturbation (3.4) of Ryu & Kim 2023, whose answer is the point itself, with sensitivity
    Delta_g / (rho + 1/eta). Stated in units of the gradient the bound is free of the schedule, and
    its scales can be compared with those of `Gradient`.

    **Guarantee.** A proximal map of a convex function within a convex set does not expand:
    |prox(v) - prox(v')| <= |v - v'|. Hence |G - G'| <= c |v - v'| = |g - g'|, for *every* point,
    slope, curvature and step, and the sensitivity is that of `Gradient`, derived in
    `mean_gradient_bound`. In the 1-norm a projection may expand, but |G - G'|_1 <= sqrt(d)
    |G - G'|_2, which is how that bound arises in the first place. The step is computed in float64;
    a query that is not finite, or so large that rounding could exceed a record's part, is answered
    at x = s = 0 and c = step = 1 instead. Which queries those are depends on the query alone.

    Attributes
    ----------
    problem
        Loss, regulariser and constraint.
    clip
        As for `Gradient`.
    """

    problem: Problem
    clip: float = eqx.field(static=True)

    @property
    def gradient(self) -> Gradient:
        """The question about the gradient of the step."""
        return Gradient(self.problem.loss, self.clip)

    @property
    @override
    def assumptions(self) -> Assumptions:
        return self.gradient.assumptions

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Step) -> Float[Array, "..."]:
        gradient = self.gradient.exact(shard, count, Point(query.point))
        wide = Step(*(part.astype(jnp.float64) for part in query))
        x, slope, curvature, step = _or_else(_usable(wide), wide)
        ahead = x - (gradient.astype(jnp.float64) + slope) / curvature
        mapping = curvature * (x - self.problem.prox(ahead, step))
        return mapping.astype(gradient.dtype)

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        return self.gradient.bound(spec, adjacency, norm=norm)


def _usable(query: Step) -> Bool[Array, ""]:
    """Whether all numbers are such that float64 carries the step; false for a NaN."""
    point, slope, curvature, step = query
    small = jnp.all(jnp.abs(point) * curvature <= LARGEST) & jnp.all(jnp.abs(slope) <= LARGEST)
    positive = (curvature >= 1 / LARGEST) & (curvature <= LARGEST**2)
    return small & positive & (step >= 0) & (step <= LARGEST)


def _or_else(usable: Bool[Array, ""], query: Step) -> Step:
    zero, one = jnp.zeros_like(query.point), jnp.ones_like(query.curvature)
    neutral = Step(zero, zero, one, one)
    return Step(*(jnp.where(usable, a, b) for a, b in zip(query, neutral, strict=True)))
