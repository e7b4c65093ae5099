"""Convex sets that differ from agent to agent, described by cones: projection in a diagonal metric.

The projection is found on the host by an interior-point method (Clarabel), behind
`jax.pure_callback`, so that compiled programs can use it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import clarabel
import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csc_array, csc_matrix, diags_array, triu

from tacit.errors import InputError, TacitError
from tacit.typing import Array, HostArray

_TOL = 1e-9  # of feasibility and duality gap
_WORST_TOL = 1e-6  # where rounding stops the solver before _TOL


@dataclass(frozen=True, eq=False)
class ConeProgram:
    """The set {x : offset - matrix x in K}, K a product of cones in this order.

    Attributes
    ----------
    matrix
        `(m, n)`, sparse.
    offset
        `(m,)`.
    zero, nonnegative
        How many leading rows must be 0, and how many after them at least 0.
    second_order
        The dimensions of the second-order cones (t, u), |u|_2 <= t, that own the other rows.
    """

    matrix: csc_array
    offset: Float[HostArray, " m"]
    zero: int
    nonnegative: int
    second_order: tuple[int, ...]

    def __post_init__(self) -> None:
        rows = self.zero + self.nonnegative + sum(self.second_order)
        if self.matrix.shape[0] != rows or self.offset.shape != (rows,):
            raise InputError(
                f"the cones have {rows} rows, the matrix {self.matrix.shape[0]} and the offset "
                f"{self.offset.shape}; give all the same"
            )

    @property
    def dimension(self) -> int:
        """Number of variables, n."""
        return int(self.matrix.shape[1])

    def cones(self) -> list[Any]:
        """Return K as Clarabel names it."""
        return [
            clarabel.ZeroConeT(self.zero),
            clarabel.NonnegativeConeT(self.nonnegative),
            *(clarabel.SecondOrderConeT(size) for size in self.second_order),
        ]

    def __repr__(self) -> str:
        content = (self.matrix.data, self.matrix.indices, self.matrix.indptr, self.offset)
        head = f"{self.zero} {self.nonnegative} {self.second_order} ".encode()
        name = hashlib.sha256(head + b"".join(part.tobytes() for part in content)).hexdigest()
        return f"ConeProgram({self.dimension} variables, sha256 {name[:16]})"


def quadratic_minimum(
    program: ConeProgram, quadratic: csc_matrix, linear: Float[HostArray, " n"]
) -> Float[HostArray, " n"]:
    """Return argmin_x x'P x / 2 + q'x over the set; P symmetric positive semi-definite.

    Raises
    ------
    TacitError
        If the solver finds no optimum, for example because the set is empty.
    """
    return _minimum(program, csc_matrix(triu(quadratic)), linear)


class _Stepper:
    """One agent's set and Hessian, ready for the solver."""

    def __init__(self, program: ConeProgram, hessian: csc_array | None) -> None:
        n = program.dimension
        self.program, self.hessian = program, hessian
        self._added = csc_array((n, n)) if hessian is None else triu(hessian)

    def __call__(self, linear: HostArray, metric: HostArray) -> HostArray:
        n = self.program.dimension
        if not (np.all(np.isfinite(linear[:n])) and np.all(metric[:n] > 0)):
            raise TacitError("a point to project is not finite, or its metric is not positive")
        upper = csc_matrix(self._added + diags_array(np.asarray(metric[:n], np.float64)))
        found = _minimum(self.program, upper, -np.asarray(linear[:n], np.float64))
        return np.concatenate([found, np.zeros(len(linear) - n)]).astype(linear.dtype)

    def __repr__(self) -> str:
        return f"{self.program!r}{'' if self.hessian is None else ' with a Hessian'}"


class _Steppers(tuple[_Stepper, ...]):
    """One per agent; hashed by identity and named by what they minimise over."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class AgentCones(eqx.Module):
    """One set per agent, each in its own number of variables; vectors are padded at the end.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> half = ConeProgram(csc_array([[1.0, 1.0]]), np.array([1.0]), 0, 1, ())
    >>> sets = cones_of_agents([half])  # {x : x_1 + x_2 <= 1}
    >>> v, metric = jnp.array([1.0, 1.0, 7.0]), jnp.array([1.0, 3.0, 1.0])
    >>> sets.project(jnp.array(0), v, metric).round(6).tolist()
    [0.25, 0.75, 0.0]
    """

    steppers: _Steppers = eqx.field(static=True)

    @property
    def has_hessians(self) -> bool:
        """Whether quadratics were given beside the sets."""
        return any(stepper.hessian is not None for stepper in self.steppers)

    def project(
        self, agent: Int[Array, ""], v: Float[Array, " D"], metric: Float[Array, " D"]
    ) -> Float[Array, " D"]:
        """Return argmin over agent's set of sum_k metric_k (x_k - v_k)^2 / 2, padding set to 0.

        The metric must be positive.

        Raises
        ------
        InputError
            If the sets carry Hessians; use `step`.
        """
        if self.has_hessians:
            raise InputError("these sets carry Hessians, so a step is no projection; use step")
        return self.step(agent, metric * v, metric)

    def step(
        self, agent: Int[Array, ""], linear: Float[Array, " D"], metric: Float[Array, " D"]
    ) -> Float[Array, " D"]:
        """Return argmin over agent's set of x'(H + diag(metric))x / 2 - linear'x, padding set to 0.

        H is the agent's Hessian, 0 if none was given. Solved to a feasibility and duality gap of
        1e-9, or 1e-6 where rounding forbids more.

        Raises
        ------
        TacitError
            (from within the run) if a number is not finite, a metric is not positive, or the solver
            fails.
        """
        shape = jax.eval_shape(lambda x: x, linear)
        found: Array = jax.pure_callback(
            self._on_host, shape, agent, linear, metric, vmap_method="sequential"
        )
        return found

    def _on_host(self, agent: Any, linear: Any, metric: Any) -> HostArray:
        return self.steppers[int(agent)](np.asarray(linear), np.asarray(metric))


def cones_of_agents(
    programs: list[ConeProgram], hessians: list[csc_array] | None = None
) -> AgentCones:
    """Return the sets of all agents, with public Hessians if wanted."""
    beside = [None] * len(programs) if hessians is None else hessians
    pairs = zip(programs, beside, strict=True)
    return AgentCones(_Steppers(_Stepper(*pair) for pair in pairs))


def _minimum(program: ConeProgram, upper: csc_matrix, linear: HostArray) -> HostArray:
    """Return argmin x'P x / 2 + linear'x over the set, P given by its upper triangle."""
    # a fresh solver each time: one that is kept and updated fails on ill-conditioned sets
    for equilibrate in (True, False):
        solution = clarabel.DefaultSolver(
            upper, linear, csc_matrix(program.matrix), program.offset, program.cones(),
            _settings(equilibrate=equilibrate),
        ).solve()  # fmt: skip
        if solution.status in {clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved}:
            return np.array(solution.x)
    raise TacitError(
        f"the cone solver stopped with {solution.status}; the set may be empty: check the limits "
        "of the problem"
    )


def _settings(*, equilibrate: bool) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.equilibrate_enable = equilibrate
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOL
    for name in ("reduced_tol_gap_abs", "reduced_tol_gap_rel", "reduced_tol_feas"):
        setattr(settings, name, _WORST_TOL)
    return settings
