"""A study of five to ten sites on this machine, each a process with keys, file and account.

`make federation` runs it: five parts of UCI Adult, a hub with TLS, 500 rounds; one site is
killed half way and started again. What runs are the commands that the tutorial shows.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from taciturn.cli.main import main as taciturn
from taciturn.datasets.adult import BUNDLED, COLUMNS, Categorical, bundled_text

NAMES = (
    "mercy", "sinai", "charite", "guys", "karolinska", "lariboisiere", "stjames", "vallhebron",
    "rigshospitalet", "sankt-goran",
)  # fmt: skip
VICTIM = "guys"
LABELS = ("<=50K", ">50K")


def rows(which: int) -> Iterator[list[str]]:
    """Yield the complete records of a file of Adult, cells as text."""
    for line in bundled_text(*BUNDLED[which]).splitlines():
        cells = line.split(", ")
        if len(cells) == len(COLUMNS) + 1 and "?" not in cells:
            yield [*cells[:-1], cells[-1].rstrip(".")]


def write_table(file: Path, records: list[list[str]]) -> None:
    """Write records as CSV."""
    with file.open("w", newline="", encoding="utf-8") as table:
        head = [column.name for column in COLUMNS]
        csv.writer(table).writerows([[*head, "income"], *records])


def bounds() -> str:
    """Return the bounds file of Adult: what its published description says, and round numbers."""
    lines = [
        'source = "public"',
        "",
        "[target]",
        'name = "income"',
        f"values = {json.dumps(LABELS)}",
    ]
    for column in COLUMNS:
        lines += ["", f'[columns."{column.name}"]']
        if isinstance(column, Categorical):
            lines.append(f"values = {json.dumps(column.levels)}")
        else:
            lines += ["min = 0", f"max = {column.largest:g}"]
    return "\n".join(lines) + "\n"


class Run:
    """A folder for the study, and the environment of its processes."""

    def __init__(self, folder: Path, sites: int) -> None:
        self.folder, self.names = folder, NAMES[:sites]
        self.began = time.monotonic()
        where = {
            "XDG_DATA_HOME": str(folder / "data"),
            "TACITURN_STATE_DIR": str(folder / "state"),
        }
        self.environment = {**os.environ, **where, "OMP_NUM_THREADS": "1"}
        self.started: list[subprocess.Popen[bytes]] = []

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)

    def command(self, *words: str, answer: str = "") -> str:
        """Run a command in this process, which saves its start, and return what it says."""
        printed, asked = io.StringIO(), io.StringIO(answer)
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            mock.patch.dict(os.environ, self.environment),
            mock.patch.object(sys, "stdin", asked),
        ):
            code = taciturn(words)
        if code:
            raise SystemExit(f"taciturn {' '.join(words)}\n{printed.getvalue()}")
        print(f"         $ taciturn {' '.join(words)}", flush=True)
        return printed.getvalue()

    def process(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a command as a process whose output goes to a file."""
        with (self.folder / f"{name}.out").open("ab") as out:
            one = subprocess.Popen(
                [sys.executable, "-m", "taciturn", *words],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder,
                env=self.environment,
            )  # fmt: skip
        self.started.append(one)
        return one

    def round_of(self, name: str) -> int:
        """Return the round of a site, as its log says."""
        file = self.folder / f"{name}.log"
        lines = file.read_text().splitlines() if file.exists() else []
        found = [json.loads(line) for line in lines if '"progress"' in line]
        return max((one["round"] for one in found), default=0)

    def stop(self) -> None:
        """End every process that was started here and still runs."""
        for one in reversed(self.started):
            if one.poll() is None:
                one.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    one.wait(10)
                if one.poll() is None:
                    one.kill()
                    one.wait()


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def set_up(run: Run, rounds: int, records: int | None, observer: str, network: str | None) -> None:
    """Make the study, its sites and the proposal, as coordinator and owners would."""
    folder, seen = run.folder, () if observer == "messages" else ("--observer", observer)
    along = () if network is None else ("--network", network)
    (folder / "bounds.toml").write_text(bounds(), encoding="utf-8")
    training = [*rows(0)][:records]
    for number, name in enumerate(run.names):
        write_table(folder / f"{name}.csv", training[number :: len(run.names)])
    run.command(
        "study", "new", "adult", "--bounds", "bounds.toml", "--hub", f"localhost:{free_port()}",
        *seen,
    )  # fmt: skip
    for name in run.names:
        run.command("site", "join", "adult.invitation", "--name", name, "--data", f"{name}.csv",
                    "--epsilon", "2", "--delta", "1e-5", "--out", f"{name}.request")  # fmt: skip
        run.command("study", "admit", "adult", f"{name}.request", answer="y\n")
    run.command(
        "study", "propose", "adult", "--epsilon", "1", "--delta", "1e-6", "--rounds", str(rounds),
        *along,
    )  # fmt: skip
    run.say(f"{len(run.names)} sites with {len(training):,} records in all have joined")


