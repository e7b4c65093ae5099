"""Sets given by linear and second-order-cone constraints: one for all agents, or one per agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from typing_extensions import override

from taciturn.errors import InputError
from taciturn.problems import ConvexSet
from taciturn.typing import Array, HostArray, Model, Scalar
from taciturn_power.conic.solver import Cone, ConicSolver, contains_rows, solve_rows


@final
class ConicSet(ConvexSet):
    """{x : b - A x in K}, K a product of zero cones, nonnegative orthants, second-order cones.

    The rows of A are in the order of `cones`, pairs of a kind and a number of rows: "zero" means
    A x = b, "nonnegative" A x <= b, and "second_order" |y|_2 <= t with (t, y) = b - A x. (The
    rotated cone |y|^2 <= 2 p q, p, q >= 0, is the second-order cone of (p + q, p - q, sqrt(2) y).)

    The solver is set up once: between projections only its linear term changes, and its diagonal
    with the metric. It runs on the host, even inside jit, vmap and scan, where it loops over a
    batch. All fields are static: sets of the same data are equal and share compiled programs.

    A is `(N, D)`, dense or of scipy.sparse; b is `(N,)`, finite; the cones' sizes add up to N.
    Raises `InputError` if the set is empty.

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
        _check_rows(matrix, bound)
        if not (np.all(np.isfinite(matrix.data)) and np.all(np.isfinite(bound))):
            raise InputError("A or b has an entry that is not finite; leave out unbounded rows")
        total = sum(size for _, size in self.cones)
        if total != bound.size:
            raise InputError(f"the cones have {total} rows and A has {bound.size}; they must agree")
        self.solver = ConicSolver(matrix, bound, self.cones)
        self.dimension, self.digest = self.solver.dimension, self.solver.digest
        # detects an empty set now rather than during a run
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
        return self.project_in(x, 1.0)

    def project_in(self, x: Model, metric: float | Model) -> Model:
        """Return argmin_{p in C} sum_k metric_k (p_k - x_k)^2 / 2, the metric above 0 and finite.

        Found by an interior-point method and refined by Newton's method. It is the exact projection
        of a point x' onto the set with a bound b' in place of b, where no coordinate of x' - x or
        b' - b exceeds 1e-9 max(1, |x|_inf, |b|_inf), with b divided as in `offset`. This is
        verified at the returned point, whatever status the solver reports. If it fails,
        `SolverError` is raised; inside a compiled program JAX wraps it in an error of another type.
        Other weights raise `InputError`.
        """
        self._check_size(x)
        weights = jnp.broadcast_to(jnp.asarray(metric, x.dtype), x.shape)
        host = partial(solve_rows, (self.solver,), project=True)
        flat = on_host(host, x.size, jnp.zeros((), jnp.int32), x.ravel(), weights.ravel())
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
        """Return whether b - A x, divided as `offset` is, is in K up to `tol`."""
        self._check_size(x)
        host = partial(contains_rows, self.solver)
        return _called(host, (), np.bool_, x.ravel(), jnp.asarray(tol, x.dtype))

    def _check_size(self, x: Array) -> None:
        if x.size != self.dimension:
            raise InputError(
                f"a point has {x.size} coordinates and the set {self.dimension}; they must agree"
            )


