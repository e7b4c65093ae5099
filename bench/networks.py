"""Speed without a server: a hop against its gradient, and gossip against reading the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.clock import alternating, read_bandwidth
from taciturn.algorithms import NIDS, RECAL, Algorithm
from taciturn.datasets import load, split
from taciturn.engine import Network, records_for_door, reproduction, simulate
from taciturn.engine.planning import plan
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Shards, pack
from taciturn.network import metropolis, random_regular, ring, uniform_walk
from taciturn.problems import L2, Logistic, Problem, WholeSpace, contiguous_partition, public_facts

AGENTS, HOPS, IMAGE_HOPS = 8, 2400, 400
PROBLEM = Problem(Logistic(), L2(1e-3), WholeSpace())


def relay(name: str) -> dict[str, float]:
    """Return the figures of RECAL on a ring of eight agents, in float32.

    Held against the same gradients by NumPy, and nothing but the gradients: no noise, no token.
    """
    shards = _ijcnn1() if name == "ijcnn1" else _synthetic(AGENTS, 1_500, 784)
    hops = HOPS if name == "ijcnn1" else IMAGE_HOPS
    walk = uniform_walk(ring(AGENTS), hops, seed=0)
    run = _runner(RECAL(PROBLEM), shards, walk, hops)
    holders = walk.holders.tolist()
    mine, theirs = alternating([run, lambda: _gradients(shards, holders)], repeats=5)
    return {
        "seconds": mine,
        "numpy_gradients_seconds": theirs,
        "hop_over_numpy_gradient": mine / theirs,
        "microseconds_a_hop": 1e6 * mine / hops,
    }


def gossip(agents: int = 1_000, rounds: int = 50) -> dict[str, float]:
    """Return the figures of NIDS on a random 4-regular graph, 50 records and 100 columns an agent.

    The bound is reading the data twice a round, for margins and for the gradient.
    """
    shards = _synthetic(agents, 50, 100)
    network = metropolis(random_regular(agents, 4, seed=0))
    run = _runner(NIDS(PROBLEM), shards, network, rounds)
    (mine,) = alternating([run], repeats=5)
    features = shards.stacked.features
    bound = 2 * rounds * features.nbytes / read_bandwidth(features)
    return {
        "seconds": mine,
        "seconds_of_two_reads_a_round": bound,
        "times_the_memory_bound": mine / bound,
    }


def _runner(
    algorithm: Algorithm, shards: Shards, network: Network, rounds: int
) -> Callable[[], object]:
    made = plan(
        public_facts(PROBLEM, shards, clip=0.5), algorithm, (Gradient(PROBLEM.loss, 0.5),),
        Terms(1.0, 1e-5, Adjacency(ReplaceOne(), "record"), Messages()),
        rounds=rounds, precision="float32", network=network,
    )  # fmt: skip
    private = records_for_door(made, shards)

    def run() -> None:
        drawn = reproduction(made.program, private, 0)
        model, _ = simulate(made.program, *drawn, keep=frozenset())
        model.block_until_ready()

    return run


def _gradients(shards: Shards, holders: list[int]) -> np.ndarray:
    """Compute the gradient of each holder's records by NumPy, at models that keep changing."""
    x, y = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    w = np.zeros(x.shape[2], x.dtype)
    for holder in holders:
        rows, signs_here = x[holder], y[holder]
        slope = np.minimum(1 / (1 + np.exp(signs_here * (rows @ w))), x.dtype.type(0.5))
        w = w + ((signs_here * slope) @ rows) / x.dtype.type(len(signs_here))
    return w


def _ijcnn1() -> Shards:
    parts = split(load("ijcnn1"), seed=0)
    rows = len(parts.train_targets) // AGENTS * AGENTS
    return pack(
        parts.train_features[:rows], parts.train_targets[:rows],
        contiguous_partition(rows, AGENTS), record_norm=1.0, precision="float32",
    )  # fmt: skip


def _synthetic(agents: int, records: int, columns: int) -> Shards:
    draw = np.random.default_rng(0)
    rows = agents * records
    x = draw.standard_normal((rows, columns))
    y = np.sign(draw.standard_normal(rows))
    return pack(
        x, y, contiguous_partition(rows, agents), record_norm=1.0, precision="float32",

    )  # fmt: skip
