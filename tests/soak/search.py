"""Random plans against the laws: ledger, bounds, messages, runtimes, bits, permuted agents."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tests.conftest import make_shards, make_terms

from taciturn.algorithms import DPADMM, EXTRA, NIDS, RECAL, SADMM, NoisyGradient, Walkman
from taciturn.audit import replace_record, replay, zero_record
from taciturn.engine import compute, records_for_door, reproduction, run
from taciturn.engine.planning import Plan, plan
from taciturn.engine.protocol import KEPT
from taciturn.errors import InputError
from taciturn.kernel.privacy import Messages, ReplaceOne, Sum, ZeroOut
from taciturn.kernel.questions import Gradient, MinibatchGradient, ProximalStep
from taciturn.kernel.records import Shards
from taciturn.network import complete, cyclic_walk, metropolis, path, ring, star, uniform_walk
from taciturn.problems import (
    L2,
    ElasticNet,
    HuberHinge,
    Logistic,
    NoRegulariser,
    Problem,
    Squared,
    lasso,
    public_facts,
)
from taciturn_papers.methods import GossipADMM

RHO = 0.5
GRAPHS = {"ring": ring, "path": path, "star": star, "complete": complete}
Draw = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A plan, records it fits, a neighbour of them, and the seed of the noise."""

    name: str
    plan: Plan
    shards: Shards
    neighbour: Shards
    seed: int


def question(draw: Draw, problem: Problem, relation: Any) -> Any:
    """Return the gradient of all records, of Poisson batches, or of batches of a fixed size."""
    kinds = (
        ["full", "poisson", "fixed"] if isinstance(relation, ReplaceOne) else ["full", "poisson"]
    )
    kind, rate = draw.choice(kinds), float(draw.choice([0.25, 0.5]))
    if kind == "full":
        return Gradient(problem.loss, 1.0)
    records = {"records": 8} if kind == "fixed" else {}
    return MinibatchGradient(problem.loss, 1.0, rate, **records)


def on_a_star(draw: Draw, problem: Problem, relation: Any, size: int) -> tuple[Any, Any]:
    """Return a method with an aggregator, and its question."""
    answer = question(draw, problem, relation)
    admm = DPADMM(problem, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server")
    structure = SADMM(lasso(problem.loss, size, weight=0.1, ridge=0.1), smoothing=2.0)
    return [(NoisyGradient(problem), answer), (admm, Gradient(problem.loss, 1.0)),
            (structure, answer)][draw.integers(3)]  # fmt: skip


def on_a_network(draw: Draw, problem: Problem) -> tuple[Any, Any]:
    """Return a method without one."""
    method = [NIDS, EXTRA, RECAL, Walkman, GossipADMM][draw.integers(5)]
    if method is GossipADMM:
        return GossipADMM(problem, RHO), ProximalStep(problem, 1.0, RHO, 1.0, 1e-12)
    return method(problem), Gradient(problem.loss, 1.0)


def case(seed: int) -> Case:
    """Return the case of a seed: everything in it follows from the seed."""
    draw = np.random.default_rng(seed)
    agents, records, size = (int(draw.integers(*ends)) for ends in ((3, 6), (8, 14), (2, 5)))
    shards = make_shards(agents=agents, records=records, features=size, seed=seed)
    loss = [Logistic(), Squared(), HuberHinge(0.5)][draw.integers(3)]
    regulariser = [NoRegulariser(), L2(0.1), ElasticNet(0.02, 0.05)][draw.integers(3)]
    relation = [ReplaceOne(), ZeroOut()][draw.integers(2)]
    observer = [Messages(), Sum()][draw.integers(2)]
    rounds, networked = int(draw.integers(agents, 12)), bool(draw.integers(2))
    problem = Problem(loss, L2(0.1) if networked else regulariser)
    algorithm, oracle = (
        on_a_network(draw, problem) if networked else on_a_star(draw, problem, relation, size)
    )
    network, shape = network_for(draw, algorithm, agents, rounds) if networked else (None, "star")
    epsilon = float(np.exp(draw.uniform(np.log(0.1), np.log(10))))
    made = plan(
        public_facts(problem, shards, clip=1.0), algorithm, (oracle,),
        make_terms(epsilon, observer=observer, relation=relation),
        rounds=rounds, precision="float64", network=network,
    )  # fmt: skip
    parts = (type(algorithm), type(oracle), loss, relation, observer)
    names = [part.__name__ if isinstance(part, type) else type(part).__name__ for part in parts]
    text = f"{' '.join(names)} {shape}, {agents} agents, {rounds} rounds, epsilon {epsilon:.2g}"
    return Case(text, made, shards, neighbour(draw, shards, relation), seed)


def network_for(draw: Draw, algorithm: Any, agents: int, rounds: int) -> tuple[Any, str]:
    name = str(draw.choice(sorted(GRAPHS)))
    graph = GRAPHS[name](agents)
    if not isinstance(algorithm, RECAL | Walkman):
        # lazy: every eigenvalue is then at least 0, as EXTRA's own step needs
        return metropolis(graph).lazy, f"gossip on {name}"
    for seed in itertools.count():
        walk = (
            uniform_walk(graph, rounds, seed=seed)
            if seed < 20
            else cyclic_walk(ring(agents), rounds)
        )
        if min(walk.counts) > 0:
            return walk, f"relay on {name}"
    raise AssertionError


def neighbour(draw: Draw, shards: Shards, relation: Any) -> Shards:
    """Return a data set beside the first: a record of the largest norm turned round, or none."""
    if isinstance(relation, ZeroOut):
        return zero_record(shards, 0, 0)
    row = draw.standard_normal(shards.dimension)
    row *= (1 - 1e-9) / np.linalg.norm(row)
    return replace_record(shards, 0, 0, row, float(draw.choice([-1.0, 1.0])))


def broken(one: Case) -> list[str]:
    """Return the laws that a case breaks; an exception of the library is one of them too."""
    laws: dict[str, Callable[[Case], bool]] = {
        "ledger, runtimes and bits": runs_agree,
        "bounds and messages on replay": replay_holds,
        "permuted agents": permutation_holds,
    }
    failed = []
    for law, holds in laws.items():
        try:
            failed += [] if holds(one) else [law]
        except Exception as error:  # whatever it is, its seed must be printed
            failed.append(f"{law} ({type(error).__name__}: {error})")
    return failed


def runs_agree(one: Case) -> bool:
    """Whether both runtimes agree to 1e-10, a run repeats its bits, and ledgers are as planned."""
    keep = frozenset(KEPT)
    first, again, serial = (
        run(one.plan, one.shards, runtime=kind, seed=one.seed, keep=keep)
        for kind in ("simulate", "simulate", "serial")
    )
    one.plan.ledger.same_as(first.ledger)
    return np.array_equal(first.model, again.model) and close(first.trace, serial.trace)


def close(one: Any, other: Any) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.allclose(a, b, rtol=1e-10, atol=1e-10) for a, b in pairs)


