"""Test error on Adult at equal total budgets: mean of five splits, fresh noise each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taciturn.datasets import load
from taciturn.training import Request, train_on

ARMS = (
    ("noisy-gradient", "messages", 0.75),
    ("noisy-gradient", "sum", 1.0),
    ("dp-admm", "messages", 0.75),
    ("noisy-gradient", "messages", 1.0),
)


def adult_errors(splits: int = 5) -> dict[str, dict[str, float]]:
    """Return mean, least and largest test error of every arm, and the mean non-private optimum."""
    dataset = load("adult", interval="unit")
    base = Request(epsilon=1.0, delta=1e-5)
    table: dict[str, dict[str, float]] = {}
    optimum: list[float] = []
    for algorithm, observer, epsilon in ARMS:
        errors = []
        for seed in range(splits):
            request = replace(
                base, algorithm=algorithm, observer=observer, epsilon=epsilon, split_seed=seed
            )
            done = train_on(dataset, request, agents=100, reference=len(optimum) < splits)
            errors.append(done.metrics.test_error)
            optimum += [done.nonprivate.test_error] if done.nonprivate else []
        name = f"{algorithm}, {observer}, epsilon {epsilon:g}"
        table[name] = {"mean": float(np.mean(errors)), "min": min(errors), "max": max(errors)}
    table["non-private optimum"] = {
        "mean": float(np.mean(optimum)),
        "min": min(optimum),
        "max": max(optimum),
    }
    return table
