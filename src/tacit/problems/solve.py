"""The non-private optimum to a certified tolerance, for reference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Float

from tacit import checks
from tacit.errors import InputError
from tacit.problems.problem import Problem
from tacit.problems.reference import (
    Flat,
    accelerated,
    flatten,
    newton_polish,
    objective,
    prox_gradient_residual,
    quasi_newton,
    smoothness,
    whitening,
)
from tacit.problems.sets import WholeSpace
from tacit.problems.shards import Shards
from tacit.problems.structured import ComposedL1, proximal_newton
from tacit.typing import Array


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
    bound, then to Newton steps; a structure (`ComposedL1`) goes to proximal Newton steps, where
    `tol` bounds the duality gap relative to F(w); all others go to the accelerated proximal
    gradient with restart.

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
    >>> from tacit.problems import L2, Squared, WholeSpace, pack
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
    flat = flatten(shards)
    if isinstance(problem.regulariser, ComposedL1):
        return _structured(problem, problem.regulariser, flat, tol)
    smooth = math.isfinite(problem.regulariser.smoothness)
    if smooth and isinstance(problem.constraint, WholeSpace):
        basis = whitening(problem, flat)
        w, iterations = quasi_newton(problem, flat, basis, tol, max_iterations)
        w, polish = newton_polish(problem, flat, basis, w, tol)
        iterations += polish
    else:
        start = problem.constraint.project(jnp.zeros(problem.model_shape(shards.dimension)))
        w, iterations = accelerated(problem, flat, start, tol, max_iterations)
    curvature = smoothness(problem, flat)
    w, residual, value = prox_gradient_residual(problem, flat, w, curvature)
    if not float(residual) <= tol:
        raise InputError(
            f"the residual is {float(residual):.2g} after {iterations} iterations, above tol "
            f"{tol:g}; allow more iterations, a larger tol, or add a regulariser"
        )
    gap = _gap_bound(float(residual), float(problem.regulariser.strong_convexity), curvature)
    return Solution(w, float(value), float(residual), gap, iterations)


def _structured(problem: Problem, structure: ComposedL1, flat: Flat, tol: float) -> Solution:
    at, gap, steps = proximal_newton(problem, structure, flat, tol=tol)
    value = float(objective(problem, flat, at.x))
    if not gap <= tol * value:
        raise InputError(
            f"the duality gap is {gap:.2g} after {steps} Newton steps, above {tol:g} of the "
            f"objective {value:.6g}; allow a larger tol, or add a ridge"
        )
    return Solution(at.x, value, gap, gap, steps)


def _gap_bound(residual: float, strong_convexity: float, curvature: float) -> float:
    if not strong_convexity > 0:
        return math.inf
    return residual**2 * (0.5 / strong_convexity + 0.5 / curvature)
