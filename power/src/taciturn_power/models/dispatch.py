"""The dispatch of an optimal power flow in either model, and the rows of its programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csc_array, csr_array, eye_array, vstack

from taciturn.errors import SolverError
from taciturn.typing import HostArray
from taciturn_power.conic import Cone, Minimum
from taciturn_power.grids.network import Network
from taciturn_power.models.cost import Costs


class Rows:
    """Equations and inequalities, each as rows of a matrix and their bounds."""

    def __init__(self) -> None:
        self._equal: list[tuple[csr_array, HostArray]] = []
        self._below: list[tuple[csr_array, HostArray]] = []

    def equal(self, matrix: Any, bound: HostArray | float) -> None:
        """Add matrix x = bound."""
        rows = csr_array(matrix)
        self._equal.append((rows, np.broadcast_to(bound, rows.shape[0])))

    def below(self, matrix: Any, bound: HostArray | float) -> None:
        """Add matrix x <= bound."""
        rows = csr_array(matrix)
        self._below.append((rows, np.broadcast_to(bound, rows.shape[0])))

    def assembled(self) -> tuple[csc_array, Float[HostArray, " N"], list[Cone]]:
        """Return A, b and K: equations, then inequalities, in the order of addition."""
        blocks, bounds = zip(*self._equal, *self._below, strict=True)
        equal, below = (sum(len(b) for _, b in part) for part in (self._equal, self._below))
        cones: list[Cone] = [("zero", equal), ("nonnegative", below)]
        return csc_array(vstack(blocks)), np.concatenate(bounds), [c for c in cones if c[1]]


def variables(*sizes: int) -> list[csr_array]:
    """Return the selection matrix of each block of variables, given the sizes of the blocks."""
    every, ends = csr_array(eye_array(sum(sizes))), np.cumsum((0, *sizes)).tolist()
    return [every[first:last] for first, last in pairwise(ends)]


_T = TypeVar("_T")
Model = Literal["dc", "soc"]
MODELS: tuple[Model, ...] = ("dc", "soc")


@dataclass(frozen=True, eq=False)
class Dispatch:
    """An optimal dispatch for the answered demands.

    - `model`: Of the network: "dc" (lossless, linear) or "soc" (the second-order-cone relaxation).
    - `generation`: `(G, 2)`: active and reactive power, MW and MVAr; the latter is 0 in DC.
    - `share`: `(G,)`: the share of any imbalance that each generator covers; they sum to 1. -
    `reserve`: `(G,)`: how far it may then move up or down, MW; 0 without chance constraints.
    - `voltage`, `angle`: `(N,)`: magnitude per unit and angle in radians, that of the first bus 0.
    - `flow`: `(L, 2)`: power into the line at its from and its to end: apparent, MVA, or in DC
      active and signed, MW.
    - `margin`: `(L,)`: the part of the limit reserved for the noise and for recourse, MW.
    - `price`: `(N,)`: marginal cost of demand at the bus, $/MWh.
    - `cost`: Cost of the active power, $/h.
    """

    model: Model
    generation: Float[HostArray, "G 2"]
    share: Float[HostArray, " G"]
    reserve: Float[HostArray, " G"]
    voltage: Float[HostArray, " N"]
    angle: Float[HostArray, " N"]
    flow: Float[HostArray, "L 2"]
    margin: Float[HostArray, " L"]
    price: Float[HostArray, " N"]
    cost: float

    def loading(self, limit: Float[HostArray, " L"]) -> Float[HostArray, " L"]:
        """Return |flow| over the limit (MVA) of every line; NaN without a limit."""
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.abs(self.flow).max(axis=1) / limit
        return np.where(np.isfinite(limit), used, np.nan)


@dataclass(frozen=True, eq=False)
class CostTerms:
    """The costs as a quadratic in generation p per unit and an epigraph variable t per generator.

    t_g is at least every piece of generator g. The Hessian and the linear term are of p, then of t;
    pieces (p, t) <= bound; the t of generators without pieces (`fixed`) is 0.
    """

    hessian: Float[HostArray, " K"]
    linear: Float[HostArray, " K"]
    pieces: csr_array
    bound: Float[HostArray, " R"]
    fixed: Int[HostArray, " F"]


def cost_terms(costs: Costs, base_mva: float) -> CostTerms:
    """Return the costs per unit of `base_mva`, without the constant."""
    generators, pieces = len(costs.linear), np.arange(len(costs.owner))
    t = (generators + costs.owner).astype(int)
    # t is in units of the steepest slope, so that its coefficient is comparable to that of p
    unit = np.abs(costs.slope).max(initial=0.0) * base_mva or 1.0
    values = np.concatenate([costs.slope * base_mva / unit, -np.ones(len(pieces))])
    places = (np.tile(pieces, 2), np.concatenate([costs.owner.astype(int), t]))
    return CostTerms(
        np.concatenate([2 * costs.quadratic * base_mva**2, np.zeros(generators)]),
        np.concatenate([costs.linear * base_mva, np.full(generators, unit)]),
        csr_array((values, places), shape=(len(pieces), 2 * generators)),
        -costs.intercept / unit,
        np.setdiff1d(np.arange(generators), costs.owner),
    )


def cost_rows(rows: Rows, terms: CostTerms, p: csr_array, t: csr_array) -> None:
    """Add the epigraph of the costs; p and t select generation and t from all variables."""
    rows.equal(t[terms.fixed], 0.0)
    generators, pieces = len(terms.hessian) // 2, terms.pieces.tocsc()
    rows.below(pieces[:, :generators] @ p + pieces[:, generators:] @ t, terms.bound)


def prices(minimum: Minimum, rows: slice, base_mva: float) -> Float[HostArray, " N"]:
    """Return the multipliers of balance rows a'x = -d: the optimum's derivatives by d, in $/MWh."""
    found: HostArray = minimum.multipliers[rows] / base_mva
    return found


def attempted(solve: Callable[[], _T | None]) -> _T | None:
    """Return a solver's result, or None if it fails, so that charged answers are not lost."""
    try:
        return solve()
    except SolverError:
        return None


