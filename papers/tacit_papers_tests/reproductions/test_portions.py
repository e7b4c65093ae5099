"""Portions of a run: kept, taken up, divided among processes; the same numbers whoever computes."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.typing import HostArray
from tacit_papers.reproductions import ryu2023
from tacit_papers.reproductions.portions import (
    Portion,
    Portions,
    Work,
    arrays_of,
    record_of,
    together,
)
from tacit_papers.reproductions.ryu2023 import power_flow
from tacit_papers.reproductions.ryu2023.settings import GridRuns, Scale

GRID = GridRuns("case14", 3, (1, 2), (0.1, 1.0), 2, (1.0, 10.0), 2, 2, 2)
TINY = Scale("quick", (), (GRID,))


def number(value, settings="first"):
    """The work of one portion, which is a number."""
    portion = Portion("a number", settings, lambda: {"a, b": np.array([value])})
    return Work.of(portion, lambda found: found["a, b"].tolist())


def test_a_portion_of_other_settings_or_other_code_is_not_taken_up(tmp_path, monkeypatch):
    def of(run):
        return Portions.of(run, print, folder=tmp_path)

    one = of("tiny")
    assert one.done(number(1)) == [1]
    assert of("tiny").done(number(2)) == [1]
    assert one.done(number(3, "second")) == [3]
    assert 0 < one.seconds() < 60
    assert of("larger").done(number(4)) == [4]
    monkeypatch.setattr("tacit_papers.reproductions.portions.sources", lambda: "another")
    assert of("tiny").done(number(5)) == [5]


def test_seconds_are_those_of_all_calls_that_a_run_took(tmp_path):
    Portions.of("tiny", print, folder=tmp_path).done(number(1))
    (file,) = tmp_path.glob("*/*.npz")
    with np.load(file) as kept:
        stored = {name: kept[name] for name in kept}
    np.savez(file, **(stored | {"seconds of work": np.array(1000.0)}))
    assert 1000 < Portions.of("tiny", print, folder=tmp_path).seconds() < 1060


def test_each_portion_is_announced_with_its_place_and_none_that_is_kept(tmp_path):
    lines = []
    portions = Portions.of("tiny", lines.append, folder=tmp_path)
    portions.done(number(1))
    assert portions.done(together([number(1), number(2, "second")])) == [[1], [2]]
    assert lines == ["a number (1 of 1)", "a number (2 of 2)"]


@dataclass(frozen=True)
class Facts:
    name: str
    count: int
    share: float
    counts: tuple[int, ...]
    rows: HostArray


def test_a_record_comes_back_as_it_was():
    one = Facts("a", 3, math.pi, (1, 2), np.arange(3.0))
    back = record_of(Facts, arrays_of(one))
    assert repr(back) == repr(one)
    assert type(back.count) is int
    assert type(back.counts[0]) is int


@pytest.fixture
def watcher():
    """The standard input of processes that end when nobody holds its other end."""
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)


def process(index, address, arguments, watcher):
    """One of two real processes that compute a reproduction at a tiny scale."""
    code = (
        "from tacit_papers_tests.reproductions.test_portions import alone; "
        f"raise SystemExit(alone({arguments!r}))"
    )
    roots = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": os.pathsep.join(roots),
            "TACIT_WORKER": f"{address},{index},2",
        },
        stdin=watcher,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def alone(arguments):
    """The command at a tiny scale, with a line on standard error for each portion computed here."""
    ryu2023.QUICK = TINY
    return main(arguments)


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one_to_the_bit(monkeypatch, capsys, tmp_path, watcher):
    monkeypatch.setattr(ryu2023, "QUICK", TINY)
    words = ["reproduce", "ryu2023", "--part", "grid", "--quick", "--json"]
    assert main(words) == 0
    one = json.loads(capsys.readouterr().out)
    address = f"127.0.0.1:{free_port()}"
    words += ["--resume", str(tmp_path / "kept"), "--out", str(tmp_path / "out")]
    both = [process(index, address, words, watcher) for index in range(2)]
    said = [each.communicate(timeout=240) for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    two = json.loads(said[0][0])
    assert two["machine"] == f"{one['machine']}; 2 processes"
    assert {**two, "seconds": 0, "machine": ""} == {**one, "seconds": 0, "machine": ""}
    assert said[1][0] == ""
    assert (tmp_path / "out" / "results.json").exists()
    counts = [errors.count(f" of {PORTIONS})") for _, errors in said]
    assert sum(counts) == PORTIONS  # each once
    assert min(counts) > 0


PORTIONS = len(power_flow.grid_trials(GRID)) + len(power_flow.ASKED) * len(GRID.totals) + 1


@pytest.mark.slow
def test_processes_that_were_given_different_runs_stop_before_they_compute(watcher):
    address = f"127.0.0.1:{free_port()}"
    words = ["reproduce", "ryu2023", "--part", "grid", "--quick", "--json"]
    others = [*words[:3], "fl", *words[4:]]
    both = [process(0, address, words, watcher), process(1, address, others, watcher)]
    said = [each.communicate(timeout=120) for each in both]
    assert [each.returncode for each in both] == [2, 2]
    assert all("differ in part" in errors for _, errors in said), said
    assert [out for out, _ in said] == ["", ""]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_a_lost_process_or_an_interrupt_ends_all_with_one_line(tmp_path, how):
    program = (
        # whoever runs the tests in the background has them ignore the signal
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from tacit.cli.main import main; raise SystemExit(main())"
    )
    words = ["reproduce", "huang2019", "--quick", "--processes", "2", "--resume", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        try:
            assert parent.stderr is not None
            assert " of " in next(parent.stderr)
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            if how == "killed":
                os.kill(int(children[1]), signal.SIGKILL)
            else:
                os.killpg(parent.pid, signal.SIGINT)
            began = time.monotonic()
            out, said = parent.communicate(timeout=60)
        finally:
            parent.kill()
    assert time.monotonic() - began < 20
    assert out == ""
    last = [line for line in said.splitlines() if not re.search(r" of \d", line)]
    assert len(last) == 1, said
    if how == "killed":
        assert parent.returncode == 2
        assert last[0].endswith("process 1 of this run ended by signal 9; nothing was released")
    else:
        assert parent.returncode == 130
        assert last[0].startswith("tacit: interrupted")
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
