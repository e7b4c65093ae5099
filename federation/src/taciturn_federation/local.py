"""What a site derives for itself from a signed proposal and its own file.

The last question of a run is a second leg with a plan and a ledger of its own: every agent that
holds records out answers it once, after the training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from jaxtyping import Float

from taciturn.algorithms import METHODS, Method
from taciturn.budget import Charge
from taciturn.engine import Plan, charge_of
from taciturn.engine.credit import alone_among, with_claims
from taciturn.engine.running import check_bounds, check_certificate, check_machine
from taciturn.errors import InputError, PrivacyError
from taciturn.evaluation import (
    PrivateScore,
    evaluation_plan,
    evaluation_seed,
    larger_of,
    score_of_totals,
    score_units,
    with_evaluation,
)
from taciturn.features import CONSTANT
from taciturn.privacy import Certificate, Sum
from taciturn.problems import Draw
from taciturn.proposal import (
    Budget,
    DataFacts,
    Proposal,
    labels_of,
)
from taciturn.tables import Files, Numeric, Source, read_files, table_conditions
from taciturn.training import (
    DividedData,
    Division,
    check_known,
)
from taciturn.typing import HostArray
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.answering import Answering, layouts_of, local_records, private_of
from taciturn_federation.envelope import BreachError, Layout
from taciturn_federation.interface import Released
from taciturn_federation.ledger_entries import ledger_of_agent
from taciturn_federation.masks import opened

# intervals are roots of polynomials in fourth powers of totals
_MOST_TOTAL = 1e50


@dataclass(frozen=True, eq=False)
class LastQuestion:
    """What the agents of a proposal with an evaluation are asked in the end.

    **Guarantee.** A site asks its own held-out records about the model that follows from what it
    received itself; its answer is that of `Answering` under the plan that it derived. Which records
    these are the site's own secret draw decides, so no record is in both legs
    (`taciturn.evaluation.of_disjoint_parts`), and what the coordinator says cannot change that.
    Where its noise counts on that of others (`summed`), answers are whole numbers of steps that
    leave under masks, and the sum over all who answer is the only thing that anybody can read.

    Attributes
    ----------
    training
        The plan of the training.
    agents
        Those who answer, in order: the ones that hold records out.
    """

    proposal: Proposal
    training: Plan
    agents: tuple[int, ...]

    @cached_property
    def planned(self) -> Plan:
        """The plan for a model of zeros: for others only the question differs, and no scale."""
        return self._plan(np.zeros(self.proposal.facts.shape))

    @property
    def summed(self) -> bool:
        """Whether only the sum of the answers may be read."""
        return self.planned.program.summed

    @cached_property
    def layout(self) -> Layout:
        """The layout of an answer."""
        return dataclasses.replace(layouts_of(self.planned.program).message, most=_MOST_TOTAL)

    def _plan(self, weights: HostArray) -> Plan:
        norm = math.hypot(1.0, CONSTANT) if self.proposal.centre else None
        return evaluation_plan(self.proposal, self.training, weights, record_norm=norm)

    def check(self, seed: int | None) -> None:
        """Raise unless the plan keeps its bounds and this machine can draw its noise."""
        check_bounds(self.planned)
        check_certificate(self.planned)
        check_machine(self.planned.program, evaluation_seed(seed))

    def certificate(self, training: Certificate) -> Certificate:
        """Return the certificate of a training with this question after it."""
        return with_evaluation(self.proposal, training, self.planned.certificate)

    def answering(
        self, agent: int, data: DividedData, released: Released, seed: int | None
    ) -> Answering:
        """Return what answers for an agent once the model is known.

        Raises `PrivacyError` if its file does not hold out as many records as the proposal says.
        """
        evaluation = self.proposal.evaluation
        assert evaluation is not None
        around = data if released.centre is None else data.around(released.centre)
        shards = around.evaluated()
        if shards.counts != (evaluation.counts[agent],):
            raise PrivacyError("the records held out are not as many as the proposal says")
        planned = self._plan(released.weights)
        number = self.agents.index(agent)
        private = private_of(shards, planned)
        return Answering(planned, number, private, seed=evaluation_seed(seed))

    def totals(self, answers: Sequence[HostArray]) -> Float[HostArray, "S"]:
        """Return the sum of the agents' answers, of which masks cancel in it.

        Raises `BreachError` if masks do not cancel.
        """
        if not self.summed:
            return np.asarray(np.sum(np.stack(list(answers)), axis=0, dtype=np.float64))
        words = [np.asarray(answer).view(np.uint64) for answer in answers]
        try:
            steps = opened(words, len(self.agents))
        except InputError as error:
            raise BreachError(f"of the last question, {error}") from None
        exponent = int(np.asarray(self.planned.program.exponents)[0, 0, 0])
        return np.ldexp(steps.astype(np.float64), exponent)

    def score(self, totals: Float[HostArray, "S"]) -> PrivateScore:
        """Return the figures, post-processing of the answers alone."""
        proposal = self.proposal
        bounds = proposal.data.table.bounds if proposal.data.table is not None else None
        numbers = bounds is not None and isinstance(bounds.target, Numeric)
        unit = bounds.half_range if bounds is not None and numbers else 1.0
        scale = score_units(proposal, labels_of(proposal.data), unit)
        return score_of_totals(proposal, self.planned, totals, scale)


def last_question(proposal: Proposal, training: Plan) -> LastQuestion | None:
    """Return the last question of a proposal; None if nothing is held out, or not asked about."""
    if proposal.evaluation is None or not proposal.asks:
        return None
    agents = tuple(np.flatnonzero(proposal.evaluation.counts).tolist())
    return LastQuestion(proposal, training, agents)


@dataclass(frozen=True, eq=False)
class Local:
    """A site's own view of a run, derived before anything is answered."""

    signed: SignedProposal
    agent: int  # its number
    plan: Plan
    # what held-out records are asked after the training; None if none are
    last: LastQuestion | None
    files: Files  # its file, of which no cell has been looked at
    content: bytes  # SHA-256 of the bytes of its file, which leaves the site in no form
    # of the whole run, with all conditions; stamped as a reproduction if there is a seed
    certificate: Certificate
    seed: int | None

    @property
    def name(self) -> str:
        """The site's name in the proposal."""
        return self.signed.participants[self.agent].name

    @property
    def charge(self) -> Charge:
        """What the whole run would cost this site's account: its own answers, and nobody else's."""
        return self.charge_for(range(self.plan.rounds + 1))

    def charge_for(self, rounds: range | list[int]) -> Charge:
        """Return the cost of this site's answers in some rounds; T is the last question.

        A record is in the training or in the last question, so the larger of the two counts
        (`taciturn.evaluation.larger_of`).
        """
        training, last = charge_for(self.plan, self.agent, rounds), self.last
        if last is None or self.agent not in last.agents or self.plan.rounds not in rounds:
            return training
        return larger_of(training, charge_for(last.planned, last.agents.index(self.agent), [0]))

    def records(self, draw: Draw) -> DividedData:
        """Return the records; the cells of the file are looked at here, and nowhere before.

        `draw`: what holds records out, the same at every start of a run; in a reproduction, whose
        noise has a seed, the public split seed takes its place.

        Raises `InputError` if a cell is not what the bounds declare: a fact about the records.
        """
        proposal = self.signed.proposal
        if self.seed is not None:
            draw = Draw(seed=proposal.split_seed)
        return local_records(self.files, proposal, self.agent, draw)

    def answering(self, records: DividedData) -> Answering:
        """Return what answers in the rounds of the training."""
        proposal = self.signed.proposal
        shards = records.shards(proposal.precision, centre=proposal.centre)
        private = private_of(shards, self.plan)
        return Answering(self.plan, self.agent, private, seed=self.seed)

    def evaluator(self, records: DividedData) -> Callable[[Released], Answering] | None:
        """Return a function from a released model to this site's evaluation, or None."""
        last, agent, seed = self.last, self.agent, self.seed
        if last is None:
            return None
        return lambda released: last.answering(agent, records, released, seed)


