"""The audited subject, a method by name or a function of a problem; data that saturate a bound."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import algorithms, problems
from taciturn.algorithms import Turn
from taciturn.audit.neighbours import DataPair, changed_places, replace_record
from taciturn.engine import Plan, plan
from taciturn.errors import InputError
from taciturn.kernel.door import Chance, Door, Live, Raw, Record
from taciturn.kernel.exact import exact_answers
from taciturn.kernel.privacy import Adjacency, Messages, Observer, ReplaceOne, Terms
from taciturn.kernel.questions import (
    Counts,
    Derivatives,
    Gradient,
    Oracle,
    ProjectedStep,
    ProximalStep,
    Recentred,
    Statistics,
)
from taciturn.kernel.records import Origin, Shards, Spec, pack
from taciturn.network import Network, metropolis, path, ring, uniform_walk
from taciturn.problems import NONE
from taciturn.training import DataFacts, NetworkRequest, Proposal, Request, Structure, propose
from taciturn.typing import Array, HostArray, Precision, PyTree

Maker = Callable[[problems.Problem], algorithms.Algorithm | algorithms.Composition]
AGENTS, RECORDS, FEATURES, ROUNDS = 3, 4, 5, 10
PROBLEM = problems.Problem(problems.Squared(), problems.NoRegulariser(), problems.WholeSpace())
DATA = DataFacts(
    name="canary", task="regression", classes=None, columns=FEATURES, record_norm=1.0, table=None
)
_LASSO = Structure(name="lasso", weight=1e-3, ridge=0.0, edges=(), rows=(), source="given")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The terms on which a subject is planned, for least squares; see `audit`.

    - `clip`: Bound on the coefficient of a record; infinite for a run without noise.
    - `rounds`: None for `ROUNDS`, or 1 for a method that asks once; on a relay, sweeps.
    - `rows_per_person`, `agents_per_person`: Given if a person is attacked; an agent then has two
      persons.
    """

    epsilon: float
    delta: float = 1e-5
    observer: Observer = Messages()  # noqa: RUF009 - frozen
    clip: float = 1.0
    rounds: int | None = None
    records: int = RECORDS
    features: int = FEATURES
    precision: Precision = "float64"
    agents: int = AGENTS
    network: Network | None = None
    options: Mapping[str, algorithms.Value] = field(default_factory=dict)
    rows_per_person: int | None = None
    agents_per_person: int = 1
    centre: bool = False
    pair: DataPair | None = None

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency of the attack, by replacement."""
        if self.rows_per_person is None:
            return ONE_RECORD
        return Adjacency(ReplaceOne(), "person", self.rows_per_person, self.agents_per_person)


def name_of(subject: str | Maker) -> str:
    """Return the name of a subject."""
    return subject if isinstance(subject, str) else getattr(subject, "__name__", repr(subject))


def method_of(subject: str | Maker) -> algorithms.Method | None:
    """Return the named method; None for a user's algorithm."""
    return algorithms.method_named(subject) if isinstance(subject, str) else None


def composition_of(
    subject: str | Maker, clip: float = 1.0, *, centre: bool = False
) -> algorithms.Composition:
    """Return the algorithm with the oracles of its `Composition`, or those that it states."""
    if isinstance(subject, str):
        return proposal_of(subject, Setup(epsilon=1.0, clip=clip, centre=centre)).composition()
    if centre:
        raise InputError(
            f"{name_of(subject)} is not a method of the library; add a centre to it "
            "(taciturn.algorithms.add_centre), or audit it without one"
        )
    result = subject(PROBLEM)
    if isinstance(result, algorithms.Composition):
        return result
    if not isinstance(result, algorithms.Algorithm):
        raise InputError(
            f"{name_of(subject)} returns a {type(result).__name__} for a problem; it must return "
            "an Algorithm, or a Composition of an algorithm and its oracles"
        )
    return algorithms.Composition(result, result.oracles(clip))


def planned(subject: str | Maker, setup: Setup) -> Plan:
    """Return the plan of a subject."""
    if isinstance(subject, str) and setup.network is None:
        return proposal_of(subject, setup).plan()
    algorithm, oracles = composition_of(subject, setup.clip)
    # the oracles of a user's Composition must have clip 1
    composed = not isinstance(subject, str) and isinstance(subject(PROBLEM), algorithms.Composition)
    clip = 1.0 if composed else setup.clip
    rounds, network = setup.rounds or ROUNDS, setup.network
    if network is None and isinstance(algorithm, algorithms.RelayAlgorithm):
        network = uniform_walk(ring(setup.agents), rounds * setup.agents, seed=0)
    elif network is None and isinstance(algorithm, algorithms.GossipAlgorithm):
        network = metropolis(path(setup.agents))
    if network is not None:
        rounds = network.fixed_rounds or rounds
    facts = problems.facts_from(
        PROBLEM, [setup.records] * setup.agents, features=setup.features, record_norm=1.0, clip=clip
    )
    terms = Terms(setup.epsilon, setup.delta, setup.adjacency, setup.observer)
    return plan(
        facts, algorithm, oracles, terms, rounds=rounds, precision=setup.precision, network=network
    )


