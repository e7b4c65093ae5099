"""Persons with several rows: K places for each, so that no count tells how many rows one has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from taciturn import checks
from taciturn.errors import InputError, PrivacyError
from taciturn.problems.division import Draw, Parts, by_owner, deal, origin_of
from taciturn.typing import HostArray

EMPTY = -1


@dataclass(frozen=True, eq=False)
class Persons:
    """Whose row each row is, and how many places a person has.

    **Guarantee.** Data sets are neighbours if one person's rows are others, more or fewer; the
    number of persons is public. Which rows stand in a person's places is for a secret draw to say
    (`Draw`), under which any K of them are equally likely, whatever other persons' rows are: its
    law is the same wherever they stand in the file. The number of places, and what divides an
    answer, is K times a number of persons. Persons are dealt to agents and held out by a draw, too,
    whose law is the same for every order of persons. So neighbours, compared draw by draw, differ
    in the K places of one person at each agent that has rows of that person. In a reproduction
    persons stand in the order of their identities, and their first rows in their places.

    Attributes
    ----------
    numbers
        (N,): the number of the person of every row, from 0, in the order of their identities.
    rows_per_person
        K: an agent takes K rows of a person at random.
    draw
        What chooses them; a new secret one if not given. In several processes it is the same.
    """

    numbers: Int[HostArray, " N"]
    rows_per_person: int
    draw: Draw = field(default_factory=Draw.secret, repr=False)

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

    @cached_property
    def ranks(self) -> Int[HostArray, " N"]:
        """The order in which rows are taken; that of the file in a reproduction."""
        count = len(self.numbers)
        return self.draw.permutation(count, "choose") if self.draw.is_secret else np.arange(count)

    def among(self, rows: Bool[HostArray, " N"]) -> Persons:
        """Return the same for some of the rows, which are taken in the same order."""
        some = Persons(self.numbers[rows], self.rows_per_person, self.draw)
        some.__dict__["ranks"] = self.ranks[rows]
        return some

    def places(self, rows: Int[HostArray, "_m"]) -> Int[HostArray, " S"]:
        """Return the row in each place of an agent that has these rows; -1 in empty places.

        Persons stand in the order of their numbers, K places each, and rows in that of the draw.

        Examples
        --------
        >>> Persons(np.array([0, 1, 0, 0]), 2, Draw(seed=0)).places(np.arange(4)).tolist()
        [0, 2, 1, -1]
        """
        standing = self.standing(rows)
        order = np.lexsort((self.ranks[rows], standing))
        sizes = np.bincount(standing)
        before = np.repeat(np.cumsum(sizes) - sizes, sizes)
        rank = np.empty(len(rows), int)
        rank[order] = np.arange(len(rows)) - before
        taken = rank < self.rows_per_person
        places = np.full((len(sizes), self.rows_per_person), EMPTY)
        places[standing[taken], rank[taken]] = np.asarray(rows)[taken]
        return places.ravel()

    def standing(self, rows: Int[HostArray, "_m"]) -> Int[HostArray, "_m"]:
        """Return for each row of an agent which of its persons, from 0, it belongs to."""
        place: Int[HostArray, "_m"] = np.unique(self.numbers[rows], return_inverse=True)[1]
        return place

    def places_of(self, rows: Int[HostArray, "_m"]) -> int:
        """Return how many places an agent with these rows has: K for each of its persons."""
        return self.rows_per_person * len(np.unique(self.numbers[rows]))

    def deal(self, agents: int, draw: Draw) -> Parts:
        """Return the rows of each agent, where persons are dealt out at random.

        The draw sees the number of persons alone. Sizes differ by at most one person.
        """
        names, person = np.unique(self.numbers, return_inverse=True)
        groups = deal(len(names), agents, draw, of="persons")
        owner = np.empty(len(names), int)
        for agent, group in enumerate(groups):
            owner[group] = agent
        return Parts(by_owner(owner[person], agents), groups.origin)

    def most_agents(self, parts: Sequence[Int[HostArray, "_m"]]) -> int:
        """Return at how many agents with these rows a person has some, at most."""
        at = np.concatenate([np.unique(self.numbers[part]) for part in parts])
        return int(np.bincount(at).max())


def check_at_agents(most: int, agents_per_person: int) -> None:
    """Raise `InputError` if a person has rows at more agents than that; none is named."""
    if most > agents_per_person:
        allowed = "one" if agents_per_person == 1 else str(agents_per_person)
        raise InputError(
            f"a person has rows at {most} agents, and {allowed} may have them; say at how many "
            "agents a person may be (agents_per_person, --agents-per-person), which takes more "
            "noise"
        )


MOST_HELD_OUT = 0.5


def held_out_share(value: float) -> float:
    """Return a share of rows to hold out, above 0 and at most 1/2; else raise `InputError`."""
    share = checks.positive("evaluate", value)
    if share > MOST_HELD_OUT:
        raise InputError(
            f"evaluate is {share:g}; it is the share of the rows that are held out, above 0 and at "
            f"most {MOST_HELD_OUT:g}, for example 0.1"
        )
    return share


def check_at_one_agent(agents_per_person: int) -> None:
    """Raise `InputError` if a person may be at several agents, each of whom holds out its own.

    One of them could train on a person whom another asks about, so that both would be charged.
    """
    if agents_per_person > 1:
        raise InputError(
            "an evaluation holds out persons agent by agent, and a person at several agents could "
            "be trained on at one and asked at another; leave --evaluate or --agents-per-person out"
        )


def held_out_counts(
    counts: Sequence[int], share: float, *, rows_per_person: int | None = None
) -> tuple[int, ...]:
    """Return how many of each agent's m_i rows are held out: m_i times the share, rounded.

    An agent keeps at least one row to train on. One with few rows may hold out none; it is an error
    if all do. Where persons are protected, m_i are their places, K for each, and whole persons are
    held out.

    Examples
    --------
    >>> held_out_counts((100, 7, 1), 0.1)
    (10, 1, 0)
    """
    share, places = held_out_share(share), rows_per_person or 1
    units = [count // places for count in counts]
    held = tuple(places * min(round(unit * share), unit - 1) for unit in units)
    if sum(held) < 1:
        what = "row" if rows_per_person is None else "person"
        raise InputError(
            f"a share of {share:g} of {sum(units)} {what}s of {len(counts)} agents holds no {what} "
            "out; evaluate with a larger share, or leave it out"
        )
    return held


def hold_out(
    parts: Sequence[Int[HostArray, "_m"]],
    share: float,
    *,
    seed: int | None = None,
    draw: Draw | None = None,
    persons: Persons | None = None,
    first: int = 0,
) -> tuple[Parts, Parts]:
    """Return the rows of each agent that are trained on, and those that are held out, sorted.

    Agent i permutes its m_i rows, or its persons, and holds the first of them out; all rows of a
    person are on one side.

    Parameters
    ----------
    share
        Of each agent's rows, see `held_out_counts`.
    seed, draw
        As for `random_partition`.
    persons
        Whose row each row is; None where records are protected. Nobody may be at several agents.
    first
        The number of the first of these agents: whoever has one agent's rows only names it here.

    Notes
    -----
    **Guarantee.** Counts and a secret permutation decide who is held out, never what a record says
    or where it stands in the file: see `Draw` for the derivation, and
    `taciturn.evaluation.of_disjoint_parts` for what both sides together cost. A rule on row numbers
    under a public seed would let one replaced record move all others of a sorted file to other
    sides; with such a seed the run is stamped as a reproduction.

    Examples
    --------
    >>> kept, held = hold_out([np.arange(10)], 0.2)
    >>> len(kept[0]), len(held[0]), len(np.intersect1d(kept[0], held[0]))
    (8, 2, 0)
    """
    draw = Draw.given(draw, seed)
    if persons is not None:
        check_at_one_agent(persons.most_agents(parts))
    standing = [
        np.arange(len(part)) if persons is None else persons.standing(part) for part in parts
    ]
    units = [1 + int(np.max(place)) for place in standing]
    kept, held = [], []
    sizes = held_out_counts(units, share)
    for agent, (part, place, size) in enumerate(zip(parts, standing, sizes, strict=True)):
        shuffled = draw.permutation(units[agent], "hold out", first + agent)
        side = np.isin(place, shuffled[:size])
        kept.append(np.sort(part[~side]))
        held.append(np.sort(part[side]))
    origin = origin_of(parts)
    origin = replace(origin, reproducible=origin.reproducible or not draw.is_secret)
    return (
        Parts(kept, replace(origin, side="training")),
        Parts(held, replace(origin, side="held out")),
    )


def check_held_out(
    kept: Sequence[Int[HostArray, "_m"]],
    held: Sequence[Int[HostArray, "_h"]],
    persons: Persons | None = None,
) -> None:
    """Raise `PrivacyError` if a row, or a person, is trained on and held out as well.

    It would be asked twice, and charged once.
    """
    if not len(held):
        return
    sides = [np.concatenate(list(rows)) for rows in (kept, held)]
    if persons is not None:
        sides = [persons.numbers[rows] for rows in sides]
    both = np.intersect1d(sides[0], sides[1])
    if both.size:
        what = "row" if persons is None else "person"
        raise PrivacyError(
            f"{both.size} {what}s are trained on and held out as well; each {what} belongs to one "
            "of the two, so divide them anew"
        )