def site_command(run: Run, name: str) -> tuple[str, ...]:
    """Return the words of a site's run; its owner has compared the code with the others."""
    checked = run.command("site", "check", "adult.proposal", "--name", name, "--json")
    words = ("site", "run", "adult.proposal", "--name", name)
    agreed = ("--agreed", json.loads(checked)["code"])
    return (*words, *agreed, "--out", f"report-{name}", "--log", f"{name}.log")


def train(run: Run, rounds: int) -> None:
    """Run hub, coordinator and sites; kill one site half way and start it again."""
    run.process("hub", "study", "hub", "adult", "--host", "127.0.0.1", "--log", "hub.log")
    coordinator = run.process("coordinator", "study", "run", "adult.proposal", "--out", "report",
                              "--log", "coordinator.log")  # fmt: skip
    commands = {name: site_command(run, name) for name in run.names}
    sites = {name: run.process(name, *words) for name, words in commands.items()}
    killed = False
    while coordinator.poll() is None:
        time.sleep(0.05)
        if not killed and run.round_of("coordinator") >= rounds // 3:
            killed = True
            sites[VICTIM].kill()  # as kill -9 does
            sites[VICTIM].wait()
            run.say(f"{VICTIM} was killed in round {run.round_of('coordinator')} of {rounds}")
            time.sleep(2)
            run.say(f"{VICTIM} starts again with the same command")
            sites[VICTIM] = run.process(VICTIM, *commands[VICTIM])
    for name, process in {"the coordinator": coordinator, **sites}.items():
        if process.wait(60):
            out = run.folder / f"{name.removeprefix('the ')}.out"
            raise SystemExit(f"{name} failed:\n{out.read_text()}")
    if not killed:
        raise SystemExit("the run was over before a site could be killed; ask for more rounds")


def report(run: Run) -> None:
    """Say what came of it, and compare the reports of all ends."""
    folder = run.folder
    test = [*rows(1)]
    write_table(folder / "test.csv", test)
    predictions = run.command("predict", "report/model.json", "test.csv", "--ignore-extra",
                       "--keep", "income")  # fmt: skip
    predicted = [*csv.DictReader(predictions.splitlines())]
    label = next(name for name in predicted[0] if name != "income" and "prob" not in name)
    wrong = sum(row[label] != row["income"] for row in predicted) / len(predicted)
    models = {(folder / f"report-{name}" / "model.json").read_text() for name in run.names}
    terms = {json.dumps(json.loads(text)["terms"]) for text in models}
    results = [json.loads((folder / f"report-{n}" / "results.json").read_text()) for n in run.names]
    run.say(f"test error {wrong:.2%} on {len(test):,} published records (always {LABELS[0]}: "
            f"{sum(row[-1] == LABELS[1] for row in test) / len(test):.2%})")  # fmt: skip
    run.say(f"every site has the same model: {len(terms) == 1}")
    left = {one["site"]: one["account"]["after"]["left"]["epsilon"] for one in results}
    for name, epsilon in left.items():
        print(f"           {name:<11} account: epsilon {epsilon:.3f} of 2 left")
    if len(terms) != 1:
        raise SystemExit("the models differ; that must not be")
    print(f"Report of the coordinator: {folder / 'report' / 'report.html'}")
    print(f"Reports of the sites:      {folder / 'report-NAME' / 'report.html'}")


def main() -> None:
    """Set the study up, train, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build/federation"))
    parser.add_argument("--sites", type=int, default=5, choices=range(4, len(NAMES) + 1))
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--observer", choices=("messages", "sum"), default="messages")
    parser.add_argument("--network", help="such as ring: sums go along its spanning tree")
    given = parser.parse_args()
    folder: Path = given.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run = Run(folder, given.sites)
    try:
        set_up(run, given.rounds, given.records, given.observer, given.network)
        train(run, given.rounds)
        report(run)
    finally:
        run.stop()


if __name__ == "__main__":
    main()
