"""`tacit reproduce`: the experiments of a paper, run again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.interrupt import interruptible
from tacit.cli.output import emit, one_of

if TYPE_CHECKING:
    from tacit.reproductions import Reproduction


def reproduce(
    paper: Annotated[str, typer.Argument(help="huang2019, liu2022 or wang2024.", metavar="PAPER")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute or three: fewer records and repetitions.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A new folder for page and numbers.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Run the experiments of a paper again and say which of its orderings come out."""
    made = interruptible(lambda: _made(paper, quick=quick, out=out, force=force))
    if json:
        from tacit.reproductions import plain  # noqa: PLC0415 - start-up

        emit(plain(made))
        return
    typer.echo(_sentences(made))
    where = "No report was written; --out DIR writes one"
    typer.echo(where if out is None else f"Report: {out / 'index.html'}")


def _made(paper: str, *, quick: bool, out: Path | None, force: bool) -> Reproduction:
    from tacit import reproductions  # noqa: PLC0415 - start-up
    from tacit.report import check_out  # noqa: PLC0415 - start-up

    one_of("PAPER", paper, reproductions.PAPERS)
    if out is not None:
        check_out(out, force=force)
    began = time.perf_counter()

    def report(line: str) -> None:
        typer.echo(f"{time.perf_counter() - began:6.0f} s  {line}", err=True)

    made = reproductions.reproduce(paper, quick=quick, report=report)
    if out is not None:
        reproductions.write(made, out, force=force)
    return made


def _sentences(made: Reproduction) -> str:
    from tacit.reproductions import STAMP  # noqa: PLC0415 - start-up

    lines = [f"{made.title}, run again", STAMP, ""]
    for heading, whose in (("The paper's orderings", "paper"), ("Ours, beside them", "ours")):
        lines += [heading]
        for ordering in made.claims(whose=whose):
            about = f"{ordering.part}: {ordering.claim}"
            lines += [f"  {about}: {ordering.verdict}, {ordering.count}"]
            lines += [f"    {pair}" for pair in ordering.telling]
        lines += [""]
    return "\n".join([*lines, f"Took {made.seconds:.0f} s"])
