"""What a site derives for itself from a signed proposal and its own file; it believes nobody."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from taciturn.algorithms import METHODS, Method
from taciturn.budget import Charge
from taciturn.engine import Plan, charge_of
from taciturn.engine.credit import alone_among, with_claims
from taciturn.engine.running import check_bounds, check_certificate, check_machine
from taciturn.errors import InputError
from taciturn.evaluation import larger_of
from taciturn.privacy import Certificate, Ledger, Sum
from taciturn.problems import Draw
from taciturn.proposal import (
    Budget,
    DataFacts,
    Proposal,
)
from taciturn.tables import Files, Source, read_files, table_conditions
from taciturn.training import (
    DividedData,
    Division,
    check_known,
)
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.answering import Answering
from taciturn_federation.last_question import LastQuestion, last_question
from taciturn_federation.party import Released
from taciturn_federation.records import own_records, private_of


@dataclass(frozen=True, eq=False)
class Local:
    """A site's own view of a run, derived before anything is answered.

    Attributes
    ----------
    agent
        Its number.
    last
        What held-out records are asked after the training; None if none are.
    files
        Its file, of which no cell has been looked at.
    content
        SHA-256 of the bytes of its file, which leaves the site in no form.
    certificate
        Of the whole run, with all conditions; stamped as a reproduction if there is a seed.
    """

    signed: SignedProposal
    agent: int
    plan: Plan
    last: LastQuestion | None
    files: Files
    content: bytes
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

        Parameters
        ----------
        draw
            What holds records out, the same at every start of a run; in a reproduction, whose noise
            has a seed, the public split seed takes its place.

        Raises
        ------
        InputError
            If a cell is not what the bounds declare: a fact about the records.
        """
        proposal = self.signed.proposal
        if self.seed is not None:
            draw = Draw(seed=proposal.split_seed)
        return own_records(self.files, proposal, self.agent, draw)

    def answering(self, records: DividedData) -> Answering:
        """Return what answers in the rounds of the training."""
        proposal = self.signed.proposal
        shards = records.shards(proposal.precision, centre=proposal.centre)
        private = private_of(shards, self.plan)
        return Answering(self.plan, self.agent, private, seed=self.seed)

    def asked(self, records: DividedData) -> Callable[[Released], Answering] | None:
        """Return what makes of a released model that which answers the last question about it."""
        last, agent, seed = self.last, self.agent, self.seed
        if last is None:
            return None
        return lambda released: last.answering(agent, records, released, seed)


def charge_for(plan: Plan, agent: int, rounds: range | list[int]) -> Charge:
    """Return the events of an agent's answers in some rounds.

    Notes
    -----
    **Guarantee.** Those of `charge_of` for this agent, of the rounds that were answered. Where
    others end a run early, or a public fact does, the rounds left out were not answered, and events
    that did not happen cost nothing: the sums of a filter are over the events that did. An observer
    of sums learns of a round only if all answered it, so the noise of the others is in it.

    A person who may be at M sites is in the answers of all of them: each is charged what M have
    together (`charge_of`), and that of the whole run, since a site does not know in which rounds
    others answered.
    """
    if plan.terms.adjacency.agents_per_person > 1:
        return _column(charge_of(plan), agent)
    ledger = plan.ledger
    answered = np.isin(np.arange(plan.rounds), list(rounds))[None, :, None]
    asked = np.where(answered, ledger.kind, -1)
    own = slice(agent, agent + 1)
    column = Ledger(
        asked[own],
        ledger.sensitivity[own],
        ledger.scale[own],
        ledger.mechanism,
        ledger.rates[own],
        ledger.inside,
        ledger.sizes[own],
        ledger.steps[own],
        ledger.values,
    )
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
