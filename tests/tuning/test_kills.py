"""`taciturn tune` killed between its trainings and within them: what was answered stays charged."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.budget.test_account import PURPOSE, charge
from tests.budget.test_crashes import alive, driver, environment, kill

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.accounts import account_given

TRAININGS, ROUNDS, KILLS = 3, 8, 12
BOUNDS = """
source = "public"
[target]
name = "y"
values = ["a", "b"]
[columns.x]
min = 0.0
max = 1.0
"""
TOLD = "is under way or was killed; it may have answered, and stays charged: mu "
posix = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes by number")


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "compiled"))
    account = open_account("t", Guarantee(9.0, 1e-3), AccountTerms(), folder=tmp_path / "accounts")
    (tmp_path / "b.toml").write_text(BOUNDS)
    (tmp_path / "c.toml").write_text("clip = [0.2, 0.4, 0.8]\n")
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *(f"{k / 100},{'ab'[k > 50]}"
                                                       for k in range(100))]))  # fmt: skip
    arguments = [
        *("tune", tmp_path / "t.csv", "--target", "y", "--bounds", tmp_path / "b.toml"),
        *("--candidates", tmp_path / "c.toml", "--account", "t", "--accounts", account.folder),
        *("--epsilon", "0.5", "--delta", "1e-4", "--agents", "2", "--no-centre", "--quiet"),
        *("--rounds", ROUNDS),
    ]
    return account, tmp_path, [str(one) for one in arguments]


def heard(witness):
    """Return for each process how many rounds it answered."""
    text = witness.read_text() if witness.exists() else ""
    lines = [line.split()[0] for line in text.split("\n")[:-1]]
    return {int(pid): lines.count(pid) for pid in set(lines)}


def wait_for(witness, number, rounds):
    """Wait until a process has answered so many rounds, or is gone."""
    while alive(number) and heard(witness).get(number, 0) < rounds:
        time.sleep(0.001)


def check(state, said):
    """Every process that answered has one reservation of its own, and its charge stands."""
    paid = [run.process for run in state.charged if run.status != "reserved"]
    assert set(said) <= set(paid)
    assert len(set(paid)) == len(paid) == len(state.charged)
    cost = sum(run.share.costs[0].squares for run in state.charged)
    assert state.total.squares == pytest.approx(cost, rel=1e-9)


@posix
@pytest.mark.slow
def test_tuning_that_is_killed_is_charged_for_what_was_answered_and_begins_anew(study):
    account, folder, arguments = study
    witness, errors, draw = folder / "witness", folder / "errors", random.Random(7)
    command = [sys.executable, "-m", "tests.tuning.killing", str(witness), str(errors), *arguments]
    # as a training ends, or some time after it, within the next one; 0 is before the first answer
    ends = [ROUNDS * done for done in range(TRAININGS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    died = told = 0
    state_folder = os.environ["TACITURN_STATE_DIR"]
    with subprocess.Popen(command, env=environment(state_folder), **pipes) as server:
        assert server.stdout.readline() == b"ready\n"
        for attempt in range(100):
            if died == KILLS:
                break
            rounds = ends[attempt % TRAININGS]
            before = account.state()
            killed = bool(before.charged) and before.charged[-1].status == "opened"
            number = driver(server, draw)
            wait_for(witness, number, rounds)
            # a machine may be fast or slow: some are over before they are killed
            time.sleep(draw.uniform(0, draw.choice([0.02, 0.2, 2.0])))
            died += kill(number)
            check(account.state(), heard(witness))
            text = errors.read_text() if errors.exists() else ""
            if killed and heard(witness).get(number, 0):
                told += 1
            assert text.count(TOLD) >= told
        server.kill()
    state, said = account.state(), heard(witness)
    print(f"{died} kills: {sorted(said.values())} rounds answered, "
          f"{len(state.charged)} charged, {told} told")  # fmt: skip
    assert died == KILLS
    assert told >= 3
    assert all(line.count(TOLD) <= 1 for line in errors.read_text().splitlines())


@posix
def test_a_charge_that_is_missing_is_caught(study):
    """Planted fault: a training that answers under the reservation of another process."""
    account, _, _ = study
    check(account.state(), {})
    with pytest.raises(AssertionError):
        check(account.state(), {os.getpid(): 3})


@posix
def test_the_owner_is_told_once_what_a_killed_run_was_charged(study, capsys):
    account, _, _ = study

    def said():
        account_given({"account": account.name, "accounts": account.folder})
        return capsys.readouterr().err

    account.reserve(charge(0.02), PURPOSE).begin()
    error = said()
    assert f"{TOLD}0.02" in error
    assert error.count("\n") == 1
    reservation = account.reserve(charge(0.01), PURPOSE)
    reservation.begin()
    reservation.close(released=True)
    assert not said()
