"""`tacit grid --problem opf`: what is special about optimal power flow."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import tacit_power as power
from tacit.errors import InputError
from tacit_power.cases.case import Case
from tacit_power.cases.reading import is_published
from tacit_power.charging import Carried, reserved
from tacit_power.grids.network import Network
from tacit_power.models.cost import costs
from tacit_power.moment.asking import check_lattice
from tacit_power.moment.hidden import read_beta, read_largest, size_warning
from tacit_power.moment.opf import CostFacts, OpfProposal, check_opf, run_opf
from tacit_power.moment.results import OpfReport, opf_warnings

DEFAULT_ETA = 0.05
OF_BALANCE = ("rounds", "question", "local-updates")
OF_OPF = ("model", "eta", "hide")


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


def network_of(choice: str, case: Case, proposal: OpfProposal) -> Network:
    """Return the network of a case; raise `InputError` if its costs are not the proposal's."""
    if CostFacts.of(costs(case)) != proposal.costs:
        raise InputError(
            f"the proposal is for {proposal.network.name} with other costs than those of {choice}; "
            "propose again"
        )
    return power.network(case)


def size_warnings(choice: str, case: Case, proposal: OpfProposal) -> tuple[str, ...]:
    """Return the warning about the size of beta, if there is noise and one is due."""
    size = size_warning(case, proposal.beta, bundled=is_published(choice))
    return (size,) if size and math.isfinite(proposal.epsilon) else ()


def opf_report(choice: str, case: Case, proposal: OpfProposal, carried: Carried) -> OpfReport:
    """Return the report of a run of a proposal on a case."""
    network = network_of(choice, case, proposal)
    check_opf(network, proposal)
    with reserved(carried, proposal) as reservation:
        release = partial(carried.keeper.keep, proposal, proposal.network.name)
        study = run_opf(network, proposal, seed=carried.seed, account=reservation, release=release)
    private = math.isfinite(study.run.certificate.epsilon)
    return OpfReport(
        study=study,
        case=case,
        network=network,
        shows_demand=is_published(choice) or carried.oracle or not private,
        warnings=opf_warnings(study) + size_warnings(choice, case, proposal),
    )
