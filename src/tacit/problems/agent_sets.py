"""One conic set for each agent, in its own number of variables; with public Hessians if wanted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from tacit.errors import InputError
from tacit.problems.conic import ConicSet, on_host, sparse
from tacit.problems.conic_solver import ConicSolver, solve_rows
from tacit.typing import Array


@final
class AgentSets(eqx.Module):
    """One conic set for each agent, on vectors padded to the largest of their dimensions.

    Every agent's solver is set up once, here. In a compiled program a batch over agents, seeds and
    settings is one call of the host. All fields are static, as those of `ConicSet`.

    Parameters
    ----------
    sets
        The sets C_a.
    hessians
        None, or one matrix H_a for each, symmetric positive semi-definite, dense or of
        scipy.sparse.

    Raises
    ------
    InputError
        If there are no sets, or the Hessians do not fit them.

    Examples
    --------
    >>> import jax
    >>> from tacit.problems import polyhedron
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
            self.solvers = tuple(map(_with_hessian, self.sets, _fitting(self.sets, hessians)))
        self.digests = tuple(one.digest for one in self.solvers)

    @property
    def dimension(self) -> int:
        """D, the largest dimension of a set."""
        return max(one.dimension for one in self.sets)

    def project(
        self, agent: int | Int[Array, ""], x: Float[Array, "D"], metric: Float[Array, "D"]
    ) -> Float[Array, "D"]:
        """Return argmin_{p in C_agent} sum_k metric_k (p_k - x_k)^2 / 2, with 0 in the padding.

        Accuracy and errors are those of `ConicSet.project_in`. What x and the metric hold in the
        padding is not looked at.

        Raises
        ------
        InputError
            If the sets carry Hessians; use `step`.
        """
        if self.has_hessians:
            raise InputError("these sets carry Hessians, so a step is no projection; use step")
        return self._called(agent, x, metric, project=True)

    def step(
        self, agent: int | Int[Array, ""], linear: Float[Array, "D"], metric: Float[Array, "D"]
    ) -> Float[Array, "D"]:
        """Return argmin over C_agent of x'(H + diag(metric))x / 2 - linear'x, 0 in the padding.

        H is the agent's Hessian, 0 if none was given; the metric is at least 0. The interior
        point is returned if Clarabel reached its tolerances (1e-8) and b - A x, divided as in
        `ConicSet.offset`, breaks no rule of K by more than 1e-7 max(1, |b|_inf). Otherwise
        Newton's method refines it, and what is returned is exact for data that differ by no more
        than 1e-7 of their size.

        Raises
        ------
        InputError
            If a number is not finite or a weight of the metric below 0.
        SolverError
            If no point of that accuracy is found. Inside a compiled program JAX wraps both in an
            error of its own.
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


def _fitting(sets: tuple[ConicSet, ...], hessians: Sequence[Any]) -> list[Any]:
    """Return the Hessians as matrices of the sets' dimensions."""
    matrices = [sparse(hessian) for hessian in hessians]
    wanted = [(one.dimension, one.dimension) for one in sets]
    if [matrix.shape for matrix in matrices] != wanted:
        raise InputError("the Hessians are not those of the sets; give a square one for each set")
    return matrices


def _with_hessian(one: ConicSet, hessian: Any) -> ConicSolver:
    return ConicSolver(one.matrix, one.offset, one.cones, hessian)
