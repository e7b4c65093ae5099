"""Cases, competitors and what is measured of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tacit.algorithms import (
    SADMM,
    VRADMM,
    NoisyGradient,
    RenyiADMM,
    StarAlgorithm,
    variance_reduction,
)
from tacit.datasets import load, split
from tacit.door import Live
from tacit.experiments.structures import learned_edges
from tacit.oracles import MinibatchGradient, Oracle
from tacit.plan import Plan, Terms, plan
from tacit.privacy import Adjacency, Messages, ReplaceOne
from tacit.problems import (
    L1,
    Logistic,
    NoRegulariser,
    Problem,
    Shards,
    Structured,
    WholeSpace,
    fused_lasso,
    lasso,
    minimise,
    pack,
    public_facts,
)
from tacit.reproductions.figure import Measured
from tacit.reproductions.liu2022.settings import (
    CLIP,
    DELTA,
    GRAPH_WEIGHT,
    LASSO_WEIGHT,
    PUBLIC_SHARE,
    Data,
    Setting,
)
from tacit.runtime import behind_the_door, simulate
from tacit.transcript import observed_ledger
from tacit.typing import Array, HostArray, Key

Kind = Literal["fused", "ridge", "lasso"]


@dataclass(frozen=True, eq=False)
class Case:
    """Records, a structured problem on them, and its non-private optimum."""

    train: Shards
    test: Shards
    problem: Structured
    optimum: float
    rate: float
    inner: int


@dataclass(frozen=True)
class Scores:
    """Objective gap and test error over the seeds."""

    gap: Measured
    error: Measured


@dataclass(frozen=True, eq=False)
class Divided:
    """A data set, divided: a public part that the graph is learned from is in neither half."""

    train: tuple[HostArray, HostArray]
    test: tuple[HostArray, HostArray]
    edges: Int[HostArray, "e 2"]


def divided(data: Data, setting: Setting) -> Divided:
    """Return the parts of a data set and the graph of its columns."""
    parts = split(load(data.name), seed=0)
    public = int(PUBLIC_SHARE * len(parts.train_targets))
    edges = learned_edges(parts.train_features[:public], weight=GRAPH_WEIGHT)
    rest = slice(public, public + setting.records)
    train = (parts.train_features[rest], parts.train_targets[rest])
    return Divided(train, (parts.test_features, parts.test_targets), edges)


def case(data: Data, parts: Divided, kind: Kind, order: Int[HostArray, "D"] | None = None) -> Case:
    """Return a case, with the columns in the given order; the graph follows the columns."""
    columns = parts.train[0].shape[1]
    order = np.arange(columns) if order is None else order
    train, test = (_packed(x[:, order], y) for x, y in (parts.train, parts.test))
    place = np.argsort(order)
    problem = _problem(data, kind, place[parts.edges], columns)
    optimum = minimise(problem.composed, train, tol=1e-3).value
    records = train.counts[0]
    return Case(train, test, problem, optimum, data.batch / records, 2 * records // data.batch)


def _problem(data: Data, kind: Kind, edges: HostArray, columns: int) -> Structured:
    if kind == "lasso":
        return lasso(Logistic(), columns, weight=LASSO_WEIGHT)
    ridge = data.ridge if kind == "ridge" else 0.0
    return fused_lasso(Logistic(), edges, columns, weight=data.weight, ridge=ridge)


def _packed(rows: HostArray, targets: HostArray) -> Shards:
    parts = [np.arange(len(targets))]
    return pack(rows, targets, parts, record_norm=1.0, precision="float32", enforce="clip")


Made = tuple[StarAlgorithm, tuple[Oracle, ...], int]
Arm = Callable[[Case, int], Made]


def _batches(subject: Case) -> tuple[Oracle, ...]:
    return (MinibatchGradient(subject.problem.loss, CLIP, subject.rate),)


def sadmm(subject: Case, epochs: int) -> Made:
    """DP-SADMM."""
    return SADMM(subject.problem), _batches(subject), epochs * subject.inner


def vradmm(smoothing: float) -> Arm:
    """Return DP-VRADMM with smoothing of that strength."""

    def made(subject: Case, epochs: int) -> Made:
        oracles, noise = variance_reduction(
            subject.problem.loss, clip=CLIP, spread=CLIP, rate=subject.rate, inner=subject.inner
        )
        algorithm = VRADMM(subject.problem, smoothing, inner=subject.inner, snapshot_noise=noise)
        return algorithm, oracles, epochs * algorithm.epoch

    return made


def renyi(subject: Case, epochs: int) -> Made:
    """Renyi-DP ADMM (the paper's DP-ADMM), for the lasso."""
    return RenyiADMM(subject.problem), _batches(subject), epochs * subject.inner


def proximal(subject: Case, epochs: int) -> Made:
    """DP proximal SGD, for the lasso."""
    plain = Problem(subject.problem.loss, L1(LASSO_WEIGHT), WholeSpace())
    return NoisyGradient(plain), _batches(subject), epochs * subject.inner


def scores(subject: Case, arm: Arm, epsilon: float, setting: Setting) -> Scores:
    """Return gap and error of an arm under a total budget; the observed ledgers are the planned."""
    made = planned(subject, arm, epsilon, setting)
    models = np.asarray(_runs(made, subject.train, setting.seeds), np.float64)
    objective = subject.problem.composed.objective
    gaps = [float(objective(jnp.asarray(m), subject.train)) - subject.optimum for m in models]
    rows = np.asarray(subject.test.stacked.features[0], np.float64)
    wrong = np.asarray(subject.test.stacked.targets[0]) != np.sign(models @ rows.T)
    return Scores(Measured.of(gaps), Measured.of(np.mean(wrong, axis=1)))


def planned(subject: Case, arm: Arm, epsilon: float, setting: Setting) -> Plan:
    """Return the plan of an arm under a total budget at delta 5e-4, replace-one."""
    algorithm, oracles, rounds = arm(subject, setting.epochs)
    bare = Problem(subject.problem.loss, NoRegulariser(), WholeSpace())
    terms = Terms(epsilon, DELTA, Adjacency(ReplaceOne(), "record"), Messages())
    facts = public_facts(bare, subject.train, clip=CLIP)
    return plan(facts, algorithm, oracles, terms, rounds=rounds, precision="float32")


def _runs(made: Plan, shards: Shards, seeds: int) -> Float[Array, "S D"]:
    program, private = made.program, behind_the_door(made, shards)

    def one(key: Key) -> tuple[Array, Array, Array, Array]:
        door = Live(program.oracles, program.mechanism, key)
        model, trace = simulate(program, door, private, keep=frozenset())
        return model, trace.records.kind, trace.records.scale, trace.records.rate

    # one after the other in one program: mapped over seeds, epochs would not share their branches
    keys = jax.random.split(jax.random.key(0), seeds)
    models, *records = jax.jit(lambda all_keys: jax.lax.map(one, all_keys))(keys)
    for seed in range(seeds):
        made.ledger.same_as(observed_ledger(made.ledger, *(np.asarray(r[seed]) for r in records)))
    return jnp.asarray(models)
