"""`taciturn study`: what the coordinator of a study does."""

from __future__ import annotations

import secrets
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn.cli import (
    all_options,
    emit,
    error_line,
    interruptible,
    path,
    read_text,
    run_options,
    table,
    takes,
)
from taciturn.errors import InputError
from taciturn.models import write_text
from taciturn.tables import read_bounds
from taciturn.training import (
    DataFacts,
    Proposal,
    TableFacts,
    centre_warning,
    known_forecast,
    propose,
    risk_warning,
    warnings_of,
)
from taciturn_federation import folders
from taciturn_federation.agreement import JoinRequest, SignedProposal, check_address, sign
from taciturn_federation.commands import running
from taciturn_federation.hub import hub_configuration, run_hub, seen_struck, server_program
from taciturn_federation.local import certificate_for, last_question

study = running.group()

StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="The name of the study.")]
Studies = Annotated[
    Path | None,
    typer.Option("--studies", parser=path, help="The folder of studies; if not given, that in the "
                 "user's data folder."),
]  # fmt: skip
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier file.")]
PATIENCE = 3600.0


@study.command("new")
def new(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: StudyName,
    bounds: Annotated[
        Path, typer.Option(parser=path, help="The bounds file, public, of every owner's table.")
    ],
    hub: Annotated[
        str, typer.Option(help="Where sites reach the hub: host:port.")
    ] = "localhost:4222",
    rows_per_person: Annotated[
        int | None, typer.Option(help="Public: protect persons, with so many rows each at most.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=path, help="The file of the invitation; STUDY.invitation if not given."
        ),
    ] = None,
    studies: Studies = None,
    json: running.Json = False,
) -> None:
    """Make a study: its keys, the hub's certificate, and an invitation for owners."""
    file = Path(f"{name}.invitation") if out is None else out
    running.check_free(file, force=False)
    made = folders.new_study(
        folders.study_folder(name, studies),
        name,
        TableFacts.of(read_bounds(bounds)),
        hub=hub,
        rows_per_person=rows_per_person,
    )
    invitation = made.invitation
    write_text(invitation.to_json() + "\n", file)
    if json:
        emit({"study": name, "folder": str(made.folder), "invitation": str(file),
              "fingerprint": invitation.fingerprint})  # fmt: skip
        return
    running.say(
        f"Study {name} in {made.folder}; back it up, and show its keys to nobody",
        f"Invitation: {file}, for every owner",
        f"Its fingerprint, to be compared by telephone: {invitation.fingerprint}",
    )


@study.command("admit")
def admit_(
    name: StudyName,
    request: Annotated[Path, typer.Argument(parser=path, help="The request of an owner.")],
    studies: Studies = None,
    json: running.Json = False,
) -> None:
    """Admit a site, once its owner has read the same fingerprint."""
    opened = folders.open_study(folders.study_folder(name, studies))
    asked = JoinRequest.from_json(read_text(request))
    asked.check_for(opened.invitation)
    unit = "places for rows of persons" if opened.invitation.rows_per_person else "records"
    typer.echo(f"{asked.name} asks to take part with {asked.count:,} {unit}", err=True)
    typer.echo(f"Fingerprint of the request: {asked.fingerprint}", err=True)
    typer.echo("Does its owner read the same, by telephone? [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline().strip().lower()  # none is no
    typer.echo(err=True)
    if answer not in {"y", "yes"}:
        raise InputError(f"{asked.name} was not admitted; ask its owner for the request anew")
    member = folders.admit(opened, asked)
    if json:
        emit({"study": name, "site": asked.name, "number": member.number, "count": asked.count})
        return
    running.say(
        f"{asked.name} is site {member.number} of {name}; the next proposal has a part for it"
    )


@study.command("strike")
def strike_(name: StudyName, site: Annotated[str, typer.Argument(metavar="SITE", help="Its name.")],
            studies: Studies = None) -> None:  # fmt: skip
    """Strike a site off: a running hub disconnects it at once, and it is proposed with no more."""
    opened = folders.open_study(folders.study_folder(name, studies))
    folders.strike(opened, site)
    seen = seen_struck(opened)
    if seen.runs and not seen.done:
        raise InputError(
            f"{site} is struck off in the study, but the hub on this machine has not taken the new "
            f"configuration, so {site} may still be connected; stop that hub and start it again"
        )
    if seen.done:
        running.say(f"{site} is struck off, and the hub on this machine has disconnected it")
        return
    listens = f"something else listens at port {check_address(opened.invitation.hub)[1]}"
    running.say(
        f"{site} is struck off in the study; no hub of it runs on this machine"
        f"{f', though {listens}' if seen.listens else ''}. A server of your own lets {site} in "
        f"until it takes the new configuration (taciturn study hub {name} --print)"
    )


@study.command("hub")
def hub_(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: StudyName,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "0.0.0.0",
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="That of the invitation if not given.")
    ] = None,
    server: Annotated[
        Path | None, typer.Option(parser=path, help="The program nats-server.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print the configuration for a server of your own.")
    ] = False,
    log: running.Log = None,
    studies: Studies = None,
) -> None:
    """Run the hub, which carries messages and keeps none; Ctrl-C ends it."""
    opened = folders.open_study(folders.study_folder(name, studies))
    if show:
        typer.echo(hub_configuration(opened, host=host, port=port), nl=False)
        return
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with running.events_to(log, quiet=False) as events:

        def told(event: str, **values: Any) -> None:
            events(event, **values)
            if event == "hub_started":
                running.say(f"The hub of {name} listens on {host}:{values['port']}; Ctrl-C ends it")

        program = server_program(server)
        run_hub(opened, program, host=host, port=port, event=told, stopped=stop.is_set)