def proposal_of(name: str, setup: Setup) -> Proposal:
    """Return the proposal of a named method; a method for structures solves a lasso."""
    method = algorithms.method_named(name)
    relay, rounds = method.network == "relay", setup.rounds or min(ROUNDS, method.rounds)
    epoch = method.epoch(float(setup.options.get("sampling_rate", 0.1)))
    rounds = epoch * max(1, round(rounds / epoch)) * (setup.agents if relay else 1)
    wanted = NetworkRequest(network="path") if method.network else NetworkRequest()
    if relay:
        wanted = NetworkRequest(network="ring", walk="random")
    request = Request(
        epsilon=setup.epsilon,
        delta=setup.delta,
        observer=setup.observer,
        rows_per_person=setup.rows_per_person,
        agents_per_person=setup.agents_per_person,
        algorithm=name,
        regulariser=NONE,
        clip=None if math.isinf(setup.clip) else setup.clip,
        rounds=rounds,
        options=setup.options,
        centre=setup.centre,
        network=wanted,
        precision=setup.precision,
    )
    structure = _LASSO if method.structure == "required" else None
    # a centre takes one column for its constant
    data = DATA.model_copy(update={"columns": setup.features - setup.centre})
    return propose(data, [setup.records] * setup.agents, request, structure)


FAR = 1e4
ONE_RECORD = Adjacency(ReplaceOne(), "record")


@dataclass(frozen=True)
class Canary:
    """Two neighbouring data sets whose exact answers differ by the whole bound at every query.

    They differ in the first record of agent 0, of norm 1: its target is -FAR in `first` and +FAR in
    `second`, so the oracle clips in opposite directions. If a person is attacked, all of its
    records differ in this way, at each of its agents.

    *Gradient.* The record is e_1 in both. Under the squared loss with the coefficient clipped at 1,
    its gradient is +e_1 and -e_1 as long as the margin stays within FAR - 1 of zero: the mean
    gradient moves by 2/m, the replace-one bound, at every query. A logistic loss would reach only
    half of its bound at ordinary iterates. A *projected step* without constraint answers with that
    gradient plus a public slope; a *proximal step* moves by the change of the gradient over rho.

    *Around a centre.* The record is e_1 in both, with a zero in place of the constant, so its row
    around every centre is the same, of full norm, and its gradient moves as above. The first
    answer, the mean of the rows, does not move.

    *Statistics.* With R = Y = 1 the bound sqrt(2) (R^2 + Y^2/2) / m is attained where the records x
    and z have norm R, x'z = Y^2/2 and the clipped targets are -Y and Y
    (`taciturn.kernel.questions.Statistics`): x = e_1 and z = e_1/2 + sqrt(3)/2 e_2.

    *Derivatives.* The parts cannot move by their bounds at once. With opposite coefficients and k =
    x'z the square of the move is C^2 (2 + 2 k) + W^2 (2 - 2 k^2), and in `Newton` W^2 = 2/3 C^2: k
    = 3/4 is best, 0.875 of the bound, or 0.86 with the mean square.

    *Counts.* All entries of one record are above 0, and those of the other below, so that it leaves
    a cell of every table for another one.
    """

    problem: problems.Problem
    oracle: Oracle
    spec: Spec
    first: Shards
    second: Shards


