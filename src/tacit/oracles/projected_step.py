"""One constrained local step: the question of output perturbation."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float
from typing_extensions import override

from tacit.oracles.gradient import Gradient
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.queries import Point
from tacit.oracles.sums import with_rounding
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
    |G - G'|_2, which is how that bound arises in the first place.

    **Rounding.** The gradient is exact (`Gradient`); the rest is computed in double precision,
    u = 2^-53. Sum, quotient, difference and product have relative errors of u, the proximal map one
    of at most (d + 24) u of the norm of its argument or of its result, whichever is larger. With
    P = prox_{step r}(x - s / c), which is public, the result is within c_1 / c of P, so that G is
    wrong by at most (d + 32) u (c |x| + |s| + c |P| + c_1). That is at most Delta / 2^10 as long as

        c |x| + |s| + c |P| <= U = 2^43 c_1 / (m (d + 32)) - c_1,

    since Delta >= c_1 / m; both sides of a comparison together add 2^-9, which the bound has. A
    query beyond U, or 1e7, or that is not a number, is answered with 0: a rule that sees the query
    and public numbers only.

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
    def exact_on_machine(self) -> bool:
        """Whether the set and the regulariser have a closed form."""
        return self.problem.closed_form

    @property
    @override
    def assumptions(self) -> Assumptions:
        return self.gradient.assumptions

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Step) -> Float[Array, "..."]:
        gradient = self.gradient.exact(shard, count, Point(query.point))
        wide = Step(*(part.astype(jnp.float64) for part in query))
        reach = self._reach(shard, count, wide.point.size)
        usable = _usable(wide, reach)
        x, slope, curvature, step = _or_else(usable, wide)
        without_records = self.problem.prox(x - slope / curvature, step)
        usable &= _size(x, slope, curvature) + _size(without_records, 0.0, curvature) <= reach
        ahead = x - (gradient.astype(jnp.float64) + slope) / curvature
        mapping = curvature * (x - self.problem.prox(ahead, step))
        answer: Array = jnp.where(usable, mapping, 0.0).astype(gradient.dtype)
        return answer

    def _reach(self, shard: Shard, count: Float[Array, ""], entries: int) -> Float[Array, ""]:
        """Return U, or the largest query at all where answers are not exact."""
        if shard.grid is None:
            return jnp.asarray(LARGEST)
        term = shard.grid.record_norm * self.gradient.coefficient_bound
        reach: Array = jnp.minimum(2.0**43 * term / (count * (entries + 32)) - term, LARGEST)
        return reach

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        return with_rounding(self.gradient.bound(spec, adjacency, norm=norm))


def _usable(query: Step, reach: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether all numbers are such that double precision carries the step; false for a NaN."""
    point, slope, curvature, step = query
    small = _size(point, slope, curvature) <= reach
    positive = (curvature >= 1 / LARGEST) & (curvature <= LARGEST**2)
    usable: Array = small & positive & (step >= 0) & (step <= LARGEST)
    return usable


def _size(point: Array, slope: Array | float, curvature: Array) -> Array:
    """Return c |x| + |s|."""
    size: Array = curvature * jnp.linalg.norm(point) + jnp.linalg.norm(slope)
    return size


def _or_else(usable: Bool[Array, ""], query: Step) -> Step:
    zero, one = jnp.zeros_like(query.point), jnp.ones_like(query.curvature)
    neutral = Step(zero, zero, one, one)
    return Step(*(jnp.where(usable, a, b) for a, b in zip(query, neutral, strict=True)))
