"""Sets given by linear and second-order-cone constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float
from typing_extensions import override

from tacit.errors import InputError
from tacit.problems.cones import Cone
from tacit.problems.conic_solver import ConicSolver, contains_rows, solve_rows
from tacit.problems.sets import ConvexSet
from tacit.typing import Array, HostArray, Model, Scalar


@final
class ConicSet(ConvexSet):
    """{x : b - A x in K}, K a product of zero cones, nonnegative orthants, second-order cones.

    The rows of A are read in the order of `cones`, pairs of a kind and a number of rows: "zero"
    makes them equations A x = b, "nonnegative" inequalities A x <= b, and "second_order" says
    |y|_2 <= t of the vector (t, y) = b - A x. The rotated cone |y|^2 <= 2 p q, p and q >= 0, is
    the second-order cone of (p + q, p - q, sqrt(2) y).

    The solver is set up once, here; between projections only its linear term changes, and its
    diagonal where the metric does. It runs on the host, also inside jit, vmap and scan, where a
    batch is a loop. All fields are static: sets of the same data are equal and share compiled
    programs.

    Parameters
    ----------
    A
        Matrix `(N, D)`, dense or of scipy.sparse.
    b
        Vector `(N,)`, finite.
    cones
        K; the sizes add up to N.

    Raises
    ------
    InputError
        If the shapes or sizes do not fit, a number is not finite, or the set is empty.

    Examples
    --------
    >>> cone = ConicSet(-np.eye(2), np.zeros(2), cones=[("second_order", 2)])
    >>> cone.project(jnp.array([0.0, 2.0])).round(9)
    Array([1., 1.], dtype=float64)
    """

    dimension: int = eqx.field(static=True)
    cones: tuple[Cone, ...] = eqx.field(static=True)
    digest: str = eqx.field(static=True)
    solver: ConicSolver = eqx.field(static=True, repr=False)

    def __init__(self, A: Any, b: Any, *, cones: Sequence[Cone]) -> None:
        matrix, bound = sparse(A), np.array(b, dtype=float)
        self.cones = tuple((kind, int(size)) for kind, size in cones)
        _check_shapes(matrix, bound, self.cones)
        self.solver = ConicSolver(matrix, bound, self.cones)
        self.dimension, self.digest = self.solver.dimension, self.solver.digest
        # an empty set is found out here, not in the middle of a run
        self.solver.minimum(np.zeros(self.dimension), np.ones(self.dimension))

    @property
    def matrix(self) -> sp.csc_array:
        """A, `(N, D)`, each cone's rows divided by the largest of their norms."""
        return self.solver.constraint.A

    @property
    def offset(self) -> Float[HostArray, "N"]:
        """b, `(N,)`, divided as A is."""
        return self.solver.constraint.b

    def minimum(self, hessian: Any, linear: Float[HostArray, "D"]) -> Float[HostArray, "D"]:
        """Return argmin_{x in C} x'H x / 2 - linear'x, H symmetric positive semi-definite.

        On the host, outside compiled programs; accuracy and errors are those of `AgentSets.step`.
        """
        solver = ConicSolver(self.matrix, self.offset, self.cones, sparse(hessian))
        return solver.minimum(np.asarray(linear, float), np.zeros(self.dimension))

    @override
    def project(self, x: Model) -> Model:
        """Return argmin_{p in C} |p - x|_2; see `project_in`."""
        return self._project_in(x, jnp.ones_like(x))

    @override
    def _project_in(self, x: Model, metric: Model) -> Model:
        """Return the projection, found by an interior point and refined by Newton's method.

        It is the exact projection of a point x', onto the set with a bound b' in place of b,
        where no coordinate of x' - x or b' - b exceeds 1e-9 max(1, |x|_inf, |b|_inf), with b
        divided as in `offset`. This is computed from the returned point, whatever the solver said.
        If it fails, `SolverError` is raised; inside a compiled program JAX wraps it in an error of
        its own.
        """
        self._check_size(x)
        host = partial(solve_rows, (self.solver,), project=True)
        flat = on_host(host, x.size, jnp.zeros((), jnp.int32), x.ravel(), metric.ravel())
        return flat.reshape(x.shape)

    @override
    def prox_l1(self, v: Model, threshold: Scalar) -> Model:
        """Raise `InputError`: there is no such proximal map here."""
        raise InputError(
            "a conic set has no proximal map of the l1 norm; take another regulariser, or write "
            "|x|_1 as linear constraints"
        )

    @override
    def contains(self, x: Model, tol: float) -> Bool[Array, ""]:
        """Return whether b - A x, divided as `offset` is, breaks no rule of K beyond `tol`."""
        self._check_size(x)
        host = partial(contains_rows, self.solver)
        return _called(host, (), np.bool_, x.ravel(), jnp.asarray(tol, x.dtype))

    def _check_size(self, x: Array) -> None:
        if x.size != self.dimension:
            raise InputError(
                f"a point has {x.size} coordinates and the set {self.dimension}; they must agree"
            )


