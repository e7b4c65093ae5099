"""The plan of a choice: those of all candidates, the choice's rate, and what all of it costs."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass

from tacit.budget import Charge, Purpose
from tacit.engine import Plan, charge_of_ledger
from tacit.errors import InputError, PrivacyError
from tacit.privacy import (
    Certificate,
    Ledger,
    Messages,
    Observer,
    certify,
    joined,
    mu_of_choice,
    rate_of_choice,
)
from tacit.privacy.drawn import pays_for_tests
from tacit.tuning.proposal import Candidate, TuneProposal


@dataclass(frozen=True, eq=False)
class TunePlan:
    """What a choice among trainings will do and cost.

    Attributes
    ----------
    plans
        Of the candidates.
    ledger
        Of all trainings, one after the other.
    rate
        Of every agent's choice (`tacit.noise.exponential_choice`).
    certificate
        Of trainings and choice together.
    charge
        What an account is charged, for all of it.
    purpose
        What an account says of it.
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
    (`tacit.problems.hold_out`).

    *Trained on.* All k candidates ask it, and everything that it answers may be seen, also of
    those that are not picked: the answers are those of one ledger (`tacit.privacy.joined`), and the
    choice, made by others, is post-processing.

    *Chooses.* All that the trainings let an observer see has the same law with any other record in
    its place. Given it, the record's agent makes one choice: a number of errors, a sum of terms in
    [0, 1], one for each of its records or persons, by candidate. That is `mu_of_choice` at its
    rate, which is made at most the mu of the agent with the least in the trainings.

    So both together cost the larger of the two (`tacit.evaluation.of_disjoint_parts`), which is
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
