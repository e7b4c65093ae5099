"""Trainings in two processes that differ, or of which one ends at the worst moment.

Whatever happens: nothing is charged for a difference that can be told beforehand, an account is
charged once where records may have been read, a report is whole or absent, and one line tells why.
"""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from tests.cli.test_cli_cluster import BOUNDS, COMMAND, PRIVATE, account, arguments, table

from tacit.cli.children import Children

pytestmark = pytest.mark.slow
__all__ = ["account", "table"]  # fixtures
# a process of a run is killed, or raises, at a call of a function: module:name:process:call:how
FAULTS = """
import functools, importlib.abc, importlib.util, os, signal, sys, time

class Faulty(importlib.abc.MetaPathFinder):
    def __init__(self, module, name, call, how):
        self.module, self.name, self.call, self.how, self.calls = module, name, int(call), how, 0

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def executed(module):
            execute(module)
            *path, last = self.name.split(".")
            owner = functools.reduce(getattr, path, module)
            setattr(owner, last, functools.partial(self.reached, getattr(owner, last)))
        spec.loader.exec_module = executed
        return spec

    def reached(self, function, *given, **named):
        self.calls += 1
        if self.calls == self.call:
            open("reached", "w").close()
            if self.how == "RAISE":
                raise RuntimeError("63.7,0.041,no")
            if self.how == "WAIT":
                time.sleep(8)
                return function(*given, **named)
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        return function(*given, **named)

module, name, process, call, how = os.environ["FAULT"].split(":")
if os.environ.get("TACIT_WORKER", ",,").split(",")[1] == process:
    sys.meta_path.insert(0, Faulty(module, name, call, how))
"""
CHARGING = "tacit.cli.accounts:check_devices", "tacit.cli.accounts:divide_local"
RUNNING = "tacit.engine.running:check_shards", "tacit.engine.running:observed_ledger"
LATER = "tacit.training.training:measured", "tacit.cli.train:deliver"
RELEASED = {"certificate-1.json", "model.json", "trace.npz"}
FILES = {"certificate-1.json", "model.json", "plan.json", "proposal.json", "report.html"}


def with_fault(folder, fault):
    """The environment of a command with a fault."""
    (folder / "faults").mkdir()
    (folder / "faults" / "sitecustomize.py").write_text(FAULTS)
    path = os.pathsep.join([str(folder / "faults"), *filter(None, sys.path)])
    return {**os.environ, "FAULT": fault, "PYTHONPATH": path}


def faulty(folder, fault, *further):
    """A training of two processes with a fault in one; how it ended, and how long after it."""
    done = subprocess.run(
        arguments(folder, "--processes", "2", "--rounds", "5", "--out", "out", *further),
        env=with_fault(folder, fault),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    return done, time.time() - (folder / "reached").stat().st_mtime


@pytest.mark.parametrize("process", [0, 1])
@pytest.mark.parametrize("moment", [*CHARGING, *RUNNING, *LATER])
def test_a_process_that_is_killed_leaves_one_charge_one_line_and_no_part(
    table, account, moment, process
):
    if (moment, process) == (LATER[1], 1):
        pytest.skip("only the first process delivers")
    done, seconds = faulty(
        table, f"{moment}:{process}:1:KILL", "--account", "ill", "--accounts", table
    )
    assert seconds < 30
    assert done.returncode == 2
    assert done.stderr.startswith(f"tacit: error: process {process} of this run ended by signal 9")
    assert done.stderr.count("\n") == 1
    assert "epsilon" not in done.stdout
    written = {file.name for file in (table / "out").glob("*")}
    # the first process writes what was released before anything else, the other one meanwhile
    assert written == RELEASED if moment in LATER and not process else written in (set(), RELEASED)
    assert moment in LATER or not written
    charged = [run.status for run in account.state().charged]
    # a charge is on the disk before any process comes to a record
    assert len(charged) == (1 if moment != CHARGING[0] else process and len(charged))
    assert ("nothing was released" in done.stderr) == (not written)
    # what counts as released has been computed, and compared, by all
    assert (charged == ["released"]) == (moment in LATER)


@pytest.mark.parametrize("noticed", [2, -signal.SIGABRT])
def test_the_process_that_a_signal_ended_is_named_though_another_ended_before(noticed):
    class Ended(subprocess.Popen):
        def __init__(self, *codes):
            self.codes = list(codes)

        def poll(self):
            return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]

    children = Children({0: Ended(None, noticed), 1: Ended(None, None, -9)}, charges=False)
    assert children._wait() == 1
    only = Children({0: Ended(None, noticed), 1: Ended(None, None, 0)}, charges=False)
    assert only._wait() == 0


