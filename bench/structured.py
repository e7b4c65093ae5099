"""Speed of DP-SADMM on w8a: m = 2 n / b steps of the fused lasso on a graph, in float32.

The NumPy loop takes the same steps: it draws a binomial size and then different rows, gathers them,
adds noise, and multiplies by the operator as a SciPy matrix, once forwards and once back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from bench.clock import alternating, median_seconds, read_bandwidth
from taciturn.algorithms import SADMM
from taciturn.datasets import load, split
from taciturn.engine import records_for_door, reproduction, simulate, sweep
from taciturn.engine.planning import Plan, plan
from taciturn.kernel.door import Private
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import MinibatchGradient
from taciturn.kernel.records import Shards, pack
from taciturn.problems import (
    Logistic,
    NoRegulariser,
    Problem,
    Structured,
    WholeSpace,
    fused_lasso,
    public_facts,
)

CLIP, WEIGHT, DELTA, BATCH = 0.5, 1e-4, 5e-4, 20
BUDGETS, SEEDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0), 10
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Case:
    """A planned run with its data behind the door."""

    plan: Plan
    shards: Shards
    private: Private
    structure: Structured

    def run(self) -> None:
        """Carry it out, and wait."""
        program = self.plan.program
        drawn = reproduction(program, self.private, 0)
        simulate(program, *drawn, keep=NOTHING)[0].block_until_ready()


def sadmm_epoch() -> dict[str, float]:
    """Return a run against the NumPy loop, a sweep of 10 seeds x 6 budgets, and the memory bound.

    The memory bound reads each step's rows once and takes the noise and the edges for nothing.
    """
    shards = packed()
    case = made(shards)
    steps = case.plan.rounds
    mine, theirs = alternating([case.run, lambda: numpy_loop(case)], repeats=5)
    features = shards.stacked.features
    bound = steps * BATCH * features.nbytes / shards.counts[0] / read_bandwidth(features)
    one, sixty = alternating([case.run, all_budgets(shards)], repeats=3)
    return {
        "steps": steps,
        "microseconds_per_step": 1e6 * mine / steps,
        "numpy_microseconds_per_step": 1e6 * theirs / steps,
        "times_faster_than_numpy": theirs / mine,
        "times_the_memory_bound": mine / bound,
        "microseconds_to_gather_its_rows": 1e6 * gathering(features[0]),
        "sixty_runs_over_one": sixty / one,
        "sixty_runs_times_faster_than_numpy": 60 * (theirs / mine) * one / sixty,
    }


def gathering(features: jax.Array, *, steps: int = 100) -> float:
    """Return the seconds that the random rows of one step take, gathered for many steps at once."""
    rows = np.random.default_rng(0).integers(0, len(features), steps * BATCH)
    gather = jax.jit(lambda x, places: x.at[places].get(mode="promise_in_bounds"))
    return median_seconds(lambda: gather(features, rows).block_until_ready(), repeats=25) / steps


def sadmm_scaling() -> dict[str, float]:
    """Return the time of a step relative to batches of 20 and 300 columns."""
    cases = {"batch 20, 300 columns": made(packed(), steps=500)}
    for batch in (10, 40, 80, 160):
        cases[f"batch {batch}, 300 columns"] = made(packed(), batch=batch, steps=500)
    for columns in (75, 150):
        cases[f"batch 20, {columns} columns"] = made(packed(columns), steps=500)
    seconds = alternating([case.run for case in cases.values()], repeats=5)
    return {name: taken / seconds[0] for name, taken in zip(cases, seconds, strict=True)}


def packed(columns: int = 300) -> Shards:
    """Return the training part of w8a, its first columns, as one agent's."""
    parts = split(load("w8a"), seed=0)
    features, targets = parts.train_features[:, :columns], parts.train_targets
    everyone = [np.arange(len(targets))]
    return pack(features, targets, everyone, record_norm=1.0, precision="float32")


def made(
    shards: Shards, *, batch: int = BATCH, steps: int | None = None, epsilon: float = 1.0
) -> Case:
    """Return the plan of m = 2 n / b steps, or as many as asked for, on a random graph."""
    size, records = shards.dimension, shards.counts[0]
    pairs = np.random.default_rng(0).integers(0, size, (3 * size, 2))
    edges = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    structure = fused_lasso(Logistic(), edges, size, weight=WEIGHT)
    bare = Problem(Logistic(), NoRegulariser(), WholeSpace())
    planned = plan(
        public_facts(bare, shards, clip=CLIP),
        SADMM(structure),
        (MinibatchGradient(bare.loss, CLIP, batch / records),),
        Terms(epsilon, DELTA, Adjacency(ReplaceOne(), "record"), Messages()),
        rounds=steps or round(2 * records / batch),
        precision="float32",
    )
    return Case(planned, shards, records_for_door(planned, shards), structure)


def all_budgets(shards: Shards) -> Callable[[], None]:
    """Return the sweep over seeds and budgets, as one program."""
    cases = [made(shards, epsilon=epsilon) for epsilon in BUDGETS]
    first, programs = cases[0], [case.plan.program for case in cases]

    def all_of_them() -> None:
        sweep(programs, first.private, seeds=range(SEEDS), keep=NOTHING)[0].block_until_ready()

    return all_of_them


def numpy_loop(case: Case) -> np.ndarray:
    """Return the average of the same run by a plain NumPy loop."""
    stacked, records = case.shards.stacked, case.shards.counts[0]
    x, y = np.asarray(stacked.features[0]), np.asarray(stacked.targets[0])
    step, rho, weight = (
        np.asarray(case.plan.program.shared[name]) for name in ("step_size", "rho", "averaging")
    )
    scale = np.asarray(case.plan.program.scales)[:, 0, 0]
    forward = case.structure.forward.sparse().astype(np.float32)
    back = forward.T.tocsr()
    draw, kind = np.random.default_rng(0), np.float32
    w = mean = np.zeros(x.shape[1], kind)
    image = dual = np.zeros(forward.shape[0], kind)
    for t in range(len(scale)):
        rows = draw.choice(
            records, draw.binomial(records, BATCH / records), replace=False, shuffle=False
        )
        features, targets = x[rows], y[rows]
        coefficient = -targets * np.minimum(1 / (1 + np.exp(targets * (features @ w))), kind(CLIP))
        noise = scale[t] * draw.standard_normal(len(w), dtype=kind)
        pull = image + dual
        split_off = np.clip(pull, -kind(WEIGHT) / rho[t], kind(WEIGHT) / rho[t])
        slope = coefficient @ features / kind(BATCH) + noise + rho[t] * (back @ split_off)
        w = w - step[t] * slope
        image = forward @ w
        dual = image - pull + split_off + dual
        mean = mean + weight[t] * (w - mean)
    return mean
