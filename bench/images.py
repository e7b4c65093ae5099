"""Gradient rounds at the size of MNIST: 10 agents x 6,000 records x 784 features x 10 classes.

Records are drawn at random, since speed does not depend on what they hold.
"""

from __future__ import annotations

import numpy as np

from bench.clock import alternating, matrix_rate, read_bandwidth
from taciturn.algorithms import LinearisedADMM
from taciturn.engine import records_for_door, reproduction, simulate, sweep
from taciturn.engine.planning import Plan, plan
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Shards, pack
from taciturn.problems import (
    Box,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    contiguous_partition,
    public_facts,
)

AGENTS, RECORDS, FEATURES, CLASSES, ROUNDS = 10, 6000, 784, 10, 10
NOTHING: frozenset[str] = frozenset()
PROBLEM = Problem(MultinomialLogistic(CLASSES), NoRegulariser(), Box(-0.1, 0.1))


def gradient_rounds() -> dict[str, float]:
    """Return seconds of a round of linearised ADMM with E = 1, against what it cannot go below.

    A round reads the records once for the margins and once for the gradient, and multiplies them
    by a matrix of 10 columns each time. The bounds come from the bandwidth and the rate of such a
    product, measured in the same process. The sweep is 4 budgets x 5 seeds as one program.
    """
    shards = _shards()
    plans = [_plan(shards, epsilon) for epsilon in (0.1, 0.5, 1.0, 5.0)]
    programs, first = [one.program for one in plans], plans[2].program
    private = records_for_door(plans[0], shards)

    def alone() -> None:
        drawn = reproduction(first, private, 0)
        simulate(first, *drawn, keep=NOTHING)[0].block_until_ready()

    def together() -> None:
        sweep(programs, private, seeds=range(5), keep=NOTHING)[0].block_until_ready()

    one, twenty = alternating([alone, together], repeats=5)
    features = shards.stacked.features
    memory = 2 * features.nbytes / read_bandwidth(features)
    flops = 4 * AGENTS * RECORDS * FEATURES * CLASSES
    products = flops / matrix_rate("float32", AGENTS * RECORDS, FEATURES, CLASSES)
    return {
        "seconds_a_round": one / ROUNDS,
        "memory_bound_seconds": memory,
        "gemm_bound_seconds": products,
        "times_the_larger_bound": one / ROUNDS / max(memory, products),
        "twenty_runs_over_one": twenty / one,
    }


def _shards() -> Shards:
    draw = np.random.default_rng(0)
    x = draw.random((AGENTS * RECORDS, FEATURES), np.float32)
    y = draw.integers(0, CLASSES, AGENTS * RECORDS)
    parts = contiguous_partition(len(y), AGENTS)
    return pack(x, y, parts, record_norm=1.0, precision="float32")


def _plan(shards: Shards, epsilon: float) -> Plan:
    clip = PROBLEM.loss.lipschitz
    return plan(
        public_facts(PROBLEM, shards, clip=clip),
        LinearisedADMM(PROBLEM),
        (Gradient(PROBLEM.loss, clip),),
        Terms(epsilon, 1e-6, Adjacency(ReplaceOne(), "record"), Messages()),
        rounds=ROUNDS,
        precision="float32",
    )