# a limit is binding if less than this share of it is left
_BINDS = 1e-4


class Bound(NamedTuple):
    """A binding limit of a line: MVA of a rating, degrees of an angle."""

    kind: Literal["rating", "angle"]
    limit: float


def binding(dispatch: Dispatch, network: Network) -> list[str]:
    """Return the binding limits as text: generators (with their reserve), then lines."""
    low, high = network.generator_range[:, :2].T * network.base_mva
    power, reserve = dispatch.generation[:, 0], dispatch.reserve
    room = _BINDS * np.maximum(1.0, np.abs(power))
    bus = network.numbers[network.generator_bus]
    names = [
        f"generator at {bus[g]}: {side} {limit[g]:.4g} MW"
        for side, limit, near in (
            ("most", high, high - power - reserve <= room),
            ("least", low, power - reserve - low <= room),
        )
        for g in np.flatnonzero(near & (low < high))
    ]
    ends = network.numbers[network.ends]
    units = {"rating": " MVA", "angle": "° between its ends"}
    return names + [
        f"line {ends[line, 0]}–{ends[line, 1]}: {bound.limit:.4g}{units[bound.kind]}"
        for line, bound in enumerate(binding_lines(dispatch, network))
        if bound
    ]


def binding_lines(dispatch: Dispatch, network: Network) -> list[Bound | None]:
    """Return the binding limit of every line, if any.

    A rating is binding if the flow plus its margin reaches it, a limit on the angle difference if
    the difference plus its margin does; in DC a margin of m MW is m x tau / baseMVA radians.
    """
    limit = network.limit * network.base_mva
    left = limit - np.abs(dispatch.flow).max(axis=1) - dispatch.margin
    rated = np.isfinite(limit) & (left <= _BINDS * np.where(np.isfinite(limit), limit, 1))
    apart = np.diff(dispatch.angle[network.ends[:, ::-1]], axis=1)[:, 0]
    margin = np.abs(network.impedance.imag * network.tap) * dispatch.margin / network.base_mva
    low, high = network.angle.T
    most, least = high - apart - margin, apart - low - margin
    # infinite without a limit; relative to 1e-3 for a limit of 0
    at_most = most <= _BINDS * np.maximum(np.where(np.isfinite(high), np.abs(high), 0), 1e-3)
    at_least = least <= _BINDS * np.maximum(np.where(np.isfinite(low), np.abs(low), 0), 1e-3)
    angle = np.rad2deg(np.where(at_most, high, low))
    return [
        Bound("rating", float(limit[k]))
        if rated[k]
        else Bound("angle", float(angle[k]))
        if at_most[k] or at_least[k]
        else None
        for k in range(network.lines)
    ]
