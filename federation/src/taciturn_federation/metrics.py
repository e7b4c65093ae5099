"""Metrics of a process in a file, for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from taciturn.errors import InputError
from taciturn_federation.inbox import Progress

_INTERVAL = 5.0  # between two writes of progress, seconds
_CONNECTED = {"connected": 1, "hub_away": 0, "hub_lost": 0}
# name below taciturn_, type and help
_FAMILIES = {
    "updated_timestamp_seconds": ("gauge", "When this file was written."),
    "events_total": ("counter", "Events of this process, by the names in its log."),
    "hub_connected": ("gauge", "Whether the hub is connected."),
    "rounds_finished": ("gauge", "Rounds of the run that this party has finished."),
    "rounds": ("gauge", "Rounds of the run."),
    "waiting_parties": ("gauge", "Parties whose messages are missing."),
    "waiting_seconds": ("gauge", "For how long messages are missing."),
    "runs": ("gauge", "Runs of a standing site, by state."),
    "ended": ("gauge", "How the run ended."),
}
_Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


class Metrics:
    """What a process counts, written atomically after every event and every 5 s.

    After the start a file that cannot be written is left as it is: a full disk ends no process, and
    the age of the file shows it.

    **Guarantee.** Values are public: numbers of rounds, parties, runs and events, and seconds.
    """

    def __init__(self, file: Path | None = None, **labels: str) -> None:
        """`labels` are added to every sample; without a `file` nothing is written.

        Raises `InputError` if the file cannot be written.
        """
        self._file, self._labels, self._written = file, labels, 0.0
        self._events: Counter[str] = Counter()
        self._values: _Samples = {}
        try:
            self._write()
        except OSError as error:
            raise InputError(
                f"{file} cannot be written ({error.strerror}); name another file for --metrics"
            ) from None

    def count(self, event: str, values: Mapping[str, Any]) -> None:
        """Count an event, and note what it says about hub and run."""
        self._events[event] += 1
        if event in _CONNECTED:
            self._values["hub_connected"] = {(): _CONNECTED[event]}
        if event == "ended":
            self._values["ended"] = {(("ending", str(values.get("ending"))),): 1}
        self.write()

    def show(self, progress: Progress, runs: Mapping[str, int] | None = None) -> None:
        """Note progress, and how many runs a standing site has in which state."""
        values = {
            "rounds_finished": progress.round, "rounds": progress.rounds,
            "waiting_parties": len(progress.waiting_for), "waiting_seconds": progress.seconds,
        }  # fmt: skip
        self._values |= {name: {(): value} for name, value in values.items()}
        if runs is not None:
            self._values["runs"] = {(("state", one),): count for one, count in runs.items()}
        if not 0 <= time.monotonic() - self._written < _INTERVAL:
            self.write()

    def write(self) -> None:
        """Write the file, if there is room."""
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        self._written = time.monotonic()
        part = self._file.with_name(f".{self._file.name}.{os.getpid()}.part")
        try:
            part.write_text(self.text(time.time()), encoding="utf-8")
            part.chmod(0o644)  # the exporter is another user, and all values are public
            part.replace(self._file)
        finally:
            part.unlink(missing_ok=True)

    def text(self, now: float) -> str:
        """Return the metrics in Prometheus' text exposition format; `now` in seconds since 1970."""
        found = dict(self._values)
        found["updated_timestamp_seconds"] = {(): now}
        found["events_total"] = {
            (("event", event),): float(n) for event, n in sorted(self._events.items())
        }
        return "".join(f"{line}\n" for line in self._lines(found))

    def _lines(self, found: _Samples) -> Iterator[str]:
        for name, (kind, about) in _FAMILIES.items():
            samples = found.get(name)
            if samples:
                yield f"# HELP taciturn_{name} {about}"
                yield f"# TYPE taciturn_{name} {kind}"
            for labels, value in (samples or {}).items():
                pairs = ",".join(
                    f'{key}="{_escaped(text)}"' for key, text in (*self._labels.items(), *labels)
                )
                yield f"taciturn_{name}{{{pairs}}} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
