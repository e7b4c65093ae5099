"""`taciturn attack`: pictures recovered from the links of a decentralised training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taciturn.cli import emit, interruptible, one_of, path, table

if TYPE_CHECKING:
    from taciturn_papers.reproductions.gallery import Block, Gallery

_DATA = ("mnist", "fashion_mnist", "cifar10")


def attack(
    data: Annotated[str, typer.Argument(help="mnist, fashion_mnist or cifar10.", metavar="DATA")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer pictures and shorter searches.")
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Seed of pictures, noise and searches.", min=0, max=2**63 - 1)
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(parser=path, metavar="DIR", help="A new folder for the pictures.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Recover pictures from the messages of agents on a ring, without privacy and under budgets.

    Four attacks on RECAL without privacy, on DP-RECAL as published, and on the sound form with
    noised gradients under three total budgets.
    """
    made = interruptible(lambda: _made(data, quick=quick, seed=seed, out=out, force=force))
    if json:
        from taciturn.report import strict  # noqa: PLC0415 - start-up

        emit(strict(made.to_dict()))
        return
    typer.echo(
        "\n\n".join(
            [made.title, made.question, *(_text(block) for block in made.blocks), *made.notes]
        )
    )
    where = "No pictures were written; --out DIR writes them"
    typer.echo("\n" + (where if out is None else f"Pictures: {out / 'index.html'}"))


def _made(data: str, *, quick: bool, seed: int, out: Path | None, force: bool) -> Gallery:
    from taciturn.datasets import load  # noqa: PLC0415 - start-up
    from taciturn.report import check_out  # noqa: PLC0415 - start-up
    from taciturn_papers.reproductions.gallery import write_gallery  # noqa: PLC0415 - start-up
    from taciturn_papers.reproductions.wang2024.pictures import images  # noqa: PLC0415 - start-up

    one_of("DATA", data, _DATA)
    if out is not None:
        check_out(out, force=force)
    made = images(load(data, interval="unit"), seed=seed, quick=quick)
    if out is not None:
        write_gallery(made, out, force=force)
    return made


def _text(block: Block) -> str:
    """Return the errors of every column, a line each."""
    rows = [
        (name, *(f"{row[place].error:.2g}" for _, row in block.rows))
        for place, name in enumerate(block.columns)
        if block.rows[0][1][place].error is not None
    ]
    heads = ("relative error", *(label for label, _ in block.rows))
    return f"{block.heading}\n" + table([heads, *rows])
