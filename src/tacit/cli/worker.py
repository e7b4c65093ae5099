"""One of several processes that compute a command together."""

from __future__ import annotations

import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import jax
from jax._src import distributed, xla_bridge
from jax._src.lib import _jax  # type: ignore[attr-defined]

from tacit.cli.cluster import DONE, WORKER, Place
from tacit.cli.outcome import Output
from tacit.engine.processes import Processes, connected, versions
from tacit.errors import InputError

# seconds: for all to come, from other machines or on this one; without a sign of life; to leave
_START, _START_HERE, _SILENCE, _LEAVE = 300, 90, 20, 2


def joined() -> Processes | None:
    """Return the processes of this run, met at the address of the environment; None if alone.

    Raises
    ------
    InputError
        If they cannot be met.
    """
    text = os.environ.get(WORKER)
    if text is None:
        return None
    if distributed.global_state.client is None:
        _meet(Place.parse(text))
    return connected()


def check_among(
    processes: Processes | None,
    output: Output,
    options: Mapping[str, Any],
    *,
    graph_from: str | None,
) -> None:
    """Raise `InputError` unless this can be done by these processes, and all were asked the same.

    What is computed of all records at once is refused, since no process has them, and so is a file
    that can be read once only. Nothing was charged and no cell was looked at.

    Parameters
    ----------
    options
        Those that all must have alike; of files it is compared whether they are given.
    """
    if processes is None:
        return
    asked = {
        "--reference": output.reference,
        "--oracle-metrics": output.oracle_metrics,
        "--graph-from private": graph_from == "private",
    }
    refused = [option for option, given in asked.items() if given]
    if refused:
        raise InputError(
            f"{refused[0]} reads all records at once, and each of several processes has those of "
            "its own agents; leave it out, or run in one process"
        )
    for file in options.values():
        if isinstance(file, Path) and file.exists() and not (file.is_file() or file.is_dir()):
            raise InputError(
                f"{file} can be read once only, and each of several processes reads it; write it "
                "to a file, or run in one process"
            )
    place = os.environ.get(WORKER)
    facts = {
        "--processes": Place.parse(place).count if place else None,
    } | {
        f"--{name.replace('_', '-')}": True if isinstance(value, Path) else value
        for name, value in options.items()
    }
    processes.agree("options", {**versions(), **facts})


def _meet(place: Place) -> None:
    """Connect this process to the others.

    JAX's coordinator would listen on all addresses of the machine: it is told the one that was
    given. The exchange of numbers would take what the machine's own name stands for, which many
    systems have for an address that no other machine can reach: it is told by which one this
    machine reaches the first process.
    """
    if not stat.S_ISFIFO(os.fstat(0).st_mode):  # or the end of it would be taken for its parent's
        raise InputError(
            f"{WORKER} is set, and no run in several processes started this one: unset it"
        )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _keep_lines_apart()
    host = place.address.rpartition(":")[0]
    # else a process that is told to terminate would note it for a checkpoint, and go on
    jax.config.update("jax_enable_preemption_service", False)  # type: ignore[no-untyped-call]
    try:
        own = _reached_from(place.address)
        if place.index == 0:
            _check_free(place.address)
        jax.distributed.initialize(
            coordinator_address=place.address,
            num_processes=place.count,
            process_id=place.index,
            coordinator_bind_address=place.address,
            cluster_detection_method="deactivate",
            initialization_timeout=_START_HERE if is_loopback(host) else _START,
            heartbeat_timeout_seconds=_SILENCE,
            shutdown_timeout_seconds=_SILENCE,
        )
    except (RuntimeError, ValueError, OSError) as error:
        first = " ".join(str(error).split())[:200]
        raise InputError(
            f"the processes of this run did not meet at {place.address} ({first}); see that all "
            "are started, with one address that all can reach, and that nothing else listens there"
        ) from None
    _exchange_on(own)
    if jax.process_index() != 0:  # the first one prints for all
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - to the end


def _check_free(address: str) -> None:
    """Raise `OSError` unless this process can listen there; JAX would crash instead."""
    family, place = _resolved(address)
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(place)
        one.listen(1)


def _reached_from(address: str) -> str:
    """Return the address of this machine from which it reaches another one; nothing is sent."""
    family, place = _resolved(address)
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.connect(place)
        return str(one.getsockname()[0])


def _resolved(address: str) -> tuple[socket.AddressFamily, Any]:
    """Return what HOST:PORT stands for: of several addresses one that other machines may reach."""
    host, _, port = address.rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    places = [(family, place) for family, _, _, _, place in found]
    beyond = (each for each in places if not is_loopback(str(each[1][0])))
    return next(beyond, places[0])


def is_loopback(host: str) -> bool:
    """Whether a name or address says this machine alone; a machine's own name never does."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _exchange_on(host: str) -> None:
    """Let this process exchange numbers with others at this address of its machine."""
    numbers = _jax.make_gloo_tcp_collectives(
        distributed_client=distributed.global_state.client, hostname=host
    )
    factory = partial(xla_bridge.make_cpu_client, collectives=numbers)
    known = xla_bridge._backend_factories
    known["cpu"] = replace(known["cpu"], factory=factory)


def _keep_lines_apart() -> None:
    """Let what libraries write to standard output go where errors go: results stand alone."""
    own = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(own, "w", encoding="utf-8", buffering=1)


def _end_with_parent() -> None:
    """Wait for the end of the process that started this one, and end with it."""
    while os.read(0, 1):  # not through sys.stdin, whose lock an orderly end would need
        pass
    os._exit(2)


@contextmanager
def together(processes: Processes | None) -> Iterator[None]:
    """Do what is done by all processes, and leave together; an error of one ends all."""
    if processes is None:
        yield
        return
    with processes.together():
        yield
        processes.gathered("end", "")
    print(DONE, file=sys.stderr, flush=True)
    leave()


def leave() -> None:
    """Part from the others, all of whom have done their part.

    Where one is lost while they part, JAX would wait for it and then end this process: the wait is
    short, and what is left to do, a report to write, has the rest of `_SILENCE` seconds.
    """
    parting = threading.Thread(target=_disconnect, daemon=True)
    parting.start()
    parting.join(_LEAVE)


def _disconnect() -> None:
    with suppress(RuntimeError):
        jax.distributed.shutdown()  # type: ignore[no-untyped-call]
