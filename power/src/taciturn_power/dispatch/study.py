r"""Private optimal power flow: noised demands, and the dispatches for them.

The zones' demands d enter only as answers y = d + n (`plan_demand`). Every dispatch, price or flow
is a function of y and of the public network, so it is post-processing.

**Guarantee of service.** A single time is one step. Let y_t be the answers of step t, s_t the
demands of its dispatch (y_t, or these smoothed), d_t the true ones and n_t = y_t - d_t the noise,
of size sigma_t. The events

    |1'n_t| <= z |sigma_t|   and   |(X n_t)_l| <= z s_tl   for every limited line l, at every step

all hold at once with probability at least (2 Phi(z) - 1)^(T (1 + L)) (Sidak 1967; see
`taciturn_power.models.dc`), and z is set so that this is 1 - eta. On these events, and likewise for
X,

    |1'(s_t - d_t)| <= |1'(s_t - y_t)| + z |sigma_t|, where the first term is known.

The limits are tightened by the right-hand sides. So for every true day, fixed before the noise is
drawn, the probability over the noise that *any* step has a dispatch marked as promised that does
not serve its demand is at most eta. The tightening is for the noise of the answers: the error of
smoothed demands may be smaller, but has an unknown bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float
from pydantic import model_validator
from typing_extensions import override

from taciturn import checks
from taciturn.documents import Document, Extended
from taciturn.engine import ChargedTo, Plan, Run, run
from taciturn.errors import DataError, InputError
from taciturn.typing import HostArray
from taciturn_power.dispatch import asking
from taciturn_power.dispatch.series import Series, smoothed
from taciturn_power.grids.network import Network, NetworkFacts, as_tuples
from taciturn_power.grids.relaxation import relax
from taciturn_power.grids.zones import Zones, check_zones, zones_of
from taciturn_power.models import dc
from taciturn_power.models.cost import CostFacts, Costs
from taciturn_power.models.dc import restored, solve_dc, widest
from taciturn_power.models.dispatch import Dispatch, Model, attempted
from taciturn_power.models.soc import SocOptimum, solve_soc
from taciturn_power.state.study import central_limits

P = TypeVar("P", bound="OpfProposal")


class OpfProposal(Document):
    """Everything public about a private optimal power flow.

    - `zones`: Of every bus, counted from 0.
    - `hide`: What may move by beta at once: one demand, the pair (P, Q) of a bus, or a whole zone.
    - `eta`: Of all runs, at most this share return a dispatch with a promise that fails to serve
      the true demand; None for a dispatch without chance constraints.
    - `beta`: The largest change of a demand that the run hides, per unit.
    """

    FORMAT: ClassVar[str] = "taciturn.opf"
    VERSION: ClassVar[int] = 1

    network: NetworkFacts
    costs: CostFacts
    zones: tuple[int, ...]
    hide: asking.Hidden
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
        if self.eta is None:
            return self
        if not checks.positive("eta", self.eta) <= 0.5:
            raise InputError(f"eta is {self.eta:g}; give a probability of at most 0.5, say 0.05")
        if self.model != "dc":
            raise InputError(
                "eta is given with the model soc, whose recourse is not affine; take --model dc, "
                "or leave --eta out"
            )
        return self

    @classmethod
    def of(cls: type[P], network: Network, costs: Costs, zones: Zones, **settings: Any) -> P:
        """Return the proposal for a network, whose demand is not read."""
        return cls(
            network=NetworkFacts.of(network),
            costs=CostFacts.of(costs),
            zones=as_tuples(zones.of_bus),
            **settings,
        )

    def partition(self) -> Zones:
        """Return the zones."""
        return zones_of(self.network.network, np.array(self.zones))

    def plan(self) -> Plan:
        """Return the plan of asking the zones for their demands."""
        return self._plan(None)

    def _plan(self, weights: Float[HostArray, " T"] | None) -> Plan:
        named = {name: getattr(self, name) for name in ("hide", "beta", "epsilon", "delta")}
        return asking.plan_demand(self.network.network, self.partition(), weights=weights, **named)


class DayProposal(OpfProposal):
    """Everything public about a day of private optimal power flow.

    - `first_hour`, `step_hours`: The start of the first step, and the length of each, in hours.
    - `weights`: The share of mu^2 of every step, up to a factor (`taciturn_power.dispatch.asking`).
    - `smooth`: Whether the dispatches are for smoothed answers.
    - `eta`: Of all days, at most this share has a step whose dispatch is marked as promised and
      fails to serve the true demand; None for dispatches without chance constraints.
    """

    FORMAT: ClassVar[str] = "taciturn.opf.day"

    first_hour: float
    step_hours: float
    weights: tuple[float, ...]
    smooth: bool

    @model_validator(mode="after")
    def _of_a_day(self) -> DayProposal:
        asking.check_steps(len(self.weights))
        checks.not_negative("first_hour", self.first_hour)
        checks.positive("step_hours", self.step_hours)
        return self

    @property
    def hours(self) -> Float[HostArray, " T"]:
        """The start of each step."""
        begins: HostArray = self.first_hour + self.step_hours * np.arange(len(self.weights))
        return begins

    @override
    def plan(self) -> Plan:
        return self._plan(np.array(self.weights))


class Step(NamedTuple):
    """The dispatch of one step.

    - `dispatch`: None if there is none, or the solver missed its accuracy.
    - `kept`: The multiplier of the noise that limits were tightened by: less than needed where the
      demands admit no dispatch with more, and then nothing is promised.
    - `served`: The active demand of the dispatch, per unit: the planned one or, if that is
      infeasible, the nearest feasible one (`taciturn_power.models.dc.restored`).
    - `moved`: The total difference of `served` and the planned demand, per unit.
    - `soc`: The optimum of the cone relaxation where that is the model.
    """

    dispatch: Dispatch | None
    kept: float
    served: Float[HostArray, " N"]
    moved: float
    soc: SocOptimum | None = None


@dataclass(frozen=True, eq=False)
class OpfStudy:
    """A finished private optimal power flow: of one time, which is one step, or of a day.

    - `answers`, `noise`: The noised active and reactive demands, and the noise's standard deviation
      (public), per unit.
    - `planned`: The demands to dispatch for: the answers, or these smoothed.
    - `needed`: The multiplier of the noise for 1 - eta at every step; 0 without eta.
    - `model`: None where the network is relaxed (SOC).
    """

    proposal: OpfProposal
    run: Run
    answers: Float[HostArray, "T N 2"]
    noise: Float[HostArray, "T N"]
    planned: Float[HostArray, "T N 2"]
    needed: float
    steps: tuple[Step, ...]
    model: dc.DcModel | None

    @cached_property
    def network(self) -> Network:
        """The network, with zero demand."""
        return self.proposal.network.network

    @property
    def promised(self) -> tuple[bool, ...]:
        """Whether the dispatch of a step is for its planned demand, tightened as eta needs.

        Of all runs, at most eta have a marked step that fails to serve its true demand. Among the
        marked ones alone the share can be larger.
        """
        return tuple(
            self.proposal.eta is not None
            and step.dispatch is not None
            and step.kept >= self.needed
            and not step.moved > 0
            for step in self.steps
        )

    @cached_property
    def plain(self) -> Dispatch | None:
        """The dispatch of the first step without chance constraints; None if there is none."""
        model = self.model
        if model is None:
            return self.steps[0].dispatch
        return attempted(lambda: solve_dc(model, self.planned[0, :, 0]))

    @cached_property
    def soc(self) -> SocOptimum | None:
        """The optimum of the cone relaxation at the answers of the first step, if there is one."""
        if self.model is None:
            return self.steps[0].soc
        costs = self.model.costs
        return attempted(lambda: solve_soc(relax(self.network), costs, self.answers[0]))


def solve_opf(
    network: Network,
    proposal: OpfProposal,
    series: Series | None = None,
    *,
    seed: int | None,
    account: ChargedTo | None = None,
) -> OpfStudy:
    """Ask the zones for their demands, once a step, and solve the power flow at the answers.

    Raises `InputError` as `check_opf`, or if the account cannot hold the run, before any question.

    **Guarantee.** Demands, of the series or else of `network`, are read in one place, as targets
    behind the door (`ask_demand`); all else uses the proposal, which holds no demand, and the
    answers. So the result is post-processing of the answers (`plan_demand`).
    """
    check_opf(network, proposal, series)
    demand = network.demand[None] if series is None else series.demand
    return solve_at_answers(
        proposal, *ask_demand(network, proposal, demand, seed=seed, account=account)
    )


# hours by which the start of a step may differ from that of the proposal
_NEAR = 1e-5


def check_opf(network: Network, proposal: OpfProposal, series: Series | None = None) -> None:
    """Raise, before a charge, unless a proposal can be solved.

    Raises `InputError` if the network, or the steps, times or buses of the series, are not those of
    the proposal; `DataError` as `check_solvable`.
    """
    if isinstance(proposal, DayProposal) != (series is not None):
        raise InputError("a series is given for a day, and only then; give one, or leave it out")
    if isinstance(proposal, DayProposal) and series is not None:
        steps = len(proposal.weights)
        if len(series.hours) != steps or not np.allclose(
            series.hours, proposal.hours, rtol=0, atol=_NEAR
        ):
            raise InputError(
                f"the series has {len(series.hours)} steps and the proposal {steps}, or they begin "
                "at other times; give the series of the proposal, or propose again"
            )
        if series.demand.shape != (steps, network.buses, 2):
            raise InputError(
                f"demand has shape {series.demand.shape}; give demands of {steps} steps and "
                f"{network.buses} buses, active and reactive"
            )
    if NetworkFacts.of(network) != proposal.network:
        raise InputError(
            f"the proposal is for {proposal.network.name} with other lines or limits than those "
            "given; propose again"
        )
    check_solvable(proposal)


def check_solvable(proposal: OpfProposal) -> None:
    """Raise `DataError`, before a charge, if no demand can be served, or there is no model."""
    network = proposal.network.network
    if proposal.model == "soc":
        central_limits(relax(network))
        return
    model = dc.dc_model(network, proposal.costs.costs)
    try:
        dc.line_spread(model, np.ones(network.buses))
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


def ask_demand(
    network: Network,
    proposal: OpfProposal,
    demand: Float[HostArray, "T N 2"],
    *,
    seed: int | None,
    account: ChargedTo | None,
    release: Callable[[Run], None] | None = None,
) -> tuple[Run, Float[HostArray, "T N 2"]]:
    """Return the run of a proposal on these demands, and the answers, per unit.

    The proposal was checked by `check_opf`. `release` is called with the run before anything is
    computed from its answers.
    """
    plan = proposal.plan()
    zones = zones_of(network, np.array(proposal.zones))
    rows = plan.terms.adjacency.rows_per_person
    shards = asking.demand_shards(network, zones, demand, rows_per_person=rows)
    finished = run(plan, shards, runtime="simulate", seed=seed, account=account)
    if release is not None:
        release(finished)
    answers = np.asarray(finished.model).reshape(len(demand), 2, -1).transpose(0, 2, 1)
    return finished, answers


def solve_at_answers(
    proposal: OpfProposal, finished: Run, answers: Float[HostArray, "T N 2"]
) -> OpfStudy:
    """Return the study of these answers; no other private value is read."""
    network, costs = proposal.network.network, proposal.costs.costs
    noise = asking.noise_of(finished.plan, proposal.partition())
    smooth = isinstance(proposal, DayProposal) and proposal.smooth
    planned = smoothed(answers, noise) if smooth else answers
    model, needed = None, 0.0
    if proposal.model == "soc":
        relaxation, steps = relax(network), []
        for demand in planned:
            soc = attempted(lambda: solve_soc(relaxation, costs, demand))  # noqa: B023 - called here
            steps.append(Step(soc.dispatch if soc else None, 0.0, demand[:, 0], 0.0, soc))
    else:
        model = dc.dc_model(network, costs)
        if proposal.eta is not None and np.any(noise > 0):
            needed = needed_by_day(model, proposal.eta, len(noise))
        steps = dispatched(model, answers[:, :, 0], noise, planned[:, :, 0], needed)
    return OpfStudy(proposal, finished, answers, noise, planned, needed, tuple(steps), model)


def needed_by_day(model: dc.DcModel, eta: float, steps: int) -> float:
    """Return z with (2 Phi(z) - 1)^(T (1 + L)) = 1 - eta.

    It grows slowly with the steps: 3.64 for 1 and 4.68 for 96, for case118 and eta 0.05.
    """
    return dc.multiplier_of(eta, steps * (1 + len(model.limited)) - 1)


def dispatched(
    model: dc.DcModel,
    answers: Float[HostArray, "T N"],
    noise: Float[HostArray, "T N"],
    planned: Float[HostArray, "T N"],
    needed: float,
) -> list[Step]:
    """Return the steps' dispatches for the demands `planned`, tightened if `needed` is above 0.

    Demands are active, per unit; `planned` are the answers, or these smoothed. The noise's standard
    deviation is a factor of the bus times a factor of the step.
    """
    spread = dc.line_spread(model, noise[0]) if needed > 0 else np.zeros(model.network.lines)
    steps = []
    for answered, deviation, demand in zip(answers, noise, planned, strict=True):
        tight = None
        if needed > 0:
            size, margin = float(np.linalg.norm(deviation)), deviation[0] / noise[0, 0] * spread
            tight = _with_known_change(model, demand - answered, needed, size, needed * margin)
        steps.append(_step(model, demand, deviation, tight, needed))
    return steps


def _with_known_change(
    model: dc.DcModel, known: HostArray, needed: float, size: float, margin: HostArray
) -> dc.Tightening:
    """Return the tightening for the noise and for a known change of the demands by smoothing."""
    total = float(np.sum(known))
    flow = dc.state_at(model, total / len(known) - known, shifted=False).flow
    reserve = needed * size + abs(total)
    return dc.Tightening(needed + abs(total) / size, reserve, margin + np.abs(flow))


def _step(
    model: dc.DcModel,
    demand: HostArray,
    deviation: HostArray,
    tight: dc.Tightening | None,
    needed: float,
) -> Step:
    """Return the dispatch with the largest possible tightening, or for the nearest demands."""
    # in order: with full tightening, with the most that is feasible, with none, at nearby demands
    if tight is not None:
        found = attempted(lambda: solve_dc(model, demand, tight))
        if found is not None:
            return Step(found, needed, demand, 0.0)
        most = attempted(lambda: widest(model, demand, deviation)) or 0.0
        most = min(most, 0.99 * needed)  # `widest` leaves out the change by smoothing
        if most > 0:
            less = dc.tightening_by(model, deviation, most)
            found = attempted(lambda: solve_dc(model, demand, less))
            if found is not None:
                return Step(found, most, demand, 0.0)
    found = attempted(lambda: solve_dc(model, demand))
    if found is not None:
        return Step(found, 0.0, demand, 0.0)
    near = attempted(lambda: restored(model, demand))
    if near is None:
        return Step(None, 0.0, demand, 0.0)
    return Step(near[0], 0.0, near[1], float(np.sum(np.abs(near[1] - demand))))
