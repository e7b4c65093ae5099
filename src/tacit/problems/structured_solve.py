"""The certified optimum of a structured problem: proximal Newton steps and a duality gap."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from tacit.problems.flat import Flat, data_gradient, data_value
from tacit.problems.problem import Problem
from tacit.problems.sets import soft_threshold
from tacit.problems.structured import ComposedL1
from tacit.typing import Array

_INNER = 2_000
_HALVINGS = 30


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
    """
    rows = structure.forward.rows
    matrix = jnp.asarray(structure.forward.sparse().toarray())
    start = jnp.zeros(structure.forward.columns)
    at = Split(start, matrix @ start - structure.target, jnp.zeros(rows))
    gap, stalled = np.inf, 0
    for count in range(1, most + 1):
        hessian, slope = _model(problem, structure, flat, at.x)
        size = matrix.T @ matrix
        rho = float(jnp.trace(hessian) / jnp.trace(size))
        floor = 1e-12 * float(jnp.trace(hessian)) * np.eye(len(start))
        inverse = scipy.linalg.inv(np.asarray(hessian + rho * size) + floor)
        linear = hessian @ at.x - slope
        candidate = _quadratic(
            structure, matrix, jnp.asarray(inverse), linear, jnp.asarray(rho), at
        )
        at, falls = _shortened(problem, flat, at, candidate)
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
def _model(problem: Problem, structure: ComposedL1, flat: Flat, x: Array) -> tuple[Array, Array]:
    """Return Hessian and gradient of f + (ridge/2)|x|^2."""
    margins = flat.features @ x

    def coefficient(z: Array) -> Array:
        return problem.loss.coefficient(z, flat.targets)

    _, curvature = jax.jvp(coefficient, (margins,), (jnp.ones_like(margins),))
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


def _shortened(problem: Problem, flat: Flat, at: Split, candidate: Split) -> tuple[Split, bool]:
    """Return the first halving of the step to `candidate` that lowers F, and whether one does."""
    value, share = float(_objective(problem, flat, at.x)), 1.0
    for _ in range(_HALVINGS):
        x = at.x + share * (candidate.x - at.x)
        reached = float(_objective(problem, flat, x))
        if reached <= value + 1e-14 * abs(value):  # at the optimum rounding decides
            return candidate._replace(x=x), reached < value
        share /= 2
    return candidate._replace(x=at.x), False
