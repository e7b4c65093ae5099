"""What a site derives for itself from a signed proposal and its file, and reports of its answers.

The ledger entries that it signs at the end are public facts about its answers, and no answer.

The evaluation of a run is a second leg with a separate plan and ledger: every agent that holds
records out answers once in it, after the training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from jaxtyping import Float

from taciturn.algorithms import COUNTS, METHODS, Asked, Method, StarAlgorithm
from taciturn.budget import Account, Charge
from taciturn.engine import Plan, charge_of, charge_of_legs, records_for_door, shapes_of
from taciturn.engine.program import Program
from taciturn.engine.running import check_bounds, check_certificate, check_machine
from taciturn.errors import InputError, PrivacyError, TaciturnError
from taciturn.features import COLUMNS, CONSTANT
from taciturn.kernel.door import Private
from taciturn.kernel.privacy import (
    Certificate,
    Ledger,
    Messages,
    Sum,
    compose,
    trust_without_honest_agents,
)
from taciturn.kernel.records import Draw, hold_out
from taciturn.tables import Files, Numeric, Source, read_files, table_conditions, table_of
from taciturn.training import (
    DataFacts,
    DividedData,
    Division,
    PrivateScore,
    Proposal,
    Scale,
    check_known,
    count_files,
    divide_records,
    evaluation_plan,
    evaluation_seed,
    labels_of,
    score_of_totals,
    storage_precision,
    with_evaluation,
)
from taciturn.typing import HostArray
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import BreachError, Layout
from taciturn_federation.journal import Entry
from taciturn_federation.masks import open_sum


class Released(NamedTuple):
    """What a run releases."""

    weights: HostArray  # `(*shape)`
    # the centre of the rows that the weights are about, `(D,)`; None without one
    centre: HostArray | None = None
    # of Newton's method, the last question and its answer, for standard errors; else None
    asked: Asked | None = None
    # the sum of the agents' noised answers in the evaluation, `(S,)`; None without one
    totals: HostArray | None = None


class Layouts(NamedTuple):
    """Of an agent's state, what it receives, what it sends, and the model."""

    state: Layout
    inbox: Layout
    message: Layout
    model: Layout


def layouts_of(program: Program) -> Layouts:
    """Return the layouts of a program, from public facts alone; nothing is computed."""
    state, message, inbox = map(Layout.of, shapes_of(program))
    model, method = program.template, program.algorithm
    if isinstance(method, StarAlgorithm):  # counts have another shape than a model
        model = jax.eval_shape(lambda: method.model(method.first_public(program.template)))
    return Layouts(state, inbox, message, Layout.of(model))


class AgentLeg(NamedTuple):
    """What one agent answers in one leg of a run: `taciturn_federation.site.AgentRounds`."""

    plan: Plan
    agent: int  # its number in the leg
    private: Private  # its records, behind the door
    seed: int | None  # that of a reproduction, whose noise is public


# intervals are roots of polynomials in fourth powers of totals
_MAX_TOTAL = 1e50


