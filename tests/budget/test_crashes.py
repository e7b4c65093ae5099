"""Kills at any instant, full disks, lost writes: every answer that was given is charged."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.budget.crashing import MU, answered, charge, check

from taciturn.budget import Account, AccountTerms, Guarantee, open_account

ROOT = Path(__file__).parents[2]
GUARANTEE = Guarantee(8.0, 1e-5)
posix = pytest.mark.skipif(os.name != "posix", reason="signals")


def environment(state):
    paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    return {**os.environ, "TACITURN_STATE_DIR": str(state), "PYTHONPATH": paths}


def started(account, witness, state, *, runs=10**6, seed=0, before=(), **more):
    command = [*before, sys.executable, "-m", "tests.budget.crashing", str(account.file.parent),
               account.name, str(witness), str(runs), str(seed)]  # fmt: skip
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment(state), **pipes, **more)


def alive(number):
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def driver(server, draw):
    server.stdin.write(f"{draw.getrandbits(30)}\n".encode())
    server.stdin.flush()
    return int(server.stdout.readline())


def kill(number):
    """Kill a process and wait until it is gone; return whether it was there."""
    there = alive(number)
    if there:
        os.kill(number, signal.SIGKILL)
    while alive(number):
        time.sleep(0.001)
    return there


def pace(server, draw, witness, answers):
    """Return how long one answer takes here and now, start and all; its driver is killed."""
    began, number = time.monotonic(), driver(server, draw)
    while len(answered(witness)) < answers and time.monotonic() < began + 120:
        time.sleep(0.002)
    kill(number)
    return (time.monotonic() - began) / answers


def crashes(folder, monkeypatch, kills, *, module="crashing", answers=5, most=6.0, wanted=0):
    """Kill drivers two at a time, at random instants within some answers; check after each pair.

    On a busy machine fewer of them come to an answer: up to three times as many are killed until
    more than `wanted` runs have answered.
    """
    state, witness, draw = folder / "state", folder / "witness", random.Random(kills)
    monkeypatch.setenv("TACITURN_STATE_DIR", str(state))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
    account = open_account("one", GUARANTEE, AccountTerms(), folder=folder / "accounts")
    more = ("0", "0") if module == "crashing" else ()
    command = [sys.executable, "-m", f"tests.budget.{module}", str(account.file.parent), "one",
               str(witness), *more]  # fmt: skip
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    died = 0
    with subprocess.Popen(command, env=environment(state), **pipes) as server:
        assert server.stdout.readline() == b"ready\n"
        longest = most * pace(server, draw, witness, answers)
        while died < kills or (len(answered(witness)) <= wanted and died < 3 * kills):
            pair = [driver(server, draw) for _ in range(2)]
            for number in pair:
                time.sleep(draw.uniform(0, longest))
                died += kill(number)
            last = check(account, witness)
        server.kill()
    said, statuses = answered(witness), [run.status for run in last.runs]
    print(f"{died} kills: {len(statuses)} runs, {len(said)} answered, {len(last.charged)} charged, "
          f"{ {name: statuses.count(name) for name in sorted(set(statuses))} }")  # fmt: skip
    return account, last, witness


@posix
def test_after_a_few_kills_every_answer_is_charged(tmp_path, monkeypatch):
    account, state, witness = crashes(tmp_path, monkeypatch, 4)
    # reservations without a mark come back with a run an hour later; no other does
    monkeypatch.setattr("taciturn.budget.account._PATIENCE", timedelta(seconds=-1))
    account.reserve(charge(), state.runs[0].purpose if state.runs else None)
    after = account.state()
    known = {run.run: run.status for run in state.runs}
    for run in after.runs[:-1]:
        expected = "returned" if known[run.run] == "reserved" else known[run.run]
        assert run.status == expected
    assert answered(witness) <= {run.run for run in after.charged}


@posix
@pytest.mark.slow
def test_after_many_kills_every_answer_is_charged(tmp_path, monkeypatch):
    _, state, witness = crashes(tmp_path, monkeypatch, 150, wanted=40)
    assert len(answered(witness)) > 40
    charged = [run for run in state.runs if run.status != "returned"]
    assert state.total.squares == pytest.approx(len(charged) * MU**2)


@posix
@pytest.mark.slow
def test_after_kills_of_real_trainings_every_answer_is_charged(tmp_path, monkeypatch):
    given = {"module": "training", "answers": 1, "most": 1.5, "wanted": 8}
    _, state, witness = crashes(tmp_path, monkeypatch, 24, **given)
    assert len(answered(witness)) > 8
    assert sum(run.status == "opened" for run in state.runs) > 2


def test_an_answer_before_its_mark_is_caught(tmp_path, monkeypatch):
    """Planted fault: a run that answers first and charges afterwards."""
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("one", GUARANTEE, AccountTerms(), folder=tmp_path / "accounts")
    (tmp_path / "witness").write_text("0123456789abcdef\n")
    with pytest.raises(AssertionError):
        check(account, tmp_path / "witness")


# --- what a power cut leaves: the account as far as it was synced -------------------------------

SYSTEM_CALLS = "openat,write,pwrite64,fsync,fdatasync,ftruncate,unlink,close,lseek"
_CALL = re.compile(r"^(?P<pid>\d+)?\s*(?P<name>\w+)\((?P<rest>.*)\)\s+= (?P<result>-?\d+)")


def traced(account, witness, state, log, runs):
    before = [
        *["strace", "-f", "-xx", "-s", "10000000", "-e"],
        f"trace={SYSTEM_CALLS}",
        "-o",
        str(log),
    ]
    process = started(account, witness, state, runs=runs, before=before)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def events(log):
    """Yield (name, file, content, offset) of every call on a file that was opened by name."""
    files, places = {}, {}
    for line in log.read_text(errors="replace").splitlines():
        found = _CALL.match(line)
        if not found or int(found["result"]) < 0:
            continue
        name, rest, result = found["name"], found["rest"], int(found["result"])
        if name == "openat":
            files[result], places[result] = text_in(rest).decode(), 0
        elif name == "unlink":
            yield name, text_in(rest).decode(), b"", 0
        elif (number := int(rest.split(",")[0])) in files:
            if name == "close":
                del files[number]
            elif name == "lseek":
                places[number] = result
            else:
                yield on_file(name, rest, number, (files, places))


def on_file(name, rest, number, known):
    files, places = known
    if name == "ftruncate":
        return name, files[number], b"", int(rest.split(",")[1])
    if name in {"fsync", "fdatasync"}:
        return "sync", files[number], b"", 0
    content = text_in(rest)
    at = int(rest.rsplit(",", 1)[1]) if name == "pwrite64" else places[number]
    places[number] = at + len(content)
    return "write", files[number], content, at


def text_in(rest):
    return bytes.fromhex(re.search(r'"((?:\\x..)*)"', rest)[1].replace("\\x", ""))


def written(content, data, at):
    grown = bytearray(content.ljust(at, b"\0"))
    grown[at : at + len(data)] = data
    return bytes(grown)


def replayed(log, start):
    """Yield, at every answer of a witness, its line and all files as of their last sync.

    `start` holds the files as they were before, by path.
    """
    now, synced = dict(start), dict(start)
    for name, file, data, at in events(log):
        if file.endswith("witness"):
            if name == "write":
                yield data.decode().strip(), dict(synced), dict(now)
        elif name == "write":
            now[file] = written(now.get(file, b""), data, at)
        elif name == "ftruncate":
            now[file] = now.get(file, b"")[:at]
        elif name == "unlink":
            now.pop(file, None)
            synced.pop(file, None)
        elif name == "sync" and file in now:
            synced[file] = now[file]


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture
def trace(tmp_path, monkeypatch):
    state, witness, log = tmp_path / "state", tmp_path / "witness", tmp_path / "calls"
    monkeypatch.setenv("TACITURN_STATE_DIR", str(state))
    account = open_account("one", GUARANTEE, AccountTerms(), folder=tmp_path / "accounts")
    places = (account.file.parent, state / "heads")
    start = {str(f): f.read_bytes() for place in places for f in place.iterdir()}
    traced(account, witness, state, log, 25)
    return account, start, log


@needs_strace
@pytest.mark.slow
def test_mark_and_head_are_synced_before_the_first_answer(trace):
    account, start, log = trace
    head = next(f for f in start if f.endswith(".head"))
    watched = (str(account.file), f"{account.file}-wal", str(head))
    dirty, synced, answers = set(), set(), 0
    for name, file, _, _ in events(log):
        if file.endswith("witness") and name == "write":
            answers += 1
            assert not dirty, f"an answer before {dirty} was synced"
            assert {watched[1], watched[2]} <= synced  # log and head, for this very run
            synced = set()
        elif file in watched and name == "write":
            dirty.add(file)
        elif file in watched and name == "sync":
            dirty.discard(file)
            synced.add(file)
    assert answers >= 10


@needs_strace
@pytest.mark.slow
def test_a_file_cut_back_to_its_last_sync_holds_every_answer_that_was_given(trace, tmp_path):
    _, start, log = trace
    said = set()
    for run, synced, now in replayed(log, start):
        said.add(run)
        for files in (synced, now):
            place = tmp_path / "after the cut"
            shutil.rmtree(place, ignore_errors=True)
            for path, content in files.items():
                if path.endswith("-shm"):
                    continue
                file = place / Path(path).relative_to(tmp_path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TACITURN_STATE_DIR", str(place / "state"))
                state = Account("one", place / "accounts").state()
            assert said <= {one.run for one in state.charged}
    assert len(said) >= 10


# --- a full disk ---------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB; skipped where this user may not mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no small disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@posix
@pytest.mark.slow
@pytest.mark.parametrize("head_too", [False, True])
def test_on_a_disk_that_fills_up_every_answer_is_charged(
    small_disk, tmp_path, monkeypatch, head_too
):
    state = (small_disk if head_too else tmp_path) / "state"
    witness = tmp_path / "witness"
    monkeypatch.setenv("TACITURN_STATE_DIR", str(state))
    account = open_account("one", GUARANTEE, AccountTerms(), folder=small_disk / "accounts")
    process = started(account, witness, state, seed=3)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert b"cannot be used" in errors
    assert len(answered(witness)) > 20
    (small_disk / "filler").unlink(missing_ok=True)
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert check(account, witness).last.number > 20
    # with room again it goes on
    with started(account, witness, state, runs=5, seed=4) as more:
        assert more.wait(timeout=60) == 0
    check(account, witness)
