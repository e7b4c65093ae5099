"""What an account is about, and what a run is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from taciturn import checks
from taciturn.budget.charge import relation_of
from taciturn.errors import InputError
from taciturn.privacy import Relation
from taciturn.privacy.terms import Unit, observer_named


@dataclass(frozen=True)
class AccountTerms:
    """What an account is about: its relation and unit, and whom it is against.

    Attributes
    ----------
    relation
        As `taciturn.budget.relation_text` writes it.
    observer, colluders
        "messages", or "sum" with the number of agents who tell their noise.

    Raises
    ------
    InputError
        If one of them is unknown.
    """

    relation: str = "replace_one"
    unit: str = "record"
    observer: str = "messages"
    colluders: int = 1

    def __post_init__(self) -> None:
        relation_of(self.relation)
        if self.unit not in get_args(Unit):
            raise InputError(f"unit is {self.unit!r}; it must be 'record', 'agent' or 'person'")
        observer_named(self.observer)
        checks.at_least("colluders", self.colluders, 0)

    @property
    def observer_text(self) -> str:
        """The observer, as people read it."""
        if self.observer != "sum":
            return self.observer
        return f"{self.observer} with {self.colluders} colluding"

    @property
    def neighbours(self) -> Relation:
        """The relation."""
        return relation_of(self.relation)


@dataclass(frozen=True)
class Purpose:
    """What a run is, for the reader of an account and for what a refusal says would fit.

    Attributes
    ----------
    what
        In a few words.
    proposal, plan
        Their digests; the first is None where there is no proposal.
    epsilon, delta, mu
        As its plan certifies them.
    rounds
        How many it has.

    Raises
    ------
    InputError
        If a number is NaN or out of range, which no account could hold.
    """

    what: str
    proposal: str | None
    plan: str
    epsilon: float
    delta: float
    mu: float | None
    rounds: int

    def __post_init__(self) -> None:
        checks.not_negative("epsilon", self.epsilon, allow_infinity=True)
        checks.not_negative("delta", self.delta)
        if self.mu is not None:
            checks.not_negative("mu", self.mu, allow_infinity=True)
        checks.at_least("rounds", self.rounds, 0)
