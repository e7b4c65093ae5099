"""Accelerated proximal gradient with adaptive restart."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from tacit.problems.flat import Flat, data_gradient, smoothness
from tacit.problems.problem import Problem
from tacit.typing import Array


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
