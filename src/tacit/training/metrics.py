"""How well a model does: on test records, and on the training records themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tacit.problems import Problem, Shards, minimise
from tacit.tables import Table
from tacit.training.material import Material
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


def measure(problem: Problem, material: Material, shards: Shards, model: HostArray) -> Metrics:
    """Return the metrics of one model; test rows are clipped like training rows."""
    curves = curves_on_test(problem, material, model[None])
    error, loss = (float(v[0]) for v in curves.values()) if curves else (math.nan, math.nan)
    weights = jnp.asarray(model, shards.stacked.features.dtype)
    objective = float(problem.objective(weights, shards))
    return Metrics(error, loss, objective, _train_error(problem, material, shards, model))


def curves_on_test(problem: Problem, material: Material, models: HostArray) -> dict[str, HostArray]:
    """Return `test_error` and `test_loss` of each of T models, `(T,)` each; empty without tests."""
    if not material.has_test:
        return {}
    rows = material.test.shard(0)
    stacked = jnp.asarray(models, jnp.float64)

    def one(model: Array) -> tuple[Array, Array]:
        margins = rows.features @ model
        error = jnp.mean(problem.loss.error(margins, rows.targets))
        return error, jnp.mean(problem.loss.value(margins, rows.targets))

    errors, losses = jax.jit(lambda all_models: jax.lax.map(one, all_models))(stacked)
    return {"test_error": _in_units(material, np.asarray(errors)), "test_loss": np.asarray(losses)}


def optimum(problem: Problem, material: Material) -> Metrics:
    """Return the metrics of the non-private optimum on the same records and the same shares."""
    shards = material.shards("float64")
    solution = minimise(problem, shards, tol=1e-6)
    return measure(problem, material, shards, np.asarray(solution.w))


def _train_error(problem: Problem, material: Material, shards: Shards, model: HostArray) -> float:
    mask = np.asarray(shards.stacked.mask)
    errors = _errors(problem, shards, model)
    return float(_in_units(material, np.sum(mask * errors) / np.sum(mask)))


def _errors(problem: Problem, shards: Shards, model: HostArray) -> HostArray:
    weights = jnp.asarray(model, shards.stacked.features.dtype)
    margins = shards.stacked.features @ weights
    return np.asarray(jax.vmap(problem.loss.error)(margins, shards.stacked.targets), np.float64)


def _in_units(material: Material, errors: Values) -> Values:
    """Return squared errors as root mean squares in the target's units, others as they are."""
    dataset = material.dataset
    if dataset.task != "regression":
        return errors
    scale = dataset.bounds.half_range if isinstance(dataset, Table) else 1.0
    roots: Values = scale * np.sqrt(errors)
    return roots