@dataclass(frozen=True, eq=False)
class EvaluationLeg:
    """The evaluation of a run: one question about the released model, on held-out records.

    **Guarantee.** A site evaluates, on its held-out records, the model that follows from what it
    received; its answer is that of `AgentRounds` under the plan that it derived. A secret
    draw of the site decides which records these are, so no record is in both legs
    (`taciturn.kernel.privacy.compose`), and no message of the coordinator changes that.
    Where its noise counts on that of others (`summed`), answers are whole numbers of steps that
    leave under masks, and only the sum over all who answer can be read.
    """

    proposal: Proposal
    training: Plan
    agents: tuple[int, ...]  # those that hold records out, in order

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
        return dataclasses.replace(layouts_of(self.planned.program).message, limit=_MAX_TOTAL)

    def _plan(self, weights: HostArray) -> Plan:
        norm = math.hypot(1.0, CONSTANT) if self.proposal.centre else None
        return evaluation_plan(self.proposal, self.training, weights, record_norm=norm)

    def leg(self, agent: int, data: DividedData, released: Released, seed: int | None) -> AgentLeg:
        """Return an agent's part, once the model is known.

        Raises `PrivacyError` if its file does not hold out as many records as the proposal says.
        """
        evaluation = self.proposal.evaluation
        assert evaluation is not None
        moved = data if released.centre is None else data.around(released.centre)
        shards = moved.evaluated()
        if shards.counts != (evaluation.counts[agent],):
            raise PrivacyError("the records held out are not as many as the proposal says")
        planned = self._plan(released.weights)
        number = self.agents.index(agent)
        private = records_for_door(planned, shards, trained_on=data.origin, agent=number)
        return AgentLeg(planned, number, private, evaluation_seed(seed))

    def totals(self, answers: Sequence[HostArray]) -> Float[HostArray, "S"]:
        """Return the sum of the agents' answers; `BreachError` if masks do not cancel in it."""
        if not self.summed:
            return np.asarray(np.sum(np.stack(list(answers)), axis=0, dtype=np.float64))
        steps = open_sum([one.view(np.uint64) for one in answers], len(self.agents))
        exponent = int(np.asarray(self.planned.program.exponents)[0, 0, 0])
        return np.ldexp(steps.astype(np.float64), exponent)

    def score(self, totals: Float[HostArray, "S"]) -> PrivateScore:
        """Return the figures, post-processing of the answers alone."""
        proposal = self.proposal
        bounds = proposal.data.table.bounds if proposal.data.table is not None else None
        numbers = bounds is not None and isinstance(bounds.target, Numeric)
        unit = bounds.half_range if bounds is not None and numbers else 1.0
        scale = Scale(labels_of(proposal.data), unit)
        return score_of_totals(proposal, self.planned, totals, scale)


def evaluation_leg(proposal: Proposal, training: Plan) -> EvaluationLeg | None:
    """Return the evaluation of a proposal; None if nothing is held out, or no question is put."""
    if proposal.evaluation is None or not proposal.asks:
        return None
    agents = tuple(np.flatnonzero(proposal.evaluation.counts).tolist())
    return EvaluationLeg(proposal, training, agents)


@dataclass(frozen=True, eq=False)
class Local:
    """A site's view of a run, derived before anything is answered."""

    signed: SignedProposal
    agent: int  # its number
    plan: Plan
    evaluation: EvaluationLeg | None  # None if no records are held out
    files: Files  # its file, of which no cell was read
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
        """What the whole run would cost this site's account: its answers, and no other site's."""
        return self.charge_for(range(self.plan.rounds + 1))

    def charge_for(self, rounds: range | list[int]) -> Charge:
        """Return the cost of this site's answers in some rounds; T is the evaluation.

        A record is in the training or in the evaluation, so the larger of the two counts
        (`taciturn.engine.charge_of_legs`).
        """
        evaluation = self.evaluation if self.plan.rounds in rounds else None
        if evaluation is not None and self.agent not in evaluation.agents:
            evaluation = None
        return charge_for(self.plan, self.agent, rounds, evaluation)

    def checked_account(self, account: Account) -> Account:
        """Return an account for this site's table, once it may be charged.

        Raises `AccountError` if it was charged for a table with other columns, or another account
        for this file.
        """
        bound = account.for_table(self.files.columns)
        bound.check_table()
        bound.check_files([self.content])
        return bound

    def records(self, draw: Draw) -> DividedData:
        """Return the records as those of one agent, in the order of the file.

        The cells of the file are read here, and nowhere before. `draw` holds records out
        (`taciturn.kernel.records.hold_out`) and chooses the rows of a person: it is the same at
        every start of a run, or the site would train on records held out, and on more rows of a
        person than count. In a reproduction the public split seed takes its place.

        Raises `InputError` if a cell is not what the bounds declare: a fact about the records.
        """
        proposal, files, agent = self.signed.proposal, self.files, self.agent
        if self.seed is not None:
            draw = Draw(seed=proposal.split_seed)
        division = Division.of_proposal(proposal, owned=False)
        data = divide_records(
            table_of(files, precision=storage_precision(proposal, tests=files.tests is not None)),
            dataclasses.replace(division, agents=1, evaluate=None),
            draw,
        )
        rows, held_out = (np.arange(files.rows),), proposal.evaluation
        if held_out is None or not held_out.counts[agent]:
            return dataclasses.replace(data, owners=rows)
        kept, held = hold_out(rows, held_out.share, draw=draw, persons=data.persons, first=agent)
        return dataclasses.replace(data, owners=kept, held_out=held)

    def training_leg(self, records: DividedData) -> AgentLeg:
        """Return the site's part in the rounds of the training."""
        proposal = self.signed.proposal
        shards = records.shards(proposal.precision, centre=proposal.centre)
        private = records_for_door(self.plan, shards, agent=self.agent)
        return AgentLeg(self.plan, self.agent, private, self.seed)


