"""Composition: the total cost of several answers, runs and choices on the same records.

A run is a tuple of legs, each the answers of a plan about a named part of the records: a training,
the private score of its model, a choice among trainings. No other code composes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import certificate, gaussian, mechanisms
from taciturn.kernel.privacy.accounting import MOST_EPSILON_OF_POISSON, Event, account
from taciturn.kernel.privacy.certificate import Certificate
from taciturn.kernel.privacy.drawn import pays_for_tests
from taciturn.kernel.privacy.ledger import NO_QUESTION, ChoiceLeg, Ledger, Leg
from taciturn.kernel.privacy.terms import (
    BoundedChange,
    Messages,
    Observer,
    Relation,
    ReplaceOne,
    TargetChange,
    Terms,
    ZeroOut,
)
from taciturn.typing import HostArray

_A = 0.01  # the attacker's false-positive rate
# the relations and laws for which bounds and curves are derived
_RELATIONS = (BoundedChange, ReplaceOne, TargetChange, ZeroOut)
_LAWS = (mechanisms.Gaussian, mechanisms.Laplace, mechanisms.NoNoise)


@dataclass(frozen=True)
class Composition:
    """Legs that compose, one for each part of the records; created by `compose` only.

    - `legs`: In the order in which their parts are first named.
    - `terms`: Neighbours, delta and observer of the whole.
    - `agents`: A, the number of agents.
    - `joined`: Whether several runs are on one part: one delta then pays for all of their tests.
    """

    legs: tuple[Leg | ChoiceLeg, ...]
    terms: Terms
    agents: int
    joined: bool

    @property
    def asked(self) -> tuple[Leg, ...]:
        """The legs without choices."""
        return tuple(leg for leg in self.legs if isinstance(leg, Leg))

    def certificate(self) -> Certificate:
        """Return the certificate of the legs together.

        An agent's epsilon and mu are the largest among its legs; the overall ones are those of the
        costliest agent, or of a person at several agents. mu is None where a leg has none.
        """
        asked, delta = self.asked, self.terms.delta
        each, totals = zip(*(_cost_of(leg, self.terms) for leg in self.legs), strict=True)
        largest = [self._dearest(costs) for costs in zip(*each, strict=True)]
        if asked[0].dealt:  # a record may be at any agent
            largest = [np.full(self.agents, np.max(costs)) for costs in largest]
        epsilons, mus = (tuple(costs.tolist()) for costs in largest)
        epsilon, mu, rate = np.max(totals, axis=0).tolist()
        tested = all(pays_for_tests(leg.ledger, epsilon=epsilon, delta=delta) for leg in asked)
        if self.joined and not tested:
            raise InputError(
                f"epsilon {epsilon:g} is too large for the noise of all runs to be tested within "
                "their delta; ask for an epsilon below 20"
            )
        return Certificate(
            epsilon=epsilon,
            delta=delta,
            mu=None if math.isnan(mu) else mu,
            adjacency=self.terms.adjacency,
            observer=self.terms.observer.name,
            trust=certificate.trust_of(asked, self.terms, self.agents),
            per_agent_epsilon=epsilons,
            per_agent_mu=None if math.isnan(mu) else mus,
            attacker_tpr=rate,
            arithmetic=certificate.arithmetic_of(self.legs),
            legs=self.legs,
            dealt=asked[0].dealt,
            conditions=certificate.conditions_of(self.legs, self.terms.adjacency.unit),
            conditional=bool(certificate.claims_of(asked)),
        )

    def mus(self, observer: Observer) -> Float[HostArray, " A"]:
        """Return the mu of each agent's records for an observer, or of persons at several agents.

        Raises `PrivacyError` if a leg has none.
        """
        across = self.terms.adjacency.agents_per_person
        if across > 1:
            (leg,) = self.asked
            return np.full(self.agents, leg.ledger.mu_across(observer, across))
        return self._dearest([_mus_of(leg, observer, self.terms) for leg in self.legs])

    def _dearest(self, costs: Sequence[HostArray]) -> HostArray:
        """Return the largest cost of each agent over its legs."""
        largest = np.zeros(self.agents)
        for leg, cost in zip(self.legs, costs, strict=True):
            named = None if isinstance(leg, ChoiceLeg) else leg.agents
            places = slice(None) if named is None else list(named)
            largest[places] = np.maximum(largest[places], cost)
        return largest


def compose(legs: Sequence[Leg | ChoiceLeg], terms: Terms) -> Composition:
    r"""Return the composition of legs: in sequence on one part, in parallel on disjoint parts.

    No number is computed before `Composition.certificate`, which raises `InputError` for Poisson
    batches beyond epsilon 50; the epsilon of the terms is not used.

    Raises `InputError` if no leg asks all agents, there is no accountant for these answers, or legs
    on one part are not Gaussian. Raises `PrivacyError` if legs do not compose: they are about other
    neighbours, records or agents, or for a weaker observer; a choice is about records that answer
    elsewhere; or a unit is in several parts.

    **Guarantee.** *Agents.* One agent's answers compose in sequence. Agents hold disjoint data, so
    a neighbouring data set differs at one agent i only. Given everything sent before, the other
    agents' answers have the same law on both data sets, so their log-likelihood ratios cancel and
    all that the observer sees is as private as the answers of agent i: overall epsilon and mu are
    the largest of the agents' (parallel composition). A sum of answers is a function of the
    messages, so the value for messages holds for it as well; sums of Laplace or of sampled answers
    are certified at that value. A person at several agents is in the answers of all of them
    (`Ledger.mu_across`). Where records are `dealt` by a secret draw, neighbours are files and a
    record may be at any agent: the largest curve of an agent holds for all records
    (`taciturn.kernel.records.Draw`), and is the only one that is stated.

    *One part.* Answers of several runs on the same records are answers of one run in sequence, even
    if later runs are chosen by earlier answers: Gaussian ones compose exactly
    (`Ledger.mu_per_agent`). Where answers differ in their number of entries, the largest number is
    used, which decreases neither a sensitivity nor a correction for arithmetic.

    *Disjoint parts.* If each leg is (epsilon, delta)-private, so are all together; their mu is the
    largest, and not the root of the sum of squares. For two parts, T asked before E (more follow by
    induction): a secret draw, independent of the records, assigns each record to T or E. Its law
    does not depend on the order of the file, so neighbouring data sets can be compared draw by draw
    (`taciturn.kernel.records.Draw`): they then have the same parts up to the content of one record
    r, and a bound that holds for every draw holds for the mixture. Write M(D_T) for the law of
    everything that an observer sees of the first leg, m, and N_m(D_E) for that of the second, n,
    which may depend on m: the model is a function of it. The observer sees (m, n) with the law
    M(dm | D_T) N_m(dn | D_E).

    *r is in T.* Then D_E = D'_E. Given m, the law of n is the same on both data sets, so (m, n) is
    post-processing of m, and every bound for M holds.

    *r is in E.* Then D_T = D'_T, and m has the same law on both. For an event S with the sections
    S_m,

        P(S | D) = E_m N_m(S_m | D_E) <= E_m [e^eps N_m(S_m | D'_E) + delta]
                 = e^eps P(S | D') + delta,

    where every N_m is (eps, delta)-private: the figures of the second leg hold at every query. The
    same holds for the trade-off function of a test, and so for mu: given m, which carries no
    information about r, the test is one of N_m, and its type-II error averaged over m, at mean
    level a, is at least G_mu(a), since G_mu is convex. The same proof holds with r a person at one
    agent: all rows of a person are in one part (`taciturn.kernel.records.hold_out`). A person at
    several agents is refused, since these divide independently; so is the unit agent, since an
    agent is in all parts.

    The second leg's question may therefore be chosen adaptively, as long as the first leg reads no
    record of E, neither for a centre nor for any of several candidates.

    *A choice* is one answer of every agent about a part with no other answers, of mu
    `mu_of_choice` for every observer.
    """
    parts: dict[str, list[Leg | ChoiceLeg]] = {}
    for leg in legs:
        parts.setdefault(leg.part, []).append(leg)
    together = tuple(_in_sequence(group) for group in parts.values())
    asked = [leg for leg in together if isinstance(leg, Leg)]
    counts = {len(leg.records) for leg in asked if leg.agents is None}
    if len(counts) != 1:
        raise InputError(
            f"legs about all agents have {sorted(counts)} agents; give at least one such leg, and "
            "all with the same number"
        )
    (agents,), adjacency = counts, terms.adjacency
    for leg in asked:
        _check_leg(leg, asked[0], terms, agents)
    if len(together) > 1 and (adjacency.unit == "agent" or adjacency.agents_per_person > 1):
        raise PrivacyError(
            "an agent has records in both parts, and so may a person at several agents, who divide "
            "them independently; protect records, or persons at one agent"
        )
    return Composition(together, terms, agents, joined=len(together) < len(legs))


def _in_sequence(legs: Sequence[Leg | ChoiceLeg]) -> Leg | ChoiceLeg:
    """Return the legs on one part as one leg, with their rounds in sequence."""
    if len(legs) == 1:
        return legs[0]
    asked = [leg for leg in legs if isinstance(leg, Leg)]
    if len(asked) < len(legs):
        raise PrivacyError("a choice is about records that answer elsewhere; hold others out")
    first, *others = asked
    same = ("adjacency", "observer", "agents", "records", "dealt", "trust")
    for name, leg in itertools.product(same, others):
        if getattr(leg, name) != getattr(first, name):
            raise PrivacyError(f"legs on the {leg.part} part differ in their {name}")
    ledgers = [leg.ledger for leg in asked]
    if not all(isinstance(one.mechanism, mechanisms.Gaussian) and one.has_mu for one in ledgers):
        raise InputError(
            "runs are joined where all noise is Gaussian and added to answers on all records; "
            "leave out methods that sample records or have noise inside an objective, and give a "
            "finite epsilon"
        )
    if len({ledger.on_lattice for ledger in ledgers}) > 1:
        raise PrivacyError("some of these runs are on a lattice and some are not; plan them again")
    width = max(ledger.kind.shape[2] for ledger in ledgers)

    def stacked(parts: Iterable[HostArray], empty: int = 0) -> HostArray:
        """Return arrays of shape (A, T, E) in sequence, padded to the largest E."""
        added = [(part, ((0, 0), (0, 0), (0, width - part.shape[2]))) for part in parts]
        return np.concatenate([np.pad(*one, constant_values=empty) for one in added], axis=1)

    # kinds of questions are numbered one leg after another
    starts = itertools.accumulate((len(leg.questions) for leg in asked), initial=0)
    pairs = zip((ledger.kind for ledger in ledgers), starts, strict=False)
    kinds = (np.where(kind == NO_QUESTION, kind, kind + start) for kind, start in pairs)
    ledger = Ledger(
        stacked(kinds, NO_QUESTION),
        stacked(ledger.sensitivity for ledger in ledgers),
        stacked(ledger.scale for ledger in ledgers),
        mechanisms.Gaussian(),
        step=stacked(ledger.step for ledger in ledgers),
        values=max(one.values for one in ledgers),
    )
    questions = tuple(itertools.chain(*(leg.questions for leg in asked)))
    return replace(first, ledger=ledger, questions=questions, exact=all(leg.exact for leg in asked))


def _check_leg(leg: Leg, first: Leg, terms: Terms, agents: int) -> None:
    """Raise unless a leg composes with the first one on these terms."""
    adjacency, ledger = terms.adjacency, leg.ledger
    if type(adjacency.relation) not in _RELATIONS or type(ledger.mechanism) not in _LAWS:
        raise InputError(
            f"no accountant knows {type(adjacency.relation).__name__} or "
            f"{type(ledger.mechanism).__name__}, which is not the library's"
        )
    if leg.adjacency != adjacency or leg.dealt != first.dealt:
        raise PrivacyError(
            f"the bounds of the {leg.part} part hold for other neighbours than those of the whole; "
            "plan all parts on the same terms"
        )
    # an observer of all messages of the first leg also sees those behind a later sum
    if leg.observer not in {first.observer, Messages()} & {terms.observer, Messages()}:
        raise PrivacyError(
            f"the {leg.part} part was certified for a weaker observer; plan it again"
        )
    named = range(agents) if leg.agents is None else leg.agents
    if not all(one < other for one, other in itertools.pairwise((-1, *named, agents))):
        raise PrivacyError(f"a leg must name distinct agents of {agents}, in ascending order")
    if leg.dealt and adjacency.unit == "agent":
        raise InputError(
            "records without owners are dealt to the agents at random, so an agent's records have "
            "no common owner; protect records or persons, or give each record its owner"
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


# epsilon and mu of each agent; and overall epsilon, mu and the true-positive rate of an attacker
Cost: TypeAlias = tuple[tuple[HostArray, HostArray], tuple[float, float, float]]


def _cost_of(leg: Leg | ChoiceLeg, terms: Terms) -> Cost:
    """Return the cost of a leg; mu is NaN where the law is not exactly Gaussian.

    Gaussian noise: exact mu per agent for the observer (`Ledger.mu_per_agent`), then the Gaussian
    curve. Laplace noise, sampled answers, noise inside an objective: `account` for each different
    list of answers, for every observer. The attacker's rate is Phi(Phi^-1(a) + mu) for mu,
    otherwise the smaller of exp(epsilon) a + delta and 1 - exp(-epsilon) (1 - delta - a).
    """
    delta, adjacency = terms.delta, terms.adjacency
    if isinstance(leg, ChoiceLeg):
        return _cost_of_mus(_mus_of(leg, terms.observer, terms), delta)
    ledger, across = leg.ledger, adjacency.agents_per_person
    values, finest = ledger.most_values(), ledger.finest()
    if ledger.has_mu:
        each, total = _cost_of_mus(_mus_of(leg, leg.observer, terms), delta, values, finest)
        if across > 1:
            mu = np.array([ledger.mu_across(leg.observer, across)])
            _, total = _cost_of_mus(mu, delta, across * values, finest)
        return each, total
    lists, law = ledger.events_by_agent(), mechanisms.law_of(ledger.mechanism)

    def by_events(delta: float) -> HostArray:
        return np.array([_account(events, delta, adjacency.relation) for events in lists])

    epsilons = mechanisms.lattice_epsilon(by_events, delta, values=values, scale=finest, law=law)
    epsilon = float(np.max(epsilons, initial=0.0))
    if ledger.poisson and MOST_EPSILON_OF_POISSON < epsilon < math.inf:
        raise InputError(
            f"Poisson batches are accounted for up to epsilon {MOST_EPSILON_OF_POISSON:g}, and the "
            f"{leg.part} part has {epsilon:g}; ask for less, or answer on all records or on "
            "batches of a fixed size"
        )
    missed = math.exp(-epsilon) * (1 - delta - _A)
    # the two lines cross below rate 1; beyond epsilon 5 the first is above 1
    caught = math.exp(min(epsilon, 5.0)) * _A + delta
    rate = min(1.0, caught, 1 - missed)
    return (epsilons, np.full(len(lists), np.nan)), (epsilon, math.nan, rate)


def _mus_of(leg: Leg | ChoiceLeg, observer: Observer, terms: Terms) -> HostArray:
    """Return the mu of each agent of a leg; of a choice the one of all agents."""
    if isinstance(leg, ChoiceLeg):
        return np.array([mechanisms.mu_of_choice(leg.rate, terms.adjacency.relation)])
    return leg.ledger.mu_per_agent(observer)


def _cost_of_mus(mus: HostArray, delta: float, values: int = 0, finest: float = math.inf) -> Cost:
    """Return the cost of Gaussian answers; `finest` is the least scale, in lattice steps."""
    mu = float(np.max(mus, initial=0.0))
    rate_of = functools.partial(gaussian.true_positive_rate, mu)
    lattice: Any = {"values": values, "scale": finest}
    epsilons = mechanisms.lattice_epsilon(lambda d: gaussian.epsilon_of(d, mus), delta, **lattice)
    rate = mechanisms.lattice_rate(rate_of, _A, refused=mechanisms.SHARE * delta, **lattice)
    return (epsilons, mus), (float(np.max(epsilons, initial=0.0)), mu, rate)


# cached, since the check of a plan repeats the accounting of its planning
@functools.lru_cache(maxsize=1024)
def _account(events: tuple[tuple[Event, int], ...], delta: float, relation: Relation) -> float:
    return account(events, delta=delta, relation=relation).epsilon
