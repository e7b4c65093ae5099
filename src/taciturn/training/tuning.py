"""A private choice among trainings that share a budget, made on held-out records."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from pydantic import model_validator

from taciturn import checks
from taciturn.budget import Account, Charge, Purpose, Reservation
from taciturn.calibration import mu_of, rate_of_choice
from taciturn.documents import Document, Part
from taciturn.engine import Charged, Plan, charge_of_legs, check_chargeable, paying
from taciturn.errors import InputError, PrivacyError, TaciturnError, reason, reraise_clean
from taciturn.features import CentredRows
from taciturn.kernel import privacy
from taciturn.kernel.door import choose
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.questions import ClippedErrors, Tally
from taciturn.kernel.records import (
    Draw,
    Origin,
    Shards,
    check_at_one_agent,
    held_out_counts,
)
from taciturn.training.facts import DataFacts, Evaluation
from taciturn.training.forecast import known_forecast
from taciturn.training.parts import Budget
from taciturn.training.proposal import Proposal
from taciturn.training.records import (
    Counted,
    DividedData,
    Division,
    divide_records,
)
from taciturn.training.request import Request, StructureRequest, propose
from taciturn.training.training import Training, train
from taciturn.typing import HostArray

FEWEST, MOST_CANDIDATES = 2, 32
# share of a candidate's mu reserved for the rounding of the joint ledger
_MARGIN = 1e-5
_SURE, _DRAWS = 0.95, 4000


class Candidate(Part):
    """A candidate: its name, and its training at its share of the budget."""

    name: str
    proposal: Proposal


class TuneProposal(Document):
    """Everything public about a choice among trainings: frozen, checked, and data only.

    All candidates are trained on the same records. Other records, held out of all trainings,
    determine the choice (`choose`).

    Candidates are trained in order, and ties are resolved for the first. They may differ only in
    features, problem, method and rounds. The budget covers trainings and choice together.
    """

    FORMAT: ClassVar[str] = "taciturn.tune"
    VERSION: ClassVar[int] = 1

    candidates: tuple[Candidate, ...]
    evaluation: Evaluation
    budget: Budget

    @model_validator(mode="after")
    def _consistent(self) -> TuneProposal:
        names = {candidate.name for candidate in self.candidates}
        if not FEWEST <= len(self.candidates) <= MOST_CANDIDATES:
            raise InputError(
                f"there are {len(self.candidates)} candidates; give {FEWEST} to {MOST_CANDIDATES}, "
                "since each of them adds to the noise of all"
            )
        if len(names) < len(self.candidates):
            raise InputError("two candidates have the same name; let each differ from the others")
        if math.isinf(self.budget.epsilon):
            raise InputError("a choice is planned for a finite epsilon; give one")
        if self.budget.unit not in {"record", "person"}:
            raise InputError("a choice protects records or persons; change the unit")
        check_at_one_agent(self.budget.agents_per_person)
        _check_one_budget(self.budget)
        for candidate in self.candidates:
            self._check(candidate.proposal)
        if self.evaluation.asked:
            raise InputError("held-out records that choose are not evaluated; set asked to false")
        first = self.candidates[0].proposal
        first.question  # noqa: B018 - checked
        self.evaluation.check_share(first.counts, self.budget.rows_per_person)
        return self

    def _check(self, proposal: Proposal) -> None:
        budget, first = proposal.budget, self.candidates[0].proposal
        if proposal.evaluation != self.evaluation:
            raise InputError("a candidate holds out other records than those that choose here")
        if budget.model_copy(update={"epsilon": self.budget.epsilon}) != self.budget:
            raise InputError("a candidate has other terms than the choice; make them the same")
        if not budget.epsilon <= self.budget.epsilon:
            raise InputError(
                f"a candidate has epsilon {budget.epsilon:g}, and all together "
                f"{self.budget.epsilon:g}"
            )
        # candidates may differ in features
        facts, others = (
            (one.data.model_copy(update={"features": None}), one.counts, one.split_seed)
            for one in (proposal, first)
        )
        if facts != others:
            raise InputError(
                "the candidates are for different records or divide them otherwise; give them the "
                "same data, agents and split seed"
            )
        if proposal.conditional:
            raise InputError(
                "a candidate's public facts are read off the records; state what was public "
                "beforehand"
            )

    @property
    def units_held_out(self) -> tuple[int, ...]:
        """The number of each agent's records or persons that choose."""
        rows = self.budget.rows_per_person or 1
        return tuple(count // rows for count in self.evaluation.counts)


def _check_one_budget(budget: Budget) -> None:
    """Raise `InputError` for a budget of each agent."""
    if budget.agent_epsilons is not None:
        raise InputError(
            "the choices of all agents have one rate, that of the least budget, so a larger one of "
            "an agent (agent-epsilons) could not be spent; give one epsilon for all"
        )


def propose_choice(
    facts: DataFacts,
    counts: Sequence[int],
    requests: Sequence[tuple[str, Request, StructureRequest]],
    *,
    share: float,
    dealt: bool = False,
) -> TuneProposal:
    r"""Return the proposal of a choice among named requests on the same terms.

    Each of k candidates is proposed at mu / sqrt(k), mu that of the whole budget: together they
    have mu (`taciturn.kernel.privacy.compose`). The rest is as for `taciturn.training.propose`.

    - `requests`: A name for each candidate, and its request with the whole budget.
    - `share`: The share of each agent's records or persons held out for the choice.
    """
    if len(requests) < FEWEST:
        raise InputError(f"there are {len(requests)} candidates; give at least {FEWEST}")
    _, first, _ = requests[0]
    for _, request, _ in requests:
        _check_one_budget(request.budget)
    mu = mu_of(checks.positive("epsilon", first.epsilon), first.delta)
    each = privacy.epsilon_of(first.delta, mu / math.sqrt(len(requests)) * (1 - _MARGIN))
    held = held_out_counts(counts, share, rows_per_person=first.rows_per_person)
    kept = [count - out for count, out in zip(counts, held, strict=True)]
    evaluation = Evaluation(share=float(share), counts=held, asked=False)
    candidates = []
    for name, request, structure in requests:
        alone = replace(request, epsilon=each, evaluate=None)
        content = structure.of_columns(request.facts_with_features(facts).names)
        proposal = propose(facts, kept, alone, content, dealt=dealt)
        proposal = proposal.model_copy(update={"evaluation": evaluation})
        candidates.append(Candidate(name=name, proposal=proposal))
    return TuneProposal(candidates=tuple(candidates), evaluation=evaluation, budget=first.budget)


@dataclass(frozen=True, eq=False)
class TunePlan:
    """The plan and cost of a choice among trainings.

    The rate is that of every agent's choice (`taciturn.kernel.noise.exponential_choice`);
    certificate, charge and purpose cover all trainings, in order, and the choice. The
    certificate states the conditions of all candidates, also while only some are trained.
    """

    plans: tuple[Plan, ...]
    rate: float
    certificate: Certificate
    charge: Charge
    purpose: Purpose


def plan_choice(proposal: TuneProposal) -> TunePlan:
    r"""Return the plan of a choice, derived from its proposal alone.

    Raises `InputError` if there is no plan for a candidate, or its answers have no mu;
    `PrivacyError` if the total would exceed the budget.

    **Guarantee.** A record is either trained on or chooses, by a secret draw common to all
    candidates (`taciturn.kernel.records.hold_out`).

    *Trained on.* All k candidates query it, and all answers may be observed, including those of
    candidates not chosen: legs on one part (`taciturn.kernel.privacy.compose`). The choice, made by
    other records, depends on it only through these answers.

    *Chooses.* The observer's view of the trainings has the same law with any other record in its
    place. Given that view, the record's agent makes one choice, from the error count of each
    candidate, a sum of terms in [0, 1], one per record or person. It costs `mu_of_choice` at its
    rate, which is set so that this is at most the least mu of an agent in the trainings.

    So the total is the larger of the two (`taciturn.kernel.privacy.compose`), that of the
    trainings. Theorems on private tuning with a random number of trainings (Papernot and Steinke
    2022; Koskela, Redberg and Wang 2024) require that trainings not chosen stay hidden. Here every
    message may be observed, so they do not apply.
    """
    terms = proposal.budget.terms
    for candidate in proposal.candidates:  # before their noise is computed
        _, oracles = candidate.proposal.composition()
        if not all(oracle.sampling.rate == 1 and oracle.noise.adds for oracle in oracles):
            raise InputError(
                f"the answers of {candidate.proposal.method.name} have no mu, and candidates share "
                "a budget in mu; leave out methods that sample records or have noise inside an "
                "objective"
            )
    plans = tuple(candidate.proposal.plan() for candidate in proposal.candidates)
    summed = all(plan.program.summed for plan in plans)
    if not summed and any(plan.program.summed for plan in plans):
        raise InputError(
            "secure aggregation is credited in some of the candidates and not in all; say "
            "--observer messages, or leave out those where it is not"
        )
    trainings = [plan.leg for plan in plans]
    sizes = privacy.compose(trainings, terms).certificate().per_agent_mu
    assert sizes is not None
    if not min(sizes) > 0:
        raise InputError("an agent is never queried, so its choice has no budget; query all agents")
    rate = rate_of_choice(min(sizes), terms.adjacency.relation)
    composition = privacy.compose((*trainings, privacy.ChoiceLeg("held out", rate)), terms)
    certificate = composition.certificate()
    if not certificate.epsilon <= terms.epsilon * (1 + 1e-9):
        raise PrivacyError(
            f"the trainings would spend epsilon {certificate.epsilon:g}; the budget is "
            f"{terms.epsilon:g}"
        )
    purpose = Purpose(
        what=f"a choice among {len(plans)} candidates",
        proposal=proposal.digest,
        plan=hashlib.sha256("".join(plan.digest for plan in plans).encode()).hexdigest(),
        epsilon=terms.epsilon,
        delta=terms.delta,
        mu=certificate.mu,
        rounds=sum(plan.rounds for plan in plans),
    )
    stated = [
        text
        for candidate, planned in zip(proposal.candidates, plans, strict=True)
        for text in (*planned.certificate.conditions, *candidate.proposal.conditions)
    ]
    certificate = certificate.under(
        stated, conditional=any(planned.certificate.conditional for planned in plans)
    )
    return TunePlan(plans, rate, certificate, charge_of_legs(composition), purpose)


@dataclass(frozen=True)
class Price:
    """The price of a choice.

    - `noise`: The noise of each candidate relative to that of a single training: sqrt(k).
    - `multipliers`: Noise scale / sensitivity of each candidate's answers.
    - `risks`: The theoretical estimate of each candidate's excess risk, or None.
    - `alone`: The same for the default, trained alone on all records with the whole budget.
    - `chooses`, `trained`: The numbers of records, or persons, that choose and that are trained on.
    - `gap`: The lead in error rate over all others with which a candidate is chosen with
      probability 0.95; None if no lead suffices. It accounts for the noise of the choice, not for
      the sampling of the held-out records.
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
        estimates = [
            "" if risk is None else f", estimated excess risk {risk:.3g}"
            for risk in (*self.risks, self.alone)
        ]
        rows = [
            f"  {name}: noise multiplier {multiplier:.4g}{estimate}"
            for name, multiplier, estimate in zip(
                names, self.multipliers, estimates[:-1], strict=True
            )
        ]
        resolution = (
            f"The noise of the choice hides the best candidate: {self.chooses:,} held out are too "
            "few for this budget"
        )
        if self.gap is not None:
            resolution = (
                f"{self.chooses:,} are held out for the choice: a candidate that leads all others "
                f"by {self.gap:.2%} is chosen with probability 0.95; smaller differences are not "
                "resolved"
            )
        return [
            f"{self.candidates} candidates share the budget, so each has {self.noise:.3g} times "
            "the noise of a single training:",
            *rows,
            f"  the default alone, at the whole budget{estimates[-1] or ': no estimate'}",
            resolution,
        ]


def price_of(proposal: TuneProposal, plan: TunePlan, default: Proposal | None) -> Price:
    """Return the price of a choice, and the estimate for `default` alone; no record is read."""
    proposals = [candidate.proposal for candidate in proposal.candidates]
    forecasts = [known_forecast(*pair) for pair in zip(proposals, plan.plans, strict=True)]
    alone = None
    if default is not None:
        with suppress(InputError):  # a default that does not suit this budget
            alone = known_forecast(default, default.plan())
    units = proposal.units_held_out
    *risks, risk_alone = (None if one is None else one.rule for one in (*forecasts, alone))
    return Price(
        candidates=len(proposals),
        noise=math.sqrt(len(proposals)),
        multipliers=tuple(planned.multiplier for planned in plan.plans),
        risks=tuple(risks),
        alone=risk_alone,
        chooses=sum(units),
        trained=proposals[0].units,
        gap=_gap_of(units, len(proposals), plan.rate),
    )


def _gap_of(units: tuple[int, ...], candidates: int, rate: float) -> float | None:
    """Return the least gap at which a candidate wins in 19 of 20 choices, all others being equal.

    It is estimated from simulated choices with a fixed seed, to a relative accuracy of 1e-3.
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
    """Return the frequency of wins of the last candidate, which leads by the gap at every agent."""
    some = np.array([count for count in units if count], np.float64)
    draw_of_others = np.random.default_rng(1)
    draw = np.random.default_rng(0).random((_DRAWS, len(some)))
    each = np.exp(-rate * gap * some)  # odds of another candidate against the best
    best = 1 / (1 + (candidates - 1) * each)
    # if the draw is above `best`, all other candidates are equally likely
    rest = draw_of_others.integers(0, candidates - 1, draw.shape)
    picks = np.where(draw < best, candidates - 1, rest)
    votes = np.zeros((_DRAWS, candidates))
    np.add.at(votes, (np.arange(_DRAWS)[:, None], picks), some)
    return float(np.mean(np.argmax(votes, axis=1) == candidates - 1))


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of a choice among trainings, with its price if that was computed.

    - `training`: That of the chosen candidate, under the certificate of all trainings and the
      choice.
    - `picked`: The index of that candidate.
    - `picks`: The vote of each agent with held-out records.
    """

    proposal: TuneProposal
    plan: TunePlan
    training: Training
    picked: int
    picks: tuple[int, ...]
    price: Price | None = None

    @property
    def certificate(self) -> Certificate:
        """The certificate of all trainings and the choice."""
        return self.training.certificate

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the candidates."""
        return tuple(candidate.name for candidate in self.proposal.candidates)

    def to_dict(self) -> dict[str, Any]:
        """Return candidates and choice as JSON-safe values."""
        return {
            "candidates": self.names,
            "picked": self.names[self.picked],
            "picks": self.picks,
            "held_out": self.proposal.units_held_out,
            "proposal": self.proposal.model_dump(mode="json"),
            "digest": self.proposal.digest,
            "price": None if self.price is None else dataclasses.asdict(self.price),
        }


def tune(  # noqa: PLR0913 - what is chosen from, on what, and who pays
    data: Counted,
    proposal: TuneProposal,
    *,
    seed: int | None = None,
    account: Account | None = None,
    price: Price | None = None,
    report: Callable[[int], None] | None = None,
    release: Callable[[int, Training], None] | None = None,
) -> Tuned:
    """Train all candidates and return the one chosen on held-out records, with price and charge.

    Raises `TaciturnError` if the choice fails, although all are trained, charged and released.

    - `seed`: Seed of all noise; None for the operating system's entropy. With a seed this is a
      reproduction.
    - `account`: Charged once for everything, before a record is read.
    - `report`: Called with the number of finished trainings.
    - `release`: Called with the index of each candidate and its training as soon as its run has
      ended, under the certificate of all trainings and the choice.

    **Guarantee.** As for `plan_choice`: all candidates are trained on the kept rows, the held-out
    rows are read once, for the choice, and the release is a function of the trainings' messages and
    the votes.
    """
    plan = plan_choice(proposal)
    payment: AbstractContextManager[Reservation | None] = nullcontext()
    if account is not None:
        conditional = data.conditional or plan.certificate.conditional
        check_chargeable(seed=seed, conditional=conditional)
        files = tuple(file.digest for file in data.files)
        payment = paying(account.for_table(data.columns), plan.charge, plan.purpose, files)
    charged: Charged | None = None
    with payment as reservation:
        if reservation is not None:
            reservation.use(plan.charge)
        records = _read(data, proposal, seed)
        trainings: list[Training] = []
        for number, candidate in enumerate(proposal.candidates):
            one, each, kept = candidate.proposal, seed, None
            if seed is not None:  # noise that is drawn twice cancels
                each = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
            if release is not None:
                kept = partial(_release, release, number, tuple(trainings), plan)
            trainings.append(train(records[one.data.features], one, seed=each, release=kept))
            if report is not None:
                report(number + 1)
        picks, best = reraise_clean(
            lambda: _pick(proposal, trainings, records, plan.rate, seed),
            Exception,
            lambda error: TaciturnError(
                f"no candidate was picked: {reason(error)}. All of them are trained and charged, "
                "and what each released stands"
            ),
        )
        if reservation is not None:
            after = reservation.close(released=True)
            charged = Charged(reservation.account, reservation.run, reservation.before, after)
    # of those that were not picked, too: else nobody would learn that their models are lost
    failures = tuple(
        f"candidate {number}: {line}"
        for number, one in enumerate(trainings, start=1)
        for line in one.failures
    )
    training = replace(_certified(trainings, best, plan, charged), failures=failures)
    return Tuned(proposal, plan, training, best, picks, price)


def _read(
    data: Counted, proposal: TuneProposal, seed: int | None
) -> Mapping[str | None, DividedData]:
    """Return the records, divided by one draw, with the features of each candidate."""
    first = proposal.candidates[0].proposal
    draw = Draw.for_noise(seed, first.split_seed)
    division = Division.of_proposal(first, owned=data.owned)
    records = {division.features: data.load(division, draw, "float64", None)}
    dataset = records[division.features].dataset
    for candidate in proposal.candidates:
        name = candidate.proposal.data.features
        if name not in records:
            records[name] = divide_records(dataset, replace(division, features=name), draw)
    for one in records.values():
        if one.counts != first.counts or one.held_out_counts != proposal.evaluation.counts:
            raise InputError(
                "the proposal is for other numbers of records, or shares them otherwise; propose "
                "again"
            )
    return records


def _release(
    release: Callable[[int, Training], None],
    number: int,
    earlier: tuple[Training, ...],
    plan: TunePlan,
    training: Training,
) -> None:
    """Release a candidate that was trained after others."""
    release(number, _certified((*earlier, training), len(earlier), plan, None))


def _pick(
    proposal: TuneProposal,
    trainings: Sequence[Training],
    data: Mapping[str | None, DividedData],
    rate: float,
    seed: int | None,
) -> tuple[tuple[int, ...], int]:
    """Return the vote of each agent with held-out records, and the winner."""
    stream = Stream.fresh()
    if seed is not None:
        stream = Stream(hashlib.sha256(f"taciturn.tune {seed}".encode()).digest())

    def candidates() -> Iterator[tuple[Tally | ClippedErrors, HostArray, Shards, Origin]]:
        for training in trainings:
            records, features = data[training.proposal.data.features], training.features
            if isinstance(features, CentredRows):  # rows as the model takes them
                records = records.around(features.centre)
            held_out = records.evaluated()
            yield training.proposal.question, training.model, held_out, records.origin

    picks = choose(candidates(), rate, stream)
    units = [count for count in proposal.units_held_out if count]
    return picks, picked(picks, units, len(trainings))


def _certified(
    trainings: Sequence[Training], best: int, plan: TunePlan, charged: Charged | None
) -> Training:
    """Return the chosen training with the certificate of all trainings and the choice.

    It holds under the conditions of all trainings: the others queried the same records. The plan
    stays that of the winner's proposal, from which anyone can derive it.
    """
    certificates = [training.plan.certificate for training in trainings]
    certificate = plan.certificate.under(
        (text for one in (*certificates, plan.certificate) for text in one.conditions),
        conditional=any(one.conditional for one in certificates),
    )
    certificate = certificate.stamped(reproduction=certificates[best].reproduction)
    return replace(trainings[best], choice=certificate, charged=charged)


def picked(picks: Sequence[int], units: Sequence[int], candidates: int) -> int:
    """Return the candidate with most votes, each weighted by the agent's held-out records.

    The weights are public; ties are resolved for the first.
    """
    votes = np.bincount(np.asarray(picks), np.asarray(units, np.float64), candidates)
    return int(np.argmax(votes))