def charge_for(
    plan: Plan, agent: int, rounds: range | list[int], evaluation: EvaluationLeg | None = None
) -> Charge:
    """Return the events of an agent's answers in some rounds, and in the evaluation, if given.

    **Guarantee.** A filter composes the events that occurred. Rounds that this agent did not
    answer, because another site or a public fact ended the run, produced no event and are not
    charged. An observer of sums learns of a round only if all answered it, so the noise of the
    others is in it.

    A person who may be at M sites is in the answers of all of them: each is charged what M have
    together (`charge_of`), and that of the whole run, since a site does not know in which rounds
    others answered.
    """
    if plan.terms.adjacency.agents_per_person > 1:
        return _charge_of_agent(charge_of(plan), agent)
    answered = np.isin(np.arange(plan.rounds), list(rounds))[None, :, None]
    ledger = dataclasses.replace(plan.ledger, kind=np.where(answered, plan.ledger.kind, -1))
    legs, places = [dataclasses.replace(plan.leg, ledger=ledger)], [agent]
    if evaluation is not None:
        legs.append(dataclasses.replace(evaluation.planned.leg, agents=evaluation.agents))
        places.append(evaluation.agents.index(agent))
    alone = [
        dataclasses.replace(
            leg,
            agents=None,
            records=leg.records[place : place + 1],
            ledger=_ledger_of_agent(leg.ledger, place),
            observer=Messages(),
        )
        for leg, place in zip(legs, places, strict=True)
    ]
    charge = charge_of_legs(compose(alone, plan.terms))
    if not plan.program.summed:
        return charge
    of_all = charge_of_legs(compose(legs, plan.terms))
    return dataclasses.replace(charge, summed=_charge_of_agent(of_all, agent).summed)


