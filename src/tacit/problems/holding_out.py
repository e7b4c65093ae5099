"""Which rows are held out for an evaluation: a draw that sees no record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from tacit import checks
from tacit.errors import InputError, PrivacyError
from tacit.problems.division import Draw, Parts, origin_of
from tacit.problems.persons import Persons
from tacit.typing import HostArray

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

    An agent keeps at least one row to train on. One with few rows may hold out none. Where persons
    are protected, m_i are their places, K for each, and whole persons are held out.

    Raises
    ------
    InputError
        If the share is out of range, or no agent would hold out a row.

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
    parts
        Row numbers of each agent.
    share
        Of each agent's rows, see `held_out_counts`.
    seed
        The public seed of a reproduction; None for a secret draw.
    draw
        A draw that other divisions of the same records share, in place of the seed.
    persons
        Whose row each row is; None where records are protected.
    first
        The number of the first of these agents: whoever has one agent's rows only names it here.

    Raises
    ------
    InputError
        If the share is out of range, nobody is held out, or a person has rows at several agents.

    Notes
    -----
    **Guarantee.** Counts and a secret permutation decide who is held out, never what a record says
    or where it stands in the file: see `Draw` for the derivation, and
    `tacit.evaluation.of_disjoint_parts` for what both sides together cost. A rule on row numbers
    under a public seed would let one replaced record move all others of a sorted file to other
    sides; with such a seed the run is stamped as a reproduction.

    Examples
    --------
    >>> kept, held = hold_out([np.arange(10)], 0.2)
    >>> len(kept[0]), len(held[0]), len(np.intersect1d(kept[0], held[0]))
    (8, 2, 0)
    """
    if draw is None:
        draw = Draw.secret() if seed is None else Draw(seed=seed)
    if persons is not None:
        check_at_one_agent(persons.most_agents(parts))
    standing = [
        np.arange(len(part)) if persons is None else persons.standing(part) for part in parts
    ]
    sizes = held_out_counts([1 + int(np.max(place)) for place in standing], share)
    sides = []
    for agent, (place, size) in enumerate(zip(standing, sizes, strict=True), first):
        shuffled = draw.permutation(1 + int(np.max(place)), "hold out", agent)
        sides.append(np.isin(place, shuffled[:size]))
    origin = origin_of(parts)
    origin = replace(origin, reproducible=origin.reproducible or not draw.is_secret)
    pairs = list(zip(parts, sides, strict=True))
    kept = Parts([np.sort(p[~side]) for p, side in pairs], replace(origin, side="training"))
    held = Parts([np.sort(p[side]) for p, side in pairs], replace(origin, side="held out"))
    return kept, held


def check_held_out(
    kept: Sequence[Int[HostArray, "_m"]],
    held: Sequence[Int[HostArray, "_h"]],
    persons: Persons | None = None,
) -> None:
    """Raise unless no row, and no person, is trained on and held out as well.

    Raises
    ------
    PrivacyError
        If one is: it would be asked twice, and charged once.
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
