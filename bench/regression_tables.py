"""Coverage of the intervals of private regression tables, on simulated records.

    python -m bench.regression_tables [--repetitions N] [--records N ...] [--families NAME ...]

Five columns: two numbers spread evenly over their range, one with a normal law in its middle, two
that are -1 or 1; one has no effect. For every cell it prints the share of refused tables, and of
those that are not the coverage of 95 % intervals over all coefficients with its standard error, how
often the coefficient that is 0 is called significant at 5 %, and the median of the standard error
over its part by sampling.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import NamedTuple

import jax
import numpy as np
from scipy.stats import norm

from taciturn.algorithms.newton import Newton, newton
from taciturn.engine import run
from taciturn.engine.planning import Plan, plan
from taciturn.kernel.privacy import Adjacency, Messages, Observer, ReplaceOne, Sum, Terms
from taciturn.kernel.records import Shards, pack
from taciturn.problems import (
    Logistic,
    Loss,
    NoRegulariser,
    PiecewiseExponential,
    Poisson,
    Problem,
    Squared,
    public_facts,
    survival_target,
)
from taciturn.regression import Fit, fit
from taciturn.typing import HostArray

TRUTH = np.array([0.5, -1.0, 0.4, 0.0, 0.3, -0.5])  # the fourth is no effect, the last the constant
NONE, SITES, DELTA, ROUNDS, HIGHEST = 3, 5, 1e-6, 8, 10.0
EPSILONS = (0.5, 1.0, 3.0)
OBSERVERS: dict[str, Observer] = {"messages": Messages(), "sum": Sum()}
Z = float(norm.isf(0.025))
SURVIVAL = PiecewiseExponential(1.0, 2.0, (0.2, 0.5))  # in parts of the longest time


class Family(NamedTuple):
    """A loss, the bound on its coefficient, the covariance, and the scale of its coefficients.

    `wrong`: whether only the mean of the response is that of the family.
    """

    loss: Loss
    clip: float
    covariance: str
    scale: float
    wrong: bool = False

    @property
    def truth(self) -> HostArray:
        """The coefficients in the order of the fit; every interval has the same hazard."""
        several = (self.loss.outputs or 1) - 1
        found: HostArray = self.scale * np.append(TRUTH, [TRUTH[-1]] * several)
        return found


FAMILIES = {
    "gaussian": Family(Squared(), 2.0, "dispersion", 0.125),
    "logistic": Family(Logistic(), 1.0, "model", 1.0),
    "poisson": Family(Poisson(0.0, HIGHEST), HIGHEST, "model", 1.0),
    "piecewise-exponential": Family(SURVIVAL, SURVIVAL.lipschitz, "model", 1.0),
    "gaussian with unequal variances": Family(Squared(), 2.0, "robust", 0.125, wrong=True),
    "poisson overdispersed": Family(Poisson(0.0, HIGHEST), HIGHEST, "robust", 0.25, wrong=True),
}


def main() -> None:
    """Print the table as CSV."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--records", type=int, nargs="*", default=[2_000, 20_000, 200_000])
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    given = parser.parse_args()
    print(
        "family,records,observer,epsilon,repetitions,refused,coverage,its standard error,"
        "type I error,width over the width without noise"
    )
    for name in given.families:
        for records in given.records:
            for cell, found in _cells(FAMILIES[name], records, given.repetitions).items():
                print(
                    ",".join([name, str(records), *cell, _line(FAMILIES[name], found)]), flush=True
                )


def _cells(family: Family, records: int, repetitions: int) -> dict[tuple[str, str], list[Fit]]:
    """Return the fits of every observer and epsilon, all on the same records."""
    plans: dict[tuple[str, str], tuple[Plan, Newton]] = {}
    found: dict[tuple[str, str], list[Fit]] = defaultdict(list)
    for seed in range(repetitions):
        shards = _shards(family, records, seed)
        plans = plans or {
            (name, f"{epsilon:g}"): _planned(family, shards, observer, epsilon)
            for name, observer in OBSERVERS.items()
            for epsilon in EPSILONS
        }
        for cell, (made, method) in plans.items():
            done = run(made, shards, runtime="simulate", seed=seed, keep=frozenset({"publics"}))
            last = jax.tree.map(lambda leaf: np.asarray(leaf)[-1], done.trace.publics)
            found[cell].append(fit(made, method, last))
    return found


