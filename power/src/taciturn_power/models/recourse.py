"""Room for the noise of answered demands, and what becomes of a dispatch when demand shows.

What it is for, and what it guarantees, is derived in `taciturn_power.models.dc`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu
from scipy.special import ndtri

from taciturn import checks
from taciturn.typing import HostArray
from taciturn_power.grids.network import Network
from taciturn_power.models.dc_network import DcModel, state_at
from taciturn_power.models.dispatch import Dispatch

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

    Attributes
    ----------
    generation
        `(G,)`: MW.
    imbalance
        xi, what the answers exceeded the demand by in total, MW.
    beyond
        The most by which a limit is exceeded, MW; below 0 if none is.
    cost
        $/h.
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
    multiplier = multiplier_of(eta, len(model.limited))
    return of_multiplier(model, sigma, multiplier)


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
