"""What a party of a run shows: progress on the terminal, lines for a log, a file for `status`."""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import typer

from tacit.cli.console import error_line, printable
from tacit.errors import InputError
from tacit.federation import Progress, Watch
from tacit.models import write_text
from tacit.report import strict

# events that somebody has to mend, as lines on the terminal
_TROUBLE = {
    "hub_away": "the hub cannot be reached",
    "hub_lost": "the connection to the hub was lost",
    "hub_died": "the server ended and is started again",
}
_SHOWN = 3


class Events:
    """Events of a run: JSON lines for a log, and lines for people where somebody has to act.

    Notes
    -----
    **Guarantee.** Values are public: names, numbers of rounds, seconds, errors of the network.
    """

    def __init__(self, log: TextIO | None, *, quiet: bool) -> None:
        self._log, self.quiet = log, quiet

    def __call__(self, event: str, **values: Any) -> None:
        """Write an event down, and show it where it is trouble."""
        if self._log is not None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
            line = strict({"time": now, "event": event, **values})
            print(json.dumps(line, allow_nan=False), file=self._log, flush=True)
        if event in _TROUBLE and not self.quiet:
            reason = values.get("reason")
            error_line(f"{_TROUBLE[event]}{f' ({reason})' if reason else ''}; waiting", kind="")


@contextmanager
def events_to(log: Path | None, *, quiet: bool) -> Iterator[Events]:
    """Yield events that are added to a file, if one is named."""
    if log is None:
        yield Events(None, quiet=quiet)
        return
    try:
        file = log.open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{log} cannot be written ({error.strerror}); name another file for --log"
        ) from None
    with file:
        yield Events(file, quiet=quiet)


class Shown:
    """The progress of a run: a line on a terminal, lines of a log, and a file for `status`."""

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
        write_text(json.dumps(strict(values)) + "\n", self._file)

    def done(self) -> None:
        """Leave the line of the terminal."""
        if self._line:
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


def watch(events: Events, shown: Shown) -> Watch:
    """Return both for `run_party`."""
    return Watch(event=events, progress=shown)
