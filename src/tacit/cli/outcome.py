"""What `tacit train` prints and writes in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from tacit.cli.console import emit, error_line, printable
from tacit.report import ORACLE, charged_line, error_name, numbered, results, save
from tacit.tables import Report
from tacit.training import Metrics, Training


@dataclass(frozen=True)
class Output:
    """Which results are computed, and where they go; who hears how many rows were read."""

    out: Path | None
    force: bool
    reference: bool
    oracle_metrics: bool
    json: bool
    reading: Report | None = None


def deliver(
    training: Training,
    output: Output,
    *,
    further: Mapping[str, Any] | None = None,
    head: Sequence[str] = (),
) -> None:
    """Write the report, if one is asked for, and print what came out.

    Parameters
    ----------
    further
        Values that stand beside the results, and in them.
    head
        Lines before all others.
    """
    out, oracle = output.out, output.oracle_metrics
    certificate = None
    if out is not None:
        certificate = save(training, out, force=output.force, oracle=oracle, further=further)
    if oracle:
        error_line(
            f"{ORACLE} is computed from private records; do not publish it", kind="warning: "
        )
    if output.json:
        for warning in training.assessment.warnings if training.assessment else ():
            error_line(warning, kind="warning: ")
        emit({**results(training, out), **(further or {})})
    else:
        typer.echo("\n".join([*map(printable, head), _sentences(training, certificate)]))


def _sentences(training: Training, certificate: Path | None) -> str:
    where = ["No report was written; --out DIR writes one"]
    if certificate is not None:
        out = certificate.parent
        where = [f"Report: {out / 'report.html'}", f"Model: {out / 'model.json'}"]
        where += _kept(certificate)
    promised = (f"  {line}" for line in training.certificate.lines())
    took = f"Took {training.seconds:.1f} s"
    score, account = training.private_score, charged_line(training.charged)
    private = [] if score is None else [*map(printable, score.lines()), ""]
    measured = [account, *private, *_measured(training)]
    return "\n".join(["", "Certificate", *promised, "", *measured, took, *where])


def _kept(certificate: Path) -> list[str]:
    """Return where the certificate is, and that earlier ones stand beside it."""
    earlier = len(numbered(certificate.parent)) - 1
    line = f"Certificate: {certificate}"
    if not earlier:
        return [line]
    others = "that of an earlier run is" if earlier == 1 else f"those of {earlier} earlier runs are"
    return [f"{line}; {others} kept beside it, and losses on the same records add up"]


def _measured(training: Training) -> list[str]:
    """Return the test error, that of the baseline, and what follows."""
    assessment = training.assessment
    if assessment is None:
        return ["Test error not shown: the records are private; --test FILE names public ones"]
    error = f"Test {error_name(training)} {_error(training, training.metrics)}"
    if not training.dataset.public:
        error += " (on the records that --test declares public)"
    elif training.nonprivate is None:
        error += " (non-private optimum not computed; --reference does)"
    else:
        error += f" (non-private optimum {_error(training, training.nonprivate)})"
    found = [*assessment.lines(), *(f"Warning: {text}" for text in assessment.warnings)]
    return [error, *map(printable, found)]


def _error(training: Training, metrics: Metrics) -> str:
    regression = training.dataset.task == "regression"
    return f"{metrics.test_error:.4g}" if regression else f"{metrics.test_error:.2%}"
