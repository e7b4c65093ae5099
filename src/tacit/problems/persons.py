"""Persons with several rows: K places for each, so that no count tells how many rows one has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from tacit import checks
from tacit.errors import InputError
from tacit.typing import HostArray

EMPTY = -1


@dataclass(frozen=True, eq=False)
class Persons:
    """Whose row each row is, and how many places a person has.

    **Guarantee.** Data sets are neighbours if one person's rows are others, more or fewer, and that
    person keeps the place in the order of persons. Which rows stand in a person's places is a
    function of that person's rows alone, which of them are first; the number of places, and what
    divides an answer, is K times a number of persons. So neighbours differ in the K places of one
    person at each agent that has rows of that person.

    Attributes
    ----------
    numbers
        (N,): the number of the person of every row, from 0.
    rows_per_person
        K: an agent takes the first K rows of a person, in the order in which they stand.

    Raises
    ------
    InputError
        If K is not a whole number of at least 1, or the numbers are none.
    """

    numbers: Int[HostArray, " N"]
    rows_per_person: int

    def __post_init__(self) -> None:
        checks.at_least("rows_per_person", self.rows_per_person, 1)
        numbers = np.asarray(self.numbers)
        whole = np.issubdtype(numbers.dtype, np.integer)
        if numbers.ndim != 1 or not whole or not numbers.size or numbers.min() < 0:
            raise InputError("persons are not one whole number of at least 0 for each row")

    @property
    def count(self) -> int:
        """How many persons there are."""
        return len(np.unique(self.numbers))

    def places(self, rows: Int[HostArray, "_m"]) -> Int[HostArray, " S"]:
        """Return the row in each place of an agent that has these rows; -1 in empty places.

        Persons stand in the order of their first rows, K places each.

        Examples
        --------
        >>> Persons(np.array([0, 1, 0, 0]), 2).places(np.arange(4)).tolist()
        [0, 2, 1, -1]
        """
        standing = self.standing(rows)
        order = np.argsort(standing, kind="stable")
        sizes = np.bincount(standing)
        before = np.repeat(np.cumsum(sizes) - sizes, sizes)
        rank = np.empty(len(rows), int)
        rank[order] = np.arange(len(rows)) - before
        taken = rank < self.rows_per_person
        places = np.full((len(sizes), self.rows_per_person), EMPTY)
        places[standing[taken], rank[taken]] = np.asarray(rows)[taken]
        return places.ravel()

    def standing(self, rows: Int[HostArray, "_m"]) -> Int[HostArray, "_m"]:
        """Return for each row of an agent which of its persons it belongs to, by their first rows.

        Examples
        --------
        >>> Persons(np.array([7, 3, 7, 5]), 2).standing(np.arange(4)).tolist()
        [0, 1, 0, 2]
        """
        _, first, person = np.unique(self.numbers[rows], return_index=True, return_inverse=True)
        place: Int[HostArray, "_m"] = np.argsort(np.argsort(first))[person]
        return place

    def places_of(self, rows: Int[HostArray, "_m"]) -> int:
        """Return how many places an agent with these rows has: K for each of its persons."""
        return self.rows_per_person * len(np.unique(self.numbers[rows]))

    def shared(self, agents: int, *, seed: int) -> list[Int[HostArray, "_m"]]:
        """Return the rows of each agent, where persons are dealt out at random.

        The draw sees the number of persons and the public seed. Sizes differ by at most one person.

        Raises
        ------
        InputError
            If there are fewer persons than agents, or no agent.
        """
        checks.at_least("agents", agents, 1)
        names, person = np.unique(self.numbers, return_inverse=True)
        if agents > len(names):
            raise InputError(
                f"{agents} agents but {len(names)} persons; ask for at most {len(names)} agents"
            )
        owner = np.empty(len(names), int)
        shuffled = np.random.default_rng(seed).permutation(len(names))
        for agent, group in enumerate(np.array_split(shuffled, agents)):
            owner[group] = agent
        of_rows = owner[person]
        order = np.argsort(of_rows, kind="stable")
        return np.split(order, np.cumsum(np.bincount(of_rows))[:-1])

    def check_agents(self, parts: Sequence[Int[HostArray, "_m"]], agents_per_person: int) -> None:
        """Raise `InputError` if a person has rows at more agents than that; none is named."""
        at = np.concatenate([np.unique(self.numbers[part]) for part in parts])
        most = int(np.bincount(at).max())
        if most > agents_per_person:
            allowed = "one" if agents_per_person == 1 else str(agents_per_person)
            raise InputError(
                f"a person has rows at {most} agents, and {allowed} may have them; say at how many "
                "agents a person may be (agents_per_person, --agents-per-person), which takes more "
                "noise"
            )


def numbered(labels: Iterable[str]) -> Int[HostArray, " N"]:
    """Return the number of each row's person, in the order of their first rows.

    Examples
    --------
    >>> numbered(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)
