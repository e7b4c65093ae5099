"""The certificate of a run: the guarantee, its observer and its assumptions."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from taciturn import checks
from taciturn.errors import InputError
from taciturn.privacy import gaussian
from taciturn.privacy.accounting import account
from taciturn.privacy.ledger import Ledger
from taciturn.privacy.legs import FORMAT, ChoiceLeg, Leg, terms_to_dict
from taciturn.privacy.mechanisms import SHARE, Laplace, Law, NoNoise, lattice_epsilon, lattice_rate
from taciturn.privacy.terms import Adjacency, Messages, Observer, ReplaceOne, Unit, ZeroOut
from taciturn.typing import HostArray

FALSE_POSITIVE_RATE = 0.01
DEALT = (
    "records were dealt to the agents by a secret draw: no observer, colluders included, sees a "
    "dealt shard or learns which agent has a record; every agent's figure is the dearest agent's"
)

# relations under which a record is a row of somebody
_OF_ROWS = (ReplaceOne.name, ZeroOut.name)
_REPRODUCTION = "reproduction, not private: a seed repeats its noise, or who has which record"
_CONDITIONAL = "Conditional (see the conditions): "
REAL_NUMBERS = "holds for real numbers; what rounding adds to it is not known"
_POST_PROCESSING = "; certified at the messages value, which holds for every sum by post-processing"


@dataclass(frozen=True)
class Certificate:
    """A differential-privacy statement with everything needed to read it.

    - `epsilon`, `delta`, `mu`: Overall: the worst agent's. mu is None where the law is not exactly
      Gaussian.
    - `relation`, `unit`, `record`: Which change is hidden: names, and one sentence.
    - `observer`, `trust`: The observer, and what is taken on trust.
    - `per_agent_epsilon`, `per_agent_mu`: One entry per agent.
    - `reproduction`: Whether noise or division came from a given seed: then nothing is private.
    - `conditions`: What else must hold, for example that ranges were public.
    - `attacker_tpr`: An upper bound on an attacker's true-positive rate at 1 % false positives.
    - `conditional`: Whether one of the conditions is about facts that were read off the records
      themselves, or about the bound of a question that is not the library's.
    - `arithmetic`: Which numbers it holds for: those that are computed, or real numbers only.
    - `rows_per_person`, `agents_per_person`: For the unit person: how many places one has at an
      agent, and at how many agents.
    - `legs`: What the figures follow from; none for a ledger whose questions are not known.
    - `adjacency`, `dealt`: The neighbours that they were computed for, and whether records were
      dealt to the agents at random.
    - `scope`: What else adds to it: the same sentence for every certificate.
    """

    scope: ClassVar[str] = (
        "this run alone: every other run on the same records, earlier or later, adds to it"
    )

    epsilon: float
    delta: float
    mu: float | None
    relation: str
    unit: Unit
    observer: str
    trust: str
    record: str
    per_agent_epsilon: tuple[float, ...]
    per_agent_mu: tuple[float, ...] | None
    reproduction: bool
    conditions: tuple[str, ...]
    attacker_tpr: float
    conditional: bool = False
    arithmetic: str = ""
    rows_per_person: int | None = None
    agents_per_person: int | None = None
    legs: tuple[Leg | ChoiceLeg, ...] = field(default=(), compare=False, repr=False)
    adjacency: Adjacency | None = field(default=None, compare=False, repr=False)
    dealt: bool = field(default=False, compare=False, repr=False)

    def under(self, conditions: Iterable[str], *, conditional: bool) -> Certificate:
        """Return the certificate under further conditions; it stays conditional if it was."""
        stated = dict.fromkeys((*conditions, *self.conditions))
        return dataclasses.replace(
            self, conditions=tuple(stated), conditional=conditional or self.conditional
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-safe values; infinite numbers become the text "infinity".

        The fields of a person are there for that unit only.
        """
        names = [field.name for field in dataclasses.fields(self) if field.compare]
        if self.unit != "person":
            names = [name for name in names if not name.endswith("_per_person")]
        return {name: _json_safe(getattr(self, name)) for name in names}

    def to_document(self) -> dict[str, Any]:
        """Return all that the figures follow from, and the figures, as JSON-safe values.

        As specified in docs/reference/certificate.md.
        """
        assert self.adjacency is not None
        claimed = ("epsilon", "mu", "per_agent_epsilon", "per_agent_mu", "attacker_tpr")
        return {
            "format": FORMAT,
            "terms": terms_to_dict(self.adjacency, self.delta, dealt=self.dealt),
            "observer": self.observer,
            "legs": [leg.to_dict() for leg in self.legs],
            "claim": {
                **{name: _json_safe(getattr(self, name)) for name in claimed},
                "reproduction": self.reproduction,
                "conditional": self.conditional,
            },
        }

    def lines(self) -> list[str]:
        """Return the certificate as sentences for people, the most important first."""
        promise = "no privacy: epsilon is infinite"
        if not math.isinf(self.epsilon):
            head = _CONDITIONAL if self.conditional else ""
            if self.reproduction:
                head += "with noise and a division that nobody can repeat: "
            law = "" if self.mu is None else f" (exactly Gaussian, mu = {self.mu:.4g})"
            # four decimals, never below the value itself
            promise = (
                f"{head}epsilon = {math.ceil(self.epsilon * 1e4) / 1e4:.4f} at delta = "
                f"{self.delta:g}{law}, relation {self.relation}, unit {self.unit}"
            )
        seeded = "the noise of a seed is rounded as it comes; without a seed, it "
        arithmetic = f"Arithmetic: {seeded if self.reproduction else ''}{self.arithmetic}."
        return [
            *([_REPRODUCTION] if self.reproduction else []),
            promise,
            f"Protected: {self.record}",
            *([] if self.persons is None else [f"Persons: {self.persons}."]),
            f"Observer: {self.observer}. Taken on trust: {self.trust}.",
            f"An attacker who accepts {FALSE_POSITIVE_RATE:.0%} false positives finds at most "
            f"{self.attacker_tpr:.2%} of the true ones.",
            *([arithmetic] if self.arithmetic else []),
            f"Scope: {self.scope}.",
            *(f"Condition: {condition}" for condition in self.conditions),
        ]

    @property
    def persons(self) -> str | None:
        """What it says of a person with several rows, if a record is what is protected.

        None where records are no rows of anybody, and where nothing is protected.

        **Guarantee.** k rows are replaced one after the other: k steps of mu make one of k mu
        (Dong, Roth and Su 2022, Theorem 2.14); k steps of epsilon and delta make one of k epsilon
        and delta (1 + e^epsilon + ... + e^((k-1) epsilon)).
        """
        of_rows = self.unit == "record" and self.relation in _OF_ROWS
        if not of_rows or math.isinf(self.epsilon):
            return None
        if self.mu is not None:
            return "a person with k rows is protected at k times mu"
        return (
            "a person with k rows is protected at k times epsilon, and at delta times "
            "1 + exp(epsilon) + ... + exp((k - 1) epsilon)"
        )


