"""`taciturn claims`: published claims and the computations that decide them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taciturn.cli import emit, table

if TYPE_CHECKING:
    from taciturn_papers.claims import Claim, Finding


def claims(
    identifier: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A claim. [default: list all]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List the checked claims, or show the computation that decides one."""
    from taciturn.report import strict  # noqa: PLC0415 - start-up
    from taciturn_papers.claims import REGISTER, claim_named  # noqa: PLC0415 - start-up

    if identifier is None:
        found = [(claim, claim.decide()) for claim in REGISTER]
        if json:
            emit(strict({"claims": [_row(*pair) for pair in found]}))
        else:
            typer.echo("\n\n".join(_entry(*pair) for pair in found))
        return
    claim = claim_named(identifier)
    finding = claim.decide()
    if json:
        emit(strict(_whole(claim, finding)))
    else:
        typer.echo(_page(claim, finding))


def _row(claim: Claim, finding: Finding) -> dict[str, Any]:
    return {
        "id": claim.id,
        "paper": claim.paper,
        "claim": claim.statement,
        "verdict": finding.verdict,
        "evidence": finding.summary,
    }


def _whole(claim: Claim, finding: Finding) -> dict[str, Any]:
    return {
        **_row(claim, finding),
        "columns": finding.columns,
        "rows": finding.rows,
        "reasoning": claim.reasoning,
    }


def _entry(claim: Claim, finding: Finding) -> str:
    values = _row(claim, finding)
    return "\n".join(_wrapped(f"{name:<10}", str(value)) for name, value in values.items())


def _page(claim: Claim, finding: Finding) -> str:
    rows = [[f"{value:.6g}" for value in row] for row in finding.rows]
    parts = [
        _entry(claim, finding),
        table([finding.columns, *rows]),
        _wrapped("", claim.reasoning),
    ]
    return "\n\n".join(parts)


def _wrapped(head: str, text: str) -> str:
    return textwrap.fill(text, width=96, initial_indent=head, subsequent_indent=" " * len(head))
