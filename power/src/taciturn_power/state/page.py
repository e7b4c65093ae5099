"""The report of a balanced state: results as plain values, rows of text and one page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure
from typing_extensions import override

from taciturn.report import (
    BLUE,
    Drawing,
    Note,
    Page,
    Section,
    Table,
    drawing,
    json_text,
    label_axes,
    run_page,
    spread,
    strict,
)
from taciturn_power.delivery import Report
from taciturn_power.grids.figure import how_answered, network_section, ranges
from taciturn_power.grids.zones import ties
from taciturn_power.state.study import Flow, Grid, Optimum, proximal_weight

_QUESTIONS = {
    "demand": "its demand, once",
    "residual": "the balance residuals at its state, in every local update; answers are averaged",
    "gradient": "the gradient at its state, in every local update; answers are averaged",
}
_MOST_NAMED = 10  # ties of a zone
_UNPROTECTED = (
    "The network: lines, limits, generators, which bus lies in which zone. All of it is public by "
    "assumption.",
    "The settings, and how long the run took.",
    "Two demands at once: a bus whose active and reactive demand both change counts twice.",
)


@dataclass(frozen=True, eq=False)
class GridReport(Report):
    """A run of private power flow, and the central optimum for comparison.

    `case` is the user's name of the case; `ignored` are the parts of its file that are not read.

    **Guarantee.** The objective is an un-noised function of the demand. It and `optimum` are shown
    if `shown`: the case is published, there was no noise, or the owner wants them.
    """

    HEAD: ClassVar[str] = (
        "Power flow on {case}: {buses} buses, {lines} lines, {zones} zones, {ties} ties\n"
        "Question {question}, {rounds} rounds of {local_updates} local updates"
    )
    TOOK: ClassVar[str] = ""

    study: Flow
    case: str
    optimum: Optimum
    shown: bool
    ignored: tuple[str, ...] = ()

    @property
    @override
    def data(self) -> str:
        return self.case

    @override
    def values(self) -> dict[str, Any]:
        flow, grid = self.study, self.study.grid
        network = grid.relaxation.network
        return {
            "case": network.name,
            "buses": network.buses,
            "lines": network.lines,
            "zones": grid.zones.count,
            "ties": len(ties(network, grid.zones)),
            "shared_variables": int(np.sum(np.asarray(grid.sharing.holders) > 1)),
            "beta": flow.proposal.beta,
            "question": flow.settings.question,
            "rounds": flow.settings.rounds,
            "local_updates": flow.settings.updates,
            "objective": flow.objective[-1] if self.shown else None,
            "central_objective": self.optimum.objective if self.shown else None,
            "consensus_residual": flow.consensus_residual[-1],
            "max_violation": flow.violation[-1],
            "noise_scale": float(np.max(flow.run.ledger.scale)),
            "noise_magnitude": float(np.sum(flow.noise)),
            "ignored": self.ignored,
        }

    @override
    def further(self) -> Mapping[str, Any]:
        """Return the metrics after every round; the objective only where it is shown."""
        flow = self.study
        values = {"consensus_residual": flow.consensus_residual, "max_violation": flow.violation}
        if self.shown:
            values["objective"] = flow.objective
        return {"curves": strict(values)}

    @override
    def files(self) -> Mapping[str, str]:
        """Return `state.json`, the released state of the network."""
        relaxation, x = self.study.grid.relaxation, self.study.state
        layout, network = relaxation.layout, relaxation.network
        line, generator = np.arange(layout.lines), np.arange(layout.generators)
        flows, powers = ("pF", "qF", "pT", "qT"), ("p", "q")
        state = {
            "bus": network.numbers,
            "voltage_magnitude": np.sqrt(np.maximum(x[: layout.buses], 0)),
            "from": network.numbers[network.ends[:, 0]],
            "to": network.numbers[network.ends[:, 1]],
            "flow": {name: x[layout.flow(kind, line)] for kind, name in enumerate(flows)},
            "generator_bus": network.numbers[network.generator_bus],
            "generation": {
                name: x[layout.generation(kind, generator)] for kind, name in enumerate(powers)
            },
        }
        return {"state.json": json_text(strict(state))}

    @override
    def rows(self) -> list[tuple[str, str]]:
        values, network = self.results(None), self.study.grid.relaxation.network
        name = "Objective, per unit squared"
        rows = [(name, "not shown: the demand is private (--oracle-metrics shows it)")]
        if self.shown:
            found, central = values["objective"], values["central_objective"]
            # the root mean square over all 2N balance equations, in the units of the case
            typical = math.sqrt(found / (2 * network.buses)) * network.base_mva
            rows = [
                (name, f"{found:.4g} (in one place {central:.3g})"),
                ("Which is, at an average bus", f"{typical:.3g} MW or MVAr that do not balance"),
            ]
        rows.append(("Consensus residual, relative", f"{values['consensus_residual']:.3g}"))
        rows.append(("Largest violation, per unit", f"{values['max_violation']:.3g}"))
        if self.ignored:
            rows.append(("Not read from the case", "; ".join(self.ignored)))
        return rows


def zone_warnings(grid: Grid) -> tuple[str, ...]:
    """Return which zones are not connected."""
    return tuple(
        f"the buses of zone {zone + 1} are not connected by lines within the zone; check it"
        for zone in grid.zones.split
    )


def grid_page(report: GridReport) -> Page:
    """Return the page of a run."""
    flow, grid = report.study, report.study.grid
    run, network, settings = flow.run, grid.relaxation.network, flow.settings
    kind = "Power flow" if math.isinf(run.certificate.epsilon) else "Private power flow"
    note = Note("The objective is not shown: it is an un-noised function of private demand.")
    if report.shown:
        note = Note(
            "The objective is the sum of squared power imbalances at the true demand: an un-noised "
            "function of it, outside the certificate."
        )
    return run_page(
        run,
        title=f"{kind} on {network.name}",
        story=f"{grid.zones.count} zones of a network of {network.buses} buses and {network.lines} "
        f"lines agreed on its state in {settings.rounds} rounds, over "
        f"{len(ties(network, grid.zones))} tie lines. Each was asked "
        f"{_QUESTIONS[settings.question]}, and answered {how_answered(run)}.",
        warnings=report.warnings,
        sections=(
            network_section(network, grid.zones, zone_rows(grid)),
            Section("Accuracy", (Table(report.rows()), note, _curves(report))),
            Section("Settings", (Table(_settings(flow)),)),
        ),
        unprotected=_UNPROTECTED,
        holds="numbers in results.json, the state of the network in state.json",
    )


def zone_rows(grid: Grid) -> list[tuple[str, str]]:
    """Return (name, text) of every zone: its buses, number of variables, and ties."""
    network, of_bus = grid.relaxation.network, grid.zones.of_bus
    crossing, rows = network.ends[ties(network, grid.zones)], []
    for zone, part in enumerate(grid.parts):
        ends = np.where(of_bus[crossing[:, :1]] == zone, crossing, crossing[:, ::-1])
        inner = network.numbers[ends[of_bus[ends[:, 0]] == zone]].tolist()
        named = ", ".join(f"{a}\u2013{b}" for a, b in inner[:_MOST_NAMED])
        more = f" and {len(inner) - _MOST_NAMED} more" if len(inner) > _MOST_NAMED else ""
        shared = f"ties {named}{more}" if inner else "no ties"
        buses = ranges(network.numbers[of_bus == zone].tolist())
        text = f"buses {buses}; {len(part.columns)} variables; {shared}"
        rows.append((f"zone {zone + 1}", text))
    return rows


def _curves(report: GridReport) -> Drawing:
    """Draw the metrics by round on logarithmic axes."""
    curves = report.further()["curves"]
    names = {
        "objective": "objective, (per unit) squared",
        "consensus_residual": "consensus residual, relative",
        "max_violation": "largest violation, per unit",
    }

    def draw(figure: Figure) -> None:
        places = figure.subplots(1, len(curves), squeeze=False)[0]
        for axes, name in zip(places, [n for n in names if n in curves], strict=True):
            values = np.maximum(curves[name], 1e-16)
            axes.semilogy(np.arange(1, len(values) + 1), values, color=BLUE)
            label_axes(axes, names[name], "round")
            axes.locator_params(axis="x", integer=True)

    return drawing("Metrics after every round", 2.9, draw)


def _settings(flow: Flow) -> list[tuple[str, str]]:
    plan, grid = flow.run.plan, flow.grid
    base, sizes = grid.relaxation.network.base_mva, [len(part.columns) for part in grid.parts]
    return [
        (
            "beta, how far one demand may move",
            f"{flow.proposal.beta:g} per unit ({flow.proposal.beta * base:g} MW or MVAr)",
        ),
        ("question", _QUESTIONS[flow.settings.question]),
        ("rounds", str(flow.settings.rounds)),
        ("local updates per round", str(flow.settings.updates)),
        ("variables", f"{grid.relaxation.layout.size}, of zones {spread(sizes)}"),
        ("ADMM parameter rho", f"{flow.settings.rho:g}"),
        ("zones use", "the public Hessian" if grid.sets.has_hessians else "linearised steps"),
        ("proximal weight (1/eta)", f"{proximal_weight(grid, flow.settings):g}"),
        ("longest row |a_i|", f"{plan.spec.record_norm:.4g}"),
        ("sensitivity", plan.bounds[0].derivation),
        ("noise multiplier (scale / sensitivity)", f"{plan.multiplier:.5g}"),
        ("noise scale of an answer, per unit", f"{float(np.max(plan.ledger.scale)):.5g}"),
    ]
