"""A command among several processes: who starts them, watches them and tells how they ended.

`--processes N` starts N processes on this machine that meet on loopback; with `--cluster ADDRESS`
this command is one of N, on as many machines. Either way the processes that compute are children of
one that only watches: when one of them ends before its time, by whatever signal, it ends the others
and tells of it in one line.

Nothing secret is handed over: every process draws its noise under a key of its own, and the
environment of a child holds an address and a number.
"""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tacit.cli.console import error_line
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.engine import Processes

OPTIONS = ("processes", "cluster", "process")
WORKER = "TACIT_WORKER"  # address, number and count, of a process that computes
DONE = "tacit-worker: done"  # what it says to the one that watches once all have done their part
_LOOPBACK, _AUTO = "127.0.0.1", "auto"
# number and count of a process, as launchers say it; SLURM last, for the others start inside it
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
# ports that systems do not give away by themselves, for jobs whose launcher names none
_PORTS = range(61440, 65536)
_GRACE, _FAILED = 5.0, 2  # seconds for others to end by themselves; the exit code
_KINDS = ("tacit: error: ", "tacit: warning: ", "tacit: ")
_INTERRUPTED = "tacit: interrupted"
_ABORTED = -signal.SIGABRT  # by JAX, where nothing is heard of another one


@dataclass(frozen=True)
class Place:
    """Where the processes of a run meet, HOST:PORT of the first, and which of them is meant."""

    address: str
    index: int
    count: int

    def text(self) -> str:
        """Return it as one word of an environment."""
        return f"{self.address},{self.index},{self.count}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Return what `text` wrote."""
        address, index, count = text.rsplit(",", 2)
        return cls(address, int(index), int(count))


def cluster_options(divided: str) -> dict[str, tuple[Any, str]]:
    """Return type and help text of every option of a command that divides so and so."""
    kinds = (
        (int, f"Divide {divided} among so many processes, on this machine."),
        (
            str,
            "With --processes and --process, on every machine: HOST:PORT of the first process; or "
            "auto under SLURM or Open MPI. Nobody is authenticated: for machines of one trusted "
            "holder.",
        ),
        (int, "With --cluster: which of the processes this one is, from 0."),
    )
    return dict(zip(OPTIONS, kinds, strict=True))


@contextmanager
def among_processes() -> Iterator[Processes | None]:
    """Yield the processes that compute this command, which meet now; None if there is one.

    They leave together: an error of one ends all.
    """
    if WORKER not in os.environ:
        yield None
        return
    from tacit.cli.worker import joined, together  # noqa: PLC0415 - start-up

    processes = joined()
    with together(processes):
        yield processes


def led(arguments: Sequence[str]) -> int | None:
    """Return the exit code of a command in several processes; None if it runs in this one.

    Raises
    ------
    InputError
        If the options do not say where and which the processes are.
    """
    if WORKER in os.environ or "--help" in arguments:
        return None
    given = {name: _value(f"--{name}", arguments) for name in OPTIONS}
    if all(value is None for value in given.values()):
        return None
    places = places_of(given, os.environ)
    return _Watched.start(arguments, places).code() if places else None


def places_of(given: Mapping[str, str | None], environment: Mapping[str, str]) -> list[Place]:
    """Return the processes to start here; none where one process is enough."""
    count, index = (_whole(name, given[name]) for name in ("processes", "process"))
    cluster = given["cluster"]
    if cluster is None:
        if index is not None or count is None:
            raise InputError(
                "--process says which of the processes on several machines this is; add --cluster "
                "HOST:PORT, or leave it out"
            )
        port = _free_port()
        return [Place(f"{_LOOPBACK}:{port}", n, count) for n in range(count)] if count > 1 else []
    index, count = _launched(index, count, environment)
    if (index, count) == (0, 1):
        return []
    if cluster == _AUTO:
        cluster = _meeting_place(environment)
    host, _, port_text = cluster.rpartition(":")
    if not host or not port_text.isdecimal():
        raise InputError(f"--cluster is {cluster!r}; give HOST:PORT of the first process, or auto")
    if not index < count:
        raise InputError(f"--process is {index} of {count}; they are numbered from 0")
    return [Place(cluster, index, count)]


def _launched(
    index: int | None, count: int | None, environment: Mapping[str, str]
) -> tuple[int, int]:
    """Return number and count, as given or as a launcher says them."""
    for number, size in _LAUNCHERS:
        if number in environment and size in environment:
            index = int(environment[number]) if index is None else index
            count = int(environment[size]) if count is None else count
            break
    if index is None or count is None:
        raise InputError("--cluster needs --process I and --processes N, or a launcher's I and N")
    return index, count


