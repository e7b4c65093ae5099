"""A standing site: it receives proposals, and starts those that its owner's policy allows.

Every run is a separate process, `taciturn site run`, which an owner could start by hand; this
process answers no question and opens no records.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field
from typing_extensions import override

from taciturn.budget import private_folder, private_opener
from taciturn.documents import Part
from taciturn.errors import InputError, TaciturnError
from taciturn.models import write_text
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import Envelope, Kind, Packet, Subjects
from taciturn_federation.folders import SiteFolder, read_text
from taciturn_federation.inbox import Outcome, Party, Progress, verify_packet
from taciturn_federation.keys import read_alike
from taciturn_federation.reports import read_progress, stored_progress

State = Literal["waiting", "approved", "running", "ended"]
# runs that one coordinator may leave undecided at a site, and seconds before a failed one is tried
# again
_MOST_RUNS, _AGAIN = 200, 30.0
_UNDECIDED, _BY_OWNER, _STARTS = "not decided", "by its owner", ("approved", "running")
_RESUMED = 130  # the exit code of an interrupted run, which the same command resumes


class Policy(Part):
    """What a site takes part in without asking its owner, from a TOML file.

    **Guarantee.** None by itself. Whatever it allows, a run is charged to the site's account, which
    refuses what exceeds its promise; and under `sum` the run starts only if the key of every
    participant is one that the owner compared.
    """

    epsilon: float  # the largest for the records of this site in one run
    delta: float  # the largest of one run
    methods: tuple[str, ...]
    observers: tuple[Literal["messages", "sum"], ...]
    sites: int = 2  # the fewest participants
    # by name, the fingerprints of the signing keys that owners compared by telephone
    agreed: Mapping[str, str] = Field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Policy:
        """Return the policy in a file; errors name it."""
        if not file.exists():
            raise InputError(f"there is no policy {file}")
        try:
            values = tomllib.loads(read_text(file))
            lists = {name: tuple(v) for name, v in values.items() if isinstance(v, list)}
            return cls(**values | lists)
        except (tomllib.TOMLDecodeError, InputError, TypeError) as error:
            raise InputError(f"the policy {file} cannot be used: {error}") from None

    def objection(self, signed: SignedProposal, check: Mapping[str, Any]) -> str | None:
        """Return why a run waits for its owner, or None if it may start.

        `check` is what `taciturn site check --json` derived from the proposal and the file.
        """
        proposal, account = signed.proposal, check["account"]
        observer = proposal.budget.observer
        unknown = [
            member.name
            for member in signed.participants
            if member.name != check["site"]
            and not read_alike(self.agreed.get(member.name), member.fingerprint)
        ]
        delta = check["certificate"]["delta"]
        for allowed, reason in (
            (proposal.method.name in self.methods, f"it is for {proposal.method.name}"),
            (observer in self.observers, f"its observer is {observer}"),
            (len(signed.participants) >= self.sites, f"it has {len(signed.participants)} sites"),
            (check["own_epsilon"] <= self.epsilon, f"it costs epsilon {check['own_epsilon']:.4g}"),
            (delta <= self.delta, f"its delta is {delta:g}"),
            (account is not None, "the site has no account"),
            (not (account or {}).get("refused"), (account or {}).get("refused", "")),
            (observer != "sum" or not unknown, f"no key of {', '.join(unknown)} was compared"),
        ):
            if not allowed:
                return reason
        return None


class Run(NamedTuple):
    """A run as a standing site keeps it, in a folder named by the run."""

    folder: Path
    signed: SignedProposal

    @property
    def proposal(self) -> Path:
        """The file of the proposal."""
        return self.folder / "proposal"

    @property
    def state(self) -> tuple[State, str]:
        """How it stands, and why."""
        values = json.loads(read_text(self.folder / "state.json"))
        return values["state"], values["line"]

    def set_state(self, state: State, line: str = "") -> None:
        """Write how it stands."""
        write_text(json.dumps({"state": state, "line": line}) + "\n", self.folder / "state.json")


def kept_runs(site: SiteFolder) -> list[Run]:
    """Return the runs that a standing site received."""
    files = sorted((site.folder / "runs").glob("*/proposal"))
    return [Run(file.parent, SignedProposal.from_json(read_text(file))) for file in files]


def approve(site: SiteFolder, name: str) -> Run:
    """Let a run that waits for its owner start; `InputError` if none of that name waits."""
    waiting = {run.folder.name: run for run in kept_runs(site) if run.state[0] == "waiting"}
    if name not in waiting:
        known = f"; there wait {', '.join(waiting)}" if waiting else ""
        raise InputError(f"no run {name!r} waits at site {site.name}{known}")
    waiting[name].set_state("approved", _BY_OWNER)
    return waiting[name]


class Process(NamedTuple):
    """The commands that a standing site runs: `check` at once, `run` in the background."""

    check: Callable[[Run], Mapping[str, Any]]
    run: Callable[[Run], subprocess.Popen[bytes]]


@dataclass
class Standing(Party):
    """A party without end, that starts a process for each run, one after the other.

    `policy` is read again for every proposal, so that its owner may change it.
    """

    site: SiteFolder
    policy: Callable[[], Policy]
    process: Process
    report: Callable[[str], None] = lambda _: None
    event: Callable[..., None] = lambda _name, **_values: None
    outcome: Outcome | None = None
    _runs: dict[str, Run] = field(default_factory=dict)
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _looked: float = -1.0
    _next: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.subjects = (Subjects.of_study(self.site.invitation.study),)
        self._runs = {run.folder.name: run for run in kept_runs(self.site)}

    @override
    def receive(self, packet: Packet, now: float) -> list[Packet]:
        """Keep a proposal that is new, and decide on it; other messages are for its process."""
        with suppress(TaciturnError, OSError, IndexError, ValueError, struct.error):
            envelope = Envelope.parse(packet.payload)
            known = self._runs.get(packet.subject.split(".")[1])
            if envelope.kind != Kind.PROPOSAL or len(self._runs) >= _MOST_RUNS:
                return []
            if known is not None:
                self._again(known)
                return []
            signed = SignedProposal.from_json(envelope.body.decode(errors="replace"))
            verify_packet(packet, signed.opener, signed.subjects, (signed.subjects.proposal,))
            self.site.take_part(signed)
            self._keep(signed)
        return []

    def tick(self, now: float) -> list[Packet]:
        """Start what is approved, once a second, and note what has ended."""
        if 0 <= now - self._looked < 1:
            return []
        self._looked = now
        for name, run in self._runs.items():
            with suppress(InputError, OSError):  # a full disk: the next look tries again
                self._look(name, run, now)
        return []

    @override
    def close(self) -> None:
        """Leave the processes of runs to themselves: they end with their runs."""

    def counts(self) -> dict[str, int]:
        """Return how many runs are in which state."""
        found: dict[str, int] = {"waiting": 0, "approved": 0, "running": 0, "ended": 0}
        for run in self._runs.values():
            found[run.state[0]] += 1
        return found

    @override
    def progress(self) -> Progress:
        """Return how far the run is that is under way."""
        running = (self.site.progress_file(self._runs[name].signed) for name in self._children)
        return next(map(stored_progress, running), Progress(0, 0, (), 0.0))

    def _again(self, run: Run) -> None:
        """Start an abandoned run once more: only one that had not begun is invited again."""
        state, line = run.state
        if state == "ended" and line.startswith("abandoned"):
            run.set_state("approved")

    def _keep(self, signed: SignedProposal) -> None:
        folder = self.site.folder / "runs" / signed.subjects.run
        private_folder(folder)
        run = Run(folder, signed)
        run.set_state("waiting", _UNDECIDED)
        write_text(signed.to_json() + "\n", run.proposal)  # last: now it is a run
        self._runs[folder.name] = run
        self.event(
            "proposal", run=folder.name, method=signed.proposal.method.name,
            rounds=signed.proposal.rounds, sites=[site.name for site in signed.participants],
        )  # fmt: skip
        self._decide(run)

    def _decide(self, run: Run) -> None:
        try:
            reason = self.policy().objection(run.signed, self.process.check(run))
        except InputError as error:
            reason = str(error)
        run.set_state("approved" if reason is None else "waiting", reason or "")
        name = run.folder.name
        self.event("decided", run=name, starts=reason is None, reason=reason or "")
        self.report(
            f"run {name} starts" if reason is None else
            f"run {name} waits: {reason}; taciturn site approve {name} starts it"
        )  # fmt: skip

    def _look(self, name: str, run: Run, now: float) -> None:
        state, child = run.state[0], self._children.get(name)
        if child is not None:
            code = child.poll()
            if code is None:
                return
            del self._children[name]
            line = read_progress(self.site.progress_file(run.signed)) or f"exit code {code}"
            self.event("run_stopped", run=name, code=code, line=line)
            again = code == _RESUMED or not line.startswith(("finished", "abandoned", "refused"))
            run.set_state("running" if again else "ended", line)
            self.report(f"run {name}: {line}")
        elif state == "waiting" and run.state[1] == _UNDECIDED:  # the process was ended meanwhile
            self._decide(run)
        elif state in _STARTS and not self._children and now >= self._next.get(name, now):
            if run.state[1] == _BY_OWNER:
                self.event("approved", run=name)
            self._next[name] = now + _AGAIN
            self._children[name] = self.process.run(run)
            self.event("run_started", run=name, pid=self._children[name].pid)
            run.set_state("running")


def commands(
    site: SiteFolder, sites: Path | None, log: Path | None = None, sockets: Path | None = None
) -> Process:
    """Return the commands of a site, as its owner would type them.

    All runs add their events to one `log`; each has a separate one if none is named.
    """
    engine = [] if sockets is None else ["--sockets", str(sockets)]

    def words(run: Run, *verb: str) -> list[str]:
        folder = [] if sites is None else ["--sites", str(sites)]
        return [sys.executable, "-m", "taciturn", "site", *verb, str(run.proposal), "--name",
                site.name, *folder]  # fmt: skip

    def check(run: Run) -> Mapping[str, Any]:
        done = subprocess.run([*words(run, "check"), "--json"], capture_output=True, check=False)
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"]
            raise InputError(lines[-1].removeprefix("taciturn: error: "))
        values: Mapping[str, Any] = json.loads(done.stdout)
        return values

    def start(run: Run) -> subprocess.Popen[bytes]:
        summed = run.signed.proposal.budget.observer == "sum"
        agreed: Sequence[str] = ["--agreed", run.signed.code] if summed else []
        with open(run.folder / "output", "ab", opener=private_opener) as out:
            return subprocess.Popen(
                [*words(run, "run"), *engine, *agreed, "--quiet",
                 "--log", str(log or run.folder / "log")],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    return Process(check, start)
