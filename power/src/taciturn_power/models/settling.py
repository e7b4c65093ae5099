"""The state of a network at a dispatch, solved for anew, and whether it keeps every limit.

An interior point is accurate relative to the numbers that it was given, and a promise is about
MW. So no dispatch is returned unless the inequalities that the promise rests on hold for it, with
flows that follow from generation and demand alone (`taciturn_power.models.dc`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.errors import SolverError
from taciturn.typing import HostArray
from taciturn_power.models.dc_network import DcModel, state_at
from taciturn_power.models.recourse import TOLERANCE_MW, Tightening


class Settled(NamedTuple):
    """Generation that meets demand exactly, and what follows from it; per unit.

    `moved` are the flows phi that the whole reserve causes; 0 without chance constraints.
    """

    power: Float[HostArray, " G"]
    angle: Float[HostArray, " N"]
    flow: Float[HostArray, " L"]
    moved: Float[HostArray, " L"]


def settled(
    model: DcModel,
    power: Float[HostArray, " G"],
    share: Float[HostArray, " G"],
    demand: Float[HostArray, " N"],
    tight: Tightening | None,
) -> Settled:
    """Return the state at this generation, what it misses of the demand added by `share`.

    Raises
    ------
    SolverError
        If a generator with its reserve, a line with its margin, or the balance of a bus is off by
        more than 1 kW: |p_g -+ alpha_g R| and |f_l -+ |phi_l| -+ z s_l| against their limits.
    """
    network = model.network
    load = demand + network.shunt[:, 0]
    power = power + share * (np.sum(load) - np.sum(power))
    angle, flow, left = state_at(model, model.places @ power - load)
    reserve, margin, moved = np.zeros(len(power)), np.zeros(len(flow)), np.zeros(len(flow))
    if tight is not None:
        reserve = tight.reserve * share
        unshifted = model.places @ reserve - tight.reserve / network.buses
        moved = state_at(model, unshifted, shifted=False)[1]
        margin = tight.margin + np.abs(moved)
    low, high = network.generator_range[:, :2].T
    beyond = (
        power + reserve - high,
        low - power + reserve,
        flow + margin - model.high,
        model.low - flow + margin,
        np.abs(left),
    )
    worst = float(np.max(np.concatenate(beyond))) * network.base_mva
    if not worst <= TOLERANCE_MW:  # not a number either
        raise SolverError(
            f"{network.name}: the dispatch that the cone solver found is {worst:.3g} MW off a "
            "limit or a balance; check that reactances, limits and costs are of sensible size"
        )
    return Settled(power, angle, flow, moved)
