"""Evidence for the public settings, on synthetic problems and never on a target data set.

The rule under test: clip the coefficient at its value at w = 0 (half of the Lipschitz constant for
the logistic loss), and let radius = sqrt(d) / R set the horizon. Each row moves one of the two.
"""

from __future__ import annotations

import math

import numpy as np

from taciturn.algorithms import NoisyGradient
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.kernel.privacy import Adjacency, Messages, Observer, ReplaceOne, Sum, Terms
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Shards, pack
from taciturn.problems import L2, Logistic, Problem, WholeSpace, contiguous_partition, public_facts

PROBLEM = Problem(Logistic(), L2(1e-6), WholeSpace())
CASES = ((20, 1.0, 0.0), (50, 4.0, 1.5), (200, 4.0, 1.5))
SETTINGS = ((1.0, 1.0), (0.5, 0.5), (0.5, 1.0), (0.5, 2.0), (0.25, 1.0))


def synthetic_errors(repeats: int = 3) -> dict[str, dict[str, float]]:
    """Return the mean test error over the cases for every (clip, radius factor), by observer."""
    table = {}
    for clip, factor in SETTINGS:
        row: dict[str, float] = {}
        for observer, epsilon in ((Messages(), 0.75), (Sum(), 1.0)):
            errors = [
                _error(case, seed, clip, factor, observer, epsilon)
                for case in CASES
                for seed in range(repeats)
            ]
            row[observer.name] = float(np.mean(errors))
        table[f"clip {clip:g}, radius {factor:g} sqrt(d)/R"] = row
    return table


def _error(
    case: tuple[int, float, float],
    seed: int,
    clip: float,
    factor: float,
    observer: Observer,
    epsilon: float,
) -> float:
    shards, x, y = _data(*case, seed=seed)
    algorithm = NoisyGradient(PROBLEM, radius=factor * math.sqrt(case[0]))
    made = plan(
        public_facts(PROBLEM, shards, clip=clip),
        algorithm,
        (Gradient(PROBLEM.loss, clip),),
        Terms(epsilon, 1e-5, Adjacency(ReplaceOne(), "record"), observer),
        rounds=200,
        precision="float32",
    )
    model = run(made, shards, runtime="simulate").model
    return float(np.mean(np.sign(x @ model) != y))


def _data(
    features: int, margin: float, decay: float, *, seed: int
) -> tuple[Shards, np.ndarray, np.ndarray]:
    """Return 100 agents of 160 records and a test set: Gaussian rows with decaying columns."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((20_000, features)) * np.logspace(0, -decay, features)
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    w = draw.standard_normal(features)
    z = x @ w
    z *= margin / np.std(z)
    y = np.where(draw.random(len(z)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    parts = contiguous_partition(16_000, 100)
    shards = pack(x[:16_000], y[:16_000], parts, record_norm=1.0, precision="float32")
    return shards, x[16_000:], y[16_000:]
