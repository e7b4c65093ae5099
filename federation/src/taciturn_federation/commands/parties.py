"""`taciturn study` and `taciturn site`: the commands of the coordinator and of the owners."""

from __future__ import annotations

import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taciturn.algorithms import Method
from taciturn.budget import head_lock, heads_folder, private_folder
from taciturn.cli import (
    ACCOUNT_OPTIONS,
    Option,
    emit,
    error_line,
    interruptible,
    methods_with,
    path,
    printable,
    read_text,
    table,
    takes,
)
from taciturn.cli import (
    say as print_text,
)
from taciturn.engine import Charged
from taciturn.errors import InputError, TaciturnError
from taciturn.models import write_text
from taciturn.report import FIRST_CERTIFICATE, check_out
from taciturn.tables import read_bounds
from taciturn.training import (
    PrivateScore,
    TableFacts,
)
from taciturn_federation import folders
from taciturn_federation.accounts import charged_account, site_account
from taciturn_federation.agreement import (
    JoinRequest,
    SignedProposal,
    check_address,
)
from taciturn_federation.coordinator import Coordinator
from taciturn_federation.folders import SiteFolder, StudyFolder
from taciturn_federation.hub import after_strike, hub_configuration, run_hub, server_program
from taciturn_federation.inbox import Outcome, Party, Progress
from taciturn_federation.joining import Waiting, receiving, waiting_requests
from taciturn_federation.journal import Journal
from taciturn_federation.keys import public_key, read_alike
from taciturn_federation.local import EvaluationLeg, derive
from taciturn_federation.masks import remove_stale_keys
from taciturn_federation.metrics import Metrics
from taciturn_federation.moving import move_site, move_study
from taciturn_federation.reports import (
    Events,
    ProgressDisplay,
    RunReport,
    check_proposal,
    events_to,
    read_progress,
)
from taciturn_federation.site import Site
from taciturn_federation.sockets import SocketLink
from taciturn_federation.standing import Policy, Standing, approve, commands
from taciturn_federation.transport import Link, Transport, Watch, decline, run_party

INTERRUPTED = 130
PATIENCE = 3600.0
HUB, EVERYWHERE = "localhost:4222", "0.0.0.0"


def _group() -> typer.Typer:
    return typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None,
                       pretty_exceptions_enable=False)  # fmt: skip


study, site = _group(), _group()

StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="The name of the study.")]
Studies = Annotated[Path | None, typer.Option(parser=path, help="Folder of studies.")]
Sites = Annotated[Path | None, typer.Option(parser=path, help="Folder of sites.")]
SiteName = Annotated[str | None, typer.Option("--name", help="The site, if there are several.")]
ProposalFile = Annotated[Path, typer.Argument(parser=path, help="The file of the proposal.")]
Data = Annotated[Path | None, typer.Option(parser=path, help="The file of records, if moved.")]
Out = Annotated[Path | None, typer.Option(parser=path, help="Output file; NAME.KIND by default.")]
ReportFolder = Annotated[Path | None, typer.Option("--out", parser=path, help="Report folder.")]
Algorithm = Annotated[str | None, typer.Option(help="Permit this module:Class of the proposal.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier file or report.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Log = Annotated[Path | None, typer.Option(parser=path, help="Log file: a JSON line per event.")]
Sockets = Annotated[
    Path | None,
    typer.Option(parser=path, help="Folder of sockets, where another engine than the hub delivers.")
]  # fmt: skip
MetricsFile = Annotated[
    Path | None,
    typer.Option("--metrics", parser=path, help="File of metrics, for Prometheus' node exporter."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
RowsPerPerson = Annotated[int | None, typer.Option(help="Protect persons of at most so many rows.")]
NoAccount = Annotated[
    bool, typer.Option("--no-account", help="Charge no account: nothing limits all runs together.")
]
BoundsFile = Annotated[
    Path, typer.Option(parser=path, help="The public bounds file of all owners' tables.")
]
HubAddress = Annotated[str, typer.Option(help="Where sites reach the hub: host:port.")]
ObserverName = Annotated[
    str, typer.Option("--observer", help="Of its runs, for owners' accounts: messages, or sum.")
]
Colluders = Annotated[
    int, typer.Option(min=0, help="With --observer sum: the number of colluding agents.")
]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
PersonColumn = Annotated[str | None, typer.Option(help="Column of persons, if they are protected.")]


def say(*lines: str) -> None:
    """Print lines, each without control characters; a full disk behind them ends no process."""
    print_text("\n".join("\n".join(map(printable, line.split("\n"))) for line in lines))


def check_free(file: Path, *, force: bool) -> None:
    """Raise `InputError` if a file exists, unless it is a plain one that may be replaced."""
    if file.exists() and not (force and file.is_file()):
        raise InputError(f"{file} exists; name a new file with --out, or pass --force")


# the coordinator's commands


def opened_study(name: str, studies: Path | None) -> StudyFolder:
    """Return the study of a name, in a folder of studies or that of the user."""
    return folders.open_study(folders.study_folder(name, studies))


@study.command("new")
def new(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: StudyName,
    bounds: BoundsFile,
    hub: HubAddress = HUB,
    rows_per_person: RowsPerPerson = None,
    observer: ObserverName = "messages",
    colluders: Colluders = 1,
    out: Out = None,
    studies: Studies = None,
    json: Json = False,
) -> None:
    """Create a study: its keys, the hub's certificate, and an invitation for owners."""
    file = Path(f"{name}.invitation") if out is None else out
    check_free(file, force=False)
    facts, folder = TableFacts.of(read_bounds(bounds)), folders.study_folder(name, studies)
    created = folders.new_study(
        folder, name, facts, hub=hub, rows_per_person=rows_per_person, observer=observer,
        colluders=colluders,
    )  # fmt: skip
    invitation = created.invitation
    write_text(invitation.to_json() + "\n", file)
    if json:
        emit({"study": name, "folder": str(created.folder), "invitation": str(file),
              "fingerprint": invitation.fingerprint})  # fmt: skip
        return
    say(
        f"Study {name} in {created.folder}; back it up, and keep its keys secret",
        f"Invitation: {file}, for every owner",
        f"Its fingerprint, to be compared by telephone: {invitation.fingerprint}",
    )


@study.command("admit")
def admit(
    name: StudyName,
    requests: Annotated[
        list[str],
        typer.Argument(metavar="SITE...", help="Names of sites that asked, or files of requests."),
    ],
    agreed: Annotated[
        list[str] | None,
        typer.Option(help="A fingerprint that an owner read; nothing is asked then."),
    ] = None,
    studies: Studies = None,
    json: Json = False,
) -> None:
    """Admit sites, once their owners have confirmed the fingerprints of their requests."""
    opened = opened_study(name, studies)
    found = [_requests(opened, one) for one in requests]  # before any is admitted
    for waiting in found:
        join = next((one.request for one in waiting if _confirmed(opened, one, agreed)), None)
        if join is None:
            raise InputError(
                f"{waiting[0].request.name} was not admitted; let its owner send the request again"
            )
        member = folders.admit(opened, join)
        for one in waiting_requests(opened):
            if one.request.name == join.name:
                one.file.unlink(missing_ok=True)
        if json:
            emit({"study": name, "site": join.name, "number": member.number, "count": join.count})
        else:
            say(f"{join.name} is site {member.number} of {name}; the next proposal includes it")


def _requests(opened: StudyFolder, asked: str) -> list[Waiting]:
    """Return the requests in a file, or those of a site's name that came through the hub."""
    if {".", "/"} & set(asked):  # in no name
        request = JoinRequest.from_json(read_text(Path(asked)))
        request.check_for(opened.invitation)
        return [Waiting(Path(asked), request)]
    found = [one for one in waiting_requests(opened) if one.request.name == asked]
    if not found:
        raise InputError(
            f"no request of {asked!r} has arrived; is the hub running (taciturn study start), and "
            "has its owner joined (taciturn site join)? A file of a request is named with a point"
        )
    return found


def _confirmed(opened: StudyFolder, waiting: Waiting, agreed: list[str] | None) -> bool:
    """Return whether an owner confirms a request; one that came through the hub is dropped else."""
    join = waiting.request
    unit = "places for rows of persons" if opened.invitation.rows_per_person else "records"
    typer.echo(f"{join.name} requests to take part with {join.count:,} {unit}", err=True)
    typer.echo(f"Fingerprint of the request: {join.fingerprint}", err=True)
    if agreed:
        return any(read_alike(one, join.fingerprint) for one in agreed)
    typer.echo("Does its owner read the same, by telephone? [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline().strip().lower()  # none is no
    typer.echo(err=True)
    if answer in {"n", "no"} and waiting.file.parent == opened.folder / "requests":
        waiting.file.unlink(missing_ok=True)
    return answer in {"y", "yes"}


@study.command("strike")
def strike(name: StudyName, site: Annotated[str, typer.Argument(metavar="SITE", help="Its name.")],
           studies: Studies = None) -> None:  # fmt: skip
    """Strike a site off: a running hub disconnects it at once, and later proposals omit it."""
    opened = opened_study(name, studies)
    folders.strike(opened, site)
    hub = after_strike(opened)
    if hub.runs and not hub.done:
        raise InputError(
            f"{site} is struck off in the study, but the hub on this machine has not loaded the "
            f"new configuration, so {site} may still be connected; stop that hub and start it again"
        )
    if hub.done:
        say(f"{site} is struck off, and the hub on this machine has disconnected it")
        return
    listens = f"something else listens at port {check_address(opened.invitation.hub)[1]}"
    say(
        f"{site} is struck off in the study; no hub of it runs on this machine"
        f"{f', though {listens}' if hub.listens else ''}. A server of yours admits {site} "
        f"until it loads the new configuration (taciturn study hub {name} --print)"
    )


@study.command("move")
def move(
    name: StudyName,
    hub: Annotated[str, typer.Argument(metavar="HUB", help="Its new address, host:port.")],
    out: Out = None,
    force: Force = False,
    studies: Studies = None,
) -> None:
    """Give the hub another address: a new invitation, for the sites' `taciturn site move`."""
    file = Path(f"{name}.invitation") if out is None else out
    check_free(file, force=force)
    moved = move_study(opened_study(name, studies), hub)
    write_text(moved.invitation.to_json() + "\n", file)
    say(f"Hub of {name}: {hub}. Start it there, and send every site {file} (taciturn site move)")


@study.command("hub")
def hub(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: StudyName,
    host: Host = EVERYWHERE,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port; by default that of the invitation.")
    ] = None,
    server: Annotated[
        Path | None, typer.Option(parser=path, help="Path of the program nats-server.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print the configuration, for a server of yours.")
    ] = False,
    closed: Annotated[
        bool, typer.Option("--closed", help="Let no guest in: no request to join arrives.")
    ] = False,
    log: Log = None,
    studies: Studies = None,
) -> None:
    """Run the hub, which forwards messages and stores none; Ctrl-C ends it."""
    opened = opened_study(name, studies)
    if show:
        typer.echo(hub_configuration(opened, host=host, port=port, closed=closed), nl=False)
        return
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with events_to(log, quiet=False) as events:

        def event(kind: str, **values: Any) -> None:
            events(kind, **values)
            if kind == "hub_started":
                say(f"The hub of {name} listens on {host}:{values['port']}; Ctrl-C ends it")

        def report(line: str) -> None:
            events.report(line)
            say(line)

        program = server_program(server)
        here = "127.0.0.1" if host in {"0.0.0.0", "::"} else host
        where = f"{here}:{port or check_address(opened.invitation.hub)[1]}"
        with receiving(opened, where, report):
            run_hub(opened, program, host=host, port=port, event=event, stopped=stop.is_set,
                    closed=closed)  # fmt: skip


@study.command("run")
def run_study(  # noqa: PLR0913, PLR0917 - one parameter per option
    proposal: ProposalFile,
    out: ReportFolder = None,
    force: Force = False,
    algorithm: Algorithm = None,
    sockets: Sockets = None,
    quiet: Quiet = False,
    log: Log = None,
    metrics: MetricsFile = None,
    studies: Studies = None,
    json: Json = False,
) -> None:
    """Run a proposal with its sites; the same command resumes it."""
    signed = SignedProposal.from_json(read_text(proposal))
    opened = opened_study(signed.study, studies)
    output, methods = Output(out, force, quiet, log, json), methods_for(signed, algorithm)
    folder, default = opened.run_folder(signed), opened.report_folder(signed)
    output.check(default)
    run = signed.subjects.run
    watched = Metrics(metrics, study=signed.study, party="coordinator", run=run)
    with events_to(log, quiet=quiet, run=run, metrics=watched) as events:
        journal, key = Journal(folder / "journal"), opened.signing_key()
        party = interruptible(
            lambda: Coordinator(signed, journal, key, methods=methods, report=events.report)
        )
        started = time.monotonic()
        outcome = _run(party, _link(opened, sockets), events, folder / "progress.json", output)
        report = RunReport(
            signed=signed, plan=party.plan, outcome=outcome, seconds=time.monotonic() - started,
            score=_score(party.evaluation, outcome), attendance=party.attendance,
        )  # fmt: skip
        write_report(report, output, default)


@study.command("status")
def study_status(name: StudyName, studies: Studies = None, json: Json = False) -> None:
    """Show the admitted sites and the state of the proposed runs."""
    opened = opened_study(name, studies)
    runs, struck = [], opened.struck()
    for one in opened.proposals():
        stands = read_progress(opened.run_folder(one) / "progress.json")
        proposed = f"proposed, {one.proposal.method.name}, {one.proposal.rounds} rounds"
        runs.append({"run": one.subjects.run, "stands": stands or proposed})
    if json:
        sites = [
            {"site": one.participant.name, "number": one.number,
             "count": one.participant.count, "struck": one.participant.key in struck}
            for one in opened.admitted()
        ]  # fmt: skip
        emit({"study": name, "fingerprint": opened.invitation.fingerprint, "hub":
              opened.invitation.hub, "sites": sites, "runs": runs})  # fmt: skip
        return
    waiting = [
        f"{one.request.name} asks to join, fingerprint {one.request.fingerprint}"
        for one in waiting_requests(opened)
    ]
    rows = [["site", "records", ""]]
    for member in (admission.participant for admission in opened.admitted()):
        rows.append([member.name, f"{member.count}", "struck off" if member.key in struck else ""])
    say(
        f"Study {name}, hub {opened.invitation.hub}, invitation {opened.invitation.fingerprint}",
        "",
        table(rows),
        *(["", *waiting] if waiting else []),
        *([""] if runs else []),
        *(f"Run {run['run']}: {run['stands']}" for run in runs),
    )


# the owner's commands


_ACCOUNT = {
    **ACCOUNT_OPTIONS,
    "account": Option(str, "Account to charge. [default: that of the site]"),
}


@site.command("move")
def move_(
    invitation: Annotated[Path, typer.Argument(parser=path, help="The new invitation.")],
    name: SiteName = None,
    sites: Sites = None,
) -> None:
    """Connect to another address of the hub, which the coordinator signed; keys stay."""
    invited = folders.read_invitation(invitation)
    opened = folders.open_site(folders.find_site(invited.study, name, sites))
    moved = move_site(opened, invited)
    say(f"Site {moved.name} of study {invited.study} connects to {invited.hub} from its next start")


@site.command("check")
@takes(_ACCOUNT)
def check(
    *,
    proposal: ProposalFile,
    data: Data = None,
    algorithm: Algorithm = None,
    name: SiteName = None,
    sites: Sites = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Derive what a proposal costs this site and what would leave it; nothing is spent."""
    signed, opened = _site(proposal, name, sites)
    methods, source = methods_for(signed, algorithm), opened.source(data)
    account = site_account(opened, given)
    found = interruptible(
        lambda: check_proposal(opened, signed, methods, source=source, account=account)
    )
    if json:
        emit(found.values)
        return
    say(*found.lines)


@site.command("run")
@takes(_ACCOUNT)
def run_site(  # noqa: PLR0913 - one parameter per option
    *,
    proposal: ProposalFile,
    data: Data = None,
    out: ReportFolder = None,
    force: Force = False,
    algorithm: Algorithm = None,
    reproduction: Annotated[
        int | None,
        typer.Option(help="Seed of the noise: the run is a reproduction, not private."),
    ] = None,
    agreed: Annotated[
        str | None, typer.Option(help="With the observer sum: the code that the owners compared.")
    ] = None,
    no_account: NoAccount = False,
    name: SiteName = None,
    sockets: Sockets = None,
    quiet: Quiet = False,
    log: Log = None,
    sites: Sites = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Accept a proposal and answer its rounds; the same command resumes the run."""
    signed, opened = _site(proposal, name, sites)
    output, methods = Output(out, force, quiet, log, json), methods_for(signed, algorithm)
    account = charged_account(opened, given, nowhere=no_account)
    default = opened.report_folder(signed)
    output.check(default)
    agent, key = opened.take_part(signed), opened.signing_key()
    link = _link(opened, sockets)
    coordinator = public_key(opened.invitation.key)
    with events_to(log, quiet=quiet, run=signed.subjects.run) as events:
        with _declining(signed, agent, key, link):
            local = interruptible(
                lambda: derive(
                    signed, opened.source(data), agent=agent, coordinator=coordinator,
                    seed=reproduction, methods=methods,
                )
            )  # fmt: skip
        if local.plan.program.summed:
            signed.check_agreed(agreed)
        journal = Journal(opened.journal)
        for line in remove_stale_keys(journal, but=signed.digest):
            events.report(line)
        with _declining(signed, agent, key, link):
            party = Site(local, journal, key, account=account, report=events.report)
        started = time.monotonic()
        outcome = _run(party, link, events, opened.progress_file(signed), output)
        charged, (number, digest) = None, journal.head
        events("head", entries=number, digest=digest)
        if account is not None:
            charged = Charged(account.name, party.charged_as, *account.around(party.charged_as))
            events("spent", account=account.name, left=charged.after.left_text())
        report = RunReport(
            signed=signed, plan=local.plan, outcome=outcome, seconds=time.monotonic() - started,
            score=_score(local.evaluation, outcome), agent=agent, charged=charged,
            attendance=party.attendance,
        )  # fmt: skip
        write_report(report, output, default)


@site.command("serve")
def serve(  # noqa: PLR0913 - one parameter per option
    policy: Annotated[
        Path | None,
        typer.Argument(
            parser=path, metavar="POLICY", help="The owner's policy, TOML. [default: as joined]"
        ),
    ] = None,
    *,
    study: Annotated[str, typer.Option(help="The study.")],
    name: SiteName = None,
    sockets: Sockets = None,
    log: Log = None,
    metrics: MetricsFile = None,
    sites: Sites = None,
) -> None:
    """Stand by: receive proposals, and start those that the policy allows; Ctrl-C ends it."""
    opened = folders.open_site(folders.find_site(study, name, sites))
    watched = Metrics(metrics, study=study, party=opened.name)
    stand_by(opened, policy or opened.policy, sites, log, sockets, watched)


def stand_by(
    opened: SiteFolder,
    policy: Path,
    sites: Path | None,
    log: Path | None,
    sockets: Path | None = None,
    metrics: Metrics | None = None,
) -> None:
    """Run a standing site until it is interrupted; without a policy every run waits."""
    if policy != opened.policy or policy.exists():
        Policy.read(policy)  # an error is seen at once
    with ExitStack() as stack:
        events = stack.enter_context(events_to(log, quiet=False, metrics=metrics))
        try:
            stack.enter_context(head_lock(opened.folder / "standing", 0.0))
        except sqlite3.OperationalError:
            raise InputError(f"site {opened.name} stands by already, in another process") from None

        def report(line: str) -> None:
            events.report(line)
            say(line)

        rules = partial(Policy.read, policy)
        run = commands(opened, sites, None if log is None else log.absolute(), sockets)
        party = Standing(opened, rules, run, report, events)
        say(f"Site {opened.name} of study {opened.invitation.study} stands by; Ctrl-C ends it")

        def show(progress: Progress) -> None:
            if metrics is not None:
                metrics.show(progress, party.counts())

        run_party(party, _link(opened, sockets), Watch(event=events, progress=show))


@site.command("approve")
def approve_(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run that waits for its owner.")],
    study: Annotated[str, typer.Option(help="The study.")],
    name: SiteName = None,
    sites: Sites = None,
) -> None:
    """Let a standing site start a run that its policy does not allow."""
    opened = folders.open_site(folders.find_site(study, name, sites))
    approve(opened, run)
    say(f"Run {run} starts within a second where the site stands by (taciturn site serve)")


@site.command("status")
def site_status(sites: Sites = None, json: Json = False) -> None:
    """Show the sites of this machine and the state of their runs."""
    folder = folders.sites_folder(sites)
    files = sorted(folder.glob("*/*/site.json"))
    values = [_status(folders.open_site(file.parent)) for file in files]
    if json:
        emit({"folder": str(folder), "sites": values})
        return
    if not values:
        say(f"There is no site in {folder}")
    for one in values:
        say(f"{one['site']} of study {one['study']}, {one['data']}, hub {one['hub']}")
        for run, stands in one["runs"].items():
            say(f"  run {run}: {stands}")
        for line in one["cleared"]:
            say(f"  {line}")


def _status(opened: SiteFolder) -> dict[str, Any]:
    """Return the state of a site; mask keys that no run needs are removed."""
    files, cleared = sorted((opened.folder / "progress").glob("*.json")), []
    if opened.journal.exists() and any(heads_folder().glob("*.masks")):
        # a process that uses the journal holds its lock
        with suppress(InputError), closing(Journal(opened.journal)) as journal:
            cleared = remove_stale_keys(journal)
    runs = {file.stem: stands for file in files if (stands := read_progress(file)) is not None}
    return {"site": opened.name, "study": opened.invitation.study, "data": opened.facts.data,
            "hub": opened.invitation.hub, "runs": runs, "cleared": cleared}  # fmt: skip


def _site(
    proposal: Path, name: str | None, sites: Path | None
) -> tuple[SignedProposal, SiteFolder]:
    signed = SignedProposal.from_json(read_text(proposal))
    return signed, folders.open_site(folders.find_site(signed.study, name, sites))


# a party as a process


@dataclass(frozen=True)
class Output:
    """The output of a party, and its places."""

    out: Path | None  # the folder of the report; None for the default one
    force: bool
    quiet: bool
    log: Path | None
    json: bool

    def check(self, default: Path) -> None:
        """Raise `InputError` if the report cannot be written."""
        check_out(default if self.out is None else self.out, force=self.out is None or self.force)


def methods_for(signed: SignedProposal, algorithm: str | None) -> Mapping[str, Method]:
    """Return the table of methods for a proposal.

    Raises `InputError` if the proposal is for a user's method that `algorithm` does not name.

    **Guarantee.** A proposal is data: no module is imported because a proposal names it, unless
    the user names the same one.
    """
    name = signed.proposal.method.name
    if ":" in name and algorithm != name:
        raise InputError(
            f"the proposal is for a method of a user, {name[:100]!r}; --algorithm "
            f"{name[:100]} imports and runs that code, so add it if you trust it"
        )
    if algorithm is not None and algorithm != name:
        raise InputError(f"the proposal is for {name}; leave --algorithm {algorithm} out")
    return methods_with(name)


def _link(folder: StudyFolder | SiteFolder, sockets: Path | None) -> Transport:
    if sockets is not None:
        return SocketLink(sockets)
    return Link(folder.invitation.hub, folder.invitation.certificate, folder.nkey())


@contextmanager
def _declining(
    signed: SignedProposal, agent: int, key: Ed25519PrivateKey, link: Transport
) -> Iterator[None]:
    """Inform the coordinator if the site cannot begin, so that the others do not wait for it."""
    try:
        yield
    except TaciturnError:
        decline(signed, agent, key, link)
        raise


def _score(leg: EvaluationLeg | None, outcome: Outcome) -> PrivateScore | None:
    return None if leg is None or outcome.totals is None else leg.score(outcome.totals)


def _run(party: Party, link: Transport, events: Events, progress: Path, output: Output) -> Outcome:
    """Return the outcome of a party; an interrupted process can be resumed."""
    display = ProgressDisplay(events, progress, quiet=output.quiet)
    try:
        outcome = run_party(party, link, Watch(event=events, progress=display))
    finally:
        display.leave()
    if outcome is None:
        events("interrupted")
        error_line("stopped; the same command resumes the run", kind="")
        raise typer.Exit(INTERRUPTED)
    events("ended", ending=outcome.ending, line=outcome.line)
    display.end(outcome.ending)
    return outcome


def write_report(report: RunReport, output: Output, default: Path) -> None:
    """Write the report and show the outcome; raise `InputError` if there is no model."""
    out, certificate, released = output.out, None, report.outcome.model is not None
    if out is not None:
        certificate = report.save(out, force=output.force)
    elif released:
        out, certificate = default, default / FIRST_CERTIFICATE
        if not certificate.exists():
            private_folder(default.parent)
            certificate = report.save(default, force=True)
    if output.json:
        emit(report.values(out))
    elif released:
        say(*report.lines(certificate))
    if not released:
        raise InputError(f"{report.outcome.ending}: {report.outcome.line}")
