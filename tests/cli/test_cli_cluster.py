"""Trainings in several processes: one result, one charge, and one line when a process is lost."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tacit.budget import Account
from tacit.cli.cluster import Place, places_of
from tacit.cli.main import main
from tacit.errors import InputError

COMMAND = [sys.executable, "-m", "tacit.cli"]
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


def options(**given):
    return {"processes": None, "cluster": None, "process": None, **given}


def test_processes_of_one_machine_meet_on_loopback():
    places = places_of(options(processes="3"), {})
    assert [(place.index, place.count) for place in places] == [(0, 3), (1, 3), (2, 3)]
    assert {place.address.rpartition(":")[0] for place in places} == {"127.0.0.1"}
    assert places_of(options(processes="1"), {}) == []
    assert places_of(options(cluster="auto"), {"PMI_RANK": "0", "PMI_SIZE": "1"}) == []


def test_a_place_on_a_cluster_is_as_given_or_as_the_launcher_says():
    given = options(cluster="node1:4000", processes="4", process="2")
    assert places_of(given, {}) == [Place("node1:4000", 2, 4)]
    for number, size in (("SLURM_PROCID", "SLURM_NTASKS"), ("PMI_RANK", "PMI_SIZE")):
        found = places_of(options(cluster="node1:4000"), {number: "1", size: "2"})
        assert found == [Place("node1:4000", 1, 2)]
    assert Place.parse(Place("[::1]:9,9", 1, 2).text()) == Place("[::1]:9,9", 1, 2)


# as Open MPI 4.1.4 and 5.0.11 set them, and as SLURM documents them
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_orte_hnp_uri": "1928855552.0;tcp://192.0.2.2,10.0.0.2:53513;tcp6://[fd00::2]:50513",
}
OPEN_MPI_5 = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-node7-3275@1",
}
SLURM = {
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "2",
    "SLURM_JOB_ID": "71",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_NODELIST": "node7",
}


@pytest.mark.parametrize("launcher", [OPEN_MPI, OPEN_MPI_5, SLURM])
def test_processes_of_a_job_on_one_machine_meet_on_loopback(launcher):
    (place,) = places_of(options(cluster="auto"), launcher)
    host, _, port = place.address.rpartition(":")
    assert (host, place.index, place.count) == ("127.0.0.1", 1, 2)
    assert 61440 <= int(port) < 65536


@pytest.mark.parametrize(
    ("launcher", "changed", "host"),
    [
        (OPEN_MPI, {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "192.0.2.2"),
        (
            OPEN_MPI,
            {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_MCA_orte_hnp_uri": "1.0;tcp6://[fd00::2]:5"},
            "[fd00::2]",
        ),
        (SLURM, {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "node7,node9"}, "node7"),
        (SLURM, {"SLURM_STEP_NUM_NODES": "9", "SLURM_STEP_NODELIST": "n[07-12,20],m1"}, "n07"),
    ],
)
def test_processes_of_a_job_on_several_machines_meet_at_the_first(launcher, changed, host):
    (place,) = places_of(options(cluster="auto"), launcher | changed)
    assert place.address.rpartition(":")[0] == host
    (other,) = places_of(options(cluster="auto", process="0"), launcher | changed)
    assert (other.address, other.index) == (place.address, 0)


def test_two_steps_of_one_job_meet_at_different_ports():
    steps = [SLURM | {"SLURM_STEP_ID": step} for step in ("0", "1")]
    first, second = (places_of(options(cluster="auto"), step)[0].address for step in steps)
    assert first != second


def test_a_number_of_open_mpi_counts_before_that_of_the_slurm_around_it():
    """Open MPI's daemons are tasks of SLURM: all of its processes on a machine have one number."""
    (place,) = places_of(options(cluster="auto"), SLURM | {"SLURM_PROCID": "0"} | OPEN_MPI)
    assert (place.index, place.count) == (1, 2)


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        ({}, "needs --process I"),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "do not say it; give HOST:PORT"),
        (OPEN_MPI_5 | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "give HOST:PORT"),
        (SLURM | {"SLURM_PROCID": "one"}, "SLURM_PROCID is 'one'"),
        (SLURM | {"SLURM_NTASKS": "9" * 5000}, "SLURM_NTASKS is '999"),
    ],
)
def test_a_launcher_that_does_not_say_where_to_meet_is_told_so(launcher, said):
    with pytest.raises(InputError, match=said):
        places_of(options(cluster="auto"), launcher)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"processes": "0"}, "whole number of at least 1"),
        ({"processes": "two"}, "whole number"),
        ({"processes": "9" * 5000}, "at most 6 digits"),
        ({"process": "1", "processes": "2"}, "add --cluster"),
        ({"cluster": "node1:4000"}, "needs --process I"),
        ({"cluster": "node1", "process": "0", "processes": "2"}, "give HOST:PORT"),
        ({"processes": "257"}, "at most 256"),
        ({"cluster": "node1:0", "process": "0", "processes": "2"}, "from 1 to 65535"),
        ({"cluster": "node1:0655350", "process": "0", "processes": "2"}, "from 1 to 65535"),
        ({"cluster": "::1:4000", "process": "0", "processes": "2"}, "in brackets"),
        ({"cluster": "[127.0.0.1]:4000", "process": "0", "processes": "2"}, "in brackets"),
        ({"cluster": "node1:70000", "process": "0", "processes": "2"}, "from 1 to 65535"),
        ({"cluster": "node1:" + "9" * 5000, "process": "0", "processes": "2"}, "from 1 to 65535"),
        ({"cluster": "node1:1", "process": "2", "processes": "2"}, "numbered from 0"),
    ],
)
def test_options_that_say_no_place_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        places_of(options(**given), {})


