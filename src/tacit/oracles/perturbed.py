"""The proximal step with the noise inside its objective: dual variable perturbation."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from tacit.errors import InputError
from tacit.oracles.oracle import Assumptions, Centre, Oracle, Size
from tacit.oracles.proximal import ProximalStep
from tacit.privacy import Adjacency, Inside, Norm, SensitivityBound
from tacit.problems import Shard, WholeSpace
from tacit.spec import Spec
from tacit.typing import Array, HostArray, PyTree


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

    @override
    def noise_shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        return (2, *answer_shape)

    @override
    def answer(
        self,
        shard: Shard,
        count: Float[Array, ""],
        query: Centre,
        noise: Float[Array, "2 ..."],
    ) -> Float[Array, "..."]:
        # in single precision rounding would exceed the residual that the output noise is made for
        shard, count, query, wide = _in_double((shard, count, query, noise))
        inside, outside = wide / self.step.rho
        minimiser = self.step.exact(shard, count, Centre(query.v - inside))
        answer: Array = minimiser + self.output_noise * outside
        return answer.astype(noise.dtype)

    @override
    def bound(
        self,
        spec: Spec,
        adjacency: Adjacency,
        *,
        norm: Norm,
        size: Size,
        values: dict[str, HostArray],
    ) -> SensitivityBound:
        """Return how far the gradient can move: the noise stands beside it."""
        self._check(adjacency)
        return self.step.gradient.bound(spec, adjacency, norm=norm, size=size, values=values)

    @override
    def inside(self, spec: Spec, adjacency: Adjacency) -> Inside:
        self._check(adjacency)
        counts = np.asarray(spec.counts, dtype=np.float64)
        jacobian = np.log1p(self.step.smoothness / (counts * self.step.rho))
        return Inside(jacobian, 2 * counts * self.step.tol / self.output_noise)

    def _check(self, adjacency: Adjacency) -> None:
        if not math.isfinite(self.step.problem.regulariser.smoothness):
            raise InputError(
                "noise inside an objective needs a smooth one; keep the regulariser at the server "
                '(regulariser_at="server")'
            )
        if adjacency.unit != "record":
            raise InputError(
                "the law of noise inside an objective is known here for one record, not for all "
                "records of an agent; add the noise to the output (ProximalStep)"
            )


def _in_double(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)
