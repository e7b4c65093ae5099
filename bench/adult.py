"""The Adult problem of the benchmarks: a hundred agents of 400 records, 104 features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taciturn.algorithms import DPADMM
from taciturn.datasets import load, split
from taciturn.engine import records_for_door
from taciturn.engine.planning import Plan
from taciturn.kernel.door import Private
from taciturn.kernel.records import Shards, pack
from taciturn.problems import L2, Logistic, Problem, WholeSpace, contiguous_partition
from taciturn.training import DataFacts, Request, propose
from taciturn.typing import Precision

AGENTS, ROUNDS, CLIP = 100, 100, 0.5
PROBLEM = Problem(Logistic(), L2(1e-6), WholeSpace())


@dataclass(frozen=True)
class Bench:
    """A planned run with its data behind the door."""

    plan: Plan
    shards: Shards
    private: Private


def adult(name: str, precision: Precision, *, epsilon: float = 1.0) -> Bench:
    """Return the bench of an algorithm in a precision."""
    parts = split(load("adult", interval="unit"), seed=0)
    shards = pack(
        parts.train_features,
        parts.train_targets,
        contiguous_partition(len(parts.train_targets), AGENTS),
        record_norm=1.0,
        precision=precision,
    )
    return bench_of(name, shards, precision, epsilon=epsilon)


def bench_of(name: str, shards: Shards, precision: Precision, *, epsilon: float) -> Bench:
    """Return the bench of an algorithm on packed shards."""
    facts = DataFacts(
        name="bench",
        task="binary",
        classes=2,
        columns=shards.dimension,
        record_norm=shards.record_norm,
        table=None,
    )
    request = Request(
        epsilon=epsilon, delta=1e-5, algorithm=name, clip=CLIP, rounds=ROUNDS, precision=precision
    )
    made = propose(facts, shards.counts, request).plan()
    return Bench(made, shards, records_for_door(made, shards))


def numpy_loop(bench: Bench) -> np.ndarray:
    """Return the same run by a plain NumPy loop over agents, in the same precision."""
    stacked, program = bench.shards.stacked, bench.plan.program
    x, y = np.asarray(stacked.features), np.asarray(stacked.targets)
    scale = np.asarray(program.scales)[:, 0, :]
    draw = np.random.default_rng(0)
    if isinstance(program.algorithm, DPADMM):
        return _loop_admm(x, y, scale, np.asarray(program.per_agent["step_size"]), draw)
    shared = {name: np.asarray(values) for name, values in program.shared.items()}
    return _loop_gradient(x, y, scale, shared, draw)


def _answer(
    x: np.ndarray, y: np.ndarray, w: np.ndarray, scale: np.floating, draw: np.random.Generator
) -> np.ndarray:
    coefficient = np.minimum(1 / (1 + np.exp(y * (x @ w))), x.dtype.type(CLIP))
    noise = scale * draw.standard_normal(x.shape[1], dtype=x.dtype.type)
    answer: np.ndarray = -((y * coefficient) @ x) / x.dtype.type(len(y)) + noise
    return answer


def _loop_gradient(
    x: np.ndarray,
    y: np.ndarray,
    scale: np.ndarray,
    schedule: dict[str, np.ndarray],
    draw: np.random.Generator,
) -> np.ndarray:
    w = query = average = np.zeros(x.shape[2], x.dtype)
    for t in range(len(scale)):
        total = np.zeros_like(w)
        for i in range(len(x)):
            total = total + _answer(x[i], y[i], query, scale[t, i], draw)
        step = schedule["step_size"][t]
        new = (query - step * total / len(x)) / (1 + step * x.dtype.type(1e-6))
        query = new + schedule["momentum"][t] * (new - w)
        w, average = new, average + schedule["averaging"][t] * (new - average)
    return average


def _loop_admm(
    x: np.ndarray, y: np.ndarray, scale: np.ndarray, step: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    agents, d = x.shape[0], x.shape[2]
    kind = x.dtype.type
    w, iterate, dual = np.zeros(d, kind), np.zeros((agents, d), kind), np.zeros((agents, d), kind)
    rho, weight = kind(0.1), kind(1e-6)
    for t in range(len(scale)):
        for i in range(agents):
            dual[i] = dual[i] - rho * (iterate[i] - w)
            inverse = 1 / step[t, i]
            slope = _answer(x[i], y[i], iterate[i], scale[t, i], draw)
            iterate[i] = (inverse * iterate[i] + rho * w + dual[i] - slope) / (rho + inverse)
        w = (iterate.mean(0) - dual.mean(0) / rho) / (1 + weight / rho)
    return w
