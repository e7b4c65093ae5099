"""Quadratic objectives over {x : b - A x in K}, on the host: interior point and Newton's method.

K is a product of zero cones, nonnegative orthants and second-order cones.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, final

import clarabel
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from jaxtyping import Bool, Float, Int

from taciturn import checks
from taciturn.errors import InputError, SolverError
from taciturn.typing import Array, HostArray

Cone: TypeAlias = tuple[Literal["zero", "nonnegative", "second_order"], int]
KINDS = ("zero", "nonnegative", "second_order")


@final
@dataclass(frozen=True, eq=False)
class ProductCone:
    """K = K_1 x K_2 x ..., with its Euclidean projection and a derivative of the projection.

    `zero` and `nonnegative` are the coordinates of all cones of that kind, `second_order` those of
    the cones {(t, y) : |y|_2 <= t}, t first, one `(count, size)` array for each size.
    """

    rows: int
    zero: HostArray
    nonnegative: HostArray
    second_order: tuple[HostArray, ...]

    def violation(self, w: Float[HostArray, "N"]) -> float:
        """Return the largest of 0, |w_k| on zero cones, -w_k on orthants, and |y|_2 - t."""
        worst = [0.0, np.abs(w[self.zero]).max(initial=0.0), -w[self.nonnegative].min(initial=0.0)]
        for group in self.second_order:
            t, _, length = _split(w[group])
            worst.append((length - t).max())
        return float(np.max(worst))  # NaN if one is

    def project(self, w: Float[HostArray, "N"]) -> Float[HostArray, "N"]:
        """Return argmin_{s in K} |s - w|_2.

        A point (t, y) with |y| > |t| is mapped to (t + |y|) / 2 (1, y / |y|), a point of the cone
        to itself, and a point of the polar cone to 0.
        """
        s = np.zeros_like(w)
        s[self.nonnegative] = np.maximum(w[self.nonnegative], 0)
        for group in self.second_order:
            t, y, length = _split(w[group])
            outside = (
                np.column_stack([length, y]) * ((t + length) / (2 * _nonzero(length)))[:, None]
            )
            s[group] = np.where((length <= t)[:, None], w[group], outside)
            s[group[length <= -t]] = 0
        return s

    def derivative(self, w: Float[HostArray, "N"]) -> sp.csc_array:
        """Return an element of the generalised Jacobian of `project` at w, `(N, N)`.

        With u = y / |y| it is [[1, u'], [u, (1 + t/|y|) I - (t/|y|) u u']] / 2 outside a
        second-order cone and its polar, the identity inside, 0 in the polar.
        """
        rows, columns = [self.nonnegative], [self.nonnegative]
        values = [(w[self.nonnegative] > 0).astype(float)]
        for group in self.second_order:
            size = group.shape[1]
            rows.append(np.repeat(group, size, axis=1).ravel())
            columns.append(np.tile(group, size).ravel())
            values.append(_second_order_derivative(w[group]).ravel())
        where = (np.concatenate(rows), np.concatenate(columns))
        return sp.csc_array((np.concatenate(values), where), shape=(self.rows, self.rows))


def product_cone(cones: Sequence[Cone]) -> ProductCone:
    """Return the product of `cones`, pairs (kind, number of rows), in the order of the rows.

    Examples
    --------
    >>> product_cone([("second_order", 3), ("nonnegative", 1)]).project(np.array([0.0, 3, 4, -1]))
    array([2.5, 1.5, 2. , 0. ])
    """
    plain: dict[str, list[HostArray]] = {kind: [np.zeros(0, int)] for kind in KINDS[:2]}
    by_size: dict[int, list[HostArray]] = {}
    start = 0
    for kind, given in cones:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is not a cone; use one of {', '.join(KINDS)}")
        size = checks.at_least(f"the size of a {kind} cone", given, 1)
        block = np.arange(start, start + size)
        home = by_size.setdefault(size, []) if kind == "second_order" else plain[kind]
        home.append(block)
        start += size
    groups = tuple(np.stack(blocks) for blocks in by_size.values())
    zero, nonnegative = (np.concatenate(plain[kind]) for kind in KINDS[:2])
    return ProductCone(start, zero, nonnegative, groups)


def _split(w: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    return w[:, 0], w[:, 1:], np.linalg.norm(w[:, 1:], axis=1)


def _nonzero(length: HostArray) -> HostArray:
    return np.where(length > 0, length, 1.0)


def _second_order_derivative(w: HostArray) -> HostArray:
    t, y, length = _split(w)
    u, ratio = y / _nonzero(length)[:, None], t / _nonzero(length)
    eye = np.eye(w.shape[1])
    outside = np.empty((*w.shape, w.shape[1]))
    outside[:, 0, 0] = 0.5
    outside[:, 0, 1:] = outside[:, 1:, 0] = u / 2
    inner = (1 + ratio)[:, None, None] * eye[1:, 1:]
    outside[:, 1:, 1:] = (inner - ratio[:, None, None] * u[:, :, None] * u[:, None, :]) / 2
    outside[length <= t] = eye
    outside[length <= -t] = 0
    return outside


# of a projection: the most relative change of the data for which the point is exact
TOLERANCE = 1e-9
# of a step: the most violation of a constraint
FEASIBLE = 1e-7
# the refinement ends at this residual, the level of rounding errors
ENOUGH = 1e-12
NEWTON_STEPS = 25
# keeps Newton's matrix regular where constraints are redundant; it changes no solution
SHIFT = 1e-8

# settings for problems that are solved once; without iterative refinement large ones fail
_SINGLE_SOLVE = {
    "tol_gap_abs": 1e-7,
    "tol_gap_rel": 1e-7,
    "tol_feas": 1e-7,
    "tol_ktratio": 1e-5,
    "iterative_refinement_reltol": 1e-14,
    "iterative_refinement_abstol": 1e-14,
    "iterative_refinement_max_iter": 50,
}

Pair: TypeAlias = tuple[HostArray, HostArray]


@final
class Constraint:
    """{x : b - A x in K}, with the parts of Newton's matrix that do not depend on the point.

    The rows of a cone are divided by the largest of their norms, so that a slack is a distance.
    With P the Hessian of the objective, D the derivative of the projection onto K and R = I - D
    the matrix is

        [[P, A'], [-R A, D + SHIFT R]] = diag(P, 0) + fixed + [0; D] moving.
    """

    def __init__(self, A: sp.csc_array, b: Float[HostArray, "N"], cones: Sequence[Cone]) -> None:
        weights, eye = row_weights(A, cones), sp.eye_array(b.size, format="csc")
        self.A, self.b = sp.csc_array(sp.diags_array(weights) @ A), weights * b
        self.cone, self.transposed = product_cone(cones), sp.csr_array(self.A.T)
        self.fixed = sp.block_array([[None, self.A.T], [-self.A, SHIFT * eye]], format="csc")
        self.moving = sp.hstack([self.A, (1 - SHIFT) * eye], format="csc")

    def outside(self, x: Float[HostArray, "D"]) -> float:
        """Return the violation of K by b - A x."""
        return self.cone.violation(self.b - self.A @ x)


def row_weights(A: sp.csc_array, cones: Sequence[Cone]) -> HostArray:
    """Return 1 / (norm of each row), with the largest norm for all rows of a second-order cone."""
    norms = spl.norm(A, axis=1) if A.shape[0] else np.zeros(0)
    start = 0
    for kind, size in cones:
        if kind == "second_order":  # the cone is invariant under a common factor only
            norms[start : start + size] = norms[start : start + size].max()
        start += size
    weights: HostArray = 1 / np.where(norms > 0, norms, 1.0)
    return weights


@final
class ConicSolver:
    """argmin_{b - A x in K} x'(H + diag(metric))x / 2 - linear'x, with H and the set fixed.

    Clarabel is set up once: between solves only `linear` changes, and the diagonal with the metric.
    Solvers of the same data are equal, so that they share compiled programs. A solver may be called
    from any thread; its result depends on its arguments only.
    """

    def __init__(
        self,
        A: sp.csc_array,
        b: Float[HostArray, "N"],
        cones: Sequence[Cone],
        hessian: sp.csc_array | None = None,
    ) -> None:
        self.constraint = Constraint(A, b, cones)
        self.hessian = hessian
        self.digest = _digest(A, b, cones, hessian)
        self._lock = threading.Lock()
        self._upper = _upper(hessian, A.shape[1])
        self._diagonal = self._upper.indptr[1:] - 1
        # equilibrated for a metric of 1, which each solve replaces
        self._metric = np.ones(A.shape[1])
        start = self._upper.copy()
        start.data[self._diagonal] += 1
        self._room = FEASIBLE * max(1.0, np.abs(self.constraint.b).max(initial=0.0))
        within = (self.constraint.A, self.constraint.b, cones)
        # presolve may drop rows, and then the solver's data cannot be changed
        self._solver = _clarabel(start, np.zeros(A.shape[1]), within, presolve_enable=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConicSolver) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def dimension(self) -> int:
        """The dimension of x."""
        return int(self.constraint.A.shape[1])

    def project(
        self, x: Float[HostArray, "D"], metric: Float[HostArray, "D"]
    ) -> Float[HostArray, "D"]:
        """Return argmin_{p in C} sum_k metric_k (p_k - x_k)^2 / 2; see `ConicSet.project_in`."""
        if not np.all((metric > 0) & np.isfinite(metric)):
            raise InputError("a weight of the metric is not above 0 and finite; give positive ones")
        # the metric may be scaled: this brings multipliers and slacks to a similar size
        metric = metric / max(metric.max(), np.abs(metric * x).max())
        return self._solved(metric * x, metric, TOLERANCE)

    def minimum(
        self, linear: Float[HostArray, "D"], metric: Float[HostArray, "D"]
    ) -> Float[HostArray, "D"]:
        """Return the minimiser to the solver's tolerance; see `AgentSets.step`."""
        if not np.all((metric >= 0) & np.isfinite(metric)):
            raise InputError("a weight of the metric is below 0 or not finite; correct it")
        return self._solved(linear, metric, FEASIBLE)

    def _solved(self, linear: HostArray, metric: HostArray, tol: float) -> HostArray:
        """Return a feasible minimiser; for tol below `FEASIBLE` one exact for data within tol."""
        if not np.all(np.isfinite(linear)):
            raise InputError("the point to be projected is not finite; look for a NaN before it")
        point, solved = self._interior_point(linear, metric)
        if tol == FEASIBLE and solved and self.constraint.outside(point[0]) <= self._room:
            return point[0]
        system = Optimality(self.constraint, self.hessian, metric, linear)
        point, residual = system.refine(point)
        if not residual <= tol:
            raise SolverError(
                f"a minimum over a conic set was found to a relative accuracy of {residual:.1g} "
                f"only, {tol:g} is needed; rescale the variables to a size near 1"
            )
        return point[0]

    def _interior_point(self, linear: HostArray, metric: HostArray) -> tuple[Pair, bool]:
        with self._lock:
            if not np.array_equal(metric, self._metric):
                data = self._upper.data.copy()
                data[self._diagonal] += metric
                self._solver.update(P=data)
                self._metric = metric
            self._solver.update(q=-linear)
            solution = self._solver.solve()
        if "PrimalInfeasible" in str(solution.status):
            raise InputError("the set is empty: no x has b - A x in the cones; relax a constraint")
        solved = solution.status == clarabel.SolverStatus.Solved
        return (np.array(solution.x), np.array(solution.z)), solved


@final
class Optimality:
    """The equations of a minimum in the point x and the multipliers z; H is 0 if it is None.

        H x + metric x - linear + A'z = 0,        s - P_K(s - z) = 0,        s = b - A x.

    By Moreau's decomposition the second says that s is in K, z in its dual cone and <s, z> = 0.
    """

    def __init__(
        self,
        constraint: Constraint,
        hessian: sp.csc_array | None,
        metric: Float[HostArray, "D"],
        linear: Float[HostArray, "D"],
    ) -> None:
        self.constraint, self.linear = constraint, linear
        curvature = sp.diags_array(metric)
        self.hessian = sp.csc_array(curvature if hessian is None else curvature + hessian)
        # errors of the gradient are divided by this: for a projection the metric
        self.weight = metric if hessian is None else np.ones_like(metric)
        largest = np.abs(linear / self.weight).max()
        self.unit = max(1.0, largest, np.abs(constraint.b).max(initial=0.0))

    def refine(self, point: Pair) -> tuple[Pair, float]:
        """Return the best pair of some Newton steps, and its relative residual.

        A step may increase the residual; once it is small enough, the first such step ends the
        search.
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
        slope = self.hessian @ x - self.linear + one.transposed @ z
        return slope, slack - one.cone.project(slack - z)

    def residual(self, point: Pair) -> float:
        """Return the relative change of the data for which x is exact (backward error).

        With e the second error, b - e is the bound and z - e the multiplier of an exact optimum
        (both cones are met and orthogonal), whose linear term differs by the slope there. Without
        H that is measured at linear / metric, the point that is projected.
        """
        error = self._errors(point)[1]
        x, z = point
        slope = self.hessian @ x - self.linear + self.constraint.transposed @ (z - error)
        moved = np.abs(slope / self.weight).max()
        return float(max(moved, np.abs(error).max(initial=0.0)) / self.unit)

    def _newton(self, point: Pair) -> Pair:
        (x, z), one = point, self.constraint
        derivative = one.cone.derivative(one.b - one.A @ x - z)
        size = x.size + z.size
        lowered = (derivative.data, derivative.indices + x.size, derivative.indptr)
        padded = sp.block_diag([self.hessian, sp.csc_array((z.size, z.size))], format="csc")
        matrix = padded + one.fixed + sp.csc_array(lowered, shape=(size, z.size)) @ one.moving
        with warnings.catch_warnings():
            # a singular matrix gives a step that is not finite, which `refine` rejects
            warnings.simplefilter("ignore", spl.MatrixRankWarning)
            step = spl.spsolve(matrix, -np.concatenate(self._errors(point)))
        return x + step[: x.size], z + step[x.size :]


def solve_rows(
    solvers: tuple[ConicSolver, ...],
    agents: Int[Array | HostArray, "*B"],
    given: Float[Array | HostArray, "*B D"],
    metric: Float[Array | HostArray, "*B D"],
    *,
    project: bool,
) -> Float[HostArray, "*B D"]:
    """Return the projections or minima of the rows of a batch, each over the set of its agent.

    Rows are padded with 0; `given` holds the points to project, or the linear terms.
    """
    agents, given, metric = np.asarray(agents), np.asarray(given), np.asarray(metric)
    result = np.zeros_like(given)
    for row in np.ndindex(agents.shape):
        if not 0 <= agents[row] < len(solvers):
            raise InputError(f"there is no agent {agents[row]}; there are {len(solvers)}")
        one = solvers[int(agents[row])]
        used = (*row, slice(one.dimension))
        solve = one.project if project else one.minimum
        result[used] = solve(given[used].astype(float), metric[used].astype(float))
    return result


def contains_rows(
    solver: ConicSolver, x: Float[Array | HostArray, "*B D"], tol: Float[Array | HostArray, "*B"]
) -> Bool[HostArray, "*B"]:
    """Return for each row of x whether it is in the set."""
    x, tol = np.asarray(x, float), np.asarray(tol)
    inside = [solver.constraint.outside(x[row]) <= tol[row] for row in np.ndindex(x.shape[:-1])]
    return np.array(inside).reshape(x.shape[:-1])


def _upper(hessian: sp.csc_array | None, size: int) -> sp.csc_array:
    """Return the upper triangle of H, with all diagonal entries stored."""
    columns = np.arange(size)
    if hessian is None:
        return sp.csc_array((np.zeros(size), (columns, columns)), shape=(size, size))
    upper_part = sp.coo_array(sp.triu(hessian))
    values = np.concatenate([upper_part.data, np.zeros(size)])
    places = [np.concatenate([part, columns]) for part in upper_part.coords]
    # duplicates are added up and zeros are kept, sorted by row within a column
    upper = sp.csc_array((values, (places[0], places[1])), shape=(size, size))
    upper.sort_indices()
    return upper


def _clarabel(
    upper: sp.csc_array,
    linear: HostArray,
    within: tuple[Any, HostArray, Sequence[Cone]],
    **options: Any,
) -> Any:
    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "second_order": clarabel.SecondOrderConeT,
    }
    settings = clarabel.DefaultSettings()
    for name, value in {"verbose": False, "max_threads": 1, **options}.items():
        setattr(settings, name, value)
    A, b, cones = within
    rules = [kinds[kind](size) for kind, size in cones]
    return clarabel.DefaultSolver(
        sp.csc_matrix(upper), linear, sp.csc_matrix(A), b, rules, settings
    )


def _digest(
    A: sp.csc_array, b: HostArray, cones: Sequence[Cone], hessian: sp.csc_array | None
) -> str:
    parts = [b]
    for matrix in (A, hessian):
        if matrix is not None:
            parts += [matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data]
    text = repr((A.shape, tuple(cones), hessian is None)).encode()
    return hashlib.sha256(text + b"".join(part.tobytes() for part in parts)).hexdigest()


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
    """Return argmin of sum_k h_k x_k^2 / 2 + linear'x with b - A x in K; None if infeasible.

    The objective is divided by its largest coefficient first, so that the accuracy does not depend
    on the currency: 1e-7, relative, or 1e-5 with residuals below 1e-6 if the solver stops earlier,
    or its reduced accuracy, 5e-5, if `rough`. Else, or without a lower bound, raises `SolverError`.

    `hessian` is the diagonal h, at least 0; `constraints` are A, b and K as in `ConicSet`.
    """
    unit = max(np.abs(hessian).max(initial=0.0), np.abs(linear).max(initial=0.0)) or 1.0
    A, b, cones = constraints
    weights = row_weights(A, cones)
    rows = (sp.csc_array(sp.diags_array(weights) @ A), weights * b, cones)
    upper = sp.csc_array(sp.triu(sp.diags_array(hessian / unit)))
    solution = _clarabel(upper, linear / unit, rows, **_SINGLE_SOLVE).solve()
    status = str(solution.status)
    if status in {"PrimalInfeasible", "AlmostPrimalInfeasible"}:
        return None
    if status != "Solved" and not (status == "AlmostSolved" and _accurate(solution, rough=rough)):
        raise SolverError(
            f"the cone solver stopped ({status}) before it found a minimum; check that limits and "
            "costs are of sensible size"
        )
    x, z = np.array(solution.x), np.array(solution.z)
    objective = float(hessian @ x**2 / 2 + linear @ x)
    return Minimum(x, objective, unit * weights * z)


def _accurate(solution: Any, *, rough: bool) -> bool:
    """Return whether an almost solved problem has an accuracy of five digits."""
    apart = abs(solution.obj_val - solution.obj_val_dual)
    near = apart <= 1e-5 * max(1.0, abs(solution.obj_val))
    return rough or bool(near and max(solution.r_prim, solution.r_dual) <= 1e-6)
