"""`tacit bounds`: a bounds file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from tacit.cli.console import emit, error_line, path
from tacit.errors import InputError
from tacit.tables import bounds_from, bounds_text, read_tables
from tacit.tables.bounds import bounds_to_dict


def bounds(
    data: Annotated[
        Path, typer.Argument(parser=path, help="A CSV or Parquet file, or a folder of them.")
    ],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    agent_column: Annotated[
        str | None, typer.Option(help="The column that says whose record a row is.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A column not to use; may be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print a bounds file filled in from a table: edit it, then pass it to tacit train."""
    frame = pd.concat(list(read_tables(data).values()), ignore_index=True)
    ignored = (*(ignore or ()), *(() if agent_column is None else (agent_column,)))
    if target in ignored:
        raise InputError(f"the target {target!r} cannot be ignored or be the agent column")
    facts = bounds_from(frame, target, ignored=tuple(dict.fromkeys(ignored)))
    error_line(_WARNING, kind="warning: ")
    if json:
        emit(bounds_to_dict(facts))
    else:
        typer.echo(bounds_text(facts), nl=False)


_WARNING = (
    "these values come from the records; a certificate that rests on them is conditional until you "
    'put public ranges and lists in their place and write source = "public"'
)
