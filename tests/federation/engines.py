"""One signed proposal that several engines deliver, each in a copy of the parties' folders."""

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

from tests.federation.hubs import free_port
from tests.federation.studies import BOUNDS, write_records

from taciturn.cli.main import main
from taciturn_federation import Journal, SignedProposal

NAMES = ("mercy", "sinai")
SEED = "11"


def environment(folder, **more):
    places = {"XDG_DATA_HOME": str(folder / "data"), "TACITURN_STATE_DIR": str(folder / "state")}
    return {**os.environ, **places, **more}


def called(folder, *words, answer=""):
    """The output of a command that is run in this process, which saves its start."""
    output = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        mock.patch.dict(os.environ, environment(folder)),
        mock.patch.object(sys, "stdin", io.StringIO(answer)),
    ):
        code = main(words)
    assert code == 0, output.getvalue()
    return output.getvalue()


def prepare(folder, *terms, rounds=4):
    """A study with two sites, and a signed proposal of a few rounds; the port of its hub."""
    folder.mkdir(parents=True)
    (folder / "bounds.toml").write_text(BOUNDS)
    port = free_port()
    hub = ("--hub", f"localhost:{port}")
    called(folder, "study", "new", "diabetes", "--bounds", "bounds.toml", *hub)
    for number, name in enumerate(NAMES):
        write_records(folder / f"{name}.csv", 60, seed=number)
        called(folder, "site", "join", "diabetes.invitation", "--name", name, "--data",
               f"{name}.csv", "--no-account", "--out", f"{name}.request")  # fmt: skip
        called(folder, "study", "admit", "diabetes", f"{name}.request", answer="y\n")
    called(folder, "study", "propose", "diabetes", "--epsilon", "1", "--delta", "1e-4",
           "--rounds", str(rounds), *terms)  # fmt: skip
    return port


class Machine:
    """The processes of a study on this machine, of which each can be killed and started again."""

    def __init__(self, prepared, folder):
        shutil.copytree(prepared, folder)
        self.folder, self.words, self.running = folder, {}, {}

    def sockets(self, name):
        """The folder of a party's sockets, with a path that is short enough."""
        return Path(f"/tmp/taciturn-{os.getpid()}-{self.folder.name}-{name}"[:80])

    def start(self, name, *words, env=None):
        if words:
            self.words[name] = ([*map(str, words)], env)
        command, env = self.words[name]
        with (self.folder / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder,
                env=environment(self.folder, **env or {}), start_new_session=True,
            )  # fmt: skip

    def parties(self, *, sockets=True):
        """Start the coordinator and the sites; over sockets, where an engine delivers."""
        for name in ("coordinator", *NAMES):
            verb = ("study", "run") if name == "coordinator" else ("site", "run", "--name", name)
            if name != "coordinator":
                verb = (*verb, "--reproduction", SEED, "--no-account")
            over = ("--sockets", self.sockets(name)) if sockets else ()
            self.start(name, sys.executable, "-m", "taciturn", *verb, "diabetes.proposal",
                       "--out", f"report-{name}", "--force", "--log", f"{name}.log",
                       *over)  # fmt: skip

    def kill(self, name):
        self.running[name].kill()
        self.running[name].wait()

    def restart(self, name):
        self.kill(name)
        self.start(name)

    def events(self, name):
        file = self.folder / f"{name}.log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def until(self, reached, *, seconds=300):
        end = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < end, self.outputs()
            time.sleep(0.2)

    def round(self):
        """The rounds that the coordinator has."""
        return max((event.get("round", 0) for event in self.events("coordinator")), default=0)

    def until_round(self, number, *, seconds=300):
        """Wait until the coordinator has so many rounds."""
        self.until(lambda: self.round() >= number, seconds=seconds)

    def finish(self, *, seconds=300):
        """Wait for the end of all parties."""
        for name in ("coordinator", *NAMES):
            assert self.running[name].wait(seconds) == 0, self.outputs()

    def results(self):
        """Of every party the model, and of the sites the ledger entries that they signed."""
        models = [
            json.loads((self.folder / f"report-{name}" / "model.json").read_text())
            for name in ("coordinator", *NAMES)
        ]
        return [model["terms"] for model in models]

    def ledgers(self):
        """The entries of every site's journal, as it signed them."""
        text = (self.folder / "diabetes.proposal").read_text()
        signed, found = SignedProposal.from_json(text), []
        for name in NAMES:
            file = self.folder / "data" / "taciturn" / "sites" / "diabetes" / name / "journal"
            with mock.patch.dict(os.environ, environment(self.folder)):
                journal = Journal(file)
            found.append(journal.entries(signed.digest))
            journal.close()
        return found

    def outputs(self):
        files = sorted(self.folder.glob("*.out"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-1500:]}" for file in files)

    def stop(self):
        """End every process with its children, which are in its session."""
        for one in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, 15)
        for one in self.running.values():
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, 9)
        for name in ("coordinator", *NAMES):
            shutil.rmtree(self.sockets(name), ignore_errors=True)


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
