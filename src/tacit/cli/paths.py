"""Paths from the command line, and files that it writes."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from tacit.errors import InputError


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


def write_text(text: str, out: Path) -> None:
    """Write a file whole or not at all.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{out} cannot be written ({reason}); name another file") from error
    finally:
        part.unlink(missing_ok=True)


def read_text(file: Path) -> str:
    """Return the text of a file.

    Raises
    ------
    InputError
        If it cannot be read, or is no text in UTF-8.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read ({type(error).__name__}); name a readable file"
        ) from error
