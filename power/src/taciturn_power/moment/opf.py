"""Private optimal power flow: demands asked once, and everything that is computed from the answers.

The zones' demands d enter as answers y = d + n alone (`plan_demand`). Any dispatch, price or flow
below is a function of y and of the public network, so it is post-processing, whoever computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import model_validator

from taciturn import checks
from taciturn.engine import ChargedTo, Plan, Run, run
from taciturn.errors import DataError, InputError
from taciturn.proposal import Document, Extended, Part
from taciturn.typing import HostArray
from taciturn_power.balance.flow import central_limits
from taciturn_power.balance.proposal import NetworkFacts, as_tuples, check_zones
from taciturn_power.grids.network import Network
from taciturn_power.grids.relaxation import relax
from taciturn_power.grids.zones import Zones, zones_of
from taciturn_power.models.cost import Costs
from taciturn_power.models.dc import restored, solve_dc, widest
from taciturn_power.models.dc_network import DcModel, dc_model
from taciturn_power.models.dispatch import Dispatch, Model, attempted
from taciturn_power.models.recourse import Tightening, line_spread, of_multiplier, tightening
from taciturn_power.models.soc import SocOptimum, solve_soc
from taciturn_power.moment.asking import Hidden, demand_shards, noise_of, plan_demand


class CostFacts(Part):
    """`taciturn_power.Costs` as content."""

    quadratic: tuple[float, ...]
    linear: tuple[float, ...]
    constant: tuple[float, ...]
    owner: tuple[int, ...]
    slope: tuple[float, ...]
    intercept: tuple[float, ...]

    @classmethod
    def of(cls, costs: Costs) -> CostFacts:
        """Return the content of costs."""
        return cls(**{name: as_tuples(getattr(costs, name)) for name in cls.model_fields})

    @property
    def costs(self) -> Costs:
        """The costs, checked."""
        generators = len(self.linear)
        whole = (self.quadratic, self.linear, self.constant)
        pieces = (self.owner, self.slope, self.intercept)
        if any(len(set(map(len, parts))) != 1 for parts in (whole, pieces)):
            raise InputError(f"the costs do not fit {generators} generators; give one for each")
        if any(not 0 <= owner < generators for owner in self.owner):
            raise InputError(f"a piece of a cost is of no generator among the {generators}")
        if any(value < 0 for value in self.quadratic):
            raise InputError("a quadratic cost is below 0; give c2 of at least 0")
        values = {name: np.array(getattr(self, name), float) for name in type(self).model_fields}
        return Costs(**{**values, "owner": values["owner"].astype(int)})


class OpfProposal(Document):
    """Everything public about a private optimal power flow.

    Attributes
    ----------
    zones
        The zone of every bus, counted from 0.
    hide
        What may move by beta at once: one demand, the pair (P, Q) of a bus, or a whole zone.
    model
        Of the network: "dc" or "soc".
    eta
        Of all runs, at most this share return a dispatch with a promise that fails to serve the
        true demand; None for a dispatch without chance constraints.
    beta
        The largest change of a demand that the run hides, per unit.
    """

    FORMAT: ClassVar[str] = "taciturn.opf"
    VERSION: ClassVar[int] = 1

    network: NetworkFacts
    costs: CostFacts
    zones: tuple[int, ...]
    hide: Hidden
    model: Model
    eta: float | None
    beta: float
    epsilon: Extended
    delta: float

    @model_validator(mode="after")
    def _consistent(self) -> OpfProposal:
        network = self.network.network
        if len(self.costs.costs.linear) != len(network.generator_bus):
            raise InputError(
                f"the costs do not fit {len(network.generator_bus)} generators; give one for each"
            )
        check_zones(self.zones, network.buses)
        check_eta(self.eta, self.model)
        return self

    @classmethod
    def of(cls, network: Network, costs: Costs, zones: Zones, **settings: Any) -> OpfProposal:
        """Return the proposal for a network; the demand is not read."""
        return cls(
            network=NetworkFacts.of(network),
            costs=CostFacts.of(costs),
            zones=as_tuples(zones.of_bus),
            **settings,
        )

    @property
    def shares_of_steps(self) -> Float[HostArray, " T"] | None:
        """The weights of the steps of a day; None for a moment."""
        return None

    def plan(self) -> Plan:
        """Return the plan of asking the zones for their demands."""
        network = self.network.network
        return plan_demand(
            network,
            zones_of(network, np.array(self.zones)),
            hide=self.hide,
            beta=self.beta,
            epsilon=self.epsilon,
            delta=self.delta,
            weights=self.shares_of_steps,
        )


def check_eta(eta: float | None, model: Model) -> None:
    """Raise `InputError` unless eta is None, or a probability and the model is DC."""
    if eta is None:
        return
    if not checks.positive("eta", eta) <= 0.5:
        raise InputError(f"eta is {eta:g}; give a probability of at most 0.5, say 0.05")
    if model != "dc":
        raise InputError(
            "eta is given with the model soc, whose recourse is not affine; take --model dc, or "
            "leave --eta out"
        )


@dataclass(frozen=True, eq=False)
class OpfStudy:
    """A finished private optimal power flow.

    Attributes
    ----------
    answers
        `(N, 2)`: the noised active and reactive demands, per unit.
    noise
        `(N,)`: standard deviation of the noise on each demand of a bus, per unit. Public.
    needed, kept
        The multiplier of the noise that 1 - eta needs, and the one that limits were tightened by:
        less where the answers leave no dispatch with more, and then nothing is promised.
    served
        `(N,)`: the active demand that the dispatch is made for, per unit: the answers or, where
        they leave no dispatch, the nearest demands that do (`taciturn_power.models.dc.restored`).
    dispatch
        None if there is none, or the solver stopped short of its accuracy.
    plain
        The dispatch without chance constraints, to compare with.
    soc
        The optimum of the cone relaxation at the answers; None as for `dispatch`.
    """

    proposal: OpfProposal
    run: Run
    answers: Float[HostArray, "N 2"]
    noise: Float[HostArray, " N"]
    needed: float
    kept: float
    served: Float[HostArray, " N"]
    dispatch: Dispatch | None
    plain: Dispatch | None
    soc: SocOptimum | None
    model: DcModel | None

    @property
    def promised(self) -> bool:
        """Whether the dispatch keeps the room that eta needs, for the answers as they are.

        Of all runs, at most eta return a dispatch so marked that fails to serve the true demand.
        Of the marked ones alone it can be most.
        """
        return (
            self.dispatch is not None
            and self.proposal.eta is not None
            and self.kept >= self.needed
            and not self.restored
        )

    @property
    def restored(self) -> bool:
        """Whether the dispatch is made for other demands than those answered."""
        return not np.array_equal(self.served, self.answers[:, 0])

    @property
    def moved(self) -> float:
        """By how much the answers were moved to where there is a dispatch, MW in all."""
        moved = np.abs(self.served - self.answers[:, 0])
        return float(np.sum(moved)) * self.proposal.network.base_mva

    @property
    def tight(self) -> Tightening | None:
        """What the limits were tightened by."""
        if self.model is None or not self.kept > 0:
            return None
        return of_multiplier(self.model, self.noise, self.kept)


def solve_opf(
    network: Network,
    proposal: OpfProposal,
    *,
    seed: int | None,
    account: ChargedTo | None = None,
) -> OpfStudy:
    """Ask the zones for their demands, once, and solve the optimal power flow at the answers.

    Raises
    ------
    InputError
        If the network is another one than that of the proposal, the account cannot hold the run,
        or no demand at all could be served; then nothing was asked.

    Notes
    -----
    **Guarantee.** `network.demand` is read in one place, as the targets behind the door
    (`demand_shards`); the rest of this function has the proposal, which holds no demand, and the
    answers. So all that it returns is post-processing of the answers (`plan_demand`).
    """
    check_opf(network, proposal)
    demand = network.demand[None]
    finished, answers = ask_demand(network, proposal, demand, seed=seed, account=account)
    return solved_at(proposal, finished, answers[0])


def check_opf(network: Network, proposal: OpfProposal) -> None:
    """Raise, before anything is asked or charged, unless a proposal can be solved on a network.

    Raises
    ------
    InputError
        If the network is another one than that of the proposal.
    DataError, MissingPackageError
        As `check_solvable`.
    """
    if NetworkFacts.of(network) != proposal.network:
        raise InputError(
            f"the proposal is for {proposal.network.name} with other lines or limits than those "
            "given; propose again"
        )
    check_solvable(proposal)


def ask_demand(
    network: Network,
    proposal: OpfProposal,
    demand: Float[HostArray, "T N 2"],
    *,
    seed: int | None,
    account: ChargedTo | None,
    release: Callable[[Run], None] | None = None,
) -> tuple[Run, Float[HostArray, "T N 2"]]:
    """Return the run of a proposal's plan on these demands, and the answers, per unit.

    The proposal is one that `check_opf`, of a day `check_day`, accepts.

    `release` is called with the run before anything is computed from its answers.
    """
    zones = zones_of(network, np.array(proposal.zones))
    plan = proposal.plan()
    rows = plan.terms.adjacency.rows_per_person
    shards = demand_shards(network, zones, demand, rows_per_person=rows)
    finished = run(plan, shards, runtime="simulate", seed=seed, account=account)
    if release is not None:
        release(finished)
    answers = np.asarray(finished.model).reshape(len(demand), 2, -1).transpose(0, 2, 1)
    return finished, answers


def check_solvable(proposal: OpfProposal) -> None:
    """Raise, before anything is asked, if no demand at all could be served.

    Raises
    ------
    DataError
        If the public limits contradict one another, or the model cannot be set up.
    MissingPackageError
        If the cone solver is not installed.
    """
    network = proposal.network.network
    costs = proposal.costs.costs
    if proposal.model == "soc":
        central_limits(relax(network))
        return
    model = dc_model(network, costs)
    try:
        line_spread(model, np.ones(network.buses))
    except RuntimeError as error:
        raise DataError(
            f"{network.name}: reactances of both signs cancel, so flows do not follow from "
            "demands in DC; correct them, or take --model soc"
        ) from error
    if restored(model, np.zeros(network.buses)) is None:
        raise DataError(
            f"{network.name}: no dispatch meets all limits of the network, whatever the demand; "
            "loosen a generation, line or angle limit"
        )


def solved_at(proposal: OpfProposal, finished: Run, answers: Float[HostArray, "N 2"]) -> OpfStudy:
    """Return the study of these answers; it reads nothing else that is private."""
    network = proposal.network.network
    costs = proposal.costs.costs
    noise = noise_of(finished.plan, zones_of(network, np.array(proposal.zones)))[0]
    soc = attempted(lambda: solve_soc(relax(network), costs, answers))
    if proposal.model == "soc":
        dispatch = soc.dispatch if soc else None
        asked = (proposal, finished, answers, noise)
        return OpfStudy(*asked, 0.0, 0.0, answers[:, 0], dispatch, dispatch, soc, None)
    model, needed, kept, served = dc_model(network, costs), 0.0, 0.0, answers[:, 0]
    plain = dispatch = attempted(lambda: solve_dc(model, served))
    if proposal.eta is not None and np.any(noise > 0):
        needed = tightening(model, noise, proposal.eta).multiplier
        kept, dispatch = attempted(lambda: _tightest(model, served, noise, needed)) or (0.0, plain)
    near = attempted(lambda: restored(model, answers[:, 0])) if dispatch is None else None
    if near is not None:
        dispatch, served = near
    return OpfStudy(
        proposal, finished, answers, noise, needed, kept, served, dispatch, plain, soc, model
    )


def _tightest(
    model: DcModel, demand: HostArray, noise: HostArray, needed: float
) -> tuple[float, Dispatch | None]:
    """Return the dispatch tightened as needed or, if there is none, as far as the answers allow."""
    found = solve_dc(model, demand, of_multiplier(model, noise, needed))
    if found is not None:
        return needed, found
    most = widest(model, demand, noise)
    if not most:  # no room at all, as where a limit leaves a single flow, is no lack of a dispatch
        return 0.0, solve_dc(model, demand)
    return most, solve_dc(model, demand, of_multiplier(model, noise, most))
