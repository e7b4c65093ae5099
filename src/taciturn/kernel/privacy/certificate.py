"""The certificate of a run: its figures, the legs that imply them, and its sentences.

Sentences are for readers: nothing is computed from them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from taciturn.kernel.privacy.ledger import NO_QUESTION, ChoiceLeg, Ledger, Leg, thin
from taciturn.kernel.privacy.mechanisms import NoNoise
from taciturn.kernel.privacy.terms import (
    Adjacency,
    Messages,
    ReplaceOne,
    Sum,
    Terms,
    Unit,
    ZeroOut,
)

DEALT = (
    "records were dealt to the agents by a secret draw: no observer, colluders included, sees a "
    "dealt shard or learns which agent has a record; every agent has the costliest agent's figure"
)
REAL_NUMBERS = "holds for real numbers; what rounding adds to it is not known"
SCOPE = "this run alone: every other run on the same records, earlier or later, adds to it"

# relations under which a record is a row of some person
_OF_ROWS = (ReplaceOne.name, ZeroOut.name)
_REPRODUCTION = "reproduction, not private: a seed repeats its noise, or who has which record"
_CONDITIONAL = "Conditional (see the conditions): "
_POST_PROCESSING = "; certified at the messages value, which holds for every sum by post-processing"


@dataclass(frozen=True)
class Certificate:
    """A differential-privacy guarantee with its assumptions.

    - `epsilon`, `delta`, `mu`: Of the worst agent. mu is None if the law is not exactly Gaussian.
    - `adjacency`: Which data sets are neighbours.
    - `observer`, `trust`: The observer, and what is taken on trust.
    - `per_agent_epsilon`, `per_agent_mu`: One entry per agent.
    - `attacker_tpr`: An upper bound on an attacker's true-positive rate at 1 % false positives.
    - `arithmetic`: Whether it holds for computed numbers, or for real numbers only.
    - `legs`: The ledgers that imply the figures, one leg for each part of the records.
    - `dealt`: Whether records were dealt to the agents at random.
    - `conditions`: What else must hold, for example that ranges were public.
    - `conditional`: Whether a condition is about facts that were computed from the records, or
      about the bound of a question that is not the library's.
    - `reproduction`: Whether noise or division came from a given seed, so that nothing is private.
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
        """The name of the neighbouring relation."""
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
        """Return the certificate with further conditions; a conditional one stays conditional."""
        stated = dict.fromkeys((*conditions, *self.conditions))
        return dataclasses.replace(
            self, conditions=tuple(stated), conditional=conditional or self.conditional
        )

    def stamped(self, *, reproduction: bool = True) -> Certificate:
        """Return the certificate marked as a reproduction, whose noise or division is known."""
        if not reproduction:
            return self
        return dataclasses.replace(self, reproduction=True, attacker_tpr=1.0)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the certificate as sentences, the most important first."""
        return lines_of(self)


def lines_of(certificate: Certificate) -> list[str]:
    """Return the certificate as sentences, the most important first."""
    it, promise = certificate, "no privacy: epsilon is infinite"
    if not math.isinf(it.epsilon):
        head = _CONDITIONAL if it.conditional else ""
        if it.reproduction:
            head += "with noise and a division that nobody can repeat: "
        law = "" if it.mu is None else f" (exactly Gaussian, mu = {it.mu:.4g})"
        # four decimals, never below the value itself
        promise = (
            f"{head}epsilon = {math.ceil(it.epsilon * 1e4) / 1e4:.4f} at delta = "
            f"{it.delta:g}{law}, relation {it.relation}, unit {it.unit}"
        )
    seeded = "without a seed, it "
    persons = _persons(it)
    return [
        *([_REPRODUCTION] if it.reproduction else []),
        promise,
        f"Protected: {it.record}",
        *([f"Persons: {persons}."] if persons else []),
        f"Observer: {it.observer}. Taken on trust: {it.trust}.",
        "An attacker who accepts 1% false positives finds at most "
        f"{it.attacker_tpr:.2%} of the true ones.",
        *([f"Arithmetic: {seeded * it.reproduction}{it.arithmetic}."] if it.arithmetic else []),
        f"Scope: {SCOPE}.",
        *(f"Condition: {condition}" for condition in it.conditions),
    ]


def _persons(certificate: Certificate) -> str:
    """Return the sentence about a person with several rows, where records are protected; else "".

    **Guarantee.** Group privacy: k rows are replaced one after the other; k steps of mu make one of
    k mu (Dong, Roth and Su 2022, Theorem 2.14); k steps of epsilon and delta make one of k epsilon
    and delta (1 + e^epsilon + ... + e^((k-1) epsilon)).
    """
    of_rows = certificate.unit == "record" and certificate.relation in _OF_ROWS
    if not of_rows or math.isinf(certificate.epsilon):
        return ""
    if certificate.mu is not None:
        return "a person with k rows is protected at k times mu"
    return (
        "a person with k rows is protected at k times epsilon, and at delta times "
        "1 + exp(epsilon) + ... + exp((k - 1) epsilon)"
    )


def trust_of(legs: Sequence[Leg], terms: Terms, agents: int) -> str:
    """Return what a certificate takes on trust, including claims of authors of questions."""
    observer, (first, *_) = legs[0].observer, legs
    trust = "; and ".join(dict.fromkeys(leg.trust or observer.trust for leg in legs))
    if not first.trust and isinstance(observer, Sum) and not first.ledger.has_mu:
        trust += _POST_PROCESSING
    if isinstance(observer, Sum) and agents <= observer.colluders + 1:
        trust = trust_without_honest_agents(agents, observer.colluders)
    if isinstance(observer, Messages) and observer != terms.observer:
        trust = _not_credited("this algorithm asks at private iterates")
        if any(leg.ledger.sampled for leg in legs):
            trust = _not_credited("its batches are sampled")
        elif any(leg.ledger.inside is not None for leg in legs):
            trust = _not_credited("its noise is inside an objective")
    names = ", ".join(claims_of(legs))
    return f"{trust}; and the author of {names}, for the bound" if names else trust


def trust_without_honest_agents(agents: int, colluders: int) -> str:
    """Return what is taken on trust if all other agents may collude.

    **Guarantee.** The accountant counts on the noise of A - k agents (`Ledger.mu_per_agent`): for
    k >= A - 1 on the agent's own noise alone.
    """
    return _not_credited(
        f"an agent may have no honest peer (agents: {agents}, colluders: {colluders})"
    )


def _not_credited(why: str) -> str:
    return (
        f"none needed: {why}, so nothing is credited to summation; this is the value for an "
        "observer of every message"
    )


def claims_of(legs: Sequence[Leg]) -> tuple[str, ...]:
    """Return the custom classes on which the bounds of some questions rest."""
    questions = (q for leg in legs if not _is_quiet(leg) for q in leg.questions)
    return tuple(dict.fromkeys(name for one in questions for name in one.get("by", ())))


def conditions_of(legs: Sequence[Leg | ChoiceLeg], unit: Unit) -> tuple[str, ...]:
    """Return the conditions that follow from the legs: claimed bounds, and secret draws."""
    asked, parts = [leg for leg in legs if isinstance(leg, Leg)], [leg.part for leg in legs]
    apart = (
        f"each {unit} is in one of the parts of the records ({', '.join(parts)}), by a draw that "
        "reads none of them and stays secret, so that all cost it no more than the costliest"
    )
    claims = (
        f"no unit that is protected moves an answer by more than its bound, which rests on {name}: "
        "a claim of its author, neither proved nor checked by taciturn"
        for name in claims_of(asked)
    )
    dealt = any(leg.dealt for leg in asked)
    return (*claims, *([DEALT] if dealt else []), *([apart] if len(parts) > 1 else []))


def arithmetic_of(legs: Sequence[Leg | ChoiceLeg]) -> str:
    """Return which numbers a certificate holds for."""
    texts = [_arithmetic(legs[0])]
    for leg in legs[1:]:
        text = _arithmetic(leg)
        if isinstance(leg, ChoiceLeg):
            texts.append(text)
        elif text not in {texts[0], ""}:
            texts.append(f"of the evaluation, it {text}")
    return "; ".join(texts)


def _arithmetic(leg: Leg | ChoiceLeg) -> str:
    """Return which numbers a leg holds for; "" without noise."""
    if isinstance(leg, ChoiceLeg):
        return "the choice is drawn exactly"
    if not leg.exact:
        return REAL_NUMBERS
    if _is_quiet(leg) or not np.any(leg.ledger.asked):
        return ""
    if not leg.ledger.on_lattice:
        return REAL_NUMBERS
    return (
        "holds for the numbers that are computed, rounding included: exact noise on a lattice of "
        f"step 2^{int(np.log2(_coarsest(leg.ledger)))} or finer"
    )


def _coarsest(ledger: Ledger) -> float:
    """Return the largest step of the lattice of an answer."""
    asked, step = np.broadcast_arrays(thin(ledger.kind) > NO_QUESTION, thin(ledger.step))
    return float(np.max(step, where=asked, initial=0.0))


def _is_quiet(leg: Leg) -> bool:
    return isinstance(leg.ledger.mechanism, NoNoise)
