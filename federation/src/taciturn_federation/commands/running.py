"""A party of a study as a process: it runs until the end, and writes what there is to report."""

from __future__ import annotations

import datetime
import io
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taciturn.algorithms import Method
from taciturn.budget import Account, private_folder, private_opener
from taciturn.cli import emit, error_line, interruptible, methods_with, path, printable
from taciturn.engine import Charged
from taciturn.errors import InputError, TaciturnError
from taciturn.models import write_text
from taciturn.report import FIRST_CERTIFICATE, check_out, strict
from taciturn.training import PrivateScore
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.coordinator import Coordinator
from taciturn_federation.folders import SiteFolder, StudyFolder
from taciturn_federation.interface import Outcome, Party, Progress
from taciturn_federation.journal import Journal
from taciturn_federation.keys import public_key
from taciturn_federation.local import LastQuestion, derive
from taciturn_federation.masks import remove_stale_keys
from taciturn_federation.reports import Ended, ended_values, lines_of, save_ended
from taciturn_federation.site import Site
from taciturn_federation.transport import Link, Watch, decline, run_party

# events that somebody has to mend, as lines on the terminal
_TROUBLE = {
    "hub_away": "the hub cannot be reached",
    "hub_lost": "the connection to the hub was lost",
    "hub_died": "the server ended and is started again",
    "hub_stale": "the server runs on as it was",
}
_SHOWN = 3


class Events:
    """Events of a run: JSON lines for a log, and lines for people where somebody has to act.

    Neither a full disk nor a closed terminal raises here: a run does not end because its log cannot
    be written. Each line is appended to `log`, without a buffer, in one write. One for which the
    disk has no room is dropped; the next line that fits is preceded by the number of those dropped.

    **Guarantee.** Values are public: names, numbers of rounds, seconds, errors of the network.
    """

    def __init__(self, log: io.RawIOBase | None, *, quiet: bool) -> None:
        self._log, self.quiet = log, quiet
        self._dropped, self._broken = 0, False

    def report(self, line: str) -> None:
        """Write down a line that a party has for its owner."""
        self("said", line=line)

    def __call__(self, event: str, **values: Any) -> None:
        """Write an event down, and show it where it is trouble."""
        if self._dropped and self._append("log_gap", {"dropped": self._dropped}):
            self._dropped = 0
        if self._dropped or not self._append(event, values):
            self._dropped += 1
        if event in _TROUBLE and not self.quiet:
            reason = values.get("reason")
            with suppress(OSError):
                error_line(f"{_TROUBLE[event]}{f' ({reason})' if reason else ''}; waiting", kind="")

    def _append(self, event: str, values: Mapping[str, Any]) -> bool:
        """Append a JSON object as one line; whether there was room for it, or no log."""
        if self._log is None:
            return True
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps(strict({"time": now, "event": event, **values}), allow_nan=False)
        content = b"\n" * self._broken + line.encode() + b"\n"
        try:
            written = self._log.write(content)
        except OSError:
            return False
        # a full disk may take the first bytes of a line; what follows starts on a line of its own
        self._broken = self._broken if not written else written < len(content)
        return written == len(content)


@contextmanager
def events_to(log: Path | None, *, quiet: bool) -> Iterator[Events]:
    """Yield events that are added to a file, if one is named."""
    if log is None:
        yield Events(None, quiet=quiet)
        return
    try:
        file = open(log, "ab", buffering=0, opener=private_opener)  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(
            f"{log} cannot be written ({error.strerror}); name another file for --log"
        ) from None
    with file:
        yield Events(file, quiet=quiet)


class Shown:
    """The progress of a run: a line on a terminal, lines of a log, and a file for `status`.

    A file that cannot be written keeps its last content; `status` then shows how old that is.
    """

    def __init__(self, events: Events, file: Path, *, quiet: bool) -> None:
        self._events, self._file = events, file
        self._line = sys.stderr.isatty() and not quiet
        self._last: tuple[int, tuple[str, ...]] | None = None
        self._said: dict[str, Any] = {}

    def __call__(self, progress: Progress) -> None:
        """Show where a run stands."""
        self._said = progress._asdict()
        self._write()
        if self._line:
            with suppress(OSError):
                typer.echo(f"\r\x1b[K{printable(progress_text(progress))}", err=True, nl=False)
        stands = (progress.round, tuple(progress.waiting_for))
        if stands != self._last:
            self._last = stands
            self._events("progress", **progress._asdict())

    def ended(self, ending: str, rounds: int) -> None:
        """Say for `status` how a run ended."""
        self._said = {**Progress(rounds, rounds, (), 0.0)._asdict(), **self._said}
        self._write(ending=ending)

    def _write(self, **more: str) -> None:
        values = {**self._said, **more, "at": time.time()}
        with suppress(InputError):
            write_text(json.dumps(strict(values)) + "\n", self._file)

    def done(self) -> None:
        """Leave the line of the terminal."""
        if self._line:
            with suppress(OSError):
                typer.echo(err=True)


