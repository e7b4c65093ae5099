"""Optimal power flow in the second-order-cone relaxation (Jabr 2006) of `relax`.

    min  sum_g c_g(p_g)
    s.t. a_i'x + d_i = 0 for the active and the reactive power of every bus: (D.2b), (D.2c);
         (D.2d) to (D.2l) of Ryu and Kim 2023: voltages, generation, flows, angles, cones.

Demand is met exactly. The relaxation replaces |V_i conj V_j|^2 = W_i W_j by an inequality, and
drops the condition that angles add up to 0 around every loop. Its cost is a lower bound of that of
the AC problem with the same limits, and equal to it if both conditions hold; `Exactness` measures
by how much they fail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array, csr_array, vstack
from scipy.sparse.linalg import lsqr

from taciturn.typing import HostArray
from taciturn_power.conic import Minimum, minimise_conic
from taciturn_power.grids.network import in_solver_units
from taciturn_power.grids.relaxation import Relaxation, relax
from taciturn_power.grids.zones import limit_rows
from taciturn_power.models.cost import Costs
from taciturn_power.models.dc import shares
from taciturn_power.models.dispatch import Dispatch, Rows, cost_rows, cost_terms, prices, variables


class Exactness(NamedTuple):
    """The distance of a solution of the relaxation from a state of the network.

    `cone` is the largest 1 - |V_i conj V_j|^2 / (W_i W_j) over all pairs of buses joined by a line;
    `angle` is the largest difference, in radians, between the angle of a pair and the angle
    difference of its buses.
    """

    cone: float
    angle: float

    @property
    def holds(self) -> bool:
        """Whether both are at most 1e-4, so that the cost is that of the AC problem."""
        return self.cone <= 1e-4 and self.angle <= 1e-4


class SocOptimum(NamedTuple):
    """A dispatch of the relaxation, its state x and its exactness.

    x is per unit of `taciturn_power.grids.network.SOLVER_MVA`, not of the file's base.
    """

    dispatch: Dispatch
    x: Float[HostArray, " n"]
    exactness: Exactness


def solve_soc(
    relaxation: Relaxation, costs: Costs, demand: Float[HostArray, "N 2"]
) -> SocOptimum | None:
    """Return the cheapest state for these demands (per unit); None if no state meets all limits."""
    network = in_solver_units(relaxation.network)
    if network is not relaxation.network:
        demand = relaxation.network.base_mva / network.base_mva * demand
        relaxation = relax(network)
    layout, generators = relaxation.layout, relaxation.layout.generators
    terms, rows = cost_terms(costs, relaxation.network.base_mva), Rows()
    # after x come the variables t of piecewise linear costs
    x, t = variables(layout.size, generators)
    active = layout.generation(0, np.arange(generators))
    rows.equal(relaxation.balance @ x, -demand.T.ravel())
    cost_rows(rows, terms, x[active], t)
    plain, bound, cones = rows.assembled()
    A, b, limits = limit_rows(relaxation, np.arange(layout.lines), np.arange(layout.size))
    costly = [*active, *range(layout.size, layout.size + generators)]
    hessian, linear = np.zeros((2, layout.size + generators))
    hessian[costly], linear[costly] = terms.hessian, terms.linear
    within = (csc_array(vstack([plain, A @ x])), np.concatenate([bound, b]), [*cones, *limits])
    found = minimise_conic(hessian, linear, within)
    return None if found is None else _optimum(relaxation, costs, found)


def _optimum(relaxation: Relaxation, costs: Costs, found: Minimum) -> SocOptimum:
    layout, network = relaxation.layout, relaxation.network
    base, x = network.base_mva, found.x[: layout.size]
    line, generator = np.arange(layout.lines), np.arange(layout.generators)
    generation = np.stack([x[layout.generation(kind, generator)] for kind in (0, 1)], axis=1) * base
    flow = [np.hypot(x[layout.flow(k, line)], x[layout.flow(k + 1, line)]) * base for k in (0, 2)]
    angle, exactness = _angles(relaxation, x)
    dispatch = Dispatch(
        model="soc",
        generation=generation,
        share=shares(network, np.zeros(layout.generators)),
        reserve=np.zeros(layout.generators),
        voltage=np.sqrt(np.maximum(x[: layout.buses], 0)),
        angle=angle,
        flow=np.stack(flow, axis=1),
        margin=np.zeros(layout.lines),
        price=prices(found, slice(0, layout.buses), base),
        cost=costs.of(generation[:, 0]),
    )
    return SocOptimum(dispatch, x, exactness)


def _angles(relaxation: Relaxation, x: HostArray) -> tuple[HostArray, Exactness]:
    """Return the angles of the buses by least squares from those of the pairs, and exactness."""
    layout, network = relaxation.layout, relaxation.network
    _, first = np.unique(relaxation.pair, return_index=True)
    ends = np.sort(network.ends[first], axis=1)
    pair = np.arange(layout.pairs)
    c, s, w = x[layout.cosine(pair)], x[layout.sine(pair)], x[: layout.buses]
    across = np.arctan2(s, c)
    rows = (np.repeat([1.0, -1.0], layout.pairs), (np.tile(pair, 2), ends.T.ravel()))
    incidence = csr_array(rows, shape=(layout.pairs, layout.buses))
    fitted = lsqr(incidence, across, atol=1e-12, btol=1e-12)[0]
    size = np.maximum(w[ends].prod(axis=1), np.finfo(float).tiny)
    slack = float(np.max(1 - (c**2 + s**2) / size))
    apart = float(np.max(np.abs(incidence @ fitted - across)))
    return fitted - fitted[0], Exactness(max(slack, 0.0), apart)
