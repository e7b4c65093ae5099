"""`taciturn study propose`: a training, counts or a regression, for the sites of a study."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn.cli import (
    REGRESSION_OPTIONS,
    all_options,
    emit,
    error_line,
    first_given,
    interruptible,
    regression_given,
    run_options,
    takes,
)
from taciturn.counting import CountingRequest, counting_request
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn.regression import RegressionRequest, regression_request
from taciturn.tables import Bounds
from taciturn.training import (
    DataFacts,
    Proposal,
    Request,
    centre_warning,
    known_forecast,
    propose,
    risk_warning,
    warnings_of,
)
from taciturn_federation import folders
from taciturn_federation.agreement import Invitation, sign
from taciturn_federation.commands.joining import site
from taciturn_federation.commands.parties import (
    PATIENCE,
    Force,
    Json,
    Out,
    Sockets,
    Studies,
    StudyName,
    check_free,
    opened_study,
    run_study,
    say,
    study,
)
from taciturn_federation.folders import Admission, StudyFolder
from taciturn_federation.local import certificate_for, evaluation_leg

__all__ = ["propose_", "site", "study"]

_PROPOSED = {k: v for k, v in all_options().items() if k not in ("agents", "rows_per_person")}
# what else may be said of tables: their method, model and features follow
_OF_TABLES = (
    "epsilon", "delta", "relation", "observer", "colluders", "rounds", "network", "evaluate",
    "rows_per_person",
)  # fmt: skip


@study.command("propose")
@takes(_PROPOSED | REGRESSION_OPTIONS)
def propose_(  # noqa: PLR0913 - one parameter per option
    *,
    name: StudyName,
    only: Annotated[
        list[str] | None, typer.Option(help="A site to include; may be repeated. [default: all]")
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Seconds without a message before the run is abandoned.")
    ] = PATIENCE,
    start_patience: Annotated[
        float | None,
        typer.Option(help="The same before the start. [default: the patience, at most 900]"),
    ] = None,
    release_abandoned: Annotated[
        bool,
        typer.Option(
            "--release-abandoned",
            help="Release the latest model of an abandoned run; only with an aggregator.",
        ),
    ] = False,
    quorum: Annotated[
        int | None,
        typer.Option(help="The least number of sites of a round. [default: all]", min=1),
    ] = None,
    count: Annotated[
        list[str] | None,
        typer.Option(help="Tables to count instead, as of taciturn count; may be repeated."),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Run it at once, with sites that stand by.")
    ] = False,
    sockets: Sockets = None,
    out: Out = None,
    force: Force = False,
    studies: Studies = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Propose a run to the admitted sites: sign everything public about it. Nothing is spent.

    It trains a model, counts tables (--count), or estimates a regression (--formula, --family).
    """
    file = Path(f"{name}.proposal") if out is None else out
    check_free(file, force=force)
    opened = opened_study(name, studies)
    regressed = regression_given(given)
    given = _of_study(opened.invitation, given)
    members = [one.participant for one in _members(opened, only)]
    names = [member.name for member in members]

    def prepare() -> tuple[Proposal, Any, Any]:
        options = run_options(given)
        bounds = opened.invitation.table.bounds
        facts = DataFacts.of(bounds)
        request = _asked(options.request, bounds, given, count, regressed)
        structure = options.structure.of_columns(request.facts_with_features(facts).names)
        counts = [member.count for member in members]
        proposal = propose(facts, counts, request, structure)
        return proposal, proposal.plan(request.methods), request.methods

    proposal, plan, methods = interruptible(prepare)
    signed = sign(
        name, proposal, members, coordinator=opened.coordinator(), key=opened.signing_key(),
        nonce=secrets.token_hex(16), patience=patience, start_patience=start_patience,
        release_abandoned=release_abandoned, quorum=quorum,
    )  # fmt: skip
    folders.keep_proposal(opened, signed)
    write_text(signed.to_json() + "\n", file)
    forecast = known_forecast(proposal, plan, methods)
    for warning in (*warnings_of(proposal), *risk_warning(proposal, forecast),
                    *centre_warning(proposal, plan)):  # fmt: skip
        error_line(warning, kind="warning: ")
    if json:
        emit({"study": name, "run": signed.subjects.run, "proposal": str(file), "sites": names,
              "rounds": proposal.rounds, "algorithm": proposal.method.name})  # fmt: skip
        return
    leg = evaluation_leg(proposal, plan)
    certificate = certificate_for(proposal, plan, leg, signed.may_lose)
    say(
        f"{proposal.method.name}, {proposal.rounds} rounds, with {len(names)} "
        f"site{'' if len(names) == 1 else 's'}: {', '.join(names)}",
        *(f"  {line}" for line in certificate.lines()),
        f"Proposal: {file}, for every site (run {signed.subjects.run}); nothing was spent",
    )
    if run:
        run_study(file, sockets=sockets, studies=studies)


def _of_study(invitation: Invitation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run, where none is given those of the study."""
    values = {**given, "agents": None, "rows_per_person": invitation.rows_per_person}
    if given["observer"] is None and invitation.observer == "sum":
        colluders = given["colluders"]
        values["observer"] = "sum"
        values["colluders"] = invitation.colluders if colluders is None else colluders
    return values


def _asked(
    request: Request,
    bounds: Bounds,
    given: dict[str, Any],
    count: list[str] | None,
    regressed: RegressionRequest | None,
) -> Request:
    """Return the request of a training, of counts, or of a regression."""
    if not count and regressed is None:
        return request
    if count and regressed is not None:
        raise InputError("a run counts or estimates a regression; leave one of the two out")
    also = first_given(given, [name for name in given if name not in _OF_TABLES])
    if also:
        raise InputError(f"tables have no {also}: it follows from what is asked; leave it out")
    if regressed is not None:
        return regression_request(request, bounds, regressed)
    return counting_request(request, bounds, CountingRequest(tuple(count or ())))


def _members(opened: StudyFolder, only: list[str] | None) -> list[Admission]:
    members = {one.participant.name: one for one in opened.members()}
    unknown = [name for name in only or () if name not in members]
    if unknown:
        raise InputError(
            f"study {opened.name!r} has no site {unknown[0]!r} that may take part; see taciturn "
            "study status"
        )
    found = [one for name, one in members.items() if not only or name in only]
    if not found:
        raise InputError(
            f"study {opened.name!r} has no site yet; send its invitation to owners, and admit them "
            "(taciturn study admit)"
        )
    return found
