"""What a site derives for itself from a signed proposal and its own file; it believes nobody."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tacit.algorithms import METHODS, Method
from tacit.budget import Charge
from tacit.engine import Plan, Private, charge_of
from tacit.engine.protocol import at
from tacit.engine.running import (
    check_bounds,
    check_certificate,
    check_machine,
    check_shards,
    opened,
)
from tacit.errors import InputError
from tacit.federation.agreement import SignedProposal
from tacit.federation.answering import Answering
from tacit.privacy import Certificate, Ledger
from tacit.problems import Shard, Shards
from tacit.proposal import (
    DataFacts,
    Proposal,
    feature_conditions,
    graph_conditions,
    weight_conditions,
)
from tacit.tables import Files, Source, read_files, table_conditions, table_of
from tacit.training import DividedData, check_known, divide
from tacit.training.data import counts_of, persons_of


@dataclass(frozen=True, eq=False)
class Local:
    """A site's own view of a run, derived before anything is answered.

    Attributes
    ----------
    agent
        Its number.
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
        return charge_for(self.plan, self.agent, range(self.plan.rounds))

    def answering(self) -> Answering:
        """Return what answers; the cells of the file are looked at here, and nowhere before.

        Raises
        ------
        InputError
            If a cell is not what the bounds declare: a fact about the records.
        """
        proposal = self.signed.proposal
        private = private_of(_divided(self.files, proposal), proposal, self.plan)
        return Answering(self.plan, self.agent, private, seed=self.seed)


def charge_for(plan: Plan, agent: int, rounds: range | list[int]) -> Charge:
    """Return the events of an agent's answers in some rounds.

    Notes
    -----
    **Guarantee.** Those of `charge_of` for this agent, of the rounds that were answered. Where
    others end a run early, or a public fact does, the rounds left out were not answered, and events
    that did not happen cost nothing: the sums of a filter are over the events that did.
    """
    if plan.terms.adjacency.agents_per_person > 1:
        raise InputError(
            "a site's account holds the answers of that site, and a person at several is in those "
            "of others too; let each person be at one site, or leave the account out"
        )
    ledger = plan.ledger
    answered = np.isin(np.arange(plan.rounds), list(rounds))[None, :, None]
    own = slice(agent, agent + 1)
    column = Ledger(
        np.where(answered, ledger.kind[own], -1),
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
    return charge_of(dataclasses.replace(plan, ledger=column, program=program))


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
    certificate = certificate_for(proposal, plan)
    if seed is not None:
        certificate = dataclasses.replace(certificate, reproduction=True, attacker_tpr=1.0)
    return Local(signed, agent, plan, files, _content(source.path), certificate, seed)


def certificate_for(proposal: Proposal, plan: Plan) -> Certificate:
    """Return the certificate of a run, with what its proposal takes as public."""
    assert proposal.data.table is not None  # as every signed proposal has
    persons = proposal.budget.rows_per_person is not None
    return dataclasses.replace(
        plan.certificate,
        conditions=(
            *table_conditions(proposal.data.table.bounds, persons=persons),
            *graph_conditions(proposal.structure),
            *weight_conditions(proposal.class_weights),
            *feature_conditions(proposal.data.features),
        ),
        conditional=proposal.conditional,
    )


def check_runnable(proposal: Proposal, methods: Mapping[str, Method]) -> None:
    """Raise `InputError` for what a site does not take part in."""
    name = proposal.method.name
    if name not in methods:
        raise InputError(
            f"the proposal needs the method {name[:100]!r}, which is not one of tacit's; a site "
            "runs code of others only if its owner names it: add --method, or decline"
        )
    if proposal.evaluation is not None:
        raise InputError(
            "an evaluation on held-out records is not asked for in a study yet; propose without "
            "--evaluate"
        )


def private_of(data: DividedData, proposal: Proposal, plan: Plan) -> Private:
    """Return one agent's records as its door takes them, in as many places as the largest has.

    Padded like the largest agent's, its sums are those of a run on one machine.
    """
    shards = data.shards(proposal.precision, centre=proposal.centre)
    check_shards(shards)
    rows = max(plan.spec.counts)
    stacked: Shard = jax.tree.map(lambda leaf: _padded(leaf, rows), shards.stacked)
    shards = Shards(stacked, shards.counts, shards.record_norm)
    both = opened(plan.program.oracles, plan.program.mechanism, shards)
    one: Private = at(both, 0)
    return one


def _padded(leaf: jax.Array, rows: int) -> jax.Array:
    missing = rows - leaf.shape[1]
    return jnp.pad(leaf, [(0, 0), (0, missing), *[(0, 0)] * (leaf.ndim - 2)])


def _files(signed: SignedProposal, source: Source, agent: int) -> Files:
    """Return the site's file, no cell of it looked at, with the columns and count proposed."""
    table, proposal = signed.proposal.data.table, signed.proposal
    assert table is not None
    files = read_files(source, table.bounds)
    if files.owners is not None or len(files.frames) != 1:
        raise InputError(f"{source.path} holds the records of several agents; a site has one file")
    persons = persons_of(files.persons, proposal.budget.rows_per_person)
    count = files.rows if persons is None else counts_of((np.arange(files.rows),), persons)[0]
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


def _divided(files: Files, proposal: Proposal) -> DividedData:
    """Return the records of the file as those of one agent, in the order of the file."""
    data = divide(
        table_of(files),
        1,
        split_seed=proposal.split_seed,
        features=proposal.data.features,
        rows_per_person=proposal.budget.rows_per_person,
        agents_per_person=proposal.budget.agents_per_person,
    )
    return dataclasses.replace(data, owners=(np.arange(files.rows),))


def _content(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{path} cannot be read ({reason})") from error
