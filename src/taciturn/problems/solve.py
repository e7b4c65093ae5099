"""The optimum without privacy, for reference: SciPy's solvers, and a certificate of our own.

Whatever a solver says of itself, the residual or the duality gap of its point is computed afresh in
double precision, and a point above the tolerance is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Bool, Float, Int, Shaped

from taciturn import checks
from taciturn.errors import InputError
from taciturn.problems.memory import device_array, in_pieces, own_array
from taciturn.problems.problem import Problem
from taciturn.problems.sets import WholeSpace
from taciturn.problems.shards import Shards
from taciturn.problems.structured import ComposedL1
from taciturn.typing import Array, HostArray, Scalar


@dataclass(frozen=True)
class Solution:
    """A certified minimiser of a problem over given shards; it is not private.

    Attributes
    ----------
    w
        The model, float64.
    value
        F(w).
    residual
        |G|_2, G = (w - prox(w - grad/L, 1/L)) L, evaluated afresh in float64; of a structure, the
        duality gap.
    gap_bound
        Upper bound on F(w) - min F; infinite without strong convexity.
    iterations
        Steps of the solver.
    """

    w: Float[Array, "D *K"]
    value: float
    residual: float
    gap_bound: float
    iterations: int


def minimise(
    problem: Problem, shards: Shards, *, tol: float = 1e-9, max_iterations: int = 50_000
) -> Solution:
    """Return argmin_{w in C} F(w) with fixed-point residual |G|_2 <= tol.

    Smooth problems without a constraint go to L-BFGS in coordinates that whiten the curvature
    bound, then to Newton-Krylov steps; a structure (`ComposedL1`) goes to an interior-point method,
    where `tol` bounds the duality gap relative to F(w). These are SciPy's. All others, of which
    only a proximal map is known, go to the accelerated proximal gradient with restart.

    Notes
    -----
    With G = L (x - x+), x+ = prox(x - grad f(x) / L, 1 / L), L the smoothness of the data part f
    and m the strong convexity of the regulariser, adding the descent lemma for f at x to the
    subgradient inequality of r at x+ gives, for every y in C,
    F(x+) - F(y) <= G'(x+ - y) + |G|^2 / (2 L) - (m / 2) |x+ - y|^2
    <= |G|^2 (1 / (2 m) + 1 / (2 L)), which is `gap_bound`; x+ is what is returned.

    Raises
    ------
    InputError
        If the residual is above `tol` after `max_iterations`, the loss is not smooth, or a target
        is not one of the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from taciturn.problems import L2, Squared, WholeSpace, pack
    >>> shards = pack(
    ...     np.array([[1.0], [1.0]]), np.array([1.0, 3.0]), [np.array([0, 1])],
    ...     record_norm=1.0, precision="float64", enforce="clip",
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
    problem.check_targets(shards)
    flat = _flatten(shards)
    if isinstance(problem.regulariser, ComposedL1):
        return _structured(problem, problem.regulariser, flat, tol)
    smooth = math.isfinite(problem.regulariser.smoothness)
    if smooth and isinstance(problem.constraint, WholeSpace):
        w, iterations = _quasi_newton(problem, flat, tol, max_iterations)
    else:
        start = problem.constraint.project(jnp.zeros(problem.model_shape(shards.dimension)))
        w, iterations = _accelerated(problem, flat, start, tol, max_iterations)
    curvature = _smoothness(problem, flat)
    w, residual, value = _prox_gradient_residual(problem, flat, w, curvature)
    if not float(residual) <= tol:
        raise InputError(
            f"the residual is {float(residual):.2g} after {iterations} iterations, above tol "
            f"{tol:g}; allow more iterations, a larger tol, or add a regulariser"
        )
    gap = _gap_bound(float(residual), float(problem.regulariser.strong_convexity), curvature)
    return Solution(w, float(value), float(residual), gap, iterations)


def _gap_bound(residual: float, strong_convexity: float, curvature: float) -> float:
    if not strong_convexity > 0:
        return math.inf
    return residual**2 * (0.5 / strong_convexity + 0.5 / curvature)


class Flat(eqx.Module):
    """n records in float64 with weights 1 / (A m_i), so that the data part is a weighted sum."""

    features: Float[Array, "n D"]
    targets: Shaped[Array, "n"]
    weights: Float[Array, "n"]


def _flatten(shards: Shards) -> Flat:
    """Return the unmasked records of all agents."""
    real = np.asarray(shards.stacked.mask) > 0
    shares = 1 / (shards.agents * np.asarray(shards.counts, np.float64))
    return Flat(
        features=_rows_of(np.asarray(shards.stacked.features), real),
        targets=own_array(np.asarray(shards.stacked.targets)[real]),
        weights=own_array(np.broadcast_to(shares[:, None], real.shape)[real]),
    )


def _rows_of(features: HostArray, real: HostArray) -> Float[Array, "n D"]:
    """Return the rows that are there, in double precision; on the same memory where all are."""
    if features.dtype == np.float64 and real.all():
        return device_array(features.reshape(-1, features.shape[-1]))
    return own_array(features[real], np.float64)


def _data_value(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, ""]:
    """Return (1/A) sum_i f_i(w)."""
    return jnp.dot(flat.weights, problem.loss.value(flat.features @ w, flat.targets))


def _data_gradient(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, "D *K"]:
    """Return the gradient of (1/A) sum_i f_i."""
    coefficients = problem.loss.coefficient(flat.features @ w, flat.targets)
    if coefficients.ndim == 1:  # several times as quick as the transpose under XLA on a CPU
        return jnp.matmul(flat.weights * coefficients, flat.features)
    return flat.features.T @ (flat.weights[:, None] * coefficients)


@jax.jit
def _objective(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, ""]:
    """Return F(w), the constraint not included."""
    return _data_value(problem, flat, w) + problem.regulariser.value(w)


@jax.jit
def _prox_gradient_residual(
    problem: Problem, flat: Flat, w: Float[Array, "D *K"], curvature: Scalar
) -> tuple[Float[Array, "D *K"], Float[Array, ""], Float[Array, ""]]:
    """Return x+ = prox(w - grad / L, 1 / L), |G| = L |w - x+|, and F(x+)."""
    step = 1 / curvature
    moved = problem.prox(w - step * _data_gradient(problem, flat, w), step)
    value = _data_value(problem, flat, moved) + problem.regulariser.value(moved)
    return moved, curvature * jnp.linalg.norm((w - moved).ravel()), value


def _gram(flat: Flat) -> Float[HostArray, "D D"]:
    """Return X' diag(weights) X."""
    rows, weights = np.asarray(flat.features), np.asarray(flat.weights)
    pieces = zip(in_pieces(rows), in_pieces(weights), strict=True)
    return sum(((some.T * share) @ some for some, share in pieces), np.zeros(2 * rows.shape[1:]))


def _smoothness(problem: Problem, flat: Flat) -> float:
    """Return L, the loss's smoothness times the largest eigenvalue of X' diag(weights) X."""
    product = _gram(flat)
    if flat.features.shape[0] < flat.features.shape[1]:
        rows = np.asarray(flat.features) * np.sqrt(np.asarray(flat.weights))[:, None]
        product = rows @ rows.T
    largest = float(np.linalg.eigvalsh(product)[-1])
    return problem.loss.smoothness * max(largest, float(np.finfo(np.float64).tiny)) * (1 + 1e-12)


class _State(NamedTuple):
    x: Float[Array, "D *K"]
    y: Float[Array, "D *K"]
    momentum: Float[Array, ""]
    residual: Float[Array, ""]
    iterations: Int[Array, ""]


def _accelerated(
    problem: Problem, flat: Flat, start: Float[Array, "D *K"], tol: float, max_iterations: int
) -> tuple[Float[Array, "D *K"], int]:
    """Return a point whose last step had L |y - prox(y - grad / L)| <= tol / 2, and the steps.

    Beck and Teboulle 2009 with the gradient restart of O'Donoghue and Candes 2015, which makes
    the rate linear where F grows quadratically around its optimum.
    """
    curvature = _smoothness(problem, flat)
    state = _run(problem, flat, start, jnp.asarray([curvature, 0.5 * tol]), max_iterations)
    return state.x, int(state.iterations)


@jax.jit
def _run(
    problem: Problem,
    flat: Flat,
    start: Float[Array, "D *K"],
    numbers: Float[Array, "2"],
    max_iterations: int | Int[Array, ""],
) -> _State:
    curvature, tol = numbers

    def unfinished(state: _State) -> Bool[Array, ""]:
        going: Array = (state.residual > tol) & (state.iterations < max_iterations)
        return going

    def step(state: _State) -> _State:
        forward = state.y - _data_gradient(problem, flat, state.y) / curvature
        x = problem.prox(forward, 1 / curvature)
        restart = jnp.vdot(state.y - x, x - state.x) > 0
        grown = (1 + jnp.sqrt(1 + 4 * state.momentum**2)) / 2
        y = x + jnp.where(restart, 0.0, (state.momentum - 1) / grown) * (x - state.x)
        residual = curvature * jnp.linalg.norm((state.y - x).ravel())
        momentum = jnp.where(restart, 1.0, grown)
        return _State(x, y, momentum, residual, state.iterations + 1)

    first = _State(start, start, jnp.ones(()), jnp.asarray(jnp.inf), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, step, first)


# above this many features the factorisation costs more than it saves
_WHITENED = 1_000


def _whitening(problem: Problem, flat: Flat) -> Float[Array, "D D"] | None:
    """Return P with P' H P = I, H = c X' diag(weights) X + m I the bound on the Hessian of F.

    c is the loss's smoothness and m the regulariser's. In u = P^-1 w the Hessian of F is at most
    I, and at least the smallest ratio of the loss's curvature to its bound at visited margins,
    however badly the features are conditioned. None when D is too large to factorise.
    """
    features = flat.features.shape[1]
    if features > _WHITENED:
        return None
    bound = problem.loss.smoothness * _gram(flat)
    # collinear features without a regulariser would leave the bound singular
    floor = problem.regulariser.smoothness + 1e-10 * np.trace(bound) / features + 1e-30
    factor = scipy.linalg.cholesky(bound + floor * np.eye(features), lower=True)
    inverse = scipy.linalg.solve_triangular(factor, np.eye(features), lower=True)
    return own_array(inverse.T)


def _quasi_newton(
    problem: Problem, flat: Flat, tol: float, max_iterations: int
) -> tuple[Float[Array, "D *K"], int]:
    """Return a stationary point by L-BFGS in whitened coordinates, then Newton-Krylov steps."""
    from scipy.optimize import fmin_l_bfgs_b  # noqa: PLC0415 - which takes 0.2 s to import

    basis = _whitening(problem, flat)
    shape = problem.model_shape(flat.features.shape[1])

    def fun(u: HostArray) -> tuple[float, HostArray]:
        value, gradient = _value_and_gradient(problem, flat, basis, u.reshape(shape))
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
    polished, steps = _polished(problem, flat, basis, point, tol)
    return own_array(polished.reshape(shape)), int(facts["nit"]) + steps


def _polished(
    problem: Problem, flat: Flat, basis: Float[Array, "D D"] | None, w: HostArray, tol: float
) -> tuple[HostArray, int]:
    """Return the point with entries `w`, or one with a shorter gradient, and the steps to it.

    L-BFGS compares values of F and stalls at the square root of their rounding; the gradient is
    known far more precisely.
    """
    from scipy.optimize import root  # noqa: PLC0415
    from scipy.sparse.linalg import LinearOperator  # noqa: PLC0415

    shape = problem.model_shape(flat.features.shape[1])

    def slope(point: HostArray) -> HostArray:
        gradient: HostArray = np.asarray(_gradient(problem, flat, point.reshape(shape)))
        return gradient.ravel()

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
    solve: Any = root  # whose stubs know fewer options
    found = solve(slope, w, method="krylov", options=options)
    shorter = float(np.linalg.norm(slope(found.x))) < length
    return (found.x if shorter else w), int(found.nit)


@jax.jit
def _value_and_gradient(
    problem: Problem, flat: Flat, basis: Array | None, u: Array
) -> tuple[Array, Array]:
    w = u if basis is None else basis @ u
    value = _data_value(problem, flat, w) + problem.regulariser.value(w)
    slope = _gradient(problem, flat, w)
    return value, slope if basis is None else basis.T @ slope


@jax.jit
def _gradient(problem: Problem, flat: Flat, w: Array) -> Array:
    return _data_gradient(problem, flat, w) + problem.regulariser.subgradient(w)


# of the interior-point method: its steps, and the barrier at which it ends, of the weight
_MOST_STEPS, _BARRIER = 1_000, 1e-7
# how much of the largest |A x - c| may count as none
_SHARES = 10.0 ** np.arange(-10, -2)


def _structured(problem: Problem, structure: ComposedL1, flat: Flat, tol: float) -> Solution:
    """Return the minimiser of a structured problem, by SciPy's interior-point method.

    In x and bounds t: minimise f(x) + (ridge/2) |x|^2 + w 1't subject to -t <= A x - c <= t.
    """
    from scipy.optimize import LinearConstraint, minimize  # noqa: PLC0415

    solve: Any = minimize  # whose stubs know fewer options
    matrix: Any = scipy.sparse.csc_matrix(structure.forward.sparse())
    (rows, columns), target = matrix.shape, np.asarray(structure.target)
    unit: Any = scipy.sparse.identity(rows)
    weight = float(structure.weight)

    def fun(z: HostArray) -> tuple[float, HostArray]:
        value, slope = _smooth_part(problem, structure, flat, z[:columns])
        steep = np.concatenate([np.asarray(slope), np.full(rows, weight)])
        return float(value) + weight * float(np.sum(z[columns:])), steep

    def curvature(z: HostArray) -> HostArray:
        return np.pad(np.asarray(_hessian(problem, structure, flat, z[:columns])), (0, rows))

    bounds = scipy.sparse.bmat([[matrix, -unit], [-matrix, -unit]], format="csc")
    found = solve(
        fun,
        np.concatenate([np.zeros(columns), np.abs(target) + 1]),
        jac=True,
        hess=curvature,
        method="trust-constr",
        constraints=LinearConstraint(bounds, -np.inf, np.concatenate([target, -target])),
        # nearer than that its systems become singular, and `_proofs` goes the rest of the way
        callback=lambda _, state: bool(state.barrier_parameter <= _BARRIER * weight),
        options={"gtol": 0.0, "maxiter": _MOST_STEPS},
    )
    end, ends = own_array(found.x[:columns]), found.v[0][:rows] - found.v[0][rows:]
    least = Solution(end, np.inf, np.inf, np.inf, int(found.nit))
    for x, u in _proofs(problem, structure, flat, end, ends):
        value, gap = _objective(problem, flat, x), duality_gap(problem, structure, flat, x, u)
        tried = Solution(x, float(value), gap, gap, int(found.nit))
        if gap <= tol * tried.value:
            return tried
        least = min(least, tried, key=lambda one: one.gap_bound)
    raise InputError(
        f"the duality gap is {least.gap_bound:.2g} after {least.iterations} steps, above {tol:g} "
        f"of the objective {least.value:.6g}; allow a larger tol, or add a ridge"
    )


def _proofs(
    problem: Problem,
    structure: ComposedL1,
    flat: Flat,
    x: Float[Array, "D"],
    u: Float[HostArray, "m"],
) -> Iterator[tuple[Float[Array, "D"], Float[Array, "m"]]]:
    """Yield pairs of a point and multipliers of A x - c that may prove it optimal.

    First those of the solver. Then, with the small entries of A x - c held at 0 and the signs of
    the others as they are, a Newton step from x, and the multipliers |u| <= w at which grad h + A'u
    is least. How small is small is tried: every pair proves some gap.
    """
    from scipy.optimize import lsq_linear  # noqa: PLC0415

    yield x, own_array(u)
    matrix, weight = structure.forward.sparse().toarray(), float(structure.weight)
    misfit = matrix @ np.asarray(x) - np.asarray(structure.target)
    curved, start = np.asarray(_hessian(problem, structure, flat, x)), np.asarray(x)
    slope = np.asarray(_smooth_part(problem, structure, flat, x)[1])
    for share in _SHARES:
        free = np.abs(misfit) <= share * np.max(np.abs(misfit))
        held = matrix[free]
        u = np.where(free, 0.0, weight * np.sign(misfit))
        fixed = matrix.T @ u
        system = np.block([[curved, held.T], [held, np.zeros(2 * (len(held),))]])
        aim = np.concatenate([-(slope + fixed), -misfit[free]])
        step = np.linalg.lstsq(system, aim, rcond=None)[0][: len(start)]
        moved = own_array(start + step)
        if np.any(free):
            left = fixed + np.asarray(_smooth_part(problem, structure, flat, moved)[1])
            fit = lsq_linear(weight * held.T, -left, (-1, 1), method="bvls", tol=1e-14)
            u[free] = weight * fit.x
        yield moved, own_array(u)


@jax.jit
def _smooth_part(
    problem: Problem, structure: ComposedL1, flat: Flat, x: Array
) -> tuple[Array, Array]:
    """Return h(x) = f(x) + (ridge/2) |x|^2 and its gradient."""
    value = _data_value(problem, flat, x) + 0.5 * structure.ridge * jnp.sum(x**2)
    return value, _data_gradient(problem, flat, x) + structure.ridge * x


@jax.jit
def _hessian(problem: Problem, structure: ComposedL1, flat: Flat, x: Array) -> Array:
    margins = flat.features @ x

    def coefficient(z: Array) -> Array:
        return problem.loss.coefficient(z, flat.targets)

    _, curvature = jax.jvp(coefficient, (margins,), (jnp.ones_like(margins),))
    hessian: Array = (flat.features.T * (flat.weights * curvature)) @ flat.features
    return hessian + structure.ridge * jnp.eye(len(x))


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
    slope = _data_gradient(problem, flat, x) + ridge * x + structure.forward.adjoint(u)
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
