"""`taciturn grid`: private optimal power flow, or a balanced state by consensus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
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
    takes,
)
from taciturn.engine import check_chargeable
from taciturn.errors import InputError
from taciturn.report import check_out
from taciturn.training import check_seed
from taciturn_power.cases import Case
from taciturn_power.delivery import Execution, Keeper, deliver, reserved
from taciturn_power.dispatch import asking
from taciturn_power.dispatch.page import opf_page
from taciturn_power.dispatch.results import DayReport, OpfReport, opf_warnings
from taciturn_power.dispatch.series import Series, read_series, read_weights
from taciturn_power.dispatch.study import (
    DayProposal,
    OpfProposal,
    ask_demand,
    check_opf,
    solve_at_answers,
)
from taciturn_power.grids.network import Network
from taciturn_power.grids.zones import BUILT_IN
from taciturn_power.models.cost import CostFacts, costs, has_costs
from taciturn_power.state.page import GridReport, grid_page, zone_warnings
from taciturn_power.state.study import GridProposal, run_proposal

DEFAULT_ETA = 0.05
OF_BALANCE = ("rounds", "question", "local-updates")
OF_DAY = ("weights", "smooth")
OF_OPF = ("model", "eta", "hide", *OF_DAY)
_CHOICES: dict[str, tuple[str, ...]] = {
    "problem": ("opf", "balance"),
    "question": power.QUESTIONS,
    "model": power.MODELS,
    "hide": asking.HIDDEN,
}


_ACCOUNT = ("account", "accounts", "another_account")
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "beta": (
        str,
        "The largest change of one demand (active or reactive, of one bus) that is hidden: 10MW, "
        "5% of --largest-demand, or per unit (0.01 is 1 MW if baseMVA is 100).",
    ),
    "epsilon": (float, "Total budget; inf for a run without noise."),
    "delta": (float, "Total budget; choose it below 1/(number of demands)."),
    "problem": (
        str,
        "opf, the cheapest dispatch, or balance, a state on which zones agree. [default: opf if "
        "the case has costs]",
    ),
    "model": (str, "For opf: dc, or soc, the cone relaxation. [default: dc]"),
    "eta": (
        str,
        "For opf in DC: the share of all runs that may return a promised dispatch which fails to "
        "serve the true demand; none for no chance constraints. [default: 0.05]",
    ),
    "hide": (
        str,
        "For opf, what may change by beta at once: one demand, both of a bus, or those of a zone. "
        "[default: demand]",
    ),
    "weights": (
        Path,
        "For a day: CSV with time, weight: public shares of the budget. [default: equal]",
    ),
    "largest_demand": (
        str,
        "A public bound on any demand, such as 200MW: the base of a beta in per cent, and a value "
        "that answers must be able to represent.",
    ),
    "rounds": (int, "For balance: how often zones exchange tie variables."),
    "zones": (
        str,
        "A number, or a file with a zone per line, such as 1-5, 7. [default: built in for "
        f"{' and '.join(BUILT_IN)}, else 3]",
    ),
    "question": (
        str,
        f"For balance: {', '.join(power.QUESTIONS)}. [default: {power.DEFAULT_QUESTION}]",
    ),
    "local_updates": (int, "For balance: local updates per round. [default: 1]"),
    "seed": (int, "Seed of the noise: the run is a reproduction, not private."),
    "proposal": (Path, "The proposal.json of a report, instead of options."),
    **{name: ACCOUNT_OPTIONS[name] for name in _ACCOUNT},
}


@takes(_OPTIONS)
def grid(  # noqa: PLR0913 - one parameter per option
    *,
    case: Annotated[
        str,
        typer.Argument(
            help="case14, case118, pandapower:NAME, a MATPOWER .m file, or pandapower JSON."
        ),
    ],
    series: Annotated[
        list[Path] | None,
        typer.Option(
            parser=path,
            help="For opf: a day of demands, CSV with bus, time, MW, MVAr; or one file per zone.",
        ),
    ] = None,
    smooth: Annotated[
        bool, typer.Option("--smooth", help="For a day: smooth the answers, at no cost in privacy.")
    ] = False,
    oracle_metrics: Annotated[
        bool,
        typer.Option(
            "--oracle-metrics",
            help="Show figures computed from the true, private demand.",
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A new folder for the report.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
    **options: Any,
) -> None:
    """Solve a power flow of zones with private demand: cheapest dispatch, or balanced state."""
    account = {name: options.pop(name) for name in _ACCOUNT}
    seed, proposal = options.pop("seed"), options.pop("proposal")
    given = {name.replace("_", "-"): value for name, value in options.items()}
    given["smooth"] = smooth or None
    if seed is not None:
        check_seed("seed", seed)
    if out is not None:
        check_out(out, force=force)
    also = [name for name, value in given.items() if value is not None]
    if proposal is None:
        _check(given)
    elif also:
        raise InputError(
            f"--{also[0]} is given with a proposal, which states everything public about the run; "
            "leave it out"
        )
    charged = account_given(account)
    if charged is not None:
        check_chargeable(seed=seed, conditional=False)
    days = series or []
    held = days or ([] if power.is_published(case) else [Path(case)])
    execution = Execution(seed, oracle_metrics, charged, tuple(held), Keeper(out, force))
    text = None if proposal is None else read_text(proposal)
    with execution.keeper.failing():
        found = interruptible(lambda: _solved(case, given, text, days, execution))
    for warning in found.warnings:
        error_line(warning, kind="warning: ")
    with execution.keeper.failing():
        if isinstance(found, GridReport):
            deliver(found, partial(grid_page, found), execution.keeper, json=json)
        else:
            deliver(found, partial(opf_page, found), execution.keeper, json=json)


def _check(given: dict[str, Any]) -> None:
    """Raise unless every option that can be checked without the case is valid."""
    for name in ("beta", "epsilon", "delta"):
        needless = name == "delta" and given["epsilon"] == math.inf
        if given[name] is None and not needless:
            raise InputError(f"no {name} is given; add --{name}, or --proposal FILE, which has it")
    for option, known in _CHOICES.items():
        if given[option] is not None:
            one_of(f"--{option}", given[option], known)
    # the case is not read yet: any base shows whether the text is valid
    asking.read_beta(given["beta"], base_mva=1.0, largest=given["largest-demand"])
    checks.positive("epsilon", given["epsilon"], allow_infinity=True)
    checks.delta_for(given["epsilon"], given["delta"])
    for name in ("rounds", "local-updates"):
        if given[name] is not None:
            checks.at_least(name, given[name], 1)


def _solved(
    choice: str, given: dict[str, Any], text: str | None, days: Sequence[Path], execution: Execution
) -> GridReport | OpfReport:
    case = power.chosen_case(choice)
    network, kind = power.network(case), DayProposal if days else OpfProposal
    if text is None:
        problem = _problem(case, given, days)
        named = [name for name in OF_DAY if given[name] is not None]
        if named and not days:
            raise InputError(f"--{named[0]} is for a day; add --series FILE, or leave it out")
    else:
        of_day, single = (f'"{one.FORMAT}"' in text for one in (DayProposal, OpfProposal))
        problem = "opf" if of_day or single else "balance"
        if days and not of_day:
            raise InputError(
                "--series is given with a proposal that is not of a day; leave it out, or name the "
                "proposal of a day"
            )
        if of_day and not days:
            raise InputError("the proposal is of a day; add --series FILE with its demands")
    series = read_series(days, network) if days else None
    if problem == "balance":
        return _balanced(choice, case, given, text, execution)
    proposal = proposed(case, network, given, series) if text is None else kind.from_json(text)
    _check_buses(len(proposal.zones), network, choice)
    return opf_report(choice, case, proposal, execution, series)


def _problem(case: Case, given: dict[str, Any], series: Sequence[Path]) -> str:
    """Return the chosen problem; options of the other one are refused."""
    problem = given["problem"] or ("opf" if has_costs(case) else "balance")
    other, strange = ("balance", OF_BALANCE) if problem == "opf" else ("opf", OF_OPF)
    named = [name for name in strange if given[name] is not None]
    named += ["series"] if series and problem == "balance" else []
    if named:
        raise InputError(
            f"--{named[0]} belongs to the problem {other}, and this is {problem}; add --problem "
            f"{other}, or leave --{named[0]} out"
        )
    if problem == "opf" and not has_costs(case):
        raise InputError(
            f"{case.name} has no costs (mpc.gencost) to minimise; give them, or take --problem "
            "balance"
        )
    if problem == "balance" and given["rounds"] is None:
        raise InputError("no rounds is given; add --rounds, or --proposal FILE, which has it")
    return problem


def _check_buses(buses: int, network: Network, choice: str) -> None:
    if buses != network.buses:
        raise InputError(
            f"the proposal is for {buses} buses, {choice} has {network.buses}; name the case of "
            "the proposal"
        )


def proposed(
    case: Case, network: Network, given: dict[str, Any], series: Series | None = None
) -> OpfProposal:
    """Return the proposal of the options: for a day if there is a series, of which times are read.

    A bound on demands that fits the lattice of a single time fits that of a step, which has at
    least as much noise. Eta defaults to 0.05 in DC with noise; "none" omits it.
    """
    model, largest, eta = given["model"] or "dc", given["largest-demand"], None
    if given["eta"] is None:
        eta = DEFAULT_ETA if model == "dc" and math.isfinite(given["epsilon"]) else None
    elif given["eta"].strip().lower() != "none":
        try:
            eta = float(given["eta"])
        except ValueError as error:
            raise InputError(
                f"eta is {given['eta']!r}; give a number, say 0.05, or none"
            ) from error
    single = OpfProposal.of(
        network,
        costs(case),
        power.chosen_zones(network, given["zones"]),
        hide=given["hide"] or "demand",
        model=model,
        eta=eta,
        beta=asking.read_beta(given["beta"], base_mva=case.base_mva, largest=largest),
        epsilon=given["epsilon"],
        delta=checks.delta_for(given["epsilon"], given["delta"]),
    )
    if largest is not None:
        bound = asking.read_beta(largest, base_mva=case.base_mva, option="largest-demand")
        asking.check_lattice(single.plan(), bound)
    if series is None:
        return single
    weights = np.ones(len(series.hours))
    if given["weights"] is not None:
        weights = read_weights(given["weights"], series.hours)
    return DayProposal(
        **{name: getattr(single, name) for name in OpfProposal.model_fields},
        first_hour=float(series.hours[0]),
        step_hours=series.step_hours,
        weights=tuple(weights.tolist()),
        smooth=bool(given["smooth"]),
    )


def opf_report(
    choice: str,
    case: Case,
    proposal: OpfProposal,
    execution: Execution,
    series: Series | None = None,
) -> OpfReport:
    """Return the report of a run of a proposal, for a day if there is a series.

    Everything is checked before the account is charged, and the account before demand is used.
    Raises `InputError` if the costs of the case are not the proposal's, or as `check_opf`.
    """
    if CostFacts.of(costs(case)) != proposal.costs:
        raise InputError(
            f"the proposal is for {proposal.network.name} with other costs than those of {choice}; "
            "propose again"
        )
    network = power.network(case)
    check_opf(network, proposal, series)
    demand = network.demand[None] if series is None else series.demand
    release = partial(execution.keeper.keep, proposal, proposal.network.name)
    with reserved(execution, proposal) as reservation:
        finished, answers = ask_demand(
            network, proposal, demand, seed=execution.seed, account=reservation, release=release
        )
    study = solve_at_answers(proposal, finished, answers)
    warnings, published = opf_warnings(study), power.is_published(choice)
    if math.isfinite(proposal.epsilon):
        warnings += asking.size_warnings(case, proposal.beta, bundled=published)
    shown = execution.oracle or math.isinf(finished.certificate.epsilon)
    if series is not None:
        return DayReport(study, warnings, case, demand if shown else None)
    return OpfReport(study, warnings, case, demand if shown or published else None)


def _balanced(
    choice: str, case: Case, given: dict[str, Any], text: str | None, execution: Execution
) -> GridReport:
    network = power.network(case)
    relaxation = power.relax(network)
    if text is None:
        prepared = power.grid(relaxation, power.chosen_zones(network, given["zones"]))
        question = given["question"] or power.DEFAULT_QUESTION
        settings = power.Settings(question, given["rounds"], given["local-updates"] or 1)
        largest = given["largest-demand"]
        beta = asking.read_beta(given["beta"], base_mva=case.base_mva, largest=largest)
        budget = {"epsilon": given["epsilon"]}
        budget["delta"] = checks.delta_for(given["epsilon"], given["delta"])
        proposal = GridProposal.of(prepared, settings, beta=beta, **budget)
    else:
        proposal = GridProposal.from_json(text)
        _check_buses(len(proposal.zones), network, choice)
        prepared = power.grid(relaxation, proposal.partition(network))
    with reserved(execution, proposal) as reservation:
        release = partial(execution.keeper.keep, proposal, choice)
        flow = run_proposal(
            prepared, proposal, seed=execution.seed, account=reservation, release=release
        )
    optimum = power.central(relaxation, relaxation.demand)
    private = math.isfinite(flow.run.certificate.epsilon) and not power.is_published(choice)
    shown = execution.oracle or not private
    return GridReport(flow, zone_warnings(prepared), choice, optimum, shown, case.ignored)
