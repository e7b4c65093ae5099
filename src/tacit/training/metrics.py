"""How good a model is: errors and losses on training and test records, and the optimum's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tacit.problems import Problem, Shard, Shards, minimise
from tacit.problems.memory import own_array
from tacit.tables import Table
from tacit.training.assessment import Assessment, assess
from tacit.training.data import DividedData, target_scale
from tacit.typing import Array, HostArray

Values = TypeVar("Values", HostArray, np.float64)
Margins = TypeVar("Margins", Array, HostArray)


@dataclass(frozen=True)
class Metrics:
    """Errors and losses of one model; those on training records are oracle metrics.

    Attributes
    ----------
    test_error, train_error
        NaN where it was not measured: of private training records, unless somebody asked for it.
        The fraction of wrong labels; for numbers the root of the mean squared error, in the units
        of a table's target. The mean over the training records, whoever owns them.
    test_loss, train_loss
        Mean loss on the test records; objective on the training records. Class weights, if there
        are some, count in losses and not in errors.

    assessment
        The test error beside that of the baseline, and more; None without test records.

    Test metrics are NaN where there are no test records. Errors are those of what `predict`
    answers: the scores of a table's numbers are clipped to the range of the target first.
    """

    test_error: float
    test_loss: float
    train_loss: float
    train_error: float
    assessment: Assessment | None = None


UNMEASURED = Metrics(math.nan, math.nan, math.nan, math.nan)


def measure(
    problem: Problem, data: DividedData, shards: Shards | None, model: HostArray
) -> Metrics:
    """Return the metrics of one model; test rows are clipped like training rows.

    Without shards, those on training records are NaN.
    """
    curves = curves_on_test(problem, data, model[None])
    error, loss = (float(v[0]) for v in curves.values()) if curves else (math.nan, math.nan)
    train_error, objective = math.nan, math.nan
    if shards is not None:
        train_error, objective = on_training(problem, data, shards, model)
    assessment = None
    if curves:
        features = np.asarray(data.test.shard(0).features)
        margins = _answered(data, features @ np.asarray(model, np.float64))
        assessment = assess(data, problem.loss, margins, error)
    return Metrics(error, loss, objective, train_error, assessment)


def on_training(
    problem: Problem, data: DividedData, shards: Shards, model: HostArray
) -> tuple[float, float]:
    """Return error and objective on the training records: functions of them without noise."""
    weights = own_array(model, shards.stacked.features.dtype)
    objective, wrong = _on_shards(problem, shards, weights, bounded=_is_bounded(data))
    return float(_in_units(data, np.float64(wrong))), float(objective)


def curves_on_test(problem: Problem, data: DividedData, models: HostArray) -> dict[str, HostArray]:
    """Return `test_error` and `test_loss` of each of T models, `(T,)` each; empty without tests."""
    if not len(data.parts.test_targets):
        return {}
    rows, bounded, wide = data.test.shard(0), _is_bounded(data), np.asarray(models, np.float64)
    # one program for one model and for those of all rounds
    pairs = [_on_rows(problem, rows, model, bounded=bounded) for model in wide]
    errors, losses = np.array(jax.device_get(pairs), np.float64).T
    return {"test_error": _in_units(data, errors), "test_loss": losses}


@partial(jax.jit, static_argnames="bounded")
def _on_rows(problem: Problem, rows: Shard, model: Array, *, bounded: bool) -> tuple[Array, Array]:
    """Return error and loss of a model; rows are arguments, or they would be in the program."""
    margins = rows.features @ model
    answers = margins.clip(-1, 1) if bounded else margins
    error = jnp.mean(problem.loss.error(answers, rows.targets))
    return error, jnp.mean(problem.loss.value(margins, rows.targets))


def optimum(problem: Problem, data: DividedData) -> Metrics:
    """Return the metrics of the non-private optimum of the same problem on the same shards."""
    shards = data.shards("float64")
    solution = minimise(problem, shards, tol=1e-6)
    return measure(problem, data, shards, np.asarray(solution.w))


@partial(jax.jit, static_argnames="bounded")
def _on_shards(
    problem: Problem, shards: Shards, model: Array, *, bounded: bool
) -> tuple[Array, Array]:
    """Return the objective and the mean error over the training records, whoever owns them."""
    stacked = shards.stacked
    margins = stacked.features @ model
    answers = margins.clip(-1, 1) if bounded else margins
    errors = jax.vmap(problem.loss.error)(answers, stacked.targets).astype(jnp.float64)
    wrong = jnp.sum(stacked.mask * errors) / jnp.sum(stacked.mask, dtype=jnp.float64)
    return problem.objective(model, shards), wrong


def _answered(data: DividedData, margins: Margins) -> Margins:
    """Return margins as `predict` uses them: those of a table's numbers clipped to the range."""
    if not _is_bounded(data):
        return margins
    inside: Margins = margins.clip(-1, 1)
    return inside


def _is_bounded(data: DividedData) -> bool:
    """Whether the range of a numeric target is known."""
    return data.dataset.task == "regression" and isinstance(data.dataset, Table)


def _in_units(data: DividedData, errors: Values) -> Values:
    """Return squared errors as root mean squares in the target's units, others as they are."""
    if data.dataset.task != "regression":
        return errors
    scale, _ = target_scale(data.dataset)
    roots: Values = scale * np.sqrt(errors)
    return roots
