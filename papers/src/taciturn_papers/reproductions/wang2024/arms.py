"""The tasks of the paper, the sound methods on a ring, and what a run of each reaches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn.algorithms import (
    EXTRA,
    NIDS,
    RECAL,
    Algorithm,
    LinearisedGossipADMM,
    Noise,
    NoisyGradient,
    Walkman,
)
from taciturn.calibration import mu_of
from taciturn.datasets import Dataset, split
from taciturn.engine import Network, Plan, plan, run
from taciturn.kernel.privacy import epsilon_of
from taciturn.kernel.questions import Gradient, Point
from taciturn.kernel.records import Shard, Shards, random_partition
from taciturn.network import metropolis, spanning_tree
from taciturn.problems import (
    ElasticNet,
    Logistic,
    Problem,
    Squared,
    WholeSpace,
    minimise,
    public_facts,
)
from taciturn.typing import Array, HostArray
from taciturn_papers.methods import RWADMM, calibrated, decor
from taciturn_papers.reproductions.arms import packed, packed_test
from taciturn_papers.reproductions.data import dataset_named
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.portions import Arrays
from taciturn_papers.reproductions.wang2024.settings import Scale


@dataclass(frozen=True, eq=False)
class Task:
    """One data set with one loss.

    Attributes
    ----------
    loss
        "linear" or "logistic".
    problem, published
        With weights whose optimum is not 0, and with the paper's.
    clip
        Bound on a record's coefficient: reached by no record at the optimum.
    shards, whole
        The training records among the agents, and with one trusted holder.
    optimum, value
        Of `problem`, not private, and its objective there; NaN until they are known.
    published_optimum
        Of `published`.
    slope
        |grad f(0)|_inf: the optimum of `published` is 0 iff it is at most its l1 weight.
    """

    name: str
    loss: str
    problem: Problem
    published: Problem
    clip: float
    shards: Shards
    whole: Shards
    test: Shard
    optimum: Float[HostArray, " D"]
    value: float
    published_optimum: Float[HostArray, " D"]
    slope: float

    @property
    def oracle(self) -> Gradient:
        """The question of all methods that follow gradients."""
        return Gradient(self.problem.loss, self.clip)


def task(name: str, loss: str, scale: Scale, best: Arrays | None = None) -> Task:
    """Return a task; records, split and dealing out are the same every time.

    Parameters
    ----------
    best
        Its optimum, as `solved` returns it; None if it is not known yet.
    """
    dataset = two_classes(name)
    parts = split(dataset, seed=0)
    rows = min(scale.records, len(parts.train_targets)) // scale.agents * scale.agents
    features, targets = parts.train_features[:rows], parts.train_targets[:rows]
    shards = packed(features, targets, list(random_partition(rows, scale.agents, seed=0)))
    whole = packed(features, targets, [np.arange(rows)])
    test = packed_test(parts.test_features, parts.test_targets)
    kind = Squared() if loss == "linear" else Logistic()
    problem, published = (
        Problem(kind, ElasticNet(l1, l2), WholeSpace())
        for l1, l2 in ((scale.l1, scale.l2), (scale.paper_l1, scale.paper_l2))
    )
    zero = jnp.zeros(dataset.features.shape[1], jnp.float32)
    slope = float(jnp.max(jnp.abs(problem.gradient(zero, shards))))
    clip = 2.0 if loss == "linear" else 1.0
    if best is None:
        nothing = np.full(len(zero), np.nan)
        best = {"optimum": nothing, "value": np.array(np.nan), "published": nothing}
    return Task(
        name, loss, problem, published, clip, shards, whole, test, best["optimum"],
        float(best["value"]), best["published"], slope,
    )  # fmt: skip


def solved(unsolved: Task, scale: Scale) -> dict[str, HostArray]:
    """Return the optimum of a task, its objective there, and that with the paper's weights."""
    best = minimise(unsolved.problem, unsolved.shards, tol=scale.optimum_tol)
    theirs = np.zeros_like(best.w)  # exactly, if the threshold is above every slope at 0
    if unsolved.slope > scale.paper_l1:
        theirs = np.asarray(minimise(unsolved.published, unsolved.shards, tol=scale.optimum_tol).w)
    return {"optimum": np.asarray(best.w), "value": np.array(best.value), "published": theirs}


