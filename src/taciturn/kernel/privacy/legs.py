"""Legs: what a certificate follows from, as data that a stranger can compute it from.

A leg is what was asked of one part of the records: its questions, and the noise of every answer.
`taciturn.kernel.privacy.compose` says what legs cost together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taciturn.errors import PrivacyError
from taciturn.kernel.privacy.ledger import Ledger
from taciturn.kernel.privacy.terms import Adjacency, Observer


@dataclass(frozen=True)
class Leg:
    """The answers of some agents about one part of their records.

    Raises `PrivacyError` unless ledger, agents and records are of as many agents.

    - `part`: The name of the part: "training" or "held out".
    - `agents`: The agents by their numbers in the run, in the order of the ledger; None for all.
    - `records`: How many records each of them has in this part; of persons their places.
    - `ledger`: Their answers.
    - `questions`: What each kind of question is (`taciturn.kernel.questions.Oracle.stated`), by its
    number.
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


@dataclass(frozen=True)
class ChoiceLeg:
    """One choice of every agent among candidates, about a part of its records.

    `rate`: of the exponential mechanism on costs that are sums of terms in [0, 1]
    (`taciturn.kernel.noise.exponential_choice`).
    """

    part: str
    rate: float
