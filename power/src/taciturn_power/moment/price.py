"""What privacy costs an optimal power flow, in parts that add up, and what a dispatch becomes."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float

from taciturn.typing import HostArray
from taciturn_power.grids.relaxation import relax
from taciturn_power.models.dc import solve_dc
from taciturn_power.models.recourse import Realised, realised
from taciturn_power.models.soc import solve_soc
from taciturn_power.moment.opf import OpfStudy


class Price(NamedTuple):
    """What privacy costs, in $/h; a part is None where it cannot or may not be told.

    total = noise + tightening + recourse, wherever all three are told. The first, the third and
    the total read the true demand.

    Attributes
    ----------
    noise
        What the dispatch without chance constraints costs once the true demand shows, less the
        optimum at the true demand. Below 0 only where that dispatch breaks a limit.
    tightening
        What the chance constraints add, at the answers.
    relaxation
        What the DC model leaves out (losses, reactive power, voltages), at least: the optimum of
        the cone relaxation at the answers less that of DC. No part of the total.
    recourse
        What the dispatch with chance constraints costs more (or less, below 0) when it is moved
        from the answers to the true demand, than the one without them does: it moves other
        generators.
    total
        What the dispatch costs once the true demand shows, less the optimum. Below 0 only where it
        breaks a limit, or was made for other demands than those answered.
    """

    noise: float | None
    tightening: float | None
    relaxation: float | None
    recourse: float | None = None
    total: float | None = None


def price_of_privacy(study: OpfStudy, demand: Float[HostArray, "N 2"] | None = None) -> Price:
    """Return the parts of the price.

    Parameters
    ----------
    demand
        The true demand, per unit, where it may be read; then all parts are told.
    """
    if study.model is None:
        return Price(None, None, None)
    plain = None if study.plain is None else study.plain.cost
    tightened = None if study.dispatch is None else study.dispatch.cost
    relaxed = None if study.soc is None else study.soc.dispatch.cost
    room, relaxation = _less(tightened, plain), _less(relaxed, plain)
    if demand is None:
        return Price(None, room, relaxation)
    best, after = optimum(study, demand), met(study, demand)
    total = None if after is None else _less(after.cost, best)
    if study.plain is None:
        return Price(None, room, relaxation, None, total)
    shown = realised(study.model, study.plain, study.answers[:, 0], demand[:, 0])
    way = _less(None if after is None else after.cost, tightened)
    recourse = _less(way, shown.cost - study.plain.cost)
    return Price(_less(shown.cost, best), room, relaxation, recourse, total)


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def optimum(study: OpfStudy, demand: Float[HostArray, "N 2"]) -> float | None:
    """Return the optimal cost at this demand (per unit) without chance constraints; not private."""
    if study.model is not None:
        found = solve_dc(study.model, demand[:, 0])
        return None if found is None else found.cost
    network = study.proposal.network.network
    costs = study.proposal.costs.costs
    exact = solve_soc(relax(network), costs, demand)
    return None if exact is None else exact.dispatch.cost


def met(study: OpfStudy, demand: Float[HostArray, "N 2"]) -> Realised | None:
    """Return what becomes of the dispatch at this demand, in DC; not private."""
    if study.model is None or study.dispatch is None:
        return None
    return realised(study.model, study.dispatch, study.served, demand[:, 0])
