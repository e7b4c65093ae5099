"""Questions about a minimiser: projected or proximal steps, noised outside or inside."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.questions.gradient import Gradient
from taciturn.kernel.questions.loss import Loss
from taciturn.kernel.questions.oracle import (
    Answer,
    Assumptions,
    Centre,
    Count,
    ObjectiveNoise,
    Point,
    Question,
    check_form,
)
from taciturn.kernel.questions.sums import ROUNDING
from taciturn.kernel.records import Shard, Spec
from taciturn.typing import Array

# larger queries are replaced: rounding could exceed the contribution of a record
LARGEST = 1e7


class Step(NamedTuple):
    """A question about prox_{step r}(point - (g + slope) / curvature) within the constraint.

    g is the gradient of f_i at `point`, `slope` that of all public terms of the objective, of the
    model's shape; curvature and step are positive, and the step need not be 1 / curvature.
    """

    point: Float[Array, "..."]
    slope: Float[Array, "..."]
    curvature: Float[Array, ""]
    step: Float[Array, ""]


@runtime_checkable
class Minimised(Protocol):
    """The loss, regulariser r and constraint C of a step.

    `prox` is argmin_{x in C} r(x) + |x - v|^2 / (2 step), and `closed_form` whether its rounding
    is bounded as `taciturn.problems.ConvexSet` states. `regulariser` has `strong_convexity` and
    `smoothness`, and `constraint` has `whole`, whether it is the whole space.
    """

    loss: Loss
    regulariser: Any
    constraint: Any

    @property
    def closed_form(self) -> bool:
        """Whether the set and the regulariser have a closed form."""

    def prox(self, v: Float[Array, "*S"], step: Any) -> Float[Array, "*S"]:
        """Return the minimiser near v."""


class _Step(Question):
    """A step on a problem; `clip`, stored as min(clip, lipschitz), bounds a coefficient."""

    problem: Minimised
    clip: float = eqx.field(static=True)

    def __post_init__(self) -> None:
        self.clip = Gradient(self.problem.loss, self.clip).clip

    @property
    def gradient(self) -> Gradient:
        """The question about the gradient of the step."""
        return Gradient(self.problem.loss, self.clip)

    @property
    def exact_on_machine(self) -> bool:  # type: ignore[override]
        """Whether the set and the regulariser have a closed form."""
        return self.problem.closed_form


class ProjectedStep(_Step):
    """The gradient mapping of a constrained step, in units of the gradient.

    With g the clipped mean gradient of `Gradient` at the query's point x, slope s, curvature c and
    v = x - (g + s) / c, the answer is

        G_i = c (x - prox_{step r}(v))                               shape of w,

    so that x - G_i / c is the projected step, and G_i = g + s without constraint and regulariser.
    Noise of scale sigma on G_i is noise of scale sigma / c on the point: the output perturbation
    (3.4) of Ryu & Kim 2023, of sensitivity Delta_g / (rho + 1/eta). In units of the gradient the
    bound does not depend on the schedule.

    **Guarantee.** The proximal map of a convex function on a convex set is non-expansive, so that
    |G - G'| <= c |v - v'| = |g - g'| for *every* point, slope, curvature and step: the sensitivity
    is that of `Gradient`, a `mean` (`taciturn.kernel.questions.bounds`). In the 1-norm a projection
    may expand, but |G - G'|_1 <= sqrt(d) |G - G'|_2, which is how that bound is derived.

    **Rounding.** A query with c |x| + |s| + c |P| beyond U = 2^43 c_1 / (m (d + 32)) - c_1, P =
    prox_{step r}(x - s / c), or beyond 1e7, or NaN, is answered with 0: a rule on the query and
    public numbers only. Within it rounding adds less than 2^-9 of the bound, which is widened by
    that (docs/explanation/rounding.md).
    """

    @property
    def assumptions(self) -> Assumptions:
        """Those of the gradient."""
        return self.gradient.assumptions

    def exact(self, shard: Shard, count: Count, query: Step) -> Answer:
        """Return G_i."""
        shape = self.gradient.model_shape(shard)
        check_form(query, Step, point=shape, slope=shape, curvature=(), step=())
        gradient = self.gradient.exact(shard, count, Point(query.point))
        wide = Step(*(part.astype(jnp.float64) for part in query))
        reach = jnp.asarray(LARGEST)
        if shard.grid is not None:  # U; elsewhere answers are not exact
            term = shard.grid.record_norm * self.gradient.coefficient_bound
            parts = count * (wide.point.size + 32)
            reach = jnp.minimum(2.0**43 * term / parts - term, LARGEST)
        small = _size(wide.point, wide.slope, wide.curvature) <= reach  # false for a NaN
        positive = (wide.curvature >= 1 / LARGEST) & (wide.curvature <= LARGEST**2)
        usable = small & positive & (wide.step >= 0) & (wide.step <= LARGEST)
        zero, one = jnp.zeros_like(wide.point), jnp.ones_like(wide.curvature)
        x, slope, curvature, step = (
            jnp.where(usable, part, neutral)
            for part, neutral in zip(wide, (zero, zero, one, one), strict=True)
        )
        without_records = self.problem.prox(x - slope / curvature, step)
        usable &= _size(x, slope, curvature) + _size(without_records, 0.0, curvature) <= reach
        ahead = x - (gradient.astype(jnp.float64) + slope) / curvature
        mapping = curvature * (x - self.problem.prox(ahead, step))
        answer: Array = jnp.where(usable, mapping, 0.0).astype(gradient.dtype)
        return answer

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the facts of the gradient, widened for rounding."""
        return {**self.gradient.facts(spec), "coefficient": self.clip, "widened": ROUNDING}


