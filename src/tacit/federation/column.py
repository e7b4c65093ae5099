"""A site's column of the ledger: public facts about its answers, and no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.federation.answering import Entry
from tacit.privacy import Ledger


def column_values(answers: Mapping[int, Sequence[Entry]], rounds: int) -> dict[str, Any]:
    """Return the entries of every round as JSON; entries alike are written once."""
    kinds: dict[tuple[Entry, ...], int] = {}
    places = [kinds.setdefault(tuple(answers.get(t, ())), len(kinds)) for t in range(rounds)]
    return {"kinds": [[list(entry) for entry in some] for some in kinds], "rounds": places}


def column_of(values: Mapping[str, Any], rounds: int, name: str) -> list[list[Entry]]:
    """Return the entries of every round; `InputError` if these are none."""
    try:
        kinds = [[_entry(entry) for entry in some] for some in values["kinds"]]
        column = [kinds[place] for place in values["rounds"]]
    except (KeyError, TypeError, ValueError, IndexError):
        raise InputError(f"{name} sent no column of a ledger; it runs another program") from None
    if len(column) != rounds:
        raise InputError(f"{name} sent {len(column)} rounds of a ledger of {rounds}")
    return column


def _entry(values: Sequence[Any]) -> Entry:
    local, kind, scale, exponent, rate, batch = values
    return Entry(int(local), int(kind), float(scale), int(exponent), float(rate), int(batch))


def assembled(planned: Ledger, columns: Sequence[Sequence[Sequence[Entry]]]) -> Ledger:
    """Return the ledger that the sites' columns amount to.

    Parameters
    ----------
    planned
        Supplies sensitivities and the law, which follow from the proposal.
    columns
        For every agent, for every round, the entries of its answers.
    """
    shape = planned.kind.shape
    kind = np.full(shape, -1)
    scale, exponent, rate, batch = (np.zeros(shape) for _ in range(4))
    rate += 1
    for agent, column in enumerate(columns):
        for turn, entries in enumerate(column):
            for entry in entries:
                if not 0 <= entry.local < shape[2]:
                    raise InputError(
                        f"a column of the ledger has a question {entry.local} in a round"
                    )
                place = (agent, turn, entry.local)
                kind[place], scale[place], exponent[place] = entry.kind, entry.scale, entry.exponent
                rate[place], batch[place] = entry.rate, entry.batch
    on_lattice = (scale > 0) & (planned.inside is None)
    return Ledger(
        kind,
        planned.sensitivity,
        scale,
        planned.mechanism,
        rate,
        planned.inside,
        batch,
        step=np.where(on_lattice, np.ldexp(1.0, exponent.astype(int)), 0.0),
        values=planned.values,
    )
