"""What follows from counted files before a cell of them is looked at."""

from __future__ import annotations

from tacit.errors import InputError
from tacit.proposal import DataFacts, Proposal, Request, StructureRequest, propose
from tacit.tables import Files, Source
from tacit.training.data import DEFAULT_AGENTS
from tacit.training.rows import check_owners, counts_of, persons_of, shares
from tacit.typing import Precision


def proposal_ahead(
    files: Files,
    request: Request,
    structure: StructureRequest,
    *,
    agents: int | None,
    default: int = DEFAULT_AGENTS,
    features: str | None = None,
) -> Proposal:
    """Return the proposal of a request on the records of files of which no cell was looked at.

    It is that of `proposal_for` on the same records.

    Raises
    ------
    InputError
        If a graph is to be learned from records.
    """
    if structure.graph_from is not None:
        raise InputError(
            "--graph-from reads records before anything is charged; with an account give --graph"
        )
    facts = DataFacts.of(files.bounds, features)
    counts = counts_ahead(
        files,
        agents,
        default,
        rows_per_person=request.rows_per_person,
        agents_per_person=request.agents_per_person,
    )
    names = facts.inputs.names if facts.feature_map is None else facts.feature_map.names
    dealt = files.owners is None and len(counts) > 1
    return propose(facts, counts, request, structure.structure(names, None), dealt=dealt)


def counts_ahead(
    files: Files,
    agents: int | None,
    default: int = DEFAULT_AGENTS,
    *,
    rows_per_person: int | None = None,
    agents_per_person: int = 1,
) -> tuple[int, ...]:
    """Return how many records each agent will have, or places of persons; nothing is drawn."""
    persons = persons_of(files.persons, rows_per_person)
    if files.owners is not None:
        check_owners(files.owners, agents, persons, agents_per_person)
        return counts_of(files.owners, persons)
    among = default if agents is None else agents
    if persons is None:
        return shares(files.rows, "training records", among)
    return tuple(persons.rows_per_person * n for n in shares(persons.count, "persons", among))


def kept_precision(proposal: Proposal, source: Source) -> Precision:
    """Return the precision in which the rows of a table are kept for a run; see `encoded_rows`.

    That of the run, if only its training reads them: features, test records and held-out ones are
    computed with in double precision.
    """
    others = proposal.data.features or proposal.evaluation or source.test
    return "float64" if others else proposal.precision
