"""What is handed over of a finished run of a grid: a folder of files, and JSON or sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

import taciturn
from taciturn.budget import Account, Reservation
from taciturn.cli import begun, confirmed, emit, error_line
from taciturn.engine import Plan, Run, reserve
from taciturn.errors import InputError, reason
from taciturn.proposal import Document
from taciturn.report import (
    CERTIFIED,
    Page,
    certificate_text,
    charged_line,
    charged_values,
    json_text,
    strict,
    write_folder,
)
from taciturn_power.dispatch.study import OpfProposal
from taciturn_power.state.study import GridProposal

# what a folder has beside the files of every report; an earlier report's may hold true demands
_FURTHER = (
    "answers.json",
    "buses.csv",
    "dispatch.json",
    "dispatch.m",
    "generators.csv",
    "lines.csv",
    "state.json",
    "steps.csv",
    "ties.csv",
)


@dataclass
class Keeper:
    """Writes what a run answered, with its certificate, before anything is computed from it.

    Nothing is written where `out` is None.
    """

    out: Path | None
    force: bool
    certificate: Path | None = None

    def keep(self, proposal: Document, data: str, run: Run) -> None:
        """Write answers, proposal, plan and certificate; if that fails, `deliver` tries again."""
        if self.out is None:
            return
        texts = {
            "answers.json": json_text({"answers": np.asarray(run.model).tolist()}),
            **_documents(run, proposal),
        }
        text = certificate_text(_stamped(run), data=data, proposal=proposal.digest)
        obsolete = (*_FURTHER, "results.json", "report.html")
        try:
            self.certificate = write_folder(
                texts, self.out, force=self.force, obsolete=obsolete, certificate=text
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


class Summary(NamedTuple):
    """What is reported of a finished run.

    Attributes
    ----------
    data
        What the certificate calls the data.
    results, further
        The results for a folder, or for none; and what `results.json` holds beside them.
    files
        The files beside those of every report, by name.
    rows
        The main results as (name, text).
    head
        The first lines for the terminal, with the names of results in braces.
    took
        What took the seconds of the run.
    """

    run: Run
    proposal: Document
    data: str
    results: Callable[[Path | None], dict[str, Any]]
    files: Callable[[], Mapping[str, str]]
    rows: Callable[[], list[tuple[str, str]]]
    head: str
    took: str = " to ask"
    further: Mapping[str, Any] = {}


def run_values(
    run: Run, proposal: Document, out: Path | None, warnings: tuple[str, ...], **further: Any
) -> dict[str, Any]:
    """Return the last of the results of any run: certificate, charge, time, and what it was."""
    return {
        **{name: getattr(run.certificate, name) for name in CERTIFIED},
        "account": charged_values(run.charged),
        "seconds": run.seconds,
        "out": None if out is None else str(out),
        "warnings": warnings,
        **further,
        "proposal": proposal.digest,
        "plan": run.plan.digest,
        "version": taciturn.__version__,
    }


def folder_texts(summary: Summary, page: str, out: Path) -> tuple[dict[str, str], str]:
    """Return the files of the folder by name, and the certificate.

    No file holds a true demand, but where the results may show it.
    """
    texts = {
        "results.json": json_text({**summary.results(out), **summary.further}),
        **_documents(summary.run, summary.proposal),
        "report.html": page,
        **summary.files(),
    }
    text = certificate_text(
        _stamped(summary.run), data=summary.data, proposal=summary.proposal.digest
    )
    return texts, text


def _documents(run: Run, proposal: Document) -> dict[str, str]:
    plan = _stamped(run)
    return {
        "proposal.json": proposal.to_json() + "\n",
        "plan.json": json_text(strict({**plan.to_dict(), "digest": plan.digest})),
    }


def _stamped(run: Run) -> Plan:
    """Return the plan with the certificate of the run, which says whether a seed was given."""
    return dataclasses.replace(run.plan, certificate=run.certificate)


def deliver(summary: Summary, page: Callable[[], Page], keeper: Keeper, *, json: bool) -> None:
    """Write the folder, if one is wanted, and print the results.

    Notes
    -----
    **Guarantee.** With `force` no file of an earlier report of a grid stays beside those of this
    run: it may have been one without noise, with the true demands in it. Certificates stay.
    """
    out, kept = keeper.out, keeper.certificate is not None
    if out is not None:
        texts, certificate = folder_texts(summary, page().html(), out)
        write_folder(
            texts,
            out,
            force=keeper.force or kept,
            obsolete=_FURTHER,
            certificate=None if kept else certificate,
        )
    if json:
        emit(summary.results(out))
    else:
        typer.echo(_sentences(summary, out))


def _sentences(summary: Summary, out: Path | None) -> str:
    rows = summary.rows()
    width = max(len(name) for name, _ in rows)
    lines = [
        summary.head.format_map(summary.results(out)),
        "",
        "Certificate",
        *(f"  {line}" for line in summary.run.certificate.lines()),
        "",
        *(f"{name.ljust(width)}  {text}" for name, text in rows),
        charged_line(summary.run.charged),
        f"Took {summary.run.seconds:.1f} s{summary.took}",
        f"Report: {out / 'report.html'}" if out else "No report was written; --out DIR writes one",
    ]
    return "\n".join(lines)


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

    Raises
    ------
    InputError
        If another run in the account takes something else for a person (Guarantee), or the account
        cannot hold the run.

    Notes
    -----
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
        _check_person(account, person)
        what += f", {person}"
    account, contents = confirmed(account, execution.files)
    reservation = reserve(account, plan, seed=execution.seed, what=what, proposal=proposal.digest)
    try:
        begun(reservation, contents)
        yield reservation
    finally:
        reservation.close(released=False)


def _check_person(account: Account, person: str) -> None:
    runs = [run.purpose.what for run in account.state().charged]
    if any(what.startswith(_RUN) and not what.endswith(person) for what in runs):
        raise InputError(
            f"in this run {person}, and account {account.name!r} holds runs of which that is not "
            "said; open an account for each, or hide the same"
        )
