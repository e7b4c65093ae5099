"""Answers as they are computed: how far a record moves them, over the bound that is certified.

Two neighbouring data sets are put behind the door of a plan, what noise would be added to is
computed on both as a run computes it, rounded to the lattice of the noise, and the distance of the
two is divided by what the ledger says. Above 1, the certificate does not hold for what is released.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from taciturn.algorithms import AnswerMessages
from taciturn.engine import plan, records_for_door
from taciturn.engine.program import agent_turns
from taciturn.kernel.door import Private
from taciturn.kernel.door.door import exact_power_of_two
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    Mechanism,
    Messages,
    Relation,
    ReplaceOne,
    TargetChange,
    Terms,
    Unit,
)
from taciturn.kernel.questions import (
    Around,
    Centre,
    CentredGradient,
    Drawn,
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    OnLattice,
    Oracle,
    Pair,
    Point,
    PoissonBatches,
    ProjectedStep,
    ProximalStep,
    Recentred,
    Residual,
    RowMean,
    Statistics,
    Step,
    TargetGradient,
    Targets,
)
from taciturn.kernel.records import Origin, Shard, pack
from taciturn.problems import (
    Ball,
    ElasticNet,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    Squared,
    WholeSpace,
    facts_from,
)
from taciturn.typing import Array, HostArray, Precision, PyTree

EPSILON, DELTA = 1.0, 1e-6
# how many places a person has
PERSON = 3
# numbers of a data set that are held at once; beyond it trials are made in turns
_MOST = 2**25
_MULTIPLIERS = {}


class AskOnce(AnswerMessages):
    """One question to one agent, at a query that is given; what is released is the answer."""

    problem: Problem
    query: PyTree
    answers: tuple[int, ...] = eqx.field(static=True)

    def schedule(self, spec, rounds, noise):
        return {}

    def start(self, template):
        return jnp.zeros(self.answers, template.dtype)

    def ask(self, state, inbox, turn):
        return self.query

    def first_public(self, template):
        return jnp.zeros(self.answers, template.dtype)

    def combine(self, public, mean_message, turn):
        return mean_message

    def model(self, public):
        return public


@dataclass(frozen=True)
class Finding:
    """How far one construction moved the computed answers of one oracle."""

    oracle: str
    construction: str
    precision: Precision
    records: int
    columns: int
    outputs: int  # the numbers of an answer
    ratio: float  # the largest change over the bound, or what was seen over what is allowed

    @property
    def holds(self):
        """Whether nothing exceeded its bound; false for a ratio that is no number."""
        return bool(self.ratio <= 1)


@dataclass(frozen=True)
class Subject:
    """A question that is attacked."""

    name: str
    oracle: Oracle
    problem: Problem
    clip: float
    relation: Relation
    ask: Callable[[HostArray, HostArray], PyTree]  # from two arrays of models to as many queries
    unit: Unit = "record"
    mechanism: Mechanism = Gaussian()  # noqa: RUF009 - frozen

    @property
    def terms(self):
        """How neighbours differ, in words."""
        whole = {"record": "", "agent": ", all of an agent", "person": f", {PERSON} of a person"}
        norm = ", 1-norm" if self.mechanism.norm == "l1" else ""
        return f"{self.relation.name}{whole[self.unit]}{norm}"

    @property
    def adjacency(self):
        """The relation and the unit; a person has `PERSON` places."""
        rows = PERSON if self.unit == "person" else None
        return Adjacency(self.relation, self.unit, rows)

    def planned(self, records, columns, precision):
        """Return the plan of one answer of one agent with so many records."""
        spec = facts_from(
            self.problem, [records], features=columns, record_norm=1.0, clip=self.clip
        )
        method = AskOnce(self.problem, self._query(columns), self.oracle.answer_shape(spec.shape))
        terms = Terms(EPSILON, DELTA, self.adjacency, Messages())
        # noise on batches takes seconds to calibrate, and is about the same for all questions
        kind = (self.oracle.sampling, self.adjacency, self.mechanism)
        made = plan(
            spec, method, (self.oracle,), terms, rounds=1, precision=precision,
            mechanism=self.mechanism, multiplier=_MULTIPLIERS.get(kind),
        )  # fmt: skip
        if isinstance(self.oracle.sampling, PoissonBatches):
            _MULTIPLIERS.setdefault(kind, 1.001 * made.multiplier)
        return made

    def _query(self, columns):
        """Return one query, at models of zeros."""
        zeros = np.zeros((1, *self.shape(columns)))
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], self.ask(zeros, zeros))

    def shape(self, columns):
        """Return the shape of a model."""
        return self.problem.model_shape(columns)

    def outputs(self, columns):
        """Return how many numbers an answer has."""
        return int(np.prod(self.oracle.answer_shape(self.shape(columns))))


class Trials(NamedTuple):
    """N pairs of neighbouring data sets and queries, every leaf with a leading axis N."""

    features: HostArray  # (N, m, D) of the first data set, and below of the second
    targets: HostArray
    others: HostArray
    other_targets: HostArray
    kept: HostArray  # (N, m): 0 where a record is set to zero in the second
    query: PyTree
    batches: tuple[Drawn, Drawn] | None = None  # on either; None for those that the door draws


def everyone(trials, records):
    """Return a batch of all records on both sides, which is as good as any other."""
    drawn = Drawn(None, jnp.ones((trials, records), bool))
    return drawn, drawn


def ratios(subject, planned, trials, *, together=False):
    """Return |answer(D) - answer(D')| / bound of every trial, `(N,)`."""
    at_once = max(1, _MOST // max(1, int(np.prod(trials.features.shape[1:]))))
    starts = range(0, len(trials.features), at_once)
    cuts = (_cut(trials, slice(start, start + at_once)) for start in starts)
    norm = subject.mechanism.norm
    moved = np.concatenate([_moved(planned, cut, norm, together) for cut in cuts])
    return moved / float(planned.ledger.moves[0, 0, 0])


def _cut(trials, some):
    cut: Trials = jax.tree.map(lambda leaf: leaf[some], trials)
    return cut


def _moved(planned, trials, norm, together):
    """Return |answer(D) - answer(D')| of every trial."""
    kind = jnp.dtype(planned.precision)
    query = jax.tree.map(lambda leaf: jnp.asarray(leaf, kind), trials.query)
    first = (trials.features, trials.targets, np.ones(trials.targets.shape))
    second = (trials.others, trials.other_targets, trials.kept)
    answers = [
        _answers(planned.program, _opened(planned, side), query, batch, together=together)
        for side, batch in zip((first, second), trials.batches or (None, None), strict=True)
    ]
    return distances(*map(np.asarray, answers), norm)


def _opened(planned, data):
    """Return the data of every trial as the run's door would see those of one agent, stacked."""
    behind = [records_for_door(planned, _packed(*one, planned)) for one in zip(*data, strict=True)]
    stacked: Private = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *behind)
    return stacked


def _packed(features, targets, kept, planned):
    """Return rows that stand in the places of persons where the plan protects these."""
    precision, rows = planned.precision, planned.terms.adjacency.rows_per_person
    parts = [np.arange(len(features))]
    packed = pack(features, targets, parts, record_norm=1.0, precision=precision)
    data = packed.stacked
    mask = data.mask * jnp.asarray(kept, data.mask.dtype)
    stacked = Shard(data.features, data.targets, mask)
    return dataclasses.replace(packed, stacked=stacked, origin=Origin(rows_per_person=rows))


@partial(jax.jit, static_argnames=("together",))
def _answers(program, private, query, batch, *, together):
    """Return what noise would be added to, for every query and as many agents' data, in turn 0."""
    turn = jax.tree.map(lambda leaf: leaf[0, 0, 0], agent_turns(program))
    key = jax.random.key(0)

    def one(given):
        private, query, drawn = given
        oracle = program.oracles[0] if drawn is None else on_batch(program.oracles[0], drawn)
        rows = private.shard.mask.shape[-1]
        words = jax.random.bits(key, (oracle.sampling.words(rows),), jnp.uint64)
        batch = oracle.sampling.draw(words, rows, private.records)
        exact = oracle.sampling.answer(
            oracle.private_part, private.shard, batch, private.records, query
        )
        return OnLattice(jnp.zeros(exact.shape), exact_power_of_two(turn.exponent)).added_to(exact)

    given = (private, query, batch)
    answers: Array = jax.vmap(one)(given) if together else jax.lax.map(one, given)
    return answers


def distances(first, second, norm):
    """Return |first - second| of every pair, of any numbers: what differs in kind is infinite.

    Two entries that are both NaN, or both the same infinity, do not differ. The sum is taken in
    the longest precision of the machine, so that a distance equal to its bound does not exceed it.
    """
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    usable = np.isfinite(first) & np.isfinite(second)
    wide = [np.where(usable & ~same, side, 0).astype(np.longdouble) for side in (first, second)]
    parts = np.where(same | usable, np.abs(wide[0] - wide[1]), np.inf).reshape(len(first), -1)
    largest = np.max(parts, axis=1, keepdims=True, initial=0)
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1)
    shares = parts / unit
    sizes = np.sum(shares, axis=1) if norm == "l1" else np.sqrt(np.sum(shares**2, axis=1))
    return np.asarray(sizes * unit[:, 0], np.float64)


