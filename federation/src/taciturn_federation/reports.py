"""The output of a party: of a site before a run, of every party during and after it."""

from __future__ import annotations

import datetime
import io
import json
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

import taciturn
from taciturn.algorithms import Method
from taciturn.budget import (
    Account,
    check_fits,
    head_lock,
    private_folder,
    private_opener,
    total_of,
)
from taciturn.certificates import stated
from taciturn.cli import error_line, printable
from taciturn.engine import Charged, Plan
from taciturn.engine.charging import purpose_of
from taciturn.errors import InputError
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.records import Draw
from taciturn.models import write_text
from taciturn.report import (
    CERTIFIED,
    NOT_PROTECTED,
    UNPROTECTED,
    Items,
    Page,
    Section,
    Table,
    account_section,
    certificate_file,
    certificate_section,
    charged_line,
    charged_values,
    counted,
    json_text,
    plan_values,
    promise,
    score_sections,
    settings_section,
    stamps,
    strict,
    write_folder,
)
from taciturn.tables import Source
from taciturn.training import PrivateScore, warnings_of
from taciturn_federation.accounts import NOWHERE
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.attendance import Attendance
from taciturn_federation.folders import SiteFolder
from taciturn_federation.inbox import Outcome, Progress
from taciturn_federation.keys import public_key
from taciturn_federation.local import Local, certificate_for, derive, evaluation_leg, layouts_of
from taciturn_federation.metrics import Metrics
from taciturn_federation.results import RESULT_FILES, Result, result_of
from taciturn_federation.site import AgentRounds

_MASKED = ", and so are the masks, which cancel only in the sum over all sites"


@dataclass(frozen=True)
class Check:
    """The result of a check: what a site derives from a proposal and its file."""

    local: Local
    rounds: int  # in which it answers
    message_bytes: int  # of each of its messages
    # what the account has, and whether the run fits; None if no account was named
    account: Mapping[str, str] | None

    @property
    def values(self) -> dict[str, Any]:
        """The same as strictly valid JSON values."""
        local, signed, agent = self.local, self.local.signed, self.local.agent
        values: dict[str, Any] = strict({
            "study": signed.study, "run": signed.subjects.run, "site": local.name,
            "code": signed.code, "agent": agent,
            "answers": int(local.plan.ledger.asked[agent].sum()), "rounds": self.rounds,
            "message_bytes": self.message_bytes,
            "own_epsilon": local.certificate.per_agent_epsilon[agent],
            "certificate": stated(local.certificate),
            "account": None if self.account is None else dict(self.account),
            "warnings": warnings_of(signed.proposal),
        })  # fmt: skip
        return values

    @property
    def lines(self) -> list[str]:
        """The same as sentences for the owner."""
        local, signed, certificate = self.local, self.local.signed, self.local.certificate
        proposal, plan, summed = signed.proposal, local.plan, local.plan.program.summed
        answers = int(plan.ledger.asked[local.agent].sum())
        key = signed.participants[local.agent].fingerprint
        others = [site.name for site in signed.participants if site.name != local.name]
        code = [
            "Before you run it, compare this code with the other owners by telephone, not with the "
            "coordinator: if all codes agree, no party can pose as an owner to read the answers of "
            "another",
            f"  taciturn site run --agreed {signed.code}",
        ]
        leg = local.evaluation
        evaluation = [] if leg is None or local.agent not in leg.agents else [
            f"Then one answer of {leg.layout.leaves[0].shape[0]} noised numbers on the held-out "
            "records, sent to all; no record is used in both"
        ]  # fmt: skip
        return [
            f"Study {signed.study}, run {signed.subjects.run}: {proposal.method.name}, "
            f"{plan.rounds} rounds, with {', '.join(others) or 'no other site'}",
            "Signed by the study's coordinator; columns and count of the file are as proposed",
            f"This site is {local.name}, number {local.agent}, signing key {key}",
            *(code if summed else []),
            "",
            "Certificate, as derived by this site",
            *(f"  {line}" for line in certificate.lines()),
            "",
            f"What leaves the site: {self.rounds} messages of {self.message_bytes:,} bytes, "
            f"functions of {answers} noised answers; the noise is drawn here"
            f"{_MASKED if summed else ''}",
            *evaluation,
            f"What it costs: epsilon {certificate.per_agent_epsilon[local.agent]:.4f} at "
            f"delta {certificate.delta:g} for records of this site",
            self._account_line(),
            *(f"Warning: {warning}" for warning in warnings_of(proposal)),
            "Nothing was sent and nothing spent",
        ]

    def _account_line(self) -> str:
        account = self.account
        if account is None:
            return "Account: none; a run needs --account, or --no-account and is charged nowhere"
        line = f"Account {account['account']} ({account['promise']}): left {account['left']}"
        return f"{line}; {account['refused']}" if account["refused"] else (
            f"{line}, after this run {account['left_after']}"
        )  # fmt: skip


