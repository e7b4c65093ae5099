"""A published claim and the computation that decides it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "holds with conditions", "does not hold", "vacuous", "not reproduced"]


@dataclass(frozen=True)
class Finding:
    """The result of the computation.

    Attributes
    ----------
    verdict
        `holds`; `holds with conditions` (in a stated range); `does not hold` (an instance that
        satisfies the hypotheses of the claim violates it); `vacuous` (its hypotheses never hold
        where it is used); `not reproduced` (tried as described, without the claimed result).
    summary
        The evidence in a sentence or two, with its numbers.
    columns, rows
        The table on which the verdict rests.
    """

    verdict: Verdict
    summary: str
    columns: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Claim:
    """A claim as its paper states it; `decide` computes the evidence.

    Attributes
    ----------
    verdict
        What `decide` finds, so that claims can be listed without it.
    """

    id: str
    paper: str
    verdict: Verdict
    statement: str
    reasoning: str
    decide: Callable[[], Finding]
