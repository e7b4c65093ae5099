"""Problems with an equality constraint, f(x) + r(y) subject to A x + B y = c, and their optimum."""

from __future__ import annotations

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float, Int
from typing_extensions import override

from tacit import checks
from tacit.errors import InputError
from tacit.problems.losses import Loss
from tacit.problems.operators import Identity, Operator, Stack, differences
from tacit.problems.problem import Problem
from tacit.problems.reference import Flat, data_gradient, data_value
from tacit.problems.regularisers import L1, Regulariser
from tacit.problems.sets import ConvexSet, WholeSpace, soft_threshold
from tacit.typing import Array, HostArray, Scalar, Vector


@final
class Structured(eqx.Module):
    r"""Minimise f(x) + r(y) subject to A x + B y = c,  f(x) = mean loss + (ridge/2) |x|^2.

    f is that of `Problem` (1/A sum of the agents' means), x of shape `(D,)`. A, B and c are public.

    Attributes
    ----------
    loss
        With one margin.
    regulariser
        r, by its proximal map.
    forward, coupling, target
        A, B and c; `target` of shape `(A.rows,)`.
    ridge
        Weight of (1/2)|x|^2; above 0 the problem is strongly convex.

    Raises
    ------
    InputError
        If A, B and c differ in their number of rows, the ridge is negative, or the loss has more
        than one margin.
    """

    loss: Loss
    regulariser: Regulariser
    forward: Operator
    coupling: Operator
    target: Float[Array, "m"]
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
        """The same problem in x alone, where B = -I: r(A x - c) as a regulariser.

        Raises
        ------
        InputError
            If B is not -I, or r not the l1 norm.
        """
        if not (isinstance(self.coupling, Identity) and self.coupling.factor == -1):
            raise InputError("only with B = -I does y follow from x; use the constrained form")
        if not isinstance(self.regulariser, L1):
            raise InputError("only the l1 norm of A x - c is known as a regulariser of x")
        composed = ComposedL1(
            self.regulariser.weight,
            self.forward,
            self.target,
            self.forward.norm_squared(),
            self.ridge,
        )
        return Problem(self.loss, composed, WholeSpace())


@final
class ComposedL1(Regulariser):
    """r(x) = weight |A x - c|_1 + (ridge/2) |x|^2: what a structure says of the model alone.

    Its proximal map has no closed form. `prox_within` computes it by `steps` accelerated projected
    gradient steps on the dual, in which u are the multipliers of z = A x - c:

        x = v' - A'u,    u <- clip(u + (A x - c) / curvature, +-step' weight),

    step' = step / (1 + step ridge), v' = v / (1 + step ridge). Public, hence free of privacy.

    Attributes
    ----------
    curvature
        At least the largest eigenvalue of A'A.
    """

    weight: float
    forward: Operator
    target: Float[Array, "m"]
    curvature: float
    ridge: float = eqx.field(static=True, default=0.0)
    steps: int = eqx.field(static=True, default=200)

    @override
    def value(self, x: Vector) -> Float[Array, ""]:
        l1 = jnp.sum(jnp.abs(self.forward.apply(x) - self.target))
        return jnp.asarray(self.weight * l1 + 0.5 * self.ridge * jnp.sum(x**2), x.dtype)

    @override
    def subgradient(self, x: Vector) -> Vector:
        """Return A' sign(A x - c) weight + ridge x: a subgradient, not always the smallest."""
        signs = jnp.sign(self.forward.apply(x) - self.target)
        return self.weight * self.forward.adjoint(signs) + self.ridge * x

    @override
    def prox_within(self, constraint: ConvexSet, v: Vector, step: Scalar) -> Vector:
        if not isinstance(constraint, WholeSpace):
            raise InputError("a structure comes without a constraint on the model; leave it out")
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
        if self.ridge:
            return float("inf")
        return self.weight * float(np.sqrt(self.forward.norm_squared() * self.forward.rows))

    @property
    @override
    def smoothness(self) -> float:
        """Infinite: kinks."""
        return float("inf")

    @property
    @override
    def strong_convexity(self) -> float:
        """The ridge."""
        return self.ridge


def structured_from(problem: Problem) -> Structured:
    """Return the constrained form of a problem whose regulariser is a structure, or an l1 norm.

    Raises
    ------
    InputError
        If the regulariser is none of a structure's.
    """
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
    stacked = Stack(differences(edges, size), Identity(size))
    return generalised_lasso(loss, stacked, weight=weight, ridge=ridge)


def generalised_lasso(
    loss: Loss, forward: Operator, *, weight: float, ridge: float = 0.0
) -> Structured:
    """Return f(x) + weight |y|_1 subject to A x = y."""
    return Structured(
        loss, L1(weight), forward, Identity(forward.rows, -1.0), jnp.zeros(forward.rows), ridge
    )


_INNER = 2_000
_HALVINGS = 30
# a step this much shortened asks for more curvature in the model
_SHORT, _LEAST_SHARE, _SHARE_GROWTH = 0.25, 1e-3, 10.0


class Split(NamedTuple):
    """x, with the y and the multipliers u of A x - c = y that belong to it."""

    x: Float[Array, "D"]
    y: Float[Array, "m"]
    u: Float[Array, "m"]


def proximal_newton(
    problem: Problem, structure: ComposedL1, flat: Flat, *, tol: float, most: int = 60
) -> tuple[Split, float, int]:
    """Return the last point, its duality gap, and the number of Newton steps.

    Each step minimises the quadratic model of the data part plus the structure by 2,000 steps of
    ADMM with a fixed inverse, then halves the step until the objective falls. Ends at a gap of
    `tol` relative to the objective, or when the objective no longer falls, five times over.

    The curvature of a record is its own, but at least a share of the largest that the loss has
    anywhere. The share grows where steps have to be shortened: a loss with straight pieces has no
    curvature on them, at the start often none of any record. At share 1 the model is nowhere below
    the objective, so its minimiser lowers that.
    """
    rows = structure.forward.rows
    matrix = jnp.asarray(structure.forward.sparse().toarray())
    start = jnp.zeros(structure.forward.columns)
    at = Split(start, matrix @ start - structure.target, jnp.zeros(rows))
    gap, stalled, share = np.inf, 0, 0.0
    for count in range(1, most + 1):
        hessian, slope = _model(problem, structure, flat, at.x, share)
        if not float(jnp.trace(hessian)) > 0:
            share = 1.0
            hessian, slope = _model(problem, structure, flat, at.x, share)
        size = matrix.T @ matrix
        rho = float(jnp.trace(hessian) / jnp.trace(size))
        floor = 1e-12 * float(jnp.trace(hessian)) * np.eye(len(start))
        inverse = scipy.linalg.inv(np.asarray(hessian + rho * size) + floor)
        linear = hessian @ at.x - slope
        candidate = _quadratic(
            structure, matrix, jnp.asarray(inverse), linear, jnp.asarray(rho), at
        )
        at, taken, falls = _shortened(problem, flat, at, candidate)
        share = _next_share(share, taken)
        gap = float(duality_gap(problem, structure, flat, at.x, at.u))
        stalled = 0 if falls else stalled + 1
        if stalled == 5 or gap <= tol * float(_objective(problem, flat, at.x)):
            return at, gap, count
    return at, gap, most


