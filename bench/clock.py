"""Timing, and the two bounds that figures are held against: memory reads and matrix products."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def median_seconds(function: Callable[[], object], *, repeats: int = 7) -> float:
    """Return the median wall time of `function`, which waits for its result, after one warm-up."""
    function()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def alternating(functions: list[Callable[[], object]], *, repeats: int = 7) -> list[float]:
    """Return the median time of each function, called in turn so that drift hits all alike."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            began = time.perf_counter()
            function()
            taken.append(time.perf_counter() - began)
    return [float(np.median(taken)) for taken in times]


def read_bandwidth(array: jax.Array) -> float:
    """Return bytes per second of reading `array` once (a jitted sum, all cores)."""
    total = jax.jit(jnp.sum)
    return array.nbytes / median_seconds(lambda: total(array).block_until_ready(), repeats=21)


def matrix_rate(dtype: str, rows: int, inner: int, columns: int) -> float:
    """Return flops per second of a jitted product of that shape."""
    draw = np.random.default_rng(0)
    left = jnp.asarray(draw.standard_normal((rows, inner)), dtype)
    right = jnp.asarray(draw.standard_normal((inner, columns)), dtype)
    product = jax.jit(jnp.matmul)
    seconds = median_seconds(lambda: product(left, right).block_until_ready(), repeats=11)
    return 2 * rows * inner * columns / seconds


# a process starts with the peak of the one that it was forked from, here a small one
_LAUNCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


def fresh_process(command: list[str]) -> tuple[str, float, float]:
    """Return what `command` prints, its wall seconds and its peak memory in MiB."""
    began = time.perf_counter()
    launched = [sys.executable, "-c", _LAUNCHER, *command]
    done = subprocess.run(launched, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    return done.stdout, seconds, int(done.stderr.split()[-1]) / 1024


def peak_memory() -> int:
    """Return the most memory, in bytes, that this process held since `reset_peak`, or ever."""
    with open("/proc/self/status", encoding="utf-8") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) * 1024


def reset_peak() -> None:
    """Count the peak of `peak_memory` from now on; Linux lets a process do that to itself."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as switch:
        switch.write("5")