def _size(point: Array, slope: Array | float, curvature: Array) -> Array:
    """Return c |x| + |s|."""
    size: Array = curvature * jnp.linalg.norm(point) + jnp.linalg.norm(slope)
    return size


class ProximalStep(_Step):
    """The minimiser of an agent's function near a public centre.

    With f_i the mean of the agent's clipped losses, r and C those of `problem`,

        w_i(v) = argmin_{w in C} f_i(w) + r(w) + (rho/2) |w - v|^2,

    computed by K steps from the public start P(v), with s = 2 / L and L the smoothness of f_i:

        x <- P(x - s grad f_i(x)),    P(u) = argmin_{w in C} r(w) + (rho/2)|w - v|^2 + |w - u|^2/2s.

    I - s grad f_i is non-expansive (f_i is convex and L-smooth, clipped or not: the clipped
    coefficient of a scalar margin is monotone; targets for which the loss is steeper are clipped to
    its domain), P is a contraction with factor q = 1 / (1 + s rho). So after K steps, K the least
    number for which q^K <= tol,

        |x_K - w_i(v)| <= q^K c_1 / rho,    c_1 = record_norm min(lipschitz, clip),

    at every centre and on all data, so that no convergence test is needed.

    **Guarantee.** Let a record change, so that grad f_i moves by at most D_g at every point
    (`taciturn.kernel.questions.bounds.mean`), and let m be the strong convexity of r. The two runs
    start at the same public point, and their distance obeys d <- (d + s D_g) / (1 + s (rho + m)),
    so it never exceeds

        Delta_i = D_g / (rho + m),       e.g. 2 c_1 / (m_i (rho + m)) for replace_one,

    the sensitivity of the exact minimiser, for every K: stopping early costs no privacy.

    **Rounding.** All is computed in double precision, on plain sums. A centre v is answered with
    the start P(v) if either is longer than V (`reach`): a rule on the centre and public numbers
    only. Within it rounding adds less than 2^-9 of the bound, which is widened by that
    (docs/explanation/rounding.md).

    - `problem`: The agent's loss, and the regulariser and constraint if agents have them.
    - `clip`, `record_norm`: Public bounds on the coefficient and the norm of a record.
    - `rho`: Curvature of the quadratic.
    - `tol`: Residual, relative to c_1 / rho, the largest distance of the minimiser from the centre.
    """

    holds_for_any_loss: ClassVar[bool] = False

    rho: float = eqx.field(static=True)
    record_norm: float = eqx.field(static=True)
    tol: float = eqx.field(static=True, default=1e-9)

    def __check_init__(self) -> None:
        checks.positive("clip", self.clip, allow_infinity=True)
        checks.positive("rho", self.rho)
        checks.positive("record_norm", self.record_norm)
        checks.fraction("tol", self.tol)
        loss = self.problem.loss
        # neither a score nor the clipped coefficient of several margins need be monotone
        if loss.outputs is not None and (self.clip < loss.lipschitz or not loss.is_gradient):
            raise InputError(
                f"a clip of {self.clip:g} leaves coefficients of {type(loss).__name__} that are no "
                "gradient, so that their step need not have a minimiser; use multinomial, unclipped"
            )

    @property
    def steps(self) -> int:
        """The number of steps K."""
        contraction = 1 / (1 + 2 / self.smoothness * self.rho)
        return max(1, math.ceil(math.log(self.tol) / math.log(contraction)))

    @property
    def smoothness(self) -> float:
        """L, the Lipschitz constant of grad f_i: that of the loss times record_norm^2."""
        return self.problem.loss.smoothness * self.record_norm**2

    @property
    def curvature(self) -> float:
        """The sum of rho and the strong convexity of the regulariser, rounded down."""
        weight = np.float32(self.problem.regulariser.strong_convexity)
        return self.rho + max(0.0, float(np.nextafter(weight, np.float32(-np.inf))))

    @property
    def assumptions(self) -> Assumptions:
        """Those of the gradient, the norm of records, and rho."""
        return self.gradient.assumptions._replace(record_norm=self.record_norm, rho=self.rho)

    def exact(self, shard: Shard, count: Count, query: Centre) -> Answer:
        """Return x_K."""
        check_form(query, Centre, v=self.gradient.model_shape(shard))
        v = query.v if shard.grid is None else query.v.astype(jnp.float64)
        step = jnp.asarray(2 / self.smoothness, v.dtype)
        exactly, features = shard.grid is not None, shard.features.shape[-1]
        targets = self.problem.loss.within_domain(shard.targets)
        shard = dataclasses.replace(shard, targets=targets, grid=None)
        shrinkage = 1 / (1 + step * self.rho)  # from completing the two squares into one

        def forward(_: Int[Array, ""], x: Array) -> Array:
            gradient = self.gradient.exact(shard, count, Point(x))
            centre = (x - step * gradient + step * self.rho * v) * shrinkage
            return self.problem.prox(centre, step * shrinkage)

        start = self.problem.prox(v, jnp.asarray(1 / self.rho, v.dtype))
        answer: Array = jax.lax.fori_loop(0, self.steps, forward, start)
        if not exactly:
            return answer
        size = jnp.maximum(jnp.linalg.norm(v), jnp.linalg.norm(start))
        usable = size <= self.reach(count, features, v.size)
        return jnp.where(usable, answer, jnp.nan_to_num(start))

    def reach(self, count: Any, features: int, entries: int) -> Any:
        """Return V, the norm of the largest centre that is answered; 0 or less for none."""
        term = self.record_norm * self.gradient.coefficient_bound
        # an upper bound: the weight of the regulariser may be traced, in single precision
        convexity = self.problem.regulariser.strong_convexity * (1 + 2.0**-20)
        smooth, slack = self.smoothness, 1 + convexity / self.rho
        per_size = smooth * (features + 20) + (entries + 24) * (smooth / 2 + self.rho)
        fixed = per_size * term / self.rho + 20 * smooth / self.record_norm
        fixed += (count + entries + 64) * term
        return (2.0**43 * term / (count * slack) - fixed) / per_size

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the facts of the gradient, the curvature, and what rounding adds."""
        reach = self.reach(max(spec.counts), spec.shape[0], spec.dimension)
        if math.isfinite(self.gradient.coefficient_bound) and not reach > 0:
            raise InputError(
                f"with {max(spec.counts)} records and rho {self.rho:g} rounding could exceed what "
                "one record does to a proximal step; use more agents, a larger rho, or a method "
                "that asks for gradients"
            )
        curvature = {"curvature": self.curvature, "widened": ROUNDING}
        return self.gradient.facts(spec) | curvature


class PerturbedStep(Question):
    """The minimiser of an agent's function near a centre, with a random linear term.

        w_i(v) = argmin_w f_i(w) + r(w) + b'w + (rho/2) |w - v|^2,     b ~ N(0, scale^2 I),

    that is the proximal step at the centre v - b / rho. It is computed like that of `ProximalStep`
    and released with N(0, (output_noise scale / rho)^2 I) on top (`ObjectiveNoise`).

    **Guarantee.** The exact minimiser follows the curve of
    `taciturn.kernel.privacy.objective_deltas` with Delta = D_g the sensitivity of grad f_i and J =
    log(1 + s R^2 / (m_i rho)), s the smoothness of the loss (one record's term of f_i is s R^2 /
    m_i-smooth, everything else rho-strongly convex). The computed minimiser is within tol c_1 / rho
    of it, on all data; given the exact minimiser, the two errors of neighbouring data sets are
    deterministic vectors, at most 2 tol c_1 / rho apart. So with the noise on the output it is a
    Gaussian answer of multiplier

        output_noise scale / (2 tol c_1) >= multiplier output_noise / (2 m_i tol),

    since scale = multiplier D_g and D_g >= c_1 / m_i. Both answers are accounted for; the law of
    the two is a curve, not a mu.

    - `step`: The proximal step, with a smooth regulariser, no constraint, and a loss of one margin.
    - `output_noise`: The noise on the output, relative to the effect of the noise inside.
    """

    # the law of the exact minimiser is not that of the computed one, rounding included
    exact_on_machine: ClassVar[bool] = False
    holds_for_any_loss: ClassVar[bool] = False

    step: ProximalStep
    output_noise: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self) -> None:
        problem = self.step.problem
        if problem.loss.outputs is not None:
            raise InputError(
                f"{type(problem.loss).__name__} has several margins; the law of noise inside an "
                "objective is known here for one, so add the noise to the output (ProximalStep)"
            )
        if not problem.constraint.whole:
            raise InputError(
                "noise inside an objective needs a minimiser without constraint; keep the "
                'constraint at the server (regulariser_at="server")'
            )

    @property
    def assumptions(self) -> Assumptions:
        """Those of the step."""
        return self.step.assumptions

    def exact(self, shard: Shard, count: Count, query: Centre) -> Answer:
        """Return the step."""
        return self.step.exact(shard, count, query)

    @property
    def noise(self) -> ObjectiveNoise:
        """The random linear term."""
        step = self.step
        return ObjectiveNoise(step.rho, step.smoothness, step.tol, self.output_noise)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the facts of the gradient, to which noise is added, and the law's parameters."""
        if not math.isfinite(self.step.problem.regulariser.smoothness):
            raise InputError(
                "noise inside an objective needs a smooth one; keep the regulariser at the server "
                '(regulariser_at="server")'
            )
        inside = {"kind": "perturbed", "rho": self.step.rho, "smoothness": self.step.smoothness}
        residual = {"residual": self.step.tol, "output_noise": self.output_noise}
        return {**self.step.gradient.facts(spec), **inside, **residual}