def certify(  # noqa: PLR0913 - a ledger, and the terms it is read on
    ledger: Ledger,
    *,
    delta: float,
    adjacency: Adjacency,
    observer: Observer,
    reproduction: bool = False,
    conditions: tuple[str, ...] = (),
    dealt: bool = False,
) -> Certificate:
    """Return the certificate of a ledger whose sensitivities hold for `adjacency`.

    Gaussian noise: exact mu per agent as the observer sees it (`Ledger.mu_per_agent`), then the
    Gaussian curve. Laplace noise, sampled answers, noise inside an objective: `account` per
    different list of answers, whatever the observer. Raises `InputError` if delta is not above 0
    and below 1, records are dealt and the unit is an agent, answers are sampled and the unit is no
    record, or a person is at several agents and the answers have no mu.

    **Guarantee.** One agent's answers compose in sequence. Agents hold disjoint data, so a
    neighbouring data set differs at one agent i only. Given everything sent before, the other
    agents' answers have the same law on both data sets, so their log-likelihood ratios cancel and
    what the observer sees is as private as agent i's own answers: overall epsilon is the largest
    of the agents' (parallel composition), and so is mu. A sum of answers is a function of the
    messages, so the messages value holds for it as well; sums of Laplace or of sampled answers
    are certified at that value. The attacker's rate is Phi(Phi^-1(a) + mu) for mu, otherwise the
    smaller of exp(epsilon) a + delta and 1 - exp(-epsilon) (1 - delta - a), a = 0.01.
    A person at several agents is in the answers of all of them: `Ledger.mu_across`.
    Where records are `dealt` by a secret draw, neighbours are files and a record may be at any
    agent: the dearest agent's curve holds, whoever has the record (`taciturn.problems.Draw`), and
    is the only one that is stated.
    """
    delta = checks.delta(delta)
    across, trust, curve = adjacency.agents_per_person, observer.trust, _on_lattice(ledger)
    _check_unit(ledger, adjacency, dealt=dealt)
    per_agent_mu: tuple[float, ...] | None = None
    if ledger.has_mu:
        sizes = ledger.mu_per_agent(observer)
        epsilons = _tuple(curve(lambda d: gaussian.epsilon_of(d, sizes), delta))
        per_agent_mu = _tuple(sizes)
    else:
        lists, relation = ledger.events_by_agent(), adjacency.relation

        def by_events(d: float) -> HostArray:
            cost = functools.cache(lambda events: account(events, delta=d, relation=relation))
            return np.array([cost(events).epsilon for events in lists])

        epsilons = _tuple(curve(by_events, delta))
        trust += "" if isinstance(observer, Messages) else _POST_PROCESSING
    if dealt:
        conditions = (DEALT, *conditions)
        epsilons = (max(epsilons, default=0.0),) * len(epsilons)
        if per_agent_mu is not None:
            per_agent_mu = (max(per_agent_mu, default=0.0),) * len(per_agent_mu)
    epsilon = max(epsilons, default=0.0)
    mu = None if per_agent_mu is None else max(per_agent_mu, default=0.0)
    if across > 1:
        mu = ledger.mu_across(observer, across)
        together = _on_lattice(ledger, across)
        epsilon = float(together(lambda d: gaussian.epsilon_of(d, mu), delta))
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        relation=adjacency.relation.name,
        unit=adjacency.unit,
        observer=observer.name,
        trust=trust,
        record=adjacency.describe(),
        per_agent_epsilon=epsilons,
        per_agent_mu=per_agent_mu,
        reproduction=reproduction,
        conditions=tuple(conditions),
        attacker_tpr=1.0 if reproduction else _attacker_tpr(epsilon, delta, mu, ledger, across),
        arithmetic=_arithmetic(ledger),
        rows_per_person=adjacency.rows_per_person,
        agents_per_person=across if adjacency.unit == "person" else None,
        adjacency=adjacency,
        dealt=dealt,
    )


