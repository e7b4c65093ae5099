"""The optimum without privacy, for reference: SciPy's solvers, and an optimality bound.

The residual or duality gap of a solver's point is recomputed in double precision, and a point above
the tolerance is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Float, Shaped

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.records import Shards, device_array, jax_array, row_blocks
from taciturn.problems.problem import Problem
from taciturn.problems.sets import WholeSpace
from taciturn.problems.structured import ComposedL1
from taciturn.typing import Array, HostArray


@dataclass(frozen=True)
class Solution:
    """A minimiser of a problem over given shards, with a bound on its error; it is not private.

    The residual is |G|_2, G = (w - prox(w - grad/L, 1/L)) L, computed in float64; for a structure,
    the duality gap.
    """

    w: Float[Array, "D *K"]
    value: float  # F(w)
    residual: float
    gap_bound: float  # at least F(w) - min F; infinite without strong convexity
    iterations: int


def minimise(
    problem: Problem, shards: Shards, *, tol: float = 1e-9, max_iterations: int = 50_000
) -> Solution:
    """Return argmin_{w in C} F(w) with fixed-point residual |G|_2 <= tol.

    Smooth problems without a constraint go to L-BFGS in coordinates that whiten the curvature
    bound, then to Newton-Krylov steps; a structure (`ComposedL1`) goes to an interior-point method,
    where `tol` bounds the duality gap relative to F(w). These are SciPy's. All other problems, for
    which only a proximal map is known, go to the accelerated proximal gradient method with restart.
    A residual above `tol` after `max_iterations`, a loss that is not smooth, and a target outside
    the loss's domain raise `InputError`.

    Notes ----- With G = L (x - x+), x+ = prox(x - grad f(x) / L, 1 / L), L the smoothness of the
    data part f and m the strong convexity of the regulariser, adding the descent lemma for f at x
    to the subgradient inequality of r at x+ gives, for every y in C, F(x+) - F(y) <= G'(x+ - y) +
    |G|^2 / (2 L) - (m / 2) |x+ - y|^2 <= |G|^2 (1 / (2 m) + 1 / (2 L)), which is `gap_bound`; x+ is
    returned.

    Examples
    --------
    >>> import numpy as np
    >>> from taciturn.problems import L2, Squared, WholeSpace
    >>> from taciturn.kernel.records import pack
    >>> shards = pack(
    ...     np.array([[1.0], [1.0]]), np.array([1.0, 3.0]), [np.array([0, 1])],
    ...     record_norm=1.0, precision="float64",
    ... )
    >>> solution = minimise(Problem(Squared(), L2(weight=1.0), WholeSpace()), shards)
    >>> round(float(solution.w[0]), 9)
    1.0
    """
    checks.positive("tol", tol)
    checks.at_least("max_iterations", max_iterations, 1)
    if not math.isfinite(problem.loss.smoothness):
        raise InputError(
            f"{type(problem.loss).__name__} is not smooth (its `smoothness` is "
            f"{problem.loss.smoothness:g}), and the optimum is computed for smooth losses only; "
            "use a smoothed one, as HuberHinge(smoothing=0.1) for the hinge"
        )
    if not problem.loss.is_gradient:
        raise InputError(
            f"the coefficients of {type(problem.loss).__name__} are the gradient of no function: "
            "there is no optimum; use its likelihood (taciturn.problems.likelihood)"
        )
    problem.check_targets(shards)
    objective = _Objective.of(problem, shards)
    if isinstance(problem.regulariser, ComposedL1):
        return _structured(objective, problem.regulariser, tol)
    curvature = objective.curvature()
    smooth = math.isfinite(problem.regulariser.smoothness)
    if smooth and isinstance(problem.constraint, WholeSpace):
        w, iterations = _quasi_newton(objective, tol, max_iterations)
    else:
        start = problem.constraint.project(jnp.zeros(objective.shape))
        numbers = jnp.asarray([curvature, 0.5 * tol])
        w, steps = _accelerated(objective, start, numbers, max_iterations)
        iterations = int(steps)
    w, length, value = objective.prox_step(w, curvature)
    residual, convexity = float(length), float(problem.regulariser.strong_convexity)
    if not residual <= tol:
        raise InputError(
            f"the residual is {residual:.2g} after {iterations} iterations, above tol "
            f"{tol:g}; allow more iterations, a larger tol, or add a regulariser"
        )
    gap = residual**2 * (0.5 / convexity + 0.5 / curvature) if convexity > 0 else math.inf
    return Solution(w, float(value), residual, gap, iterations)


class _Objective(eqx.Module):
    """F on n records in float64 with weights 1 / (A m_i): the data part is a weighted sum."""

    problem: Problem
    features: Float[Array, "n D"]
    targets: Shaped[Array, "n"]
    weights: Float[Array, "n"]

    @classmethod
    def of(cls, problem: Problem, shards: Shards) -> _Objective:
        """Return the objective on the unmasked records of all agents."""
        features, real = np.asarray(shards.stacked.features), np.asarray(shards.stacked.mask) > 0
        shares = 1 / (shards.agents * np.asarray(shards.counts, np.float64))
        if features.dtype == np.float64 and real.all():  # without a copy
            rows = device_array(features.reshape(-1, features.shape[-1]))
        else:
            rows = jax_array(features[real], np.float64)
        targets = jax_array(np.asarray(shards.stacked.targets)[real])
        weights = jax_array(np.broadcast_to(shares[:, None], real.shape)[real])
        return cls(problem, rows, targets, weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the model."""
        return self.problem.model_shape(self.features.shape[1])

    def data_value(self, w: Float[Array, "D *K"]) -> Float[Array, ""]:
        """Return f(w) = (1/A) sum_i f_i(w)."""
        return jnp.dot(self.weights, self.problem.loss.value(self.features @ w, self.targets))

    def data_gradient(self, w: Float[Array, "D *K"]) -> Float[Array, "D *K"]:
        """Return the gradient of f."""
        coefficients = self.problem.loss.coefficient(self.features @ w, self.targets)
        if coefficients.ndim == 1:  # several times faster than the transpose under XLA on a CPU
            return jnp.matmul(self.weights * coefficients, self.features)
        return self.features.T @ (self.weights[:, None] * coefficients)

    @jax.jit
    def value(self, w: Array) -> Array:
        """Return F(w), without the constraint."""
        return self.data_value(w) + self.problem.regulariser.value(w)

    @jax.jit
    def gradient(self, w: Array) -> Array:
        """Return the gradient of F, or a subgradient."""
        return self.data_gradient(w) + self.problem.regulariser.subgradient(w)

    @jax.jit
    def whitened(self, basis: Array | None, u: Array) -> tuple[Array, Array]:
        """Return F at w = P u, and its gradient in u; P is the identity if the basis is None."""
        w = u if basis is None else basis @ u
        slope = self.gradient(w)
        return self.value(w), slope if basis is None else basis.T @ slope

    @jax.jit
    def prox_step(self, w: Array, curvature: Array) -> tuple[Array, Array, Array]:
        """Return x+ = prox(w - grad / L, 1 / L), |G| = L |w - x+|, and F(x+)."""
        step = 1 / curvature
        moved = self.problem.prox(w - step * self.data_gradient(w), step)
        return moved, curvature * jnp.linalg.norm((w - moved).ravel()), self.value(moved)

    def gram(self) -> Float[HostArray, "D D"]:
        """Return X' diag(weights) X."""
        rows, weights = np.asarray(self.features), np.asarray(self.weights)
        pieces = zip(row_blocks(rows), row_blocks(weights), strict=True)
        start = np.zeros(2 * rows.shape[1:])
        return sum(((some.T * share) @ some for some, share in pieces), start)

    def curvature(self) -> float:
        """Return L, the loss's smoothness times the largest eigenvalue of X' diag(weights) X."""
        product = self.gram()
        if self.features.shape[0] < self.features.shape[1]:
            rows = np.asarray(self.features) * np.sqrt(np.asarray(self.weights))[:, None]
            product = rows @ rows.T
        largest = max(float(np.linalg.eigvalsh(product)[-1]), float(np.finfo(np.float64).tiny))
        return self.problem.loss.smoothness * largest * (1 + 1e-12)

    def whitening(self) -> Float[Array, "D D"] | None:
        """Return P with P' H P = I, H = c X' diag(weights) X + m I the bound on the Hessian of F.

        c is the loss's smoothness and m the regulariser's. In u = P^-1 w the Hessian of F is at
        most I, and at least the smallest ratio of the loss's curvature to its bound at visited
        margins, however badly the features are conditioned. None when D is too large to factorise.
        """
        features = self.features.shape[1]
        if features > _WHITENED:
            return None
        bound = self.problem.loss.smoothness * self.gram()
        # collinear features without a regulariser would leave the bound singular
        least = 1e-10 * np.trace(bound) / features + 1e-30
        floor = self.problem.regulariser.smoothness + least
        factor = scipy.linalg.cholesky(bound + floor * np.eye(features), lower=True)
        return jax_array(scipy.linalg.solve_triangular(factor, np.eye(features), lower=True).T)


