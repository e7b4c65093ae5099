"""The page of a private optimal power flow."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taciturn.report import (
    BLUE,
    GREY,
    ORANGE,
    Items,
    Note,
    Page,
    Section,
    Table,
    drawing,
    label_axes,
    run_page,
)
from taciturn_power.grids.network import Network
from taciturn_power.grids.zones import Zones, ties, zones_of
from taciturn_power.models.binding import binding
from taciturn_power.models.dispatch import Dispatch
from taciturn_power.moment.hidden import HIDES
from taciturn_power.moment.results import OpfReport, opf_rows
from taciturn_power.page import bus_rows, how_answered, network_section

_MOST_LISTED = 20
_UNPROTECTED = (
    "The network: lines, limits, generators, costs, which bus lies in which zone. All of it is "
    "public by assumption.",
    "What is measured when the dispatch runs. The generators follow the true total demand, so "
    "whoever sees their output sees it.",
    "The settings, and how long the run took.",
)


def opf_page(report: OpfReport) -> Page:
    """Return the page of an optimal power flow."""
    study, network = report.study, report.network
    zones = zones_of(network, np.array(study.proposal.zones))
    noiseless = math.isinf(study.run.certificate.epsilon)
    return run_page(
        study.run,
        title=f"{'O' if noiseless else 'Private o'}ptimal power flow on {network.name}",
        story=_story(report, zones),
        warnings=report.warnings,
        sections=(
            Section("Cost, and the price of privacy", (Table(opf_rows(report)), *_notes(report))),
            *_dispatch(study.dispatch, network),
            network_section(network, zones, bus_rows(network, zones)),
            Section("Settings", (Table(_settings(report)),)),
        ),
        unprotected=_UNPROTECTED,
        holds="numbers in results.json, the dispatch in dispatch.m (MATPOWER) or "
        "dispatch.json (pandapower)",
    )


def _story(report: OpfReport, zones: Zones) -> str:
    network, how = report.network, how_answered(report.study.run)
    return (
        f"{zones.count} zones of a network of {network.buses} buses and {network.lines} lines, "
        f"joined by {len(ties(network, zones))} ties, were each asked for their demands, once, and "
        f"answered {how}. Dispatch, flows and prices were computed from the answers."
    )


def _notes(report: OpfReport) -> tuple[Note, ...]:
    """Return what the rows mean."""
    if report.study.model is None:
        return ()
    text = (
        "The promise is a share of all runs, counted with those that return no promise. Near the "
        "network's limits most dispatches that are marked can fail; do not repeat runs until one "
        "is marked. Price of noise: what the dispatch without room for the noise costs once the "
        "true demand shows, less the optimum; below 0 it breaks a limit. Price of "
        "tightening: what the room adds, at the answers. Price of recourse: what the "
        "dispatch with room costs more than the one without when both are moved to the true "
        "demand. These three add up to the price in all. DC "
        "leaves out losses, reactive power and voltages; the cone relaxation, which has them, "
        "costs so much more at the same answers, and the AC problem no less."
    )
    return (Note(text),)


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
        if not np.any(np.isnan(dispatch.price)):
            _prices(right, dispatch, network)
        else:
            right.set_axis_off()

    label = "Dispatch by generator, loading of lines, and prices by bus"
    return (
        Section("Dispatch", (drawing(label, 6.4, draw),)),
        Section("Limits that bind", (Items(listed) if listed else "None.",)),
    )


def _generators(axes: Axes, dispatch: Dispatch, network: Network) -> None:
    """Draw the range of each generator that can run, its power and its reserve."""
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


def _prices(axes: Axes, dispatch: Dispatch, network: Network) -> None:
    axes.bar(np.arange(1, network.buses + 1), np.sort(dispatch.price)[::-1], color=BLUE, width=1.0)
    label_axes(axes, "price of one more MW of demand, $/MWh", "buses, dearest first")


def _settings(report: OpfReport) -> list[tuple[str, str]]:
    study, base = report.study, report.network.base_mva
    proposal, plan = study.proposal, study.run.plan
    eta = "none" if proposal.eta is None else f"{proposal.eta:g}"
    return [
        ("what is hidden", HIDES[proposal.hide]),
        ("beta, how far each of it may move", f"{proposal.beta * base:g} MW or MVAr"),
        ("model of the network", proposal.model),
        ("eta of the chance constraints", eta),
        ("standard deviations of the noise with room", f"{study.kept:.4g}"),
        ("sensitivity", plan.bounds[0].derivation),
        ("noise multiplier (scale / sensitivity)", f"{plan.multiplier:.5g}"),
        ("noise scale of an answer", f"{float(np.max(study.noise)) * base:.5g} MW or MVAr"),
    ]
