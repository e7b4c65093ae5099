"""`taciturn reproduce`: the experiments of a paper, repeated."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taciturn.cli import emit, error_line, interruptible, one_of, table
from taciturn.errors import InputError

if TYPE_CHECKING:
    from taciturn_papers.reproductions import Reproduction


def reproduce(  # noqa: PLR0913 - one parameter per option
    *,
    paper: Annotated[
        str, typer.Argument(help="huang2019, ryu2023, liu2022 or wang2024.", metavar="PAPER")
    ],
    part: Annotated[
        str | None, typer.Option(help="For ryu2023: fl or grid. [default: both]")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes: fewer records, rounds and repetitions.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="For ryu2023: 5,000 rounds of learning, 100 of power flow, with an estimate of "
            "the time. [default: 100 rounds of MNIST, 15 of FEMNIST, 100 of power flow]",
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    list_settings: Annotated[
        bool, typer.Option("--settings", help="List the settings of the run and end.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="A folder for finished portions, from which the same command resumes the run.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder for page and numbers.")] = None,
    curves: Annotated[
        bool,
        typer.Option("--curves", help="Every value of every curve as CSV and Parquet in --out."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Repeat the experiments of a paper and report which of its orderings are reproduced."""
    given: dict[str, Any] = {"quick": quick, "full": full, "settings": tuple(settings or ())}
    if list_settings:
        _list(paper, given, json=json)
        return
    given |= {"part": part, "resume": resume}
    made = interruptible(lambda: _made(paper, given, out=out, curves=curves, force=force))
    if json:
        from taciturn_papers.reproductions import plain  # noqa: PLC0415 - start-up

        emit(plain(made))
        return
    typer.echo(_sentences(made))
    where = "No report was written; --out DIR writes one"
    typer.echo(where if out is None else f"Report: {out / 'index.html'}")


def _list(paper: str, given: dict[str, Any], *, json: bool) -> None:
    from taciturn_papers import reproductions  # noqa: PLC0415 - start-up

    one_of("PAPER", paper, reproductions.PAPERS)
    found = reproductions.settings_of(reproductions.scale_of(paper, **given))
    if json:
        emit(found)
    else:
        typer.echo(table([("setting", "value"), *found.items()]))


def _made(
    paper: str, given: dict[str, Any], *, out: Path | None, curves: bool, force: bool
) -> Reproduction:
    from taciturn.report import check_out  # noqa: PLC0415 - start-up
    from taciturn_papers import reproductions  # noqa: PLC0415 - start-up

    one_of("PAPER", paper, reproductions.PAPERS)
    if curves and out is None:
        raise InputError("--curves writes into the folder of the report; give --out DIR")
    if out is not None:
        check_out(out, force=force)
    began = time.perf_counter()

    def report(line: str) -> None:
        error_line(f"{time.perf_counter() - began:6.0f} s  {line}", kind="")

    made = reproductions.reproduce(paper, **given, report=report)
    if out is not None:
        reproductions.write(made, out, curves=curves, force=force)
    return made


def _sentences(made: Reproduction) -> str:
    from taciturn_papers.reproductions import RULE, STAMP  # noqa: PLC0415 - start-up

    lines = [made.headline, STAMP, "", made.outcome, RULE, ""]
    for heading, whose in (("The paper's orderings", "paper"), ("Ours, beside them", "ours")):
        lines += [heading]
        for ordering in made.claims(whose=whose):
            about = f"{ordering.part}: {ordering.claim}"
            lines += [f"  {about}: {ordering.verdict}, {ordering.count}"]
            lines += [f"    {pair}" for pair in ordering.telling]
        lines += [""]
    return "\n".join([*lines, f"Took {made.seconds:.0f} s"])