def replay_holds(one: Case) -> bool:
    """Whether no answer moves beyond its bound, and messages are functions of recorded answers."""
    program, keep = one.plan.program, frozenset({"answers", "messages"})
    pair = [records_for_door(one.plan, data) for data in (one.shards, one.neighbour)]
    door, supply = reproduction(program, pair[0], one.seed)
    raw = supply.block(0, program.rounds)
    _, trace = compute(program, door, raw, keep=keep)
    seen = replay(one.plan, program.oracles, trace, *pair, raw=raw)
    return seen.bounds_hold and seen.messages_hold


def permutation_holds(one: Case) -> bool:
    """Whether agents on a star, in another order but with their own noise, release the model."""
    program = one.plan.program
    if one.plan.network is not None:
        return True
    order = jnp.asarray(np.random.default_rng(one.seed).permutation(len(one.shards.counts)))
    private = records_for_door(one.plan, one.shards)
    door, supply = reproduction(program, private, one.seed)
    raw = supply.block(0, program.rounds)
    moved = dataclasses.replace(door, private=jax.tree.map(lambda leaf: leaf[order], private))
    theirs = jax.tree.map(lambda leaf: leaf[:, order], raw)
    model, _ = compute(program, door, raw, keep=frozenset())
    other, _ = compute(program, moved, theirs, keep=frozenset())
    return bool(np.allclose(model, other, rtol=1e-10, atol=1e-10))


def search(seeds: Iterator[int], *, seconds: float, most: int | None = None) -> list[int]:
    """Try cases until the time or their number is spent; print each, return the seeds that fail."""
    failures, began = [], time.monotonic()
    for seed in itertools.islice(seeds, most):
        if time.monotonic() - began > seconds:
            break
        try:
            one = case(seed)
        except InputError as error:  # a combination that no plan is made for breaks no law
            print(f"seed {seed}: refused: {error}", flush=True)
            continue
        failed = broken(one)
        print(f"seed {seed}: {one.name}: {'; '.join(failed) or 'all laws hold'}", flush=True)
        if failed:
            print(f"  again: make soak SOAK_SEED={seed}", flush=True)
            failures.append(seed)
        jax.clear_caches()
    return failures