def _planned(
    family: Family, shards: Shards, observer: Observer, epsilon: float
) -> tuple[Plan, Newton]:
    problem = Problem(family.loss, NoRegulariser())
    spec = public_facts(problem, shards, clip=family.clip)
    rounds = ROUNDS + (family.covariance == "robust")
    method = newton(problem, spec, family.clip, rounds, family.covariance)
    terms = Terms(epsilon, DELTA, Adjacency(ReplaceOne(), "record"), observer)
    return plan(spec, method, method.asks, terms, rounds=rounds, precision="float64"), method


def _shards(family: Family, records: int, seed: int) -> Shards:
    draw = np.random.default_rng(seed)
    rows = np.ones((records, len(TRUTH)))
    rows[:, [0, 3]] = draw.uniform(-1, 1, (records, 2))
    rows[:, 1] = np.clip(draw.standard_normal(records) / 3, -1, 1)
    rows[:, [2, 4]] = np.where(draw.random((records, 2)) < 0.3, 1.0, -1.0)
    scores = rows @ (family.scale * TRUTH)
    targets = (_misspecified if family.wrong else _responses)(family.loss, scores, draw)
    parts = np.array_split(np.arange(records), SITES)
    return pack(rows, targets, parts, record_norm=math.sqrt(len(TRUTH)), precision="float64")


def _responses(loss: Loss, scores: HostArray, draw: np.random.Generator) -> HostArray:
    if isinstance(loss, Logistic):
        return np.where(draw.random(len(scores)) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    if isinstance(loss, Poisson):
        counts: HostArray = np.minimum(draw.poisson(np.exp(scores)), HIGHEST)
        return 2 * counts / HIGHEST - 1
    if isinstance(loss, PiecewiseExponential):
        died, left = draw.exponential(np.exp(-scores)), draw.uniform(0.3, 1.5, len(scores))
        return survival_target(np.zeros(len(scores)), np.minimum(died, left), died <= left)
    noisy: HostArray = np.clip(scores + 0.15 * draw.standard_normal(len(scores)), -1, 1)
    return noisy


def _misspecified(loss: Loss, scores: HostArray, draw: np.random.Generator) -> HostArray:
    """Return responses with the mean of the family and a larger, unequal variance."""
    if isinstance(loss, Poisson):  # at most one count in a thousand is beyond the range
        mean = np.exp(scores) * draw.choice([0.25, 1.75], len(scores))
        counts: HostArray = np.minimum(draw.poisson(mean), HIGHEST)
        return 2 * counts / HIGHEST - 1
    spread = 0.02 + 0.25 * np.abs(scores)
    noisy: HostArray = np.clip(scores + spread * draw.standard_normal(len(scores)), -1, 1)
    return noisy


def _line(family: Family, fits: list[Fit]) -> str:
    kept = [one for one in fits if one.refused is None]
    refused = 1 - len(kept) / len(fits)
    if not kept:
        return f"{len(fits)},{refused:.3f},,,,"
    parts = [(np.diag(one.by_sampling), np.diag(one.by_noise)) for one in kept]
    errors = np.sqrt([sampling + noise for sampling, noise in parts])
    away = (np.array([one.estimate for one in kept]) - family.truth) / errors
    inside = np.abs(away) < Z
    spread = inside.mean(axis=1).std(ddof=1) / math.sqrt(len(kept)) if len(kept) > 1 else math.nan
    wider = np.median(errors / np.sqrt([sampling for sampling, _ in parts]))
    return (
        f"{len(fits)},{refused:.3f},{inside.mean():.4f},{spread:.4f},"
        f"{1 - inside[:, NONE].mean():.4f},{wider:.3f}"
    )


if __name__ == "__main__":
    main()
