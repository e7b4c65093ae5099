"""`tacit grid --series`: what is special about a day of optimal power flow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from tacit import power
from tacit.cli.console import emit
from tacit.errors import InputError
from tacit.power.case import Case
from tacit.power.cost import costs
from tacit.power.day import DayProposal, solve_day
from tacit.power.day_page import day_page
from tacit.power.day_results import DayReport, day_results, day_texts, day_told, day_warnings
from tacit.power.hidden import size_warning
from tacit.power.network import Network
from tacit.power.opf import CostFacts
from tacit.power.opf_command import Reserving, proposed
from tacit.power.reading import is_published
from tacit.power.series import Series, read_series, read_weights
from tacit.report import charged_line, write_folder

OF_DAY = ("weights", "smooth")


def day_proposal(
    case: Case, network: Network, given: dict[str, Any], text: str | None, series: Series
) -> DayProposal:
    """Return the proposal in a text, or that of the options for the steps of a series.

    Of the series only its times are read. A bound on demands that fits on the lattice of a moment
    fits on that of a step, whose noise is no less.
    """
    if text is not None:
        return DayProposal.from_json(text)
    moment, weights = proposed(case, network, given), np.ones(len(series.hours))
    if given["weights"] is not None:
        weights = read_weights(given["weights"], series.hours)
    return DayProposal(
        **{name: getattr(moment, name) for name in type(moment).model_fields},
        first_hour=float(series.hours[0]),
        step_hours=series.step_hours,
        weights=tuple(weights.tolist()),
        smooth=bool(given["smooth"]),
    )


def day_report(  # noqa: PLR0913 - a case, its day, and how the run is to be carried out
    choice: str,
    case: Case,
    proposal: DayProposal,
    series: Series,
    *,
    seed: int | None,
    oracle: bool,
    reserving: Reserving,
) -> DayReport:
    """Return the report of a run of a proposal on a day."""
    network = power.network(case)
    if CostFacts.of(costs(case)) != proposal.costs:
        raise InputError(
            f"the proposal is for {proposal.network.name} with other costs than those of {choice}; "
            "propose again"
        )
    with reserving(choice, proposal) as reservation:
        study = solve_day(network, proposal, series, seed=seed, account=reservation)
    private = math.isfinite(study.run.certificate.epsilon)
    size = size_warning(case, proposal.beta, bundled=is_published(choice))
    return DayReport(
        study=study,
        network=network,
        series=series,
        shows_demand=oracle or not private,
        warnings=(*day_warnings(study), *([size] if size and private else [])),
    )


def deliver_day(report: DayReport, out: Path | None, *, force: bool, json: bool) -> None:
    """Write the folder, if one is wanted, and print the results."""
    if out is not None:
        texts, certificate = day_texts(report, day_page(report), out)
        write_folder(texts, out, force=force, certificate=certificate)
    if json:
        emit(day_results(report, out))
    else:
        typer.echo(_sentences(report, out))


def day_of(
    files: Sequence[Path], network: Network, given: dict[str, Any], text: str | None
) -> Series | None:
    """Return the day of a series, None where no day is asked for.

    Raises
    ------
    InputError
        If an option or a proposal is about a day and no series is given, or a series is given with
        a proposal that is of a moment.
    """
    of_day = text is not None and f'"{DayProposal.FORMAT}"' in text
    named = [name for name in OF_DAY if given[name] is not None]
    if files and (text is None or of_day):
        return read_series(files, network)
    if files:
        raise InputError(
            "--series is given with a proposal that is not of a day; leave it out, or name the "
            "proposal of a day"
        )
    if of_day:
        raise InputError("the proposal is of a day; add --series FILE with its demands")
    if named:
        raise InputError(f"--{named[0]} is for a day; add --series FILE, or leave it out")
    return None


def _sentences(report: DayReport, out: Path | None) -> str:
    values, rows = day_results(report, out), day_told(report)
    width = max(len(name) for name, _ in rows)
    lines = [
        f"Optimal power flow on {values['case']} ({values['model']}), {len(values['steps'])} steps "
        f"of {values['step_hours']:g} h: {values['buses']} buses, {values['lines']} lines, "
        f"{values['zones']} zones",
        "",
        "Certificate",
        *(f"  {line}" for line in report.study.run.certificate.lines()),
        "",
        *(f"{name.ljust(width)}  {text}" for name, text in rows),
        charged_line(report.study.run.charged),
        f"Took {values['seconds']:.1f} s to ask",
        f"Report: {out / 'report.html'}" if out else "No report was written; --out DIR writes one",
    ]
    return "\n".join(lines)
