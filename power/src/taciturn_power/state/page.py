"""The report of a state that balances: results as plain values, sentences and one page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

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
from taciturn_power import Flow, Grid, Optimum, ties
from taciturn_power.cases.reading import is_published
from taciturn_power.delivery import Summary, run_values
from taciturn_power.grids.figure import how_answered, network_section, ranges
from taciturn_power.state.study import proximal_weight


@dataclass(frozen=True, eq=False)
class GridStudy:
    """A run of private power flow with the central optimum to compare it with.

    `case` is as the user named it; `ignored` is what its file says and nothing here reads. With
    `oracle` the objective at unpublished demand, computed without noise, may be shown.
    """

    case: str
    flow: Flow
    optimum: Optimum
    oracle: bool
    ignored: tuple[str, ...] = ()

    @property
    def shows_objective(self) -> bool:
        """Whether the objective at the true demand is shown: published, no noise, or `oracle`."""
        private = math.isfinite(self.flow.run.certificate.epsilon)
        return is_published(self.case) or not private or self.oracle

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the zones."""
        return tuple(
            f"the buses of zone {zone + 1} do not hang together by lines within the zone; check it"
            for zone in self.flow.grid.zones.split
        )


def grid_results(study: GridStudy, out: Path | None) -> dict[str, Any]:
    """Return the results as strictly valid JSON values, powers per unit.

    Notes
    -----
    **Guarantee.** `objective` and `central_objective` are un-noised functions of the demand. They
    are None unless the case is published, the run had no noise, or `oracle` is set.
    """
    flow = study.flow
    relaxation = flow.grid.relaxation
    shown = study.shows_objective
    values: dict[str, Any] = strict(
        {
            "case": relaxation.network.name,
            "buses": relaxation.network.buses,
            "lines": relaxation.network.lines,
            "zones": flow.grid.zones.count,
            "ties": len(ties(relaxation.network, flow.grid.zones)),
            "shared_variables": int(np.sum(np.asarray(flow.grid.sharing.holders) > 1)),
            "beta": flow.proposal.beta,
            "question": flow.settings.question,
            "rounds": flow.settings.rounds,
            "local_updates": flow.settings.updates,
            "objective": flow.objective[-1] if shown else None,
            "central_objective": study.optimum.objective if shown else None,
            "consensus_residual": flow.consensus_residual[-1],
            "max_violation": flow.violation[-1],
            "noise_scale": float(np.max(flow.run.ledger.scale)),
            "noise_magnitude": float(np.sum(flow.noise)),
            **run_values(flow.run, flow.proposal, out, study.warnings, ignored=study.ignored),
        }
    )
    return values


def grid_curves(study: GridStudy) -> dict[str, list[float]]:
    """Return the metrics after every round; the objective only where it is shown."""
    flow = study.flow
    values = {"consensus_residual": flow.consensus_residual, "max_violation": flow.violation}
    if study.shows_objective:
        values["objective"] = flow.objective
    curves: dict[str, list[float]] = strict(values)
    return curves


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


def grid_summary(study: GridStudy) -> Summary:
    """Return the summary of the run.

    `state.json` holds the released state of the network: a function of noised answers.
    """
    flow = study.flow
    return Summary(
        run=flow.run,
        proposal=flow.proposal,
        data=study.case,
        results=partial(grid_results, study),
        files=lambda: {"state.json": json_text(strict(_state(study)))},
        rows=partial(grid_rows, study),
        head="Power flow on {case}: {buses} buses, {lines} lines, {zones} zones, {ties} ties\n"
        "Question {question}, {rounds} rounds of {local_updates} local updates",
        took="",
        further={"curves": grid_curves(study)},
    )


def grid_rows(study: GridStudy) -> list[tuple[str, str]]:
    """Return the main results as (name, text), for the terminal and for the page."""
    values, network = grid_results(study, None), study.flow.grid.relaxation.network
    name = "Objective, per unit squared"
    objective = [(name, "not shown: the demand is private (--oracle-metrics shows it)")]
    if study.shows_objective:
        found, central = values["objective"], values["central_objective"]
        # the root mean square over all 2N balance equations, in the units of the case
        typical = math.sqrt(found / (2 * network.buses)) * network.base_mva
        objective = [
            (name, f"{found:.4g} (in one place {central:.3g})"),
            ("Which is, at an average bus", f"{typical:.3g} MW or MVAr that do not balance"),
        ]
    return [
        *objective,
        ("Consensus residual, relative", f"{values['consensus_residual']:.3g}"),
        ("Largest violation, per unit", f"{values['max_violation']:.3g}"),
        *([("Not read from the case", "; ".join(study.ignored))] if study.ignored else []),
    ]


