"""The results of a training as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tacit
from tacit.report.between import between_agents
from tacit.report.errors import error_name
from tacit.report.strict import strict
from tacit.training import Training

CERTIFIED = (
    "epsilon",
    "delta",
    "mu",
    "relation",
    "unit",
    "record",
    "observer",
    "trust",
    "reproduction",
    "attacker_tpr",
)


def results(training: Training, out: Path | None) -> dict[str, Any]:
    """Return the results of a training as strictly valid JSON values.

    Errors are fractions in [0, 1]; of numbers, the root of the mean squared error in the units of
    the target (`error` says which). `seconds` is wall time, an infinite epsilon is the text
    "infinity". `epsilon`, `delta` and `mu` are the certified totals of the whole run.

    Parameters
    ----------
    out
        Where the report lies; None if none was written.

    Notes
    -----
    **Guarantee.** Metrics are un-noised looks at records (oracle metrics) and lie outside the
    certificate. They are given for published data only; of a user's table only those on test
    records that the user declares public. All others are None; see `oracle_metrics`.
    """
    certificate, dataset = training.certificate, training.dataset
    between = between_agents(training)
    values = {
        "algorithm": training.proposal.method.name,
        "data": dataset.name,
        "agents": len(training.proposal.counts),
        "records": dataset.train_rows,
        "rounds": training.plan.rounds,
        **{name: getattr(certificate, name) for name in CERTIFIED},
        "conditions": certificate.conditions,
        **({} if between is None else {"between_agents": between}),
        "conditional": training.conditional,
        "error": error_name(training),
        **_metrics(training),
        "seconds": training.seconds,
        "out": None if out is None else str(out),
        "split_seed": training.proposal.split_seed,
        "warnings": training.warnings,
        "proposal": training.proposal.digest,
        "plan": training.plan.digest,
        "version": tacit.__version__,
    }
    plain: dict[str, Any] = strict(values)
    return plain


def curves(training: Training) -> dict[str, list[float]]:
    """Return test error and test loss after every round; nothing where the data is not public."""
    if not training.shows_test:
        return {}
    values: dict[str, list[float]] = strict(training.curves)
    return values


def curves_text(shown: dict[str, list[float]]) -> str:
    """Return `curves` as CSV, a line for each round.

    Examples
    --------
    >>> print(curves_text({"test_error": [0.5, 0.25]}), end="")
    round,test_error
    1,0.5
    2,0.25
    """
    rows = zip(*shown.values(), strict=True)
    lines = [",".join([str(number), *map(repr, row)]) for number, row in enumerate(rows, start=1)]
    return "\n".join([",".join(["round", *shown]), *lines]) + "\n"


def _metrics(training: Training) -> dict[str, float | None]:
    """Return what was measured on records, or None for each where it may not be shown."""
    measured, best = training.metrics, training.nonprivate
    values = {
        "test_error": measured.test_error,
        "test_loss": measured.test_loss,
        "train_loss": measured.train_loss,
        "nonprivate_test_error": None if best is None else best.test_error,
        "nonprivate_test_loss": None if best is None else best.test_loss,
    }
    shown = ("test_error", "test_loss") if training.shows_test else ()
    return {
        name: value if training.dataset.public or name in shown else None
        for name, value in values.items()
    }