_State: TypeAlias = tuple[Array, Array, Array, Array, Array]
_WHITENED = 1_000  # beyond this many features the factorisation costs more than it saves


@jax.jit
def _accelerated(
    objective: _Objective, start: Array, numbers: Array, max_iterations: int | Array
) -> tuple[Array, Array]:
    """Return a point whose last step had L |y - prox(y - grad / L)| <= tol, and the steps.

    `numbers` are L and tol. Beck and Teboulle 2009 with the gradient restart of O'Donoghue and
    Candes 2015, which makes the rate linear where F grows quadratically around its optimum.
    """
    curvature, tol = numbers

    def unfinished(state: _State) -> Array:
        *_, residual, iterations = state
        going: Array = (residual > tol) & (iterations < max_iterations)
        return going

    def step(state: _State) -> _State:
        last, y, momentum, _, iterations = state
        forward = y - objective.data_gradient(y) / curvature
        x = objective.problem.prox(forward, 1 / curvature)
        restart = jnp.vdot(y - x, x - last) > 0
        grown = (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2
        ahead = x + jnp.where(restart, 0.0, (momentum - 1) / grown) * (x - last)
        residual = curvature * jnp.linalg.norm((y - x).ravel())
        return x, ahead, jnp.where(restart, 1.0, grown), residual, iterations + 1

    first = (start, start, jnp.ones(()), jnp.asarray(jnp.inf), jnp.zeros((), int))
    x, *_, iterations = jax.lax.while_loop(unfinished, step, first)
    return x, iterations


def _quasi_newton(
    objective: _Objective, tol: float, max_iterations: int
) -> tuple[Float[Array, "D *K"], int]:
    """Return a stationary point by L-BFGS in whitened coordinates, then Newton-Krylov steps."""
    from scipy.optimize import fmin_l_bfgs_b  # noqa: PLC0415 - which takes 0.2 s to import

    basis, shape = objective.whitening(), objective.shape

    def fun(u: HostArray) -> tuple[float, HostArray]:
        value, gradient = objective.whitened(basis, u.reshape(shape))
        return float(value), np.asarray(gradient).ravel()

    u, _, facts = fmin_l_bfgs_b(
        fun,
        np.zeros(math.prod(shape)),
        m=20,
        factr=1.0,
        pgtol=0.01 * tol,
        maxfun=2 * max_iterations,
        maxiter=max_iterations,
    )
    point = u if basis is None else (np.asarray(basis) @ u.reshape(shape)).ravel()
    polished, steps = _polished(objective, basis, point, tol)
    return jax_array(polished.reshape(shape)), int(facts["nit"]) + steps


def _polished(
    objective: _Objective, basis: Float[Array, "D D"] | None, w: HostArray, tol: float
) -> tuple[HostArray, int]:
    """Return the point with entries `w`, or one with a shorter gradient, and the number of steps.

    L-BFGS compares values of F and stalls at the square root of their rounding error; the gradient
    is far more precise.
    """
    from scipy.optimize import root  # noqa: PLC0415
    from scipy.sparse.linalg import LinearOperator  # noqa: PLC0415

    shape = objective.shape

    def slope(point: HostArray) -> HostArray:
        return np.asarray(objective.gradient(point.reshape(shape))).ravel()

    length = float(np.linalg.norm(slope(w)))
    if length <= 0.1 * tol:
        return w, 0
    inverse = None
    if basis is not None:
        product = np.asarray(basis @ basis.T)
        inverse = LinearOperator(
            2 * (w.size,), lambda v: (product @ v.reshape(shape)).ravel(), dtype=np.float64
        )
    options: dict[str, Any] = {
        "fatol": 0.1 * tol,
        "tol_norm": np.linalg.norm,
        "maxiter": 20,
        "jac_options": {"inner_M": inverse},
    }
    solve: Any = root  # its stubs lack some options
    found = solve(slope, w, method="krylov", options=options)
    shorter = float(np.linalg.norm(slope(found.x))) < length
    return (found.x if shorter else w), int(found.nit)


# for the interior-point method: the most steps, and its last barrier relative to the weight
_MOST_STEPS, _BARRIER = 1_000, 1e-7
# fractions of the largest |A x - c| below which an entry is tentatively set to 0
_SHARES = 10.0 ** np.arange(-10, -2)


def _structured(objective: _Objective, structure: ComposedL1, tol: float) -> Solution:
    """Return the minimiser of a structured problem, by SciPy's interior-point method.

    In x and bounds t: minimise f(x) + (ridge/2) |x|^2 + w 1't subject to -t <= A x - c <= t.
    """
    from scipy.optimize import LinearConstraint, minimize  # noqa: PLC0415

    solve: Any = minimize  # its stubs lack some options
    matrix: Any = scipy.sparse.csc_matrix(structure.forward.sparse())
    (rows, columns), target = matrix.shape, np.asarray(structure.target)
    unit: Any = scipy.sparse.identity(rows)
    weight = float(structure.weight)

    def fun(z: HostArray) -> tuple[float, HostArray]:
        value, slope = _smooth_part(objective, structure, z[:columns])
        steep = np.concatenate([np.asarray(slope), np.full(rows, weight)])
        return float(value) + weight * float(np.sum(z[columns:])), steep

    def curvature(z: HostArray) -> HostArray:
        return np.pad(np.asarray(_hessian(objective, structure, z[:columns])), (0, rows))

    bounds = scipy.sparse.bmat([[matrix, -unit], [-matrix, -unit]], format="csc")
    found = solve(
        fun,
        np.concatenate([np.zeros(columns), np.abs(target) + 1]),
        jac=True,
        hess=curvature,
        method="trust-constr",
        constraints=LinearConstraint(bounds, -np.inf, np.concatenate([target, -target])),
        # below this barrier its systems become singular; `_proofs` refines the point
        callback=lambda _, state: bool(state.barrier_parameter <= _BARRIER * weight),
        options={"gtol": 0.0, "maxiter": _MOST_STEPS},
    )
    end, ends = jax_array(found.x[:columns]), found.v[0][:rows] - found.v[0][rows:]
    least = Solution(end, np.inf, np.inf, np.inf, int(found.nit))
    for x, u in _proofs(objective, structure, end, ends):
        gap = _duality_gap(objective, structure, x, u)
        tried = Solution(x, float(objective.value(x)), gap, gap, int(found.nit))
        if gap <= tol * tried.value:
            return tried
        least = min(least, tried, key=lambda one: one.gap_bound)
    raise InputError(
        f"the duality gap is {least.gap_bound:.2g} after {least.iterations} steps, above {tol:g} "
        f"of the objective {least.value:.6g}; allow a larger tol, or add a ridge"
    )


def _proofs(
    objective: _Objective, structure: ComposedL1, x: Float[Array, "D"], u: Float[HostArray, "m"]
) -> Iterator[tuple[Float[Array, "D"], Float[Array, "m"]]]:
    """Yield pairs of a point and multipliers of A x - c that may prove it optimal.

    First those of the solver. Then, with the small entries of A x - c held at 0 and the signs of
    the others fixed, a Newton step from x, and the multipliers |u| <= w at which |grad h + A'u| is
    least. Several thresholds are tried: every pair proves some gap.
    """
    from scipy.optimize import lsq_linear  # noqa: PLC0415

    yield x, jax_array(u)
    matrix, weight = structure.forward.sparse().toarray(), float(structure.weight)
    misfit = matrix @ np.asarray(x) - np.asarray(structure.target)
    curved, start = np.asarray(_hessian(objective, structure, x)), np.asarray(x)
    slope = np.asarray(_smooth_part(objective, structure, x)[1])
    for share in _SHARES:
        free = np.abs(misfit) <= share * np.max(np.abs(misfit))
        held = matrix[free]
        u = np.where(free, 0.0, weight * np.sign(misfit))
        fixed = matrix.T @ u
        system = np.block([[curved, held.T], [held, np.zeros(2 * (len(held),))]])
        aim = np.concatenate([-(slope + fixed), -misfit[free]])
        step = np.linalg.lstsq(system, aim, rcond=None)[0][: len(start)]
        moved = jax_array(start + step)
        if np.any(free):
            left = fixed + np.asarray(_smooth_part(objective, structure, moved)[1])
            fit = lsq_linear(weight * held.T, -left, (-1, 1), method="bvls", tol=1e-14)
            u[free] = weight * fit.x
        yield moved, jax_array(u)


@jax.jit
def _smooth_part(objective: _Objective, structure: ComposedL1, x: Array) -> tuple[Array, Array]:
    """Return h(x) = f(x) + (ridge/2) |x|^2 and its gradient."""
    value = objective.data_value(x) + 0.5 * structure.ridge * jnp.sum(x**2)
    return value, objective.data_gradient(x) + structure.ridge * x


@jax.jit
def _hessian(objective: _Objective, structure: ComposedL1, x: Array) -> Array:
    margins, rows = objective.features @ x, objective.features

    def coefficient(z: Array) -> Array:
        return objective.problem.loss.coefficient(z, objective.targets)

    _, curvature = jax.jvp(coefficient, (margins,), (jnp.ones_like(margins),))
    hessian: Array = (rows.T * (objective.weights * curvature)) @ rows
    return hessian + structure.ridge * jnp.eye(len(x))


def _duality_gap(
    objective: _Objective, structure: ComposedL1, x: Float[Array, "D"], u: Float[Array, "m"]
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
    slope = objective.data_gradient(x) + ridge * x + structure.forward.adjoint(u)
    base = float(weight * jnp.sum(jnp.abs(misfit)) - jnp.vdot(u, misfit))
    bounds = [np.inf]
    if ridge:
        bounds.append(float(jnp.vdot(slope, slope)) / (2 * ridge))
    matrix = structure.forward.sparse().toarray()
    q = np.linalg.lstsq(matrix.T, np.asarray(slope), rcond=None)[0]
    left = np.linalg.norm(matrix.T @ q - np.asarray(slope))
    if weight and left <= 1e-9 * np.linalg.norm(slope) + 1e-15:
        value = float(objective.value(x))
        bounds.append(float(np.max(np.abs(q)) * value / weight + np.vdot(q, misfit)))
    return base + min(bounds)