def check_proposal(
    site: SiteFolder,
    signed: SignedProposal,
    methods: Mapping[str, Method],
    *,
    source: Source,
    account: Account | None,
) -> Check:
    """Return what a site derives from a proposal and its file; raise as `derive`."""
    coordinator, agent = public_key(site.invitation.key), site.take_part(signed)
    local = derive(signed, source, agent=agent, coordinator=coordinator, methods=methods)
    standing = None if account is None else _account_values(account, local)
    size = layouts_of(local.plan.program).message.size
    rounds = AgentRounds(*local.training_leg(local.records(Draw.secret())))
    return Check(local, len(rounds.turns), size, standing)


def _account_values(account: Account, local: Local) -> dict[str, str]:
    state = account.state()
    values = {"account": account.name, "promise": promise(state.guarantee),
              "left": state.left_text(), "left_after": "", "refused": ""}  # fmt: skip
    try:
        charge = local.charge
        local.checked_account(account)
        check_fits(state, charge, purpose_of(local.plan, local.signed.study))
    except InputError as error:  # too little is left, or no account takes such noise
        return values | {"refused": str(error)}
    total = total_of(state.terms, state.caps.order, [*(r.charge for r in state.charged), charge])
    names = ("squares", "divergence", "values")
    left = {name: getattr(state.caps, name) - getattr(total, name) for name in names}
    return values | {"left_after": state.left_text(replace(total, **left))}


# during a run

# events that require an operator, as lines on the terminal
_TROUBLE = {
    "hub_away": "the hub cannot be reached",
    "hub_lost": "the connection to the hub was lost",
    "hub_died": "the server ended and is started again",
    "hub_stale": "the server continues with its old configuration",
}
_MAX_NAMES = 3


