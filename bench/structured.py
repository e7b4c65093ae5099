"""Structured learning at equal totals: objective gap and test error of five methods, ten seeds.

    python -m bench.structured [DATA ...]

Settings of Liu et al. 2022, Table II, where the data are at hand: lasso, delta 5e-4, batches b as
there (on average: Poisson), m = 2 n / b, three epochs for every method. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

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
    lasso,
    minimise,
    pack,
    public_facts,
)
from tacit.runtime import behind_the_door, simulate
from tacit.typing import Array, Key

BUDGETS, DELTA, CLIP, SEEDS, EPOCHS = (0.05, 0.2, 1.0), 5e-4, 0.5, 10, 3
SETTINGS = {"w8a": (20, 1e-4), "mushrooms": (10, 1e-5)}
Maker = Callable[[Structured, float, int], tuple[StarAlgorithm, tuple[Oracle, ...], int]]


@dataclass(frozen=True)
class Case:
    """A data set, divided, with its structured problem and non-private optimum."""

    train: Shards
    test: Shards
    problem: Structured
    optimum: float
    rate: float
    inner: int


def case(name: str) -> Case:
    data = load(name)
    batch, weight = SETTINGS[name]
    parts = split(data, seed=0)
    train, test = (
        pack(x, y, [np.arange(len(y))], record_norm=1.0, precision="float32", enforce="clip")
        for x, y in (parts[:2], parts[2:])
    )
    problem = lasso(Logistic(), train.dimension, weight=weight)
    records = train.counts[0]
    optimum = minimise(problem.composed, train, tol=1e-4).value
    return Case(train, test, problem, optimum, batch / records, 2 * records // batch)


def _batches(problem: Structured, rate: float) -> tuple[Oracle, ...]:
    return (MinibatchGradient(problem.loss, CLIP, rate),)


def _sadmm(smoothing: float) -> Maker:
    def make(
        problem: Structured, rate: float, inner: int
    ) -> tuple[StarAlgorithm, tuple[Oracle, ...], int]:
        return SADMM(problem, smoothing), _batches(problem, rate), EPOCHS * inner

    return make


def _vradmm(spread: float) -> Maker:
    def make(
        problem: Structured, rate: float, inner: int
    ) -> tuple[StarAlgorithm, tuple[Oracle, ...], int]:
        oracles, noise = variance_reduction(
            problem.loss, clip=CLIP, spread=spread, rate=rate, inner=inner
        )
        algorithm = VRADMM(problem, inner=inner, snapshot_noise=noise)
        return algorithm, oracles, EPOCHS * algorithm.epoch

    return make


def _renyi(
    problem: Structured, rate: float, inner: int
) -> tuple[StarAlgorithm, tuple[Oracle, ...], int]:
    return RenyiADMM(problem), _batches(problem, rate), EPOCHS * inner


def _proximal(
    problem: Structured, rate: float, inner: int
) -> tuple[StarAlgorithm, tuple[Oracle, ...], int]:
    weight = problem.composed.regulariser.value(jnp.zeros(problem.forward.columns).at[0].set(1.0))
    plain = Problem(problem.loss, L1(float(weight)), WholeSpace())
    return NoisyGradient(plain), _batches(problem, rate), EPOCHS * inner


METHODS: dict[str, Maker] = {
    "DP-SADMM": _sadmm(0.0),
    "DP-SADMM, smoothing 2": _sadmm(2.0),
    "DP-VRADMM": _vradmm(CLIP),
    "DP-VRADMM, differences clipped at 0.1": _vradmm(0.1),
    "Renyi-DP ADMM": _renyi,
    "DP proximal SGD": _proximal,
}


def measured(subject: Case, maker: Maker, epsilon: float) -> dict[str, float]:
    """Return mean and standard deviation of objective gap and test error over the seeds."""
    algorithm, oracles, rounds = maker(subject.problem, subject.rate, subject.inner)
    bare = Problem(subject.problem.loss, NoRegulariser(), WholeSpace())
    made = plan(
        public_facts(bare, subject.train, clip=CLIP),
        algorithm,
        oracles,
        Terms(epsilon, DELTA, Adjacency(ReplaceOne(), "record"), Messages()),
        rounds=rounds,
        precision="float32",
    )
    models = np.asarray(_runs(made, subject.train), np.float64)
    gaps = [
        float(subject.problem.composed.objective(jnp.asarray(m), subject.train)) - subject.optimum
        for m in models
    ]
    rows = np.asarray(subject.test.stacked.features[0], np.float64)
    wrong = np.asarray(subject.test.stacked.targets[0]) != np.sign(rows @ models.T).T
    errors = wrong.mean(axis=1)
    return {
        "gap": float(np.mean(gaps)),
        "gap_spread": float(np.std(gaps, ddof=1)),
        "error": float(np.mean(errors)),
        "error_spread": float(np.std(errors, ddof=1)),
        "certified": made.certificate.epsilon,
    }


def _runs(made: Plan, shards: Shards) -> Array:
    program, private = made.program, behind_the_door(made, shards)

    def one(key: Key) -> Array:
        door = Live(program.oracles, program.mechanism, key)
        model: Array = simulate(program, door, private, keep=frozenset())[0]
        return model

    # one after the other inside one program: mapped over, every step would wait for the slowest
    keys = jax.random.split(jax.random.key(0), SEEDS)
    models: Array = jax.jit(lambda all_keys: jax.lax.map(one, all_keys))(keys)
    return models


def main(names: list[str]) -> None:
    """Measure every method on every data set and print the table as JSON."""
    table: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name in names or list(SETTINGS):
        subject = case(name)
        for method, maker in METHODS.items():
            for epsilon in BUDGETS:
                row = measured(subject, maker, epsilon)
                table.setdefault(name, {}).setdefault(method, {})[f"{epsilon:g}"] = row
                print(name, method, epsilon, json.dumps(row), file=sys.stderr, flush=True)
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
