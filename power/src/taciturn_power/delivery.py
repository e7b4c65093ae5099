"""The results of a power flow: a folder of files, JSON or sentences; and its account."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import typer

import taciturn
from taciturn.budget import Account, Reservation
from taciturn.cli import confirmed, emit, error_line
from taciturn.engine import Run, charge_of, check_chargeable, paying, purpose_of
from taciturn.errors import InputError, reason
from taciturn.report import (
    CERTIFIED,
    Page,
    certificate_file,
    charged_line,
    charged_values,
    json_text,
    plan_values,
    strict,
    write_folder,
)
from taciturn.tables import digest_of
from taciturn_power.dispatch.study import OpfProposal, OpfStudy
from taciturn_power.state.study import Flow, GridProposal

# further files of a folder, deleted before a new report: earlier ones may hold true demands
_FURTHER = (
    *("answers.json", "buses.csv", "dispatch.json", "dispatch.m", "generators.csv", "lines.csv"),
    *("state.json", "steps.csv", "ties.csv"),
)


@dataclass(frozen=True, eq=False)
class Report(ABC):
    """A finished run with its report.

    `HEAD` are the first lines on the terminal, with names of results in braces; `TOOK` completes
    the sentence about the running time; `warnings` are shown first.
    """

    HEAD: ClassVar[str]
    TOOK: ClassVar[str] = " to ask"

    study: OpfStudy | Flow
    warnings: tuple[str, ...]

    @property
    def data(self) -> str:
        """The name of the data in the certificate."""
        return self.study.proposal.network.name

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Return the results of this kind of run; powers in MW, money in $."""

    @abstractmethod
    def rows(self) -> list[tuple[str, str]]:
        """Return the main results as (name, text), for the terminal and for the page."""

    @abstractmethod
    def files(self) -> Mapping[str, str]:
        """Return the files beside those of every report, by name; none holds a true demand."""

    def further(self) -> Mapping[str, Any]:
        """Return further values of `results.json`."""
        return {}

    def results(self, out: Path | None) -> dict[str, Any]:
        """Return the results, for a folder or for none, as strictly valid JSON values."""
        run = self.study.run
        values: dict[str, Any] = strict(
            {
                **self.values(),
                **{name: getattr(run.certificate, name) for name in CERTIFIED},
                "account": charged_values(run.charged),
                "seconds": run.seconds,
                "out": None if out is None else str(out),
                "warnings": self.warnings,
                "proposal": self.study.proposal.digest,
                "plan": run.plan.digest,
                "version": taciturn.__version__,
            }
        )
        return values

    def sentences(self, out: Path | None) -> str:
        """Return the results for the terminal."""
        run, rows = self.study.run, self.rows()
        width = max(len(name) for name, _ in rows)
        lines = [
            self.HEAD.format_map(self.results(out)),
            "",
            "Certificate",
            *(f"  {line}" for line in run.certificate.lines()),
            "",
            *(f"{name.ljust(width)}  {text}" for name, text in rows),
            charged_line(run.charged),
            f"Took {run.seconds:.1f} s{self.TOOK}",
            f"Report: {out / 'report.html'}"
            if out
            else "No report was written; --out DIR writes one",
        ]
        return "\n".join(lines)


@dataclass
class Keeper:
    """Writes the answers of a run, with its certificate, before anything is computed from them.

    Nothing is written if `out` is None.
    """

    out: Path | None
    force: bool
    certificate: Path | None = None

    def keep(self, proposal: OpfProposal | GridProposal, data: str, run: Run) -> None:
        """Write answers, proposal, plan and certificate; if that fails, `deliver` tries again."""
        if self.out is None:
            return
        texts, certificate = _documents(run, proposal, data)
        texts["answers.json"] = json_text({"answers": np.asarray(run.model).tolist()})
        obsolete = (*_FURTHER, "results.json", "report.html")
        try:
            self.certificate = write_folder(
                texts, self.out, force=self.force, obsolete=obsolete, certificate=certificate
            )
        except InputError as error:
            error_line(f"{error}; the run goes on", kind="warning: ")

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Add to an error which files have been written."""
        try:
            yield
        except Exception as error:
            if self.certificate is None:
                raise
            text = f"{reason(error)}. answers.json and the certificate are in {self.out}"
        else:
            return
        raise InputError(text)


def _documents(
    run: Run, proposal: OpfProposal | GridProposal, data: str
) -> tuple[dict[str, str], str]:
    """Return proposal and plan by name of the file, and the certificate."""
    # with the certificate of the run, which states whether a seed was given
    plan = dataclasses.replace(run.plan, certificate=run.certificate)
    texts = {"proposal.json": proposal.to_json() + "\n", "plan.json": json_text(plan_values(plan))}
    return texts, certificate_file(plan, data=data, proposal=proposal.digest)


def folder_texts(found: Report, page: str, out: Path) -> tuple[dict[str, str], str]:
    """Return the files of the folder by name, and the certificate.

    Only results that may show a true demand hold one.
    """
    texts, certificate = _documents(found.study.run, found.study.proposal, found.data)
    results = json_text({**found.results(out), **found.further()})
    return {"results.json": results, **texts, "report.html": page, **found.files()}, certificate


def deliver(found: Report, page: Callable[[], Page], keeper: Keeper, *, json: bool) -> None:
    """Write the folder, if one is wanted, with the page, and print the results.

    **Guarantee.** With `force` the files of an earlier report are deleted, except certificates:
    that run may have been without noise, and its files hold the true demands.
    """
    out, kept = keeper.out, keeper.certificate is not None
    if out is not None:
        texts, certificate = folder_texts(found, page().html(), out)
        write_folder(
            texts,
            out,
            force=keeper.force or kept,
            obsolete=_FURTHER,
            certificate=None if kept else certificate,
        )
    if json:
        emit(found.results(out))
    else:
        typer.echo(found.sentences(out))


_RUN = "power flow on "


@dataclass(frozen=True)
class Execution:
    """How a run is carried out.

    `oracle` shows figures that read a private demand; `files` hold the demand.
    """

    seed: int | None
    oracle: bool
    account: Account | None
    files: tuple[Path, ...]
    keeper: Keeper


@contextmanager
def reserved(
    execution: Execution, proposal: GridProposal | OpfProposal
) -> Iterator[Reservation | None]:
    """Yield the reservation for a proposal, begun; closed as failed unless the run closes it.

    The files hold public facts and demand, and are read before the run begins. Raises `InputError`
    if another run in the account has another notion of a person, or the account cannot hold the
    run.

    **Guarantee.** A person is a bus (`hide` is "bus") or, of a day, one demand. Costs of runs add
    up only for the same notion of a person: a run that hides one demand costs a bus sqrt(2) times
    as much. So an account holds runs of one kind.
    """
    account = execution.account
    if account is None:
        yield None
        return
    plan = proposal.plan()
    what = f"{_RUN}{proposal.network.name}"
    if plan.terms.adjacency.unit == "person" and isinstance(proposal, OpfProposal):
        person = f"a person is one {proposal.hide}"
        held = [run.purpose.what for run in account.state().charged]
        if any(one.startswith(_RUN) and not one.endswith(person) for one in held):
            raise InputError(
                f"in this run {person}, and account {account.name!r} holds runs with another unit; "
                "open an account for each, or hide the same"
            )
        what += f", {person}"
    contents = [digest_of(file) for file in execution.files]
    account = confirmed(account, contents)
    check_chargeable(seed=execution.seed, conditional=plan.certificate.conditional)
    purpose = purpose_of(plan, what, proposal.digest)
    with paying(account, charge_of(plan), purpose, contents) as reservation:
        yield reservation
