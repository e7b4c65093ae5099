"""One private training run on a data set, end to end: split, share out, plan, run, measure."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import checks
from tacit.algorithms import SAMPLED, algorithm_named, oracle_named
from tacit.datasets import Dataset, Split, split
from tacit.errors import InputError
from tacit.plan import Plan, Terms, plan
from tacit.privacy import Adjacency, Certificate, observer_named, relation_named
from tacit.problems import (
    L2,
    Logistic,
    Loss,
    MultinomialLogistic,
    Problem,
    Shards,
    WholeSpace,
    minimise,
    pack,
    public_facts,
    random_partition,
)
from tacit.runtime import Run, run
from tacit.typing import Array, HostArray, Precision

DEFAULT_ROUNDS = 200
DEFAULT_RATE = 0.1
WEIGHT = 1e-6


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks for; everything in it is public.

    Attributes
    ----------
    rounds
        None for `DEFAULT_ROUNDS`.
    seed
        Of the noise; None for the operating system's entropy.
    split_seed
        Of the split into training and test data and of the sharing out among agents.
    sampling_rate
        Of Poisson batches, for algorithms that sample; None for `DEFAULT_RATE`.
    """

    agents: int
    epsilon: float
    delta: float
    observer: str
    relation: str
    algorithm: str
    rounds: int | None = None
    seed: int | None = None
    split_seed: int = 0
    sampling_rate: float | None = None


@dataclass(frozen=True)
class Metrics:
    """Errors and losses of one model; `train_loss` looks at private data (an oracle metric)."""

    test_error: float
    test_loss: float
    train_loss: float


@dataclass(frozen=True)
class Training:
    """A finished training run.

    Attributes
    ----------
    curves
        `test_error` and `test_loss` of the released model after every round, `(T,)` each.
    nonprivate
        The optimum of the same split without privacy; None if it was not asked for.
    seconds
        Wall time of planning, running and measuring; the non-private optimum is not counted.
    """

    request: Request
    dataset: Dataset
    plan: Plan
    certificate: Certificate
    model: HostArray
    metrics: Metrics
    curves: dict[str, HostArray]
    nonprivate: Metrics | None
    seconds: float
    warnings: tuple[str, ...]


def train(
    dataset: Dataset,
    request: Request,
    *,
    reference: bool,
    report: Callable[[Any], None] | None = None,
) -> Training:
    """Return the training that `request` describes, on `dataset`.

    Parameters
    ----------
    reference
        Whether to compute the non-private optimum of the same split too.
    report
        Called with the number of finished rounds.

    Raises
    ------
    InputError
        If the request cannot be met; the message names the fix.
    """
    warnings = delta_warning(request.delta, dataset.train_rows)
    parts = split(dataset, seed=request.split_seed)
    began = time.perf_counter()
    problem = problem_for(dataset)
    shards = share_out(dataset, parts, request)
    made = plan_for(problem, shards, request)
    done = run(
        made,
        shards,
        runtime="simulate",
        seed=request.seed,
        keep=frozenset({"models"}),
        report=report,
    )
    metrics, curves = _measure(problem, shards, parts, done)
    seconds = time.perf_counter() - began
    nonprivate = optimum(dataset, problem, parts, request) if reference else None
    return Training(
        request, dataset, made, _conditional(done.certificate, dataset), done.model, metrics,
        curves, nonprivate, seconds, warnings,
    )  # fmt: skip


def problem_for(dataset: Dataset) -> Problem:
    """Return logistic (two classes) or multinomial logistic regression with (1e-6 / 2) |w|^2."""
    if dataset.classes is None:
        raise InputError(f"{dataset.name} has numbers as targets; this command trains classifiers")
    loss: Loss = Logistic() if dataset.task == "binary" else MultinomialLogistic(dataset.classes)
    return Problem(loss, L2(WEIGHT), WholeSpace())


def share_out(
    dataset: Dataset, parts: Split, request: Request, *, precision: Precision = "float32"
) -> Shards:
    """Return the training rows dealt at random to the agents, clipped to the record norm."""
    rows = random_partition(len(parts.train_targets), request.agents, seed=request.split_seed)
    return pack(
        parts.train_features,
        parts.train_targets,
        rows,
        record_norm=dataset.record_norm,
        precision=precision,
        enforce="clip",
    )