def polyhedron(*, A: Any = None, b: Any = None, E: Any = None, f: Any = None) -> ConicSet:
    """Return {x : A x <= b, E x = f}; either pair may be left out.

    Raises
    ------
    InputError
        As `ConicSet`, or if both pairs are left out.

    Examples
    --------
    >>> halfspace = polyhedron(A=[[1.0, 1.0]], b=[1.0])
    >>> halfspace.project(jnp.array([2.0, 3.0])).round(9) + 0.0
    Array([0., 1.], dtype=float64)
    """
    pairs = [("nonnegative", A, b), ("zero", E, f)]
    given = [(kind, sparse(M), np.array(c, float)) for kind, M, c in pairs if M is not None]
    if not given:
        raise InputError("a polyhedron without constraints was asked for; use WholeSpace")
    for _, matrix, bound in given:
        _check_rows(matrix, bound)
    if len({matrix.shape[1] for _, matrix, _ in given}) > 1:
        raise InputError(f"A has {given[0][1].shape[1]} columns and E {given[1][1].shape[1]}")
    cones: list[Any] = [(kind, bound.size) for kind, _, bound in given if bound.size]
    stacked = sp.vstack([matrix for _, matrix, _ in given])
    return ConicSet(stacked, np.concatenate([bound for _, _, bound in given]), cones=cones)


def on_host(host: Callable[..., Any], size: int, agent: Array, x: Array, metric: Array) -> Array:
    """Return what `host` makes of its arguments, at once or from within a compiled program."""
    if not any(isinstance(value, jax.core.Tracer) for value in (agent, x, metric)):
        # called at once, an error reaches the caller as it was raised
        return jnp.asarray(host(agent, x, metric))
    return _called(host, (size,), x.dtype, agent, x, metric)


def _called(host: Callable[..., Any], shape: tuple[int, ...], dtype: Any, *args: Array) -> Array:
    result = jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]
    return jnp.asarray(jax.pure_callback(host, result, *args, vmap_method="broadcast_all"))


def sparse(A: Any) -> sp.csc_array:
    """Return a dense or sparse matrix in compressed columns, equal places added up."""
    dense_or_sparse: Any = A if sp.issparse(A) else np.atleast_2d(np.asarray(A, dtype=float))
    matrix: sp.csc_array = sp.csc_array(dense_or_sparse).astype(float)
    matrix.sum_duplicates()
    return matrix


def _check_rows(matrix: sp.csc_array, bound: Any) -> None:
    if bound.ndim != 1 or matrix.shape[0] != bound.size:
        raise InputError(
            f"a matrix has {matrix.shape[0]} rows and its right-hand side shape {bound.shape}; "
            "they must have equal numbers of rows"
        )


def _check_shapes(matrix: sp.csc_array, bound: Any, cones: tuple[Cone, ...]) -> None:
    _check_rows(matrix, bound)
    if not (np.all(np.isfinite(matrix.data)) and np.all(np.isfinite(bound))):
        raise InputError("A or b has an entry that is not finite; leave out unbounded rows")
    total = sum(size for _, size in cones)
    if total != bound.size:
        raise InputError(f"the cones have {total} rows and A has {bound.size}; they must agree")
