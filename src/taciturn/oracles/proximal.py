"""The proximal step of an agent's function, with noise on the answer or inside the objective."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.oracles.gradient import Gradient
from taciturn.oracles.oracle import Assumptions, Centre, ObjectiveNoise, Oracle, Point
from taciturn.oracles.sums import ROUNDING, with_rounding
from taciturn.privacy import Adjacency, Norm, SensitivityBound
from taciturn.problems import Problem, Shard, WholeSpace
from taciturn.spec import Spec
from taciturn.typing import Array


class ProximalStep(Oracle):
    """The minimiser of an agent's function near a public centre.

    With f_i the mean of the agent's clipped losses, r and C those of `problem`,

        w_i(v) = argmin_{w in C} f_i(w) + r(w) + (rho/2) |w - v|^2,

    computed by K steps from the public start P(v), with s = 2 / L and L the smoothness of f_i:

        x <- P(x - s grad f_i(x)),    P(u) = argmin_{w in C} r(w) + (rho/2)|w - v|^2 + |w - u|^2/2s.

    I - s grad f_i does not expand (f_i is convex and L-smooth, clipped or not: the coefficient of a
    scalar margin stays monotone; targets for which the loss is steeper are clipped to its domain),
    P contracts by q = 1 / (1 + s rho). So after K steps, K the least number for which q^K <= tol,

        |x_K - w_i(v)| <= q^K c_1 / rho,    c_1 = record_norm min(lipschitz, clip),

    at every centre and on all data: there is nothing to check while running.

    **Guarantee.** Let a record change, so that grad f_i moves by at most D_g at every point
    (`mean_gradient_bound`), and let m be the strong convexity of r. The two runs start at the same
    public point and their distance obeys d <- (d + s D_g) / (1 + s (rho + m)), so never exceeds

        Delta_i = D_g / (rho + m),       e.g. 2 c_1 / (m_i (rho + m)) for replace_one,

    the sensitivity of the exact minimiser: stopping early costs no privacy, whatever K is.

    **Rounding.** All of it is computed in double precision, on plain sums. A centre v is answered
    with the start P(v) if either is longer than V (`reach`): a rule that sees the centre and public
    numbers only. Within it rounding adds less than 2^-9 of the bound, which has that on top
    (docs/explanation/rounding.md).

    Attributes
    ----------
    problem
        What an agent minimises: its loss, and the regulariser and constraint if agents have them.
    clip, record_norm
        Public bounds on the coefficient and the norm of a record.
    rho
        Curvature of the quadratic.
    tol
        Residual, relative to the largest distance c_1 / rho that the centre can have.
    """

    problem: Problem
    clip: float = eqx.field(static=True)
    rho: float = eqx.field(static=True)
    record_norm: float = eqx.field(static=True)
    tol: float = eqx.field(static=True, default=1e-9)

    def __check_init__(self) -> None:
        checks.positive("clip", self.clip, allow_infinity=True)
        checks.positive("rho", self.rho)
        checks.positive("record_norm", self.record_norm)
        checks.fraction("tol", self.tol)
        loss = self.problem.loss
        # the clipped coefficient of several margins need not be monotone
        if loss.outputs is not None and self.clip < loss.lipschitz:
            raise InputError(
                f"a clip of {self.clip:g} bends the gradients of {type(loss).__name__}, so that "
                f"their step need not have a minimiser; use a clip of {loss.lipschitz:g} or more"
            )

    @property
    def steps(self) -> int:
        """K."""
        contraction = 1 / (1 + 2 / self.smoothness * self.rho)
        return max(1, math.ceil(math.log(self.tol) / math.log(contraction)))

    @property
    def smoothness(self) -> float:
        """L, the Lipschitz constant of grad f_i: that of the loss times record_norm^2."""
        return self.problem.loss.smoothness * self.record_norm**2

    @property
    def curvature(self) -> float:
        """Rho and the strong convexity of the regulariser.

        The latter is rounded down, whatever precision its weight was cast to.
        """
        weight = np.float32(self.problem.regulariser.strong_convexity)
        return self.rho + max(0.0, float(np.nextafter(weight, np.float32(-np.inf))))

    @property
    def gradient(self) -> Gradient:
        """The question about grad f_i that the steps consist of."""
        return Gradient(self.problem.loss, self.clip)

    @property
    @override
    def exact_on_machine(self) -> bool:
        """Whether the set and the regulariser have a closed form."""
        return self.problem.closed_form

    @property
    @override
    def assumptions(self) -> Assumptions:
        return self.gradient.assumptions._replace(record_norm=self.record_norm, rho=self.rho)

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Centre) -> Float[Array, "..."]:
        v = query.v if shard.grid is None else query.v.astype(jnp.float64)
        step = jnp.asarray(2 / self.smoothness, v.dtype)
        exactly, features = shard.grid is not None, shard.features.shape[-1]
        targets = self.problem.loss.within_domain(shard.targets)
        shard = dataclasses.replace(shard, targets=targets, grid=None)
        shrinkage = 1 / (1 + step * self.rho)  # of the two squares, written as one

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
        # the weight of the regulariser may be traced here; in whatever precision, it is no larger
        convexity = self.problem.regulariser.strong_convexity * (1 + 2.0**-20)
        smooth, slack = self.smoothness, 1 + convexity / self.rho
        per_size = smooth * (features + 20) + (entries + 24) * (smooth / 2 + self.rho)
        fixed = per_size * term / self.rho + 20 * smooth / self.record_norm
        fixed += (count + entries + 64) * term
        return (2.0**43 * term / (count * slack) - fixed) / per_size

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        curvature = self.curvature
        return {**self.gradient.facts(spec), "curvature": curvature, "widened": ROUNDING}

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        gradient = self.gradient.bound(spec, adjacency, norm=norm)
        curvature = self.curvature
        reason = f"{gradient.derivation}; divided by the strong convexity {curvature:g} of the step"
        value = gradient.value / curvature
        reach = self.reach(max(spec.counts), spec.shape[0], spec.dimension)
        if np.all(np.isfinite(value)) and not reach > 0:
            raise InputError(
                f"with {max(spec.counts)} records and rho {self.rho:g} rounding could exceed what "
                "one record does to a proximal step; use more agents, a larger rho, or a method "
                "that asks for gradients"
            )
        return with_rounding(dataclasses.replace(gradient, value=value, derivation=reason))


class PerturbedStep(Oracle):
    """The minimiser of an agent's function near a centre, with a noised linear term.

        w_i(v) = argmin_w f_i(w) + r(w) + b'w + (rho/2) |w - v|^2,     b ~ N(0, scale^2 I),

    that is the proximal step at the centre v - b / rho. It is computed like that of `ProximalStep`
    and released with N(0, (output_noise scale / rho)^2 I) on top (`ObjectiveNoise`).

    **Guarantee.** The exact minimiser follows the curve of `taciturn.privacy.objective_deltas` with
    Delta = D_g the sensitivity of grad f_i and J = log(1 + s R^2 / (m_i rho)), s the smoothness of
    the loss (one record's term of f_i is s R^2 / m_i-smooth, everything else rho-strongly convex).
    What is computed lies within tol c_1 / rho of it, on all data; given the exact minimiser, that
    error is one deterministic vector or another, at most 2 tol c_1 / rho apart. So the noise on top
    makes it a Gaussian answer of multiplier

        output_noise scale / (2 tol c_1) >= multiplier output_noise / (2 m_i tol),

    since scale = multiplier D_g and D_g >= c_1 / m_i. Both answers are accounted for; the law of
    the two is a curve, not a mu.

    Attributes
    ----------
    step
        The proximal step; its regulariser must be smooth and unconstrained, its loss have one
        margin.
    output_noise
        Noise on the output, as a part of what the noise inside does to the output.
    """

    # nothing is known of a computed minimiser with noise inside its objective
    exact_on_machine: ClassVar[bool] = False

    step: ProximalStep
    output_noise: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self) -> None:
        problem = self.step.problem
        if problem.loss.outputs is not None:
            raise InputError(
                f"{type(problem.loss).__name__} has several margins; the law of noise inside an "
                "objective is known here for one, so add the noise to the output (ProximalStep)"
            )
        if not isinstance(problem.constraint, WholeSpace):
            raise InputError(
                "noise inside an objective needs a minimiser without constraint; keep the "
                'constraint at the server (regulariser_at="server")'
            )

    @property
    @override
    def assumptions(self) -> Assumptions:
        return self.step.assumptions

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Centre) -> Float[Array, "..."]:
        return self.step.exact(shard, count, query)

    @property
    @override
    def noise(self) -> ObjectiveNoise:
        step = self.step
        return ObjectiveNoise(step.rho, step.smoothness, step.tol, self.output_noise)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        inside = {"kind": "perturbed", "rho": self.step.rho, "smoothness": self.step.smoothness}
        residual = {"residual": self.step.tol, "output_noise": self.output_noise}
        return {**self.step.gradient.facts(spec), **inside, **residual}

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        """Return how far the gradient can move: the noise stands beside it."""
        if not math.isfinite(self.step.problem.regulariser.smoothness):
            raise InputError(
                "noise inside an objective needs a smooth one; keep the regulariser at the server "
                '(regulariser_at="server")'
            )
        return self.step.gradient.bound(spec, adjacency, norm=norm)
