"""Portions of a run: kept and taken up; the same numbers in however many calls."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from taciturn.cli import main
from taciturn.typing import HostArray
from taciturn_papers.reproductions import ryu2023
from taciturn_papers.reproductions.portions import (
    Portion,
    Portions,
    Work,
    arrays_of,
    record_of,
    together,
)
from taciturn_papers.reproductions.ryu2023.settings import GridRuns, Scale

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
    monkeypatch.setattr("taciturn_papers.reproductions.portions.sources", lambda: "another")
    assert of("tiny").done(number(5)) == [5]


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


@pytest.mark.slow
def test_an_interrupt_ends_with_one_line(tmp_path):
    program = (
        # whoever runs the tests in the background has them ignore the signal
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from taciturn.cli.main import main; raise SystemExit(main())"
    )
    words = ["reproduce", "huang2019", "--quick", "--resume", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            assert run.stderr is not None
            assert " of " in next(run.stderr)
            run.send_signal(signal.SIGINT)
            out, said = run.communicate(timeout=60)
        finally:
            run.kill()
    last = [line for line in said.splitlines() if not re.search(r" of \d", line)]
    assert (run.returncode, out, len(last)) == (130, "", 1), said
    assert last[0].startswith("taciturn: interrupted")


@pytest.mark.slow
def test_a_run_that_is_taken_up_has_the_numbers_of_one_that_was_not(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(ryu2023, "QUICK", TINY)
    words = ["reproduce", "ryu2023", "--part", "grid", "--quick", "--json"]
    found = []
    for further in ([], ["--resume", str(tmp_path)], ["--resume", str(tmp_path)]):
        for file in sorted(tmp_path.glob("*/*.npz"))[1::2]:
            file.unlink()
        assert main([*words, *further]) == 0
        found.append({**json.loads(capsys.readouterr().out), "seconds": 0})
    assert found[0] == found[1] == found[2]
