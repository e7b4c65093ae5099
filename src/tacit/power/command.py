"""`tacit grid`: private power flow among zones, its certificate and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit import checks, power
from tacit.cli.interrupt import interruptible
from tacit.cli.output import emit, error_line, one_of
from tacit.power.page import save_grid
from tacit.power.results import GridStudy, grid_results
from tacit.proposal import check_seed
from tacit.report import check_out


def grid(  # noqa: PLR0913, PLR0917 - one parameter per option
    case: Annotated[str, typer.Argument(help="case14, case118, or a MATPOWER .m file.")],
    beta: Annotated[
        float,
        typer.Option(
            help="How far one demand (active or reactive, of one bus) may change unnoticed: not a "
            "fraction of it but per unit, so 0.01 is 1 MW where baseMVA is 100."
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="Total budget; inf for a run without noise.")],
    delta: Annotated[float, typer.Option(help="Total budget; below 1/(number of demands).")],
    rounds: Annotated[int, typer.Option(help="How often zones exchange tie variables.")],
    zones: Annotated[
        str | None,
        typer.Option(
            help="How many, or a file: a zone per line, as 1-5, 7. If not given: built in "
            "for case14 and case118, else 3."
        ),
    ] = None,
    question: Annotated[
        str, typer.Option(help="demand (asked once), residual or gradient.")
    ] = "demand",
    local_updates: Annotated[int, typer.Option(help="Local updates per round.")] = 1,
    seed: Annotated[
        int | None, typer.Option(help="Of the noise: then the run is a reproduction, not private.")
    ] = None,
    oracle_metrics: Annotated[
        bool,
        typer.Option("--oracle-metrics", help="Show the objective though the demand is private."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A new folder for the report.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Agree on the state of a power network among zones that keep their demand private."""
    asked = {"beta": beta, "epsilon": epsilon, "delta": delta, "rounds": rounds, "seed": seed,
             "question": question, "updates": local_updates}  # fmt: skip
    _check(asked, out, force=force)
    study = interruptible(lambda: _solved(case, zones, asked, oracle=oracle_metrics))
    for warning in study.warnings:
        error_line(warning, kind="warning: ")
    _deliver(study, out, force=force, json=json)


def _check(asked: dict[str, Any], out: Path | None, *, force: bool) -> None:
    """Raise unless everything that needs no case is in order."""
    one_of("--question", asked["question"], power.QUESTIONS)
    checks.positive("beta", asked["beta"])
    checks.positive("epsilon", asked["epsilon"], allow_infinity=True)
    checks.delta(asked["delta"])
    checks.at_least("rounds", asked["rounds"], 1)
    checks.at_least("local-updates", asked["updates"], 1)
    if asked["seed"] is not None:
        check_seed("seed", asked["seed"])
    if out is not None:
        check_out(out, force=force)


def _solved(case: str, zones: str | None, asked: dict[str, Any], *, oracle: bool) -> GridStudy:

    network = power.network(power.chosen_case(case))
    relaxation = power.relax(network)
    made = power.chosen_zones(network, zones)
    prepared = power.grid(relaxation, made)
    optimum = power.central(relaxation, relaxation.demand)
    settings = power.Settings(asked["question"], asked["rounds"], asked["updates"])
    budget = {name: asked[name] for name in ("beta", "epsilon", "delta", "seed")}
    flow = power.solve_privately(prepared, settings, **budget)
    return GridStudy(case, flow, optimum, oracle)


def _deliver(study: GridStudy, out: Path | None, *, force: bool, json: bool) -> None:

    if out is not None:
        save_grid(study, out, force=force)
    if json:
        emit(grid_results(study, out))
    else:
        typer.echo(_sentences(study, out))


def _sentences(study: GridStudy, out: Path | None) -> str:

    values = grid_results(study, out)
    certificate = study.flow.run.certificate
    objective = "not shown: the demand is private (--oracle-metrics shows it)"
    if study.shows_objective:
        objective = f"{values['objective']:.4g} (in one place {values['central_objective']:.3g})"
    lines = [
        f"Power flow on {values['case']}: {values['buses']} buses, {values['lines']} lines, "
        f"{values['zones']} zones, {values['ties']} ties",
        f"Question {values['question']}, {values['rounds']} rounds of {values['local_updates']} "
        "local updates",
        "",
        "Certificate",
        *(f"  {line}" for line in certificate.lines()),
        "",
        f"Objective, per unit squared  {objective}",
        f"Consensus residual           {values['consensus_residual']:.3g}",
        f"Largest violation, per unit  {values['max_violation']:.3g}",
        f"Took {values['seconds']:.1f} s",
        "No report was written; --out DIR writes one" if out is None
        else f"Report: {out / 'report.html'}",
    ]  # fmt: skip
    return "\n".join(lines)
