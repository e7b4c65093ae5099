"""A training in several processes: how they meet, and that all were asked the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taciturn.cli.console import Option
from taciturn.cli.outcome import Output
from taciturn.engine.processes import Processes, connect, versions
from taciturn.errors import InputError

_GROUP = "Several processes"
OPTIONS: Mapping[str, Option] = {
    "cluster": Option(
        str,
        "Divide the agents among processes that meet at HOST:PORT, the first of them; auto under "
        "mpirun or srun. Without authentication: for machines of one trusted holder.",
        _GROUP,
    ),
    "processes": Option(int, "With --cluster HOST:PORT: number of processes.", _GROUP),
    "process": Option(int, "With --cluster HOST:PORT: index of this process, from 0.", _GROUP),
}
_AUTO = "auto"


def join(given: dict[str, Any]) -> Processes:
    """Take the options of this module out of those given; return the processes, which meet now.

    The first of them prints for all. `InputError` if the options do not say where and which the
    processes are, or they do not meet.
    """
    cluster, count, index = (given.pop(name) for name in OPTIONS)
    if cluster not in {None, _AUTO}:
        _check_place(cluster, count, index)
    elif (count, index) != (None, None):
        alone = (
            "--processes and --process are for processes that meet at --cluster HOST:PORT; mpirun, "
            "srun or a shell starts each of them, or leave them out"
        )
        launched = (
            "with --cluster auto the launcher says how many processes there are, and which is "
            "which; leave --processes and --process out"
        )
        raise InputError(alone if cluster is None else launched)
    if cluster is None or count == 1:
        return Processes()
    # what libraries write to standard output goes where errors go, so that results stand alone
    results = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(results, "w", encoding="utf-8", buffering=1)
    processes = connect(None if cluster == _AUTO else cluster, count, index)
    if not processes.first:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - to the end
    return processes


def _check_place(cluster: str, count: int | None, index: int | None) -> None:
    host, _, port = cluster.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    number = int(port) if port.isdecimal() and len(port) <= 5 else 0
    if not host or bracketed != (":" in host) or not 0 < number < 65536:
        raise InputError(
            f"--cluster is {cluster[:80]!r}; give HOST:PORT of the first process, with a port from "
            "1 to 65535 and an IPv6 address in brackets, or auto under mpirun or srun"
        )
    if count is None or index is None or not 0 <= index < count:
        raise InputError(
            "--cluster HOST:PORT needs --processes N and --process I, a number from 0 to N - 1"
        )


def check_among(processes: Processes, output: Output, options: Mapping[str, Any]) -> None:
    """Raise `InputError` unless these processes can do this, and all have the same options.

    Refused is what is computed of all records at once, and a file that can be read once only. Of
    files it is compared whether they are given. Nothing is charged and no cell read before.
    """
    if processes.count == 1:
        return
    if output.reference or output.oracle_metrics:
        refused = "--reference" if output.reference else "--oracle-metrics"
        raise InputError(
            f"{refused} reads all records at once, and each of several processes has those of "
            "its own agents; leave it out, or run in one process"
        )
    for file in options.values():
        if isinstance(file, Path) and file.exists() and not (file.is_file() or file.is_dir()):
            raise InputError(
                f"{file} can be read once only, and each of several processes reads it; write it "
                "to a file, or run in one process"
            )
    facts = {
        f"--{name.replace('_', '-')}": True if isinstance(value, Path) else value
        for name, value in options.items()
    }
    processes.agree({**versions(), **facts})
