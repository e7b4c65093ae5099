"""The report of a private optimal power flow: plain values, rows of text and files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.errors import SolverError
from taciturn.report import spread
from taciturn.typing import HostArray
from taciturn_power.cases import Case
from taciturn_power.delivery import Report
from taciturn_power.dispatch.export import day_tables, exported, step_columns
from taciturn_power.dispatch.study import DayProposal, OpfStudy
from taciturn_power.grids.network import Network
from taciturn_power.grids.relaxation import relax
from taciturn_power.grids.zones import ties
from taciturn_power.models.dc import Realised, realised, solve_dc, widest
from taciturn_power.models.dispatch import Dispatch, binding
from taciturn_power.models.soc import solve_soc


class Price(NamedTuple):
    """The cost of privacy, in $/h; a part is None where it is not defined or not shown.

    total = noise + tightening + recourse. Noise, recourse and total depend on the true demand.

    - `noise`: Cost at the true demand of the dispatch without chance constraints, less the optimum.
      Negative only where that dispatch violates a limit.
    - `tightening`: The additional cost of chance constraints, at the answers.
    - `relaxation`: A lower bound on the cost that DC omits (losses, reactive power, voltages): the
      optimum of the cone relaxation at the answers less that of DC. Not part of the total. -
      `recourse`: The cost of moving from the answers to the true demand, with chance constraints
      less without, since different generators move. - `total`: Cost of the dispatch at the true
      demand, less the optimum. Negative only if it violates a limit, or is for demands other than
      the answers.
    """

    noise: float | None
    tightening: float | None
    relaxation: float | None
    recourse: float | None = None
    total: float | None = None


def price_of_privacy(study: OpfStudy, demand: Float[HostArray, "N 2"] | None = None) -> Price:
    """Return the parts of the price; those that depend on the true demand only if it is given."""
    if study.model is None:
        return Price(None, None, None)
    plain, soc, dispatch = study.plain, study.soc, study.steps[0].dispatch
    tightened = None if dispatch is None else dispatch.cost
    room = _difference(tightened, None if plain is None else plain.cost)
    relaxation = None if soc is None or plain is None else soc.dispatch.cost - plain.cost
    if demand is None:
        return Price(None, room, relaxation)
    best, after = optimum(study, demand), met(study, demand)
    total = None if after is None else _difference(after.cost, best)
    if plain is None:
        return Price(None, room, relaxation, None, total)
    shown = realised(study.model, plain, study.answers[0, :, 0], demand[:, 0])
    way = _difference(None if after is None else after.cost, tightened)
    recourse = _difference(way, shown.cost - plain.cost)
    return Price(_difference(shown.cost, best), room, relaxation, recourse, total)


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def optimum(study: OpfStudy, demand: Float[HostArray, "N 2"]) -> float | None:
    """Return the optimal cost at this demand (per unit) without chance constraints; not private."""
    if study.model is not None:
        found = solve_dc(study.model, demand[:, 0])
        return None if found is None else found.cost
    exact = solve_soc(relax(study.network), study.proposal.costs.costs, demand)
    return None if exact is None else exact.dispatch.cost


def met(study: OpfStudy, demand: Float[HostArray, "N 2"]) -> Realised | None:
    """Return the first dispatch after recourse to this demand, in DC; not private."""
    step = study.steps[0]
    if study.model is None or step.dispatch is None:
        return None
    return realised(study.model, step.dispatch, step.served, demand[:, 0])


# relative to the tightening that eta needs: below it the noise decides whether there is a promise
_NARROW = 2.0


def narrow(study: OpfStudy) -> bool:
    """Return whether the first answers admit less than twice the tightening that eta needs."""
    if study.model is None or not study.needed > 0:
        return False
    room = widest(study.model, study.steps[0].served, study.noise[0])
    return room is None or room < _NARROW * study.needed


def opf_warnings(study: OpfStudy) -> tuple[str, ...]:
    """Return the warnings about a result."""
    steps, promised, warnings = study.steps, sum(study.promised), []
    moved = [step.moved for step in steps if step.moved > 0]

    def among(count: int) -> str:
        return "" if len(steps) == 1 else f" in {count} of {len(steps)} steps"

    if study.needed > 0 and promised and (len(steps) > 1 or narrow(study)):
        warnings.append(
            "eta is a share of all runs: near the network's limits most of the dispatches that are "
            "marked as promised may fail; do not repeat runs until one is promised"
        )
    if missing := sum(step.dispatch is None for step in steps):
        warnings.append(
            f"in the model {study.proposal.model} no dispatch was found{among(missing)} that meets "
            "the answered demand within the limits; the answers are in the files (--out), and "
            "further computation on them costs no privacy"
        )
    if moved:
        warnings.append(
            f"the answered demands are infeasible{among(len(moved))}; the dispatch is for the "
            f"nearest feasible ones, {sum(moved) * study.network.base_mva:.3g} MW away in all"
        )
    if study.needed > 0 and promised < len(steps):
        fewer = ", fewer steps" if len(steps) > 1 else ""
        warnings.append(
            f"nothing is promised{among(len(steps) - promised)}: eta {study.proposal.eta:.3g} "
            f"needs room for {study.needed:.3g} standard deviations of the noise, and the answers "
            f"leave room for {min(step.kept for step in steps):.3g}; take less noise (a larger "
            f"epsilon, a smaller beta{fewer})"
        )
    if study.planned is not study.answers and np.all(study.noise > 0):
        warnings.append(
            "smoothed demands have an unknown bias; the promise rests on room for the noise of the "
            "answers before smoothing, and for their change by smoothing"
        )
    return tuple(warnings)


@dataclass(frozen=True, eq=False)
class OpfReport(Report):
    """The report of a dispatch at a single time.

    **Guarantee.** The true `demand`, per unit, is given only if figures of it may be shown: the
    case is published, there was no noise, or the owner requests them. Otherwise it is None, and so
    are `true` and, of `price`, `noise`, `recourse` and `total`. All other values are functions of
    the answers and of public facts.
    """

    HEAD: ClassVar[str] = (
        "Optimal power flow on {case} ({model}): {buses} buses, {lines} lines, {zones} zones, "
        "{ties} ties"
    )

    study: OpfStudy
    case: Case
    demand: Float[HostArray, "T N 2"] | None = None

    def common(self) -> dict[str, Any]:
        """Return the results that a single time and a day share."""
        proposal, network = self.study.proposal, self.study.network
        zones = proposal.partition()
        return {
            "case": network.name,
            "problem": "opf",
            "model": proposal.model,
            "buses": network.buses,
            "lines": network.lines,
            "zones": zones.count,
            "ties": len(ties(network, zones)),
            "hide": proposal.hide,
            "beta_mw": proposal.beta * network.base_mva,
            "eta": proposal.eta,
            "multiplier_needed": self.study.needed,
            "ignored": self.case.ignored,
        }

    @override
    def values(self) -> dict[str, Any]:
        study, base, (step,) = self.study, self.study.network.base_mva, self.study.steps
        demand, soc = None if self.demand is None else self.demand[0], study.soc
        relaxation = None
        if soc is not None:
            exact = {"exact": soc.exactness.holds, **soc.exactness._asdict()}
            relaxation = {"cost": soc.dispatch.cost, **exact}
        return {
            **self.common(),
            "noise_mw": float(np.max(study.noise)) * base,
            "answered_mw": float(np.sum(study.answers[0, :, 0])) * base,
            "promised": study.promised[0],
            "multiplier_kept": step.kept,
            "moved_mw": step.moved * base,
            **_dispatch_values(step.dispatch, study.network),
            "relaxation": relaxation,
            "price": price_of_privacy(study, demand)._asdict(),
            "true": None if demand is None else _true_figures(study, demand),
        }

    @override
    def files(self) -> Mapping[str, str]:
        return exported(self.study, self.case)

    @override
    def rows(self) -> list[tuple[str, str]]:
        values = self.results(None)
        study, price, true = self.study, values["price"], values["true"]
        hint = "" if true else ": the demand is private (--oracle-metrics shows it)"
        rows = [
            ("Noise on each demand", f"{values['noise_mw']:.3g} MW (standard deviation; public)"),
            ("Cost of the dispatch", money(values["cost"])),
            ("Serves the true demand", promise(study)),
        ]
        if study.model is None:
            exact = values["relaxation"]
            words = "exact" if exact and exact["exact"] else "not exact: a lower bound of AC cost"
            rows.append(("Relaxation", words if exact else "has no state at these answers"))
        else:
            rows.append(("Price of noise, without room", money(price["noise"]) + hint))
            rows.append(("Price of tightening", money(price["tightening"])))
            if price["total"] is not None:
                rows.append(("Price of recourse", money(price["recourse"])))
                rows.append(("Price of privacy in all", money(price["total"])))
            relaxation = money(price["relaxation"])
            rows.append(("Price of what DC leaves out", f"{relaxation}, at least"))
        if true is not None:
            rows.append(("Optimum at the true demand", money(true["optimum"])))
        if true is not None and "cost" in true:
            serves = "served" if true["served"] else f"{true['beyond_mw']:.3g} MW beyond a limit"
            rows.append(("Cost at the true demand", f"{money(true['cost'])}; demand is {serves}"))
            rows.append(("Answers exceed demand by", f"{true['imbalance_mw']:.3g} MW in all"))
        if self.case.ignored:
            rows.append(("Not read from the case", "; ".join(self.case.ignored)))
        return rows


def _dispatch_values(dispatch: Dispatch | None, network: Network) -> dict[str, Any]:
    if dispatch is None:
        return dict.fromkeys(("cost", "reserve_mw", "least_price", "largest_price"))
    priced = not np.any(np.isnan(dispatch.price))
    return {
        "cost": dispatch.cost,
        "reserve_mw": float(np.sum(dispatch.reserve)),
        "least_price": float(np.min(dispatch.price)) if priced else None,
        "largest_price": float(np.max(dispatch.price)) if priced else None,
        "binding": binding(dispatch, network),
    }


def _true_figures(study: OpfStudy, demand: HostArray) -> dict[str, Any]:
    """Return figures for the owner: the optimum, and the dispatch after recourse."""
    after, best = met(study, demand), optimum(study, demand)
    if after is None:
        return {"optimum": best}
    return {
        "optimum": best,
        "cost": after.cost,
        "imbalance_mw": after.imbalance,
        "served": after.served,
        "beyond_mw": max(after.beyond, 0.0),
    }


def promise(study: OpfStudy) -> str:
    """Return the guarantee of service as text: a share of all runs, not of promised dispatches."""
    steps, promised, eta = len(study.steps), sum(study.promised), study.proposal.eta
    found = sum(step.dispatch is not None and not step.moved > 0 for step in study.steps)
    if not found:
        return "no: there is no dispatch for the answers"
    among = "" if steps == 1 else f" in {promised} of {steps} steps"
    if math.isinf(study.run.certificate.epsilon):
        model = "DC" if study.model is not None else "the cone relaxation"
        return f"{'yes' if found == steps else 'in part'}, in {model}: there was no noise"
    if not promised or eta is None:
        return "not promised"
    return (
        f"promised{among}, in DC: at most {100 * eta:.3g} % of all runs return a promised dispatch "
        "that fails"
    )


def money(value: float | None, unit: str = "$/h") -> str:
    """Return an amount of money as text.

    Examples
    --------
    >>> money(93132.68), money(-1e-12), money(None)
    ('93,133 $/h', '0.00 $/h', 'not shown')
    """
    if value is None:
        return "not shown"
    digits = 0 if abs(value) >= 1000 else 2
    return f"{round(value, digits) + 0.0:,.{digits}f} {unit}"


@dataclass(frozen=True, eq=False)
class DayReport(OpfReport):
    """The report of a day.

    **Guarantee.** That of `OpfReport`, except that a published case has no published day.
    """

    HEAD: ClassVar[str] = (
        "Optimal power flow on {case} ({model}), {step_count} steps of {step_hours:g} h: {buses} "
        "buses, {lines} lines, {zones} zones"
    )

    @property
    def proposal(self) -> DayProposal:
        """The proposal of the day."""
        proposal = self.study.proposal
        assert isinstance(proposal, DayProposal)
        return proposal

    @override
    def values(self) -> dict[str, Any]:
        study, proposal, columns = self.study, self.proposal, step_columns(self.study)
        missing = np.isnan(columns["cost"])
        columns["cost"] = np.array([None if np.isnan(c) else c for c in columns["cost"]], object)
        steps = zip(*(column.tolist() for column in columns.values()), strict=True)
        hours = proposal.step_hours
        return {
            **self.common(),
            "smooth": proposal.smooth,
            "step_count": len(study.steps),
            "step_hours": hours,
            "cost": None if np.any(missing) else hours * sum(columns["cost"].tolist()),
            "energy_mwh": float(np.sum(columns["planned_mw"])) * hours,
            "promised_steps": sum(study.promised),
            "steps": [
                {"hour": hour, **dict(zip(columns, step, strict=True))}
                for hour, step in zip(proposal.hours, steps, strict=True)
            ],
            "true": None if self.demand is None else _of_day(study, self.demand, hours),
        }

    @override
    def files(self) -> Mapping[str, str]:
        return day_tables(self.study, self.proposal)

    @override
    def rows(self) -> list[tuple[str, str]]:
        study, values = self.study, self.results(None)
        true, noise = values["true"], spread(np.round(study.noise * study.network.base_mva, 3))
        rows = [
            ("Noise on each demand", f"{noise} MW by step (standard deviation; public)"),
            ("Cost of the day", money(values["cost"], "$")),
            ("Serves the true demand", promise(study)),
        ]
        if true is None:
            return [*rows, ("True demand", "private (--oracle-metrics shows figures of it)")]
        names = [("answers", "Answers"), ("planned", "Smoothed answers")]
        for name, which in names[: 1 + self.proposal.smooth]:
            each, total = true[f"{name}_error_mw"], true[f"{name}_total_error_mw"]
            rows.append((f"{which} are off by", f"{each:.3g} MW each, {total:.3g} MW in all (rms)"))
        if "cost" in true:
            served = f"demand is served in {true['served_steps']} of {len(study.steps)} steps"
            rows.append(("Optimum at the true demand", money(true["optimum"], "$")))
            rows.append(("Cost at the true demand", f"{money(true['cost'], '$')}; {served}"))
        return rows


def _of_day(study: OpfStudy, demand: Float[HostArray, "T N 2"], hours: float) -> dict[str, Any]:
    """Return figures for the owner: errors, the optimum, and the dispatches after recourse."""
    base, model = study.network.base_mva, study.model
    shown: dict[str, Any] = {"demand_mw": (demand[:, :, 0].sum(axis=1) * base).tolist()}
    for name, values in (("answers", study.answers), ("planned", study.planned)):
        error = (values - demand) * base
        for what, each in (("error_mw", error), ("total_error_mw", error[:, :, 0].sum(axis=1))):
            shown[f"{name}_{what}"] = float(np.sqrt(np.mean(np.square(each))))
    if model is None:
        return shown
    after = [
        realised(model, step.dispatch, step.served, active)
        for step, active in zip(study.steps, demand[:, :, 0], strict=True)
        if step.dispatch is not None
    ]
    try:
        best = [solve_dc(model, active) for active in demand[:, :, 0]]
    except SolverError:
        best = [None]
    costs = [one.cost for one in best if one is not None]
    whole = len(after) == len(study.steps)
    return shown | {
        "optimum": hours * sum(costs) if len(costs) == len(demand) else None,
        "cost": hours * sum(one.cost for one in after) if whole else None,
        "served_steps": sum(one.served for one in after),
        "beyond_mw": max((max(one.beyond, 0.0) for one in after), default=None),
    }