class _GivenBatches(PoissonBatches):
    """Batches that the attacker chose: a bound holds on every batch."""

    drawn: Drawn

    def draw(self, words, rows, count):
        return self.drawn


def on_batch(oracle, drawn):
    """Return the oracle with a batch in place of those that it draws."""
    if isinstance(oracle, Recentred):
        return dataclasses.replace(oracle, inner=on_batch(oracle.inner, drawn))
    assert isinstance(oracle, Gradient)
    return dataclasses.replace(oracle, sampling=_GivenBatches(oracle.sampling.rate, drawn))


CLIP, RATE, RHO, TOL, CLASSES = 1.0, 0.5, 1.0, 1e-9, 10
# how far one target moves, where features are public
BETA = 2.0
_LOSS = Squared()
_KAPPA = 0.3
_PROBLEM = Problem(_LOSS, NoRegulariser(), WholeSpace())
_ON_SIMPLEX = Problem(_LOSS, NoRegulariser(), Simplex(1.0))
_IN_BALL = Problem(_LOSS, ElasticNet(0.1, 0.1), Ball(1.0))
_STEP = ProximalStep(_PROBLEM, CLIP, RHO, 1.0, TOL)

ORACLES: dict[str, Callable[[int], Oracle]] = {
    "gradient": lambda _: Gradient(_LOSS, CLIP),
    "gradient, ten classes": lambda _: Gradient(MultinomialLogistic(CLASSES), 2.0),
    "mini-batch gradient": lambda _: MinibatchGradient(_LOSS, CLIP, RATE),
    "mini-batch difference": lambda _: MinibatchDifference(_LOSS, CLIP, RATE, spread=2 * CLIP),
    "snapshot": lambda _: Gradient(_LOSS, CLIP, relative_multiplier=2.0),
    "statistics": lambda _: Statistics(1.0),
    "row mean": lambda _: RowMean(),
    "centred gradient": lambda _: CentredGradient(Gradient(_LOSS, CLIP), 1.0, _KAPPA),
    "mini-batch gradient around a centre": lambda _: Recentred(
        MinibatchGradient(_LOSS, CLIP, RATE), 1.0, _KAPPA
    ),
    "proximal step around a centre": lambda _: Recentred(
        ProximalStep(_PROBLEM, CLIP, RHO, math.hypot(1.0, _KAPPA), TOL), 1.0, _KAPPA
    ),
    "projected step": lambda _: ProjectedStep(_PROBLEM, CLIP),
    "proximal step": lambda _: _STEP,
    "projected step, simplex": lambda _: ProjectedStep(_ON_SIMPLEX, CLIP),
    "proximal step, ball": lambda _: ProximalStep(_IN_BALL, CLIP, RHO, 1.0, TOL),
    "gradient, fixed batches": lambda m: MinibatchGradient(_LOSS, CLIP, RATE, records=m),
    "target gradient": lambda _: TargetGradient(),
    "residual": Residual,
    "targets": Targets,
}
FIXED = "gradient, fixed batches"
# those whose records are their targets
OF_TARGETS = ("target gradient", "residual", "targets")