_PROPOSED = {k: v for k, v in all_options().items() if k not in ("agents", "rows_per_person")}


@study.command("propose")
@takes(_PROPOSED)
def propose_(  # noqa: PLR0913 - one parameter per option
    *,
    name: StudyName,
    only: Annotated[
        list[str] | None, typer.Option(help="A site that takes part; may be repeated; else all.")
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Seconds that a party is waited for before the run is abandoned.")
    ] = PATIENCE,
    release_abandoned: Annotated[
        bool,
        typer.Option(
            "--release-abandoned",
            help="Release the model so far of an abandoned run; only with an aggregator.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(parser=path, help="The file; STUDY.proposal if not given.")
    ] = None,
    force: Force = False,
    studies: Studies = None,
    json: running.Json = False,
    **given: Any,
) -> None:
    """Propose a run to the admitted sites: everything public about it, signed. Nothing is spent."""
    file = Path(f"{name}.proposal") if out is None else out
    running.check_free(file, force=force)
    opened = folders.open_study(folders.study_folder(name, studies))
    given = {**given, "agents": None, "rows_per_person": opened.invitation.rows_per_person}
    sites = _taking_part(opened, only)
    counts = [site.participant.count for site in sites]
    names = [site.participant.name for site in sites]

    def prepared() -> tuple[Proposal, Any, Any]:
        options = run_options(given)
        facts = DataFacts.of(opened.invitation.table.bounds, given["features"])
        structure = options.structure.of_columns(facts.names)
        proposal = propose(facts, counts, options.request, structure)
        return proposal, proposal.plan(options.request.methods), options.request.methods

    proposal, plan, methods = interruptible(prepared)
    signed = sign(
        name, proposal, [site.participant for site in sites], coordinator=opened.coordinator(),
        key=opened.signing_key(), nonce=secrets.token_hex(16), patience=patience,
        release_abandoned=release_abandoned,
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
    certificate = certificate_for(proposal, plan, last_question(proposal, plan))
    running.say(
        f"{proposal.method.name}, {proposal.rounds} rounds, with {len(names)} "
        f"site{'' if len(names) == 1 else 's'}: {', '.join(names)}",
        *(f"  {line}" for line in certificate.lines()),
        f"Proposal: {file}, for every site (run {signed.subjects.run}); nothing was spent",
    )


@study.command("run")
def run_(  # noqa: PLR0913, PLR0917 - one parameter per option
    proposal: Annotated[
        Path, typer.Argument(parser=path, help="The file of taciturn study propose.")
    ],
    out: running.ReportFolder = None,
    force: Force = False,
    algorithm: running.Algorithm = None,
    quiet: running.Quiet = False,
    log: running.Log = None,
    studies: Studies = None,
    json: running.Json = False,
) -> None:
    """Run a proposal with its sites; called again, it goes on where it stood."""
    signed = SignedProposal.from_json(read_text(proposal))
    opened = folders.open_study(folders.study_folder(signed.study, studies))
    shows = running.Shows(out, force, quiet, log, json)
    running.coordinate(opened, signed, running.methods_for(signed, algorithm), shows=shows)


@study.command("status")
def status(name: StudyName, studies: Studies = None, json: running.Json = False) -> None:
    """Show who was admitted, which runs were proposed, and where they stand."""
    opened = folders.open_study(folders.study_folder(name, studies))
    runs = []
    for one in opened.proposals():
        stands = running.stands_in(opened.run_folder(one) / "progress.json")
        method, rounds = one.proposal.method.name, one.proposal.rounds
        proposed = f"proposed, {method}, {rounds} rounds"
        runs.append({"run": one.subjects.run, "stands": stands or proposed})
    if json:
        sites = [
            {"site": site.participant.name, "number": site.number,
             "count": site.participant.count, "struck": site.struck}
            for site in opened.admitted()
        ]  # fmt: skip
        emit({"study": name, "fingerprint": opened.invitation.fingerprint, "hub":
              opened.invitation.hub, "sites": sites, "runs": runs})  # fmt: skip
        return
    rows = [["site", "records", ""]]
    for site in opened.admitted():
        who = site.participant
        rows.append([who.name, f"{who.count}", "struck off" if site.struck else ""])
    running.say(
        f"Study {name}, hub {opened.invitation.hub}, invitation {opened.invitation.fingerprint}",
        "",
        table(rows),
        *([""] if runs else []),
        *(f"Run {run['run']}: {run['stands']}" for run in runs),
    )


def _taking_part(opened: folders.StudyFolder, only: list[str] | None) -> list[Any]:
    members = {one.participant.name: one for one in opened.members()}
    unknown = [site for site in only or () if site not in members]
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
