"""The certificate of a run: its figures, the legs that they follow from, and its assumptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from taciturn.kernel.privacy.legs import ChoiceLeg, Leg
from taciturn.kernel.privacy.statement import lines_of
from taciturn.kernel.privacy.terms import Adjacency, Unit


@dataclass(frozen=True)
class Certificate:
    """A differential-privacy statement with everything needed to read it.

    - `epsilon`, `delta`, `mu`: Overall: the worst agent's. mu is None where the law is not exactly
      Gaussian.
    - `adjacency`: Which change is hidden.
    - `observer`, `trust`: The observer, and what is taken on trust.
    - `per_agent_epsilon`, `per_agent_mu`: One entry per agent.
    - `attacker_tpr`: An upper bound on an attacker's true-positive rate at 1 % false positives.
    - `arithmetic`: Which numbers it holds for: those that are computed, or real numbers only.
    - `legs`: What the figures follow from, one for each part of the records.
    - `dealt`: Whether records were dealt to the agents at random.
    - `conditions`: What else must hold, for example that ranges were public.
    - `conditional`: Whether one of the conditions is about facts that were read off the records
      themselves, or about the bound of a question that is not the library's.
    - `reproduction`: Whether noise or division came from a given seed: then nothing is private.
    """

    epsilon: float
    delta: float
    mu: float | None
    adjacency: Adjacency
    observer: str
    trust: str
    per_agent_epsilon: tuple[float, ...]
    per_agent_mu: tuple[float, ...] | None
    attacker_tpr: float
    arithmetic: str
    legs: tuple[Leg | ChoiceLeg, ...] = field(hash=False, repr=False)
    dealt: bool = field(repr=False)
    conditions: tuple[str, ...] = ()
    conditional: bool = False
    reproduction: bool = False

    @property
    def relation(self) -> str:
        """The name of the relation: which pairs of data sets are neighbours."""
        return self.adjacency.relation.name

    @property
    def unit(self) -> Unit:
        """What is protected: a record, an agent or a person."""
        return self.adjacency.unit

    @property
    def record(self) -> str:
        """The change that is hidden, as sentences."""
        return self.adjacency.describe()

    def under(self, conditions: Iterable[str], *, conditional: bool) -> Certificate:
        """Return the certificate under further conditions; it stays conditional if it was."""
        stated = dict.fromkeys((*conditions, *self.conditions))
        return dataclasses.replace(
            self, conditions=tuple(stated), conditional=conditional or self.conditional
        )

    def stamped(self, *, reproduction: bool = True) -> Certificate:
        """Return that of a reproduction, whose noise or division somebody knows; or this one."""
        if not reproduction:
            return self
        return dataclasses.replace(self, reproduction=True, attacker_tpr=1.0)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the certificate as sentences for people, the most important first."""
        return lines_of(self)
