"""Whose each training row is: the agents among whom rows are dealt out, and persons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Int

from taciturn import checks
from taciturn.errors import InputError
from taciturn.problems import Draw, Persons, check_at_one_agent, hold_out, random_partition
from taciturn.typing import HostArray


class DividedRows(NamedTuple):
    """Whose each training row is; fields as of `taciturn.training.DividedData`."""

    owners: Sequence[Int[HostArray, "_m"]]
    held_out: Sequence[Int[HostArray, "_h"]]
    persons: Persons | None


def divided_rows(  # noqa: PLR0913 - as `divide`
    known: tuple[Int[HostArray, "_m"], ...] | None,
    numbers: HostArray | None,
    rows: int,
    agents: int | None,
    default: int,
    *,
    draw: Draw,
    rows_per_person: int | None,
    agents_per_person: int,
    evaluate: float | None,
) -> DividedRows:
    """Return how rows are divided among agents, as `taciturn.training.divide` says.

    Parameters
    ----------
    known
        The rows of each agent, where they have owners.
    numbers
        The person that each row is about, where the records say.
    """
    persons = persons_of(numbers, rows_per_person, draw)
    owners = owners_of(
        known,
        rows,
        agents,
        default,
        draw=draw,
        persons=persons,
        agents_per_person=agents_per_person,
    )
    if evaluate is None:
        return DividedRows(owners, (), persons)
    check_at_one_agent(agents_per_person)
    return DividedRows(*hold_out(owners, evaluate, draw=draw, persons=persons), persons)


def persons_of(
    numbers: HostArray | None, rows_per_person: int | None, draw: Draw | None = None
) -> Persons | None:
    """Return whose row each row is; None where records are protected.

    Parameters
    ----------
    draw
        What chooses a person's rows; None where they are only counted, which takes none: a seed
        stands in its place, so that a run on them would be stamped.
    """
    if (numbers is None) != (rows_per_person is None):
        missing = "--rows-per-person K" if rows_per_person is None else "--person-column COL"
        raise InputError(
            "to protect persons takes a table with a column that says whose each row is, and a "
            f"public number of rows that one has at most; add {missing}, or leave both out"
        )
    if numbers is None or rows_per_person is None:
        return None
    return Persons(numbers, rows_per_person, Draw(seed=0) if draw is None else draw)


def owners_of(  # noqa: PLR0913 - who has rows, and how they are dealt out
    known: tuple[Int[HostArray, "_m"], ...] | None,
    rows: int,
    agents: int | None,
    default: int,
    *,
    draw: Draw,
    persons: Persons | None,
    agents_per_person: int,
) -> Sequence[Int[HostArray, "_m"]]:
    """Return the rows of each agent: as they are known, or dealt out."""
    if known is None:
        return _dealt(persons, rows, default if agents is None else agents, draw)
    check_owners(known, agents, persons, agents_per_person)
    return known


def check_owners(
    known: Sequence[Int[HostArray, "_m"]],
    agents: int | None,
    persons: Persons | None,
    agents_per_person: int,
) -> None:
    """Raise `InputError` unless records with owners suit what is said of agents and persons."""
    if agents is not None:
        raise InputError(f"the records belong to {len(known)} agents already; leave --agents out")
    if persons is not None:
        persons.check_agents(known, agents_per_person)


def _dealt(
    persons: Persons | None, rows: int, agents: int, draw: Draw
) -> Sequence[Int[HostArray, "_m"]]:
    """Return the rows of each agent, who share rows or persons at random."""
    units, what = (rows, "training records") if persons is None else (persons.count, "persons")
    shares(units, what, agents)
    if persons is None:
        return random_partition(rows, agents, draw=draw)
    return persons.deal(agents, draw)


def shares(units: int, what: str, agents: int) -> tuple[int, ...]:
    """Return how many units each agent has, where these are dealt out among them."""
    checks.at_least("agents", agents, 1)
    if agents > units:
        raise InputError(f"{agents} agents cannot share {units} {what}; ask for at most {units}")
    least, more = divmod(units, agents)
    return tuple(least + (agent < more) for agent in range(agents))


def counts_of(owners: Sequence[Int[HostArray, "_m"]], persons: Persons | None) -> tuple[int, ...]:
    """Return how many records each agent has, or places of persons."""
    if persons is None:
        return tuple(len(rows) for rows in owners)
    return tuple(persons.places_of(rows) for rows in owners)
