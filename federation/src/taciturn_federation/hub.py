"""The hub: a NATS server whose users are public nkeys, and the process that keeps it up to date.

The server forwards messages and stores none. Its configuration follows from the parties and the
proposals of a study: a party may use only the subjects that a proposal gives it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from taciturn.budget import head_lock, private_opener
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn_federation.agreement import check_address
from taciturn_federation.folders import StudyFolder, User

# a model of 8 million numbers; the server allows no more than 64 MB
MAX_PAYLOAD = 64 * 1024 * 1024 - 1
PORT = 4222
# of guests: connections, and bytes of a message
MOST_GUESTS, MAX_REQUEST = 64, 8192
_STARTED, _STOPPED, _RELOADED, _FREED = 10.0, 10.0, 5.0, 2.0
_TAKEN = b"Reloaded server configuration"
# The server ends with the process that started it, even if that is killed: a child of the server
# waits on a pipe whose other end only the starting process holds open.
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


def configuration(
    users: Sequence[User], study: Path, *, host: str, port: int, guests: Sequence[User] = ()
) -> str:
    """Return the complete configuration of nats-server.

    One port, TLS 1.3 from the first byte, a challenge that an nkey must sign; no client without a
    user, no monitoring, no persistence. A user may publish and subscribe to the listed subjects
    only, and may not answer requests. Guests have an account of the server that no other shares:
    it limits their messages and connections, and only what they may publish leaves it.

    `study`: the folder with the certificate and the key of the server, `hub.pem` and `hub.key`.

    Raises `InputError` if a name cannot be written.
    """
    joins = sorted({subject for guest in guests for subject in guest.publish})
    exported = ", ".join(f"{{ stream: {_text(subject)} }}" for subject in joins)
    imported = ", ".join(
        f"{{ stream: {{ account: guests, subject: {_text(subject)} }} }}" for subject in joins
    )
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
        "authorization {\n  timeout: 5\n}\n"
        "accounts {\n"
        f"  study {{\n    imports: [{imported}]\n    users: [\n{_listed(users)}\n    ]\n  }}\n"
        "  guests {\n"
        f"    limits: {{ max_connections: {MOST_GUESTS}, max_payload: {MAX_REQUEST} }}\n"
        f"    exports: [{exported}]\n    users: [\n{_listed(guests)}\n    ]\n  }}\n"
        "}\n"
    )


def _listed(users: Sequence[User]) -> str:
    return ",\n".join(
        f"      {{ nkey: {_text(user.nkey)}, permissions: {{ publish: {_allowed(user.publish)}, "
        f"subscribe: {_allowed(user.subscribe)} }} }}"
        for user in users
    )


def _allowed(subjects: Sequence[str]) -> str:
    """Return permissions; an empty list would allow everything."""
    if not subjects:
        return '{ deny: ">" }'
    return f"{{ allow: [{', '.join(_text(subject) for subject in subjects)}] }}"


def _text(text: str) -> str:
    """Return a quoted text in the server's syntax."""
    if not text.isprintable() or '"' in text or "\\" in text:
        raise InputError(
            f"{text!r} cannot be written to the configuration of a server; use names and folders "
            "without quotes, backslashes and line breaks"
        )
    return json.dumps(text, ensure_ascii=False)


def server_program(given: Path | None = None) -> Path:
    """Return the program nats-server: the one given, that of the package, or of the system."""
    if given is not None:
        if not (given.is_file() and os.access(given, os.X_OK)):
            raise InputError(f"{given} is not a program; name nats-server, as in --server PATH")
        return given
    beside = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("nats-server")
    if found is None:
        raise InputError(
            "there is no nats-server here; install taciturn-federation again, or name one with "
            "--server PATH"
        )
    return Path(found)


