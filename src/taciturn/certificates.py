"""Certificates as files: their statements, and the legs from which these follow, as JSON values.

docs/reference/certificate.md specifies how figures follow from legs; a verifier written from it
shares no code with this library. Readers of a file (`taciturn verify`, `taciturn show`) recompute
all of its figures.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from taciturn.kernel.privacy import (
    NO_QUESTION,
    BoundedChange,
    Certificate,
    ChoiceLeg,
    Ledger,
    Leg,
    Sum,
    TargetChange,
)
from taciturn.typing import HostArray

FORMAT = "taciturn certificate 1"
# the entries of an answer, in the order of the columns below, and defaults that are omitted
_FIELDS = ("question", "sensitivity", "scale", "step", "rate", "batch")
_USUAL = {"step": 0.0, "rate": 1.0, "batch": 0.0}
_OF_PERSONS = ("rows_per_person", "agents_per_person")
_CLAIMED = (
    "epsilon", "mu", "per_agent_epsilon", "per_agent_mu", "attacker_tpr", "reproduction",
    "conditional",
)  # fmt: skip

_STATED = (
    "epsilon", "delta", "mu", "relation", "unit", "observer", "trust", "record",
    "per_agent_epsilon", "per_agent_mu", "reproduction", "conditions", "attacker_tpr",
    "conditional", "arithmetic",
)  # fmt: skip


def stated(certificate: Certificate) -> dict[str, Any]:
    """Return the statements of a certificate as JSON values; infinite numbers become "infinity"."""
    persons = _OF_PERSONS if certificate.unit == "person" else ()
    values = {name: _safe(getattr(certificate, name)) for name in _STATED}
    return values | {name: getattr(certificate.adjacency, name) for name in persons}


def _safe(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_safe(entry) for entry in value]
    return "infinity" if isinstance(value, float) and math.isinf(value) else value


def document_of(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate with everything it follows from (docs/reference/certificate.md)."""
    relation, values = certificate.adjacency.relation, stated(certificate)
    moved = {"beta": relation.beta} if isinstance(relation, BoundedChange | TargetChange) else {}
    terms: dict[str, Any] = {"relation": relation.name, **moved, "unit": certificate.unit}
    return {
        "format": FORMAT,
        "terms": {
            **terms,
            **{name: values[name] for name in _OF_PERSONS if name in values},
            "delta": certificate.delta,
            "dealt": certificate.dealt,
        },
        "observer": certificate.observer,
        "legs": [_leg(leg) for leg in certificate.legs],
        "claim": {name: values[name] for name in _CLAIMED},
    }


def _leg(leg: Leg | ChoiceLeg) -> dict[str, Any]:
    """Return a leg, with equal slots merged."""
    if isinstance(leg, ChoiceLeg):
        return {"part": leg.part, "choice": {"rate": leg.rate}}
    ledger, observer = leg.ledger, leg.observer
    colluders = {"colluders": observer.colluders} if isinstance(observer, Sum) else {}
    return {
        "part": leg.part,
        "agents": "all" if leg.agents is None else list(leg.agents),
        "records": _run_lengths(leg.records),
        "observer": {"name": observer.name, **colluders},
        "noise": type(ledger.mechanism).__name__.lower(),
        "values": ledger.values,
        "questions": [_finite(question) for question in leg.questions],
        "slots": [
            {"times": times, "answers": [dict(answer) for answer in answers]}
            for answers, times in Counter(_slots(ledger)).items()
        ],
    }


def _slots(ledger: Ledger) -> Iterator[tuple[Any, ...]]:
    """Yield the answers of every slot, a question of a round, at which some agent answers."""
    columns: list[HostArray] = [ledger.kind, ledger.sensitivity, ledger.scale]
    columns += [ledger.step, ledger.rate, ledger.batch]
    known: dict[bytes, tuple[Any, ...]] = {}
    _, rounds, places = ledger.kind.shape
    # an axis of stride 0 is constant
    repeated = all(column.strides[1] == 0 for column in columns)
    for turn in range(1 if repeated else rounds):
        for place in range(places):
            rows = np.stack([np.asarray(one[:, turn, place], np.float64) for one in columns], 1)
            key = rows.tobytes()
            if key not in known:
                known[key] = _answers(rows)
            if known[key]:
                yield from [known[key]] * (rounds if repeated else 1)


def _answers(rows: HostArray) -> tuple[Any, ...]:
    """Return the distinct answers at a slot, each with the agents that give it."""
    asked = np.flatnonzero(rows[:, 0] != NO_QUESTION)
    if not asked.size:
        return ()
    # agents are grouped by equal answers, in the order of the sorted answers
    different, which = np.unique(rows[asked], axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")  # groups agents with the same answer
    ends = np.cumsum(np.bincount(which.ravel(), minlength=len(different)))
    answers = []
    for row, places in zip(different.tolist(), np.split(order, ends[:-1]), strict=True):
        agents = asked[places]
        given: dict[str, Any] = {
            name: value
            for name, value in zip(_FIELDS, row, strict=True)
            if _USUAL.get(name) != value
        }
        given |= {name: int(given[name]) for name in ("question", "batch") if name in given}
        given = _finite(given)
        whole = len(agents) == len(rows)
        answers.append((("agents", "all" if whole else _runs(agents)), *given.items()))
    return tuple(answers)


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with "infinity" for infinite ones."""
    return {
        name: "infinity" if isinstance(value, float) and math.isinf(value) else value
        for name, value in values.items()
    }


def _runs(agents: HostArray) -> tuple[tuple[int, int], ...]:
    """Return increasing numbers as runs of consecutive ones, (first, last)."""
    breaks = np.flatnonzero(np.diff(agents) != 1) + 1
    return tuple((int(run[0]), int(run[-1])) for run in np.split(agents, breaks))


def _run_lengths(counts: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return counts as run lengths: (how many consecutive agents, their count)."""
    return [(len(list(same)), count) for count, same in itertools.groupby(counts)]
