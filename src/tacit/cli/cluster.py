"""A command among several processes: which they are and where they meet.

`--processes N` starts N processes on this machine that meet on loopback; with `--cluster ADDRESS`
this command is one of N, on as many machines. Either way the processes that compute are children of
one that only watches them: see `tacit.cli.children`.

Nothing secret is handed over: every process draws its noise under a key of its own, and the
environment of a child holds an address and a number.
"""

from __future__ import annotations

import os
import re
import socket
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.engine import Processes

OPTIONS = ("processes", "cluster", "process")
WORKER = "TACIT_WORKER"  # address, number and count, of a process that computes
# what it says to the one that watches: all have done their part; what was released is written
DONE, WRITTEN = "tacit-worker: done", "tacit-worker: written"
_LOOPBACK, _AUTO = "127.0.0.1", "auto"
# number and count of a process, as launchers say it; SLURM last, for the others start inside it
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
# ports that systems do not give away by themselves, for jobs whose launcher names none
_PORTS = range(61440, 65536)
_DIGITS = 6  # of a number of processes
_MOST_HERE = 256  # processes of one machine; more is a slip of the pen


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
        """Return what `text` wrote.

        Raises
        ------
        InputError
            If it wrote something else.
        """
        address, *numbers = text.rsplit(",", 2)
        if len(numbers) == 2 and all(one.isdecimal() and len(one) <= _DIGITS for one in numbers):
            place = cls(address, *map(int, numbers))
            if place.index < place.count > 1:
                return place
        raise InputError(
            f"{WORKER} is {text[:40]!r}; it is set by a run in several processes for those that it "
            "starts: unset it"
        )


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
    if not places:
        return None
    from tacit.cli.children import Children  # noqa: PLC0415 - start-up

    return Children.start(
        arguments, places, charges=_value("--account", arguments) is not None
    ).code()


def places_of(given: Mapping[str, str | None], environment: Mapping[str, str]) -> list[Place]:
    """Return the processes to start here; none where one process is enough."""
    count, index = (
        None if (text := given[name]) is None else _whole(f"--{name}", text, least)
        for name, least in (("processes", 1), ("process", 0))
    )
    cluster = given["cluster"]
    if cluster is None:
        if index is not None or count is None:
            raise InputError(
                "--process says which of the processes on several machines this is; add --cluster "
                "HOST:PORT, or leave it out"
            )
        if count > _MOST_HERE:
            raise InputError(f"--processes is {count}; at most {_MOST_HERE} run on one machine")
        port = _free_port()
        return [Place(f"{_LOOPBACK}:{port}", n, count) for n in range(count)] if count > 1 else []
    index, count = _launched(index, count, environment)
    if (index, count) == (0, 1):
        return []
    if cluster == _AUTO:
        cluster = _meeting_place(environment)
    host, _, port_text = cluster.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    port = int(port_text) if port_text.isdecimal() and len(port_text) <= _DIGITS - 1 else 0
    if not host or bracketed != (":" in host) or not 0 < port < 65536:
        raise InputError(
            f"--cluster is {cluster[:80]!r}; give HOST:PORT of the first process, with a port from "
            "1 to 65535 and an IPv6 address in brackets, or auto"
        )
    if not index < count:
        raise InputError(f"--process is {index} of {count}; they are numbered from 0")
    return [Place(cluster, index, count)]


def _launched(
    index: int | None, count: int | None, environment: Mapping[str, str]
) -> tuple[int, int]:
    """Return number and count, as given or as a launcher says them."""
    for number, size in _LAUNCHERS:
        if number in environment and size in environment:
            index = _whole(number, environment[number], 0) if index is None else index
            count = _whole(size, environment[size], 1) if count is None else count
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


def _whole(name: str, text: str, least: int) -> int:
    if not text.isdecimal() or len(text) > _DIGITS or int(text) < least:
        raise InputError(
            f"{name} is {text[:40]!r}; it must be a whole number of at least {least} and at most "
            f"{_DIGITS} digits"
        )
    return int(text)


def _value(option: str, arguments: Sequence[str]) -> str | None:
    """Return what an option was given, the last time if it was given twice."""
    value = None
    for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
        if argument == option and following is not None:
            value = following
        if argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
    return value


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((_LOOPBACK, 0))
        return int(one.getsockname()[1])
