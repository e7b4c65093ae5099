"""`taciturn grid`: private power flow, optimal or balanced among zones, and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import taciturn_power as power
from taciturn import checks
from taciturn.cli import (
    ACCOUNT_OPTIONS,
    account_given,
    error_line,
    interruptible,
    one_of,
    path,
    read_text,
)
from taciturn.engine import check_chargeable
from taciturn.errors import InputError
from taciturn.proposal import check_seed
from taciturn.report import (
    Page,
    check_out,
)
from taciturn_power.balance.flow import run_proposal
from taciturn_power.balance.page import GridStudy, grid_page, grid_told
from taciturn_power.balance.proposal import GridProposal
from taciturn_power.cases.case import Case
from taciturn_power.charging import Carried, reserved
from taciturn_power.day.page import day_page
from taciturn_power.day.results import DayReport, day_told
from taciturn_power.day.study import DayProposal
from taciturn_power.delivery import Keeper, Told, deliver
from taciturn_power.grids.network import Network
from taciturn_power.grids.zones import BUILT_IN
from taciturn_power.models.cost import has_costs
from taciturn_power.models.dispatch import MODELS
from taciturn_power.moment.asking import HIDDEN
from taciturn_power.moment.hidden import read_beta
from taciturn_power.moment.opf import OpfProposal
from taciturn_power.moment.page import opf_page
from taciturn_power.moment.results import OpfReport, opf_told
from taciturn_power.opf_command import (
    OF_BALANCE,
    OF_DAY,
    OF_OPF,
    day_of,
    day_proposal,
    day_report,
    opf_report,
    proposed,
)


def grid(  # noqa: PLR0913, PLR0917 - one parameter per option
    case: Annotated[
        str,
        typer.Argument(
            help="case14, case118, pandapower:NAME, a MATPOWER .m file, or JSON of pandapower."
        ),
    ],
    beta: Annotated[
        str | None,
        typer.Option(
            help="How far one demand (active or reactive, of one bus) may change unnoticed: 10MW, "
            "or 5% of --largest-demand, or per unit, so 0.01 is 1 MW where baseMVA is 100."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Total budget; inf for a run without noise.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Total budget; below 1/(number of demands).")
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(
            help="opf, the cheapest dispatch, or balance, a state that zones agree on; if not "
            "given, opf where the case has costs."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Of opf: dc (if not given) or soc, the cone relaxation.")
    ] = None,
    eta: Annotated[
        str | None,
        typer.Option(
            help="Of opf: the dispatch serves the true demand with probability at least 1 - eta, "
            "in DC; 0.05 if not given, none for no such promise."
        ),
    ] = None,
    hide: Annotated[
        str | None,
        typer.Option(
            help="Of opf, what may change by beta at once: one demand (if not given), both of a "
            "bus, or those of a zone."
        ),
    ] = None,
    series: Annotated[
        list[Path] | None,
        typer.Option(
            parser=path,
            help="Of opf: a day of demands, CSV with bus, time, MW, MVAr; again for each zone's.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            help="Of a day: CSV with time, weight: public shares of the budget; equal if not "
            "given.",
        ),
    ] = None,
    smooth: Annotated[
        bool,
        typer.Option("--smooth", help="Of a day: smooth the answers, which costs no privacy."),
    ] = False,
    largest_demand: Annotated[
        str | None,
        typer.Option(
            help="A public bound on any demand, as 200MW: what beta may be per cent of, and what "
            "answers are checked to have room for."
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Of balance: how often zones exchange tie variables.")
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
        typer.Option(
            help=f"Of balance: {', '.join(power.QUESTIONS)}; {power.DEFAULT_QUESTION} if not given."
        ),
    ] = None,
    local_updates: Annotated[
        int | None, typer.Option(help="Of balance: local updates per round; 1 if not given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the noise: then the run is a reproduction, not private.")
    ] = None,
    oracle_metrics: Annotated[
        bool,
        typer.Option(
            "--oracle-metrics",
            help="Show what is computed from the true demand though it is private.",
        ),
    ] = False,
    account: Annotated[str | None, typer.Option(help=ACCOUNT_OPTIONS["account"][1])] = None,
    accounts: Annotated[
        Path | None, typer.Option(parser=path, help=ACCOUNT_OPTIONS["accounts"][1])
    ] = None,
    another_account: Annotated[
        bool, typer.Option("--another-account", help=ACCOUNT_OPTIONS["another_account"][1])
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A new folder for the report.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Run a power network among zones that keep their demand private: dispatch, or agree."""
    given = {
        "problem": problem,
        "model": model,
        "eta": eta,
        "hide": hide,
        "weights": weights,
        "smooth": smooth or None,
        "largest-demand": largest_demand,
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
    charged = account_given(
        {"account": account, "accounts": accounts, "another_account": another_account}
    )
    if charged is not None:
        check_chargeable(seed=seed, conditional=False)
    days = series or []
    held = days or ([] if power.is_published(case) else [Path(case)])
    carried = Carried(seed, oracle_metrics, charged, tuple(held), Keeper(out, force))
    text = None if proposal is None else read_text(proposal)
    with carried.keeper.failing():
        found = interruptible(lambda: _solved(case, given, text, days, carried))
    for warning in found.warnings:
        error_line(warning, kind="warning: ")
    with carried.keeper.failing():
        told, page = _told(found)
        deliver(told, page, carried.keeper, json=json)


def _told(found: GridStudy | OpfReport | DayReport) -> tuple[Told, Callable[[], Page]]:
    """Return what is told of a finished run, and its page, which takes a while."""
    if isinstance(found, DayReport):
        return day_told(found), partial(day_page, found)
    if isinstance(found, OpfReport):
        return opf_told(found), partial(opf_page, found)
    return grid_told(found), partial(grid_page, found)


def _check(given: dict[str, Any]) -> None:
    """Raise unless every option that can be checked without the case is valid."""
    for name in ("beta", "epsilon", "delta"):
        if given[name] is None:
            raise InputError(f"no {name} is given; add --{name}, or --proposal FILE, which says it")
    for option, known in _CHOICES.items():
        if given[option] is not None:
            one_of(f"--{option}", given[option], known)
    # the base does not matter to whether it can be read
    read_beta(given["beta"], base_mva=1.0, largest=given["largest-demand"])
    checks.positive("epsilon", given["epsilon"], allow_infinity=True)
    checks.delta(given["delta"])
    if given["rounds"] is not None:
        checks.at_least("rounds", given["rounds"], 1)
    if given["local-updates"] is not None:
        checks.at_least("local-updates", given["local-updates"], 1)


_CHOICES: dict[str, tuple[str, ...]] = {
    "problem": ("opf", "balance"),
    "question": power.QUESTIONS,
    "model": MODELS,
    "hide": HIDDEN,
}


def _problem(case: Case, given: dict[str, Any], series: Sequence[Path]) -> str:
    """Return the problem that the options ask for; those of the other one are refused."""
    problem = given["problem"] or ("opf" if has_costs(case) else "balance")
    other, strange = ("balance", OF_BALANCE) if problem == "opf" else ("opf", (*OF_OPF, *OF_DAY))
    named = [name for name in strange if given[name] is not None]
    named += ["series"] if series and problem == "balance" else []
    if named:
        raise InputError(
            f"--{named[0]} belongs to the problem {other}, and this is {problem}; add --problem "
            f"{other}, or leave --{named[0]} out"
        )
    if problem == "opf" and not has_costs(case):
        raise InputError(
            f"{case.name} has no costs (mpc.gencost), so nothing is cheapest; give them, or take "
            "--problem balance"
        )
    if problem == "balance" and given["rounds"] is None:
        raise InputError("no rounds is given; add --rounds, or --proposal FILE, which says it")
    return problem


def _refuse_beside_proposal(given: dict[str, Any]) -> None:
    also = [name for name, value in given.items() if value is not None]
    if also:
        raise InputError(
            f"--{also[0]} is given with a proposal, which says everything public about the run; "
            "leave it out"
        )


def _solved(
    choice: str,
    given: dict[str, Any],
    text: str | None,
    days: Sequence[Path],
    carried: Carried,
) -> GridStudy | OpfReport | DayReport:
    case = power.chosen_case(choice)
    network = power.network(case)
    if text is None:
        problem = _problem(case, given, days)
    else:
        named = (f'"{kind.FORMAT}"' for kind in (OpfProposal, DayProposal))
        problem = "opf" if any(name in text for name in named) else "balance"
    series = day_of(days, network, given, text)
    if problem == "balance":
        return _balanced(choice, (case, network), given, text, carried)
    if series is not None:
        of_day = day_proposal(case, network, given, text, series)
        _check_buses(len(of_day.zones), network, choice)
        return day_report(choice, case, of_day, series, carried)
    proposal = proposed(case, network, given) if text is None else OpfProposal.from_json(text)
    _check_buses(len(proposal.zones), network, choice)
    return opf_report(choice, case, proposal, carried)


def _check_buses(buses: int, network: Network, choice: str) -> None:
    if buses != network.buses:
        raise InputError(
            f"the proposal is for {buses} buses, {choice} has {network.buses}; name the case it "
            "was made for"
        )


def _balanced(
    choice: str,
    data: tuple[Case, Network],
    given: dict[str, Any],
    text: str | None,
    carried: Carried,
) -> GridStudy:
    case, network = data
    relaxation = power.relax(network)
    if text is None:
        prepared = power.grid(relaxation, power.chosen_zones(network, given["zones"]))
        settings = power.Settings(
            given["question"] or power.DEFAULT_QUESTION,
            given["rounds"],
            given["local-updates"] or 1,
        )
        beta = read_beta(given["beta"], base_mva=case.base_mva, largest=given["largest-demand"])
        budget = {name: given[name] for name in ("epsilon", "delta")}
        proposal = GridProposal.of(prepared, settings, beta=beta, **budget)
    else:
        proposal = GridProposal.from_json(text)
        _check_buses(len(proposal.zones), network, choice)
        prepared = power.grid(relaxation, proposal.partition(network))
    with reserved(carried, proposal) as reservation:
        release = partial(carried.keeper.keep, proposal, choice)
        flow = run_proposal(
            prepared, proposal, seed=carried.seed, account=reservation, release=release
        )
    optimum = power.central(relaxation, relaxation.demand)
    return GridStudy(choice, flow, optimum, carried.oracle, case.ignored)
