"""Errors and losses of a model on test records and on the training records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tacit.problems import Problem, Shards, minimise
from tacit.tables import Table
from tacit.training.data import DividedData
from tacit.typing import Array, HostArray

Values = TypeVar("Values", HostArray, np.float64)


@dataclass(frozen=True)
class Metrics:
    """Errors and losses of one model; those on training records are oracle metrics.

    Attributes
    ----------
    test_error, train_error
        The fraction of wrong labels; for numbers the root of the mean squared error, in the units
        of a table's target. The mean over the training records, whoever owns them.
    test_loss, train_loss
        Mean loss on the test records; objective on the training records.

    Test metrics are NaN where there are no test records.
    """

    test_error: float
    test_loss: float
    train_loss: float
    train_error: float


def measure(problem: Problem, data: DividedData, shards: Shards, model: HostArray) -> Metrics:
    """Return the metrics of one model; test rows are clipped like training rows."""
    curves = curves_on_test(problem, data, model[None])
    error, loss = (float(v[0]) for v in curves.values()) if curves else (math.nan, math.nan)
    weights = jnp.asarray(model, shards.stacked.features.dtype)
    objective = float(problem.objective(weights, shards))
    return Metrics(error, loss, objective, _train_error(problem, data, shards, model))


def curves_on_test(problem: Problem, data: DividedData, models: HostArray) -> dict[str, HostArray]:
    """Return `test_error` and `test_loss` of each of T models, `(T,)` each; empty without tests."""
    if not data.has_test:
        return {}
    rows = data.test.shard(0)
    stacked = jnp.asarray(models, jnp.float64)

    def one(model: Array) -> tuple[Array, Array]:
        margins = rows.features @ model
        error = jnp.mean(problem.loss.error(margins, rows.targets))
        return error, jnp.mean(problem.loss.value(margins, rows.targets))

    errors, losses = jax.jit(lambda all_models: jax.lax.map(one, all_models))(stacked)
    return {"test_error": _in_units(data, np.asarray(errors)), "test_loss": np.asarray(losses)}


def optimum(problem: Problem, data: DividedData) -> Metrics:
    """Return the metrics of the non-private optimum of the same problem on the same shards."""
    shards = data.shards("float64")
    solution = minimise(problem, shards, tol=1e-6)
    return measure(problem, data, shards, np.asarray(solution.w))


def _train_error(problem: Problem, data: DividedData, shards: Shards, model: HostArray) -> float:
    mask = np.asarray(shards.stacked.mask)
    errors = _errors(problem, shards, model)
    return float(_in_units(data, np.sum(mask * errors) / np.sum(mask)))


def _errors(problem: Problem, shards: Shards, model: HostArray) -> HostArray:
    weights = jnp.asarray(model, shards.stacked.features.dtype)
    margins = shards.stacked.features @ weights
    return np.asarray(jax.vmap(problem.loss.error)(margins, shards.stacked.targets), np.float64)


def _in_units(data: DividedData, errors: Values) -> Values:
    """Return squared errors as root mean squares in the target's units, others as they are."""
    dataset = data.dataset
    if dataset.task != "regression":
        return errors
    scale = dataset.bounds.half_range if isinstance(dataset, Table) else 1.0
    roots: Values = scale * np.sqrt(errors)
    return roots