def charge_for(plan: Plan, agent: int, rounds: range | list[int]) -> Charge:
    """Return the events of an agent's answers in some rounds.

    Notes
    -----
    **Guarantee.** A filter composes the events that occurred. Rounds that this agent did not
    answer, because another site or a public fact ended the run, produced no event and are not
    charged. An observer of sums learns of a round only if all answered it, so the noise of the
    others is in it.

    A person who may be at M sites is in the answers of all of them: each is charged what M have
    together (`charge_of`), and that of the whole run, since a site does not know in which rounds
    others answered.
    """
    if plan.terms.adjacency.agents_per_person > 1:
        return _column(charge_of(plan), agent)
    ledger = plan.ledger
    answered = np.isin(np.arange(plan.rounds), list(rounds))[None, :, None]
    asked = np.where(answered, ledger.kind, -1)
    column = ledger_of_agent(ledger, agent, asked)
    program = dataclasses.replace(plan.program, summed=False)
    charge = charge_of(dataclasses.replace(plan, ledger=column, program=program))
    if not plan.program.summed:
        return charge
    every = dataclasses.replace(plan, ledger=dataclasses.replace(ledger, kind=asked))
    return dataclasses.replace(charge, summed=_column(charge_of(every), agent).summed)


def _column(charge: Charge, agent: int) -> Charge:
    """Return what a charge has for one agent."""
    own, of_sums = slice(agent, agent + 1), charge.summed
    return dataclasses.replace(
        charge,
        messages=charge.messages[own],
        summed=None if of_sums is None else of_sums[own],
    )


