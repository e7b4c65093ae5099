"""Projection onto {x : b - A x in K}, on the host: an interior point, then Newton's method."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import clarabel
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from jaxtyping import Bool, Float

from tacit.errors import InputError, SolverError
from tacit.problems.cones import Cone, ProductCone, product_cone
from tacit.typing import HostArray

# of the returned point: how far the data may have to move for it to be the exact projection
TOLERANCE = 1e-9
# where the refinement ends; below it lies rounding
ENOUGH = 1e-12
NEWTON_STEPS = 25
# keeps Newton's matrix regular where constraints are redundant; it moves no solution
SHIFT = 1e-8

Pair: TypeAlias = tuple[HostArray, HostArray]


@final
@dataclass(frozen=True, eq=False)
class Constraint:
    """{x : b - A x in K}, with what Newton's matrix takes from it at every point.

    With D the derivative of the projection onto K and R = I - D the matrix is

        [[metric, A'], [-R A, D + SHIFT R]] = diag(metric, 0) + fixed + [0; D] moving.
    """

    A: sp.csc_array
    b: HostArray
    cone: ProductCone
    transposed: sp.csr_array
    fixed: sp.csc_array
    moving: sp.csc_array


def constraint(A: sp.csc_array, b: Float[HostArray, "N"], cones: Sequence[Cone]) -> Constraint:
    """Return the constraint with its matrices prepared."""
    eye = sp.eye_array(b.size, format="csc")
    fixed = sp.block_array([[None, A.T], [-A, SHIFT * eye]], format="csc")
    moving = sp.hstack([A, (1 - SHIFT) * eye], format="csc")
    return Constraint(A, b, product_cone(cones), sp.csr_array(A.T), fixed, moving)


@final
class ConicProjector:
    """The projection onto one set, with everything set up that does not change between points.

    Two projectors of the same data are equal, so that a compiled program serves both. It may be
    called from any thread; what it returns depends on its arguments only.
    """

    def __init__(self, A: sp.csc_array, b: Float[HostArray, "N"], cones: Sequence[Cone]) -> None:
        self.constraint = constraint(A, b, cones)
        self.digest = _digest(A, b, cones)
        self._lock = threading.Lock()
        self._solver = _set_up(A, b, cones)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConicProjector) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def dimension(self) -> int:
        """Coordinates of x."""
        return int(self.constraint.A.shape[1])

    def contains(self, x: Float[HostArray, "D"], tol: float) -> bool:
        """Return whether b - A x is within `tol` of K in every coordinate."""
        slack = self.constraint.b - self.constraint.A @ x
        return bool(np.all(np.abs(slack - self.constraint.cone.project(slack)) <= tol))

    def project(
        self, x: Float[HostArray, "D"], metric: Float[HostArray, "D"]
    ) -> Float[HostArray, "D"]:
        """Return argmin_{p in C} sum_k metric_k (p_k - x_k)^2 / 2; see `ConicSet.project_in`."""
        if not np.all(np.isfinite(x)):
            raise InputError("the point to be projected is not finite; look for a NaN before it")
        if not np.all((metric > 0) & np.isfinite(metric)):
            raise InputError("a weight of the metric is not above 0 and finite; give positive ones")
        # a common factor of the metric is free: it brings multipliers and slacks to one size
        metric = metric / max(metric.max(), np.abs(metric * x).max())
        system = Optimality(self.constraint, x, metric)
        point, residual = system.refine(self._interior_point(x, metric))
        if not residual <= TOLERANCE:
            raise SolverError(
                f"a projection was found to a relative accuracy of {residual:.1g} only, "
                f"{TOLERANCE:g} is needed; rescale the rows of A and b to a size near 1"
            )
        return point[0]

    def _interior_point(self, x: HostArray, metric: HostArray) -> Pair:
        with self._lock:
            self._solver.update(P=metric, q=-metric * x)
            solution = self._solver.solve()
        if "PrimalInfeasible" in str(solution.status):
            raise InputError("the set is empty: no x has b - A x in the cones; relax a constraint")
        return np.array(solution.x), np.array(solution.z)


@final
class Optimality:
    """The equations of one projection in the point x and the multipliers z.

        metric (x - v) + A'z = 0,        s - P_K(s - z) = 0,        s = b - A x.

    By Moreau's decomposition the second says that s is in K, z in its dual cone and <s, z> = 0.
    """

    def __init__(self, constraint: Constraint, v: HostArray, metric: HostArray) -> None:
        self.constraint, self.v, self.metric = constraint, v, metric
        self.unit = max(1.0, np.abs(v).max(), np.abs(constraint.b).max(initial=0.0))

    def refine(self, point: Pair) -> tuple[Pair, float]:
        """Return the best pair of some Newton steps, and its relative residual.

        A step may make things worse on the way; once the residual is small enough, the first
        that does ends the search.
        """
        best, least = point, self.residual(point)
        for _ in range(NEWTON_STEPS):
            if least <= ENOUGH:
                break
            point = self._newton(point)
            residual = self.residual(point)
            if residual < least:
                best, least = point, residual
            elif least <= TOLERANCE:
                break
        return best, least

    def _errors(self, point: Pair) -> Pair:
        (x, z), one = point, self.constraint
        slack = one.b - one.A @ x
        return self.metric * (x - self.v) + one.transposed @ z, slack - one.cone.project(slack - z)

    def residual(self, point: Pair) -> float:
        """Return how far v and b must move, relative to their size, for x to be exact.

        With e the second error, b - e is the bound and z - e the multiplier of an exact optimum
        (both cones are met and orthogonal), whose point to project is x + A'(z - e) / metric.
        """
        error = self._errors(point)[1]
        x, z = point
        moved = x + (self.constraint.transposed @ (z - error)) / self.metric - self.v
        return float(max(np.abs(moved).max(), np.abs(error).max(initial=0.0)) / self.unit)

    def _newton(self, point: Pair) -> Pair:
        (x, z), one = point, self.constraint
        derivative = one.cone.derivative(one.b - one.A @ x - z)
        size = x.size + z.size
        lowered = (derivative.data, derivative.indices + x.size, derivative.indptr)
        diagonal = np.concatenate([self.metric, np.zeros(z.size)])
        matrix = sp.diags_array(diagonal, format="csc") + one.fixed
        matrix = matrix + sp.csc_array(lowered, shape=(size, z.size)) @ one.moving
        with warnings.catch_warnings():
            # a singular matrix gives a step that is not finite, which `refine` turns down
            warnings.simplefilter("ignore", spl.MatrixRankWarning)
            step = spl.spsolve(matrix, -np.concatenate(self._errors(point)))
        return x + step[: x.size], z + step[x.size :]


def project_rows(
    projectors: tuple[ConicProjector, ...], agents: HostArray, x: HostArray, metric: HostArray
) -> HostArray:
    """Return the projections of the rows of x, padded with 0, each on the set of its agent."""
    agents, x, metric = np.asarray(agents), np.asarray(x), np.asarray(metric)
    result = np.zeros_like(x)
    for row in np.ndindex(agents.shape):
        if not 0 <= agents[row] < len(projectors):
            raise InputError(f"there is no agent {agents[row]}; there are {len(projectors)}")
        one = projectors[int(agents[row])]
        used = (*row, slice(one.dimension))
        result[used] = one.project(x[used].astype(float), metric[used].astype(float))
    return result


def contains_rows(
    projector: ConicProjector, x: Float[HostArray, "*B D"], tol: Float[HostArray, "*B"]
) -> Bool[HostArray, "*B"]:
    """Return for each row of x whether it is in the set."""
    x, tol = np.asarray(x, float), np.asarray(tol)
    inside = [projector.contains(x[row], float(tol[row])) for row in np.ndindex(x.shape[:-1])]
    return np.array(inside).reshape(x.shape[:-1])


def _set_up(A: sp.csc_array, b: HostArray, cones: Sequence[Cone]) -> Any:
    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "second_order": clarabel.SecondOrderConeT,
    }
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    # presolve may drop rows, after which the solver's data can no longer be changed
    settings.presolve_enable = False
    settings.max_threads = 1
    dimension = A.shape[1]
    rules = [kinds[kind](size) for kind, size in cones]
    start = sp.csc_matrix(sp.eye_array(dimension))
    return clarabel.DefaultSolver(start, np.zeros(dimension), sp.csc_matrix(A), b, rules, settings)


def _digest(A: sp.csc_array, b: HostArray, cones: Sequence[Cone]) -> str:
    parts = (A.indptr.astype(np.int64), A.indices.astype(np.int64), A.data, b)
    text = repr((A.shape, tuple(cones))).encode()
    return hashlib.sha256(text + b"".join(part.tobytes() for part in parts)).hexdigest()
