"""One private training run, end to end: share out, plan, run, measure."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.datasets import Dataset
from tacit.engine import run
from tacit.engine.plan import Plan
from tacit.privacy import Certificate, delta_warning
from tacit.problems import public_facts
from tacit.proposal.planning import coefficient_clip, planned
from tacit.proposal.request import Request
from tacit.proposal.structures import graph_conditions, graph_warning
from tacit.tables import Table
from tacit.training.material import material, share_out
from tacit.training.metrics import Metrics, curves_on_test, measure, optimum
from tacit.typing import HostArray


@dataclass(frozen=True)
class Training:
    """A finished training run.

    Attributes
    ----------
    curves
        `test_error` and `test_loss` of the released model after every round, `(T,)` each; empty
        where there are no test records.
    nonprivate
        The optimum of the same records without privacy; None if it was not asked for.
    seconds
        Wall time of planning, running and measuring; the non-private optimum is not counted.
    """

    request: Request
    dataset: Dataset | Table
    plan: Plan
    certificate: Certificate
    model: HostArray
    metrics: Metrics
    curves: dict[str, HostArray]
    nonprivate: Metrics | None
    seconds: float
    warnings: tuple[str, ...]

    @property
    def conditional(self) -> bool:
        """Whether the certificate rests on ranges, lists or a graph taken from the records."""
        return bool(bounds_warning(self.dataset) or graph_warning(self.request))

    @property
    def shows_test(self) -> bool:
        """Whether test metrics may be shown: the test records are published or declared public."""
        declared = self.dataset.public or isinstance(self.dataset, Table)
        return declared and not math.isnan(self.metrics.test_error)


def train(
    dataset: Dataset | Table,
    request: Request,
    *,
    reference: bool,
    report: Callable[[Any], None] | None = None,
) -> Training:
    """Return the training that `request` describes, on a data set or a user's table.

    Parameters
    ----------
    reference
        Whether to compute the non-private optimum of the same records too.
    report
        Called with the number of finished rounds.

    Raises
    ------
    InputError
        If the request cannot be met; the message names the fix.
    """
    warnings = (
        *delta_warning(request.delta, dataset.train_rows),
        *bounds_warning(dataset),
        *graph_warning(request),
    )
    subject = material(dataset, request)
    began = time.perf_counter()
    shards = share_out(subject)
    clip = coefficient_clip(subject.problem.loss, request)
    facts = public_facts(subject.problem, shards, clip=clip)
    made = planned(subject.problem, facts, request)
    done = run(
        made,
        shards,
        runtime="simulate",
        seed=request.seed,
        keep=frozenset({"models"}),
        report=report,
    )
    metrics = measure(subject, shards, done.model)
    curves = curves_on_test(subject, np.asarray(done.trace.models))
    seconds = time.perf_counter() - began
    nonprivate = optimum(subject) if reference else None
    conditions = (*dataset.conditions, *graph_conditions(request))
    certificate = dataclasses.replace(done.certificate, conditions=conditions)
    return Training(
        request, dataset, made, certificate, done.model, metrics, curves, nonprivate, seconds,
        warnings,
    )  # fmt: skip


def bounds_warning(dataset: Dataset | Table) -> tuple[str, ...]:
    """Return a warning if the bounds of a table were filled in from its records, else nothing."""
    if isinstance(dataset, Dataset) or dataset.bounds.origin == "public":
        return ()
    return (
        "the certificate is conditional: the bounds file was filled in from the records; put "
        'public ranges and lists in their place and write source = "public"',
    )
