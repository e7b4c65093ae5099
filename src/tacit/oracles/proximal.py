"""The exact proximal step of an agent's function, as in ADMM."""

from __future__ import annotations

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.oracles.gradient import Gradient
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.queries import Centre, Point
from tacit.privacy import Adjacency, Norm, SensitivityBound
from tacit.problems import Problem, Shard
from tacit.spec import Spec
from tacit.typing import Array


class ProximalStep(Oracle):
    r"""The minimiser of an agent's function near a public centre.

    With f_i the mean of the agent's clipped losses, r and C those of `problem`,

        w_i(v) = argmin_{w in C} f_i(w) + r(w) + (rho/2) |w - v|^2,

    computed by K steps from the public start P(v), with s = 2 / L and L the smoothness of f_i:

        x <- P(x - s grad f_i(x)),    P(u) = argmin_{w in C} r(w) + (rho/2)|w - v|^2 + |w - u|^2/2s.

    I - s grad f_i does not expand (f_i is convex and L-smooth, clipped or not: the coefficient of a
    scalar margin stays monotone; targets for which the loss is steeper are clipped to its domain),
    P contracts by q = 1 / (1 + s rho). So after K steps

        |x_K - w_i(v)| <= q^K c_1 / rho,    c_1 = record_norm min(lipschitz, clip),

    at every centre and on all data: K is the least number for which q^K <= tol. That is the
    certificate of the residual; there is nothing to check while running.

    **Guarantee.** Let a record change, so that grad f_i moves by at most D_g at every point
    (`mean_gradient_bound`), and let m be the strong convexity of r. The two runs start at the same
    public point and their distance obeys d <- (d + s D_g) / (1 + s (rho + m)), so never exceeds

        Delta_i = D_g / (rho + m),       e.g. 2 c_1 / (m_i (rho + m)) for replace_one,

    the sensitivity of the exact minimiser: stopping early costs no privacy, whatever K is.

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

    Raises
    ------
    InputError
        If a number is out of range, the loss is not smooth, or a vector of margins would be
        clipped (its clipped coefficient need not be monotone).
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
        if loss.outputs is not None and self.clip < loss.lipschitz:
            raise InputError(
                f"a clip of {self.clip:g} bends the gradients of {type(loss).__name__}, so that "
                f"their step need not have a minimiser; use a clip of {loss.lipschitz:g} or more"
            )

    @property
    def steps(self) -> int:
        """K."""
        contraction = 1 / (1 + self._step * self.rho)
        return max(1, math.ceil(math.log(self.tol) / math.log(contraction)))

    @property
    def smoothness(self) -> float:
        """L, the Lipschitz constant of grad f_i: that of the loss times record_norm^2."""
        return self.problem.loss.smoothness * self.record_norm**2

    @property
    def _step(self) -> float:
        return 2 / self.smoothness

    @property
    def gradient(self) -> Gradient:
        """The question about grad f_i that the steps consist of."""
        return Gradient(self.problem.loss, self.clip)

    @property
    @override
    def assumptions(self) -> Assumptions:
        return self.gradient.assumptions._replace(record_norm=self.record_norm)

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Centre) -> Float[Array, "..."]:
        step, v = jnp.asarray(self._step, query.v.dtype), query.v
        targets = self.problem.loss.within_domain(shard.targets)
        shard = dataclasses.replace(shard, targets=targets)
        shrinkage = 1 / (1 + step * self.rho)  # of the two squares, written as one

        def forward(_: Int[Array, ""], x: Array) -> Array:
            gradient = self.gradient.exact(shard, count, Point(x))
            centre = (x - step * gradient + step * self.rho * v) * shrinkage
            return self.problem.prox(centre, step * shrinkage)

        start = self.problem.prox(v, jnp.asarray(1 / self.rho, v.dtype))
        answer: Array = jax.lax.fori_loop(0, self.steps, forward, start)
        return answer

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        gradient = self.gradient.bound(spec, adjacency, norm=norm)
        curvature = self.rho + self._strong_convexity
        reason = f"{gradient.derivation}; divided by the strong convexity {curvature:g} of the step"
        return dataclasses.replace(gradient, value=gradient.value / curvature, derivation=reason)

    @property
    def _strong_convexity(self) -> float:
        """That of the regulariser, rounded down, whatever precision its weight was cast to."""
        weight = np.float32(self.problem.regulariser.strong_convexity)
        return max(0.0, float(np.nextafter(weight, np.float32(-np.inf))))