class Events:
    """Events of a run: JSON lines in a log, and lines on the terminal if an operator must act.

    Neither a full disk nor a closed terminal raises here: a run does not end because its log cannot
    be written. Each line is appended to `log` in one unbuffered write. A line that does not fit on
    the disk is dropped; the next one that fits is preceded by the number of dropped lines. Of equal
    messages of a party those are logged that are the first, tenth, hundredth and so on, with their
    number: bad messages of others fill no disk.

    Every line has the `run`, if there is one, and every event is counted in the `metrics`.

    **Guarantee.** Values are public, or the owner's balance: names, numbers of rounds, seconds,
    errors of the network, what is left in the account.
    """

    def __init__(
        self,
        log: io.RawIOBase | None,
        *,
        quiet: bool,
        run: str | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._log, self.quiet, self.metrics = log, quiet, metrics or Metrics()
        self._run = {} if run is None else {"run": run}
        self._dropped, self._broken = 0, False
        self._times: Counter[str] = Counter()

    def report(self, line: str) -> None:
        """Log a message of a party to its owner."""
        self._times[line] += 1
        times = self._times[line]
        if str(times).rstrip("0") == "1":
            self("report", line=line, **({"times": times} if times > 1 else {}))

    def __call__(self, event: str, **values: Any) -> None:
        """Log an event, count it, and show it if an operator must act."""
        values = self._run | values
        self.metrics.count(event, values)
        if self._dropped and self._append("log_gap", {"dropped": self._dropped}):
            self._dropped = 0
        if self._dropped or not self._append(event, values):
            self._dropped += 1
        if event in _TROUBLE and not self.quiet:
            reason = values.get("reason")
            with suppress(OSError):
                error_line(f"{_TROUBLE[event]}{f' ({reason})' if reason else ''}; waiting", kind="")

    def _append(self, event: str, values: Mapping[str, Any]) -> bool:
        """Append a JSON object as one line; return False if the log could not be written."""
        if self._log is None:
            return True
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps(strict({"time": now, "event": event, **values}), allow_nan=False)
        content = b"\n" * self._broken + line.encode() + b"\n"
        try:
            written = self._log.write(content)
        except OSError:
            return False
        # a full disk may cut a line; the next one then starts on a new line
        self._broken = self._broken if not written else written < len(content)
        return written == len(content)


@contextmanager
def events_to(
    log: Path | None, *, quiet: bool, run: str | None = None, metrics: Metrics | None = None
) -> Iterator[Events]:
    """Yield events that are added to a file, if one is named."""
    if log is None:
        yield Events(None, quiet=quiet, run=run, metrics=metrics)
        return
    try:
        file = open(log, "ab", buffering=0, opener=private_opener)  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(
            f"{log} cannot be written ({error.strerror}); name another file for --log"
        ) from None
    with file:
        yield Events(file, quiet=quiet, run=run, metrics=metrics)


class ProgressDisplay:
    """The progress of a run: a line on a terminal, lines of a log, and a file for `status`.

    A file that cannot be written keeps its last content; `status` then shows how old that is. The
    lock beside it ends with the process, so `status` knows whether that is at work.
    """

    def __init__(self, events: Events, file: Path, *, quiet: bool) -> None:
        self._events, self._file = events, file
        self._terminal = sys.stderr.isatty() and not quiet
        self._last, self._held = Progress(0, 0, (), 0.0), ExitStack()
        with suppress(OSError, sqlite3.Error):  # without room for it `status` knows less
            private_folder(file.parent)
            self._held.enter_context(head_lock(file, 1.0))
        self._write()

    def __call__(self, progress: Progress) -> None:
        """Show the progress of a run."""
        if progress[:3] != self._last[:3]:
            self._events("progress", **progress._asdict())
        self._last = progress
        self._events.metrics.show(progress)
        self._write()
        if self._terminal:
            with suppress(OSError):
                typer.echo(f"\r\x1b[K{printable(progress_text(progress))}", err=True, nl=False)

    def end(self, ending: str) -> None:
        """Store the outcome of a run for `status`."""
        self._write(ending=ending)

    def _write(self, **more: str) -> None:
        values = {**self._last._asdict(), **more, "at": time.time()}
        with suppress(InputError, OSError):
            write_text(json.dumps(strict(values)) + "\n", self._file)

    def leave(self) -> None:
        """End the progress line of the terminal: the process is no longer at work."""
        self._held.close()
        if self._terminal:
            with suppress(OSError):
                typer.echo(err=True)


def progress_text(progress: Progress) -> str:
    """Return the progress of a run in one line.

    Examples
    --------
    >>> progress_text(Progress(3, 50, ("mercy",), 1.25))
    'round 3 of 50; waiting 1.2 s for mercy'
    """
    names = progress.waiting_for
    if not progress.rounds:
        return "about to begin"
    text = f"round {progress.round} of {progress.rounds}"
    if not names:
        return text
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{text}; waiting {progress.seconds:.1f} s for {', '.join(names[:_MAX_NAMES])}{more}"


def stored_progress(file: Path) -> Progress:
    """Return the progress in a file, zeros if there is none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        values = json.loads(file.read_text(encoding="utf-8"))
        return Progress(**{name: values[name] for name in Progress._fields})
    return Progress(0, 0, (), 0.0)


def read_progress(file: Path) -> str | None:
    """Return how far a run is, or its outcome, or that it stopped; None if nothing is known."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        progress = Progress(**{name: values[name] for name in Progress._fields})
        ago = f"({time.time() - values['at']:.0f} s ago)"
        if _is_at_work(file):
            return f"{progress_text(progress)} {ago}"
        if "ending" in values:
            return f"{values['ending']} {ago}"
        stood = progress_text(progress._replace(waiting_for=()))
        return f"stopped, {stood} {ago}; the same command resumes it"
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_at_work(file: Path) -> bool:
    """Whether a process holds the lock of its progress."""
    if not file.with_suffix(".lock").exists():
        return False
    try:
        with head_lock(file, 0.0):
            return False
    except sqlite3.Error:
        return True


# after a run


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """A finished run, as one party knows it."""

    signed: SignedProposal
    plan: Plan
    outcome: Outcome
    # the score of the model on held-out records, with noise; None without an evaluation
    score: PrivateScore | None
    seconds: float  # wall time of the run
    agent: int | None = None  # the number of the site whose report it is; None: the coordinator's
    charged: Charged | None = None  # the account that was charged, if any
    attendance: Attendance | None = None  # None if all sites had to be in every round

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run; that of the plan if there is no model."""
        found: Certificate | None = self.outcome.certificate
        if found is None:
            proposal = self.signed.proposal
            found = certificate_for(proposal, self.plan, evaluation_leg(proposal, self.plan))
        nowhere = self.agent is not None and self.charged is None
        return found.under((NOWHERE,), conditional=False) if nowhere else found

    @property
    def party(self) -> str:
        """Whose report it is."""
        if self.agent is None:
            return "the coordinator"
        return self.signed.participants[self.agent].name

    @cached_property
    def result(self) -> Result:
        """What the run released."""
        score = None if self.score is None else self.score.to_dict()
        return result_of(self.signed, self.plan, self.outcome, score)

    def values(self, out: Path | None) -> dict[str, Any]:
        """Return the results as strictly valid JSON values.

        **Guarantee.** They are public facts of the proposal, the certificate, and post-processing
        of the release. Those of a site add its account, which only its owner may disclose.
        """
        signed, proposal, certificate = self.signed, self.signed.proposal, self.certificate
        local: dict[str, Any] = {}
        if self.agent is not None:
            local = {"site": self.party,
                     "own_epsilon": certificate.per_agent_epsilon[self.agent],
                     "account": charged_values(self.charged)}  # fmt: skip
        values: dict[str, Any] = strict({
            "study": signed.study, "run": signed.subjects.run, "ending": self.outcome.ending,
            "line": self.outcome.line, "algorithm": proposal.method.name,
            "sites": [site.name for site in signed.participants],
            **counted(proposal),
            "rounds": self.plan.rounds,
            **{name: getattr(certificate, name) for name in CERTIFIED},
            "conditions": certificate.conditions, "conditional": proposal.conditional,
            "private_score": None if self.score is None else self.score.to_dict(),
            **self._attendance(),
            "seconds": self.seconds, "out": None if out is None else str(out),
            "warnings": warnings_of(proposal), "proposal": signed.digest,
            "plan": self.plan.digest, "version": taciturn.__version__,
            **local,
        })  # fmt: skip
        return values

    def _attendance(self) -> dict[str, Any]:
        return {} if self.attendance is None else {"attendance": self.attendance.values}

    def save(self, out: Path, *, force: bool) -> Path | None:
        """Write the report into a folder, atomically.

        Returns the file of the certificate; None without a model. Raises as `write_folder`.
        """
        signed = self.signed
        texts = {
            "results.json": json_text(self.values(out)),
            "proposal.json": signed.to_json() + "\n",
            "plan.json": json_text(plan_values(self.plan)),
            "report.html": self.page().html(),
            **self.result.texts,
        }
        certificate = None
        if self.outcome.model is not None:
            certificate = certificate_file(
                self.plan, self.certificate, data=signed.study, proposal=signed.digest,
                algorithm=signed.proposal.method.name, **self._attendance(),
            )  # fmt: skip
        return write_folder(texts, out, force=force, obsolete=RESULT_FILES, certificate=certificate)

    def page(self) -> Page:
        """Return the report as a page."""
        signed, proposal, certificate = self.signed, self.signed.proposal, self.certificate
        result = self.result
        story = (
            f"{len(signed.participants)} sites, each with a separate signing key, jointly "
            f"{result.done} {proposal.units_text}, in {self.plan.rounds} rounds of "
            f"{proposal.method.name}. Each sent answers with noise that it drew itself, and no "
            "records. Their machines are not known here. "
            f"{_capital(self.outcome.line)}."
        )
        sites = [
            (site.name, f"{site.count:,}; signing key {site.fingerprint}")
            for site in signed.participants
        ]
        attended = () if self.attendance is None else (Items(self.attendance.lines),)
        local: tuple[Section, ...] = ()
        if self.agent is not None:
            asked = self.plan.ledger.asked[self.agent]
            rows = [
                ("site", self.party),
                ("answers", f"{int(asked.sum())} of {asked.size} questions of the plan"),
                ("epsilon of this site", f"{certificate.per_agent_epsilon[self.agent]:.4g}"),
            ]
            local = (Section("This site", (Table(rows),)), account_section(self.charged))
        return Page(
            title=f"Study {signed.study}, as {self.party} reports it",
            story=(story,),
            stamps=stamps(certificate, warnings_of(proposal)),
            sections=(
                *([] if self.outcome.model is None else [certificate_section(certificate)]),
                *local,
                *result.sections,
                *score_sections(self.score),
                Section("Sites", (Table(sites), *attended)),
                settings_section(proposal, self.plan, certificate),
                Section(NOT_PROTECTED, (Items(UNPROTECTED),)),
            ),
            footer=f"{self.seconds:.1f} s. Run {signed.digest}, plan {self.plan.digest}.",
        )

    def lines(self, certificate: Path | None) -> list[str]:
        """Return the report for the terminal."""
        lines, result = [_capital(self.outcome.line)], self.result
        lines += ["", *result.lines] if result.lines else []
        if self.outcome.model is not None:
            lines += ["", "Certificate", *(f"  {line}" for line in self.certificate.lines()), ""]
        lines += [] if self.attendance is None else [*self.attendance.lines, ""]
        if self.agent is not None:
            lines.append(charged_line(self.charged))
        lines += [] if self.score is None else [*self.score.lines(), ""]
        lines.append(f"Took {self.seconds:.1f} s")
        if certificate is not None:
            out = certificate.parent
            file = f"{result.title}: {out / result.file}"
            lines += [f"Report: {out / 'report.html'}", file]
            lines.append(f"Certificate: {certificate}")
        return lines


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
