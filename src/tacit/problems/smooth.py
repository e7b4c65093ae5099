"""Smooth problems without a constraint: L-BFGS in whitened coordinates, then Newton."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.optimize
from jax.scipy.sparse.linalg import cg
from jaxtyping import Float

from tacit.problems.flat import Flat, data_gradient, data_value, gram
from tacit.problems.problem import Problem
from tacit.typing import Array, HostArray

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
    bound = problem.loss.smoothness * np.asarray(gram(flat))
    # collinear features without a regulariser would leave the bound singular
    floor = problem.regulariser.smoothness + 1e-10 * np.trace(bound) / features + 1e-30
    factor = scipy.linalg.cholesky(bound + floor * np.eye(features), lower=True)
    inverse = scipy.linalg.solve_triangular(factor, np.eye(features), lower=True)
    return jnp.asarray(inverse.T)


def quasi_newton(
    problem: Problem,
    flat: Flat,
    basis: Float[Array, "D D"] | None,
    tol: float,
    max_iterations: int,
) -> tuple[Float[Array, "D *K"], int]:
    """Return the last point of L-BFGS in the coordinates of `basis`, and its iterations."""
    shape = problem.model_shape(flat.features.shape[1])
    features = flat.features if basis is None else flat.features @ basis
    turned = Flat(features, flat.targets, flat.weights)

    def fun(u: HostArray) -> tuple[float, HostArray]:
        value, gradient = _value_and_gradient(problem, turned, basis, u.reshape(shape))
        return float(value), np.asarray(gradient).ravel()

    u, _, facts = scipy.optimize.fmin_l_bfgs_b(
        fun,
        np.zeros(int(np.prod(shape))),
        m=20,
        factr=1.0,
        pgtol=0.01 * tol,
        maxfun=2 * max_iterations,
        maxiter=max_iterations,
    )
    return _turned(basis, jnp.asarray(u.reshape(shape))), int(facts["nit"])


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


def _turned(basis: Array | None, u: Array) -> Array:
    return u if basis is None else basis @ u


@jax.jit
def _value_and_gradient(
    problem: Problem, turned: Flat, basis: Array | None, u: Array
) -> tuple[Array, Array]:
    w = _turned(basis, u)
    slope = problem.regulariser.subgradient(w)
    slope = slope if basis is None else basis.T @ slope
    value = data_value(problem, turned, u) + problem.regulariser.value(w)
    return value, data_gradient(problem, turned, u) + slope


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
