"""Trainings in several processes: one result, one charge, and an end of all where one is lost.

Whatever happens: nothing is charged for a difference that is seen beforehand, an account is charged
once where records may have been read, and a report is whole or absent.
"""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.cluster import check_among
from taciturn.cli.main import main
from taciturn.cli.outcome import Output
from taciturn.engine.processes import Processes
from taciturn.errors import InputError
from taciturn.kernel.records import Devices, Draw
from taciturn.tables import Source, read_files
from taciturn.training import (
    Division,
    Request,
    StructureRequest,
    count_files,
    proposal_for,
    training,
)
from taciturn.training.training import agree, read, train

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
        (("--cluster", "node1:0", "--process", "0", "--processes", "2"), "from 1 to 65535"),
        (("--cluster", "::1:4000", "--process", "0", "--processes", "2"), "in brackets"),
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
@pytest.mark.parametrize("further", [("--observer", "sum"), ("--evaluate", "0.2")])
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


@pytest.fixture
def account(table, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(table / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(table / "data"))
    return open_account("ill", Guarantee(5.0, 1e-4), AccountTerms(), folder=table)


@pytest.fixture
def charged(table, account):
    """The account and where it is, as words of a command."""
    return ["--account", "ill", "--accounts", str(table)]


@pytest.mark.slow
def test_agents_that_cannot_be_divided_are_refused_in_one_line_and_cost_nothing(
    table, account, charged
):
    assert_refused(end(start([arguments(table, *charged)] * 3, table)), "cannot be divided evenly")
    assert account.state().runs == ()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_ends_the_others_and_the_charge_stays(table, account, charged, killed):
    further = (*charged, "--rounds", "200000", "--out", "out")
    processes = start([arguments(table, *further)] * 2, table)
    until = time.monotonic() + 90
    while not account.state().charged:
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(2)
    processes[killed].send_signal(signal.SIGKILL)
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
@pytest.mark.parametrize("fault", ["account", "file", "bounds", "agents"])
def test_a_difference_is_refused_before_anything_is_charged(table, account, charged, fault):
    other = table / "other"
    other.mkdir()
    for name in ("ill.csv", "ill.toml"):
        (other / name).write_text((table / name).read_text())
    further = {
        "account": (["--rounds", "5"], ["--rounds", "5", *charged], "--account"),
        "file": (charged, charged, "files"),
        "bounds": (charged, charged, "proposal"),
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


OUTPUT = Output(None, force=False, reference=False, oracle_metrics=False, json=False)


class Echo(Processes):
    """One of two processes; the other has the same facts, but for some."""

    def gather(self, content):
        facts = json.loads(content)
        return [content, json.dumps({**facts, **OTHERS}).encode()]


OTHERS = {}


@pytest.fixture
def others():
    """Facts in which the other process differs."""
    yield OTHERS
    OTHERS.clear()


def among(options):
    check_among(Echo(0, 2), OUTPUT, options)


def test_processes_with_different_options_are_refused_with_the_name_of_one(tmp_path, others):
    options = {"agent_column": "here", "seed": None, "bounds": tmp_path / "a.toml"}
    among(options)
    for name, value, message in (
        ("--agent-column", "there", r"differ in --agent-column \(here and there\)"),
        ("--seed", 3, r"differ in --seed \(None and 3\)"),
        ("--bounds", None, "differ in --bounds"),
        ("numpy", "1.0", "differ in numpy"),
    ):
        others.clear()
        others[name] = value
        with pytest.raises(InputError, match=message):
            among(options)


def test_digests_are_compared_and_not_shown(others):
    others["files"] = ["b" * 64]
    with pytest.raises(InputError) as refused:
        Echo(0, 2).agree({"files": ["a" * 64]})
    assert "differ in files;" in str(refused.value)
    assert "aaa" not in str(refused.value)


def test_what_processes_cannot_do_is_refused_before_they_are_compared(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="read once only"):
        among({"data": tmp_path / "pipe.csv"})
    alone = Processes()
    check_among(alone, OUTPUT, {"data": tmp_path / "pipe.csv"})


MARKED = 77.125  # an age that one row has, of the first agent


class SecondOfTwo(Devices):
    """Devices of two processes, seen from the second one."""

    def local(self, agents):
        return range(agents // 2, agents)


class FirstOfTwo(Devices):
    """The same, seen from the first one."""

    def local(self, agents):
        return range(agents // 2)


def pretend(monkeypatch, devices):
    """Let a process believe that it is one of two with these devices."""
    monkeypatch.setattr(training, "Devices", devices)
    monkeypatch.setattr(training, "check_devices", lambda *_, **__: None)
    monkeypatch.setattr(Echo, "agree_on_records", lambda *_: None)
    monkeypatch.setattr(Echo, "share_draw", lambda self, draw: Draw(seed=0))


def arrays_in(thing, seen=None):
    """All arrays that something holds, however deep."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from arrays_in(value, seen)
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from arrays_in(value, seen)
    elif hasattr(thing, "__dict__"):
        yield from arrays_in(vars(thing), seen)


@pytest.mark.parametrize("asked", [{}, {"evaluate": 0.2}])
def test_a_row_of_another_process_is_in_nothing_that_a_process_keeps(tmp_path, monkeypatch, asked):
    held = {}
    for devices in (FirstOfTwo, SecondOfTwo):
        records = kept(tmp_path, monkeypatch, devices, **asked)
        parts = [part for part in arrays_in(records) if part.dtype.kind == "f"]
        assert parts
        held[devices] = any(marked(part) for part in parts)
        assert len(records.counts) == 4
        assert len(records.owners) == 2
    assert held == {FirstOfTwo: True, SecondOfTwo: False}


def marked(part):
    """Whether a cell is the marked age, as it is encoded for its bounds and two columns."""
    coded = 2 * MARKED / 100 - 1
    return bool(np.any(np.isclose(np.abs(part)[..., None], [coded, coded / np.sqrt(3)], rtol=1e-6)))


def test_the_fields_that_hold_rows_are_all_searched(tmp_path, monkeypatch):
    """Planted fault: a field that keeps all rows is seen by the same search."""
    records = kept(tmp_path, monkeypatch, SecondOfTwo)
    whole = kept(tmp_path, monkeypatch, FirstOfTwo)
    spoiled = dataclasses.replace(records, parts=whole.parts, owners=whole.owners)
    assert any(marked(part) for part in arrays_in(spoiled) if part.dtype.kind == "f")


def planned(tmp_path, rows, **asked):
    """The counted records of a table whose rows name a site, and the proposal of a run on them."""
    (tmp_path / "ill.csv").write_text("\n".join(["age,dose,ill,site", *rows]) + "\n")
    (tmp_path / "ill.toml").write_text(BOUNDS)
    source = Source(
        path=tmp_path / "ill.csv", target="ill", bounds=tmp_path / "ill.toml", agent_column="site"
    )
    request = Request(epsilon=1.0, delta=1e-5, rounds=5, **asked)
    data = count_files(Division.of_request(request, None), read_files(source))
    return data, proposal_for(data, request, StructureRequest())


def kept(tmp_path, monkeypatch, devices, **asked):
    """What a process keeps of a table in which one row of the first agent is marked."""
    draw = np.random.default_rng(0)
    ages, doses = np.round(draw.uniform(0, 70, 200), 1), np.round(draw.uniform(0, 1, 200), 3)
    ages[8] = MARKED
    cells = enumerate(zip(ages, doses, strict=True))
    rows = [f"{age},{dose},{('no', 'yes')[n % 3 == 0]},s{n % 4}" for n, (age, dose) in cells]
    data, proposal = planned(tmp_path, rows, **asked)
    pretend(monkeypatch, devices)
    agree(data, proposal, Echo(0, 2))
    return read(data, proposal, None, Echo(0, 2), None)


def test_an_agent_that_holds_nothing_out_is_refused_before_the_charge(tmp_path, monkeypatch):
    """Of several processes all agents answer the evaluation: counts are public, so nothing is paid.

    Before, the first process had its mark on the disk when the division was refused.
    """
    sites = ["few"] * 2 + ["many"] * 198
    rows = [f"{n % 70},0.5,{('no', 'yes')[n % 3 == 0]},{site}" for n, site in enumerate(sites)]
    data, proposal = planned(tmp_path, rows, evaluate=0.2)
    assert proposal.evaluation.counts[0] == 0
    pretend(monkeypatch, FirstOfTwo)
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account(
        "ward", Guarantee(10.0, 1e-4), AccountTerms(), folder=tmp_path / "accounts"
    )
    with pytest.raises(InputError, match="too few records to hold some out"):
        train(data, proposal, account=account, processes=Echo(0, 2))
    assert account.state().runs == ()
