"""`taciturn grid --problem opf`: what is special about optimal power flow, of a moment or a day."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

import taciturn_power as power
from taciturn.engine import Run
from taciturn.errors import InputError
from taciturn.typing import HostArray
from taciturn_power.cases.case import Case
from taciturn_power.cases.reading import is_published
from taciturn_power.charging import Carried, reserved
from taciturn_power.day.results import DayReport, day_warnings
from taciturn_power.day.series import Series, read_series, read_weights
from taciturn_power.day.study import DayProposal, check_day, day_at
from taciturn_power.grids.network import Network
from taciturn_power.models.cost import costs
from taciturn_power.moment.asking import check_lattice
from taciturn_power.moment.hidden import read_beta, read_largest, size_warning
from taciturn_power.moment.opf import CostFacts, OpfProposal, ask_demand, check_opf, solved_at
from taciturn_power.moment.results import OpfReport, opf_warnings

DEFAULT_ETA = 0.05
OF_BALANCE = ("rounds", "question", "local-updates")
OF_OPF = ("model", "eta", "hide")
OF_DAY = ("weights", "smooth")


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


def opf_report(choice: str, case: Case, proposal: OpfProposal, carried: Carried) -> OpfReport:
    """Return the report of a run of a proposal on a case."""
    network, finished, answers, sizes = _answered(choice, case, proposal, carried)
    study = solved_at(proposal, finished, answers[0])
    shown = is_published(choice) or carried.oracle or math.isinf(finished.certificate.epsilon)
    return OpfReport(study, case, network, shown, opf_warnings(study) + sizes)


def day_report(
    choice: str, case: Case, proposal: DayProposal, series: Series, carried: Carried
) -> DayReport:
    """Return the report of a run of a proposal on a day."""
    network, finished, answers, sizes = _answered(choice, case, proposal, carried, series)
    study = day_at(proposal, finished, answers)
    shown = carried.oracle or math.isinf(finished.certificate.epsilon)
    return DayReport(study, network, series, shown, day_warnings(study) + sizes)


def _answered(
    choice: str,
    case: Case,
    proposal: OpfProposal,
    carried: Carried,
    series: Series | None = None,
) -> tuple[Network, Run, Float[HostArray, "T N 2"], tuple[str, ...]]:
    """Return network, run, answers and warnings of a proposal: checked, charged, and then asked.

    Raises
    ------
    InputError
        If the costs of the case are not the proposal's, or as `check_opf` and `check_day`; then
        nothing is charged.
    """
    if CostFacts.of(costs(case)) != proposal.costs:
        raise InputError(
            f"the proposal is for {proposal.network.name} with other costs than those of {choice}; "
            "propose again"
        )
    network = power.network(case)
    if isinstance(proposal, DayProposal) and series is not None:
        check_day(network, proposal, series)
    else:
        check_opf(network, proposal)
    demand = network.demand[None] if series is None else series.demand
    release = partial(carried.keeper.keep, proposal, proposal.network.name)
    with reserved(carried, proposal) as reservation:
        finished, answers = ask_demand(
            network, proposal, demand, seed=carried.seed, account=reservation, release=release
        )
    size = None
    if math.isfinite(proposal.epsilon):
        size = size_warning(case, proposal.beta, bundled=is_published(choice))
    return network, finished, answers, () if size is None else (size,)
