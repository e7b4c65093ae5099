"""Private power flow: rounds, what the cone solver itself takes of them, a large case."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import clarabel
import numpy as np

import taciturn_power as power
from bench.clock import fresh_process
from taciturn.engine import records_for_door, reproduction, simulate

NOTHING: frozenset[str] = frozenset()
LARGE = "power/matpower/case1354pegase.m"


class _Timed:
    """Clarabel's solver, and how long it has solved."""

    solver = clarabel.DefaultSolver
    seconds = 0.0

    def __init__(self, *given: Any) -> None:
        self._solver = _Timed.solver(*given)
        self.update = self._solver.update

    def solve(self) -> Any:
        began = time.perf_counter()
        solution = self._solver.solve()
        _Timed.seconds += time.perf_counter() - began
        return solution


def rounds_of(case: str, rounds: int) -> dict[str, float]:
    """Return seconds of a run with three zones, and what of it is spent inside Clarabel.

    `compiled` is the run again, once it is compiled; `overhead` compares it with the time inside
    Clarabel's `solve` during that very run, median of five.
    """
    began = time.perf_counter()
    with patch.object(clarabel, "DefaultSolver", _Timed):
        net = power.network(power.bundled_case(case))
        made = power.grid(power.relax(net), power.chosen_zones(net, None))
    settings = power.Settings("demand", rounds, updates=1)
    plan = power.plan_grid(made, settings, beta=0.01, epsilon=1.0, delta=0.01)
    private = records_for_door(plan, made.shards)
    seconds, inside = [], []
    for _ in range(6):
        _Timed.seconds, started = 0.0, time.perf_counter()
        drawn = reproduction(plan.program, private, 0)
        simulate(plan.program, *drawn, keep=NOTHING)[0].block_until_ready()
        seconds.append(time.perf_counter() - started)
        inside.append(_Timed.seconds)
        if len(seconds) == 1:
            first = time.perf_counter() - began
    share = np.array(seconds[1:]) / np.array(inside[1:]) - 1
    return {
        "seconds_compilation_included": first,
        "compiled_seconds": float(np.median(seconds[1:])),
        "seconds_inside_the_solver": float(np.median(inside[1:])),
        "overhead": float(np.median(share)),
    }


def large_case() -> dict[str, float]:
    """Return seconds and peak memory of 10 rounds of 1,354 buses in 30 zones, as a process.

    The file is looked for under the environment variable TACITURN_DATA_DIR; nothing without it.
    """
    file = Path(os.environ.get("TACITURN_DATA_DIR", ".")) / LARGE
    if not file.is_file():
        return {}
    taciturn = [
        sys.executable,
        "-c",
        "import sys; from taciturn.cli.main import main; sys.exit(main())",
    ]
    asked = ["grid", str(file), "--zones", "30", "--rounds", "10", "--beta", "0.01"]
    budget = ["--epsilon", "1", "--delta", "1e-4", "--json"]
    answered, seconds, peak = fresh_process([*taciturn, *asked, *budget])
    values = json.loads(answered)
    return {
        "seconds": seconds,
        "run_seconds": values["seconds"],
        "peak_mebibytes": peak,
        "consensus_residual": values["consensus_residual"],
    }
