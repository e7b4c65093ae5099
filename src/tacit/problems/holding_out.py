"""Which rows are held out for an evaluation: a public rule on row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from tacit import checks
from tacit.errors import InputError, PrivacyError
from tacit.typing import HostArray

MOST_HELD_OUT = 0.5
# sets these permutations apart from other draws under the same public seed
_STREAM = 0x68656C64


def held_out_share(value: float) -> float:
    """Return a share of rows to hold out, above 0 and at most 1/2; else raise `InputError`."""
    share = checks.positive("evaluate", value)
    if share > MOST_HELD_OUT:
        raise InputError(
            f"evaluate is {share:g}; it is the share of the rows that are held out, above 0 and at "
            f"most {MOST_HELD_OUT:g}, for example 0.1"
        )
    return share


def check_no_persons(rows_per_person: int | None) -> None:
    """Raise `InputError` if persons are protected: single rows are held out, and not persons.

    A person with several rows could be trained on and asked about, so that both would be charged.
    """
    if rows_per_person is not None:
        raise InputError(
            "an evaluation holds out single rows, and a person may have several of which some are "
            "trained on; leave --evaluate out, or --person-column and --rows-per-person"
        )


def held_out_counts(counts: Sequence[int], share: float) -> tuple[int, ...]:
    """Return how many of each agent's m_i rows are held out: m_i times the share, rounded.

    An agent keeps at least one row to train on. One with few rows may hold out none.

    Raises
    ------
    InputError
        If the share is out of range, or no agent would hold out a row.

    Examples
    --------
    >>> held_out_counts((100, 7, 1), 0.1)
    (10, 1, 0)
    """
    share = held_out_share(share)
    held = tuple(min(round(count * share), count - 1) for count in counts)
    if sum(held) < 1:
        raise InputError(
            f"a share of {share:g} of {sum(counts)} rows of {len(counts)} agents holds no row out; "
            "evaluate with a larger share, or leave it out"
        )
    return held


def hold_out(
    parts: Sequence[Int[HostArray, "_m"]], share: float, *, seed: int, first: int = 0
) -> tuple[tuple[Int[HostArray, "_m"], ...], tuple[Int[HostArray, "_h"], ...]]:
    """Return the rows of each agent that are trained on, and those that are held out, sorted.

    Agent i permutes the m_i numbers of its rows by a generator seeded with (`seed`, i) and holds
    the first of them out: files are often sorted, so the last rows would not do.

    Parameters
    ----------
    parts
        Row numbers of each agent.
    share
        Of each agent's rows, see `held_out_counts`.
    seed
        Public.
    first
        The number of the first of these agents, where they are some of all.

    Notes
    -----
    **Guarantee.** Only counts and public numbers decide who is held out, never what a record says.
    Replacing a record, or setting its contribution to zero, therefore leaves it, and every other
    record, on the side where it was; a rule that looks at content, such as a hash, would let the
    two data sets of a neighbouring pair differ on both sides.

    Examples
    --------
    >>> kept, held = hold_out([np.arange(10)], 0.2, seed=0)
    >>> len(kept[0]), len(held[0]), len(np.intersect1d(kept[0], held[0]))
    (8, 2, 0)
    """
    sizes = held_out_counts([len(part) for part in parts], share)
    orders = [
        np.random.default_rng([_STREAM, seed, agent]).permutation(len(part))
        for agent, part in enumerate(parts, start=first)
    ]
    held = tuple(
        np.sort(part[order[:size]]) for part, order, size in zip(parts, orders, sizes, strict=True)
    )
    kept = tuple(
        np.sort(part[order[size:]]) for part, order, size in zip(parts, orders, sizes, strict=True)
    )
    return kept, held


def check_held_out(
    kept: Sequence[Int[HostArray, "_m"]], held: Sequence[Int[HostArray, "_h"]]
) -> None:
    """Raise unless no row is trained on and held out as well.

    Raises
    ------
    PrivacyError
        If one is: it would be asked twice, and charged once.
    """
    if not len(held):
        return
    both = np.intersect1d(np.concatenate(list(kept)), np.concatenate(list(held)))
    if both.size:
        raise PrivacyError(
            f"{both.size} rows are trained on and held out as well; each row belongs to one of the "
            "two, so divide them anew"
        )
