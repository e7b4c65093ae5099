"""A party of a study as a process: it runs until the end, and writes what there is to report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taciturn.algorithms import Method
from taciturn.budget import Account, private_folder
from taciturn.cli import (
    emit,
    error_line,
    interruptible,
    methods_with,
    printable,
)
from taciturn.engine import Charged
from taciturn.errors import InputError, TaciturnError
from taciturn.evaluation import PrivateScore
from taciturn.report import FIRST_CERTIFICATE, check_out
from taciturn_federation import (
    Coordinator,
    Ended,
    Journal,
    LastQuestion,
    Link,
    Outcome,
    Party,
    SignedProposal,
    Site,
    SiteFolder,
    StudyFolder,
    clear_masks,
    decline,
    derive,
    ended_values,
    lines_of,
    run_party,
    save_ended,
)
from taciturn_federation.commands.watching import Events, Shown, events_to, watch
from taciturn_federation.keys import public_key

INTERRUPTED = 130


@dataclass(frozen=True)
class Shows:
    """What a party is asked to show, and where.

    Attributes
    ----------
    out
        The folder of the report; None for the one that is kept with the party's journal.
    """

    out: Path | None
    force: bool
    quiet: bool
    log: Path | None
    json: bool

    def check(self, kept: Path) -> None:
        """Raise `InputError` if the report cannot be written.

        Parameters
        ----------
        kept
            The folder with the party's journal, which is named by the run.
        """
        check_out(kept if self.out is None else self.out, force=self.out is None or self.force)


def methods_for(signed: SignedProposal, algorithm: str | None) -> Mapping[str, Method]:
    """Return the table of methods for a proposal.

    Raises
    ------
    InputError
        If the proposal is for a method of someone's own that is not named here.

    Notes
    -----
    **Guarantee.** A proposal is data: no module is imported because a proposal names it, unless
    the user names the same one.
    """
    name = signed.proposal.method.name
    if ":" in name and algorithm != name:
        raise InputError(
            f"the proposal is for a method of someone's own, {name[:100]!r}; --algorithm "
            f"{name[:100]} imports and runs that code, so add it if you trust it"
        )
    if algorithm is not None and algorithm != name:
        raise InputError(f"the proposal is for {name}; leave --algorithm {algorithm} out")
    return methods_with(name)


def take_part(  # noqa: PLR0913 - what a site is run with
    site: SiteFolder,
    signed: SignedProposal,
    methods: Mapping[str, Method],
    *,
    data: Path | None,
    account: Account | None,
    seed: int | None,
    agreed: str | None,
    shows: Shows,
) -> None:
    """Run a site until the end, and report it."""
    shows.check(site.report_folder(signed))
    agent, key = site.take_part(signed), site.signing_key()
    coordinator = public_key(site.invitation.key)
    link = Link(site.invitation.hub, site.invitation.certificate, site.nkey())
    with events_to(shows.log, quiet=shows.quiet) as events:
        with _declining(signed, agent, key, link):
            local = interruptible(
                lambda: derive(
                    signed,
                    site.source(data),
                    agent=agent,
                    coordinator=coordinator,
                    seed=seed,
                    methods=methods,
                )
            )
        if local.plan.program.summed:
            signed.check_agreed(agreed)
        journal = Journal(site.journal)
        for line in clear_masks(journal, but=signed.digest):
            events("said", line=line)
        with _declining(signed, agent, key, link):
            party = Site(local, journal, key, account=account, report=_told(events))
        began = time.monotonic()
        outcome = _run(party, link, events, site.progress_file(signed), shows)
        charged = None
        if account is not None:
            charged = Charged(account.name, party.charged_as, *account.around(party.charged_as))
        _report(
            Ended(
                signed=signed,
                plan=local.plan,
                outcome=outcome,
                score=_score(local.last, outcome),
                seconds=time.monotonic() - began,
                agent=agent,
                charged=charged,
            ),
            shows,
            site.report_folder(signed),
        )


def coordinate(
    study: StudyFolder, signed: SignedProposal, methods: Mapping[str, Method], *, shows: Shows
) -> None:
    """Run the coordinator of a run until the end, and report it."""
    shows.check(study.report_folder(signed))
    folder = study.run_folder(signed)
    private_folder(folder)
    link = Link(study.invitation.hub, study.invitation.certificate, study.nkey())
    with events_to(shows.log, quiet=shows.quiet) as events:
        journal, key = Journal(folder / "journal"), study.signing_key()
        party = interruptible(
            lambda: Coordinator(signed, journal, key, methods=methods, report=_told(events))
        )
        began = time.monotonic()
        outcome = _run(party, link, events, folder / "progress.json", shows)
        _report(
            Ended(
                signed=signed,
                plan=party.plan,
                outcome=outcome,
                score=_score(party.last, outcome),
                seconds=time.monotonic() - began,
            ),
            shows,
            study.report_folder(signed),
        )


@contextmanager
def _declining(
    signed: SignedProposal, agent: int, key: Ed25519PrivateKey, link: Link
) -> Iterator[None]:
    """Tell the coordinator if the site cannot begin, so that the others do not wait for it."""
    try:
        yield
    except TaciturnError:
        decline(signed, agent, key, link)
        raise


def _score(last: LastQuestion | None, outcome: Outcome) -> PrivateScore | None:
    """Return what held-out records said of the model; None if none were asked."""
    return None if last is None or outcome.totals is None else last.score(outcome.totals)


def _run(party: Party, link: Link, events: Events, progress: Path, shows: Shows) -> Outcome:
    """Return the outcome of a party; an interrupt ends the process where it can go on."""
    shown = Shown(events, progress, quiet=shows.quiet)
    try:
        outcome = run_party(party, link, watch(events, shown))
    finally:
        shown.done()
    if outcome is None:
        events("interrupted")
        error_line("stopped; the same command goes on where it stood", kind="")
        raise typer.Exit(INTERRUPTED)
    events("ended", ending=outcome.ending, line=outcome.line)
    shown.ended(outcome.ending, party.progress().rounds)
    return outcome


def _report(ended: Ended, shows: Shows, kept: Path) -> None:
    """Write the report and say how it ended; without a model that is an error.

    Parameters
    ----------
    kept
        Where a report with a model is kept for which no folder was named: written once, since a
        folder named by the run is about no other.
    """
    out, certificate = shows.out, None
    if out is not None:
        certificate = save_ended(ended, out, force=shows.force)
    elif ended.outcome.model is not None:
        out, certificate = kept, kept / FIRST_CERTIFICATE
        if not certificate.exists():
            private_folder(kept.parent)
            certificate = save_ended(ended, kept, force=True)
    if shows.json:
        emit(ended_values(ended, out))
    elif ended.outcome.model is not None:
        typer.echo("\n".join(map(printable, lines_of(ended, certificate))))
    if ended.outcome.model is None:
        raise InputError(f"{ended.outcome.ending}: {ended.outcome.line}")


def _told(events: Events) -> Callable[[str], None]:
    """Return what tells the party's owner a line; how the run ended is said in the end."""

    def told(line: str) -> None:
        events("said", line=line)

    return told
