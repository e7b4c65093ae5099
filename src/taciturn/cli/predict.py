"""`taciturn predict`: predictions of a model for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn import models
from taciturn.cli.console import (
    FORM_OPTIONS,
    Force,
    Json,
    check_free,
    emit,
    path,
    path_option,
    takes,
)
from taciturn.tables import Form, read_table


@takes(FORM_OPTIONS)
def predict(  # noqa: PLR0913 - one parameter per option
    *,
    model: Annotated[Path, typer.Argument(parser=path, help="The model.json of a training.")],
    data: Annotated[Path, typer.Argument(parser=path, help="A table with the same columns.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column to print before the prediction; may be repeated."),
    ] = None,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Ignore columns that the model lacks.")
    ] = False,
    proba: Annotated[
        bool | None,
        typer.Option(
            "--proba/--no-proba",
            help="Probabilities of the classes. [default: where scores are log-odds: trained with "
            "--clip 1 or more, 1.42 for several classes]",
        ),
    ] = None,
    out: Annotated[Path | None, path_option("A new CSV file.")] = None,
    force: Force = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Predict the target of every row, as CSV on standard output."""
    check_free(out, force=force)
    loaded = models.load_model(model).with_form(given)
    stated = Form() if loaded.bounds is None else loaded.bounds.form
    predicted = models.predict(
        loaded,
        read_table(data, stated),
        keep=tuple(keep or ()),
        ignore_extra=ignore_extra,
        probabilities=proba,
    )
    text = predicted.to_csv(index=False)
    if out is not None:
        models.write_text(text, out)
    if json:
        values = predicted.to_dict(orient="list")
        name = None if out is None else str(out)
        emit({"rows": len(predicted), "out": name, "predictions": values})
    elif out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"Predictions of {len(predicted):,} rows: {out}")
