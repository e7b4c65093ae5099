"""Speed and memory of the Adult run, as ratios measured in one process."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np

from bench.adult import AGENTS, ROUNDS, Bench, adult, bench_of, numpy_loop
from bench.clock import alternating, fresh_process, matrix_rate, median_seconds, read_bandwidth
from taciturn.engine import reproduction, simulate, sweep
from taciturn.engine.program import Program
from taciturn.kernel.door import Live, Supply
from taciturn.kernel.privacy import epsilon_of

NOTHING: frozenset[str] = frozenset()


def one_run(name: str) -> dict[str, float]:
    """Return the figures of one run in float32: against NumPy in either precision, and memory."""
    bench = adult(name, "float32")

    def ours() -> None:
        _wait(simulate(*_parts(bench), keep=NOTHING))

    wide = adult(name, "float64")
    mine, theirs, default = alternating([ours, lambda: numpy_loop(bench), lambda: numpy_loop(wide)])
    features = bench.shards.stacked.features
    bound = 2 * ROUNDS * features.nbytes / read_bandwidth(features)
    return {
        "seconds": mine,
        "numpy_seconds": theirs,
        "numpy_float64_seconds": default,
        "times_faster_than_numpy": theirs / mine,
        "times_faster_than_numpy_float64": default / mine,
        "seconds_of_two_reads_a_round": bound,
        "times_the_memory_bound": mine / bound,
    }


def forty_runs(name: str) -> dict[str, float]:
    """Return the figures of 10 seeds x 4 budgets as one program, in double precision."""
    first = adult(name, "float64")
    budgets = [bench_of(name, first.shards, "float64", epsilon=e) for e in (0.1, 0.5, 1.0, 5.0)]
    programs = [bench.plan.program for bench in budgets]
    one, forty = alternating(
        [
            lambda: _wait(simulate(*_parts(first), keep=NOTHING)),
            lambda: _wait(sweep(programs, first.private, seeds=range(10), keep=NOTHING)),
        ],
        repeats=5,
    )
    records, d = AGENTS * first.shards.counts[0], first.shards.dimension
    bound = ROUNDS * 2 * (2 * records * d * 40) / matrix_rate("float64", records, d, 40)
    return {
        "one_run_seconds": one,
        "forty_runs_seconds": forty,
        "forty_over_one": forty / one,
        "gemm_bound_seconds": bound,
        "times_the_gemm_bound": forty / bound,
    }


def cold_start() -> dict[str, float]:
    """Return wall seconds and peak memory of `taciturn train adult` in a fresh process."""
    taciturn = str(Path(sys.executable).with_name("taciturn"))
    command = [taciturn, "train", "adult", "--agents", str(AGENTS)]
    command += ["--epsilon", "1", "--delta", "1e-6", "--quiet", "--json"]
    _, seconds, peak = fresh_process(command)
    return {"seconds": seconds, "peak_mebibytes": peak}


def accounting() -> dict[str, float]:
    """Return the milliseconds of composing 5,000 different scales and inverting the curve."""
    ratios = np.linspace(1e-3, 2e-2, 5000)
    seconds = median_seconds(lambda: epsilon_of(1e-6, float(np.linalg.norm(ratios))), repeats=21)
    return {"milliseconds_for_5000_scales": 1000 * seconds}


def _wait(result: tuple[jax.Array, object]) -> None:
    result[0].block_until_ready()


def _parts(bench: Bench) -> tuple[Program, Live, Supply]:
    return bench.plan.program, *reproduction(bench.plan.program, bench.private, 0)
