"""`tacit grid`: private power flow among zones, its certificate and its report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit import checks, power
from tacit.budget import Account, Reservation
from tacit.cli.accounts import OPTIONS as ACCOUNT_OPTIONS
from tacit.cli.accounts import account_given, begun
from tacit.cli.console import emit, error_line, interruptible, one_of, path, read_text
from tacit.engine import check_chargeable, reserve
from tacit.errors import InputError
from tacit.power.flow import run_proposal
from tacit.power.page import GridStudy, grid_results, save_grid
from tacit.power.proposal import GridProposal
from tacit.power.zones import BUILT_IN
from tacit.proposal import check_seed
from tacit.report import charged_line, check_out


def grid(  # noqa: PLR0913, PLR0917 - one parameter per option
    case: Annotated[str, typer.Argument(help="case14, case118, or a MATPOWER .m file.")],
    beta: Annotated[
        float | None,
        typer.Option(
            help="How far one demand (active or reactive, of one bus) may change unnoticed: not a "
            "fraction of it but per unit, so 0.01 is 1 MW where baseMVA is 100."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Total budget; inf for a run without noise.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Total budget; below 1/(number of demands).")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="How often zones exchange tie variables.")
    ] = None,
    proposal: Annotated[
        Path | None,
        typer.Option(parser=path, help="A proposal.json of a report, in place of the options."),
    ] = None,
    zones: Annotated[
        str | None,
        typer.Option(
            help="How many, or a file: a zone per line, as 1-5, 7. If not given: built in "
            f"for {' and '.join(BUILT_IN)}, else 3."
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(power.QUESTIONS)}; {power.DEFAULT_QUESTION} if not given."),
    ] = None,
    local_updates: Annotated[
        int | None, typer.Option(help="Local updates per round; 1 if not given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the noise: then the run is a reproduction, not private.")
    ] = None,
    oracle_metrics: Annotated[
        bool,
        typer.Option("--oracle-metrics", help="Show the objective though the demand is private."),
    ] = False,
    account: Annotated[str | None, typer.Option(help=ACCOUNT_OPTIONS["account"][1])] = None,
    accounts: Annotated[
        Path | None, typer.Option(parser=path, help=ACCOUNT_OPTIONS["accounts"][1])
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder for the report.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Agree on the state of a power network among zones that keep their demand private."""
    given = {
        "beta": beta,
        "epsilon": epsilon,
        "delta": delta,
        "rounds": rounds,
        "zones": zones,
        "question": question,
        "local-updates": local_updates,
    }
    if seed is not None:
        check_seed("seed", seed)
    if out is not None:
        check_out(out, force=force)
    if proposal is None:
        _check(given)
    else:
        _refuse_beside_proposal(given)
    charged = account_given({"account": account, "accounts": accounts})
    if charged is not None:
        check_chargeable(seed=seed, conditional=False)
    run = Wanted(proposal, seed, oracle_metrics, charged)
    study = interruptible(lambda: _solved(case, given, run))
    for warning in study.warnings:
        error_line(warning, kind="warning: ")
    _deliver(study, out, force=force, json=json)


def _check(given: dict[str, Any]) -> None:
    """Raise unless every option that can be checked without the case is valid."""
    for name in ("beta", "epsilon", "delta", "rounds"):
        if given[name] is None:
            raise InputError(f"no {name} is given; add --{name}, or --proposal FILE, which says it")
    one_of("--question", given["question"] or power.DEFAULT_QUESTION, power.QUESTIONS)
    checks.positive("beta", given["beta"])
    checks.positive("epsilon", given["epsilon"], allow_infinity=True)
    checks.delta(given["delta"])
    checks.at_least("rounds", given["rounds"], 1)
    if given["local-updates"] is not None:
        checks.at_least("local-updates", given["local-updates"], 1)


def _refuse_beside_proposal(given: dict[str, Any]) -> None:
    also = [name for name, value in given.items() if value is not None]
    if also:
        raise InputError(
            f"--{also[0]} is given with a proposal, which says everything public about the run; "
            "leave it out"
        )


@dataclass(frozen=True)
class Wanted:
    """How a run is to be carried out: its proposal's file, seed, figures and account."""

    proposal: Path | None
    seed: int | None
    oracle: bool
    account: Account | None


def _solved(case: str, given: dict[str, Any], wanted: Wanted) -> GridStudy:
    file = wanted.proposal
    network = power.network(power.chosen_case(case))
    relaxation = power.relax(network)
    if file is None:
        prepared = power.grid(relaxation, power.chosen_zones(network, given["zones"]))
        settings = power.Settings(
            given["question"] or power.DEFAULT_QUESTION,
            given["rounds"],
            given["local-updates"] or 1,
        )
        budget = {name: given[name] for name in ("beta", "epsilon", "delta")}
        proposal = GridProposal.of(prepared, settings, **budget)
    else:
        proposal = GridProposal.from_json(read_text(file))
        if len(proposal.zones) != network.buses:
            raise InputError(
                f"the proposal is for {len(proposal.zones)} buses, {case} has {network.buses}; "
                "name the case it was made for"
            )
        prepared = power.grid(relaxation, proposal.partition(network))
    with _reserved(case, proposal, wanted) as reservation:
        flow = run_proposal(prepared, proposal, seed=wanted.seed, account=reservation)
    optimum = power.central(relaxation, relaxation.demand)
    return GridStudy(case, flow, optimum, wanted.oracle)


@contextmanager
def _reserved(case: str, proposal: GridProposal, wanted: Wanted) -> Iterator[Reservation | None]:
    """Yield the reservation for a proposal, begun; closed as failed unless the run closes it.

    Demand stands in the file of the case, beside what is public, and was read with it.
    """
    if wanted.account is None:
        yield None
        return
    plan = proposal.plan()
    what = f"power flow on {proposal.network.name}"
    reservation = reserve(wanted.account, plan, seed=wanted.seed, what=what,
                          proposal=proposal.digest)  # fmt: skip
    try:
        begun(reservation, [] if case in power.BUNDLED else [Path(case)])
        yield reservation
    finally:
        reservation.close(released=False)


def _deliver(study: GridStudy, out: Path | None, *, force: bool, json: bool) -> None:
    if out is not None:
        save_grid(study, out, force=force)
    if json:
        emit(grid_results(study, out))
    else:
        typer.echo(_sentences(study, out))


def _sentences(study: GridStudy, out: Path | None) -> str:
    values = grid_results(study, out)
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
        *(f"  {line}" for line in study.flow.run.certificate.lines()),
        "",
        f"Objective, per unit squared  {objective}",
        f"Consensus residual           {values['consensus_residual']:.3g}",
        f"Largest violation, per unit  {values['max_violation']:.3g}",
        charged_line(study.flow.run.charged),
        f"Took {values['seconds']:.1f} s",
        f"Report: {out / 'report.html'}" if out else "No report was written; --out DIR writes one",
    ]
    return "\n".join(lines)