@lru_cache(maxsize=1)
def two_classes(name: str) -> Dataset:
    """Return the data set with targets -1 and 1; of ten classes the first two."""
    found = dataset_named(name)
    if found.task == "binary":
        return found
    cut, pair = found.train_rows, (0, 1)
    kept = np.isin(found.targets, pair)
    return Dataset(
        name=found.name, title=found.title, features=found.features[kept],
        targets=np.where(found.targets[kept] == pair[0], -1.0, 1.0), task="binary", classes=2,
        feature_names=found.feature_names, train_rows=int(np.sum(kept[:cut])),
        fixed_test=found.fixed_test,
        public=True, licence=found.licence, source=found.source, record_norm=found.record_norm,
        conditions=found.conditions,
    )  # fmt: skip


@jax.jit
def errors(test: Shard, models: Float[Array, "B D"]) -> Float[Array, " B"]:
    """Return the share of wrong signs on the test records, in per cent; 0 counts as positive."""
    wrong = (test.features @ models.T >= 0) != (test.targets[:, None] > 0)
    share: Array = 100 * jnp.mean(wrong, axis=0)
    return share


def error_of(found: Task, model: Float[HostArray, " D"]) -> float:
    """Return `errors` of one model."""
    return float(errors(found.test, jnp.asarray(model, jnp.float32)[None])[0])


def above(found: Task, problem: Problem, model: Float[HostArray, " D"]) -> float:
    """Return F(x) - F(x*), x* the optimum of `Task.problem`; meant for that problem."""
    reached = problem.objective(jnp.asarray(model, jnp.float32), found.shards)
    return float(reached) - found.value


def distances(found: Task, models: Float[HostArray, "B D"]) -> Float[HostArray, " B"]:
    """Return the relative errors |x - x*| / |x*| to the optimum of `Task.problem`."""
    apart: HostArray = np.linalg.norm(models - found.optimum, axis=-1)
    relative: HostArray = apart / np.linalg.norm(found.optimum)
    return relative


RECAL_HOP = 3  # vectors: x, u and the average of the models
CENTRAL = "noisy gradient, one trusted holder"
TREE, DECOR = "noisy gradient, tree", "DECOR (pairs share noise)"
TREE_MASKED = f"{TREE}, masks"
COLLUDERS = 1  # agents who tell what they know, where noise is counted on that others add
ALGORITHMS: Mapping[str, Callable[[Problem], Algorithm]] = MappingProxyType(
    {
        "RECAL": RECAL,
        "Walkman": Walkman,
        "RWADMM (reconstructed)": RWADMM,
        "NIDS": NIDS,
        "PG-EXTRA": EXTRA,
        "gossip ADMM (IC-ADMM)": LinearisedGossipADMM,
        DECOR: NoisyGradient,
        TREE: NoisyGradient,
        TREE_MASKED: NoisyGradient,
        CENTRAL: NoisyGradient,
    }
)
METHODS = tuple(ALGORITHMS)


