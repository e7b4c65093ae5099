"""How records are divided among agents, and which of them are held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Int

from taciturn import checks
from taciturn.errors import InputError
from taciturn.problems import (
    Draw,
    Persons,
    check_at_agents,
    check_at_one_agent,
    hold_out,
    random_partition,
)
from taciturn.proposal import Proposal, Request
from taciturn.tables import Files
from taciturn.typing import HostArray

DEFAULT_AGENTS = 10


class DividedRows(NamedTuple):
    """Whose each training row is; fields as of `taciturn.training.DividedData`."""

    owners: Sequence[Int[HostArray, "_m"]]
    held_out: Sequence[Int[HostArray, "_h"]]
    persons: Persons | None


@dataclass(frozen=True, kw_only=True)
class Division:
    """How records are to be divided: public, and stated before a record is read.

    Attributes
    ----------
    agents
        None for `default`, and for records that have owners.
    split_seed
        Public seed of the split of published records into training and test records.
    features
        The name of a public feature map, computed of every row; None for the columns themselves.
    rows_per_person, agents_per_person
        K and M of `Adjacency` where persons are protected; None for K where records are.
    evaluate
        The share of each agent's rows, or persons, to hold out (`taciturn.problems.hold_out`).
    """

    agents: int | None = None
    default: int = DEFAULT_AGENTS
    split_seed: int = 0
    features: str | None = None
    rows_per_person: int | None = None
    agents_per_person: int = 1
    evaluate: float | None = None

    @classmethod
    def of_request(
        cls,
        request: Request,
        agents: int | None,
        *,
        default: int = DEFAULT_AGENTS,
        features: str | None = None,
    ) -> Division:
        """Return the division that a request needs."""
        return cls(
            agents=agents,
            default=default,
            split_seed=request.split_seed,
            features=features,
            rows_per_person=request.rows_per_person,
            agents_per_person=request.agents_per_person,
            evaluate=request.evaluate,
        )

    @classmethod
    def of_proposal(cls, proposal: Proposal, *, owned: bool) -> Division:
        """Return the division that a proposal describes, of records that have owners or not."""
        evaluation, budget = proposal.evaluation, proposal.budget
        return cls(
            agents=None if owned else len(proposal.counts),
            split_seed=proposal.split_seed,
            features=proposal.data.features,
            rows_per_person=budget.rows_per_person,
            agents_per_person=budget.agents_per_person,
            evaluate=None if evaluation is None else evaluation.share,
        )

    def counts(self, files: Files) -> tuple[int, ...]:
        """Return how many records each agent will have, or places of persons; nothing is drawn."""
        persons = self.persons(files.persons)
        if files.owners is not None:
            self._check_owners(files.owners, persons)
            return counts_of(files.owners, persons)
        if persons is None:
            return self._shares(files.rows, "training records")
        return tuple(persons.rows_per_person * n for n in self._shares(persons.count, "persons"))

    def rows(
        self,
        known: Sequence[Int[HostArray, "_m"]] | None,
        numbers: HostArray | None,
        rows: int,
        draw: Draw,
    ) -> DividedRows:
        """Return whose each of so many training rows is, and which are held out.

        `known` are the rows of each agent where they have owners, `numbers` the person of each row.
        """
        persons = self.persons(numbers, draw)
        if known is not None:
            self._check_owners(known, persons)
            owners = known
        elif persons is None:
            owners = random_partition(rows, len(self._shares(rows, "training records")), draw=draw)
        else:
            owners = persons.deal(len(self._shares(persons.count, "persons")), draw)
        if self.evaluate is None:
            return DividedRows(owners, (), persons)
        check_at_one_agent(self.agents_per_person)
        return DividedRows(*hold_out(owners, self.evaluate, draw=draw, persons=persons), persons)

    def persons(self, numbers: HostArray | None, draw: Draw | None = None) -> Persons | None:
        """Return whose row each row is; None where records are protected.

        The draw chooses a person's rows. Where they are only counted it may be None: a seed stands
        in its place, so that a run on them would be stamped.
        """
        most = self.rows_per_person
        if (numbers is None) != (most is None):
            missing = "--rows-per-person K" if most is None else "--person-column COL"
            raise InputError(
                "to protect persons takes a table with a column that says whose each row is, and a "
                f"public number of rows that one has at most; add {missing}, or leave both out"
            )
        if numbers is None or most is None:
            return None
        return Persons(numbers, most, Draw(seed=0) if draw is None else draw)

    def _check_owners(self, known: Sequence[Int[HostArray, "_m"]], persons: Persons | None) -> None:
        if self.agents is not None:
            raise InputError(
                f"the records belong to {len(known)} agents already; leave --agents out"
            )
        if persons is not None:
            check_at_agents(persons.most_agents(known), self.agents_per_person)

    def _shares(self, units: int, what: str) -> tuple[int, ...]:
        """Return how many units each agent has, where these are dealt out."""
        agents = self.default if self.agents is None else self.agents
        checks.at_least("agents", agents, 1)
        if agents > units:
            raise InputError(
                f"{agents} agents cannot share {units} {what}; ask for at most {units}"
            )
        least, more = divmod(units, agents)
        return tuple(least + (agent < more) for agent in range(agents))


def counts_of(owners: Sequence[Int[HostArray, "_m"]], persons: Persons | None) -> tuple[int, ...]:
    """Return how many records each agent has, or places of persons."""
    if persons is None:
        return tuple(len(rows) for rows in owners)
    return tuple(persons.places_of(rows) for rows in owners)
