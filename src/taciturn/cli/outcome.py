"""What `taciturn train` writes as soon as a run has ended, and its final report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import typer

from taciturn import report
from taciturn.budget import Account
from taciturn.cli.accounts import confirmed, failed_if_interrupted
from taciturn.cli.console import bar, emit, error_line, interruptible, printable
from taciturn.errors import reason
from taciturn.report import ORACLE, charged_line, error_name, numbered, results, save
from taciturn.tables import Report
from taciturn.training import (
    Attempts,
    Counted,
    Metrics,
    Proposal,
    Training,
    agent_rows,
    train,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Output:
    """Which results are computed, where they go, and the progress display of reading."""

    out: Path | None
    force: bool
    reference: bool
    oracle_metrics: bool
    json: bool
    reading: Report | None = None


@dataclass
class Keeper:
    """Writes what a run released before anything else is computed.

    `save` writes it, into a folder; `certificate` is its file, once written; `elsewhere` the folder
    used instead, if the requested one could not be written.
    """

    output: Output
    save: Callable[..., Path] = report.save_released
    certificate: Path | None = None
    elsewhere: Path | None = None

    @property
    def folder(self) -> Path | None:
        """Where the report goes."""
        return self.elsewhere or self.output.out

    def keep(self, training: Training) -> None:
        """Write model, trace and certificate, if a report is asked for."""
        if self.folder is not None:
            self.certificate = self.save(training, self.folder, force=self.output.force)

    def settle(self, training: Training) -> None:
        """Write it now if it could not be written before, if necessary into another folder.

        If no folder can be written, nothing is raised: the certificate is only printed.
        """
        if self.folder is None or self.certificate is not None:
            return
        try:
            self.keep(training)
        except Exception as error:  # any: the run was charged
            warned(f"{reason(error)}. What was released goes into another folder")
            with suppress(Exception):
                self.elsewhere = folder = Path(tempfile.mkdtemp(prefix="taciturn-"))
                self.keep(training)
            if self.elsewhere is not None and self.certificate is None:
                warned("no folder can be written; the certificate is only printed here")
                self.elsewhere = None
                with suppress(OSError):
                    folder.rmdir()  # if it is empty


def warned(text: str) -> None:
    """Print a warning in one line."""
    error_line(text, kind="warning: ")


def released(
    counted: Counted, proposal: Proposal, account: Account | None, keeper: Keeper, *, shown: bool
) -> Training:
    """Run a proposal on counted records, charge the account, and write what it releases.

    The user confirms an account that other records were charged to. `shown`: whether to show the
    progress.
    """
    if account is not None:
        account = confirmed(account, (file.digest for file in counted.files), counted.columns)
    with failed_if_interrupted(account), bar(proposal.rounds, shown=shown) as progress:
        training = interruptible(
            lambda: train(
                counted,
                proposal,
                report=progress,
                warn=warned,
                account=account,
                release=keeper.keep,
                trace=False,
            )
        )
    keeper.settle(training)
    return training


def computed(training: Training, keeper: Keeper, make: Callable[[], T]) -> T:
    """Return what is made of a released answer, which is not lost if that fails.

    If no report was asked for, the answer then goes into a new folder.
    """
    try:
        return make()
    except Exception as error:
        if keeper.folder is None:
            keeper.elsewhere = Path(tempfile.mkdtemp(prefix="taciturn-"))
            keeper.keep(training)
        warned(f"the answer cannot be shown: {reason(error)}. It is in {keeper.folder}")
        raise typer.Exit(2) from None


def deliver(
    training: Training,
    keeper: Keeper,
    *,
    further: Mapping[str, Any] | None = None,
    head: Sequence[str] = (),
) -> None:
    """Write the report, if one is requested, and print the results below the lines `head`.

    A part that fails is one line on standard error; model, trace and certificate stay. The values
    of `further` are added to the results.
    """
    attempts, given = Attempts(warned), keeper.output
    keeper.settle(training)
    out, certificate = keeper.folder, keeper.certificate
    if out is not None and certificate is not None:
        write = partial(save, training, out, oracle=given.oracle_metrics, further=further)
        attempts.attempt(
            "writing the report",
            lambda: write(force=True, certificate=certificate, warn=warned),
            None,
        )
    if given.oracle_metrics:
        warned(f"{ORACLE} is computed from private records; do not publish it")
    if given.json:
        attempts.attempt("printing the results", lambda: _print_json(training, out, further), None)
    kept = out is None or (certificate is not None and keeper.elsewhere is None)
    usable = bool(np.all(np.isfinite(training.models[-1])))  # no file holds any other model
    complete = kept and usable and not attempts.failures
    if not given.json:
        certified = [f"  {line}" for line in training.certificate.lines()]
        spent = agent_rows(training.proposal, training.plan, training.certificate)
        certified += [f"  {name.capitalize()}: {text}" for name, text in spent]
        typer.echo("\n".join([*map(printable, head), "", "Certificate", *certified]))
        attempts.attempt("printing the figures", lambda: _print_figures(training), None)
        typer.echo("\n".join([f"Took {training.seconds:.1f} s", *_where(certificate)]))
    if not complete:
        raise typer.Exit(2)


def _print_json(training: Training, out: Path | None, further: Mapping[str, Any] | None) -> None:
    for warning in training.assessment.warnings if training.assessment else ():
        warned(warning)
    emit({**results(training, out), **(further or {})})


def _print_figures(training: Training) -> None:
    score, account = training.private_score, charged_line(training.charged)
    private = [] if score is None else [*map(printable, score.lines()), ""]
    typer.echo("\n".join(["", account, *private, *_measured(training)]))


def _where(certificate: Path | None) -> list[str]:
    """Return where the report is, and how many earlier certificates are beside it."""
    if certificate is None:
        return ["No report was written; --out DIR writes one"]
    out, earlier = certificate.parent, len(numbered(certificate.parent)) - 1
    page, line = out / "report.html", f"Certificate: {certificate}"
    if earlier:
        those = "that of an earlier run is"
        those = those if earlier == 1 else f"those of {earlier} earlier runs are"
        line += f"; {those} kept beside it, and losses on the same records add up"
    there = [("Report", page), ("Model", out / "model.json")]
    return [*(f"{name}: {file}" for name, file in there if file.exists()), line]


def _measured(training: Training) -> list[str]:
    """Return the test error, that of the baseline, and warnings."""
    assessment = training.assessment
    if assessment is None and training.failures:
        return []
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
