"""Legs: what a certificate follows from, as data that a stranger can compute it from.

A leg is what was asked of one part of the records: its questions, and the noise of every answer.
`taciturn.privacy.compose` says what legs cost together. How figures follow from legs is specified
in docs/reference/certificate.md, from which a verifier is written that shares no line with this
library.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.errors import PrivacyError
from taciturn.privacy.ledger import NO_QUESTION, Ledger, thin
from taciturn.privacy.terms import Adjacency, BoundedChange, Observer, Sum, TargetChange
from taciturn.typing import HostArray

FORMAT = "taciturn certificate 1"
# what an answer has, in the order of the columns below
_FIELDS = ("question", "sensitivity", "scale", "step", "rate", "batch")
_USUAL = {"step": 0.0, "rate": 1.0, "batch": 0.0}


@dataclass(frozen=True)
class Leg:
    """The answers of some agents about one part of their records.

    Raises `PrivacyError` unless ledger, agents and records are of as many agents.

    - `part`: The name of the part: "training" or "held out".
    - `agents`: The agents by their numbers in the run, in the order of the ledger; None for all.
    - `records`: How many records each of them has in this part; of persons their places.
    - `ledger`: Their answers.
    - `questions`: What each kind of question is (`taciturn.oracles.Oracle.stated`), by its number.
    - `observer`: Whom the answers are accounted for: who reads all messages, or a sum alone.
    - `adjacency`: The neighbours for which the sensitivities of the ledger hold.
    - `dealt`: Whether the records were dealt to the agents by a secret draw.
    - `trust`: What keeps from the observer what it does not see; None for the observer's own words.
    - `exact`: Whether the bounds hold for the answers that a machine computes.
    """

    part: str
    agents: tuple[int, ...] | None
    records: tuple[int, ...]
    ledger: Ledger
    questions: tuple[Mapping[str, Any], ...]
    observer: Observer
    adjacency: Adjacency
    dealt: bool = False
    trust: str | None = None
    exact: bool = True

    def __post_init__(self) -> None:
        named = self.records if self.agents is None else self.agents
        if not len(self.ledger.kind) == len(self.records) == len(named):
            raise PrivacyError(
                f"a leg has answers of {len(self.ledger.kind)} agents, the records of "
                f"{len(self.records)} and {len(named)} names; give those of the same agents"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the leg as JSON-safe values; equal slots are written once."""
        ledger, observer = self.ledger, self.observer
        colluders = {"colluders": observer.colluders} if isinstance(observer, Sum) else {}
        return {
            "part": self.part,
            "agents": "all" if self.agents is None else list(self.agents),
            "records": _run_lengths(self.records),
            "observer": {"name": observer.name, **colluders},
            "noise": type(ledger.mechanism).__name__.lower(),
            "values": ledger.values,
            "questions": [_finite(question) for question in self.questions],
            "slots": [
                {"times": times, "answers": [dict(answer) for answer in answers]}
                for answers, times in Counter(_slots(ledger)).items()
            ],
        }


@dataclass(frozen=True)
class ChoiceLeg:
    """One choice of every agent among candidates, about a part of its records.

    `rate`: of the exponential mechanism on costs that are sums of terms in [0, 1]
    (`taciturn.noise.exponential_choice`).
    """

    part: str
    rate: float

    def to_dict(self) -> dict[str, Any]:
        """Return the leg as JSON-safe values."""
        return {"part": self.part, "choice": {"rate": self.rate}}


def terms_to_dict(adjacency: Adjacency, delta: float, *, dealt: bool) -> dict[str, Any]:
    """Return what a guarantee is about, as JSON-safe values."""
    relation = adjacency.relation
    moved = {"beta": relation.beta} if isinstance(relation, BoundedChange | TargetChange) else {}
    terms: dict[str, Any] = {"relation": relation.name, **moved, "unit": adjacency.unit}
    if adjacency.unit == "person":
        terms["rows_per_person"] = adjacency.rows_per_person
        terms["agents_per_person"] = adjacency.agents_per_person
    return {**terms, "delta": delta, "dealt": dealt}


def _slots(ledger: Ledger) -> Iterator[tuple[Any, ...]]:
    """Yield every place of every round in which somebody is asked, as pairs of names and values."""
    columns: list[HostArray] = [ledger.kind, ledger.sensitivity, ledger.scale]
    columns += [ledger.steps, ledger.rates, ledger.sizes]
    known: dict[bytes, tuple[Any, ...]] = {}
    _, rounds, places = ledger.kind.shape
    # an axis along which nothing changes is looked at once
    repeated = all(thin(column).shape[1] == 1 for column in columns)
    for turn in range(1 if repeated else rounds):
        for place in range(places):
            rows = np.stack([np.asarray(one[:, turn, place], np.float64) for one in columns], 1)
            key = rows.tobytes()
            if key not in known:
                known[key] = _answers(rows)
            if known[key]:
                yield from [known[key]] * (rounds if repeated else 1)


def _answers(rows: HostArray) -> tuple[Any, ...]:
    """Return the different answers at a slot, each with the agents that give it."""
    asked = np.flatnonzero(rows[:, 0] != NO_QUESTION)
    if not asked.size:
        return ()
    different, which = np.unique(rows[asked], axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")  # agents with the same answer stand together
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
    """Return values with the text "infinity" for an infinite one."""
    return {name: "infinity" if value == math.inf else value for name, value in values.items()}


def _runs(agents: HostArray) -> tuple[tuple[int, int], ...]:
    """Return rising numbers as first and last of runs without a gap."""
    breaks = np.flatnonzero(np.diff(agents) != 1) + 1
    return tuple((int(run[0]), int(run[-1])) for run in np.split(agents, breaks))


def _run_lengths(counts: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return counts as pairs: how many agents in a row have the same, and what they have."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][1] == count:
            runs[-1][0] += 1
        else:
            runs.append([1, count])
    return [(agents, count) for agents, count in runs]