def canary(
    *,
    agents: int,
    records: int,
    features: int,
    seed: int,
    oracle: Oracle | None = None,
    adjacency: Adjacency = ONE_RECORD,
) -> Canary:
    """Return the pair: each of the agents holds `records` unit-norm records of `features` >= 2.

    `oracle`: the question to saturate, by default a `Gradient` of the squared loss clipped at 1.
    `adjacency`: how the two differ: in a record, or in the first places of this many agents.
    `InputError` if no saturating pair is known for the oracle.
    """
    oracle = oracle or Gradient(PROBLEM.loss, clip=1.0)
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((agents * records, features))
    if isinstance(oracle, Recentred):
        rows[:, -1] = 0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    known = _saturating(oracle, features)
    if known is None:
        raise InputError(
            f"no pair is known that saturates {oracle}; audit the gradient of the squared loss "
            "clipped at 1 or statistics of targets clipped at 1, give a pair of data sets of your "
            "own (pair=), or search its sensitivity with check_oracle"
        )
    one, other = known
    targets = np.sign(draw.standard_normal(agents * records)) * FAR
    parts = np.split(np.arange(agents * records), agents)
    places = [
        (agent, place)
        for agent in range(min(adjacency.agents_per_person, agents))
        for place in range(adjacency.rows_per_person or 1)
    ]
    changed = [agent * records + place for agent, place in places]
    rows[changed], targets[changed] = one, -FAR
    packed = pack(rows, targets, parts, record_norm=1.0, precision="float64")
    # all places are occupied, so their order need not be drawn
    first = replace(packed, origin=Origin(rows_per_person=adjacency.rows_per_person))
    second = first
    for agent, place in places:
        second = replace_record(second, agent, place, other, FAR)
    return Canary(PROBLEM, oracle, problems.public_facts(PROBLEM, first, clip=1.0), first, second)


def canary_of(pair: DataPair, oracle: Oracle) -> Canary:
    """Return a user's two data sets as a canary, checked."""
    first, second = pair
    if changed_places(pair, ReplaceOne()) != 1:
        raise InputError(
            "an audit attacks one replaced record, in which the two data sets must differ"
        )
    double = first.stacked.features.dtype == np.float64
    if len(set(first.counts)) != 1 or first.record_norm != 1 or not double:
        raise InputError(
            "the data sets of an audit must have equally many records at every agent, record norm "
            '1 and double precision; pack them with record_norm=1.0, precision="float64"'
        )
    return Canary(PROBLEM, oracle, problems.public_facts(PROBLEM, first, clip=1.0), first, second)


def saturated(oracles: tuple[Oracle, ...]) -> Oracle | None:
    """Return the first oracle for which a saturating pair is known; None if there is none."""
    return next((oracle for oracle in oracles if _saturating(oracle, 2) is not None), None)


def _saturating(oracle: Oracle, features: int) -> tuple[HostArray, HostArray] | None:
    """Return two rows of norm 1 between which the answer moves by the full bound."""
    one, two = np.eye(features)[:2]
    if isinstance(oracle, Counts):
        side = np.full(features, 1 / math.sqrt(features))
        return side, -side
    if isinstance(oracle, Statistics) and oracle.target_bound == 1:
        return one, one / 2 + math.sqrt(3) / 2 * two
    if isinstance(oracle, Derivatives) and oracle.clip == 1:
        return one, 0.75 * one + math.sqrt(1 - 0.75**2) * two
    inner = oracle.inner if isinstance(oracle, Recentred) else oracle
    gradient = inner.gradient if isinstance(inner, ProjectedStep | ProximalStep) else inner
    known = isinstance(gradient, Gradient) and (gradient.clip, gradient.spread) == (1, None)
    return (one, one) if known else None


Fault = Literal[
    "halved-noise", "no-clipping", "reused-noise", "clear-dual",
    "clear-restart", "short-key", "repeated-noise", "part-noise",
]  # fmt: skip


class Subject(NamedTuple):
    """The parts that run: those of the plan unless a fault was planted."""

    algorithm: algorithms.Algorithm
    oracles: tuple[Oracle, ...]
    door: Door


def fault_named(name: str) -> Fault:
    """Return `name` if it is a planted fault, else raise `InputError` with the list."""
    if name not in get_args(Fault):
        raise InputError(f"unknown fault {name!r}; choose from {', '.join(get_args(Fault))}")
    return cast("Fault", name)


_FAR = 1e9  # a clip above every coefficient of an audit, at which sums are still exact


def plant(fault: Fault | None, algorithm: algorithms.Algorithm, live: Live) -> Subject:
    """Return the subject of an audit, with `fault` planted in it."""
    if fault in ("halved-noise", "reused-noise"):
        door = HalvedNoise(live) if fault == "halved-noise" else ReusedNoise(live)
        return Subject(algorithm, live.oracles, door)
    if fault == "no-clipping":
        oracles = tuple(_unclipped(oracle) for oracle in live.oracles)
        return Subject(algorithm, oracles, dataclasses.replace(live, oracles=oracles))
    if fault == "clear-restart":
        if not isinstance(algorithm, algorithms.VRADMM):
            raise InputError(f"{type(algorithm).__name__} has no restart; choose another fault")
        return Subject(ClearRestart(algorithm), live.oracles, BothAnswers(live))
    if fault == "clear-dual":
        if not isinstance(algorithm, algorithms.StarAlgorithm):
            raise InputError("a clear dual is planted in methods with an aggregator only")
        return Subject(ClearState(algorithm), live.oracles, BothAnswers(live))
    return Subject(algorithm, live.oracles, live)


