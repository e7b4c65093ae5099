"""A published claim and the computation that decides it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "holds with conditions", "does not hold", "vacuous", "not reproduced"]


@dataclass(frozen=True)
class Finding:
    """What the computation found.

    Attributes
    ----------
    verdict
        `holds`; `holds with conditions` (in a stated range); `does not hold` (an instance that
        meets the claim's own hypotheses violates it); `vacuous` (its hypotheses never hold where it
        is used); `not reproduced` (tried as described, did not come out).
    summary
        The evidence in a sentence or two, with its numbers.
    columns, rows
        The table that decides.
    """

    verdict: Verdict
    summary: str
    columns: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Claim:
    """A claim as its paper states it; `decide` recomputes the evidence."""

    id: str
    paper: str
    statement: str
    reasoning: str
    decide: Callable[[], Finding]
