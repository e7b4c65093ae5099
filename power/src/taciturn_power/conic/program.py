"""One quadratic minimised over linear and second-order-cone constraints, with its multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from taciturn.errors import SolverError
from taciturn.typing import HostArray
from taciturn_power.conic.cones import Cone
from taciturn_power.conic.solver import interior_point, row_weights


class Minimum(NamedTuple):
    """A minimiser x, its objective, and the multipliers of the rows.

    The multiplier of row k is minus the derivative of the optimum with respect to b_k.
    """

    x: Float[HostArray, " n"]
    objective: float
    multipliers: Float[HostArray, " N"]


def minimise_conic(
    hessian: Float[HostArray, " n"],
    linear: Float[HostArray, " n"],
    constraints: tuple[sp.csc_array, Float[HostArray, " N"], Sequence[Cone]],
    *,
    rough: bool = False,
) -> Minimum | None:
    """Return argmin of sum_k h_k x_k^2 / 2 + linear'x with b - A x in K; None if there is no x.

    The objective is divided by the largest of its coefficients before it is solved, so that
    dollars and cents have the same accuracy: 1e-7, relative; where the solver stops short of that,
    1e-5 will do, if residuals are below 1e-6.

    Parameters
    ----------
    hessian
        The diagonal h, at least 0.
    constraints
        A, b and K, as in `ConicSet`.
    rough
        Whether the solver's reduced accuracy, 5e-5, will do.

    Raises
    ------
    SolverError
        If the solver stops before it reaches its accuracy, or the objective has no lower bound.
    """
    unit = max(np.abs(hessian).max(initial=0.0), np.abs(linear).max(initial=0.0)) or 1.0
    A, b, cones = constraints
    weights = row_weights(A, cones)
    rows = (sp.csc_array(sp.diags_array(weights) @ A), weights * b, cones)
    solution = interior_point(sp.diags_array(hessian / unit), linear / unit, rows)
    status = str(solution.status)
    if status in {"PrimalInfeasible", "AlmostPrimalInfeasible"}:
        return None
    if status != "Solved" and not (status == "AlmostSolved" and _near(solution, rough=rough)):
        raise SolverError(
            f"the cone solver stopped ({status}) before it found a minimum; check that limits and "
            "costs are of sensible size"
        )
    x, z = np.array(solution.x), np.array(solution.z)
    objective = float(hessian @ x**2 / 2 + linear @ x)
    return Minimum(x, objective, unit * weights * z)


def _near(solution: Any, *, rough: bool) -> bool:
    """Return whether a solution that the solver calls nearly solved is good to five digits."""
    apart = abs(solution.obj_val - solution.obj_val_dual)
    near = apart <= 1e-5 * max(1.0, abs(solution.obj_val))
    return rough or bool(near and max(solution.r_prim, solution.r_dual) <= 1e-6)