def polyhedron(*, A: Any = None, b: Any = None, E: Any = None, f: Any = None) -> ConicSet:
    """Return {x : A x <= b, E x = f}; one of the pairs may be left out.

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
    """Return `host(agent, x, metric)`, directly or by a callback of a compiled program."""
    if not any(isinstance(value, jax.core.Tracer) for value in (agent, x, metric)):
        # a direct call raises the original error
        return jnp.asarray(host(agent, x, metric))
    return _called(host, (size,), x.dtype, agent, x, metric)


def _called(host: Callable[..., Any], shape: tuple[int, ...], dtype: Any, *args: Array) -> Array:
    result = jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]
    return jnp.asarray(jax.pure_callback(host, result, *args, vmap_method="broadcast_all"))


def sparse(A: Any) -> sp.csc_array:
    """Return a dense or sparse matrix in compressed columns, duplicates added up."""
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


@final
class AgentSets(eqx.Module):
    """One conic set for each agent, on vectors padded to the largest of their dimensions.

    Every agent's solver is set up once. In a compiled program a batch over agents, seeds and
    settings is one call of the host. All fields are static, as those of `ConicSet`. Each set may
    have a Hessian, symmetric positive semi-definite, dense or of scipy.sparse.

    Examples
    --------
    >>> import jax
    >>> from taciturn_power.conic import polyhedron
    >>> line = polyhedron(E=[[1.0]], f=[2.0])
    >>> plane = polyhedron(E=[[1.0, 1.0]], f=[2.0])
    >>> sets = AgentSets([line, plane])
    >>> points = jnp.zeros((2, sets.dimension))
    >>> jax.jit(jax.vmap(sets.project))(jnp.arange(2), points, jnp.ones((2, 2))).round(9)
    Array([[2., 0.],
           [1., 1.]], dtype=float64)
    """

    sets: tuple[ConicSet, ...]
    has_hessians: bool = eqx.field(static=True)
    digests: tuple[str, ...] = eqx.field(static=True)
    solvers: tuple[ConicSolver, ...] = eqx.field(static=True, repr=False)

    def __init__(self, sets: Sequence[ConicSet], hessians: Sequence[Any] | None = None) -> None:
        self.sets, self.has_hessians = tuple(sets), hessians is not None
        if not self.sets:
            raise InputError("there are no sets; give one for each agent")
        self.solvers = tuple(one.solver for one in self.sets)
        if hessians is not None:
            matrices = [sparse(hessian) for hessian in hessians]
            if [one.shape for one in matrices] != [(one.dimension,) * 2 for one in self.sets]:
                raise InputError(
                    "the Hessians are not those of the sets; give a square one for each set"
                )
            self.solvers = tuple(
                ConicSolver(one.matrix, one.offset, one.cones, hessian)
                for one, hessian in zip(self.sets, matrices, strict=True)
            )
        self.digests = tuple(one.digest for one in self.solvers)

    @property
    def dimension(self) -> int:
        """D, the largest dimension of a set."""
        return max(one.dimension for one in self.sets)

    def project(
        self, agent: int | Int[Array, ""], x: Float[Array, "D"], metric: Float[Array, "D"]
    ) -> Float[Array, "D"]:
        """Return argmin_{p in C_agent} sum_k metric_k (p_k - x_k)^2 / 2, with 0 in the padding.

        Accuracy and errors are those of `ConicSet.project_in`. The padding of x and metric is
        ignored.
        """
        if self.has_hessians:
            raise InputError("these sets carry Hessians, so a step is no projection; use step")
        return self._called(agent, x, metric, project=True)

    def step(
        self, agent: int | Int[Array, ""], linear: Float[Array, "D"], metric: Float[Array, "D"]
    ) -> Float[Array, "D"]:
        """Return argmin over C_agent of x'(H + diag(metric))x / 2 - linear'x, 0 in the padding.

        H is the agent's Hessian, 0 if none was given; the metric is at least 0. The interior-point
        solution is returned if Clarabel reached its tolerances (1e-8) and b - A x, divided as in
        `ConicSet.offset`, violates K by at most 1e-7 max(1, |b|_inf). Otherwise Newton's method
        refines it, and the result is exact for data that differ by at most 1e-7 of their size, or
        `SolverError` is raised. Inside a compiled program JAX wraps it in an error of another type.
        """
        return self._called(agent, linear, metric, project=False)

    def _called(
        self, agent: int | Int[Array, ""], given: Array, metric: Array, *, project: bool
    ) -> Array:
        if given.shape != (self.dimension,):
            raise InputError(f"a point has shape {given.shape}; pad it to ({self.dimension},)")
        host = partial(solve_rows, self.solvers, project=project)
        weights = jnp.broadcast_to(jnp.asarray(metric, given.dtype), given.shape)
        return on_host(host, given.size, jnp.asarray(agent), given, weights)
