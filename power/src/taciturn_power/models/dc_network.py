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
from scipy.special import ndtri

from taciturn import checks
from taciturn.errors import DataError, SolverError
from taciturn.typing import HostArray
from taciturn_power.grids.network import Network
from taciturn_power.models.cost import Costs
from taciturn_power.models.dispatch import Dispatch


@dataclass(frozen=True, eq=False)
class DcModel:
    """A network in the DC model, per unit, with the costs of its generators. Public.

    - `reactance`, `incidence`: x tau; `(L, N)`: 1 at the from bus, -1 at the to bus.
    - `flows`, `offset`: The flows are flows theta - offset, the offset being susceptance times
      phase shift.
    - `low`, `high`: Limits of the flow; infinite if there is none.
    - `places`: `(N, G)`: C, 1 where the generator stands.
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

    Raises `DataError` if a line has no reactance, or no generator is in service.
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
        (np.repeat([1.0, -1.0], network.lines), (np.tile(line, 2), network.ends.T.ravel())),
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


# limits are kept to this
TOLERANCE_MW = 1e-3


def line_spread(model: DcModel, sigma: Float[HostArray, " N"]) -> Float[HostArray, " L"]:
    """Return s_l = (sum_i X_li^2 sigma_i^2)^(1/2) of every line, with the rows of X centred.

    X_l = b_l (e_from - e_to)'B^+ with the Laplacian B. Where B is joined by lines of positive and
    negative susceptance it need not be definite, but its rank is N - 1 wherever flows are defined.
    """
    laplacian = csc_array(model.incidence.T @ model.flows)
    inner = splu(csc_array(laplacian[1:, 1:])).solve(model.incidence.T.toarray()[1:])
    angles = np.vstack([np.zeros(model.network.lines), inner])
    centred = angles - angles.mean(axis=0)
    return np.asarray(
        1 / np.abs(model.reactance) * np.linalg.norm(sigma[:, None] * centred, axis=0)
    )


def realised(
    model: DcModel,
    dispatch: Dispatch,
    answered: Float[HostArray, " N"],
    demand: Float[HostArray, " N"],
) -> Realised:
    """Return what becomes of a dispatch when the true demand (per unit) shows; not private."""
    network = model.network
    imbalance = float(np.sum(answered - demand))
    power = dispatch.generation[:, 0] / network.base_mva - dispatch.share * imbalance
    flow = state_at(model, model.places @ power - demand - network.shunt[:, 0]).flow
    low, high = network.generator_range[:, :2].T
    beyond = [power - high, low - power, flow - model.high, model.low - flow]
    worst = float(np.max(np.concatenate(beyond)))
    base = network.base_mva
    return Realised(power * base, imbalance * base, worst * base, model.costs.of(power * base))


class Realised(NamedTuple):
    """A dispatch after its affine policy has met the true demand.

    Generation in MW; xi, what the answers exceeded the demand by in total, MW; the most by which a
    limit is exceeded, MW, below 0 if none is; the cost in $/h.
    """

    generation: Float[HostArray, " G"]
    imbalance: float
    beyond: float
    cost: float

    @property
    def served(self) -> bool:
        """Whether the demand is met within all limits, to 1 kW."""
        return self.beyond <= TOLERANCE_MW


class Tightening(NamedTuple):
    """What the limits are tightened by, per unit; all of it public.

    `reserve` is R = z |sigma|, and `margin` z s_l of every line.
    """

    multiplier: float
    reserve: float
    margin: Float[HostArray, " L"]


def multiplier_of(eta: float, limited_lines: int) -> float:
    """Return z with (2 Phi(z) - 1)^(1 + L) = 1 - eta.

    Examples
    --------
    >>> round(multiplier_of(0.05, 0), 4), round(multiplier_of(0.05, 186), 4)
    (1.96, 3.6385)
    """
    each = -np.expm1(np.log1p(-checks.below_one("eta", eta)) / (1 + limited_lines))
    return float(-ndtri(each / 2)) if eta > 0 else float("inf")


def tightening(model: DcModel, sigma: Float[HostArray, " N"], eta: float) -> Tightening:
    """Return the tightening for noise of standard deviation `sigma` at the buses, per unit."""
    return of_multiplier(model, sigma, multiplier_of(eta, len(model.limited)))


def of_multiplier(model: DcModel, sigma: Float[HostArray, " N"], multiplier: float) -> Tightening:
    """Return the tightening by this multiplier of the noise."""
    reserve = multiplier * float(np.linalg.norm(sigma))
    return Tightening(multiplier, reserve, multiplier * line_spread(model, sigma))


def shares(network: Network, reserve: Float[HostArray, " G"]) -> Float[HostArray, " G"]:
    """Return alpha: by reserve, or by the width of their ranges where no reserve is held."""
    weight = reserve
    if not np.sum(reserve) > 0:
        width = network.generator_range[:, 1] - network.generator_range[:, 0]
        finite = np.isfinite(width)
        weight = np.where(finite, width, np.max(width, initial=1.0, where=finite))
    total = float(np.sum(weight))
    return weight / total if total > 0 else np.full(len(weight), 1 / len(weight))


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

    An interior point is accurate relative to the numbers that it was given, and a promise is about
    MW. So every inequality that the promise rests on is checked here, with flows that follow from
    generation and demand alone (`taciturn_power.models.dc`).

    Raises `SolverError` if a generator with its reserve, a line with its margin, or the balance of
    a bus is off by more than 1 kW: |p_g -+ alpha_g R| and |f_l -+ |phi_l| -+ z s_l| against their
    limits.
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
