"""Paths from the command line."""

from __future__ import annotations

from pathlib import Path

import typer


def path(text: str) -> Path:
    """Return the path that the user wrote.

    Raises
    ------
    typer.BadParameter
        If it is empty, which Python takes for the current folder, or no text that can be printed.
    """
    if not text:
        raise typer.BadParameter("it is empty; name a file or folder (. is the current folder)")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise typer.BadParameter("its name is not text in UTF-8; rename it") from error
    if "\0" in text:
        raise typer.BadParameter("no name of a file holds a null byte; name another")
    return Path(text)
