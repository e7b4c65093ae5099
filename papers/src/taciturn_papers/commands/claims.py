"""`taciturn claims`: published claims and the computations that decide them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taciturn.cli import emit, table

if TYPE_CHECKING:
    from taciturn_papers.claims import Claim, Finding


def claims(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="A claim, or a paper for all of its. [default: list all]"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List the checked claims with their verdicts, or show the computations that decide some."""
    from taciturn.report import strict  # noqa: PLC0415 - start-up
    from taciturn_papers.claims import REGISTER, claims_named  # noqa: PLC0415 - start-up

    if name is None:
        if json:
            emit({"claims": [_row(claim) for claim in REGISTER]})
        else:
            typer.echo("\n\n".join(map(_entry, REGISTER)))
            typer.echo("\nThe computation behind a verdict: taciturn claims NAME")
        return
    found = [(claim, claim.decide()) for claim in claims_named(name)]
    if json:
        whole = [_whole(*each) for each in found]
        emit(strict(whole[0] if name == found[0][0].id else {"claims": whole}))
    else:
        typer.echo("\n\n".join(_page(*each) for each in found))


def _row(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "paper": claim.paper,
        "claim": claim.statement,
        "verdict": claim.verdict,
    }


def _whole(claim: Claim, finding: Finding) -> dict[str, Any]:
    return {
        **_row(claim),
        "verdict": finding.verdict,
        "evidence": finding.summary,
        "columns": finding.columns,
        "rows": finding.rows,
        "reasoning": claim.reasoning,
    }


def _entry(claim: Claim) -> str:
    return _lines(_row(claim))


def _page(claim: Claim, finding: Finding) -> str:
    heads = {**_row(claim), "verdict": finding.verdict, "evidence": finding.summary}
    rows = [[f"{value:.6g}" for value in row] for row in finding.rows]
    parts = [_lines(heads), table([finding.columns, *rows]), _wrapped("", claim.reasoning)]
    return "\n\n".join(parts)


def _lines(values: dict[str, Any]) -> str:
    return "\n".join(_wrapped(f"{name:<10}", str(value)) for name, value in values.items())


def _wrapped(head: str, text: str) -> str:
    return textwrap.fill(text, width=96, initial_indent=head, subsequent_indent=" " * len(head))
