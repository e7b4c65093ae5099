"""A hub that follows its study: new proposals and parties struck off count at once."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from taciturn.budget import (
    head_locked,
)
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn_federation.joining import check_address
from taciturn_federation.server import Server, configuration, is_free
from taciturn_federation.study import StudyFolder

_LOOK = 0.25
# a hub looks at its study that often, and its server then reads its configuration again
_STRUCK = 10.0


def hub_configuration(study: StudyFolder, *, host: str, port: int | None = None) -> str:
    """Return the configuration of the hub of a study, as of now.

    Parameters
    ----------
    host
        The address that the server listens on.
    port
        That of the invitation if not given.
    """
    _, stated = check_address(study.invitation.hub)
    return configuration(study.users(), study.folder, host=host, port=port or stated)


def run_hub(
    study: StudyFolder,
    program: Path,
    *,
    host: str,
    port: int | None,
    event: Callable[..., None],
    stopped: Callable[[], bool],
) -> None:
    """Run the hub of a study until `stopped` says so; a server that dies is started again.

    Where the study cannot be read, or the disk is full, the server runs on with the configuration
    that it has, and the next look tries again.

    Raises
    ------
    InputError
        If the server does not start, or another hub of this study runs on this machine.
    """
    _, stated = check_address(study.invitation.hub)
    with (
        _alone(study, patience=1.0),
        _Following(study, program, host, port or stated, event) as hub,
    ):
        while not stopped():
            time.sleep(_LOOK)
            hub.look()


class _Wanted(NamedTuple):
    """What a server should run with: its configuration, and the public nkeys of its users."""

    text: str
    users: tuple[str, ...]


class _Following:
    """A server whose configuration follows a study."""

    def __init__(
        self, study: StudyFolder, program: Path, host: str, port: int, event: Callable[..., None]
    ) -> None:
        self._study, self._program, self._host, self._port = study, program, host, port
        self._event, self._trouble, self._died = event, "", False
        self._file, self._log = study.folder / "hub.conf", study.folder / "hub.log"
        self._taken: _Wanted | None = None

    def __enter__(self) -> _Following:
        _state_file(self._study).unlink(missing_ok=True)  # of a hub that was killed
        self._server = self._started()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._event("hub_stopped")

    def look(self) -> None:
        """Start a server that died again, and let it take what changed in the study."""
        try:
            if not self._server.runs:
                self._restart()
            wanted = self._wanted()
            if wanted != self._taken:
                self._reload(wanted)
            self._trouble = ""
        except InputError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._event("hub_stale", reason=self._trouble)

    def _restart(self) -> None:
        if not self._died:
            self._event("hub_died", reason=self._server.last_line())
        self._died = True
        self._server.stop()
        self._server = self._started()
        self._died = False

    def _started(self) -> Server:
        wanted = self._wanted()
        write_text(wanted.text, self._file)
        server = Server(self._program, self._file, self._log, self._port)
        try:
            self._take(wanted)
        except BaseException:
            server.stop()
            raise
        self._event("hub_started", port=self._port, pid=server.pid)
        return server

    def _reload(self, wanted: _Wanted) -> None:
        write_text(wanted.text, self._file)
        if not self._server.reload():
            raise InputError(
                f"the server did not take its new configuration ({self._server.last_line()}); stop "
                "the hub and start it again"
            )
        self._take(wanted)
        self._event("hub_reloaded", users=len(wanted.users))

    def _wanted(self) -> _Wanted:
        users = self._study.users()
        text = configuration(users, self._study.folder, host=self._host, port=self._port)
        return _Wanted(text, tuple(user.nkey for user in users))

    def _take(self, wanted: _Wanted) -> None:
        """Say for `seen_struck` whom the server lets in."""
        write_text(json.dumps(wanted.users) + "\n", _state_file(self._study))
        self._taken = wanted


@dataclass(frozen=True)
class Seen:
    """What was seen on this machine of a study's hub after a site was struck off.

    Attributes
    ----------
    runs
        Whether a hub of the study runs here.
    done
        Whether its server has taken a configuration without anybody who was struck off.
    listens
        Whether anything listens at the port of the invitation.
    """

    runs: bool
    done: bool
    listens: bool


def seen_struck(study: StudyFolder, *, patience: float = _STRUCK) -> Seen:
    """Return what the hub of a study on this machine does once somebody was struck off.

    Parameters
    ----------
    patience
        Seconds that a hub is waited for.
    """
    _, port = check_address(study.invitation.hub)
    until = time.monotonic() + patience
    while True:
        runs = _runs(study)
        done = runs and not (_let_in(study) & study.struck())
        if done or not runs or time.monotonic() > until:
            return Seen(runs, done, not is_free(port))
        time.sleep(0.05)


def _runs(study: StudyFolder) -> bool:
    try:
        with _alone(study):
            return False
    except InputError:
        return True


def _let_in(study: StudyFolder) -> frozenset[str]:
    """Return whom the server of the hub lets in; everybody, while it has not said so."""
    try:
        return frozenset(json.loads(_state_file(study).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return study.struck()


def _state_file(study: StudyFolder) -> Path:
    return study.folder / "hub.json"


@contextmanager
def _alone(study: StudyFolder, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of the one hub of a study on this machine; it ends with its process."""
    with ExitStack() as stack:
        try:
            stack.enter_context(head_locked(study.folder / "hub", patience))
        except sqlite3.OperationalError:
            raise InputError(
                f"another hub of study {study.name!r} runs on this machine; stop that one, or "
                "leave the study to it"
            ) from None
        yield