class Server:
    """A nats-server as a child process, which ends with this process, however that ends.

    `configured` is the file of its configuration; `log` takes its lines, never message contents.

    Raises `InputError` if it does not start; the message quotes its last line.
    """

    def __init__(self, program: Path, configured: Path, log: Path, port: int) -> None:
        # a server whose process was killed is about to end
        if not _within(_FREED, lambda: is_free(port)):
            raise InputError(f"port {port} is taken; stop what listens there, or give --port")
        with open(log, "ab", opener=private_opener) as out:
            self.process = subprocess.Popen(
                [sys.executable, "-ISc", _LAUNCH, str(program), "-c", str(configured)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                # Ctrl-C is for this process, which then stops the server
                start_new_session=True,
            )
        self._log = log
        if not _within(_STARTED, lambda: not (self.runs and is_free(port))) or not self.runs:
            self.stop()
            raise InputError(
                f"the server did not start ({self.last_line()}); correct that, and start it again"
            )

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def reload(self) -> bool:
        """Have it read its configuration again; whether its log has that it did.

        A site that was struck off is disconnected by then.
        """
        before = self._log.stat().st_size
        self.process.send_signal(signal.SIGHUP)

        def taken() -> bool:
            with self._log.open("rb") as log:
                log.seek(before)
                return _TAKEN in log.read()

        return _within(_RELOADED, lambda: taken() or not self.runs) and taken()

    def stop(self) -> None:
        """End it and wait for that."""
        if self.runs:
            self.process.terminate()
        try:
            self.process.wait(_STOPPED)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def last_line(self) -> str:
        """Return the last line of its log."""
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "its log is empty"


def _within(seconds: float, comes: Callable[[], bool]) -> bool:
    """Return whether something comes within some seconds."""
    until = time.monotonic() + seconds
    while not comes():
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


# seconds between two looks of a hub at its study, and until its server has taken a change
_INTERVAL, _STRUCK = 0.25, 10.0


def hub_configuration(
    study: StudyFolder, *, host: str, port: int | None = None, closed: bool = False
) -> str:
    """Return the current configuration of a study's hub, by default at the invitation's port.

    A hub that is `closed` lets no guest in.
    """
    where, guests = port or _port_of(study), _guests(study, closed=closed)
    return configuration(study.users(), study.folder, host=host, port=where, guests=guests)


def _guests(study: StudyFolder, *, closed: bool) -> tuple[User, ...]:
    return () if closed else (study.guest(),)


def _port_of(study: StudyFolder) -> int:
    return check_address(study.invitation.hub)[1]


def run_hub(  # noqa: PLR0913 - one parameter per option
    study: StudyFolder,
    program: Path,
    *,
    host: str,
    port: int | None,
    event: Callable[..., None],
    stopped: Callable[[], bool],
    closed: bool = False,
) -> None:
    """Run the hub of a study until `stopped` returns true; a server that dies is started again.

    Where the study cannot be read, or the disk is full, the server runs on with the configuration
    that it has, and the next look tries again.

    Raises `InputError` if the server does not start, or another hub of this study runs here.
    """
    with _exclusive(study, patience=1.0):
        _state_file(study).unlink(missing_ok=True)  # of a hub that was killed
        where, guests = port or _port_of(study), _guests(study, closed=closed)
        configured = partial(
            configuration, study=study.folder, host=host, port=where, guests=guests
        )
        hub = _Hub(study, program, where, configured, event)
        try:
            while not stopped():
                time.sleep(_INTERVAL)
                hub.update()
        finally:
            hub.server.stop()
            event("hub_stopped")


class _Hub:
    """A server whose configuration follows a study."""

    def __init__(
        self,
        study: StudyFolder,
        program: Path,
        port: int,
        configured: Callable[[Sequence[User]], str],
        event: Callable[..., None],
    ) -> None:
        self._study, self._program, self._port, self._configured = study, program, port, configured
        self._event, self._trouble, self._died = event, "", False
        self._seen: frozenset[tuple[str, int, int, int]] = frozenset()  # the study as loaded
        self._file, self._log = study.folder / "hub.conf", study.folder / "hub.log"
        # configuration and public nkeys of the users that the server runs with
        self._loaded: tuple[str, list[str]] = ("", [])
        self.server = self._start()

    def update(self) -> None:
        """Start a server that died again, and have it load what changed in the study."""
        try:
            if not self.server.runs:
                if not self._died:
                    self._event("hub_died", reason=self.server.last_line())
                self._died = True
                self.server.stop()
                self.server = self._start()
                self._died = False
            seen = self._study.versions()
            if seen == self._seen:  # reading hundreds of proposals would keep an idle hub busy
                return
            wanted = self._wanted()
            if wanted != self._loaded:
                write_text(wanted[0], self._file)
                if not self.server.reload():
                    raise InputError(
                        "the server did not take its new configuration "
                        f"({self.server.last_line()}); stop the hub and start it again"
                    )
                self._note(wanted)
                self._event("hub_reloaded", users=len(wanted[1]))
            self._seen, self._trouble = seen, ""
        except (InputError, OSError) as error:  # the log of the server may have no room, too
            self._seen = frozenset()
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._event("hub_stale", reason=self._trouble)

    def _start(self) -> Server:
        wanted = self._wanted()
        write_text(wanted[0], self._file)
        server = Server(self._program, self._file, self._log, self._port)
        try:
            self._note(wanted)
        except BaseException:
            server.stop()
            raise
        self._event("hub_started", port=self._port, pid=server.process.pid)
        return server

    def _wanted(self) -> tuple[str, list[str]]:
        users = self._study.users()
        return self._configured(users), [user.nkey for user in users]

    def _note(self, loaded: tuple[str, list[str]]) -> None:
        """Write for `after_strike` which users the server lets in."""
        write_text(json.dumps(loaded[1]) + "\n", _state_file(self._study))
        self._loaded = loaded


@dataclass(frozen=True)
class HubState:
    """The state of a study's hub on this machine after a site was struck off."""

    runs: bool  # whether a hub of the study runs here
    done: bool  # whether its server has taken a configuration without any site struck off
    listens: bool  # whether anything listens at the port of the invitation


def after_strike(study: StudyFolder, *, patience: float = _STRUCK) -> HubState:
    """Return the state of a study's hub on this machine, once its server has taken a strike."""
    until = time.monotonic() + patience
    while True:
        try:
            with _exclusive(study):
                runs = False
        except InputError:
            runs = True
        done = runs and not (_let_in(study) & study.struck())
        if done or not runs or time.monotonic() > until:
            return HubState(runs, done, not is_free(_port_of(study)))
        time.sleep(0.05)


def _let_in(study: StudyFolder) -> frozenset[str]:
    """Return the users that the server of the hub lets in; all, while that is not written."""
    try:
        return frozenset(json.loads(_state_file(study).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return study.struck()


def _state_file(study: StudyFolder) -> Path:
    return study.folder / "hub.json"


@contextmanager
def _exclusive(study: StudyFolder, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of the one hub of a study on this machine; it ends with its process."""
    with ExitStack() as stack:
        try:
            stack.enter_context(head_lock(study.folder / "hub", patience))
        except sqlite3.OperationalError:
            raise InputError(
                f"another hub of study {study.name!r} runs on this machine; stop that one, or "
                "leave the study to it"
            ) from None
        yield
