"""What is computed of a released model: its evaluation, its metrics, and the optimum beside it."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from taciturn.errors import reason
from taciturn.evaluation import Evaluated, PrivateScore, ask_held_out, score_of_totals, score_units
from taciturn.features import AroundCentre, FeatureMap
from taciturn.problems import Origin, Shards
from taciturn.proposal import labels_of
from taciturn.training.assessment import UNMEASURED, curves_on_test, measure, on_training, optimum
from taciturn.training.data import DividedData, target_scale
from taciturn.training.result import Training

T = TypeVar("T")


@dataclass(frozen=True)
class Attempts:
    """Steps after a release, and a line for each that failed: what was released stands.

    Attributes
    ----------
    report
        Called with each line as it comes; None for nobody.
    failures
        The lines of steps that read no private record but through the door, for the report.
    private
        The lines of other steps: that they failed may follow from records, without noise.
    """

    report: Callable[[str], None] | None = None
    failures: list[str] = field(default_factory=list)
    private: list[str] = field(default_factory=list)

    def attempt(
        self, what: str, step: Callable[[], T], otherwise: T, *, private: bool = False
    ) -> T:
        """Return what a step returns, or `otherwise` if it raises; an interrupt passes."""
        try:
            return step()
        except Exception as error:
            line = f"{what} failed: {reason(error)}. The model and its certificate stand"
        (self.private if private else self.failures).append(line)
        if self.report is not None:
            with suppress(Exception):  # a failing report must not lose the run either
                self.report(line)
        return otherwise


def measure_training(  # noqa: PLR0913 - a release, its records, and what is computed of both
    training: Training,
    data: DividedData,
    shards: Shards | None,
    attempts: Attempts,
    *,
    trained_on: Origin | None,
    seed: int | None,
    reference: bool,
    oracle: bool,
    curves: bool,
) -> Training:
    """Return a training with its evaluation and metrics; what fails has a line in `attempts`.

    Parameters
    ----------
    shards
        Those that were trained on; None around a centre, where they are packed anew if need be.
    trained_on
        The origin of the records of the run.
    curves
        Whether this process computes the curves.
    seed, reference, oracle
        As for `taciturn.training.train`.

    Notes
    -----
    **Guarantee.** Training records are read, without noise, only where the data set is published or
    oracle metrics are asked for; held-out records through the door of their one question.
    """
    began, proposal, model = time.perf_counter(), training.proposal, training.model
    problem, public = proposal.problem, data.dataset.public
    opened = public or oracle

    def finished(**found: Any) -> Training:
        seconds = training.seconds + time.perf_counter() - began
        return dataclasses.replace(training, **found, seconds=seconds)

    if proposal.centre:
        if not (opened or proposal.asks):  # test rows alone
            data = _without_training_rows(data)
        around = attempts.attempt(
            "placing rows around the centre", lambda: _around(data, training.features), None
        )
        if around is None:
            return finished()
        data = around
    evaluation = _evaluate(training, data, attempts, trained_on, seed) if proposal.asks else None
    metrics = attempts.attempt(
        "measuring on the test records", lambda: measure(problem, data, None, model), UNMEASURED
    )
    drawn = training.curves
    if curves:
        drawn = attempts.attempt(
            "the curves on the test records",
            lambda: curves_on_test(problem, data, training.models),
            drawn,
        )
    if opened:
        error, loss = attempts.attempt(
            "measuring on the training records",
            lambda: on_training(problem, data, shards or data.shards(proposal.precision), model),
            (math.nan, math.nan),
            private=not public,
        )
        metrics = dataclasses.replace(metrics, train_error=error, train_loss=loss)
    measured = finished(evaluation=evaluation, metrics=metrics, curves=drawn)
    if not (reference and opened):
        return measured
    nonprivate = attempts.attempt(
        "the optimum without privacy", lambda: optimum(problem, data), None, private=not public
    )
    return dataclasses.replace(measured, nonprivate=nonprivate)


def _evaluate(
    training: Training,
    data: DividedData,
    attempts: Attempts,
    trained_on: Origin | None,
    seed: int | None,
) -> Evaluated | None:
    """Return what held-out records say of a model that was released; None where that failed."""
    proposal = training.proposal
    answered = attempts.attempt(
        "the private evaluation",
        lambda: ask_held_out(
            proposal,
            training.plan,
            training.model,
            data.evaluated(),
            trained_on=trained_on,
            seed=seed,
            devices=None if data.local is None else data.local.devices,
        ),
        None,
    )
    if answered is None:
        return None

    def score() -> PrivateScore:
        scale = score_units(proposal, labels_of(proposal.data), target_scale(data.dataset)[0])
        return score_of_totals(proposal, answered.plan, answered.totals, scale)

    what = "the figures of the private evaluation"
    return dataclasses.replace(answered, score=attempts.attempt(what, score, None))


def _around(data: DividedData, features: FeatureMap | None) -> DividedData:
    assert isinstance(features, AroundCentre)
    return data.around(features.centre)


def _without_training_rows(data: DividedData) -> DividedData:
    parts, none = data.parts, np.zeros(0, np.int64)
    empty = parts._replace(
        train_features=parts.train_features[:0], train_targets=parts.train_targets[:0]
    )
    owners = tuple(none for _ in data.owners)
    return dataclasses.replace(data, parts=empty, owners=owners, held_out=(), persons=None)