def _charge_of_agent(charge: Charge, agent: int) -> Charge:
    row, of_sums = slice(agent, agent + 1), charge.summed
    return dataclasses.replace(
        charge, messages=charge.messages[row], summed=None if of_sums is None else of_sums[row]
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
    """Return what a site derives from a signed proposal and its file.

    `coordinator` is the key that came with the invitation, `seed` that of a reproduction, whose
    noise is public. Methods of the user are used only if `methods` has them.

    Raises `InputError` if the file has other columns or another count than the proposal says, or it
    needs something that a study or this site does not have; `PrivacyError` if it was not signed by
    this coordinator, or the plan does not keep its bounds.
    """
    signed.check(coordinator)
    proposal = signed.proposal
    check_runnable(proposal, methods)
    files = _files(signed, source, agent)
    plan = proposal.plan(methods)
    evaluation = evaluation_leg(proposal, plan)
    legs = [(plan, seed)]
    if evaluation is not None:
        legs.append((evaluation.planned, evaluation_seed(seed)))
    for planned, leg_seed in legs:
        check_bounds(planned)
        check_certificate(planned)
        check_machine(planned.program, leg_seed)
    certificate = certificate_for(proposal, plan, evaluation, signed.may_lose)
    if seed is not None:
        certificate = certificate.stamped()
    try:
        content = hashlib.sha256(source.path.read_bytes()).digest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{source.path} cannot be read ({reason})") from error
    return Local(signed, agent, plan, evaluation, files, content, certificate, seed)


def certificate_for(
    proposal: Proposal, plan: Plan, evaluation: EvaluationLeg | None, may_lose: int = 0
) -> Certificate:
    """Return the certificate of a run, with what its proposal takes as public.

    `may_lose`: how many participants may be missing in a round.

    Where agents send whole steps they do so under masks (`taciturn_federation.masks`), whose
    assumptions it states.
    """
    assert proposal.data.table is not None  # as every signed proposal has
    persons, most = proposal.budget.rows_per_person is not None, proposal.budget.agents_per_person
    where = "one of the sites" if most == 1 else f"{most} of the sites"
    each = (
        f"each person has rows at no more than {where}, whatever the person is called there; no "
        "site sees the files of others, so no party can check it"
    )
    legs = plan.certificate.legs
    if plan.program.summed and isinstance(plan.terms.observer, Sum):
        trust = masked_trust(plan.program.agents, plan.terms.observer.colluders, may_lose)
        legs = (dataclasses.replace(plan.leg, trust=trust),)
    conditions = (
        *table_conditions(proposal.data.table.bounds, persons=persons),
        *((each,) if persons else ()),
        *proposal.conditions,
    )
    training = compose(legs, plan.terms).certificate()
    training = training.under(conditions, conditional=proposal.conditional)
    if evaluation is None:
        return training
    return with_evaluation(proposal, training, evaluation.planned.certificate)


def masked_trust(agents: int, colluders: int, may_lose: int = 0) -> str:
    """Return what the guarantee of a run under masks takes on trust, in words.

    The `may_lose` participants that may be missing in a round are among the colluders.

    **Guarantee.** A coalition that knows keys and noise of k participants sees the sum of the words
    of the others and nothing else of them (`taciturn_federation.masks.Masks`). The accountant
    counts on the noise of all A - k in it (where these are one,
    `taciturn.kernel.privacy.trust_without_honest_agents`). In a round of S members with k of that
    coalition, the noise of S - k is in the sum; it leaves out no more than A - S + k of all.
    """
    if colluders >= agents - 1:
        return trust_without_honest_agents(agents, colluders)
    absent = f"are missing in a round (at most {may_lose}) or " if may_lose else ""
    return (
        "the cipher of the masks (X25519, HKDF-SHA256, ChaCha20); the sites are those of "
        "owners who compared the code of the proposal among themselves; every site adds its "
        f"noise honestly, and at most {colluders} of them beside the aggregator {absent}reveal "
        "what they know, their noise and the keys of their masks (a participant knows its noise, "
        "so colluders=1 covers a curious participant)"
    )


def check_runnable(proposal: Proposal, methods: Mapping[str, Method]) -> None:
    """Raise `InputError` for what a site does not take part in."""
    name = proposal.method.name
    if proposal.dealt:
        raise InputError(
            "the proposal deals records out to the agents at random, and each site has a file; "
            "request a proposal of taciturn study"
        )
    if name not in methods and name != COUNTS:
        raise InputError(
            f"the proposal needs the method {name[:100]!r}, which is not one of taciturn's; a site "
            "runs code of others only if its owner names it: add --method, or decline"
        )


def _files(signed: SignedProposal, source: Source, agent: int) -> Files:
    """Return the site's file, no cell of it read, with the columns and count proposed."""
    table, proposal = signed.proposal.data.table, signed.proposal
    assert table is not None
    files = read_files(source, table.bounds)
    if files.owners is not None or len(files.tables) != 1:
        raise InputError(f"{source.path} holds the records of several agents; a site has one file")
    per_person, site = proposal.budget.rows_per_person, signed.participants[agent]
    (count,) = count_files(Division(agents=1, rows_per_person=per_person), files).all_counts
    if count != site.count:
        raise InputError(
            f"{source.path} has {count} records (or places of persons), and the proposal says "
            f"{site.count} for {site.name}; use the file of the request, or request a new proposal"
        )
    facts = DataFacts.of(table.bounds).with_features(proposal.data.features or COLUMNS)
    check_known(facts, proposal.all_counts, proposal, rows_per_person=per_person)
    return files


# ledger entries

Rounds: TypeAlias = list[list[Entry]]  # the entries of one agent, by round


def entries_to_json(answers: Mapping[int, Sequence[Entry]], rounds: int) -> dict[str, Any]:
    """Return the entries of every round as JSON; equal ones are written once."""
    kinds: dict[tuple[Entry, ...], int] = {}
    places = [kinds.setdefault(tuple(answers.get(t, ())), len(kinds)) for t in range(rounds)]
    return {"kinds": [[list(entry) for entry in some] for some in kinds], "rounds": places}


def entries_from_json(values: Mapping[str, Any], questions: Sequence[int], name: str) -> Rounds:
    """Return the entries of every round; raise `BreachError` if the plan has no such ones.

    `values` have passed the grammar (`taciturn_federation.envelope.check_control`). `questions`:
    for every round, how many questions the plan has in it at most.
    """

    def check(right: bool, why: str) -> None:
        if not right:
            raise BreachError(
                f"{name} sent no ledger entries of this run ({why}); its owner should look at its "
                "version of taciturn"
            )

    kinds, places = values["kinds"], values["rounds"]
    check(len(places) == len(questions), f"not {len(questions)} rounds, as the plan has")
    check(all(place < len(kinds) for place in places), "a round has none of its kinds")
    read = [
        [Entry(i, kind, float(scale), exponent, float(rate), batch)
         for i, kind, scale, exponent, rate, batch in some]
        for some in kinds
    ]  # fmt: skip
    found = [read[place] for place in places]
    few = all(e.local < most for some, most in zip(found, questions, strict=True) for e in some)
    check(few, "a round has a question that the plan does not have")
    return found


def check_entries(
    planned: Ledger, rounds: Sequence[Rounds], names: Sequence[str], *, may_lose: bool = False
) -> None:
    """Raise `PrivacyError`, with their names, if sites' entries are not those of the plan.

    `planned` supplies sensitivities and the law, which follow from the proposal. With `may_lose` a
    site may have answered nothing in a round.
    """

    def ledger(plan: Ledger, given: Sequence[Rounds]) -> Ledger:
        found = _ledger(plan, given)
        return _with_unanswered(plan, found) if may_lose else found

    try:
        planned.same_as(ledger(planned, rounds))
    except TaciturnError as error:
        other = []
        for agent, name in enumerate(names):
            try:
                one = _ledger_of_agent(planned, agent)
                one.same_as(ledger(one, [rounds[agent]]))
            except TaciturnError:
                other.append(name)
        raise PrivacyError(f"{', '.join(other)} answered otherwise than planned: {error}") from None


def _ledger(planned: Ledger, rounds: Sequence[Rounds]) -> Ledger:
    shape = planned.kind.shape
    kind = np.full(shape, -1)
    scale, exponent, rate, batch = (np.zeros(shape) for _ in range(4))
    rate += 1
    for agent, turns in enumerate(rounds):
        for turn, entries in enumerate(turns):
            for entry in entries:
                place = (agent, turn, entry.local)
                kind[place], scale[place], exponent[place] = entry.kind, entry.scale, entry.exponent
                rate[place], batch[place] = entry.rate, entry.batch
    on_lattice = (scale > 0) & (planned.inside is None)
    step = np.where(on_lattice, np.ldexp(1.0, exponent.astype(int)), 0.0)
    return Ledger(
        kind, planned.sensitivity, scale, planned.mechanism, rate, planned.inside, batch,
        step=step, values=planned.values,
    )  # fmt: skip


def _with_unanswered(planned: Ledger, found: Ledger) -> Ledger:
    """Return a ledger with the planned entries where a site answered nothing in a round."""
    empty = np.all(found.kind < 0, axis=-1, keepdims=True)

    names = ("kind", "scale", "rate", "batch", "step")
    columns: dict[str, Any] = {
        name: np.where(empty, getattr(planned, name), getattr(found, name)) for name in names
    }
    return dataclasses.replace(found, **columns)


def _ledger_of_agent(ledger: Ledger, agent: int) -> Ledger:
    row = slice(agent, agent + 1)
    return Ledger(
        ledger.kind[row], ledger.sensitivity[row], ledger.scale[row],
        ledger.mechanism, ledger.rate[row], ledger.inside, ledger.batch[row], ledger.step[row],
        ledger.values,
    )  # fmt: skip
