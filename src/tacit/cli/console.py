"""The console: paths that are typed, lines that are printed, files of text."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from tacit.errors import InputError


def emit(values: dict[str, Any]) -> None:
    """Print one strictly valid JSON object."""
    typer.echo(json.dumps(values, allow_nan=False))


def error_line(text: str, *, kind: str = "error: ") -> None:
    """Print one line on standard error, whatever line breaks the text has."""
    typer.echo(f"tacit: {kind}{printable(' '.join(text.split()))}", err=True)


def printable(text: str) -> str:
    r"""Return one line of text with control characters escaped, so that no terminal obeys them.

    Examples
    --------
    >>> printable("\x1b[2Jage")
    '\\x1b[2Jage'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_of(option: str, value: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of the choices, else raise `InputError` with the list."""
    if value not in choices:
        raise InputError(f"{option} is {value!r}; choose from {', '.join(choices)}")
    return value


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text in aligned columns; the last column may be of any width.

    Examples
    --------
    >>> print(table([["id", "verdict"], ["one", "holds"]]))
    id   verdict
    one  holds
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def path(text: str) -> Path:
    """Return the path that the user wrote.

    Raises
    ------
    typer.BadParameter
        If it is empty, which Python reads as the current folder, or cannot be printed.
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
