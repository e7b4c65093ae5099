"""What goes to standard output, and what to standard error."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    r"""Return one line of text from a file with whatever would steer a terminal written out.

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