def plan_for(problem: Problem, shards: Shards, request: Request) -> Plan:
    """Return the plan of a request, with settings from public facts alone.

    The coefficient is clipped at its norm at the starting point w = 0 (1/2 for the logistic loss):
    the first gradient is exact, and the noise is as small as that allows. Without privacy nothing
    is clipped.
    """
    algorithm = algorithm_named(request.algorithm, problem)
    rounds = DEFAULT_ROUNDS if request.rounds is None else request.rounds
    clip = math.inf if math.isinf(request.epsilon) else (problem.loss.start_coefficient or math.inf)
    return plan(
        public_facts(problem, shards, clip=clip),
        algorithm,
        (oracle_named(request.algorithm, problem.loss, clip=clip, rate=sampling_rate(request)),),
        terms_for(request),
        rounds=checks.at_least("rounds", rounds, 1),
        precision="float32",
    )


def sampling_rate(request: Request) -> float | None:
    """Return the sampling rate of the algorithm's batches; None if it takes none.

    Raises
    ------
    InputError
        If a rate is given to an algorithm that does not sample, or is not in (0, 1].
    """
    if request.algorithm in SAMPLED and request.sampling_rate is None:
        return DEFAULT_RATE
    if request.sampling_rate is None:
        return None
    if request.algorithm not in SAMPLED:
        raise InputError(
            f"{request.algorithm} does not sample; leave the sampling rate out or use "
            f"{', '.join(SAMPLED)}"
        )
    return checks.fraction("sampling-rate", request.sampling_rate)


def terms_for(request: Request) -> Terms:
    """Return the privacy terms of a request; the unit is one record."""
    adjacency = Adjacency(relation_named(request.relation), "record")
    return Terms(request.epsilon, request.delta, adjacency, observer_named(request.observer))


def delta_warning(delta: float, records: int) -> tuple[str, ...]:
    """Return a warning if delta exceeds 1 / (10 x records), else nothing.

    Examples
    --------
    >>> delta_warning(1e-6, 1000)
    ()
    """
    least = 1 / (10 * records)
    if delta <= least:
        return ()
    return (
        f"delta {delta:g} is above 1/(10 x {records} records) = {least:.2g}: such a mechanism "
        f"may publish whole records; choose delta at most {least:.2g}",
    )


def optimum(dataset: Dataset, problem: Problem, parts: Split, request: Request) -> Metrics:
    """Return the metrics of the non-private optimum on the same split and the same shares."""
    shards = share_out(dataset, parts, request, precision="float64")
    solution = minimise(problem, shards, tol=1e-6)
    return measure(problem, shards, parts, np.asarray(solution.w))


def measure(problem: Problem, shards: Shards, parts: Split, model: HostArray) -> Metrics:
    """Return the metrics of one model; test rows are clipped like training rows."""
    error, loss = _on_test(problem, shards, parts, model[None])
    weights = jnp.asarray(model, shards.stacked.features.dtype)
    return Metrics(float(error[0]), float(loss[0]), float(problem.objective(weights, shards)))


def _measure(
    problem: Problem, shards: Shards, parts: Split, done: Run
) -> tuple[Metrics, dict[str, HostArray]]:
    models = np.asarray(done.trace.models)
    errors, losses = _on_test(problem, shards, parts, models)
    return measure(problem, shards, parts, done.model), {"test_error": errors, "test_loss": losses}


def _on_test(
    problem: Problem, shards: Shards, parts: Split, models: HostArray
) -> tuple[HostArray, HostArray]:
    """Return test error and test loss of each of T models, `(T,)` each."""
    rows = pack(
        parts.test_features,
        parts.test_targets,
        [np.arange(len(parts.test_targets))],
        record_norm=shards.record_norm,
        precision="float64",
        enforce="clip",
    ).shard(0)
    stacked = jnp.asarray(models, jnp.float64)

    def one(model: Array) -> tuple[Array, Array]:
        margins = rows.features @ model
        error = jnp.mean(problem.loss.error(margins, rows.targets))
        return error, jnp.mean(problem.loss.value(margins, rows.targets))

    errors, losses = jax.jit(lambda all_models: jax.lax.map(one, all_models))(stacked)
    return np.asarray(errors), np.asarray(losses)


def _conditional(certificate: Certificate, dataset: Dataset) -> Certificate:
    return dataclasses.replace(certificate, conditions=dataset.conditions)
