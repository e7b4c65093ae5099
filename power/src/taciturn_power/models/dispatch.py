"""What an optimal power flow returns, whichever model of the network it was solved in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from taciturn.errors import SolverError
from taciturn.typing import HostArray
from taciturn_power.conic import (
    Minimum,
)
from taciturn_power.models.cost import Costs
from taciturn_power.models.rows import Rows

_T = TypeVar("_T")
Model = Literal["dc", "soc"]
MODELS: tuple[Model, ...] = ("dc", "soc")


@dataclass(frozen=True, eq=False)
class Dispatch:
    """An optimal dispatch for the demands that were answered.

    Attributes
    ----------
    model
        Of the network: "dc" (lossless, linear) or "soc" (the second-order-cone relaxation).
    generation
        `(G, 2)`: active and reactive power, MW and MVAr; the latter is 0 in DC.
    share
        `(G,)`: the part of any imbalance that each generator takes over; the parts add up to 1.
    reserve
        `(G,)`: how far it may then be moved up or down, MW; 0 without chance constraints.
    voltage, angle
        `(N,)`: magnitude per unit and angle in radians, that of the first bus 0.
    flow
        `(L, 2)`: power into the line at its from and its to end, MVA of size; in DC signed, MW.
    margin
        `(L,)`: how much of the limit is kept for the noise and for moving the reserves, MW.
    price
        `(N,)`: what one more MW of demand at the bus would cost, $/MWh.
    cost
        $/h of the active power above.
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
        """Return |flow| over the limit (MVA) of every line; not a number where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.abs(self.flow).max(axis=1) / limit
        return np.where(np.isfinite(limit), used, np.nan)


@dataclass(frozen=True, eq=False)
class CostTerms:
    """The costs as a quadratic in generation per unit, with one more variable per generator.

    t_g is at least every piece of generator g, and is minimised: the epigraph of its cost.

    Attributes
    ----------
    hessian, linear
        `(2G,)`: of generation, then of t.
    pieces, bound
        pieces (p, t) <= bound.
    fixed
        The generators without pieces, whose t is held at 0.
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
    # t is in units of the steepest slope, so that its row is as long as that of p
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


def cost_rows(rows: Rows, terms: CostTerms, p: int, t: int) -> None:
    """Add the epigraph of the costs; p and t are the first columns of generation and of t."""
    generators, fixed = len(terms.hessian) // 2, len(terms.fixed)
    places = (np.arange(fixed), terms.fixed)
    held = csr_array((np.ones(fixed), places), shape=(fixed, generators))
    rows.equal(np.zeros(fixed), (held, t))
    pieces = terms.pieces.tocsc()
    rows.below(
        terms.bound,
        (csr_array(pieces[:, :generators]), p),
        (csr_array(pieces[:, generators:]), t),
    )


def prices(minimum: Minimum, rows: slice, base_mva: float) -> Float[HostArray, " N"]:
    """Return the multipliers of balance rows a'x = -d as $/MWh.

    The derivative of the optimum with respect to d is the multiplier itself (`Minimum`).
    """
    found: HostArray = minimum.multipliers[rows] / base_mva
    return found


def attempted(solve: Callable[[], _T | None]) -> _T | None:
    """Return what a solver finds, None where it fails: answers that are paid for are kept."""
    try:
        return solve()
    except SolverError:
        return None
