"""Coefficients of simulated logistic models: bias of the loss, of the regulariser and of stopping.

    python -m bench.coefficients [--repetitions N]

Rows are normal, clipped to [-4, 4]. For every number of records it prints the mean, over
repetitions and coefficients, of (estimate - truth) times the sign of the truth, in standard errors
of the estimate without noise: of the minimiser of each loss, and of what is released at epsilon 1.
Two standard errors of such a mean follow it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.estimators import PrivateLogisticRegression
from taciturn.problems import CappedExponential, Logistic, Loss
from taciturn.typing import HostArray

HEAD = "records,columns,estimate,bias in standard errors,two standard errors of it,relative bias"
SIZES = ((40_000, 6), (200_000, 10))
LOSSES: dict[str, tuple[Loss, float]] = {
    "capped-exponential": (CappedExponential(), math.inf),
    "logistic, clip 1/2": (Logistic(), 0.5),
    "logistic": (Logistic(), math.inf),
}


def main() -> None:
    """Print the table as CSV."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=40)
    repetitions = parser.parse_args().repetitions
    print(
        "records,columns,estimate,bias in standard errors,two standard errors of it,relative bias"
    )
    for records, columns in SIZES:
        truth = np.resize([1.0, -1.0, 0.5], columns)
        samples = [_sample(records, truth, seed) for seed in range(repetitions)]
        estimates = {
            name: np.array([_minimiser(loss, clip, *one) for one in samples])
            for name, (loss, clip) in LOSSES.items()
        }
        for l2, rounds in ((1e-6, 200), (1e-6, 2000)):
            name = f"released: l2 {l2:g}, {rounds} rounds"
            estimates[name] = np.array(
                [_released(*one, l2, rounds, seed) for seed, one in enumerate(samples)]
            )
        error = estimates["capped-exponential"].std(axis=0, ddof=1)
        for name, found in estimates.items():
            away = np.sign(truth) * (found - truth) / error
            wide = 2 * away.mean(axis=1).std(ddof=1) / math.sqrt(repetitions)
            relative = np.mean((found.mean(axis=0) - truth) / truth)
            print(
                f"{records},{columns},{name},{away.mean():.3f},{wide:.3f},{relative:.4f}",
                flush=True,
            )


def _sample(records: int, truth: HostArray, seed: int) -> tuple[HostArray, HostArray]:
    draw = np.random.default_rng(seed)
    rows = np.clip(draw.standard_normal((records, len(truth))), -4, 4)
    return rows, np.where(draw.random(records) < 1 / (1 + np.exp(-rows @ truth)), 1.0, -1.0)


def _minimiser(loss: Loss, clip: float, rows: HostArray, targets: HostArray) -> HostArray:
    """Return the root of the mean clipped gradient, by Newton's method with its derivative."""
    x, y = jnp.asarray(rows), jnp.asarray(targets)
    slope = _slope(loss, clip)
    model = jnp.zeros(rows.shape[1])
    for _ in range(30):
        gradient, curvature = slope(model, x, y)
        model -= jnp.linalg.solve(curvature, gradient)
    return np.asarray(model)


def _slope(loss: Loss, clip: float) -> Callable[..., tuple[jax.Array, jax.Array]]:
    def mean(model: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return x.T @ jnp.clip(loss.coefficient(x @ model, y), -clip, clip) / len(y)

    return jax.jit(lambda w, x, y: (mean(w, x, y), jax.jacfwd(mean)(w, x, y)))


def _released(rows: HostArray, targets: HostArray, l2: float, rounds: int, seed: int) -> HostArray:
    model = PrivateLogisticRegression(
        epsilon=1.0, delta=1e-6, bounds=(-4, 4), classes=[-1, 1], features="columns", l2=l2,
        rounds=rounds, random_state=seed,
    )  # fmt: skip
    return np.asarray(model.fit(rows, targets.astype(int)).coef_[0])


if __name__ == "__main__":
    main()
