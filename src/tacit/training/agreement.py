"""Whether records are those that a proposal was made for."""

from __future__ import annotations

from tacit.errors import InputError
from tacit.proposal import DataFacts, Proposal
from tacit.training.data import DividedData


def check_data(data: DividedData, proposal: Proposal) -> None:
    """Raise `InputError` unless a proposal is for records with these facts and counts."""
    check_known(data.facts, data.all_counts, proposal, rows_per_person=data.rows_per_person)
    if data.dealt != proposal.dealt:
        done, wanted = ("dealt at random" if it else "given" for it in (data.dealt, proposal.dealt))
        raise InputError(
            f"the proposal is for records whose agents are {wanted}, and those of the data are "
            f"{done}; propose again"
        )
    planned = () if proposal.evaluation is None else proposal.evaluation.counts
    if data.held_out_counts != planned:
        raise InputError(
            f"the proposal holds out {sum(planned)} records, or places of persons, for an "
            f"evaluation, the data {sum(data.held_out_counts)}; divide the data with the share of "
            "the proposal"
        )


def check_known(
    facts: DataFacts,
    counts: tuple[int, ...],
    proposal: Proposal,
    *,
    rows_per_person: int | None = None,
) -> None:
    """Raise `InputError` unless a proposal is for records with these facts and counts.

    Parameters
    ----------
    counts
        Records of each agent, with those that are held out; places, of persons.
    """
    if _apart_from_form(facts) != _apart_from_form(proposal.data):
        raise InputError(
            f"the proposal is for {proposal.data.name!r} with {proposal.data.columns} encoded "
            f"columns, and its facts differ from those of {facts.name!r} with {facts.columns}; "
            "name the data it was made for"
        )
    if rows_per_person != proposal.budget.rows_per_person:
        raise InputError(
            f"the proposal protects {_unit(proposal.budget.rows_per_person)}, and the data are "
            f"read for {_unit(rows_per_person)}; add or leave out --person-column, or propose again"
        )
    if counts != proposal.all_counts:
        raise InputError(
            f"the proposal is for {len(proposal.counts)} agents with {proposal.records} "
            f"records in all, the data have {len(counts)} with {sum(counts)}, or "
            "share them otherwise; propose again"
        )


def _unit(rows_per_person: int | None) -> str:
    """Return what is protected, in words."""
    return "records" if rows_per_person is None else f"persons with {rows_per_person} places each"


def _apart_from_form(facts: DataFacts) -> DataFacts:
    """Return the facts without the form of the files, which privacy does not rest on."""
    if facts.table is None:
        return facts
    return facts.model_copy(update={"table": facts.table.model_copy(update={"form": None})})
