"""Liu et al. 2022, Theorems 3, 5 and 6: how the gap scales with n, epsilon, d and tau."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import stats

from taciturn.kernel.records import Shards
from taciturn.problems import Logistic, Structured, lasso, minimise, smoothed_share
from taciturn.typing import HostArray
from taciturn_papers.as_published import Constants, PublishedADMM, smoother
from taciturn_papers.reproductions.arms import packed

DELTA, WEIGHT, RIDGE, BATCH, INNER, SEEDS, THETA = 5e-4, 1e-4, 0.1, 10, 10, 10, 0.5
LOG, RHO = math.log(1 / DELTA), 0.1
RECORDS, EPSILONS, COLUMNS, STRENGTHS = (
    (4000, 8000, 16000), (0.5, 1.0, 2.0), (8, 24, 72), (0.0, 1.0, 4.0)
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where a gap is measured: n, epsilon, d and v."""

    records: int = 8000
    epsilon: float = 1.0
    columns: int = 24
    strength: float = 0.0

    @property
    def share(self) -> float:
        """Return tau."""
        return smoothed_share(self.columns, self.strength)


@dataclass(frozen=True)
class Theorem:
    """A rate: the gap is O(scale^power), scale = l sqrt(tau d log(1/delta)) / (epsilon n).

    Attributes
    ----------
    factor
        What the number of steps is multiplied by, which the theorem leaves open.
    """

    method: str
    power: int
    factor: float

    def steps(self, place: Place) -> int:
        """Return S m, or T, in the order that the theorem prescribes; a multiple of m."""
        scale = place.epsilon * place.records / math.sqrt(place.share * place.columns * LOG)
        count = scale * INNER if self.method == "vradmm" else scale**2
        if self.power == 2:
            count *= RIDGE / (1 + 4 * place.strength)
        return INNER * max(1, round(self.factor * count / INNER))

    def noise(self, place: Place) -> float:
        """Return sigma of Theorem 1, c_2 = 1, or of Theorem 2."""
        steps, epsilon = self.steps(place), place.epsilon
        if self.method == "vradmm":
            return math.sqrt(steps * LOG) / (place.records * epsilon)
        order = LOG / ((1 - THETA) * epsilon) + 1
        return math.sqrt(20 * order * steps / (THETA * epsilon)) / place.records

    def gaps(self, place: Place) -> Float[HostArray, "S"]:
        """Return the objective gap of every seed at one place, with gamma = 1."""
        shards, problem, optimum = instance(place.records, place.columns, self.power == 2)
        smoothing = smoother(place.columns, place.strength)
        algorithm = PublishedADMM(
            problem, "vradmm" if self.method == "vradmm" else "sadmm", BATCH, INNER,
            self.steps(place) // INNER, jnp.asarray(smoothing), 1 + 4 * place.strength,
        )  # fmt: skip
        given = Constants(*jnp.array([[self.noise(place)], [RHO], [0.0], [1.0]]))
        models = algorithm.run(shards.shard(0), given, range(SEEDS))[0]
        objective = problem.composed.objective
        return np.array([float(objective(jnp.asarray(x), shards)) for x in models]) - optimum


_BASE = 8


@functools.cache
def instance(count: int, columns: int, ridge: bool) -> tuple[Shards, Structured, float]:
    """Return public records, the lasso on them and its optimum.

    The records have 8 columns, each in d / 8 equal parts side by side: whatever d is, records,
    Lipschitz and smoothness constants and the norm of the best weights are the same, and best
    weights of neighbours are mostly alike.
    """
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((count, _BASE))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = np.sign(
        rows @ np.array([2.0, -1, 1, 0.5, 0, 0, 0, 0]) + 0.5 * draw.standard_normal(count)
    )
    parts = columns // _BASE
    shards = packed(np.repeat(rows, parts, axis=1) / math.sqrt(parts), targets, [np.arange(count)])
    problem = lasso(Logistic(), columns, weight=WEIGHT, ridge=RIDGE if ridge else 0.0)
    return shards, problem, minimise(problem.composed, shards, tol=1e-4).value


@dataclass(frozen=True)
class Slope:
    """The exponent of the gap in one quantity, its 95 % interval over seeds, and the rate's."""

    name: str
    rate: float
    mean: float
    low: float
    high: float

    @property
    def refuted(self) -> bool:
        """Whether the whole interval is worse: the gap falls more slowly, or grows faster."""
        if self.name == "d":
            return self.low > self.rate
        return self.high < self.rate if self.name == "tau" else self.low > self.rate


def slopes(theorem: Theorem) -> tuple[Slope, ...]:
    """Return the exponents in n, epsilon, d and tau, one varied at a time."""
    middle = Place()
    sweeps = {
        "n": [replace(middle, records=each) for each in RECORDS],
        "epsilon": [replace(middle, epsilon=each) for each in EPSILONS],
        "d": [replace(middle, columns=each) for each in COLUMNS],
        "tau": [replace(middle, strength=each) for each in STRENGTHS],
    }
    found = {
        place: theorem.gaps(place) for places in sweeps.values() for place in dict.fromkeys(places)
    }
    made = []
    for name, places in sweeps.items():
        values = {"n": "records", "epsilon": "epsilon", "d": "columns", "tau": "share"}[name]
        x = np.log([getattr(place, values) for place in places])
        y = np.log([found[place] for place in places])
        each = (x - x.mean()) @ (y - y.mean(axis=0)) / np.sum((x - x.mean()) ** 2)
        half = stats.t.ppf(0.975, SEEDS - 1) * each.std(ddof=1) / math.sqrt(SEEDS)
        rate = theorem.power * (0.5 if name in {"d", "tau"} else -1.0)
        made.append(Slope(name, rate, each.mean(), each.mean() - half, each.mean() + half))
    return tuple(made)