@dataclass(frozen=True)
class RingArm:
    """A sound method on a network.

    Attributes
    ----------
    messages, vectors
        Sent in one round, all agents together: messages, and vectors as long as the model.
    network
        From the number of rounds and a seed.
    central
        Whether one holder has all records, and sends nothing.
    observer
        Who is watching.
    """

    algorithm: Callable[[Problem], Algorithm]
    messages: int
    vectors: int
    network: Callable[[int, int], Network]
    central: bool = False
    observer: str = "messages"

    def rounds(self, scale: Scale) -> int:
        """Return how many rounds send as many numbers as RECAL's hops."""
        return RECAL_HOP * scale.hops // self.vectors

    def plan(
        self, task: Task, problem: Problem, budget: Budget, scale: Scale, *, seed: int
    ) -> Plan:
        """Return the plan of one run; the seed is that of the walk, which is public."""
        rounds = self.rounds(scale)
        return plan(
            public_facts(problem, task.whole if self.central else task.shards, clip=task.clip),
            self.algorithm(problem),
            (task.oracle,),
            replace(budget, observer=self.observer).terms,
            rounds=rounds,
            precision="float32",
            network=self.network(rounds, seed),
        )

    def done(self, task: Task, problem: Problem, budget: Budget, scale: Scale, seed: int) -> Done:
        """Return one run; walk and noise are drawn from the seed."""
        made = self.plan(task, problem, budget, scale, seed=seed)
        shards = task.whole if self.central else task.shards
        one = run(made, shards, runtime="simulate", seed=seed, keep=frozenset({"models"}))
        spent = tuple(made.certificate.per_agent_epsilon or ())
        models = np.asarray(one.trace.models)
        return Done(models, one.model, most_asked(made), spent, one.seconds)


class Done(NamedTuple):
    """One run: models after every round, the last one, how often the busiest agent was asked."""

    models: Float[HostArray, "T D"]
    model: Float[HostArray, " D"]
    plf: int
    per_agent: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class DecorArm(RingArm):
    """DECOR, with step size and tail average of `NoisyGradient` at its noise of the mean."""

    @override
    def done(self, task: Task, problem: Problem, budget: Budget, scale: Scale, seed: int) -> Done:
        began, rounds = time.perf_counter(), self.rounds(scale)
        spec = public_facts(problem, task.shards, clip=task.clip)
        bound = task.oracle.bound(spec, budget.terms.adjacency, norm="l2").value[:, 0, 0]
        mixing, mu = metropolis(scale.graph), float(mu_of(budget.total, budget.delta))
        noise = calibrated(mixing, bound, mu, rounds, colluders=COLLUDERS)
        of_mean = Noise(noise.local / float(np.max(bound)), np.full(scale.agents, noise.local))
        settings = NoisyGradient(problem).schedule(spec, rounds, of_mean)
        models = decor(
            partial(_gradients, task), partial(_proxes, problem), mixing, noise,
            step=float(settings["step_size"][0]), rounds=rounds,
            start=np.zeros(task.shards.dimension), seed=seed,
        )  # fmt: skip
        for turn, weight in enumerate(settings["averaging"]):
            models[turn] = models[turn - 1] + weight * (models[turn] - models[turn - 1])
        spent = epsilon_of(budget.delta, noise.mu(bound, rounds, colluders=COLLUDERS))
        seconds = time.perf_counter() - began
        return Done(models, models[-1], rounds, tuple(np.asarray(spent).tolist()), seconds)


def _gradients(task: Task, models: Float[HostArray, "A D"]) -> Float[HostArray, "A D"]:
    return np.asarray(_exact(task.oracle, task.shards, jnp.asarray(models, jnp.float32)))


@jax.jit
def _exact(oracle: Gradient, shards: Shards, models: Array) -> Array:
    answers: Array = jax.vmap(lambda one, count, x: oracle.exact(one, count, Point(x)))(
        shards.stacked, jnp.asarray(shards.counts, jnp.float32), models
    )
    return answers


def _proxes(problem: Problem, v: Float[HostArray, "A D"], step: float) -> Float[HostArray, "A D"]:
    return np.asarray(problem.prox(jnp.asarray(v), step))


def _aggregator(rounds: int, seed: int) -> Network:
    del rounds, seed
    return None


