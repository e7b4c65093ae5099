"""Problems with an equality constraint, f(x) + r(y) subject to A x + B y = c."""

from __future__ import annotations

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import scipy.sparse
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.questions import Loss
from taciturn.problems.operators import Identity, Operator, differences, sparse_rows
from taciturn.problems.problem import Problem
from taciturn.problems.regularisers import L1, Regulariser
from taciturn.problems.sets import ConvexSet, WholeSpace
from taciturn.typing import Array, HostArray, Scalar, Vector


@final
class Structured(eqx.Module):
    r"""Minimise f(x) + r(y) subject to A x + B y = c,  f(x) = mean loss + (ridge/2) |x|^2.

    f is that of `Problem` (1/A sum of the agents' means), x of shape `(D,)`. A, B and c are public.

    With a ridge above 0 the problem is strongly convex in x.
    """

    loss: Loss  # with one margin
    regulariser: Regulariser  # r, by its proximal map
    forward: Operator  # A
    coupling: Operator  # B
    target: Float[Array, "m"]  # c
    ridge: float = eqx.field(static=True, default=0.0)

    def __check_init__(self) -> None:
        checks.not_negative("ridge", self.ridge)
        sizes = (self.forward.rows, self.coupling.rows, self.target.shape[-1])
        if len(set(sizes)) != 1:
            raise InputError(
                f"A has {sizes[0]} rows, B {sizes[1]} and c {sizes[2]}; A x + B y = c needs as "
                "many of each"
            )
        if self.loss.outputs is not None:
            raise InputError(
                f"structured learning is for losses with one margin, not {type(self.loss).__name__}"
            )

    def residual(self, x: Vector, y: Float[Array, "k"]) -> Float[Array, "m"]:
        """Return A x + B y - c."""
        return self.forward.apply(x) + self.coupling.apply(y) - self.target

    @property
    def composed(self) -> Problem:
        """The same problem in x alone, where B = -I and r is the l1 norm: r(A x - c)."""
        if not (isinstance(self.coupling, Identity) and self.coupling.factor == -1):
            raise InputError("x determines y only if B = -I; use the constrained form")
        if not isinstance(self.regulariser, L1):
            raise InputError("only the l1 norm of A x - c is available as a regulariser of x")
        weight, curvature = self.regulariser.weight, self.forward.norm_squared()
        composed = ComposedL1(weight, self.forward, self.target, curvature, self.ridge)
        return Problem(self.loss, composed, WholeSpace())


@final
class ComposedL1(Regulariser):
    """r(x) = weight |A x - c|_1 + (ridge/2) |x|^2: a structure as a regulariser of x alone.

    Its proximal map has no closed form. `prox_within` computes it by `steps` accelerated projected
    gradient steps on the dual, in which u are the multipliers of z = A x - c:

        x = v' - A'u,    u <- clip(u + (A x - c) / curvature, +-step' weight),

    step' = step / (1 + step ridge), v' = v / (1 + step ridge). Public, hence without privacy cost.
    """

    weight: float
    forward: Operator
    target: Float[Array, "m"]
    curvature: float  # at least the largest eigenvalue of A'A
    ridge: float = eqx.field(static=True, default=0.0)
    steps: int = eqx.field(static=True, default=200)
    smoothness = math.inf

    @override
    def value(self, x: Vector) -> Float[Array, ""]:
        l1 = jnp.sum(jnp.abs(self.forward.apply(x) - self.target))
        return jnp.asarray(self.weight * l1 + 0.5 * self.ridge * jnp.sum(x**2), x.dtype)

    @override
    def subgradient(self, x: Vector) -> Vector:
        """Return A' sign(A x - c) weight + ridge x: a subgradient, not always the shortest."""
        signs = jnp.sign(self.forward.apply(x) - self.target)
        return self.weight * self.forward.adjoint(signs) + self.ridge * x

    @override
    def prox_within(self, constraint: ConvexSet, v: Vector, step: Scalar) -> Vector:
        if not isinstance(constraint, WholeSpace):
            raise InputError("a structure excludes a constraint on the model; leave it out")
        shrink = jnp.asarray(1 / (1 + step * self.ridge), v.dtype)
        centre, limit = v * shrink, jnp.asarray(step * self.weight, v.dtype) * shrink

        def forward(k: Int[Array, ""], pair: tuple[Array, Array]) -> tuple[Array, Array]:
            last, ahead = pair
            misfit = self.forward.apply(centre - self.forward.adjoint(ahead)) - self.target
            new = jnp.clip(ahead + misfit / self.curvature, -limit, limit)
            return new, new + (new - last) * jnp.asarray(k / (k + 3), v.dtype)

        start = jnp.zeros(self.forward.rows, v.dtype)
        dual, _ = jax.lax.fori_loop(0, self.steps, forward, (start, start))
        return centre - self.forward.adjoint(dual)

    @override
    def gradient_bound(self, dimension: int) -> float:
        """Return weight sqrt(|A'A| rows), or infinity with a ridge."""
        del dimension
        size = math.sqrt(self.forward.norm_squared() * self.forward.rows)
        return math.inf if self.ridge else self.weight * size

    @property
    @override
    def strong_convexity(self) -> float:
        return self.ridge


def structured_from(problem: Problem) -> Structured:
    """Return the constrained form of a problem whose regulariser is a structure."""
    structure = problem.regulariser
    if not isinstance(structure, ComposedL1):
        raise InputError(
            f"this algorithm is for a structure, not for {type(structure).__name__}; choose one "
            "(lasso, fused-lasso, generalized-lasso) or another algorithm"
        )
    return Structured(
        problem.loss,
        L1(structure.weight),
        structure.forward,
        Identity(structure.forward.rows, -1.0),
        structure.target,
        structure.ridge,
    )


def lasso(loss: Loss, size: int, *, weight: float, ridge: float = 0.0) -> Structured:
    """Return f(x) + weight |y|_1 subject to x = y."""
    return generalised_lasso(loss, Identity(size), weight=weight, ridge=ridge)


def fused_lasso(
    loss: Loss, edges: Int[HostArray, "e 2"], size: int, *, weight: float, ridge: float = 0.0
) -> Structured:
    """Return f(x) + weight |y|_1 subject to [phi; I] x = y, phi the differences along the edges."""
    rows = (differences(edges, size).sparse(), Identity(size).sparse())
    stacked = sparse_rows(scipy.sparse.csr_array(scipy.sparse.vstack(rows)))
    return generalised_lasso(loss, stacked, weight=weight, ridge=ridge)


def generalised_lasso(
    loss: Loss, forward: Operator, *, weight: float, ridge: float = 0.0
) -> Structured:
    """Return f(x) + weight |y|_1 subject to A x = y."""
    return Structured(
        loss, L1(weight), forward, Identity(forward.rows, -1.0), jnp.zeros(forward.rows), ridge
    )