def precisions_of(name):
    """Return the precisions that a plan of the question may have, the shortest first."""
    return ("float64",) if name in OF_TARGETS else ("float32", "float64")


def subject_named(name, records, relation, *, unit="record", mechanism=None):
    """Return a subject of `ORACLES`, about so many records of an agent."""
    oracle = ORACLES[name](records)
    if name in OF_TARGETS:
        relation = TargetChange(BETA)
    elif name == FIXED:
        relation = ReplaceOne()
    problem = getattr(oracle, "problem", None)
    if problem is None:
        problem = Problem(getattr(oracle, "loss", _LOSS), NoRegulariser(), WholeSpace())
    return Subject(
        name=name,
        oracle=oracle,
        problem=problem,
        clip=float(getattr(oracle, "clip", CLIP)),
        relation=relation,
        ask=asks(oracle),
        unit=unit,
        mechanism=mechanism or Gaussian(),
    )


def asks(oracle):
    """Return the function from two arrays to a question of the kind that the oracle takes."""
    if isinstance(oracle, Gradient) and oracle.spread is not None:
        return lambda x, anchor: Pair(jnp.asarray(x), jnp.asarray(anchor))
    if isinstance(oracle, CentredGradient):
        return lambda x, centre: Around(Point(jnp.asarray(x)), jnp.asarray(centre))
    if isinstance(oracle, Recentred):
        inner = asks(oracle.inner)
        return lambda x, centre: Around(inner(x, x), jnp.asarray(centre))
    if isinstance(oracle, ProximalStep):
        return lambda x, _: Centre(jnp.asarray(x))
    if isinstance(oracle, ProjectedStep):
        return _step
    return lambda x, _: Point(jnp.asarray(x))


def _step(point, slope):
    ones = jnp.ones(len(point))
    return Step(jnp.asarray(point), jnp.asarray(slope), ones, ones)
