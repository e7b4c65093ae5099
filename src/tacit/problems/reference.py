"""Solvers for the non-private optimum, on all agents' records in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.scipy.sparse.linalg import cg
from jaxtyping import Bool, Float, Int, Shaped

from tacit.problems.memory import device_array, in_pieces, own_array
from tacit.problems.problem import Problem
from tacit.problems.shards import Shards
from tacit.typing import Array, HostArray, Scalar


class Flat(eqx.Module):
    """n records in float64 with weights 1 / (A m_i), so that the data part is a weighted sum."""

    features: Float[Array, "n D"]
    targets: Shaped[Array, "n"]
    weights: Float[Array, "n"]


def flatten(shards: Shards) -> Flat:
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


def data_value(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, ""]:
    """Return (1/A) sum_i f_i(w)."""
    return jnp.dot(flat.weights, problem.loss.value(flat.features @ w, flat.targets))


def data_gradient(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, "D *K"]:
    """Return the gradient of (1/A) sum_i f_i."""
    coefficients = problem.loss.coefficient(flat.features @ w, flat.targets)
    if coefficients.ndim == 1:  # several times as quick as the transpose under XLA on a CPU
        return jnp.matmul(flat.weights * coefficients, flat.features)
    return flat.features.T @ (flat.weights[:, None] * coefficients)


@jax.jit
def objective(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, ""]:
    """Return F(w), the constraint not included."""
    return data_value(problem, flat, w) + problem.regulariser.value(w)


@jax.jit
def prox_gradient_residual(
    problem: Problem, flat: Flat, w: Float[Array, "D *K"], curvature: Scalar
) -> tuple[Float[Array, "D *K"], Float[Array, ""], Float[Array, ""]]:
    """Return x+ = prox(w - grad / L, 1 / L), |G| = L |w - x+|, and F(x+)."""
    step = 1 / curvature
    moved = problem.prox(w - step * data_gradient(problem, flat, w), step)
    value = data_value(problem, flat, moved) + problem.regulariser.value(moved)
    return moved, curvature * jnp.linalg.norm((w - moved).ravel()), value


def gram(flat: Flat) -> Float[HostArray, "D D"]:
    """Return X' diag(weights) X."""
    rows, weights = np.asarray(flat.features), np.asarray(flat.weights)
    pieces = zip(in_pieces(rows), in_pieces(weights), strict=True)
    return sum(((some.T * share) @ some for some, share in pieces), np.zeros(2 * rows.shape[1:]))


def smoothness(problem: Problem, flat: Flat) -> float:
    """Return L, the loss's smoothness times the largest eigenvalue of X' diag(weights) X."""
    product = gram(flat)
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


def accelerated(
    problem: Problem, flat: Flat, start: Float[Array, "D *K"], tol: float, max_iterations: int
) -> tuple[Float[Array, "D *K"], int]:
    """Return a point whose last step had L |y - prox(y - grad / L)| <= tol / 2, and the steps.

    Beck and Teboulle 2009 with the gradient restart of O'Donoghue and Candes 2015, which makes
    the rate linear where F grows quadratically around its optimum.
    """
    curvature = smoothness(problem, flat)
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
        forward = state.y - data_gradient(problem, flat, state.y) / curvature
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


def whitening(problem: Problem, flat: Flat) -> Float[Array, "D D"] | None:
    """Return P with P' H P = I, H = c X' diag(weights) X + m I the bound on the Hessian of F.

    c is the loss's smoothness and m the regulariser's. In u = P^-1 w the Hessian of F is at most
    I, and at least the smallest ratio of the loss's curvature to its bound at visited margins,
    however badly the features are conditioned. None when D is too large to factorise.
    """
    features = flat.features.shape[1]
    if features > _WHITENED:
        return None
    bound = problem.loss.smoothness * gram(flat)
    # collinear features without a regulariser would leave the bound singular
    floor = problem.regulariser.smoothness + 1e-10 * np.trace(bound) / features + 1e-30
    factor = scipy.linalg.cholesky(bound + floor * np.eye(features), lower=True)
    inverse = scipy.linalg.solve_triangular(factor, np.eye(features), lower=True)
    return own_array(inverse.T)


def quasi_newton(
    problem: Problem,
    flat: Flat,
    basis: Float[Array, "D D"] | None,
    tol: float,
    max_iterations: int,
) -> tuple[Float[Array, "D *K"], int]:
    """Return the last point of L-BFGS in the coordinates of `basis`, and its iterations."""
    shape = problem.model_shape(flat.features.shape[1])

    def fun(u: HostArray) -> tuple[float, HostArray]:
        value, gradient = _value_and_gradient(problem, flat, basis, u.reshape(shape))
        return float(value), np.asarray(gradient).ravel()

    from scipy.optimize import fmin_l_bfgs_b  # noqa: PLC0415 - which takes 0.2 s to import

    u, _, facts = fmin_l_bfgs_b(
        fun,
        np.zeros(int(np.prod(shape))),
        m=20,
        factr=1.0,
        pgtol=0.01 * tol,
        maxfun=2 * max_iterations,
        maxiter=max_iterations,
    )
    point = u.reshape(shape)
    return own_array(point if basis is None else np.asarray(basis) @ point), int(facts["nit"])


def newton_polish(
    problem: Problem,
    flat: Flat,
    basis: Float[Array, "D D"] | None,
    w: Float[Array, "D *K"],
    tol: float,
) -> tuple[Float[Array, "D *K"], int]:
    """Return w after Newton steps, taken while they shorten the gradient, and their number.

    L-BFGS compares values of F and stalls at the square root of their rounding; the gradient
    is known far more precisely.
    """
    length = float(_gradient_norm(problem, flat, w))
    for steps in range(20):
        if length <= 0.1 * tol:
            return w, steps
        candidate = _newton_step(problem, flat, basis, w)
        shorter = float(_gradient_norm(problem, flat, candidate))
        if not shorter < length:
            return w, steps
        w, length = candidate, shorter
    return w, 20


@jax.jit
def _value_and_gradient(
    problem: Problem, flat: Flat, basis: Array | None, u: Array
) -> tuple[Array, Array]:
    w = u if basis is None else basis @ u
    value = data_value(problem, flat, w) + problem.regulariser.value(w)
    slope = _gradient(problem, flat, w)
    return value, slope if basis is None else basis.T @ slope


def _gradient(problem: Problem, flat: Flat, w: Array) -> Array:
    return data_gradient(problem, flat, w) + problem.regulariser.subgradient(w)


@jax.jit
def _gradient_norm(problem: Problem, flat: Flat, w: Array) -> Array:
    length: Array = jnp.linalg.norm(_gradient(problem, flat, w).ravel())
    return length


@jax.jit
def _newton_step(problem: Problem, flat: Flat, basis: Array | None, w: Array) -> Array:
    gradient, product = jax.linearize(lambda point: _gradient(problem, flat, point), w)

    def precondition(residual: Array) -> Array:
        return residual if basis is None else basis @ (basis.T @ residual)

    solve: Callable[..., tuple[Array, None]] = cg
    direction, _ = solve(product, -gradient, tol=1e-8, maxiter=500, M=precondition)
    return w + direction