def test_a_wrong_option_is_told_before_anything_is_started(capsys):
    assert main(["train", "adult", *PRIVATE, "--processes", "none"]) == 2
    assert capsys.readouterr().err.startswith("tacit: error: --processes is 'none'")


def test_of_an_option_that_is_given_twice_the_last_counts(capsys):
    twice = ["--processes", "2", "--processes=none"]
    assert main(["train", "adult", *PRIVATE, *twice]) == 2
    assert capsys.readouterr().err.startswith("tacit: error: --processes is 'none'")


@pytest.mark.parametrize(
    "text", ["yes", "127.0.0.1:4000,one,2", "", "a:1,0,1", "a:1,5,2", f"a:1,{'9' * 5000},2"]
)
def test_a_place_that_somebody_else_set_is_refused_in_one_line(text):
    with pytest.raises(InputError, match="unset it"):
        Place.parse(text)


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


def trained(folder, *further, **how):
    return subprocess.run(
        arguments(folder, *further), capture_output=True, text=True, check=False, cwd=folder, **how
    )


@pytest.mark.slow
@pytest.mark.parametrize("further", [(), ("--observer", "sum"), ("--evaluate", "0.2")])
def test_two_processes_give_the_model_ledger_and_certificate_of_one(table, further):
    seeded = ("--seed", "3", "--rounds", "12", "--test", table / "test.csv", *further)
    for out, among in (("one", ()), ("two", ("--processes", "2"))):
        done = trained(table, *seeded, "--out", out, *among)
        assert done.returncode == 0, done.stderr
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


