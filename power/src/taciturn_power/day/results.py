"""What is told of a day of private optimal power flow: plain values, sentences and files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from taciturn.errors import SolverError
from taciturn.report import spread, strict
from taciturn.typing import HostArray
from taciturn_power.day.export import day_tables
from taciturn_power.day.series import Series
from taciturn_power.day.study import DayStudy
from taciturn_power.delivery import Told, run_values
from taciturn_power.grids.network import Network
from taciturn_power.grids.zones import zones_of
from taciturn_power.models.dc import solve_dc
from taciturn_power.models.recourse import realised
from taciturn_power.moment.results import money


@dataclass(frozen=True, eq=False)
class DayReport:
    """A study of a day, the series it is about, and what may be shown of it.

    Attributes
    ----------
    series
        With the true demand, of which something is shown only if `shows_demand`.
    shows_demand
        Whether figures that read the true demand may be shown: there was no noise, or the owner
        asked for them.
    warnings
        One line each.
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
    proposal, base = study.proposal, network.base_mva
    answered, planned = (
        part[:, :, 0].sum(axis=1) * base for part in (study.answers, study.planned)
    )
    values: dict[str, Any] = strict(
        {
            "case": network.name,
            "problem": "opf",
            "model": proposal.model,
            "buses": network.buses,
            "lines": network.lines,
            "zones": zones_of(network, np.array(proposal.zones)).count,
            "hide": proposal.hide,
            "beta_mw": proposal.beta * base,
            "eta": proposal.eta,
            "smooth": proposal.smooth,
            "step_hours": proposal.step_hours,
            "cost": study.cost,
            "energy_mwh": float(np.sum(planned)) * proposal.step_hours,
            "multiplier_needed": study.needed,
            "promised_steps": sum(study.promised),
            "steps": [
                {
                    "hour": hour,
                    "budget_share": share,
                    "noise_mw": float(np.max(noise)) * base,
                    "answered_mw": mw,
                    "planned_mw": smooth,
                    "cost": None if step.dispatch is None else step.dispatch.cost,
                    "promised": kept,
                    "multiplier_kept": step.kept,
                    "moved_mw": step.moved * base,
                }
                for hour, share, noise, mw, smooth, step, kept in zip(
                    proposal.hours,
                    study.shares,
                    study.noise,
                    answered,
                    planned,
                    study.steps,
                    study.promised,
                    strict=True,
                )
            ],
            "true": _true(study, report.series.demand, base) if report.shows_demand else None,
            **run_values(study.run, proposal, out, report.warnings),
        }
    )
    return values


def _true(study: DayStudy, demand: Float[HostArray, "T N 2"], base: float) -> dict[str, Any]:
    """Return what an owner sees: errors, the optimum, and what becomes of the dispatches."""
    told: dict[str, Any] = {"demand_mw": (demand[:, :, 0].sum(axis=1) * base).tolist()}
    for name, values in (("answers", study.answers), ("planned", study.planned)):
        error = (values - demand) * base
        told[f"{name}_error_mw"] = _root_mean_square(error)
        told[f"{name}_total_error_mw"] = _root_mean_square(error[:, :, 0].sum(axis=1))
    if study.model is None:
        return told
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
    return told | {
        "optimum": hours * sum(costs) if len(costs) == len(demand) else None,
        "cost": hours * sum(one.cost for one in after) if whole else None,
        "served_steps": sum(one.served for one in after),
        "beyond_mw": max((max(one.beyond, 0.0) for one in after), default=None),
    }


def _root_mean_square(values: HostArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def day_told(report: DayReport) -> Told:
    """Return what is told of the run. No file holds a true demand."""
    study = report.study
    return Told(
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
        ("Serves the true demand", _promise(report)),
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


def _promise(report: DayReport) -> str:
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