def derive(
    signed: SignedProposal,
    source: Source,
    *,
    agent: int,
    coordinator: Ed25519PublicKey,
    seed: int | None = None,
    methods: Mapping[str, Method] = METHODS,
) -> Local:
    """Return what a site derives from a signed proposal and its own file.

    Parameters
    ----------
    coordinator
        The key of the study's coordinator, as it came with the invitation.
    seed
        None, or the seed of a reproduction that the owner allows; the noise is then public.
    methods
        The table of methods; those of the user's own are used only if the owner names them here.

    Raises
    ------
    InputError
        If the file has other columns or another count than the proposal says, or the proposal needs
        something that a study or this site does not have.
    PrivacyError
        If the proposal was not signed by this coordinator, or the plan does not keep its bounds.
    """
    signed.check(coordinator)
    proposal = signed.proposal
    check_runnable(proposal, methods)
    files = _files(signed, source, agent)
    plan = proposal.plan(methods)
    check_bounds(plan)
    check_certificate(plan)
    check_machine(plan.program, seed)
    last = last_question(proposal, plan)
    if last is not None:
        last.check(seed)
    certificate = certificate_for(proposal, plan, last)
    if seed is not None:
        certificate = dataclasses.replace(certificate, reproduction=True, attacker_tpr=1.0)
    return Local(signed, agent, plan, last, files, _content(source.path), certificate, seed)


def certificate_for(proposal: Proposal, plan: Plan, last: LastQuestion | None) -> Certificate:
    """Return the certificate of a run, with what its proposal takes as public.

    Where agents send whole steps they do so under masks (`taciturn_federation.masking`), and on
    trust is what these rest on.
    """
    assert proposal.data.table is not None  # as every signed proposal has
    persons = proposal.budget.rows_per_person is not None
    trust = plan.certificate.trust
    if plan.program.summed and isinstance(plan.terms.observer, Sum):
        trust = masked_trust(plan.program.agents, plan.terms.observer.colluders)
        trust = with_claims(trust, plan.program.oracles)
    training = dataclasses.replace(plan.certificate, trust=trust).under(
        (
            *table_conditions(proposal.data.table.bounds, persons=persons),
            *_persons_conditions(proposal.budget),
            *proposal.conditions,
        ),
        conditional=proposal.conditional,
    )
    return training if last is None else last.certificate(training)


def _persons_conditions(budget: Budget) -> tuple[str, ...]:
    """Return at how many sites a person is taken to be: no site sees the files of others."""
    if budget.rows_per_person is None:
        return ()
    most = budget.agents_per_person
    where = "one of the sites" if most == 1 else f"{most} of the sites"
    return (
        f"each person has rows at no more than {where}, whatever the person is called there; no "
        "site sees the files of others, so nobody can check it",
    )


def masked_trust(agents: int, colluders: int) -> str:
    """Return what the guarantee of a run under masks takes on trust, in words.

    **Guarantee.** Whoever knows keys and noise of k participants sees the sum of the words of the
    others and nothing else of them (`taciturn_federation.masks.Masks`). The accountant counts on
    the noise of all A - k in it (`taciturn.engine.credit.alone_among` where these are one).
    """
    if colluders >= agents - 1:
        return alone_among(agents, colluders)
    return (
        "the cipher of the masks (X25519, HKDF-SHA256, ChaCha20); the sites are those of "
        "owners who compared the code of the proposal among themselves; every site adds its own "
        f"noise honestly, and at most {colluders} of them beside the aggregator tell what they "
        "know, their noise and the keys of their masks (a participant knows its own noise, so "
        "colluders=1 covers a curious participant)"
    )


def check_runnable(proposal: Proposal, methods: Mapping[str, Method]) -> None:
    """Raise `InputError` for what a site does not take part in."""
    name = proposal.method.name
    if proposal.dealt:
        raise InputError(
            "the proposal deals records out to the agents at random, and each site has its own; "
            "ask for a proposal made by taciturn study"
        )
    if name not in methods:
        raise InputError(
            f"the proposal needs the method {name[:100]!r}, which is not one of taciturn's; a site "
            "runs code of others only if its owner names it: add --method, or decline"
        )


def _files(signed: SignedProposal, source: Source, agent: int) -> Files:
    """Return the site's file, no cell of it looked at, with the columns and count proposed."""
    table, proposal = signed.proposal.data.table, signed.proposal
    assert table is not None
    files = read_files(source, table.bounds)
    if files.owners is not None or len(files.tables) != 1:
        raise InputError(f"{source.path} holds the records of several agents; a site has one file")
    (count,) = Division(agents=1, rows_per_person=proposal.budget.rows_per_person).counts(files)
    planned = signed.participants[agent].count
    if count != planned:
        raise InputError(
            f"{source.path} has {count} records (or places of persons), and the proposal says "
            f"{planned} for {signed.participants[agent].name}; use the file of the request, or ask "
            "for a new proposal"
        )
    facts = DataFacts.of(table.bounds, proposal.data.features)
    check_known(
        facts, proposal.all_counts, proposal, rows_per_person=proposal.budget.rows_per_person
    )
    return files


def _content(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path} cannot be read ({reason})") from error