def _unclipped(oracle: Oracle) -> Oracle:
    if isinstance(oracle, Statistics):
        return dataclasses.replace(oracle, target_bound=_FAR)
    if not isinstance(oracle, Derivatives | Gradient | ProjectedStep | ProximalStep):
        raise InputError(f"{type(oracle).__name__} does not clip; choose another fault")
    return dataclasses.replace(oracle, clip=_FAR)


class _Behind(Door):
    """A door that forwards to another one."""

    live: Live

    @override
    def __call__(self, queries: PyTree, turn: Turn, chance: Chance | None) -> tuple[Any, Record]:
        return self.live(queries, turn, chance)

    @override
    def realised(self, turns: Turn, raw: Raw) -> Chance:
        return self.live.realised(turns, raw)


class HalvedNoise(_Behind):
    """Planted fault: adds half the noise that it records."""

    @override
    def realised(self, turns: Turn, raw: Raw) -> Chance:
        chance = self.live.realised(turns, raw)
        return chance if chance.noise is None else chance._replace(noise=chance.noise / 2)


class ReusedNoise(_Behind):
    """Planted fault: adds the noise of the first round in every round."""

    @override
    def realised(self, turns: Turn, raw: Raw) -> Chance:
        if raw.steps is not None:
            raw = raw._replace(steps=jnp.broadcast_to(raw.steps[:1], raw.steps.shape))
        return self.live.realised(turns, raw)


class BothAnswers(_Behind):
    """Planted fault: gives the algorithm both the noised and the exact answer."""

    @override
    def __call__(self, queries: PyTree, turn: Turn, chance: Chance | None) -> tuple[Any, Record]:
        (answer, record), live = self.live(queries, turn, chance), self.live
        return (answer, exact_answers(live.oracles, live.private, queries, turn, chance)), record


class _Twin(NamedTuple):
    noised: PyTree
    clear: PyTree


class ClearState(algorithms.StarAlgorithm):
    """Planted fault: leaks the dual, or the whole message, of a second, un-noised state."""

    base: algorithms.StarAlgorithm

    @override
    def questions(self, rounds: int) -> HostArray:
        return self.base.questions(rounds)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: algorithms.Noise) -> dict[str, HostArray]:
        return self.base.schedule(spec, rounds, noise)

    @override
    def start(self, template: Float[Array, "*shape"]) -> _Twin:
        return _Twin(self.base.start(template), self.base.start(template))

    @override
    def receive(self, state: _Twin, inbox: PyTree, turn: Turn) -> _Twin:
        return _Twin(*(self.base.receive(part, inbox, turn) for part in state))

    @override
    def ask(self, state: _Twin, inbox: PyTree, turn: Turn) -> Any:
        return self.base.ask(state.noised, inbox, turn)

    @override
    def tell(self, state: _Twin, inbox: PyTree, turn: Turn, answer: Any) -> _Twin:
        return _Twin(
            *(self.base.tell(part, inbox, turn, a) for part, a in zip(state, answer, strict=True))
        )

    @override
    def send(self, state: _Twin, inbox: PyTree, turn: Turn) -> tuple[_Twin, PyTree]:
        noised, message = self.base.send(state.noised, inbox, turn)
        clear, leaked = self.base.send(state.clear, inbox, turn)
        if isinstance(message, algorithms.DualMessage):
            leaked = message._replace(dual=leaked.dual)
        return _Twin(noised, clear), leaked

    @override
    def first_public(self, template: Float[Array, "*shape"]) -> PyTree:
        return self.base.first_public(template)

    @override
    def combine(self, public: PyTree, mean_message: PyTree, turn: Turn) -> PyTree:
        return self.base.combine(public, mean_message, turn)

    @override
    def model(self, public: PyTree) -> Float[Array, "*shape"]:
        return self.base.model(public)


class ClearRestart(ClearState):
    """Planted fault: sends the un-noised snapshot gradient, as the published restart does."""

    @override
    def send(self, state: _Twin, inbox: PyTree, turn: Turn) -> tuple[_Twin, PyTree]:
        kept, clear = super().send(state, inbox, turn)
        _, noised = self.base.send(state.noised, inbox, turn)
        return kept, jnp.where(turn.values["moves"] > 0, noised, clear)
