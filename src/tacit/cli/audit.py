"""`tacit audit`: attack an algorithm and say which layer saw what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.interrupt import interruptible
from tacit.cli.output import emit, one_of, table
from tacit.cli.train import check_seed

if TYPE_CHECKING:
    from tacit.audit import AuditReport


def audit(
    algorithm: Annotated[str, typer.Argument(help="dp-admm or noisy-gradient.")],
    fault: Annotated[
        str | None,
        typer.Option(help="Plant one: halved-noise, no-clipping, reused-noise or clear-dual."),
    ] = None,
    mu: Annotated[float, typer.Option(help="What the plan is made to spend.")] = 1.5,
    runs: Annotated[int, typer.Option(help="Runs on each of the two data sets.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the noise and of the data.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Attack an algorithm, as planned or with a planted fault, on data that saturates its bound."""
    report = interruptible(lambda: _attacked(algorithm, fault, mu=mu, runs=runs, seed=seed))
    if json:
        from tacit.report import strict  # noqa: PLC0415 - start-up

        emit(strict(report.to_dict()))
    else:
        typer.echo(_sentences(report))


def _attacked(algorithm: str, fault: str | None, *, mu: float, runs: int, seed: int) -> AuditReport:
    import tacit.audit as layers  # noqa: PLC0415 - start-up
    from tacit.algorithms import ALGORITHMS  # noqa: PLC0415 - start-up

    one_of("ALGORITHM", algorithm, ALGORITHMS)
    planted = None if fault is None else layers.fault_named(fault)
    check_seed("seed", seed)
    return layers.audit(algorithm, mu=mu, runs=runs, seed=seed, fault=planted)


def _sentences(report: AuditReport) -> str:
    fault = "no fault planted" if report.fault is None else f"planted fault: {report.fault}"
    violated = [layer for layer, seen in report.layers.items() if seen == "violated"]
    verdict = "consistent: no layer saw more than the certificate allows"
    if violated:
        verdict = f"violated, as seen by: {', '.join(violated)}"
    return (
        f"Audit of {report.algorithm}, {fault}, {report.likelihood.runs} runs on each of two "
        f"neighbouring data sets\nClaimed mu {report.claimed_mu:.4g}; realised by this pair "
        f"{report.replay.realised_mu:.4g}\n\n{_layers(report)}\n\n{_reach(report)}"
        f"Verdict: {verdict}"
    )


def _reach(report: AuditReport) -> str:
    """Return a warning if so few runs could not have shown a violation."""
    reachable = report.likelihood.reachable
    if reachable > report.claimed_mu:
        return ""
    return (
        f"Note: {report.likelihood.runs} runs can prove a mu of at most {reachable:.3g}, so the "
        "likelihood layer could not have seen a violation; ask for more runs\n\n"
    )


def _layers(report: AuditReport) -> str:
    least = min(report.residuals.p_values.items(), key=lambda item: item[1])
    seen = {
        "likelihood": f"mu is at least {report.likelihood.mu:.4g} "
        f"(confidence {report.likelihood.confidence:.0%}); claimed {report.claimed_mu:.4g}",
        "replay": f"answers moved by up to {report.replay.worst_ratio:.4g} of their bound; "
        f"realised mu {report.replay.realised_mu:.4g}, planned {report.replay.planned_mu:.4g}",
        "residuals": f"least p-value {least[1]:.2g} ({least[0]}), "
        f"{len(report.residuals.p_values)} tests at level {report.residuals.level:g} in all",
        "messages": f"sent and recomputed differ by {report.replay.message_gap:.2g}",
    }
    rows = [(layer, outcome, seen[layer]) for layer, outcome in report.layers.items()]
    return table([("layer", "outcome", "what it saw"), *rows])
