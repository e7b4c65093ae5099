"""`taciturn study engine`: the app of an engine that delivers the messages of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taciturn.cli import path
from taciturn_federation.apps import APPS, write_app
from taciturn_federation.commands.parties import say
from taciturn_federation.commands.proposing import site, study

__all__ = ["engine", "site", "study"]


@study.command("engine")
def engine(
    name: Annotated[str, typer.Argument(metavar="ENGINE", help=" or ".join(APPS) + ".")],
    sockets: Annotated[
        Path, typer.Option(parser=path, help="Folder of the coordinator's sockets.")
    ],
    out: Annotated[Path | None, typer.Option(parser=path, help="New folder of the app.")] = None,
) -> None:
    """Write the app by which another engine than the hub delivers the messages of a study."""
    folder = Path(f"{name}-app") if out is None else out
    say(f"App: {folder}; {write_app(name, sockets, folder)}")