def progress_text(progress: Progress) -> str:
    """Return where a run stands in one line.

    Examples
    --------
    >>> progress_text(Progress(3, 50, ("mercy",), 1.25))
    'round 3 of 50; waiting 1.2 s for mercy'
    """
    names = progress.waiting_for
    text = f"round {progress.round} of {progress.rounds}"
    if not names:
        return text
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{text}; waiting {progress.seconds:.1f} s for {', '.join(names[:_SHOWN])}{more}"


def stands_in(file: Path) -> str | None:
    """Return where a run stood when its process last said so, or how it ended; None if never."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        stood = Progress(**{name: values[name] for name in Progress._fields})
        text = values.get("ending") or progress_text(stood)
        return f"{text} ({time.time() - values['at']:.0f} s ago)"
    except (OSError, ValueError, KeyError, TypeError):
        return None


INTERRUPTED = 130


def group() -> typer.Typer:
    """Return an empty group of commands."""
    return typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None,
                       pretty_exceptions_enable=False)  # fmt: skip


# options of both commands
Algorithm = Annotated[
    str | None, typer.Option(help="module:Class, if the proposal is for that: its code is run.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Log = Annotated[
    Path | None, typer.Option("--log", parser=path, help="A file to add a JSON line per event to.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
ReportFolder = Annotated[
    Path | None,
    typer.Option(parser=path, help="A new folder for the report; else one beside the journal."),
]


@dataclass(frozen=True)
class Shows:
    """What a party is asked to show, and where."""

    # the folder of the report; None for the one that is kept with the party's journal
    out: Path | None
    force: bool
    quiet: bool
    log: Path | None
    json: bool

    def check(self, kept: Path) -> None:
        """Raise `InputError` if the report cannot be written."""
        check_out(kept if self.out is None else self.out, force=self.out is None or self.force)


def methods_for(signed: SignedProposal, algorithm: str | None) -> Mapping[str, Method]:
    """Return the table of methods for a proposal.

    Raises `InputError` if the proposal is for a method of someone's own that is not named here.

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
    kept = site.report_folder(signed)
    shows.check(kept)
    agent, key, link = site.take_part(signed), site.signing_key(), _link(site)
    coordinator = public_key(site.invitation.key)
    with events_to(shows.log, quiet=shows.quiet) as events:
        with _declining(signed, agent, key, link):
            local = interruptible(
                lambda: derive(
                    signed, site.source(data), agent=agent, coordinator=coordinator, seed=seed,
                    methods=methods,
                )
            )  # fmt: skip
        if local.plan.program.summed:
            signed.check_agreed(agreed)
        journal = Journal(site.journal)
        for line in remove_stale_keys(journal, but=signed.digest):
            events.report(line)
        with _declining(signed, agent, key, link):
            party = Site(local, journal, key, account=account, report=events.report)
        began = time.monotonic()
        outcome = _run(party, link, events, site.progress_file(signed), shows)
        charged = None
        if account is not None:
            charged = Charged(account.name, party.charged_as, *account.around(party.charged_as))
        seconds, score = time.monotonic() - began, _score(local.last, outcome)
        ended = Ended(signed=signed, plan=local.plan, outcome=outcome, score=score,
                      seconds=seconds, agent=agent, charged=charged)  # fmt: skip
        _report(ended, shows, kept)


def coordinate(
    study: StudyFolder, signed: SignedProposal, methods: Mapping[str, Method], *, shows: Shows
) -> None:
    """Run the coordinator of a run until the end, and report it."""
    folder, kept = study.run_folder(signed), study.report_folder(signed)
    shows.check(kept)
    private_folder(folder)
    with events_to(shows.log, quiet=shows.quiet) as events:
        journal, key = Journal(folder / "journal"), study.signing_key()
        party = interruptible(
            lambda: Coordinator(signed, journal, key, methods=methods, report=events.report)
        )
        began = time.monotonic()
        outcome = _run(party, _link(study), events, folder / "progress.json", shows)
        seconds, score = time.monotonic() - began, _score(party.last, outcome)
        ended = Ended(signed=signed, plan=party.plan, outcome=outcome, score=score, seconds=seconds)
        _report(ended, shows, kept)


def _link(folder: StudyFolder | SiteFolder) -> Link:
    return Link(folder.invitation.hub, folder.invitation.certificate, folder.nkey())


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
        outcome = run_party(party, link, Watch(event=events, progress=shown))
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
    """Write the report and say how it ended; without a model that is an error."""
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


def check_free(file: Path, *, force: bool) -> None:
    """Raise `InputError` if a file exists, unless it is a plain one that may be replaced."""
    if file.exists() and not (force and file.is_file()):
        raise InputError(f"{file} exists; name a new file with --out, or pass --force")


def say(*lines: str) -> None:
    """Print lines, each without control characters."""
    typer.echo("\n".join("\n".join(map(printable, line.split("\n"))) for line in lines))
