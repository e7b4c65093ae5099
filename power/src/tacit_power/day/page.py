"""The page of a day of private optimal power flow."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from tacit.report import STYLE, inline_svg, list_of, section, spread, table_of
from tacit.typing import HostArray
from tacit_power.day.results import DayReport, day_rows
from tacit_power.day.series import clock
from tacit_power.day.study import DayStudy
from tacit_power.grids.network import Network
from tacit_power.grids.zones import Zones, ties, zones_of
from tacit_power.moment.hidden import HIDES
from tacit_power.page import bus_rows, page_of, titled

_BLUE, _ORANGE, _GREY, _INK = "#1f5fa8", "#c2570c", "#c9d1da", "#1d232b"
_NAMED = 9
_UNPROTECTED = (
    "The network, costs and zones, when the steps of the day are, and their weights. All of it is "
    "public by assumption; weights that follow the demand would tell of it.",
    "What is measured when the dispatches run. The generators follow the true total demand, so "
    "whoever sees their output sees it.",
    "Days before and after this one: each is a run of its own, and their costs add up in an "
    "account.",
    "The settings, and how long the run took.",
)


def day_page(report: DayReport) -> str:
    """Return the report as HTML; it loads nothing from elsewhere."""
    study, network = report.study, report.network
    zones = zones_of(network, np.array(study.proposal.zones))
    noiseless = math.isinf(study.run.certificate.epsilon)
    title = f"A day of {'' if noiseless else 'private '}optimal power flow on {network.name}"
    sections = [
        section("Cost of the day", table_of(day_rows(report))),
        section("Dispatch", _dispatches(study, network)),
        section("Demand and noise", _demands(report)),
        section("Settings", table_of(_settings(report))),
        section("Zones", table_of(bus_rows(network, zones))),
        section("What is not protected", list_of(_UNPROTECTED)),
    ]
    holds = "numbers in results.json, steps, buses, lines and generators in CSV files"
    story = _story(report, zones)
    return page_of(study.run, title, story, report.warnings, sections, holds, " to ask")


def _story(report: DayReport, zones: Zones) -> str:
    study, network = report.study, report.network
    noiseless = math.isinf(study.run.certificate.epsilon)
    how = "without noise" if noiseless else "with noise; no zone showed its demand"
    smooth = " The answers were smoothed, which costs no privacy." if study.proposal.smooth else ""
    return (
        f"{zones.count} zones of a network of {network.buses} buses and {network.lines} lines, "
        f"joined by {len(ties(network, zones))} ties, were asked for their demands at each of "
        f"{len(study.steps)} steps of a day, once a step, and answered {how}.{smooth} Dispatches, "
        "flows and prices were computed from the answers."
    )


def _dispatches(study: DayStudy, network: Network) -> str:
    """Draw generation stacked by generator, the largest ones named, and what it costs."""
    hours = study.proposal.hours
    power = np.full((len(study.steps), len(network.generator_bus)), np.nan)
    cost = np.full(len(study.steps), np.nan)
    for step, (_, one) in enumerate(zip(hours, study.steps, strict=True)):
        if one.dispatch is not None:
            power[step], cost[step] = one.dispatch.generation[:, 0], one.dispatch.cost
    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(8.2, 6.0), layout="constrained")
        FigureCanvasSVG(figure)
        top, below = figure.subplots(2, 1, height_ratios=(2.2, 1), sharex=True)
        _stacked(top, hours, power, network)
        demand = study.planned[:, :, 0].sum(axis=1) * network.base_mva
        top.plot(hours, demand, color=_INK, linewidth=1.2, label="demand that is dispatched for")
        top.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1, 1))
        titled(top, "active power by generator, MW", "")
        below.step(hours, cost, color=_BLUE, where="post")
        titled(below, "cost, $/h", "hour")
        return inline_svg(figure, "Dispatch of the day stacked by generator, and its cost by step")


def _stacked(axes: Axes, hours: HostArray, power: HostArray, network: Network) -> None:
    energy = np.nansum(np.abs(power), axis=0)
    order = np.argsort(-energy, kind="stable")
    named, others = order[:_NAMED], order[_NAMED:]
    bands = [power[:, g] for g in named]
    names = [f"at bus {network.numbers[network.generator_bus[g]]}" for g in named]
    if len(others):
        bands.append(power[:, others].sum(axis=1))
        names.append(f"{len(others)} others")
    colours = [*matplotlib.colormaps["tab20c"](np.linspace(0, 0.95, len(named))), _GREY]
    axes.stackplot(hours, np.nan_to_num(bands), labels=names, colors=colours[: len(bands)])


def _demands(report: DayReport) -> str:
    """Draw answered, smoothed and, if it may be shown, true total demand, and the noise."""
    study, base = report.study, report.network.base_mva
    hours = study.proposal.hours
    series = [("answered", study.answers, _GREY, 1.4)]
    if study.proposal.smooth:
        series.append(("smoothed", study.planned, _BLUE, 1.6))
    if report.shows_demand:
        series.append(("true", report.series.demand, _ORANGE, 1.2))
    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(8.2, 6.0), layout="constrained")
        FigureCanvasSVG(figure)
        top, middle = figure.subplots(2, 1, height_ratios=(1.6, 1), sharex=True)
        for name, values, colour, width in series:
            top.plot(
                hours, values[:, :, 0].sum(axis=1) * base, color=colour, linewidth=width, label=name
            )
        top.legend(frameon=False, fontsize=8)
        titled(top, "active demand of all buses, MW", "")
        whole = np.linalg.norm(study.noise, axis=1) * base
        middle.step(hours, whole, color=_GREY, where="post", label="noise, standard deviation")
        if report.shows_demand:
            _errors(middle, report)
        middle.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")
        middle.set_ylim(0, 1.2 * middle.get_ylim()[1])
        titled(middle, "errors of the demand of all buses, MW", "hour")
        return inline_svg(figure, "Demand of all buses by step, its noise, and its errors")


def _errors(axes: Axes, report: DayReport) -> None:
    study, base, true = report.study, report.network.base_mva, report.series.demand[:, :, 0]
    hours = study.proposal.hours
    off = np.abs((study.answers[:, :, 0] - true).sum(axis=1)) * base
    axes.plot(hours, off, color=_ORANGE, linewidth=1, label="answers, off by")
    if study.proposal.smooth:
        off = np.abs((study.planned[:, :, 0] - true).sum(axis=1)) * base
        axes.plot(hours, off, color=_BLUE, linewidth=1.2, label="smoothed, off by")


def _settings(report: DayReport) -> list[tuple[str, str]]:
    study, base = report.study, report.network.base_mva
    proposal, plan = study.proposal, study.run.plan
    hours = proposal.hours
    eta = "none" if proposal.eta is None else f"{proposal.eta:g}, of whole days"
    return [
        ("what is hidden", f"{HIDES[proposal.hide]}, at every step of the day"),
        ("beta, how far each of it may move", f"{proposal.beta * base:g} MW or MVAr"),
        ("steps", f"{len(hours)}, from {clock(hours[0])} to {clock(hours[-1])}"),
        ("share of the budget (of mu squared) by step", spread(study.shares)),
        ("smoothed", "yes" if proposal.smooth else "no"),
        ("model of the network", proposal.model),
        ("eta of the chance constraints", eta),
        ("standard deviations of the noise that eta needs room for", f"{study.needed:.4g}"),
        ("sensitivity of a step", plan.bounds[0].derivation),
        ("noise scale of an answer, MW or MVAr", spread(np.round(study.noise * base, 6))),
    ]
