"""`tacit grid --problem opf`: what is special about optimal power flow."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypedDict

import typer

from tacit import power
from tacit.budget import Reservation
from tacit.cli.console import emit
from tacit.errors import InputError
from tacit.power.asking import check_lattice
from tacit.power.case import Case
from tacit.power.cost import costs
from tacit.power.hidden import read_beta, read_largest, size_warning
from tacit.power.network import Network
from tacit.power.opf import CostFacts, OpfProposal, solve_opf
from tacit.power.opf_page import opf_page
from tacit.power.opf_results import OpfReport, opf_results, opf_texts, opf_warnings, told
from tacit.power.reading import is_published
from tacit.report import charged_line, write_folder

DEFAULT_ETA = 0.05
OF_BALANCE = ("rounds", "question", "local-updates")
OF_OPF = ("model", "eta", "hide")

Reserving = Callable[[str, OpfProposal], AbstractContextManager[Reservation | None]]


class Carried(TypedDict):
    """How a run of a proposal is carried out."""

    seed: int | None
    oracle: bool
    reserving: Reserving


def chosen_eta(text: str | None, model: str, epsilon: float) -> float | None:
    """Return eta: as given, none for the word none, and 0.05 in DC with noise if not given.

    Raises
    ------
    InputError
        If it is neither a number nor `none`.
    """
    if text is None:
        return DEFAULT_ETA if model == "dc" and math.isfinite(epsilon) else None
    if text.strip().lower() == "none":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"eta is {text!r}; give a number, say 0.05, or none") from error


def proposed(case: Case, network: Network, given: dict[str, Any]) -> OpfProposal:
    """Return the proposal of the options; the demand is not read."""
    model = given["model"] or "dc"
    beta = read_beta(given["beta"], base_mva=case.base_mva, largest=given["largest-demand"])
    largest = given["largest-demand"]
    proposal = OpfProposal.of(
        network,
        costs(case),
        power.chosen_zones(network, given["zones"]),
        hide=given["hide"] or "demand",
        model=model,
        eta=chosen_eta(given["eta"], model, given["epsilon"]),
        beta=beta,
        epsilon=given["epsilon"],
        delta=given["delta"],
    )
    if largest is not None:
        check_lattice(proposal.plan(), read_largest(largest, base_mva=case.base_mva))
    return proposal


def solved_report(
    choice: str,
    case: Case,
    proposal: OpfProposal,
    *,
    seed: int | None,
    oracle: bool,
    reserving: Reserving,
) -> OpfReport:
    """Return the report of a run of a proposal on a case."""
    network = power.network(case)
    if CostFacts.of(costs(case)) != proposal.costs:
        raise InputError(
            f"the proposal is for {proposal.network.name} with other costs than those of {choice}; "
            "propose again"
        )
    with reserving(choice, proposal) as reservation:
        study = solve_opf(network, proposal, seed=seed, account=reservation)
    published = is_published(choice)
    size = size_warning(case, proposal.beta, bundled=published)
    private = math.isfinite(study.run.certificate.epsilon)
    return OpfReport(
        study=study,
        case=case,
        network=network,
        shows_demand=published or oracle or not private,
        warnings=(*opf_warnings(study), *([size] if size and private else [])),
    )


def deliver(report: OpfReport, out: Path | None, *, force: bool, json: bool) -> None:
    """Write the folder, if one is wanted, and print the results."""
    if out is not None:
        texts, certificate = opf_texts(report, opf_page(report), out)
        write_folder(texts, out, force=force, certificate=certificate)
    if json:
        emit(opf_results(report, out))
    else:
        typer.echo(_sentences(report, out))


def _sentences(report: OpfReport, out: Path | None) -> str:
    values, rows = opf_results(report, out), told(report)
    width = max(len(name) for name, _ in rows)
    lines = [
        f"Optimal power flow on {values['case']} ({values['model']}): {values['buses']} buses, "
        f"{values['lines']} lines, {values['zones']} zones, {values['ties']} ties",
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