@pytest.mark.slow
def test_tasks_of_slurm_find_one_another_by_its_variables(table):
    words = arguments(table, "--seed", "1", "--rounds", "5", "--cluster", "auto")
    job = {**SLURM, "SLURM_JOB_ID": str(os.getpid()), "SLURM_LOCALID": "0"}
    tasks = [
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=table,
            env={**os.environ, **job, "SLURM_PROCID": str(index)},
        )
        for index in range(2)
    ]  # fmt: skip
    said = [task.communicate(timeout=200) for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said
    assert "Certificate" in said[0][0]
    assert said[1][0] == ""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_processes_of_open_mpi_find_one_another(table):
    alone = ("--allow-run-as-root", "--oversubscribe", "--mca", "oob_tcp_if_include", "lo")
    words = arguments(table, "--seed", "1", "--rounds", "5", "--cluster", "auto")
    done = subprocess.run(
        ["mpirun", *alone, "-np", "2", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=table,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Certificate") == 1


@pytest.fixture
def account(table, monkeypatch):
    monkeypatch.setenv("TACIT_STATE_DIR", str(table / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(table / "data"))
    opened = [*COMMAND, "budget", "open", "ill", "--epsilon", "5", "--delta", "1e-4"]
    subprocess.run([*opened, "--accounts", str(table)], check=True, capture_output=True)
    return Account("ill", table)


@pytest.mark.slow
def test_a_private_run_is_charged_once(table, account):
    done = trained(table, "--account", "ill", "--accounts", table, "--processes", "2")
    assert done.returncode == 0, done.stderr
    assert [run.status for run in account.state().charged] == ["released"]


@pytest.mark.slow
def test_agents_that_cannot_be_divided_are_told_in_one_line_and_cost_nothing(table, account):
    done = trained(table, "--account", "ill", "--accounts", table, "--processes", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "cannot be divided evenly" in done.stderr
    assert account.state().charged == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "by"), [(0, signal.SIGKILL), (1, signal.SIGKILL), (0, signal.SIGTERM)]
)
def test_a_killed_process_ends_all_with_one_line_and_the_charge_stays(table, account, killed, by):
    further = ("--account", "ill", "--accounts", table, "--processes", "2", "--rounds", "200000")
    with subprocess.Popen(
        arguments(table, *further),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=table,
    ) as parent:
        try:
            workers = started(parent.pid, until=lambda: bool(account.state().charged))
            time.sleep(2)
            os.kill(workers[killed], by)
            began = time.monotonic()
            _, said = parent.communicate(timeout=60)
        finally:
            parent.kill()
    assert time.monotonic() - began < 20
    assert parent.returncode == 2
    assert said.startswith(f"tacit: error: process {killed} of this run ended by signal {by:d};")
    assert said.count("\n") == 1
    assert [run.status for run in account.state().charged] != ["released"]
    assert len(account.state().charged) == 1
    for worker in workers.values():
        assert not Path(f"/proc/{worker}/stat").exists()


@pytest.mark.slow
def test_an_interrupt_of_the_process_that_watches_alone_ends_all(table, account):
    further = ("--account", "ill", "--accounts", table, "--processes", "2", "--rounds", "200000")
    program = (
        # whoever runs the tests in the background has them ignore the signal
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from tacit.cli.main import main; raise SystemExit(main())"
    )
    words = arguments(table, *further)[len(COMMAND) :]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=table,
    ) as parent:
        try:
            workers = started(parent.pid, until=lambda: bool(account.state().charged))
            time.sleep(2)
            os.kill(parent.pid, signal.SIGINT)
            began = time.monotonic()
            _, said = parent.communicate(timeout=60)
        finally:
            parent.kill()
    assert time.monotonic() - began < 20
    assert (parent.returncode, said) == (
        130,
        "tacit: interrupted; every file of a report is there whole or not at all\n",
    )
    assert len(account.state().charged) == 1
    for worker in workers.values():
        assert not Path(f"/proc/{worker}/stat").exists()


@pytest.mark.slow
def test_a_reader_who_takes_his_time_does_not_end_a_run(table):
    """The first process of JAX's runtime, whose output nobody reads, ends soon after the others."""
    with subprocess.Popen(
        arguments(table, "--seed", "1", "--rounds", "5", "--processes", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=table,
    ) as parent:
        fcntl.fcntl(parent.stdout, fcntl.F_SETPIPE_SZ, 4096)
        time.sleep(45)
        out, said = parent.communicate(timeout=60)
    assert (parent.returncode, said) == (0, "")
    assert "Certificate" in out


@pytest.mark.slow
def test_a_place_where_something_else_listens_is_told_in_one_line(table):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        place = f"127.0.0.1:{one.getsockname()[1]}"
        among = ("--cluster", place, "--processes", "2", "--process", "0")
        done = trained(table, "--seed", "1", "--rounds", "5", *among, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"tacit: error: the processes of this run did not meet at {place}"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_no_process_imports_a_module_from_the_folder_with_the_data(table):
    (table / "jax.py").write_text("raise SystemExit('imported')")
    words = arguments(table, "--seed", "1", "--rounds", "5", "--processes", "2")
    done = subprocess.run(
        [words[0], "-P", *words[1:]], capture_output=True, text=True, check=False, cwd=table
    )
    assert (done.returncode, done.stderr) == (0, "")


def started(parent, *, until):
    """The children of a process by their number in the run, once something has happened."""
    end = time.monotonic() + 90
    while not until():
        assert time.monotonic() < end
        time.sleep(0.1)
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    found = {}
    for child in map(int, children):
        environment = Path(f"/proc/{child}/environ").read_bytes().decode()
        found[int(re.search(r"TACIT_WORKER=[^,]*,(\d+),", environment)[1])] = child
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["file", "seed"])
def test_processes_that_were_given_different_things_stop_before_an_answer(table, fault):
    other = table / "other"
    other.mkdir()
    for name in ("ill.csv", "ill.toml"):
        (other / name).write_text((table / name).read_text())
    if fault == "file":
        text = (other / "ill.csv").read_text()
        (other / "ill.csv").write_text(text.replace(",yes", ",no", 1))
    port = places_of(options(processes="2"), {})[0].address
    seeds = ["1", "2"] if fault == "seed" else ["1", "1"]
    runs = [
        subprocess.Popen(
            arguments(folder, "--seed", seed, "--cluster", port, "--processes", "2",
                      "--process", str(index)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        )
        for index, (folder, seed) in enumerate(zip((table, other), seeds, strict=True))
    ]  # fmt: skip
    for done in runs:
        out, said = done.communicate(timeout=120)
        assert done.returncode == 2, said
        assert "Certificate" not in out
        assert said.count("tacit: error: ") == 1
        assert "differ in" in said


@pytest.mark.slow
def test_no_process_of_one_machine_listens_beyond_loopback(table):
    with subprocess.Popen(
        arguments(table, "--seed", "1", "--processes", "2", "--rounds", "200000"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=table,
    ) as parent:
        try:
            time.sleep(12)
            workers = started(parent.pid, until=lambda: True)
            found = [place for worker in workers.values() for place in listening(worker)]
        finally:
            parent.kill()
    assert found
    assert {place for place in found if not place.endswith("0100007F")} == set()


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
