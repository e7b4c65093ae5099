"""What is measured of a released model: by its evaluation, on test records, and on request more."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taciturn.evaluation import Evaluated, ask_held_out, scale_of, score_of_totals
from taciturn.features import AroundCentre, FeatureMap
from taciturn.problems import Shards
from taciturn.proposal import Proposal, labels_of
from taciturn.training.assessment import (
    UNMEASURED,
    Metrics,
    curves_on_test,
    measure,
    on_training,
    optimum,
)
from taciturn.training.attempts import Attempts
from taciturn.training.data import DividedData, target_scale
from taciturn.training.outputs import Outputs
from taciturn.typing import HostArray


@dataclass(frozen=True)
class Wanted:
    """What is computed beside the release.

    Attributes
    ----------
    reference, oracle, seed
        As for `taciturn.training.train`.
    curves
        Whether this process computes the curves.
    """

    reference: bool
    oracle: bool
    curves: bool
    seed: int | None


class Measured(NamedTuple):
    """What could be measured; `seconds` is the time that it took, the optimum not counted."""

    evaluation: Evaluated | None
    metrics: Metrics
    curves: dict[str, HostArray]
    nonprivate: Metrics | None
    seconds: float


def measured(
    released: Outputs,
    proposal: Proposal,
    data: DividedData,
    shards: Shards | None,
    attempts: Attempts,
    wanted: Wanted,
) -> Measured:
    """Return what a released model amounts to; what fails is left out and has a line in `attempts`.

    Parameters
    ----------
    shards
        Those that were trained on; None around a centre, where they are packed anew if need be.

    Notes
    -----
    **Guarantee.** Training records are read, without noise, only where the data set is published or
    oracle metrics are wanted; held-out records through the door of their one question.
    """
    began, problem = time.perf_counter(), proposal.problem
    public, model = data.dataset.public, released.model
    opened = public or wanted.oracle
    if proposal.centre:
        if not (opened or proposal.asks):  # test rows alone
            data = _without_training_rows(data)
        around = attempts.attempt(
            "placing rows around the centre", lambda: _around(data, released.features), None
        )
        if around is None:
            return Measured(None, UNMEASURED, {}, None, time.perf_counter() - began)
        data = around
    evaluation = None
    if proposal.asks:
        evaluation = _evaluated(released, proposal, data, attempts, wanted.seed)
    metrics = attempts.attempt(
        "measuring on the test records", lambda: measure(problem, data, None, model), UNMEASURED
    )
    curves: dict[str, HostArray] = {}
    if wanted.curves:
        curves = attempts.attempt(
            "the curves on the test records",
            lambda: curves_on_test(problem, data, released.models),
            curves,
        )
    if opened:
        error, loss = attempts.attempt(
            "measuring on the training records",
            lambda: on_training(problem, data, shards or data.shards(proposal.precision), model),
            (math.nan, math.nan),
            private=not public,
        )
        metrics = dataclasses.replace(metrics, train_error=error, train_loss=loss)
    seconds = time.perf_counter() - began
    nonprivate = None
    if wanted.reference and opened:
        nonprivate = attempts.attempt(
            "the optimum without privacy",
            lambda: optimum(problem, data),
            None,
            private=not public,
        )
    return Measured(evaluation, metrics, curves, nonprivate, seconds)


def _evaluated(
    released: Outputs,
    proposal: Proposal,
    data: DividedData,
    attempts: Attempts,
    seed: int | None,
) -> Evaluated | None:
    """Return what held-out records say of a model that was released; None where that failed."""
    devices = None if data.local is None else data.local.devices
    asked = attempts.attempt(
        "the private evaluation",
        lambda: ask_held_out(
            proposal,
            released.plan,
            released.model,
            data.evaluated(),
            trained_on=released.origin,
            seed=seed,
            devices=devices,
        ),
        None,
    )
    if asked is None:
        return None
    unit = target_scale(data.dataset)[0]
    score = attempts.attempt(
        "the figures of the private evaluation",
        lambda: score_of_totals(
            proposal, asked.plan, asked.totals, scale_of(proposal, labels_of(proposal.data), unit)
        ),
        None,
    )
    return dataclasses.replace(asked, score=score)


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
