"""A hub that follows its study: new proposals and parties struck off count at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tacit.federation.joining import check_address
from tacit.federation.server import Server, configuration
from tacit.federation.study import StudyFolder
from tacit.models import write_text

_LOOK = 0.25


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
    return configuration(study.users(), study.files, host=host, port=port or stated)


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

    Raises
    ------
    InputError
        If the server does not start.
    """
    _, stated = check_address(study.invitation.hub)
    at, file, log = port or stated, study.folder / "hub.conf", study.folder / "hub.log"
    text = hub_configuration(study, host=host, port=port)
    write_text(text, file)
    server = Server(program, file, log, at)
    event("hub_started", port=at, pid=server.pid)
    certificates = _certificates(study)
    try:
        while not stopped():
            time.sleep(_LOOK)
            if not server.runs:
                event("hub_died", reason=server.last_line())
                server = Server(program, file, log, at)
                event("hub_started", port=at, pid=server.pid)
            now, files = hub_configuration(study, host=host, port=port), _certificates(study)
            if (now, files) != (text, certificates):
                text, certificates = now, files
                write_text(text, file)
                server.reload()
                event("hub_reloaded", users=len(study.users()))
    finally:
        server.stop()
        event("hub_stopped")


def _certificates(study: StudyFolder) -> tuple[float, ...]:
    files = study.files
    return tuple(file.stat().st_mtime for file in (files.certificate, files.authority))