def grid_page(study: GridStudy) -> Page:
    """Return the page of a run."""
    run, grid = study.flow.run, study.flow.grid
    network = grid.relaxation.network
    kind = "Power flow" if math.isinf(run.certificate.epsilon) else "Private power flow"
    return run_page(
        run,
        title=f"{kind} on {network.name}",
        story=_story(study),
        warnings=study.warnings,
        sections=(
            network_section(network, grid.zones, zone_rows(grid)),
            Section("How well it does", (Table(grid_rows(study)), _note(study), _curves(study))),
            Section("Settings", (Table(_settings(study)),)),
        ),
        unprotected=_UNPROTECTED,
        holds="numbers in results.json, the state of the network in state.json",
    )


def _story(study: GridStudy) -> str:
    flow = study.flow
    network, zones = flow.grid.relaxation.network, flow.grid.zones
    crossing = len(ties(network, zones))
    return (
        f"{zones.count} zones of a network of {network.buses} buses and {network.lines} lines "
        f"agreed on its state in {flow.settings.rounds} rounds, over {crossing} tie lines. Each "
        f"was asked {_QUESTIONS[flow.settings.question]}, and answered {how_answered(flow.run)}."
    )


def zone_rows(grid: Grid) -> list[tuple[str, str]]:
    """Return (name, text) of every zone: its buses, the number of its variables, its ties.

    Buses and lines are public. A tie is named by its two buses, this zone's first.
    """
    return [(f"zone {zone + 1}", _zone_text(grid, zone)) for zone in range(grid.zones.count)]


def _zone_text(grid: Grid, zone: int) -> str:
    numbers = grid.relaxation.network.numbers
    buses = numbers[grid.zones.of_bus == zone]
    crossing = _ties_of(grid, zone)
    named = ", ".join(crossing[:_MOST_NAMED])
    more = f" and {len(crossing) - _MOST_NAMED} more" if len(crossing) > _MOST_NAMED else ""
    shared = f"ties {named}{more}" if crossing else "no ties"
    variables = len(grid.parts[zone].columns)
    return f"buses {ranges(buses.tolist())}; {variables} variables; {shared}"


def _ties_of(grid: Grid, zone: int) -> list[str]:
    network, of_bus = grid.relaxation.network, grid.zones.of_bus
    ends = network.ends[ties(network, grid.zones)]
    ends = np.where((of_bus[ends[:, :1]] == zone), ends, ends[:, ::-1])
    inner = ends[of_bus[ends[:, 0]] == zone]
    return [f"{a}\u2013{b}" for a, b in network.numbers[inner].tolist()]


def _note(study: GridStudy) -> Note:
    if not study.shows_objective:
        return Note("The objective is not shown: it is an un-noised look at private demand.")
    return Note(
        "The objective is the sum of squared power imbalances at the true demand: an un-noised "
        "look at it, outside the certificate."
    )


def _curves(study: GridStudy) -> Drawing:
    """Draw the metrics by round on logarithmic axes."""
    curves = grid_curves(study)
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


def _settings(study: GridStudy) -> list[tuple[str, str]]:
    flow = study.flow
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
        ("weight of staying (1/eta)", f"{proximal_weight(grid, flow.settings):g}"),
        ("longest row |a_i|", f"{plan.spec.record_norm:.4g}"),
        ("sensitivity", plan.bounds[0].derivation),
        ("noise multiplier (scale / sensitivity)", f"{plan.multiplier:.5g}"),
        ("noise scale of an answer, per unit", f"{float(np.max(plan.ledger.scale)):.5g}"),
    ]


def _state(study: GridStudy) -> dict[str, object]:
    relaxation, x = study.flow.grid.relaxation, study.flow.state
    layout, network = relaxation.layout, relaxation.network
    line, generator = np.arange(layout.lines), np.arange(layout.generators)
    return {
        "bus": network.numbers,
        "voltage_magnitude": np.sqrt(np.maximum(x[: layout.buses], 0)),
        "from": network.numbers[network.ends[:, 0]],
        "to": network.numbers[network.ends[:, 1]],
        "flow": {
            name: x[layout.flow(kind, line)] for kind, name in enumerate(("pF", "qF", "pT", "qT"))
        },
        "generator_bus": network.numbers[network.generator_bus],
        "generation": {
            name: x[layout.generation(kind, generator)] for kind, name in enumerate(("p", "q"))
        },
    }