def test_a_process_that_is_lost_after_its_part_takes_no_result_away(table, account):
    further = ("--account", "ill", "--accounts", table)
    done, _ = faulty(table, "tacit.cli.worker:leave:1:1:KILL", *further)
    assert {file.name for file in (table / "out").iterdir()} >= FILES
    assert [run.status for run in account.state().charged] == ["released"]
    assert (done.returncode, done.stderr[:400]) == (0, "")


def test_an_interrupt_while_the_first_process_writes_takes_no_result_away(table, account):
    further = ("--out", "out", "--account", "ill", "--accounts", table, "--rounds", "5")
    program = (
        # whoever runs the tests in the background has them ignore the signal
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from tacit.cli.main import main; raise SystemExit(main())"
    )
    words = arguments(table, *further, "--processes", "2")[len(COMMAND) :]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env=with_fault(table, "tacit.report.save:write_folder:0:2:WAIT"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=table,
    ) as parent:
        until = time.monotonic() + 90
        while not (table / "reached").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(parent.pid, signal.SIGINT)
        _, said = parent.communicate(timeout=60)
    assert {file.name for file in (table / "out").iterdir()} >= FILES
    assert [run.status for run in account.state().charged] == ["released"]
    assert parent.returncode == 130
    assert said == "tacit: interrupted; every file of a report is there whole or not at all\n"