def arm_named(name: str, scale: Scale) -> RingArm:
    """Return a sound method on the network of a scale."""
    graph, algorithm = scale.graph, ALGORITHMS[name]
    both_ways, up_and_down = 2 * len(graph.edges), 2 * (graph.agents - 1)
    around = round(2 * both_ways / graph.agents)  # RWADMM: to all neighbours and back
    if name in {"RECAL", "Walkman"}:
        return RingArm(algorithm, 1, RECAL_HOP, scale.walk_of)
    if name == "RWADMM (reconstructed)":
        return RingArm(algorithm, around, 2 * around, scale.walk_of)
    if name == CENTRAL:
        return RingArm(algorithm, 0, both_ways, _aggregator, central=True)
    if name in {TREE, TREE_MASKED}:
        observer = "messages" if name == TREE else "sum"
        tree = partial(_fixed, spanning_tree(graph))
        return RingArm(algorithm, up_and_down, up_and_down, tree, observer=observer)
    gossip = partial(_fixed, metropolis(graph))
    if name == DECOR:
        return DecorArm(algorithm, both_ways, both_ways, gossip)
    vectors = both_ways if algorithm is LinearisedGossipADMM else 2 * both_ways
    return RingArm(algorithm, both_ways, vectors, gossip)


def _fixed(network: Network, rounds: int, seed: int) -> Network:
    del rounds, seed
    return network


POINTS = 24


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was measured of one arm on one task, over R repetitions.

    Attributes
    ----------
    sent
        `(K,)`: thousands of vectors sent at the K looks; of a central run as if it were a star.
    relative, wrong
        `(R, K)`: relative error, and test error in per cent.
    gaps
        `(R,)`: how far the objective of the last model is above the optimum.
    plf
        How often the agent asked most was asked, by repetition.
    seconds
        Of the last run, compilation included if there was only one.
    per_agent
        Exact epsilon of each agent in the first repetition.
    """

    sent: Float[HostArray, " K"]
    relative: Float[HostArray, "R K"]
    wrong: Float[HostArray, "R K"]
    gaps: Float[HostArray, " R"]
    plf: tuple[int, ...]
    messages: int
    seconds: float
    per_agent: tuple[float, ...]

    def last(self, what: str) -> Measured:
        """Return the mean and spread of "relative" or "wrong" at the end."""
        values = {"relative": self.relative, "wrong": self.wrong}[what]
        return Measured.of(values[:, -1])

    def course(self, what: str) -> tuple[Measured, ...]:
        """Return them at every look."""
        values = {"relative": self.relative, "wrong": self.wrong}[what]
        return Measured.columns(values)


def outcome(task: Task, name: str, budget: Budget, scale: Scale) -> Outcome:
    """Return what an arm achieves; repetition r draws its walk and its noise from seed r."""
    arm = arm_named(name, scale)
    rounds = arm.rounds(scale)
    looks = np.unique(np.linspace(0, rounds - 1, min(POINTS, rounds)).astype(int))
    relative, wrong, gaps, plf = [], [], [], []
    seconds = 0.0
    per_agent: tuple[float, ...] = ()
    for seed in range(scale.repetitions):
        done = arm.done(task, task.problem, budget, scale, seed)
        models = done.models[looks]
        relative.append(distances(task, models))
        wrong.append(np.asarray(errors(task.test, jnp.asarray(models))))
        gaps.append(above(task, task.problem, done.model))
        plf.append(done.plf)
        seconds = done.seconds
        per_agent = per_agent or done.per_agent
    return Outcome(
        sent=(looks + 1) * arm.vectors / 1000,
        relative=np.array(relative),
        wrong=np.array(wrong),
        gaps=np.array(gaps),
        plf=tuple(plf),
        messages=rounds * arm.messages,
        seconds=seconds,
        per_agent=per_agent,
    )


def most_asked(made: Plan) -> int:
    """Return the number of answers of the agent who gives most."""
    return int(np.max(np.sum(made.ledger.asked, axis=(1, 2))))
