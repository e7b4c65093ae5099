"""What is handed over of a finished run of a grid: a folder of files, and JSON or sentences."""

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
    certificate_text,
    charged_line,
    charged_values,
    json_text,
    plan_values,
    strict,
    write_folder,
)
from taciturn.training import digest_of
from taciturn_power.dispatch.study import OpfProposal, OpfStudy
from taciturn_power.state.study import Flow, GridProposal

# what a folder has beside the files of every report; an earlier report's may hold true demands
_FURTHER = (
    *("answers.json", "buses.csv", "dispatch.json", "dispatch.m", "generators.csv", "lines.csv"),
    *("state.json", "steps.csv", "ties.csv"),
)


@dataclass(frozen=True, eq=False)
class Report(ABC):
    """A finished run, and what is reported of it.

    `HEAD` are the first lines for the terminal, with the names of results in braces; `TOOK` says
    what took the seconds of the run; `warnings`, what a reader must know first.
    """

    HEAD: ClassVar[str]
    TOOK: ClassVar[str] = " to ask"

    study: OpfStudy | Flow
    warnings: tuple[str, ...]

    @property
    def data(self) -> str:
        """What the certificate calls the data."""
        return self.study.proposal.network.name

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Return what `results` has of its own kind of run; powers in MW, money in $."""

    @abstractmethod
    def rows(self) -> list[tuple[str, str]]:
        """Return the main results as (name, text), for the terminal and for the page."""

    @abstractmethod
    def files(self) -> Mapping[str, str]:
        """Return the files beside those of every report, by name; none holds a true demand."""

    def further(self) -> Mapping[str, Any]:
        """Return what `results.json` holds beside the results."""
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
    """Writes what a run answered, with its certificate, before anything is computed from it.

    Nothing is written where `out` is None.
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
        """Say of an error what was written before."""
        try:
            yield
        except Exception as error:
            if self.certificate is None:
                raise
            text = f"{reason(error)}. answers.json and the certificate stand in {self.out}"
        else:
            return
        raise InputError(text)


def _documents(
    run: Run, proposal: OpfProposal | GridProposal, data: str
) -> tuple[dict[str, str], str]:
    """Return proposal and plan by name of the file, and the certificate."""
    # the plan with the certificate of the run, which says whether a seed was given
    plan = dataclasses.replace(run.plan, certificate=run.certificate)
    texts = {"proposal.json": proposal.to_json() + "\n", "plan.json": json_text(plan_values(plan))}
    return texts, certificate_text(plan, data=data, proposal=proposal.digest)


def folder_texts(found: Report, page: str, out: Path) -> tuple[dict[str, str], str]:
    """Return the files of the folder by name, and the certificate.

    No file holds a true demand, but where the results may show it.
    """
    texts, certificate = _documents(found.study.run, found.study.proposal, found.data)
    results = json_text({**found.results(out), **found.further()})
    return {"results.json": results, **texts, "report.html": page, **found.files()}, certificate


def deliver(found: Report, page: Callable[[], Page], keeper: Keeper, *, json: bool) -> None:
    """Write the folder, if one is wanted, with the page, and print the results.

    **Guarantee.** With `force` no file of an earlier report of a grid stays beside those of this
    run: it may have been one without noise, with the true demands in it. Certificates stay.
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

    `oracle` shows figures that read a private demand; the demand stands in `files`.
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

    Demand stands in the files beside what is public, and was read with it.

    Raises `InputError` if another run in the account takes something else for a person (Guarantee),
    or the account cannot hold the run.

    **Guarantee.** Where the unit is a person, that is a bus (`hide` is "bus") or, of a day, one
    demand. What an account promises a person adds up only over runs that mean the same: a run that
    hides one demand costs a bus sqrt(2) times as much. So an account holds runs of one kind.
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
                f"in this run {person}, and account {account.name!r} holds runs of which that is "
                "not said; open an account for each, or hide the same"
            )
        what += f", {person}"
    account = confirmed(account, execution.files)
    check_chargeable(seed=execution.seed, conditional=plan.certificate.conditional)
    purpose = purpose_of(plan, what, proposal.digest)
    contents = [digest_of(file) for file in execution.files]
    with paying(account, charge_of(plan), purpose, contents) as reservation:
        yield reservation