def _meeting_place(environment: Mapping[str, str]) -> str:
    """Return HOST:PORT of the first process of a job: on loopback, if all are on this machine.

    Open MPI tells where mpirun is, which is the machine of the first process unless a file of hosts
    begins with another one; SLURM names the machines.
    """
    if "OMPI_COMM_WORLD_SIZE" in environment:
        job = environment.get("OMPI_MCA_orte_hnp_uri") or environment.get("PMIX_NAMESPACE")
        alone = environment.get("OMPI_COMM_WORLD_LOCAL_SIZE") == environment["OMPI_COMM_WORLD_SIZE"]
        found = re.search(r"tcp://([^,:;]+)|tcp6://(\[[^,\]]+)", job or "")
        host = found and (found[1] or f"{found[2]}]")
    else:
        job = environment.get("SLURM_JOB_ID")
        job = job and f"{job}.{environment.get('SLURM_STEP_ID')}"
        alone = environment.get("SLURM_STEP_NUM_NODES") == "1"
        # node7, node7,node9 or node[07-12,20]
        found = re.match(r"([^,\[]+)(?:\[(\d+))?", environment.get("SLURM_STEP_NODELIST", ""))
        host = found and f"{found[1]}{found[2] or ''}"
    if job is None or not (alone or host):
        raise InputError(
            "--cluster auto takes the place of the first process from SLURM or Open MPI, and their "
            "variables do not say it; give HOST:PORT"
        )
    port = _PORTS[zlib.crc32(job.encode()) % len(_PORTS)]
    return f"{_LOOPBACK if alone else host}:{port}"


def _whole(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    least = 1 if name == "processes" else 0
    if not text.isdecimal() or int(text) < least:
        raise InputError(f"--{name} is {text!r}; it must be a whole number of at least {least}")
    return int(text)


def _value(option: str, arguments: Sequence[str]) -> str | None:
    for place, argument in enumerate(arguments):
        if argument == option and place + 1 < len(arguments):
            return arguments[place + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((_LOOPBACK, 0))
        return int(one.getsockname()[1])


@dataclass
class _Watched:
    """The processes of a run that this one started."""

    processes: dict[int, subprocess.Popen[str]]
    charges: bool
    lines: dict[int, list[str]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    @classmethod
    def start(cls, arguments: Sequence[str], places: Sequence[Place]) -> _Watched:
        started = {}
        for place in places:
            host = place.address.rpartition(":")[0]
            # a proxy of the environment would be asked for the other processes
            around = ",".join(filter(None, [os.environ.get("no_grpc_proxy"), host]))  # noqa: SIM112
            further = {WORKER: place.text(), "no_grpc_proxy": around}
            started[place.index] = subprocess.Popen(
                [sys.executable, "-m", "tacit.cli", *arguments],
                env={"JAX_PLATFORMS": "cpu", **os.environ, **further},
                # it stays open as long as this process lives: at its end the child ends, too
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        charges = _value("--account", arguments) is not None
        return cls(started, charges, {index: [] for index in started})

    def code(self) -> int:
        """Return the exit code once all have ended, after one line if one of them failed."""
        listeners = [
            threading.Thread(target=self._listen, args=(index,), daemon=True)
            for index in self.processes
        ]
        for one in listeners:
            one.start()
        try:
            failed = self._wait()
        except KeyboardInterrupt:
            self._end()
            raise
        for one in listeners:
            one.join(_GRACE)
        if self.done:  # nobody has anything left to do but the first, which delivers
            failed = 0 if 0 in self.processes and self.processes[0].returncode else None
        return 0 if failed is None else self._told(failed)

    def _wait(self) -> int | None:
        """Return the process that failed, once all have ended; None if none did.

        One that fails before all have done their part ends the others. Of several it is the one
        that a signal ended, since another may notice that before this process does; JAX's own
        signal apart, by which a process ends that has lost another one.
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
            if failed and until == math.inf:
                until = time.monotonic() + _GRACE
            if failed and not self.done and time.monotonic() > until:
                self._kill()
            time.sleep(0.05)

    def _end(self) -> None:
        """Let all end by themselves, and end those that do not."""
        until = time.monotonic() + _GRACE
        while any(one.poll() is None for one in self.processes.values()):
            if time.monotonic() > until:
                self._kill()
            time.sleep(0.05)

    def _kill(self) -> None:
        for one in self.processes.values():
            one.kill()

    def _listen(self, index: int) -> None:
        """Pass on what a process says; what XLA writes on the way is nobody's."""
        errors = self.processes[index].stderr
        assert errors is not None
        for line in errors:
            text = line.rstrip("\n")
            if text == DONE:
                self.done.add(index)
            elif text.startswith(_KINDS[0]):
                self.lines[index].append(text)
            elif text.startswith(_INTERRUPTED):  # which this process tells itself
                continue
            elif text.startswith(_KINDS) and index == min(self.processes):
                print(text, file=sys.stderr, flush=True)

    def _told(self, failed: int) -> int:
        """Tell in one line why a run ended, and return the exit code."""
        code = self.processes[failed].returncode
        said = [(index, line) for index in self.lines for line in self.lines[index]]
        # what a process found by itself says more than what others say of it
        own = [line for _, line in said if "of this run" not in line]
        stopped = f"process {failed} of this run stopped"
        own += [line for index, line in said if index == failed or stopped in line]
        if own:
            print(own[0], file=sys.stderr, flush=True)
            return int(code) if code in (2, 3) else _FAILED
        ended = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if code == _ABORTED:
            ended = "lost the others, of whom one ended or fell silent"
        released = "nothing was released"
        if failed in self.done:
            released = "the model was computed by then, so see whether its report is there"
        charged = ", and what was charged stays charged" if self.charges else ""
        error_line(f"process {failed} of this run {ended}; {released}{charged}")
        return _FAILED
