"""The pages of a private optimal power flow, of one time and of a day."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taciturn.report import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    Drawing,
    Items,
    Note,
    Page,
    Section,
    Table,
    drawing,
    label_axes,
    run_page,
    spread,
)
from taciturn.typing import HostArray
from taciturn_power.dispatch.asking import HIDES, shares
from taciturn_power.dispatch.results import DayReport, OpfReport
from taciturn_power.dispatch.series import clock
from taciturn_power.grids.figure import bus_rows, how_answered, network_section
from taciturn_power.grids.network import Network
from taciturn_power.grids.zones import ties
from taciturn_power.models.dispatch import Dispatch, binding

_MOST_LISTED, _NAMED = 20, 9
_PUBLIC = (
    "The network, costs and zones: lines, limits, generators, which bus lies in which zone. All of "
    "it is public by assumption.",
    "Measurements of running dispatches: the generators follow the true total demand, so anyone "
    "who sees their output sees it.",
    "The settings, and how long the run took.",
)
_PUBLIC_DAY = (
    "The times of the steps and their weights: weights that follow the demand would reveal it.",
    "Days before and after this one: each is a separate run, and an account adds up their costs.",
)
_PRICES = Note(
    "Eta is a share of all runs, including those without a promise. Near the network's limits most "
    "promised dispatches may fail; do not repeat runs until one is promised. "
    "Price of noise: the cost at the true demand of the dispatch without room for the noise, less "
    "the optimum; negative if it violates a limit. Price of tightening: the cost of that room, at "
    "the answers. Price of recourse: the additional cost of moving the dispatch with room to the "
    "true demand, compared with the one without. These three sum to the price in all. DC omits "
    "losses, reactive power and voltages: at the same answers these cost at least the difference "
    "to the cone relaxation, which includes them."
)


def opf_page(report: OpfReport) -> Page:
    """Return the page of an optimal power flow, of one time or of a day."""
    study, network = report.study, report.study.network
    zones, crossing = study.proposal.partition(), len(ties(network, study.proposal.partition()))
    private = "" if math.isinf(study.run.certificate.epsilon) else "private "
    places, settings = bus_rows(network, zones), Section("Settings", (Table(_settings(report)),))
    when, smooth = "once", ""
    unprotected: tuple[str, ...] = _PUBLIC
    if isinstance(report, DayReport):
        title = f"A day of {private}optimal power flow on {network.name}"
        when = f"at each of {len(study.steps)} steps of a day, once a step"
        if report.proposal.smooth:
            smooth = " The answers were smoothed, which costs no privacy."
        unprotected = (*_PUBLIC, *_PUBLIC_DAY)
        holds = "numbers in results.json, steps, buses, lines and generators in CSV files"
        sections: tuple[Section, ...] = (
            Section("Cost of the day", (Table(report.rows()),)),
            Section("Dispatch", (_dispatches(report),)),
            Section("Demand and noise", (_demands(report),)),
            settings,
            Section("Zones", (Table(places),)),
        )
    else:
        title = f"{private}optimal power flow on {network.name}"
        title = title[0].upper() + title[1:]
        holds = "numbers in results.json, the dispatch in dispatch.m (MATPOWER) or dispatch.json "
        holds += "(pandapower)"
        notes = () if study.model is None else (_PRICES,)
        sections = (
            Section("Cost, and the price of privacy", (Table(report.rows()), *notes)),
            *_dispatch(study.steps[0].dispatch, network),
            network_section(network, zones, places),
            settings,
        )
    return run_page(
        study.run,
        title=title,
        story=f"{zones.count} zones of a network of {network.buses} buses and {network.lines} "
        f"lines, joined by {crossing} tie lines, were asked for their demands {when}, and answered "
        f"{how_answered(study.run)}.{smooth} Dispatches, flows and prices were computed from the "
        "answers.",
        warnings=report.warnings,
        sections=sections,
        unprotected=unprotected,
        holds=holds,
        took=report.TOOK,
    )


def _settings(report: OpfReport) -> list[tuple[str, str]]:
    """Return the public settings of the run as (name, text)."""
    study, base, day = report.study, report.study.network.base_mva, isinstance(report, DayReport)
    proposal, eta = study.proposal, study.proposal.eta
    rows = [
        ("what is hidden", HIDES[proposal.hide] + (", at every step of the day" if day else "")),
        ("beta, the largest hidden change of each", f"{proposal.beta * base:g} MW or MVAr"),
        ("sensitivity of an answer", study.run.plan.bounds[0].derivation),
        ("model of the network", proposal.model),
        (
            "eta of the chance constraints, a share of all runs",
            "none" if eta is None else f"{eta:g}",
        ),
        ("tightening that eta needs, standard deviations of the noise", f"{study.needed:.4g}"),
        ("noise scale of an answer, MW or MVAr", spread(np.round(study.noise * base, 6))),
    ]
    if isinstance(report, DayReport):
        hours = report.proposal.hours
        return [
            *rows,
            ("steps", f"{len(hours)}, from {clock(hours[0])} to {clock(hours[-1])}"),
            ("share of the budget (of mu squared) by step", spread(shares(study.run.plan))),
            ("smoothed", "yes" if report.proposal.smooth else "no"),
        ]
    return [
        *rows,
        ("tightening of the dispatch, standard deviations", f"{study.steps[0].kept:.4g}"),
        ("noise multiplier (scale / sensitivity)", f"{study.run.plan.multiplier:.5g}"),
    ]


def _dispatch(dispatch: Dispatch | None, network: Network) -> tuple[Section, ...]:
    if dispatch is None:
        return (Section("Dispatch", ("There is none at these answers.",)),)
    limits = binding(dispatch, network)
    more = len(limits) - _MOST_LISTED
    listed = limits[:_MOST_LISTED] + ([f"and {more} more"] if more > 0 else [])

    def draw(figure: Figure) -> None:
        top, left, right = figure.subplot_mosaic([["top", "top"], ["left", "right"]]).values()
        _generators(top, dispatch, network)
        _loading(left, dispatch, network)
        if np.any(np.isnan(dispatch.price)):
            right.set_axis_off()
            return
        price = np.sort(dispatch.price)[::-1]
        right.bar(np.arange(1, network.buses + 1), price, color=BLUE, width=1.0)
        label_axes(right, "marginal price of demand, $/MWh", "buses, highest price first")

    label = "Dispatch by generator, loading of lines, and prices by bus"
    return (
        Section("Dispatch", (drawing(label, 6.4, draw),)),
        Section("Binding limits", (Items(listed) if listed else "None.",)),
    )


def _generators(axes: Axes, dispatch: Dispatch, network: Network) -> None:
    """Draw range, power and reserve of each generator that can run."""
    low, high = network.generator_range[:, :2].T * network.base_mva
    power = dispatch.generation[:, 0]
    shown = np.flatnonzero((high > 0) & np.isfinite(high))
    shown = shown[np.argsort(-power[shown], kind="stable")][:60]
    place = np.arange(len(shown))
    axes.bar(place, high[shown] - low[shown], bottom=low[shown], color=GREY, label="range")
    axes.bar(place, power[shown], color=BLUE, width=0.5, label="dispatch")
    if np.any(dispatch.reserve > 0):
        held = dispatch.reserve[shown]
        axes.errorbar(place, power[shown], yerr=held, fmt="none", ecolor=ORANGE, label="reserve")
    names = [str(n) for n in network.numbers[network.generator_bus[shown]]]
    axes.set_xticks(place, names, fontsize=6.5, rotation=90 if len(shown) > 15 else 0)
    axes.legend(frameon=False, fontsize=8)
    label_axes(axes, "active power by generator, MW", "bus of the generator")


def _loading(axes: Axes, dispatch: Dispatch, network: Network) -> None:
    limit = network.limit * network.base_mva
    used = dispatch.loading(limit)
    order = np.argsort(-np.nan_to_num(used))[: int(np.sum(np.isfinite(used)))]
    place = np.arange(1, len(order) + 1)
    with np.errstate(invalid="ignore"):
        margin = (dispatch.margin / limit)[order]
    axes.bar(place, 100 * used[order], color=BLUE, width=1.0, label="flow")
    if np.any(margin > 0):
        axes.bar(
            place, 100 * margin, bottom=100 * used[order], color=ORANGE, width=1.0, label="margin"
        )
        axes.legend(frameon=False, fontsize=8)
    label_axes(axes, "loading of lines, % of their limit", "lines, most loaded first")


def _dispatches(report: DayReport) -> Drawing:
    """Draw generation stacked by generator, the largest ones named, and its cost."""
    study, network, hours = report.study, report.study.network, report.proposal.hours
    power = np.full((len(study.steps), len(network.generator_bus)), np.nan)
    cost = np.full(len(study.steps), np.nan)
    for step, one in enumerate(study.steps):
        if one.dispatch is not None:
            power[step], cost[step] = one.dispatch.generation[:, 0], one.dispatch.cost

    def draw(figure: Figure) -> None:
        top, below = figure.subplots(2, 1, height_ratios=(2.2, 1), sharex=True)
        _stacked(top, hours, power, network)
        demand = study.planned[:, :, 0].sum(axis=1) * network.base_mva
        top.plot(hours, demand, color=INK, linewidth=1.2, label="demand that is dispatched for")
        top.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1, 1))
        label_axes(top, "active power by generator, MW")
        below.step(hours, cost, color=BLUE, where="post")
        label_axes(below, "cost, $/h", "hour")

    return drawing("Dispatch of the day stacked by generator, and its cost by step", 6.0, draw)


def _stacked(axes: Axes, hours: HostArray, power: HostArray, network: Network) -> None:
    energy = np.nansum(np.abs(power), axis=0)
    order = np.argsort(-energy, kind="stable")
    named, others = order[:_NAMED], order[_NAMED:]
    bands = [power[:, g] for g in named]
    names = [f"at bus {network.numbers[network.generator_bus[g]]}" for g in named]
    if len(others):
        bands.append(power[:, others].sum(axis=1))
        names.append(f"{len(others)} others")
    colours = [*matplotlib.colormaps["tab20c"](np.linspace(0, 0.95, len(named))), GREY]
    axes.stackplot(hours, np.nan_to_num(bands), labels=names, colors=colours[: len(bands)])


def _demands(report: DayReport) -> Drawing:
    """Draw answered, smoothed and, if it may be shown, true total demand, noise and errors."""
    study, hours = report.study, report.proposal.hours
    base, true = study.network.base_mva, report.demand
    curves = [("answered", "answers", study.answers, GREY, ORANGE, 1.4)]
    if report.proposal.smooth:
        curves.append(("smoothed", "smoothed", study.planned, BLUE, BLUE, 1.6))

    def total(values: HostArray) -> HostArray:
        summed: HostArray = values[:, :, 0].sum(axis=1) * base
        return summed

    def draw(figure: Figure) -> None:
        top, below = figure.subplots(2, 1, height_ratios=(1.6, 1), sharex=True)
        whole = np.linalg.norm(study.noise, axis=1) * base
        below.step(hours, whole, color=GREY, where="post", label="noise, standard deviation")
        for name, which, values, colour, tint, width in curves:
            top.plot(hours, total(values), color=colour, linewidth=width, label=name)
            if true is not None:
                off = np.abs(total(values - true))
                below.plot(hours, off, color=tint, linewidth=1.1, label=f"{which}, off by")
        if true is not None:
            top.plot(hours, total(true), color=ORANGE, linewidth=1.2, label="true")
        top.legend(frameon=False, fontsize=8)
        label_axes(top, "active demand of all buses, MW")
        below.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")
        below.set_ylim(0, 1.2 * below.get_ylim()[1])
        label_axes(below, "errors of the demand of all buses, MW", "hour")

    return drawing("Demand of all buses by step, its noise, and its errors", 6.0, draw)
