"""The processes that compute a command, seen by the one that started them and only watches.

When one of them ends before its time, by whatever signal, it ends the others and tells of it in one
line. What the first one prints passes through here, so that it need not wait for a reader: the
runtime of JAX ends a process a while after others are lost, whatever it is doing.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

from tacit.cli.cluster import DONE, WORKER, WRITTEN, Place
from tacit.cli.console import error_line
from tacit.errors import what_was_released

FAILED = 2  # the exit code
# seconds until others are asked to end as they should by themselves, and until they are ended
_NOTICED, _GRACE = 2.0, 5.0
_KINDS = ("tacit: error: ", "tacit: warning: ", "tacit: ")
_INTERRUPTED = "tacit: interrupted"
_ABORTED = -signal.SIGABRT  # by JAX, where nothing is heard of another one
_PIECE = 1 << 16


@dataclass
class Children:
    """The processes of a run that this one started.

    Attributes
    ----------
    processes
        By their number in the run.
    charges
        Whether the run charges an account.
    """

    processes: dict[int, subprocess.Popen[str]]
    charges: bool
    lines: dict[int, list[str]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    written: bool = False
    printed: SimpleQueue[bytes] = field(default_factory=SimpleQueue)
    unprinted: OSError | None = None

    @classmethod
    def start(cls, arguments: Sequence[str], places: Sequence[Place], *, charges: bool) -> Children:
        """Start the processes at these places with the arguments of this one."""
        children = cls({}, charges, {place.index: [] for place in places})
        try:
            for place in places:
                children.processes[place.index] = _started(arguments, place)
        except OSError:
            children._kill()
            raise
        return children

    def code(self) -> int:
        """Return the exit code once all have ended, after one line if one of them failed.

        Raises
        ------
        OSError
            If standard output took no more.
        KeyboardInterrupt
            If this process was interrupted. If all had done their part and it alone was, the first
            of those that compute has written its report by then.
        """
        listeners = [
            threading.Thread(target=self._listen, args=(index,), daemon=True)
            for index in self.processes
        ]
        if 0 in self.processes and self.processes[0].stdout is not None:
            listeners.append(threading.Thread(target=self._receive, daemon=True))
        printer = threading.Thread(target=self._print, daemon=True)
        for one in (*listeners, printer):
            one.start()
        failed, interrupted = None, None
        try:
            failed = self._wait()
        except KeyboardInterrupt as error:
            interrupted = error
            self._end()
        for one in listeners:
            one.join(_GRACE)
        self.printed.put(b"")
        if interrupted is not None:
            raise interrupted
        printer.join()
        return self._delivered(failed)

    def _delivered(self, failed: int | None) -> int:
        """Return the exit code once all was printed."""
        if self.done:  # nobody has anything left to do but the first, which delivers
            failed = 0 if 0 in self.processes and self.processes[0].returncode else None
        if failed is not None:
            return self._told(failed)
        if isinstance(self.unprinted, BrokenPipeError):  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        if self.unprinted is not None:
            raise self.unprinted
        return 0

    def _wait(self) -> int | None:
        """Return the process that failed, once all have ended; None if none did.

        One that fails before all have done their part ends the others. Of several it is the one
        that a signal ended, since another may notice that before this process does; JAX's own
        signal apart, by which a process ends that has lost another one. Once all have done their
        part, the end of the first one, which delivers, ends the others.
        """
        failed: list[int] = []
        until = math.inf
        while True:
            codes = {index: one.poll() for index, one in self.processes.items()}
            if time.monotonic() <= until:  # later ones were ended by this process
                failed += [index for index, code in codes.items() if code and index not in failed]
            if all(code is not None for code in codes.values()):
                signalled = (n for n in failed if (codes[n] or 0) < 0 and codes[n] != _ABORTED)
                return next(signalled, failed[0] if failed else None)
            over = codes.get(0, 0) is not None if self.done else bool(failed)
            if over and until == math.inf:
                until = time.monotonic() + _GRACE
            if over and time.monotonic() > until:
                self._kill()
            time.sleep(0.05)

    def _end(self) -> None:
        """Let all end by themselves, ask those that do not, and end those that go on.

        Once all have done their part the first one delivers, and nobody is disturbed.
        """
        began, interrupted = time.monotonic(), False
        while any(one.poll() is None for one in self.processes.values()):
            passed = time.monotonic() - began
            if passed > _NOTICED and not (interrupted or self.done):  # of this process alone, then
                interrupted = True
                self._kill(signal.SIGINT)
            if passed > _GRACE and not self.done:
                self._kill()
            time.sleep(0.05)

    def _kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        for one in self.processes.values():
            one.send_signal(by)

    def _listen(self, index: int) -> None:
        """Pass on what a process says; what XLA writes on the way is nobody's."""
        errors = self.processes[index].stderr
        assert errors is not None
        for line in errors:
            text = line.rstrip("\n")
            if text == DONE:
                self.done.add(index)
            elif text == WRITTEN:
                self.written = True
            elif text.startswith(_KINDS[0]):
                self.lines[index].append(text)
            elif text.startswith(_INTERRUPTED):  # which this process tells itself
                continue
            elif text.startswith(_KINDS) and index == min(self.processes):
                _say(text)

    def _receive(self) -> None:
        """Take what the first process prints, as soon as it does."""
        out = self.processes[0].stdout
        assert out is not None
        for piece in iter(lambda: os.read(out.fileno(), _PIECE), b""):
            self.printed.put(piece)

    def _print(self) -> None:
        """Print it as soon as it is read, as long as anybody does."""
        for piece in iter(self.printed.get, b""):
            if self.unprinted is None:
                try:
                    sys.stdout.buffer.write(piece)
                    sys.stdout.buffer.flush()
                except OSError as error:
                    self.unprinted = error

    def _told(self, failed: int) -> int:
        """Tell in one line why a run ended, and return the exit code."""
        code = self.processes[failed].returncode
        said = [(index, line) for index in self.lines for line in self.lines[index]]
        # what a process found by itself says more than what others say of it
        own = [line for _, line in said if "of this run" not in line]
        stopped = f"process {failed} of this run stopped"
        own += [line for index, line in said if index == failed or stopped in line]
        if own:
            _say(own[0])
            return int(code) if code in (2, 3) else FAILED
        ended = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if code == _ABORTED:
            ended = "lost the others, of whom one ended or fell silent"
        released = what_was_released(written=self.written)
        if 0 not in self.processes:  # it may have had word that all are done, and this one not
            released = "whether a model was released the first process tells"
        if failed in self.done:
            released = "the model was computed by then, so see whether its report is there"
        charged = ", and what was charged stays charged" if self.charges else ""
        with suppress(OSError):
            error_line(f"process {failed} of this run {ended}; {released}{charged}")
        return FAILED


def _started(arguments: Sequence[str], place: Place) -> subprocess.Popen[str]:
    """Return a process of a run; only what the first one prints is anybody's."""
    host = place.address.rpartition(":")[0].strip("[]")
    # a proxy of the environment would be asked for the other processes
    around = ",".join(filter(None, [os.environ.get("no_grpc_proxy"), host]))  # noqa: SIM112
    further = {WORKER: place.text(), "no_grpc_proxy": around, "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        # the folder with the data is not one to import modules from
        [sys.executable, "-P", "-m", "tacit.cli", *arguments],
        env={"JAX_PLATFORMS": "cpu", **os.environ, **further},
        # it stays open as long as this process lives: at its end the child ends, too
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if place.index == 0 else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )


def _say(line: str) -> None:
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
