"""Ledger entries that a site signs at the end: public facts about its answers, and no answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from taciturn.errors import PrivacyError, TaciturnError
from taciturn.privacy import Ledger
from taciturn.typing import HostArray
from taciturn_federation.envelope import BreachError, is_whole


class Entry(NamedTuple):
    """One answer as the ledger has it: what a journal keeps of it, and no number of the answer."""

    local: int
    kind: int
    scale: float
    exponent: int
    rate: float
    batch: int


Column: TypeAlias = list[list[Entry]]
_MOST = 2**31 - 1
# 2^exponent, a step of the lattice, is a float
_LEAST_POWER, _MOST_POWER = -1100, 1023


def entries_to_json(answers: Mapping[int, Sequence[Entry]], rounds: int) -> dict[str, Any]:
    """Return the entries of every round as JSON; entries alike are written once."""
    kinds: dict[tuple[Entry, ...], int] = {}
    places = [kinds.setdefault(tuple(answers.get(t, ())), len(kinds)) for t in range(rounds)]
    return {"kinds": [[list(entry) for entry in some] for some in kinds], "rounds": places}


def entries_from_json(values: Mapping[str, Any], questions: Sequence[int], name: str) -> Column:
    """Return the entries of every round; raise `BreachError` if these are none.

    `questions`: for every round, how many questions the plan has in it at most.
    """
    kinds, places = values.get("kinds"), values.get("rounds")
    if not (isinstance(kinds, list) and isinstance(places, list)):
        raise _malformed(name, "it has no kinds and no rounds")
    if len(places) != len(questions):
        raise _malformed(name, f"it has {len(places)} rounds, and the plan {len(questions)}")
    if not all(is_whole(place, 0, len(kinds) - 1) for place in places):
        raise _malformed(name, "a round has none of its kinds")
    read = [_entries(some, name) for some in kinds]
    column = [read[place] for place in places]
    for turn, (entries, most) in enumerate(zip(column, questions, strict=True)):
        if any(entry.local >= most for entry in entries):
            raise _malformed(name, f"round {turn} has a question that the plan does not have")
    return column


def _entries(some: Any, name: str) -> list[Entry]:
    if not (isinstance(some, list) and all(_is_entry(one) for one in some)):
        raise _malformed(name, "a number is of another type or out of range")
    return [
        Entry(local, kind, float(scale), exponent, float(rate), batch)
        for local, kind, scale, exponent, rate, batch in some
    ]


def _is_entry(values: Any) -> bool:
    if not (isinstance(values, list) and len(values) == len(Entry._fields)):
        return False
    local, kind, scale, exponent, rate, batch = values
    return (
        is_whole(local, 0, _MOST)
        and is_whole(kind, 0, _MOST)
        and _is_number(scale, sys.float_info.max)
        and is_whole(exponent, _LEAST_POWER, _MOST_POWER)
        and _is_number(rate, 1.0)
        and rate > 0
        and is_whole(batch, 0, 2**53)
    )


def _is_number(value: Any, most: float) -> bool:
    """Whether a JSON value is a number from 0 to `most`; whole ones are compared exactly."""
    return type(value) in (int, float) and 0 <= value <= most


def _malformed(name: str, why: str) -> BreachError:
    return BreachError(
        f"{name} sent no ledger entries of this run ({why}); its owner should look at its version "
        "of taciturn"
    )


def assembled(planned: Ledger, columns: Sequence[Sequence[Sequence[Entry]]]) -> Ledger:
    """Return the ledger that the sites' columns amount to.

    `planned` supplies sensitivities and the law, which follow from the proposal; `columns` has the
    entries of every agent's answers in every round.
    """
    shape = planned.kind.shape
    kind = np.full(shape, -1)
    scale, exponent, rate, batch = (np.zeros(shape) for _ in range(4))
    rate += 1
    for agent, column in enumerate(columns):
        for turn, entries in enumerate(column):
            for entry in entries:
                place = (agent, turn, entry.local)
                kind[place], scale[place], exponent[place] = entry.kind, entry.scale, entry.exponent
                rate[place], batch[place] = entry.rate, entry.batch
    on_lattice = (scale > 0) & (planned.inside is None)
    step = np.where(on_lattice, np.ldexp(1.0, exponent.astype(int)), 0.0)
    return Ledger(
        kind, planned.sensitivity, scale, planned.mechanism, rate, planned.inside, batch,
        step=step, values=planned.values,
    )  # fmt: skip


def check_entries(planned: Ledger, columns: Sequence[Column], names: Sequence[str]) -> Ledger:
    """Return the sites' ledger; `PrivacyError` names those who answered otherwise than planned."""
    try:
        observed = assembled(planned, columns)
        planned.same_as(observed)
    except TaciturnError as error:
        other = []
        for agent, name in enumerate(names):
            try:
                one = ledger_of_agent(planned, agent)
                one.same_as(assembled(one, [columns[agent]]))
            except TaciturnError:
                other.append(name)
        raise PrivacyError(f"{', '.join(other)} answered otherwise than planned: {error}") from None
    return observed


def ledger_of_agent(ledger: Ledger, agent: int, kind: HostArray | None = None) -> Ledger:
    """Return a ledger's row of one agent; `kind`: questions of all agents in place of its own."""
    row = slice(agent, agent + 1)
    return Ledger(
        (ledger.kind if kind is None else kind)[row], ledger.sensitivity[row], ledger.scale[row],
        ledger.mechanism, ledger.rates[row], ledger.inside, ledger.sizes[row], ledger.steps[row],
        ledger.values,
    )  # fmt: skip
