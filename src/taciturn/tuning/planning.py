"""The plan of a choice: those of all candidates, the choice's rate, and what all of it costs."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from dataclasses import dataclass

import numpy as np

from taciturn.budget import Charge, Purpose
from taciturn.engine import Plan, charge_of_ledger
from taciturn.errors import InputError, PrivacyError
from taciturn.privacy import (
    Certificate,
    Ledger,
    Messages,
    Observer,
    certify,
    joined,
    mu_of_choice,
    rate_of_choice,
)
from taciturn.privacy.drawn import pays_for_tests
from taciturn.proposal import Proposal
from taciturn.proposal.forecast import known_forecast
from taciturn.tuning.proposal import Candidate, TuneProposal


@dataclass(frozen=True, eq=False)
class TunePlan:
    """What a choice among trainings will do and cost.

    The ledger is that of all trainings in order, the rate that of every agent's choice
    (`taciturn.noise.exponential_choice`); certificate, charge and purpose are of all together.
    """

    plans: tuple[Plan, ...]
    ledger: Ledger
    rate: float
    certificate: Certificate
    charge: Charge
    purpose: Purpose


def plan_choice(proposal: TuneProposal) -> TunePlan:
    r"""Return the plan of a choice, derived from its proposal alone.

    Raises
    ------
    InputError
        If there is no plan for a candidate, or its answers have no mu.
    PrivacyError
        If all together would cost more than the budget.

    Notes
    -----
    **Guarantee.** A record is trained on or chooses, by a secret draw that all candidates share
    (`taciturn.problems.hold_out`).

    *Trained on.* All k candidates ask it, and everything that it answers may be seen, also of
    those that are not picked: the answers are those of one ledger (`taciturn.privacy.joined`), and
    the choice, made by others, is post-processing.

    *Chooses.* All that the trainings let an observer see has the same law with any other record in
    its place. Given it, the record's agent makes one choice: a number of errors, a sum of terms in
    [0, 1], one for each of its records or persons, by candidate. That is `mu_of_choice` at its
    rate, which is made at most the mu of the agent with the least in the trainings.

    So both together cost the larger of the two (`taciturn.evaluation.of_disjoint_parts`), which is
    that of the trainings. Theorems on private tuning with a random number of trainings (Papernot
    and Steinke 2022; Koskela, Redberg and Wang 2024) need those that are not picked to stay hidden.
    Here every message may be read, so they do not apply.
    """
    terms = proposal.budget.terms
    for candidate in proposal.candidates:
        _check_plain(candidate)
    plans = tuple(candidate.proposal.plan() for candidate in proposal.candidates)
    summed = all(plan.program.summed for plan in plans)
    if not summed and any(plan.program.summed for plan in plans):
        raise InputError(
            "secure aggregation is credited in some of the candidates and not in all; say "
            "--observer messages, or leave out those where it is not"
        )
    dealt = plans[0].spec.dealt
    ledger = joined([plan.ledger for plan in plans])
    observer: Observer = terms.observer if summed else Messages()
    together = certify(
        ledger, delta=terms.delta, adjacency=terms.adjacency, observer=observer, dealt=dealt
    )
    if not together.epsilon <= terms.epsilon * (1 + 1e-9):
        raise PrivacyError(
            f"the trainings would spend epsilon {together.epsilon:g}; the budget is "
            f"{terms.epsilon:g}"
        )
    if not pays_for_tests(ledger, epsilon=together.epsilon, delta=together.delta):
        raise InputError(
            f"epsilon {together.epsilon:g} is too large for the noise of all trainings to be "
            "tested within their delta; ask for an epsilon below 20"
        )
    assert together.per_agent_mu is not None
    least = min(together.per_agent_mu)
    if not least > 0:
        raise InputError("an agent is never asked, so that it could not pay for a choice; ask all")
    relation = terms.adjacency.relation
    rate = rate_of_choice(least, relation)
    if mu_of_choice(rate, relation) > least:
        raise PrivacyError("the choice would cost more than the trainings; plan it anew")
    certificate = dataclasses.replace(
        together,
        conditions=(*together.conditions, condition_of(proposal)),
        arithmetic=f"{together.arithmetic}; the choice is drawn exactly",
    )
    return TunePlan(
        plans=plans,
        ledger=ledger,
        rate=rate,
        certificate=certificate,
        charge=charge_of_ledger(ledger, terms, summed=summed, dealt=dealt),
        purpose=Purpose(
            what=f"a choice among {len(plans)} candidates",
            proposal=proposal.digest,
            plan=_digest(plans),
            epsilon=terms.epsilon,
            delta=terms.delta,
            mu=certificate.mu,
            rounds=sum(plan.rounds for plan in plans),
        ),
    )


def _check_plain(candidate: Candidate) -> None:
    """Raise `InputError` for answers that have no mu, before noise is computed for them."""
    _, oracles = candidate.proposal.composition()
    if not all(oracle.sampling.rate == 1 and oracle.noise.adds for oracle in oracles):
        raise InputError(
            f"the answers of {candidate.proposal.method.name} have no mu, and candidates share a "
            "budget in mu; leave out methods that sample records or have noise inside an objective"
        )


def condition_of(proposal: TuneProposal) -> str:
    """Return what says which record is in which part."""
    unit = "person" if proposal.budget.unit == "person" else "record"
    return (
        f"{len(proposal.candidates)} candidates were trained on the same {unit}s, and "
        f"{proposal.evaluation.share:g} of each agent's {unit}s, by a draw that sees none of them, "
        "were held out of all trainings and chose: which they are stays secret, and "
        f"each {unit} is in one of the two, so both together cost it no more than the "
        "larger"
    )


def _digest(plans: tuple[Plan, ...]) -> str:
    """Return what names several plans in their order."""
    return hashlib.sha256("".join(plan.digest for plan in plans).encode()).hexdigest()


_SURE = 0.95
_DRAWS = 4000


@dataclass(frozen=True)
class Price:
    """What picking costs.

    Attributes
    ----------
    noise
        How much more noise each candidate has than if it were trained by itself: sqrt(k).
    multipliers
        Noise over sensitivity of each candidate's answers.
    risks
        What theory estimates of each candidate's excess risk; None where it does not.
    alone
        The same for the default, trained by itself on all records with the whole budget.
    chooses, trained
        How many records, or persons, choose, and are trained on.
    gap
        The share of errors by which a candidate must be better than all others to be picked in 19
        of 20 choices; None if no gap is enough. It counts the noise of the choice alone, and not
        which records happen to be held out.
    """

    candidates: int
    noise: float
    multipliers: tuple[float, ...]
    risks: tuple[float | None, ...]
    alone: float | None
    chooses: int
    trained: int
    gap: float | None

    def lines(self, names: tuple[str, ...]) -> list[str]:
        """Return the price as sentences."""
        rows = [
            f"  {name}: noise multiplier {multiplier:.4g}{_risk(risk)}"
            for name, multiplier, risk in zip(names, self.multipliers, self.risks, strict=True)
        ]
        return [
            f"{self.candidates} candidates share the budget, so that each has {self.noise:.3g} "
            "times the noise that it would have by itself:",
            *rows,
            f"  the default by itself, at the whole budget{_risk(self.alone) or ': no estimate'}",
            self._resolution(),
        ]

    def _resolution(self) -> str:
        if self.gap is None:
            return (
                f"The noise of the choice hides which candidate is best: {self.chooses:,} held out "
                "are too few for this budget"
            )
        return (
            f"{self.chooses:,} are held out to choose: a candidate that is better than all others "
            f"by {self.gap:.2%} is picked in 19 of 20 choices; smaller differences are left to "
            "chance"
        )


def _risk(risk: float | None) -> str:
    return "" if risk is None else f", estimated excess risk {risk:.3g}"


def price_of(proposal: TuneProposal, plan: TunePlan, default: Proposal | None) -> Price:
    """Return what picking costs beside training `default` alone, before a record is read."""
    proposals = [candidate.proposal for candidate in proposal.candidates]
    pairs = zip(proposals, plan.plans, strict=True)
    forecasts = [known_forecast(one, planned) for one, planned in pairs]
    units = proposal.units_held_out
    return Price(
        candidates=len(proposals),
        noise=math.sqrt(len(proposals)),
        multipliers=tuple(planned.multiplier for planned in plan.plans),
        risks=tuple(None if one is None else one.rule for one in forecasts),
        alone=None if default is None else _risk_of(default),
        chooses=sum(units),
        trained=proposals[0].units,
        gap=gap_of(units, len(proposals), plan.rate),
    )


def _risk_of(default: Proposal) -> float | None:
    try:
        found = known_forecast(default, default.plan())
    except InputError:  # a default that does not suit this budget
        return None
    return None if found is None else found.rule


def gap_of(units: tuple[int, ...], candidates: int, rate: float) -> float | None:
    """Return the least gap at which a candidate wins in 19 of 20 choices, all others being alike.

    Computed from as many made choices with a fixed seed, to a thousandth of a gap of 1.
    """
    low, high = 0.0, 1.0
    if _wins(high, units, candidates, rate) < _SURE:
        return None
    while high - low > 1e-3 * high and high > 1e-5:
        middle = (low + high) / 2
        enough = _wins(middle, units, candidates, rate) >= _SURE
        low, high = (low, middle) if enough else (middle, high)
    return high


def _wins(gap: float, units: tuple[int, ...], candidates: int, rate: float) -> float:
    """Return how often the last candidate wins that is better by the gap at every agent."""
    some = np.array([count for count in units if count], np.float64)
    draw_of_others = np.random.default_rng(1)
    draw = np.random.default_rng(0).random((_DRAWS, len(some)))
    each = np.exp(-rate * gap * some)  # of one of the others, over that of the best
    best = 1 / (1 + (candidates - 1) * each)
    # another one is as likely as the next, wherever the draw falls above `best`
    rest = draw_of_others.integers(0, candidates - 1, draw.shape)
    picks = np.where(draw < best, candidates - 1, rest)
    votes = np.zeros((_DRAWS, candidates))
    np.add.at(votes, (np.arange(_DRAWS)[:, None], picks), some)
    return float(np.mean(np.argmax(votes, axis=1) == candidates - 1))
