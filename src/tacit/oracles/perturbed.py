"""The proximal step with the noise inside its objective: dual variable perturbation."""

from __future__ import annotations

import math

import equinox as eqx
from jaxtyping import Float
from typing_extensions import override

from tacit.errors import InputError
from tacit.oracles.noise import ObjectiveNoise
from tacit.oracles.oracle import Assumptions, Oracle
from tacit.oracles.proximal import ProximalStep
from tacit.oracles.queries import Centre
from tacit.privacy import Adjacency, Norm, SensitivityBound
from tacit.problems import Shard, WholeSpace
from tacit.spec import Spec
from tacit.typing import Array


class PerturbedStep(Oracle):
    r"""The minimiser of an agent's function near a centre, with a noised linear term.

        w_i(v) = argmin_w f_i(w) + r(w) + b'w + (rho/2) |w - v|^2,     b ~ N(0, scale^2 I),

    that is the proximal step at the centre v - b / rho. It is computed like that of `ProximalStep`
    and released with N(0, (output_noise scale / rho)^2 I) on top, which covers the residual.
    Everything up to that release is computed in double precision, whatever the run's.

    **Guarantee.** The exact minimiser follows the curve of `tacit.privacy.objective_deltas` with
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
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        """Return how far the gradient can move: the noise stands beside it."""
        if not math.isfinite(self.step.problem.regulariser.smoothness):
            raise InputError(
                "noise inside an objective needs a smooth one; keep the regulariser at the server "
                '(regulariser_at="server")'
            )
        return self.step.gradient.bound(spec, adjacency, norm=norm)
