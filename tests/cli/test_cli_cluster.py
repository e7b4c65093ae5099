"""Trainings in several processes: one result, one charge, and an end of all where one is lost.

Whatever happens: nothing is charged for a difference that is seen beforehand, an account is charged
once where records may have been read, and a report is whole or absent.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from taciturn.budget import Account
from taciturn.cli.main import main

COMMAND = [sys.executable, "-m", "taciturn"]
PRIVATE = ["--epsilon", "1", "--delta", "1e-5"]
BOUNDS = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns.age]
min = 0
max = 100
[columns.dose]
min = 0
max = 1
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--processes", "2"), "mpirun, srun or a shell starts each"),
        (("--cluster", "auto", "--process", "0"), "leave --processes and --process out"),
        (("--cluster", "node1", "--process", "0", "--processes", "2"), "give HOST:PORT"),
        (("--cluster", "node1:0", "--process", "0", "--processes", "2"), "from 1 to 65535"),
        (("--cluster", "::1:4000", "--process", "0", "--processes", "2"), "in brackets"),
        (("--cluster", "[127.0.0.1]:4000", "--process", "0", "--processes", "2"), "in brackets"),
        (("--cluster", "node1:" + "9" * 5000, "--process", "0", "--processes", "2"), "65535"),
        (("--cluster", "node1:4000", "--process", "2", "--processes", "2"), "from 0 to N - 1"),
        (("--cluster", "node1:4000", "--processes", "2"), "needs --processes N and --process I"),
    ],
)
def test_options_that_do_not_name_a_place_are_refused(capfd, words, message):
    assert main(["train", "adult", *PRIVATE, *words]) == 2
    error = capfd.readouterr().err
    assert error.startswith("taciturn: error: ")
    assert message in error


@pytest.fixture
def table(tmp_path):
    draw = np.random.default_rng(0)
    age, dose = draw.uniform(0, 100, 402), draw.uniform(0, 1, 402)
    ill = np.where(age / 100 + dose > 1, "yes", "no")
    rows = [f"{a:.1f},{d:.3f},{i}" for a, d, i in zip(age, dose, ill, strict=True)]
    (tmp_path / "ill.csv").write_text("\n".join(["age,dose,ill", *rows]) + "\n")
    (tmp_path / "ill.toml").write_text(BOUNDS)
    (tmp_path / "test.csv").write_text("\n".join(["age,dose,ill", *rows[:90]]).replace(".", ".1"))
    return tmp_path


def arguments(folder, *further):
    where = [folder / "ill.csv", "--target", "ill", "--bounds", folder / "ill.toml"]
    what = [*PRIVATE, "--agents", "4", "--quiet", *further]
    return [*COMMAND, "train", *map(str, (*where, *what))]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(commands, folder, *, place=None, environment=None):
    """Start a process for every command; all meet on loopback."""
    place = place or f"127.0.0.1:{free_port()}"
    among = ["--cluster", place, "--processes", str(len(commands)), "--process"]
    return [
        subprocess.Popen(
            [*command, *among, str(index)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, "JAX_PLATFORMS": "cpu", **(environment or {})},
        )
        for index, command in enumerate(commands)
    ]  # fmt: skip


def end(processes):
    """Wait for processes; return output, lines of this package on standard error, and exit code."""
    found = []
    try:
        for one in processes:
            out, errors = one.communicate(timeout=150)
            lines = [line for line in errors.splitlines() if line.startswith("taciturn: ")]
            found.append((out, lines, one.returncode))
    finally:
        for one in processes:
            one.kill()
            one.communicate()
    return found


def assert_refused(ended, message):
    for out, lines, code in ended:
        assert (out, code) == ("", 2)
        assert len(lines) == 1
        assert message in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("further", [(), ("--observer", "sum"), ("--evaluate", "0.2")])
def test_two_processes_give_the_model_ledger_and_certificate_of_one(table, further):
    seeded = ("--seed", "3", "--rounds", "12", "--test", table / "test.csv", *further)
    subprocess.run(arguments(table, *seeded, "--out", table / "one"), check=True, cwd=table)
    ended = end(start([arguments(table, *seeded, "--out", table / "two")] * 2, table))
    assert [code for *_, code in ended] == [0, 0], ended
    assert "Certificate" in ended[0][0]
    assert ended[1][0] == ""
    plans, models = (
        [json.loads((table / out / name).read_text()) for out in ("one", "two")]
        for name in ("plan.json", "model.json")
    )
    for plan in plans:  # the plan of the last question holds the model
        plan.pop("evaluation", None)
    assert plans[0] == plans[1]
    ours, theirs = (np.array(weights_of(model)) for model in models)
    assert ours.size > 2
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)  # a run of single precision
    if "sum" in further:  # whole numbers are added exactly, in whatever order
        assert np.array_equal(ours, theirs)


def weights_of(content):
    """All numbers of a model file, in order."""
    if isinstance(content, dict):
        return [n for key in sorted(content) for n in weights_of(content[key])]
    if isinstance(content, list):
        return [n for part in content for n in weights_of(part)]
    return [content] if isinstance(content, float) else []


# as SLURM 22.05 sets them
SLURM = {
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "2",
    "SLURM_JOB_ID": "71",
    "SLURM_STEP_NODELIST": "127.0.0.1",
    "SLURM_STEP_NUM_TASKS": "2",
}


@pytest.mark.slow
def test_tasks_of_slurm_find_one_another_by_its_variables(table):
    words = arguments(table, "--seed", "1", "--rounds", "5", "--cluster", "auto")
    job = {**SLURM, "SLURM_JOB_ID": str(os.getpid())}
    tasks = [
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=table,
            env={**os.environ, **job, "SLURM_PROCID": str(index)},
        )
        for index in range(2)
    ]  # fmt: skip
    ended = end(tasks)
    assert [code for *_, code in ended] == [0, 0], ended
    assert "Certificate" in ended[0][0]
    assert ended[1][0] == ""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_processes_of_open_mpi_find_one_another(table):
    alone = ("--allow-run-as-root", "--oversubscribe", "--mca", "oob_tcp_if_include", "lo")
    words = arguments(table, "--seed", "1", "--rounds", "5", "--cluster", "auto")
    done = subprocess.run(
        ["mpirun", *alone, "-np", "2", *words],
        capture_output=True, text=True, check=False, cwd=table, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Certificate") == 1


@pytest.fixture
def account(table, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(table / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(table / "data"))
    opened = [*COMMAND, "budget", "open", "ill", "--epsilon", "5", "--delta", "1e-4"]
    subprocess.run([*opened, "--accounts", str(table)], check=True, capture_output=True)
    return Account("ill", table)


@pytest.fixture
def charged(table, account):
    """The account and where it is, as words of a command."""
    return ["--account", "ill", "--accounts", str(table)]


@pytest.mark.slow
def test_a_private_run_is_charged_once(table, account, charged):
    ended = end(start([arguments(table, *charged, "--out", "out")] * 2, table))
    assert [code for *_, code in ended] == [0, 0], ended
    assert [run.status for run in account.state().charged] == ["released"]
    assert (table / "out" / "model.json").exists()


@pytest.mark.slow
def test_agents_that_cannot_be_divided_are_refused_in_one_line_and_cost_nothing(
    table, account, charged
):
    assert_refused(end(start([arguments(table, *charged)] * 3, table)), "cannot be divided evenly")
    assert account.state().runs == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "by"), [(0, signal.SIGKILL), (1, signal.SIGKILL), (0, signal.SIGTERM)]
)
def test_a_killed_process_ends_the_others_and_the_charge_stays(table, account, charged, killed, by):
    further = (*charged, "--rounds", "200000", "--out", "out")
    processes = start([arguments(table, *further)] * 2, table)
    until = time.monotonic() + 90
    while not account.state().charged:
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(2)
    processes[killed].send_signal(by)
    began = time.monotonic()
    ended = end(processes)
    assert time.monotonic() - began < 40
    assert [code == 0 for *_, code in ended] == [False, False]
    _, lines, code = ended[1 - killed]
    if code == 2:
        assert "another process of this run ended" in lines[0]
    else:  # JAX may end a process by a signal of its own where it loses the first one
        assert not killed
        assert code == -signal.SIGABRT
    assert [run.status for run in account.state().charged] in (["opened"], ["failed"])
    assert not (table / "out").exists()


LOST_AT_THE_END = """
import os, signal
from taciturn.cli import train
from taciturn.cli.main import main
trained = train._trained
def lost(*given, **named):
    trained(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
train._trained = lost
main()
"""


@pytest.mark.slow
def test_the_report_is_whole_where_another_process_is_lost_after_the_release(
    table, account, charged
):
    """Before, the first process parted from the others first, and JAX ended it there."""
    command = arguments(table, *charged, "--rounds", "50", "--evaluate", "0.2", "--out", "out")
    other = [sys.executable, "-c", LOST_AT_THE_END, *command[len(COMMAND) :]]
    (out, _, _), (_, _, code) = end(start([command, other], table))
    assert code == -signal.SIGKILL
    assert "Private score" in out
    names = {file.name for file in (table / "out").iterdir()}
    assert {"certificate-1.json", "model.json", "results.json", "report.html"} <= names
    assert [run.status for run in account.state().charged] == ["released"]


@pytest.mark.slow
def test_a_process_that_refuses_its_records_ends_the_other_and_shows_no_cell(
    table, account, charged
):
    text = (table / "ill.csv").read_text().splitlines()
    text[7] = "63.7,secret,no"
    (table / "ill.csv").write_text("\n".join(text) + "\n")
    ended = end(start([arguments(table, *charged)] * 2, table))
    assert all(code == 2 for *_, code in ended), ended
    assert not any("secret" in str(each) or "63.7" in str(each) for each in ended)
    assert [run.status for run in account.state().charged] == ["failed"]


@pytest.mark.slow
def test_a_place_where_something_else_listens_is_refused_in_one_line(table):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        place = f"127.0.0.1:{one.getsockname()[1]}"
        words = [arguments(table, "--seed", "1", "--rounds", "5")] * 2
        first, other = start(words, table, place=place)
        out, errors = first.communicate(timeout=150)
        other.kill()
        other.communicate()
    assert (out, first.returncode) == ("", 2)
    assert f"taciturn: error: the processes of this run did not connect at {place}" in errors


@pytest.mark.slow
def test_no_process_listens_beyond_loopback_where_that_is_the_place(table):
    processes = start([arguments(table, "--seed", "1", "--rounds", "200000")] * 2, table)
    try:
        patient = time.monotonic() + 120
        while not all(any(listening(one.pid)) for one in processes):
            assert time.monotonic() < patient
            time.sleep(0.5)
        time.sleep(3)  # and what comes after the first
        found = [place for one in processes for place in listening(one.pid)]
    finally:
        for one in processes:
            one.kill()
            one.communicate()
    assert found
    named = socket.gethostbyname(socket.gethostname())  # where numbers are exchanged
    allowed = ("0100007F", "".join(f"{int(n):02X}" for n in reversed(named.split("."))))
    assert {place for place in found if not place.endswith(allowed)} == set()


def listening(process):
    """The addresses on which a process listens, in the hexadecimal digits of the kernel."""
    sockets = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        target = os.readlink(descriptor) if descriptor.is_symlink() else ""
        sockets |= {target[8:-1]} if target.startswith("socket:") else set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                yield fields[1].partition(":")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["account", "seed", "file", "test", "bounds", "sampling", "agents"]
)
def test_a_difference_is_refused_before_anything_is_charged(table, account, charged, fault):
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
        # else a row may be in the answers of two agents, and one certificate for both is wrong
        "agents": (
            [*charged, "--agent-column", "age"],
            [*charged, "--agent-column", "dose"],
            "differ in --agent-column (age and dose)",
        ),
    }
    first, second, message = further[fault]
    if fault == "file":
        text = (table / "ill.csv").read_text()
        (other / "ill.csv").write_text(text.replace(",yes", ",no", 1))
    if fault == "bounds":
        (other / "ill.toml").write_text(BOUNDS.replace("100", "101"))
    ended = end(start([arguments(table, *first), arguments(other, *second)], table))
    assert_refused(ended, message)
    assert account.state().runs == ()
    digest = "0123456789abcdef"
    words = [word for _, lines, _ in ended for line in lines for word in line.split()]
    assert not any(len(word) > 20 and set(word) <= set(digest) for word in words)


@pytest.mark.slow
def test_published_records_with_other_plans_are_refused_before_anything_is_charged(
    table, account, charged
):
    given = [*COMMAND, "train", "breast_cancer", *PRIVATE, "--agents", "4", "--quiet", *charged]
    ended = end(start([[*given, "--rounds", "4"], [*given, "--rounds", "5"]], table))
    assert_refused(ended, "--rounds (4 and 5)")
    assert account.state().runs == ()


@pytest.mark.slow
def test_a_file_that_can_be_read_once_only_is_refused(table):
    os.mkfifo(table / "pipe.csv")
    words = [arg.replace("/ill.csv", "/pipe.csv") for arg in arguments(table)]
    assert_refused(end(start([words] * 2, table)), "can be read once only")


@pytest.mark.slow
def test_an_agent_with_few_records_and_one_with_many_are_trained_as_in_one_process(table):
    rows = (table / "ill.csv").read_text().splitlines()
    folder = table / "sites"
    folder.mkdir()
    parts = {"a": rows[1:2], "b": rows[2:350], "c": rows[350:353], "d": rows[353:]}
    for name, part in parts.items():
        (folder / f"{name}.csv").write_text("\n".join([rows[0], *part]) + "\n")
    target = ["--target", "ill", "--bounds", str(table / "ill.toml"), *PRIVATE, "--quiet"]
    how = ["--rounds", "5", "--seed", "1", "--observer", "sum"]
    given = [*COMMAND, "train", str(folder), *target, *how]
    subprocess.run([*given, "--out", str(table / "one")], check=True, capture_output=True)
    ended = end(start([[*given, "--out", str(table / "two")]] * 2, table))
    assert [code for *_, code in ended] == [0, 0], ended
    for name in ("plan.json", "proposal.json", "model.json"):
        assert (table / "one" / name).read_text() == (table / "two" / name).read_text()
