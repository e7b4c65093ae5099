"""What is reported of a private optimal power flow: plain values, sentences and files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.errors import SolverError
from taciturn.report import spread, strict
from taciturn.typing import HostArray
from taciturn_power.cases.case import Case
from taciturn_power.delivery import Summary, run_values
from taciturn_power.dispatch.export import day_tables, exported, step_columns
from taciturn_power.dispatch.series import Series
from taciturn_power.dispatch.study import DayStudy, OpfProposal, OpfStudy
from taciturn_power.grids.network import Network
from taciturn_power.grids.relaxation import relax
from taciturn_power.grids.zones import ties
from taciturn_power.models.dc import solve_dc, widest
from taciturn_power.models.dc_network import Realised, realised
from taciturn_power.models.dispatch import Dispatch, binding
from taciturn_power.models.soc import SocOptimum, solve_soc


class Price(NamedTuple):
    """What privacy costs, in $/h; a part is None where it cannot or may not be shown.

    total = noise + tightening + recourse. Noise, recourse and total read the true demand.

    Attributes
    ----------
    noise
        Cost of the dispatch without chance constraints at the true demand, less the optimum there.
        Below 0 only where that dispatch breaks a limit.
    tightening
        What the chance constraints add, at the answers.
    relaxation
        What the DC model leaves out (losses, reactive power, voltages), at least: the optimum of
        the cone relaxation at the answers less that of DC. No part of the total.
    recourse
        What moving from the answers to the true demand costs more with chance constraints than
        without them: other generators move.
    total
        Cost of the dispatch at the true demand, less the optimum. Below 0 only where it breaks a
        limit, or was made for other demands than those answered.
    """

    noise: float | None
    tightening: float | None
    relaxation: float | None
    recourse: float | None = None
    total: float | None = None


def price_of_privacy(study: OpfStudy, demand: Float[HostArray, "N 2"] | None = None) -> Price:
    """Return the parts of the price; all of them if the true demand (per unit) may be read."""
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


# of the room that eta needs: where there is less, the noise decides whether a promise is made
_NARROW = 2.0


@dataclass(frozen=True, eq=False)
class OpfReport:
    """A study, the case it is about, and whether figures that read the true demand are shown.

    They are if the case is published, there was no noise, or the owner asked for them.
    """

    study: OpfStudy
    case: Case
    network: Network
    shows_demand: bool
    warnings: tuple[str, ...]


def opf_warnings(study: OpfStudy) -> tuple[str, ...]:
    """Return what a reader of the result must know first."""
    warnings = []
    eta = study.proposal.eta
    if study.promised and narrow(study):
        warnings.append(
            "the room is narrow, and the promise is a share of all runs: so near the network's "
            "limits most dispatches that are marked as promised can fail; do not repeat runs until "
            "one is marked"
        )
    if study.dispatch is None:
        warnings.append(
            f"no dispatch of the model {study.proposal.model} was found that meets the answered "
            "demand within the limits; the answers stand in the files (--out), and working on them "
            "costs no more privacy"
        )
    elif study.moved > 0:
        warnings.append(
            "the answered demands leave no dispatch; it is made for the nearest that do, "
            f"{study.moved:.3g} MW away in all"
        )
    if eta is not None and not study.promised and study.needed > 0:
        warnings.append(
            f"nothing is promised: eta {eta:.3g} needs room for {study.needed:.3g} standard "
            f"deviations of the noise, and the answers leave room for {study.kept:.3g}; take less "
            "noise (a larger epsilon, a smaller beta)"
        )
    return tuple(warnings)


def narrow(study: OpfStudy) -> bool:
    """Return whether the answers leave room for less than twice the noise that eta needs."""
    if study.model is None or not study.needed > 0:
        return False
    room = widest(study.model, study.served, study.noise)
    return room is None or room < _NARROW * study.needed


def opf_results(report: OpfReport, out: Path | None) -> dict[str, Any]:
    """Return the results as strictly valid JSON values; powers in MW, money in $/h.

    Notes
    -----
    **Guarantee.** Functions of the answers and of public facts, but for the values under `true`
    and of `price`: `noise`, `recourse` and `total`. These read the true demand, and are None unless
    `shows_demand`.
    """
    study = report.study
    network = report.network
    zones = study.proposal.partition()
    demand = network.demand if report.shows_demand else None
    values: dict[str, Any] = strict(
        {
            **_public_values(study.proposal, network),
            "ties": len(ties(network, zones)),
            "noise_mw": float(np.max(study.noise)) * network.base_mva,
            "answered_mw": float(np.sum(study.answers[:, 0])) * network.base_mva,
            "promised": study.promised,
            "multiplier_needed": study.needed,
            "multiplier_kept": study.kept,
            "moved_mw": study.moved,
            **_dispatch_values(study.dispatch, network),
            "relaxation": _relaxation(study.soc),
            "price": price_of_privacy(study, demand)._asdict(),
            "true": None if demand is None else _true(study, demand),
            **run_values(
                study.run, study.proposal, out, report.warnings, ignored=report.case.ignored
            ),
        }
    )
    return values


def _public_values(proposal: OpfProposal, network: Network) -> dict[str, Any]:
    return {
        "case": network.name,
        "problem": "opf",
        "model": proposal.model,
        "buses": network.buses,
        "lines": network.lines,
        "zones": max(proposal.zones) + 1,
        "hide": proposal.hide,
        "beta_mw": proposal.beta * network.base_mva,
        "eta": proposal.eta,
    }


def _dispatch_values(dispatch: Dispatch | None, network: Network) -> dict[str, Any]:
    if dispatch is None:
        return {"cost": None, "reserve_mw": None, "least_price": None, "largest_price": None}
    priced = not np.any(np.isnan(dispatch.price))
    return {
        "cost": dispatch.cost,
        "reserve_mw": float(np.sum(dispatch.reserve)),
        "least_price": float(np.min(dispatch.price)) if priced else None,
        "largest_price": float(np.max(dispatch.price)) if priced else None,
        "binding": binding(dispatch, network),
    }


def _relaxation(soc: SocOptimum | None) -> dict[str, Any] | None:
    if soc is None:
        return None
    return {"cost": soc.dispatch.cost, "exact": soc.exactness.holds, **soc.exactness._asdict()}


def _true(study: OpfStudy, demand: HostArray) -> dict[str, Any]:
    """Return what an owner sees: the optimum, and what becomes of the dispatch."""
    after = met(study, demand)
    shown = {"optimum": optimum(study, demand)}
    if after is None:
        return shown
    return {
        **shown,
        "cost": after.cost,
        "imbalance_mw": after.imbalance,
        "served": after.served,
        "beyond_mw": max(after.beyond, 0.0),
    }


def opf_summary(report: OpfReport) -> Summary:
    """Return the summary of the run. No file holds a true demand."""
    study = report.study
    return Summary(
        run=study.run,
        proposal=study.proposal,
        data=study.proposal.network.name,
        results=partial(opf_results, report),
        files=partial(exported, study, report.case),
        rows=partial(opf_rows, report),
        head="Optimal power flow on {case} ({model}): {buses} buses, {lines} lines, {zones} zones, "
        "{ties} ties",
    )


def money(value: float | None) -> str:
    """Return dollars an hour as text.

    Examples
    --------
    >>> money(93132.68), money(-1e-12), money(None)
    ('93,133 $/h', '0.00 $/h', 'not told')
    """
    if value is None:
        return "not told"
    digits = 0 if abs(value) >= 1000 else 2
    return f"{round(value, digits) + 0.0:,.{digits}f} $/h"


def opf_rows(report: OpfReport) -> list[tuple[str, str]]:
    """Return the main results as (name, text), for the terminal and for the page."""
    values = opf_results(report, None)
    study, price = report.study, values["price"]
    rows = [
        ("Noise on each demand", f"{values['noise_mw']:.3g} MW (standard deviation; public)"),
        ("Cost of the dispatch", money(values["cost"])),
        ("Serves the true demand", _promise(study)),
        ("Price of noise, without room", money(price["noise"]) + _hint(report)),
        ("Price of tightening", money(price["tightening"])),
        ("Price of what DC leaves out", money(price["relaxation"]) + ", at least"),
    ]
    if price["total"] is not None:
        rows[-1:-1] = [
            ("Price of recourse", money(price["recourse"])),
            ("Price of privacy in all", money(price["total"])),
        ]
    if study.model is None:
        exact = values["relaxation"]
        words = "exact" if exact and exact["exact"] else "not exact: a lower bound of the AC cost"
        rows = [*rows[:3], ("Relaxation", words if exact else "has no state at these answers")]
    true = values["true"]
    if true is not None:
        rows.append(("Optimum at the true demand", money(true["optimum"])))
        if "cost" in true:
            serves = "served" if true["served"] else f"{true['beyond_mw']:.3g} MW beyond a limit"
            rows.append(("Cost once demand shows", f"{money(true['cost'])}; demand is {serves}"))
            rows.append(("Answers exceed demand by", f"{true['imbalance_mw']:.3g} MW in all"))
    if report.case.ignored:
        rows.append(("Not read from the case", "; ".join(report.case.ignored)))
    return rows


def _hint(report: OpfReport) -> str:
    return "" if report.shows_demand else ": the demand is private (--oracle-metrics tells it)"


def _promise(study: OpfStudy) -> str:
    """Return what may be said: a probability of all runs, and not of those that are marked."""
    if study.dispatch is None or study.restored:
        return "no: there is no dispatch for the answers"
    if math.isinf(study.run.certificate.epsilon):
        model = "DC" if study.model is not None else "the cone relaxation"
        return f"yes, in {model}: nothing was noised"
    if study.promised and study.proposal.eta is not None:
        return (
            f"promised, in DC: of all runs, at most {100 * study.proposal.eta:.3g} % return a "
            "dispatch with this mark that fails"
        )
    return "not promised"


@dataclass(frozen=True, eq=False)
class DayReport:
    """A study of a day, its series, and whether figures that read the true demand are shown.

    They are if there was no noise, or the owner asked for them.
    """

    study: DayStudy
    network: Network
    series: Series
    shows_demand: bool
    warnings: tuple[str, ...]


def day_warnings(study: DayStudy) -> tuple[str, ...]:
    """Return what a reader of the result must know first."""
    steps, warnings = len(study.steps), []
    promised, missing = sum(study.promised), sum(s.dispatch is None for s in study.steps)
    moved = sum(step.moved > 0 for step in study.steps)
    if promised:
        warnings.append(
            "the promise is a share of all days; near the network's limits most dispatches that "
            "are marked as promised can fail, so do not repeat days until more are marked"
        )
    if missing:
        warnings.append(
            f"in {missing} of {steps} steps no dispatch of the model {study.proposal.model} was "
            "found, so the day has no cost; the answers stand in the files (--out), and working on "
            "them costs no more privacy"
        )
    if moved:
        warnings.append(
            f"in {moved} of {steps} steps the demands leave no dispatch; it is made for the "
            "nearest that do"
        )
    if study.needed > 0 and promised < steps:
        least = min(step.kept for step in study.steps)
        warnings.append(
            f"nothing is promised in {steps - promised} of {steps} steps: eta "
            f"{study.proposal.eta:.3g} needs room for {study.needed:.3g} standard deviations of "
            f"the noise at every step, and some leave room for {least:.3g}; take less noise (a "
            "larger epsilon, a smaller beta, fewer steps)"
        )
    if study.proposal.smooth and np.all(study.noise > 0):
        warnings.append(
            "smoothed demands have an unknown bias; what is promised rests on room for the noise "
            "of the answers before smoothing, and for what smoothing moved"
        )
    return tuple(warnings)


def day_results(report: DayReport, out: Path | None) -> dict[str, Any]:
    """Return the results as strictly valid JSON values; powers in MW, money in $.

    Notes
    -----
    **Guarantee.** Functions of the answers and of public facts, but for the values under `true`.
    These read the true demand, and are None unless `shows_demand`.
    """
    study, network = report.study, report.network
    proposal, base, columns = study.proposal, network.base_mva, step_columns(study)
    columns["cost"] = np.array([None if np.isnan(one) else one for one in columns["cost"]], object)
    steps = zip(*(column.tolist() for column in columns.values()), strict=True)
    values: dict[str, Any] = strict(
        {
            **_public_values(proposal, network),
            "smooth": proposal.smooth,
            "step_hours": proposal.step_hours,
            "cost": study.cost,
            "energy_mwh": float(np.sum(columns["planned_mw"])) * proposal.step_hours,
            "multiplier_needed": study.needed,
            "promised_steps": sum(study.promised),
            "steps": [
                {"hour": hour, **dict(zip(columns, step, strict=True))}
                for hour, step in zip(proposal.hours, steps, strict=True)
            ],
            "true": _day_true(study, report.series.demand, base) if report.shows_demand else None,
            **run_values(study.run, proposal, out, report.warnings),
        }
    )
    return values


def _day_true(study: DayStudy, demand: Float[HostArray, "T N 2"], base: float) -> dict[str, Any]:
    """Return what an owner sees: errors, the optimum, and what becomes of the dispatches."""
    shown: dict[str, Any] = {"demand_mw": (demand[:, :, 0].sum(axis=1) * base).tolist()}
    for name, values in (("answers", study.answers), ("planned", study.planned)):
        error = (values - demand) * base
        shown[f"{name}_error_mw"] = _root_mean_square(error)
        shown[f"{name}_total_error_mw"] = _root_mean_square(error[:, :, 0].sum(axis=1))
    if study.model is None:
        return shown
    hours, model = study.proposal.step_hours, study.model
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


def _root_mean_square(values: HostArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def day_summary(report: DayReport) -> Summary:
    """Return the summary of the run. No file holds a true demand."""
    study = report.study
    return Summary(
        run=study.run,
        proposal=study.proposal,
        data=study.proposal.network.name,
        results=partial(day_results, report),
        files=partial(day_tables, study),
        rows=partial(day_rows, report),
        head=f"Optimal power flow on {{case}} ({{model}}), {len(study.steps)} steps of "
        "{step_hours:g} h: {buses} buses, {lines} lines, {zones} zones",
    )


def day_rows(report: DayReport) -> list[tuple[str, str]]:
    """Return the main results as (name, text), for the terminal and for the page."""
    study, values = report.study, day_results(report, None)
    base, true = report.network.base_mva, values["true"]
    noise = spread(np.round(study.noise * base, 3))
    rows = [
        ("Noise on each demand", f"{noise} MW by step (standard deviation; public)"),
        ("Cost of the day", dollars(values["cost"])),
        ("Serves the true demand", _day_promise(report)),
    ]
    if true is None:
        return [*rows, ("True demand", "private (--oracle-metrics tells what became of it)")]
    for name, which in (("answers", "Answers"), ("planned", "Smoothed answers")):
        if name == "answers" or study.proposal.smooth:
            each, total = true[f"{name}_error_mw"], true[f"{name}_total_error_mw"]
            rows.append((f"{which} are off by", f"{each:.3g} MW each, {total:.3g} MW in all (rms)"))
    if "cost" in true:
        steps = len(study.steps)
        served = f"served in {true['served_steps']} of {steps} steps"
        rows.append(("Optimum at the true demand", dollars(true["optimum"])))
        rows.append(("Cost once demand shows", f"{dollars(true['cost'])}; demand is {served}"))
    return rows


def dollars(value: float | None) -> str:
    """Return an amount of dollars as text.

    Examples
    --------
    >>> dollars(1593556.6), dollars(None)
    ('1,593,557 $', 'not told')
    """
    return money(value).removesuffix("/h")


def _day_promise(report: DayReport) -> str:
    study = report.study
    if math.isinf(study.run.certificate.epsilon):
        return "nothing was noised"
    promised, steps = sum(study.promised), len(study.steps)
    if not promised or study.proposal.eta is None:
        return "not promised"
    return (
        f"promised in {promised} of {steps} steps, in DC: of all days, at most "
        f"{100 * study.proposal.eta:.3g} % have a step with this mark that fails"
    )