@pytest.mark.parametrize("process", [0, 1])
def test_a_process_without_its_first_does_not_say_that_nothing_was_released(table, process):
    """Two commands: of the second one the first is lost, or the other way round, at the end."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    where = ["--cluster", address, "--processes", "2", "--process"]
    environment = with_fault(table, f"tacit.cli.train:deliver:{process}:1:KILL")
    if process:
        environment["FAULT"] = "tacit.cli.worker:leave:1:1:KILL"
    started = [
        subprocess.Popen(
            [*arguments(table, "--rounds", "5", "--out", "out"), *where, str(index)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=table, env=environment,
        )
        for index in range(2)
    ]  # fmt: skip
    ended = [(*one.communicate(timeout=120), one.returncode) for one in started]
    assert {file.name for file in (table / "out").iterdir()} >= (FILES if process else RELEASED)
    assert "nothing was released" not in ended[1][1]
    assert "nothing was released" not in ended[0][1]


@pytest.mark.parametrize("process", [0, 1])
def test_a_fault_of_the_program_is_told_by_its_name_and_shows_no_record(table, process):
    done, seconds = faulty(table, f"{RUNNING[0]}:{process}:1:RAISE")
    assert seconds < 30
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "63.7" not in done.stderr + done.stdout
    assert f"process {process} of this run" in done.stderr
    assert not (table / "out").exists()


def pair(first, second):
    """How two processes ended that were given these arguments and an address on loopback."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    where = ["--cluster", address, "--processes", "2", "--process"]
    started = [
        subprocess.Popen(
            [*given, *where, str(index)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for index, given in enumerate((first, second))
    ]
    return [(*one.communicate(timeout=120), one.returncode) for one in started]


def assert_refused(ended, what):
    for out, said, code in ended:
        assert code == 2, said
        assert "epsilon" not in out
        assert said.count("tacit: error: ") == 1
        assert what in said


@pytest.fixture
def sites(table):
    """Two columns that divide the rows into as many for each of four agents, and differently."""
    head, *rows = (table / "ill.csv").read_text().splitlines()
    wide = [f"{row},s{n % 4},s{n // 2 % 4 if n < 400 else n % 4}" for n, row in enumerate(rows)]
    (table / "ill.csv").write_text("\n".join([f"{head},here,there", *wide]) + "\n")
    source, rest = BOUNDS.split("\n", 1)
    (table / "ill.toml").write_text(f'{source}\nignore = ["here", "there"]\n{rest}')
    where = [table / "ill.csv", "--target", "ill", "--bounds", table / "ill.toml"]
    return [*COMMAND, "train", *map(str, where), *PRIVATE, "--rounds", "5", "--quiet"]


def test_agents_by_different_columns_are_refused(sites):
    """Else a row may be in the answers of two agents, and one certificate for both is wrong."""
    given = [[*sites, "--agent-column", column] for column in ("here", "there")]
    assert_refused(pair(*given), "differ in --agent-column (here and there)")


@pytest.mark.parametrize("fault", ["account", "seed", "file", "test", "bounds", "sampling"])
def test_a_difference_is_told_before_anything_is_charged(table, account, fault):
    charged = ["--account", "ill", "--accounts", str(table)]
    other = table / "other"
    other.mkdir()
    for name in ("ill.csv", "ill.toml"):
        (other / name).write_text((table / name).read_text())
    further = {
        "account": (["--rounds", "5"], ["--rounds", "5", *charged], "--account"),
        "seed": (charged, [*charged, "--seed", "1"], "--seed"),
        "file": (charged, charged, "files"),
        "bounds": (charged, charged, "proposal"),
        "test": (charged, [*charged, "--test", str(table / "test.csv")], "--test"),
        "sampling": (charged, [*charged, "--split-seed", "2"], "--split-seed"),
    }
    first, second, what = further[fault]
    if fault == "file":
        text = (table / "ill.csv").read_text()
        (other / "ill.csv").write_text(text.replace(",yes", ",no", 1))
    if fault == "bounds":
        (other / "ill.toml").write_text(BOUNDS.replace("100", "101"))
    ended = pair(arguments(table, *first), arguments(other, *second))
    assert_refused(ended, what)
    assert account.state().runs == ()
    digest = "0123456789abcdef"
    assert not any(len(word) > 20 and set(word) <= set(digest) for word in ended[0][1].split())


def test_published_records_with_other_plans_are_told_before_anything_is_charged(table, account):
    what = ["breast_cancer", *PRIVATE, "--agents", "4", "--quiet", "--accounts", str(table)]
    given = [*COMMAND, "train", *what, "--account", "ill"]
    assert_refused(pair([*given, "--rounds", "4"], [*given, "--rounds", "5"]), "--rounds (4 and 5)")
    assert account.state().runs == ()


def test_of_two_runs_at_once_an_account_with_room_for_one_charges_one(table, account):
    large = ["--epsilon", "4", "--rounds", "5", "--account", "ill", "--accounts", table]
    both = [
        subprocess.Popen(
            arguments(table, *large, "--processes", "2"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=table,
        )
        for _ in range(2)
    ]
    ended = sorted((one.communicate(timeout=120)[1], one.returncode) for one in both)
    assert [code for _, code in ended] == [0, 2]
    assert "room" in ended[1][0] or "fit" in ended[1][0]
    assert [run.status for run in account.state().charged] == ["released"]


def test_a_file_that_can_be_read_once_only_is_refused(table):
    os.mkfifo(table / "pipe.csv")
    done = subprocess.run(
        [arg.replace("/ill.csv", "/pipe.csv") for arg in arguments(table, "--processes", "2")],
        capture_output=True, text=True, check=False, cwd=table, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "can be read once only" in done.stderr


def test_an_agent_with_few_records_and_one_with_many_are_trained_as_in_one_process(table):
    rows = (table / "ill.csv").read_text().splitlines()
    folder = table / "sites"
    folder.mkdir()
    for name, part in (
        ("a", rows[1:2]),
        ("b", rows[2:350]),
        ("c", rows[350:353]),
        ("d", rows[353:]),
    ):
        (folder / f"{name}.csv").write_text("\n".join([rows[0], *part]) + "\n")
    where = ["--target", "ill", "--bounds", str(table / "ill.toml"), *PRIVATE, "--quiet"]
    how = ["--rounds", "5", "--seed", "1", "--observer", "sum"]
    given = [*COMMAND, "train", str(folder), *where, *how]
    for out, among in (("one", []), ("two", ["--processes", "2"])):
        done = subprocess.run(
            [*given, *among, "--out", str(table / out)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    for name in ("plan.json", "proposal.json"):
        assert (table / "one" / name).read_text() == (table / "two" / name).read_text()
    models = [(table / out / "model.json").read_text() for out in ("one", "two")]
    assert models[0] == models[1]
    (folder / "c.csv").write_text(rows[0] + "\n")
    empty = subprocess.run(
        [*given, "--processes", "2"], capture_output=True, text=True, check=False
    )
    assert empty.returncode == 2
    assert "has no rows" in empty.stderr
    assert empty.stderr.count("\n") == 1
