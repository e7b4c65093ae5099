"""What a site derives for itself from a signed proposal and its own file, and its answers.

The entries that it signs at the end are public facts about its answers, and no answer.

The last question of a run is a second leg with a plan and a ledger of its own: every agent that
holds records out answers it once, after the training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeAlias

import jax
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from jaxtyping import Float

from taciturn.algorithms import METHODS, Method, Turn
from taciturn.budget import Charge
from taciturn.engine import Plan, charge_of, charge_of_legs, shapes_of
from taciturn.engine.program import Program
from taciturn.engine.protocol import agent_round
from taciturn.engine.running import (
    behind_the_door,
    check_bounds,
    check_certificate,
    check_machine,
)
from taciturn.errors import InputError, PrivacyError, TaciturnError
from taciturn.features import CONSTANT
from taciturn.kernel.door import (
    Live,
    Private,
    Record,
    Supply,
    at,
)
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import (
    LEAST_NUMBERS,
    Certificate,
    Drawn,
    Ledger,
    Messages,
    Sum,
    alone_among,
    compose,
    drawn_noise,
    noise_test,
)
from taciturn.kernel.records import Draw, hold_out
from taciturn.tables import Files, Numeric, Source, read_files, table_conditions, table_of
from taciturn.training import (
    DataFacts,
    DividedData,
    Division,
    PrivateScore,
    Proposal,
    check_known,
    count_files,
    divide_records,
    evaluation_plan,
    evaluation_seed,
    labels_of,
    score_of_totals,
    score_units,
    storage_precision,
    with_evaluation,
)
from taciturn.typing import Array, HostArray, PyTree
from taciturn_federation import masks
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import BreachError, Layout, is_whole
from taciturn_federation.interface import Entry, Released

# numbers that are drawn at once, at most: more rounds than that are drawn later
_AHEAD = 2**18
# the same on a relay, where most of a block belongs to others' hops and is never used
_AHEAD_OF_TOKEN = 2**14


class Answered(NamedTuple):
    """A round: state and message after it, and the entries of its answers."""

    state: PyTree
    message: PyTree
    entries: tuple[Entry, ...]


class Answering:
    """The rounds of one agent; it holds the agent's records, as its door takes them.

    **Guarantee.** An answer is that of `Live` to the algorithm's own question, under the scale of
    the plan; its record is compared with the plan before anything is returned. Without a seed noise
    and batches come from a fresh key of the operating system, which is written nowhere: a new
    object draws independently of every earlier one. Every round is answered once. The noise is
    tested (`taciturn.kernel.privacy.drawn`) whenever twice as much of it was drawn as at the last
    look, and in the last round, before its message is returned; after a restart, from there on.
    """

    def __init__(self, plan: Plan, agent: int, private: Private, *, seed: int | None) -> None:
        program = plan.program
        self.plan, self.agent = plan, agent
        slot = 0 if program.scales.shape[-1] == 1 else agent
        stream = Stream.fresh() if seed is None else Stream.seeded(seed)
        self._supply = Supply(program.agenda, stream, private.rows, slot=slot)
        self._turns: Turn = jax.tree.map(lambda leaf: leaf[..., 0], self._supply.agenda.turns)
        self._holder = np.asarray(self._turns.agent[:, 0])
        self._block: tuple[int, int, Any] = (0, 0, None)
        self._door = Live(program.oracles, program.mechanism, private)
        self._planned = _planned(self._turns, plan.ledger, agent)
        certificate = plan.certificate
        self._test = noise_test(plan.ledger, epsilon=certificate.epsilon, delta=certificate.delta)
        self._drawn, self._looked = Drawn(), 0
        self._next = 0
        self._last: Answered | None = None
        self.layouts = layouts_of(program)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError(
            "what answers for an agent is neither pickled nor copied: a copy would answer rounds "
            "again, with noise that was drawn ahead for both"
        )

    @property
    def turns(self) -> tuple[int, ...]:
        """The rounds in which the agent answers: all, or on a relay those of its token."""
        return tuple(np.flatnonzero(self._holder == self.agent).tolist())

    def first_state(self) -> PyTree:
        """Return the agent's first state."""
        program = self.plan.program
        return at(program.network.first_states(program.executed, program.template), self.agent)

    def first_inbox(self) -> PyTree:
        """Return what the agent hears before the first round."""
        program = self.plan.program
        network: Any = program.network
        first = network.first_inboxes(program.executed, program.template)
        return network.inbox(first, self.agent)

    def answer(self, turn: int, state: PyTree, inbox: PyTree) -> Answered:
        """Return what the agent does in a round; asked again for the last one, the same.

        A site asks again where it could not write the answer down, as on a full disk.

        Raises `PrivacyError` if the door's record is not what the plan says, the noise does not
        pass its test, or the agent is not asked then, or a later round was answered.
        """
        if self._holder[turn] != self.agent:
            raise PrivacyError(f"agent {self.agent} is not asked in round {turn} of the plan")
        if turn == self._next - 1 and self._last is not None:
            return self._last
        if turn < self._next:
            raise PrivacyError(f"round {turn} was answered before; every round is answered once")
        self._next, self._last = turn + 1, None
        network = self.plan.program.network
        new, message, records = _step(
            self.plan.program.executed, self._door, state, inbox, self._turns, turn,
            self.drawn(turn),
        )  # fmt: skip
        new, message = network.if_taking_part(turn, (new, message), (state, inbox))
        records = jax.device_get(records._replace(answer=None))
        entries = self._entries(turn, records)
        sizes = np.asarray(records.drawn)
        self._supply.check_used(sizes[None, :, None], first=turn)
        self._look(turn, sizes)
        self._last = Answered(new, message, entries)
        return self._last

    def _look(self, turn: int, sizes: HostArray) -> None:
        """Add the noise of a round to what was drawn, and test it where that is due."""
        if self._test is None:
            return
        ledger, now = self.plan.ledger, (slice(self.agent, self.agent + 1), slice(turn, turn + 1))
        column = Ledger(
            ledger.kind[now], ledger.sensitivity[now], ledger.scale[now], ledger.mechanism,
            inside=ledger.inside, values=ledger.values,
        )  # fmt: skip
        self._drawn += drawn_noise(column, sizes[None, None])
        last = not np.any(self._holder[turn + 1 :] == self.agent)
        new = self._drawn.count - self._looked
        if new and (last or self._drawn.count >= max(LEAST_NUMBERS, 2 * self._looked)):
            self._looked = self._drawn.count
            self._test.check(self._drawn, new=new)

    def drawn(self, turn: int) -> Any:
        """Return the random numbers of a round, from a block that is drawn ahead."""
        first, last, _ = self._block
        if not first <= turn < last:
            first, last = turn, min(turn + self._ahead(), self.plan.rounds)
            self._block = first, last, self._supply.block(first, last)
        return at(at(self._block[2], turn - first), 0)

    def _ahead(self) -> int:
        most = _AHEAD if len(self.turns) == self.plan.rounds else _AHEAD_OF_TOKEN
        leaves = jax.tree.leaves(self._supply.shapes(1))
        size = sum(int(np.prod(leaf.shape)) for leaf in leaves)
        return max(1, min(self._supply.length(), most // max(size, 1)))

    def _entries(self, turn: int, records: Record) -> tuple[Entry, ...]:
        """Return the entries of a round, equal to the planned ones."""
        rate = np.ones(records.kind.shape) if records.rate is None else records.rate
        batch = np.zeros(records.kind.shape) if records.batch is None else records.batch
        columns = zip(
            records.kind.tolist(), np.asarray(records.scale, np.float64).tolist(),
            records.exponent.tolist(), np.asarray(rate, np.float64).tolist(), batch.tolist(),
            strict=True,
        )  # fmt: skip
        found = tuple(
            Entry(local, kind, scale, exponent, share, int(size))
            for local, (kind, scale, exponent, share, size) in enumerate(columns)
            if kind >= 0
        )
        if found != self._planned[turn]:
            raise PrivacyError(
                f"round {turn}: the door answered otherwise than planned; nothing is sent"
            )
        return found


class Layouts(NamedTuple):
    """What travels and what is kept: an agent's state, what it hears, what it sends, the model."""

    state: Layout
    inbox: Layout
    message: Layout
    model: Layout


def layouts_of(program: Program) -> Layouts:
    """Return the layouts of a program, from public facts alone; nothing is computed."""
    state, message, inbox = map(Layout.of, shapes_of(program))
    return Layouts(state, inbox, message, Layout.of(program.template))


@jax.jit
def _step(  # noqa: PLR0913, PLR0917 - a round's parts beside the program's
    algorithm: Any,
    door: Live,
    state: PyTree,
    inbox: PyTree,
    turns: Turn,
    turn: int | Array,
    raw: Any,
) -> tuple[PyTree, PyTree, Any]:
    """Return `agent_round` in one round, with the random numbers that were drawn for it."""
    return agent_round(algorithm, door, state, inbox, at(turns, turn), raw)


def _planned(turns: Turn, ledger: Ledger, agent: int) -> tuple[tuple[Entry, ...], ...]:
    """Return the entries that the door must leave in each round, compared with the ledger."""
    kind, scale = np.asarray(turns.question), np.asarray(turns.scale, np.float64)
    dtype = np.asarray(turns.scale).dtype
    rates = ledger.rate[agent].astype(dtype).astype(np.float64)
    sizes, exponent = ledger.batch[agent], np.asarray(turns.exponent)
    mine = np.asarray(turns.agent) == agent
    asked, enough = np.where(mine, kind, -1), ledger.scale[agent] * (1 - 1e-12)
    large = bool(np.all((scale >= enough)[asked >= 0]))
    if not (large and np.array_equal(asked, ledger.kind[agent])):
        raise PrivacyError("the program's questions or scales are not those of its ledger")
    return tuple(
        tuple(
            Entry(
                e, int(kind[t, e]), float(scale[t, e]), int(exponent[t, e]), float(rates[t, e]),
                int(sizes[t, e]),
            )
            for e in range(kind.shape[1])
            if mine[t, e] and kind[t, e] >= 0
        )
        for t in range(kind.shape[0])
    )  # fmt: skip


# intervals are roots of polynomials in fourth powers of totals
_MOST_TOTAL = 1e50


@dataclass(frozen=True, eq=False)
class LastQuestion:
    """What the agents of a proposal with an evaluation are asked in the end.

    **Guarantee.** A site asks its own held-out records about the model that follows from what it
    received itself; its answer is that of `Answering` under the plan that it derived. Which records
    these are the site's own secret draw decides, so no record is in both legs
    (`taciturn.kernel.privacy.compose`), and what the coordinator says cannot change that.
    Where its noise counts on that of others (`summed`), answers are whole numbers of steps that
    leave under masks, and the sum over all who answer is the only thing that anybody can read.
    """

    proposal: Proposal
    training: Plan
    agents: tuple[int, ...]  # who answer, in order: the ones that hold records out

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
        private = behind_the_door(planned, shards, trained_on=data.origin, agent=number)
        return Answering(planned, number, private, seed=evaluation_seed(seed))

    def totals(self, answers: Sequence[HostArray]) -> Float[HostArray, "S"]:
        """Return the sum of the agents' answers; `BreachError` if masks do not cancel in it."""
        if not self.summed:
            return np.asarray(np.sum(np.stack(list(answers)), axis=0, dtype=np.float64))
        words = [np.asarray(answer).view(np.uint64) for answer in answers]
        try:
            steps = masks.opened(words, len(self.agents))
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
        (`taciturn.engine.charge_of_legs`).
        """
        last = self.last if self.plan.rounds in rounds else None
        if last is not None and self.agent not in last.agents:
            last = None
        return charge_for(self.plan, self.agent, rounds, last)

    def records(self, draw: Draw) -> DividedData:
        """Return the records as those of one agent, in the order of the file.

        The cells of the file are looked at here, and nowhere before. `draw` holds records out
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
        rows, asked = (np.arange(files.rows),), proposal.evaluation
        if asked is None or not asked.counts[agent]:
            return dataclasses.replace(data, owners=rows)
        kept, held = hold_out(rows, asked.share, draw=draw, persons=data.persons, first=agent)
        return dataclasses.replace(data, owners=kept, held_out=held)

    def answering(self, records: DividedData) -> Answering:
        """Return what answers in the rounds of the training."""
        proposal = self.signed.proposal
        shards = records.shards(proposal.precision, centre=proposal.centre)
        private = behind_the_door(self.plan, shards, agent=self.agent)
        return Answering(self.plan, self.agent, private, seed=self.seed)

    def evaluator(self, records: DividedData) -> Callable[[Released], Answering] | None:
        """Return a function from a released model to this site's evaluation, or None."""
        last, agent, seed = self.last, self.agent, self.seed
        if last is None:
            return None
        return lambda released: last.answering(agent, records, released, seed)


def charge_for(
    plan: Plan, agent: int, rounds: range | list[int], last: LastQuestion | None = None
) -> Charge:
    """Return the events of an agent's answers in some rounds, and to the last question, if given.

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
    answered = np.isin(np.arange(plan.rounds), list(rounds))[None, :, None]
    asked = dataclasses.replace(plan.ledger, kind=np.where(answered, plan.ledger.kind, -1))
    legs, places = [dataclasses.replace(plan.leg, ledger=asked)], [agent]
    if last is not None:
        legs.append(dataclasses.replace(last.planned.leg, agents=last.agents))
        places.append(last.agents.index(agent))
    alone = [
        dataclasses.replace(
            leg,
            agents=None,
            records=leg.records[place : place + 1],
            ledger=ledger_of_agent(leg.ledger, place),
            observer=Messages(),
        )
        for leg, place in zip(legs, places, strict=True)
    ]
    charge = charge_of_legs(compose(alone, plan.terms))
    if not plan.program.summed:
        return charge
    of_all = charge_of_legs(compose(legs, plan.terms))
    return dataclasses.replace(charge, summed=_column(of_all, agent).summed)


def _column(charge: Charge, agent: int) -> Charge:
    """Return what a charge has for one agent."""
    own, of_sums = slice(agent, agent + 1), charge.summed
    return dataclasses.replace(
        charge, messages=charge.messages[own], summed=None if of_sums is None else of_sums[own]
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

    `coordinator` is the key that came with the invitation, `seed` that of a reproduction, whose
    noise is public. Of `methods` those of the user's own are used only if named here.

    Raises `InputError` if the file has other columns or another count than the proposal says, or it
    needs something that a study or this site does not have; `PrivacyError` if it was not signed by
    this coordinator, or the plan does not keep its bounds.
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
        certificate = certificate.stamped()
    try:
        content = hashlib.sha256(source.path.read_bytes()).digest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{source.path} cannot be read ({reason})") from error
    return Local(signed, agent, plan, last, files, content, certificate, seed)


def certificate_for(proposal: Proposal, plan: Plan, last: LastQuestion | None) -> Certificate:
    """Return the certificate of a run, with what its proposal takes as public.

    Where agents send whole steps they do so under masks (`taciturn_federation.masks`), and on
    trust is what these rest on.
    """
    assert proposal.data.table is not None  # as every signed proposal has
    persons, most = proposal.budget.rows_per_person is not None, proposal.budget.agents_per_person
    where = "one of the sites" if most == 1 else f"{most} of the sites"
    each = (
        f"each person has rows at no more than {where}, whatever the person is called there; no "
        "site sees the files of others, so nobody can check it"
    )
    legs = plan.certificate.legs
    if plan.program.summed and isinstance(plan.terms.observer, Sum):
        trust = masked_trust(plan.program.agents, plan.terms.observer.colluders)
        legs = (dataclasses.replace(plan.leg, trust=trust),)
    training = (
        compose(legs, plan.terms)
        .certificate()
        .under(
            (
                *table_conditions(proposal.data.table.bounds, persons=persons),
                *((each,) if persons else ()),
                *proposal.conditions,
            ),
            conditional=proposal.conditional,
        )
    )
    return training if last is None else last.certificate(training)


def masked_trust(agents: int, colluders: int) -> str:
    """Return what the guarantee of a run under masks takes on trust, in words.

    **Guarantee.** Whoever knows keys and noise of k participants sees the sum of the words of the
    others and nothing else of them (`taciturn_federation.masks.Masks`). The accountant counts on
    the noise of all A - k in it (`taciturn.kernel.privacy.alone_among` where these are one).
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
    division = Division(agents=1, rows_per_person=proposal.budget.rows_per_person)
    (count,) = count_files(division, files).all_counts
    planned = signed.participants[agent].count
    if count != planned:
        raise InputError(
            f"{source.path} has {count} records (or places of persons), and the proposal says "
            f"{planned} for {signed.participants[agent].name}; use the file of the request, or ask "
            "for a new proposal"
        )
    facts = DataFacts.of(table.bounds, proposal.data.features)
    per_person = proposal.budget.rows_per_person
    check_known(facts, proposal.all_counts, proposal, rows_per_person=per_person)
    return files


# entries of answers

Column: TypeAlias = list[list[Entry]]
_MOST = 2**31 - 1
# 2^exponent, a step of the lattice, is a float
_LEAST_POWER, _MOST_POWER = -1100, 1023


def entries_to_json(answers: Mapping[int, Sequence[Entry]], rounds: int) -> dict[str, Any]:
    """Return the entries of every round as JSON; entries alike are written once."""
    kinds: dict[tuple[Entry, ...], int] = {}
    places = [kinds.setdefault(tuple(answers.get(t, ())), len(kinds)) for t in range(rounds)]
    return {"kinds": [[list(entry) for entry in some] for some in kinds], "rounds": places}


def entries_from_json(values: Mapping[str, Any], questions: Sequence[int], name: str) -> Column:
    """Return the entries of every round; raise `BreachError` if these are none.

    `questions`: for every round, how many questions the plan has in it at most.
    """
    kinds, places = values.get("kinds"), values.get("rounds")
    if not (isinstance(kinds, list) and isinstance(places, list)):
        raise _malformed(name, "it has no kinds and no rounds")
    if len(places) != len(questions):
        raise _malformed(name, f"it has {len(places)} rounds, and the plan {len(questions)}")
    if not all(is_whole(place, 0, len(kinds) - 1) for place in places):
        raise _malformed(name, "a round has none of its kinds")
    read = [_entries(some, name) for some in kinds]
    column = [read[place] for place in places]
    for turn, (entries, most) in enumerate(zip(column, questions, strict=True)):
        if any(entry.local >= most for entry in entries):
            raise _malformed(name, f"round {turn} has a question that the plan does not have")
    return column


def _entries(some: Any, name: str) -> list[Entry]:
    if not (isinstance(some, list) and all(_is_entry(one) for one in some)):
        raise _malformed(name, "a number is of another type or out of range")
    return [
        Entry(local, kind, float(scale), exponent, float(rate), batch)
        for local, kind, scale, exponent, rate, batch in some
    ]


def _is_entry(values: Any) -> bool:
    if not (isinstance(values, list) and len(values) == len(Entry._fields)):
        return False
    local, kind, scale, exponent, rate, batch = values
    return (
        is_whole(local, 0, _MOST)
        and is_whole(kind, 0, _MOST)
        and _is_number(scale, sys.float_info.max)
        and is_whole(exponent, _LEAST_POWER, _MOST_POWER)
        and _is_number(rate, 1.0)
        and rate > 0
        and is_whole(batch, 0, 2**53)
    )


def _is_number(value: Any, most: float) -> bool:
    """Whether a JSON value is a number from 0 to `most`; whole ones are compared exactly."""
    return type(value) in (int, float) and 0 <= value <= most


def _malformed(name: str, why: str) -> BreachError:
    return BreachError(
        f"{name} sent no ledger entries of this run ({why}); its owner should look at its version "
        "of taciturn"
    )


def assembled(planned: Ledger, columns: Sequence[Sequence[Sequence[Entry]]]) -> Ledger:
    """Return the ledger that the sites' columns amount to.

    `planned` supplies sensitivities and the law, which follow from the proposal; `columns` has the
    entries of every agent's answers in every round.
    """
    shape = planned.kind.shape
    kind = np.full(shape, -1)
    scale, exponent, rate, batch = (np.zeros(shape) for _ in range(4))
    rate += 1
    for agent, column in enumerate(columns):
        for turn, entries in enumerate(column):
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


def check_entries(planned: Ledger, columns: Sequence[Column], names: Sequence[str]) -> Ledger:
    """Return the sites' ledger; `PrivacyError` names those who answered otherwise than planned."""
    try:
        observed = assembled(planned, columns)
        planned.same_as(observed)
    except TaciturnError as error:
        other = []
        for agent, name in enumerate(names):
            try:
                one = ledger_of_agent(planned, agent)
                one.same_as(assembled(one, [columns[agent]]))
            except TaciturnError:
                other.append(name)
        raise PrivacyError(f"{', '.join(other)} answered otherwise than planned: {error}") from None
    return observed


def ledger_of_agent(ledger: Ledger, agent: int) -> Ledger:
    """Return a ledger's row of one agent."""
    row = slice(agent, agent + 1)
    return Ledger(
        ledger.kind[row], ledger.sensitivity[row], ledger.scale[row],
        ledger.mechanism, ledger.rate[row], ledger.inside, ledger.batch[row], ledger.step[row],
        ledger.values,
    )  # fmt: skip
