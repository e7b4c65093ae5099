"""One question against many on linear regression: excess risk at equal total budgets.

Both methods take every setting from public facts. The data sets are not the one on which the
eigenvalue floor of `OneQuestion` was tried first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_diabetes

from taciturn.engine import records_for_door, sweep
from taciturn.engine.planning import Plan
from taciturn.kernel.privacy import Messages, Observer, Sum
from taciturn.kernel.records import Shards, pack
from taciturn.problems import L2, Problem, Squared, WholeSpace, minimise
from taciturn.training import DataFacts, Request, propose

AGENTS, RECORDS, DRAWS, NOISES = 10, 400, 4, 10
DIMENSIONS = (3, 10, 30)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
OBSERVERS: tuple[Observer, ...] = (Messages(), Sum())
PROBLEM = Problem(Squared(), L2(1e-6), WholeSpace())
CLIP = 1.0  # the default of the squared loss: targets lie in [-1, 1]
_Draw = Callable[[np.random.Generator, int, int], np.ndarray]


class Cell(NamedTuple):
    """What is public about a comparison."""

    data: str
    features: int
    records: int
    observer: str
    epsilon: float


def alike(draw: np.random.Generator, rows: int, features: int) -> np.ndarray:
    """Return rows of any direction, of length 1/2 to 1."""
    x = draw.standard_normal((rows, features))
    return _lengths(x, draw.uniform(0.5, 1, rows))


def correlated(draw: np.random.Generator, rows: int, features: int) -> np.ndarray:
    """Return rows whose neighbouring features correlate by 0.9, of length 1/2 to 1."""
    x = draw.standard_normal((rows, features))
    for k in range(1, features):
        x[:, k] = 0.9 * x[:, k - 1] + math.sqrt(1 - 0.9**2) * x[:, k]
    return _lengths(x, draw.uniform(0.5, 1, rows))


def heavy(draw: np.random.Generator, rows: int, features: int) -> np.ndarray:
    """Return rows of any direction whose lengths are Pareto with index 1.5, cut at 1."""
    x = draw.standard_normal((rows, features))
    return _lengths(x, np.minimum(1, 0.1 * (1 + draw.pareto(1.5, rows))))


def columns(draw: np.random.Generator, rows: int, features: int) -> np.ndarray:
    """Return columns in [0, 1] as tables have them, the last one constant."""
    x = draw.beta(2, 5, (rows, features))
    x[:, -1] = 1.0
    return x


GENERATORS: dict[str, tuple[_Draw, Callable[[int], float]]] = {
    "alike": (alike, lambda _: 1.0),
    "correlated": (correlated, lambda _: 1.0),
    "heavy": (heavy, lambda _: 1.0),
    "columns": (columns, math.sqrt),
}


def regression_risks(records: int = RECORDS) -> dict[str, dict[str, object]]:
    """Return the mean excess risk of both methods, and the winner, for every cell.

    10 agents, |y| <= 1, delta 1e-5, replace-one; 4 draws of the data and 10 of the noise each. A
    method wins if it is better by two standard errors of the difference over the draws. `nothing`
    is the excess risk of the model 0. The diabetes table has 440 records in all and 11 columns;
    its draws differ in who has which.
    """
    table: dict[str, dict[str, object]] = {}
    for name, draws in _cases(records):
        risks = [_risks(shards, seed) for seed, shards in enumerate(draws)]
        one, many, zero = (np.stack(parts) for parts in zip(*risks, strict=True))
        features = draws[0].stacked.features.shape[-1]
        for k, (observer, epsilon) in enumerate(_budgets()):
            cell = f"{name:<11}d {features:<3}{observer.name:<9}epsilon {epsilon:<5g}"
            row = {"one": float(np.mean(one[:, k])), "many": float(np.mean(many[:, k]))}
            row["nothing"] = float(np.mean(zero))
            table[cell] = {**row, "winner": _winner(one[:, k].ravel(), many[:, k].ravel())}
    return table


def _cases(records: int) -> Iterator[tuple[str, list[Shards]]]:
    for name in GENERATORS:
        for features in DIMENSIONS:
            yield name, [made(name, features, records, seed) for seed in range(DRAWS)]
    yield "diabetes", [diabetes(seed) for seed in range(DRAWS)]


def _budgets() -> list[tuple[Observer, float]]:
    return [(observer, epsilon) for observer in OBSERVERS for epsilon in EPSILONS]


def made(name: str, features: int, records: int, seed: int) -> Shards:
    """Return agents with records of a generator: margins of spread 0.4, noise 0.15, |y| <= 1."""
    rows, norm = GENERATORS[name]
    draw = np.random.default_rng(seed)
    x = rows(draw, AGENTS * records, features)
    z = (x - np.mean(x, axis=0)) @ draw.standard_normal(features)
    y = 0.4 * z / np.std(z) + 0.15 * draw.standard_normal(len(z))
    return _packed(x, np.clip(y, -1, 1), norm(features))


def diabetes(seed: int) -> Shards:
    """Return 440 rows of scikit-learn's table, mapped to [0, 1] and their targets to [-1, 1]."""
    x, y = load_diabetes(return_X_y=True, scaled=False)
    x = (x - np.min(x, axis=0)) / np.ptp(x, axis=0)
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    y = 2 * (y - np.min(y)) / np.ptp(y) - 1
    order = np.random.default_rng(seed).permutation(len(x))[:440]
    return _packed(x[order], y[order], math.sqrt(x.shape[1]))


def _packed(x: np.ndarray, y: np.ndarray, norm: float) -> Shards:
    parts = np.split(np.arange(len(x)), AGENTS)
    return pack(x, y, parts, record_norm=norm, precision="float64")


def _lengths(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = x * (lengths / np.linalg.norm(x, axis=1))[:, None]
    return scaled


def _risks(shards: Shards, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return excess risks `(budgets, noises)` of one question and of many; that of the model 0."""
    best = minimise(PROBLEM, shards, tol=1e-8).value
    one, many = (
        _excess([_plan(name, shards, *budget) for budget in _budgets()], shards, seed) - best
        for name in ("one-question", "noisy-gradient")
    )
    start = jnp.zeros(shards.stacked.features.shape[-1])
    return one, many, float(PROBLEM.objective(start, shards)) - best


def _plan(name: str, shards: Shards, observer: Observer, epsilon: float) -> Plan:
    facts = DataFacts(
        name="bench",
        task="regression",
        classes=None,
        columns=shards.dimension,
        record_norm=shards.record_norm,
        table=None,
    )
    request = Request(
        epsilon=epsilon,
        delta=1e-5,
        observer=observer,
        algorithm=name,
        clip=CLIP,
        precision="float64",
    )
    return propose(facts, shards.counts, request).plan()


def _excess(plans: list[Plan], shards: Shards, seed: int) -> np.ndarray:
    """Return the objective of every plan at every draw of the noise, `(plans, noises)`."""
    programs, private = [one.program for one in plans], records_for_door(plans[0], shards)
    seeds = range(seed * NOISES, (seed + 1) * NOISES)
    models, _ = sweep(programs, private, seeds=seeds, keep=frozenset())
    flat = models.reshape(-1, models.shape[-1])
    values = jax.lax.map(lambda w: PROBLEM.objective(w, shards), flat)
    return np.asarray(values).reshape(models.shape[:2])


def _winner(one: np.ndarray, many: np.ndarray) -> str:
    gap = one - many
    error = 2 * float(np.std(gap, ddof=1)) / math.sqrt(len(gap))
    mean = float(np.mean(gap))
    return "tie" if abs(mean) <= error else "one" if mean < 0 else "many"