def duality_gap(
    problem: Problem,
    structure: ComposedL1,
    flat: Flat,
    x: Float[Array, "D"],
    u: Float[Array, "m"],
) -> float:
    r"""Return an upper bound on F(x) - min F, F = f + (ridge/2)|x|^2 + w |A x - c|_1.

    With h = f + (ridge/2)|x|^2, u clipped to [-w, w] and e = grad h(x) + A'u, convexity of h and
    w |v|_1 >= u'v give for every z

        F(z) >= h(x) + u'(A x - c) + e'(z - x) + (ridge/2) |z - x|^2.

    With a ridge the last two terms are at least -|e|^2 / (2 ridge). Without, let A'q = e: at a
    minimiser z, w |A z - c|_1 <= F(x) as losses are not negative, so
    e'(z - x) >= -|q|_inf F(x) / w - q'(A x - c). The better of the two is used; infinity if
    neither applies.
    """
    weight, ridge = float(structure.weight), structure.ridge
    u = jnp.clip(u, -weight, weight)
    misfit = structure.forward.apply(x) - structure.target
    slope = data_gradient(problem, flat, x) + ridge * x + structure.forward.adjoint(u)
    base = float(weight * jnp.sum(jnp.abs(misfit)) - jnp.vdot(u, misfit))
    bounds = [np.inf]
    if ridge:
        bounds.append(float(jnp.vdot(slope, slope)) / (2 * ridge))
    matrix = structure.forward.sparse().toarray()
    q = np.linalg.lstsq(matrix.T, np.asarray(slope), rcond=None)[0]
    left = np.linalg.norm(matrix.T @ q - np.asarray(slope))
    if weight and left <= 1e-9 * np.linalg.norm(slope) + 1e-15:
        value = float(_objective(problem, flat, x))
        bounds.append(float(np.max(np.abs(q)) * value / weight + np.vdot(q, misfit)))
    return base + min(bounds)


@jax.jit
def _objective(problem: Problem, flat: Flat, x: Array) -> Array:
    return data_value(problem, flat, x) + problem.regulariser.value(x)


@jax.jit
def _model(
    problem: Problem, structure: ComposedL1, flat: Flat, x: Array, share: Scalar | float
) -> tuple[Array, Array]:
    """Return Hessian, each record with at least a share of the largest curvature, and gradient."""
    margins = flat.features @ x

    def coefficient(z: Array) -> Array:
        return problem.loss.coefficient(z, flat.targets)

    _, curvature = jax.jvp(coefficient, (margins,), (jnp.ones_like(margins),))
    curvature = jnp.maximum(curvature, share * problem.loss.smoothness)
    hessian = (flat.features.T * (flat.weights * curvature)) @ flat.features
    slope = data_gradient(problem, flat, x) + structure.ridge * x
    return hessian + structure.ridge * jnp.eye(len(x)), slope


@jax.jit
def _quadratic(
    structure: ComposedL1, matrix: Array, inverse: Array, linear: Array, rho: Array, at: Split
) -> Split:
    """Return the minimiser of z'Hz/2 - linear'z + w |A z - c|_1 by ADMM from `at`."""

    def step(_: Int[Array, ""], carry: Split) -> Split:
        y, dual = carry.y, carry.u
        z = inverse @ (linear + rho * (matrix.T @ (y + structure.target - dual)))
        reach = matrix @ z - structure.target
        y = soft_threshold(reach + dual, structure.weight / rho)
        return Split(z, y, dual + reach - y)

    last: Split = jax.lax.fori_loop(0, _INNER, step, at._replace(u=at.u / rho))
    return last._replace(u=last.u * rho)


def _next_share(share: float, taken: float) -> float:
    """Return the least share of the largest curvature for the next model, after a step."""
    if taken < _SHORT:
        return min(1.0, max(_SHARE_GROWTH * share, _LEAST_SHARE))
    return share / _SHARE_GROWTH if share > _LEAST_SHARE else 0.0


def _shortened(
    problem: Problem, flat: Flat, at: Split, candidate: Split
) -> tuple[Split, float, bool]:
    """Return the first halving of the step to `candidate` that lowers F, and what is left of it.

    The last is whether F is lower than before; of the step, 0 is left if no halving will do.
    """
    value, share = float(_objective(problem, flat, at.x)), 1.0
    for _ in range(_HALVINGS):
        x = at.x + share * (candidate.x - at.x)
        reached = float(_objective(problem, flat, x))
        if reached <= value + 1e-14 * abs(value):  # at the optimum rounding decides
            return candidate._replace(x=x), share, reached < value
        share /= 2
    return candidate._replace(x=at.x), 0.0, False
