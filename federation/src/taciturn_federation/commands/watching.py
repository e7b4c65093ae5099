"""What a party of a run shows: progress on the terminal, lines for a log, a file for `status`."""

from __future__ import annotations

import datetime
import io
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer

from taciturn.budget import private_opener
from taciturn.cli import (
    error_line,
    printable,
)
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn.report import strict
from taciturn_federation import Progress, Watch

# events that somebody has to mend, as lines on the terminal
_TROUBLE = {
    "hub_away": "the hub cannot be reached",
    "hub_lost": "the connection to the hub was lost",
    "hub_died": "the server ended and is started again",
    "hub_stale": "the server runs on as it was",
}
_SHOWN = 3


class _Lines:
    """A log without a buffer: each line is appended in one write.

    A line for which the disk has no room is dropped and counted; the next line that fits is
    preceded by the number of lines dropped.
    """

    def __init__(self, file: io.RawIOBase) -> None:
        self._file, self._dropped, self._broken = file, 0, False

    def write(self, values: Mapping[str, Any]) -> None:
        """Append a JSON object as one line, or drop it."""
        if self._dropped and self._append({**_dated("log_gap"), "dropped": self._dropped}):
            self._dropped = 0
        if self._dropped or not self._append(values):
            self._dropped += 1

    def _append(self, values: Mapping[str, Any]) -> bool:
        line = json.dumps(values, allow_nan=False).encode() + b"\n"
        content = b"\n" + line if self._broken else line
        try:
            written = self._file.write(content)
        except OSError:
            return False
        # a full disk may take the first bytes of a line; what follows starts on a line of its own
        self._broken = self._broken if not written else written < len(content)
        return written == len(content)


class Events:
    """Events of a run: JSON lines for a log, and lines for people where somebody has to act.

    Neither a full disk nor a closed terminal raises here: a run does not end because its log cannot
    be written.

    Notes
    -----
    **Guarantee.** Values are public: names, numbers of rounds, seconds, errors of the network.
    """

    def __init__(self, log: _Lines | None, *, quiet: bool) -> None:
        self._log, self.quiet = log, quiet

    def __call__(self, event: str, **values: Any) -> None:
        """Write an event down, and show it where it is trouble."""
        if self._log is not None:
            self._log.write(strict({**_dated(event), **values}))
        if event in _TROUBLE and not self.quiet:
            reason = values.get("reason")
            with suppress(OSError):
                error_line(f"{_TROUBLE[event]}{f' ({reason})' if reason else ''}; waiting", kind="")


def _dated(event: str) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return {"time": now, "event": event}


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
        yield Events(_Lines(file), quiet=quiet)


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


def watch(events: Events, shown: Shown) -> Watch:
    """Return both for `run_party`."""
    return Watch(event=events, progress=shown)