def _check_unit(ledger: Ledger, adjacency: Adjacency, *, dealt: bool) -> None:
    """Raise `InputError` unless an accountant is known for answers about this unit."""
    if dealt and adjacency.unit == "agent":
        raise InputError(
            "records without owners are dealt to the agents at random, so no agent's records are "
            "somebody's; protect records or persons, or give each record its owner"
        )
    if ledger.sampled and adjacency.unit != "record":
        raise InputError(
            f"sampling records hides no {adjacency.unit}; certify full-batch answers instead"
        )
    if adjacency.agents_per_person > 1 and not ledger.has_mu:
        raise InputError(
            "a person at several agents is accounted for under added Gaussian noise only; let each "
            "person be at one agent, or use such noise"
        )


def _arithmetic(ledger: Ledger) -> str:
    """Return which numbers the statement holds for; nothing where there is no noise."""
    if isinstance(ledger.mechanism, NoNoise) or not np.any(ledger.asked):
        return ""
    if not ledger.on_lattice:
        return REAL_NUMBERS
    coarsest = int(np.log2(ledger.coarsest()))
    return (
        "holds for the numbers that are computed, rounding included: exact noise on a lattice of "
        f"step 2^{coarsest} or finer"
    )


def _on_lattice(ledger: Ledger, agents: int = 1) -> Callable[..., Any]:
    """Return what turns epsilons of rounded noise into those of the noise that is really drawn.

    A unit is in the answers of so many `agents`.
    """
    if not ledger.on_lattice:
        return lambda epsilon_of, delta: epsilon_of(delta)
    law: Law = "laplace" if isinstance(ledger.mechanism, Laplace) else "gaussian"
    return functools.partial(
        lattice_epsilon, values=agents * ledger.most_values(), scale=ledger.finest(), law=law
    )


def delta_warning(delta: float, units: int, what: str = "records") -> tuple[str, ...]:
    """Return a warning if delta exceeds 1 / (10 x units), else nothing.

    `units`, `what`: how many records there are, or persons if a person is what is protected; their
    name.
    """
    least = 1 / (10 * units)
    if delta <= least:
        return ()
    return (
        f"delta {delta:g} is above 1/(10 x {units} {what}) = {least:.2g}: such a mechanism "
        f"may publish whole records; choose delta at most {least:.2g}",
    )


def _attacker_tpr(
    epsilon: float, delta: float, mu: float | None, ledger: Ledger, agents: int
) -> float:
    if mu is not None:
        rate_of = functools.partial(gaussian.true_positive_rate, mu)
        if not ledger.on_lattice:
            return rate_of(FALSE_POSITIVE_RATE)
        values, scale = agents * ledger.most_values(), ledger.finest()
        return lattice_rate(
            rate_of, FALSE_POSITIVE_RATE, values=values, scale=scale, refused=SHARE * delta
        )
    missed = math.exp(-epsilon) * (1 - delta - FALSE_POSITIVE_RATE)
    # the two lines cross below rate 1; past exponent 5 the first is above 1 already
    caught = math.exp(min(epsilon, 5.0)) * FALSE_POSITIVE_RATE + delta
    return min(1.0, caught, 1 - missed)


def _tuple(values: Any) -> tuple[float, ...]:
    return tuple(np.asarray(values, np.float64).tolist())


def _json_safe(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json_safe(entry) for entry in value]
    return "infinity" if isinstance(value, float) and math.isinf(value) else value
