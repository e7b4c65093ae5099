"""A day of private optimal power flow: demands of every step asked once, a dispatch for each.

Zones' demands enter as answers alone (`plan_demand`), step by step. Smoothing, dispatches, costs
and files are functions of the answers and of what is public: post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from jaxtyping import Float
from pydantic import model_validator
from typing_extensions import override

from taciturn import checks
from taciturn.engine import ChargedTo, Run
from taciturn.errors import InputError
from taciturn.typing import HostArray
from taciturn_power.day.dispatching import Step, dispatched, needed_by_day
from taciturn_power.day.series import Series, smoothed
from taciturn_power.grids.network import Network
from taciturn_power.grids.relaxation import relax
from taciturn_power.grids.zones import Zones, zones_of
from taciturn_power.models.cost import Costs
from taciturn_power.models.dc_network import DcModel, dc_model
from taciturn_power.models.dispatch import attempted
from taciturn_power.models.soc import solve_soc
from taciturn_power.moment.asking import check_steps, noise_of, shares
from taciturn_power.moment.opf import OpfProposal, ask_demand, check_opf

# of a step, relative to the series: a proposal is for the times that it names
_NEAR = 1e-5


class DayProposal(OpfProposal):
    """Everything public about a day of private optimal power flow.

    Attributes
    ----------
    first_hour, step_hours
        When the first step begins, and how long each is, hours.
    weights
        The share of mu^2 that every step has, up to a factor (`taciturn_power.moment.asking`).
    smooth
        Whether the dispatches are made for the answers smoothed.
    eta
        Of all days, at most this share has a step whose dispatch is marked as promised and fails to
        serve the true demand; None for dispatches without chance constraints.
    """

    FORMAT: ClassVar[str] = "taciturn.opf.day"
    VERSION: ClassVar[int] = 1

    first_hour: float
    step_hours: float
    weights: tuple[float, ...]
    smooth: bool

    @model_validator(mode="after")
    def _of_a_day(self) -> DayProposal:
        check_steps(len(self.weights))
        checks.not_negative("first_hour", self.first_hour)
        checks.positive("step_hours", self.step_hours)
        return self

    @classmethod
    @override
    def of(cls, network: Network, costs: Costs, zones: Zones, **settings: Any) -> DayProposal:
        """Return the proposal for a network; the demand is not read."""
        return cast(DayProposal, super().of(network, costs, zones, **settings))

    @property
    def hours(self) -> Float[HostArray, " T"]:
        """When each step begins."""
        begins: HostArray = self.first_hour + self.step_hours * np.arange(len(self.weights))
        return begins

    @property
    @override
    def shares_of_steps(self) -> Float[HostArray, " T"]:
        """The weights."""
        return np.array(self.weights)


@dataclass(frozen=True, eq=False)
class DayStudy:
    """A finished day of private optimal power flow.

    Attributes
    ----------
    answers
        `(T, N, 2)`: the noised active and reactive demands, per unit.
    noise
        `(T, N)`: standard deviation of the noise on each demand, per unit. Public.
    planned
        `(T, N, 2)`: the demands that the dispatches are made for: the answers, or these smoothed.
    needed
        The multiplier of the noise that 1 - eta needs room for at every step; 0 without eta.
    steps
        The dispatch of every step.
    model
        None where the network is relaxed (SOC).
    """

    proposal: DayProposal
    run: Run
    answers: Float[HostArray, "T N 2"]
    noise: Float[HostArray, "T N"]
    planned: Float[HostArray, "T N 2"]
    needed: float
    steps: tuple[Step, ...]
    model: DcModel | None

    @property
    def promised(self) -> tuple[bool, ...]:
        """Whether the dispatch of a step keeps the room that eta needs, for its demands.

        Of all days, at most eta have a step so marked that fails to serve its true demand.
        """
        return tuple(
            self.needed > 0
            and step.dispatch is not None
            and step.kept >= self.needed
            and not step.moved > 0
            for step in self.steps
        )

    @property
    def shares(self) -> Float[HostArray, " T"]:
        """The share of the budget, mu^2, that every step had; by the ledger."""
        return shares(self.run.plan)

    @property
    def cost(self) -> float | None:
        """The cost of the day, $; None if a step has no dispatch."""
        costs = [None if step.dispatch is None else step.dispatch.cost for step in self.steps]
        known = [cost for cost in costs if cost is not None]
        return self.proposal.step_hours * sum(known) if len(known) == len(costs) else None


def solve_day(
    network: Network,
    proposal: DayProposal,
    series: Series,
    *,
    seed: int | None,
    account: ChargedTo | None = None,
) -> DayStudy:
    """Ask the zones for their demands at every step, once each, and dispatch every step.

    Parameters
    ----------
    network
        Its own demand, of a moment, is not used.

    Raises
    ------
    InputError
        If the network or the times of the series are others than those of the proposal, the account
        cannot hold the run, or no demand at all could be served; then nothing was asked.

    Notes
    -----
    **Guarantee.** `series.demand` is read in one place, as the targets behind the door
    (`ask_demand`); the rest has the proposal, which holds no demand, and the answers. So all
    that is returned is post-processing of the answers (`plan_demand`).
    """
    check_day(network, proposal, series)
    finished, answers = ask_demand(network, proposal, series.demand, seed=seed, account=account)
    return day_at(proposal, finished, answers)


def check_day(network: Network, proposal: DayProposal, series: Series) -> None:
    """Raise, before anything is asked or charged, unless a day can be solved as proposed.

    Raises
    ------
    InputError
        If the network, or the times of the series, are others than those of the proposal, or the
        demands are of other steps or buses.
    DataError, MissingPackageError
        As `taciturn_power.moment.opf.check_solvable`.
    """
    if len(series.hours) != len(proposal.weights) or not np.allclose(
        series.hours, proposal.hours, rtol=0, atol=_NEAR
    ):
        raise InputError(
            f"the series has {len(series.hours)} steps and the proposal {len(proposal.weights)}, "
            "or they begin at other times; give the series that it was made for, or propose again"
        )
    shape = (len(proposal.weights), network.buses, 2)
    if series.demand.shape != shape:
        raise InputError(
            f"demand has shape {series.demand.shape}; give demands of {shape[0]} steps and "
            f"{shape[1]} buses, active and reactive"
        )
    check_opf(network, proposal)


def day_at(proposal: DayProposal, finished: Run, answers: Float[HostArray, "T N 2"]) -> DayStudy:
    """Return the study of these answers; it reads nothing else that is private."""
    network = proposal.network.network
    noise = noise_of(finished.plan, zones_of(network, np.array(proposal.zones)))
    planned = smoothed(answers, noise) if proposal.smooth else answers
    if proposal.model == "soc":
        steps = _relaxed(proposal, network, planned)
        return DayStudy(proposal, finished, answers, noise, planned, 0.0, steps, None)
    model = dc_model(network, proposal.costs.costs)
    needed = 0.0
    if proposal.eta is not None and np.all(noise > 0):
        needed = needed_by_day(model, proposal.eta, len(answers))
    active = (answers[:, :, 0], noise, planned[:, :, 0])
    steps = tuple(dispatched(model, *active, needed))
    return DayStudy(proposal, finished, answers, noise, planned, needed, steps, model)


def _relaxed(
    proposal: DayProposal, network: Network, planned: Float[HostArray, "T N 2"]
) -> tuple[Step, ...]:
    """Return the steps' dispatches in the cone relaxation, without room for noise."""
    costs, relaxation = proposal.costs.costs, relax(network)
    steps = []
    for demand in planned:
        found = attempted(lambda: solve_soc(relaxation, costs, demand))  # noqa: B023 - called here
        steps.append(Step(None if found is None else found.dispatch, 0.0, demand[:, 0], 0.0))
    return tuple(steps)
