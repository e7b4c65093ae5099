"""`tacit predict`: a model on new rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tacit import models
from tacit.cli.console import emit, path
from tacit.errors import InputError
from tacit.tables import read_table


def predict(
    model: Annotated[Path, typer.Argument(parser=path, help="The model.json of a training.")],
    data: Annotated[
        Path, typer.Argument(parser=path, help="A CSV or Parquet file with the same columns.")
    ],
    out: Annotated[Path | None, typer.Option(parser=path, help="A new CSV file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Predict the target of every row, as CSV on standard output; logistic ones with odds."""
    if out is not None and os.path.exists(out) and not (force and out.is_file()):
        raise InputError(f"{out} exists; name a new file, or pass --force to replace a file")
    predicted = models.predict(models.load_model(model), read_table(data))
    text = predicted.to_csv(index=False)
    if out is not None:
        models.write_text(text, out)
    if json:
        emit(
            {
                "rows": len(predicted),
                "out": None if out is None else str(out),
                "predictions": predicted.to_dict(orient="list"),
            }
        )
    elif out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"Predictions of {len(predicted):,} rows: {out}")
