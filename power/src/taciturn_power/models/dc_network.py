"""The DC model of a network: lossless and linear, with voltages of 1 per unit.

Line l carries f_l = b_l (theta_from - theta_to - shift_l), b_l = 1 / (x_l tau_l), as in MATPOWER:
resistances and charging are left out, and shunt conductances are fixed demand. The rating of the
line and the limits of its angle difference, which in this model is a limit of the flow, make one
range of the flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import coo_array, csc_array, csr_array, diags_array
from scipy.sparse.linalg import splu

from taciturn.errors import DataError
from taciturn.typing import HostArray
from taciturn_power.grids.network import Network
from taciturn_power.models.cost import Costs


@dataclass(frozen=True, eq=False)
class DcModel:
    """A network in the DC model, per unit, with the costs of its generators. Public.

    Attributes
    ----------
    reactance
        `(L,)`: x tau.
    flows
        `(L, N)`: flows = flows theta - susceptance shift.
    incidence
        `(L, N)`: 1 at the from bus, -1 at the to bus.
    offset
        `(L,)`: susceptance times phase shift.
    low, high
        `(L,)`: limits of the flow; infinite if there is none.
    places
        `(N, G)`: C, 1 where the generator stands.
    """

    network: Network
    costs: Costs
    reactance: Float[HostArray, " L"]
    flows: csr_array
    incidence: csr_array
    offset: Float[HostArray, " L"]
    low: Float[HostArray, " L"]
    high: Float[HostArray, " L"]
    places: csr_array

    @property
    def limited(self) -> HostArray:
        """Which lines have a limit."""
        return np.flatnonzero(np.isfinite(self.low) | np.isfinite(self.high))


def dc_model(network: Network, costs: Costs) -> DcModel:
    """Return the DC model of a network; the demand is not read.

    Raises
    ------
    DataError
        If a line has no reactance, or no generator is in service.
    """
    if not len(network.generator_bus):
        raise DataError(
            f"{network.name}: no generator is in service, so there is nothing to dispatch; set the "
            "status of one (column 8 of mpc.gen) to 1"
        )
    reactance = network.impedance.imag * network.tap
    if np.any(reactance == 0):
        first = int(np.flatnonzero(reactance == 0)[0])
        raise DataError(
            f"{network.name}: row {first + 1} of the lines in service has x = 0, and the DC model "
            "divides by it; give it a small reactance, or take --model soc"
        )
    susceptance = 1 / reactance
    line, count = np.arange(network.lines), len(network.generator_bus)
    incidence = csr_array(
        (
            np.repeat([1.0, -1.0], network.lines),
            (np.tile(line, 2), network.ends.T.ravel()),
        ),
        shape=(network.lines, network.buses),
    )
    # a susceptance below 0, of a series capacitor, turns the two limits of the angle around
    across = susceptance[:, None] * (network.angle - network.shift[:, None])
    places = coo_array(
        (np.ones(count), (network.generator_bus, np.arange(count))), shape=(network.buses, count)
    )
    return DcModel(
        network,
        costs,
        reactance,
        csr_array(diags_array(susceptance) @ incidence),
        incidence,
        susceptance * network.shift,
        np.maximum(-network.limit, across.min(axis=1)),
        np.minimum(network.limit, across.max(axis=1)),
        csr_array(places),
    )


class State(NamedTuple):
    """Angles, that of the first bus 0, flows, and what power each bus then has too much of."""

    angle: Float[HostArray, " N"]
    flow: Float[HostArray, " L"]
    left: Float[HostArray, " N"]


def state_at(model: DcModel, injected: Float[HostArray, " N"], *, shifted: bool = True) -> State:
    """Return the state at these injections, per unit, which add up to 0.

    Without `shifted` the shifts of all phases are taken as 0, as in differences of two states.
    """
    offset = model.offset if shifted else np.zeros(model.network.lines)
    laplacian = csc_array(model.incidence.T @ model.flows)
    whole = injected + model.incidence.T @ offset
    angle = np.concatenate([[0.0], splu(csc_array(laplacian[1:, 1:])).solve(whole[1:])])
    flow = model.flows @ angle - offset
    return State(angle, flow, injected - model.incidence.T @ flow)
