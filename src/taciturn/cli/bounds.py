"""`taciturn bounds`: a bounds file to start from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from taciturn.cli.console import FORM_OPTIONS, Json, emit, error_line, path, takes
from taciturn.errors import InputError
from taciturn.tables import Form, bounds_text, draft_from, read_tables
from taciturn.tables.bounds import bounds_to_dict

_SHOWN = 3  # the draft has a line for each
_WARNING = (
    "these values come from the records; a certificate that rests on them is conditional until you "
    'put public ranges and lists in their place and write source = "public"'
)
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "agent_column": (str, "The column that names the agent of each row."),
    "person_column": (str, "The column that names the person of each row."),
    "ignore": (list[str], "A column or a pattern such as 'date_*' to leave out; may be repeated."),
    **FORM_OPTIONS,
}


@takes(_OPTIONS)
def bounds(
    *,
    data: Annotated[Path, typer.Argument(parser=path, help="A CSV or Parquet file, or a folder.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    json: Json = False,
    **given: Any,
) -> None:
    """Print a bounds file filled in from a table: edit it, then pass it to taciturn train."""
    agents, persons, ignore = (given.pop(name) for name in list(_OPTIONS)[:3])
    form = Form().changed(given)
    frame = pd.concat(list(read_tables(data, form).values()), ignore_index=True)
    ignored = (*(ignore or ()), *(name for name in (agents, persons) if name is not None))
    if target in ignored:
        raise InputError(
            f"the target {target!r} cannot be ignored or be the column of agents or persons"
        )
    draft = draft_from(frame, target, ignored=tuple(dict.fromkeys(ignored)), form=form)
    error_line(_WARNING + _left_out(draft.notes.left_out), kind="warning: ")
    if json:
        emit({**bounds_to_dict(draft.bounds), **dataclasses.asdict(draft.notes)})
    else:
        typer.echo(bounds_text(draft.bounds, draft.notes), nl=False)


def _left_out(reasons: Mapping[str, str]) -> str:
    reasons_of: dict[str, list[str]] = {}
    for name, why in reasons.items():
        reasons_of.setdefault(why, []).append(name)
    parts = []
    for why, names in reasons_of.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        parts.append(f"{', '.join(map(repr, names[:_SHOWN]))}{more}: {why}")
    return f"; left out: {'; '.join(parts)}" if parts else ""
