"""Options that are declared in a mapping, as parameters of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from tacit.cli.console import path

F = TypeVar("F", bound=Callable[..., Any])

_FORM: Mapping[str, tuple[Any, str]] = {
    "delimiter": (str, "Tables: between cells, as in ';' or tab; the bounds say, or a comma."),
    "decimal": (str, "Tables: before decimals, . or ,; the bounds say, or a point."),
    "thousands": (str, "Tables: between groups of digits, as in ','; the bounds say, or none."),
    "encoding": (str, "Tables: of the text, as in cp1252; the bounds say, or UTF-8."),
}


def form_options() -> dict[str, tuple[Any, str]]:
    """Return type and help text of every option about the form of a table's file."""
    return dict(_FORM)


def takes(options: Mapping[str, tuple[Any, str]]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, which receives them by name."""
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                kind | None, typer.Option(help=text, parser=path if kind is Path else None)
            ],
        )
        for name, (kind, text) in options.items()
    ]

    def decorated(command: F) -> F:
        signature = inspect.signature(command, eval_str=True)
        declared = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters = [*declared[:1], *added, *declared[1:]]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorated
