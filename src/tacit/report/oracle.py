"""Metrics on private records, for the owner of the records alone."""

from __future__ import annotations

from typing import Any

from tacit.report.strict import strict
from tacit.tables import Table
from tacit.training import Training

WARNING = (
    "oracle metrics: computed from private records without noise and outside the certificate; do "
    "not publish this file"
)


def oracle_metrics(training: Training) -> dict[str, Any]:
    """Return what the records say about the model and themselves, as JSON-safe values.

    Notes
    -----
    **Guarantee.** None: these are un-noised functions of private records. They are written to a
    file of their own and appear in no other.
    """
    best, dataset = training.nonprivate, training.dataset
    values = {
        "warning": WARNING,
        "train_error": training.metrics.train_error,
        "train_loss": training.metrics.train_loss,
        "cells_outside_bounds": dataset.clipped if isinstance(dataset, Table) else None,
        "nonprivate_train_error": None if best is None else best.train_error,
        "nonprivate_train_loss": None if best is None else best.train_loss,
        "nonprivate_test_error": best.test_error if best and training.shows_test else None,
        "nonprivate_test_loss": best.test_loss if best and training.shows_test else None,
    }
    plain: dict[str, Any] = strict(values)
    return plain
