"""Cost as the work grows: every part of a training as one quantity grows by factors of ten.

    python -m bench.growth [agents|records|columns|rounds|processes]...

All of them without an argument. Every point is a separate process (`bench.growth_point`): the
noisy gradient on made-up records in single precision, with noise from the system's stream, on a
star with either observer, and NIDS by gossip. Two tables for each: seconds of processor time, of
all threads together, which other work on the machine changes least; and GiB that a part takes at
its peak beyond what was held before. The last column is the whole process.

The line below a table is the exponent of the growth, the slope between the last two points on
logarithmic scales: 1 is linear and 2 quadratic; none is given where a part takes less than 20 ms
or 20 MiB. A point that would take more than 200 seconds, by those before it, is left out. 10^8
records of 10 columns are not tried: the made-up ones alone take 8 GB, and the way to a run four
times that.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from bench.growth_point import Point

# seconds of processor time, predicted; and of a process that takes much longer
LONGEST, STOPPED = 200, 600
PARTS = (
    "divide", "propose", "plan", "charge", "pack", "checks", "compile", "round", "ledger",
    "certificate", "plan.json", "metrics", "results", "page",
)  # fmt: skip
# what is smaller is start and noise of the clock
LEAST_SECONDS, LEAST_BYTES = 0.02, 20 * 2**20
Row: TypeAlias = Mapping[str, float]

# a name, the size that grows, the smallest point, the sizes
GROWTHS: Mapping[str, tuple[tuple[str, Point, tuple[int, ...]], ...]] = {
    "agents": (
        ("star, messages", Point(rounds=2, records=1_000_000), (10, 100, 1_000, 10_000, 100_000)),
        (
            "star, sum",
            Point(rounds=2, records=1_000_000, observer="sum"),
            (10, 100, 1_000, 10_000, 100_000),
        ),
        (
            "gossip, four neighbours each",
            Point(rounds=2, records=100_000, algorithm="nids", network="regular:4"),
            (10, 100, 1_000, 10_000),
        ),
        (
            "gossip, ring",
            Point(rounds=2, records=100_000, algorithm="nids", network="ring"),
            (10, 100, 1_000, 10_000),
        ),
        (
            "gossip, all are neighbours",
            Point(rounds=2, records=100_000, algorithm="nids", network="complete"),
            (10, 100, 1_000),
        ),
        (
            "tree, ring",
            Point(rounds=2, records=100_000, network="ring", observer="sum"),
            (10, 100, 1_000, 10_000),
        ),
        (
            "star, batches of a tenth",
            Point(rounds=2, records=1_000_000, algorithm="dp-sgd"),
            (10, 100, 1_000, 10_000, 100_000),
        ),
    ),
    "records": (("star", Point(columns=10), (10_000, 100_000, 1_000_000, 10_000_000)),),
    "columns": (("star", Point(records=1_000), (10, 100, 1_000, 10_000, 100_000)),),
    "rounds": (("star", Point(), (10, 100, 1_000, 10_000)),),
}
PROCESSES = ("adult", "1", "2", "4")


def main(names: Sequence[str]) -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name in names or (*GROWTHS, "processes"):
        if name == "processes":
            subprocess.run([sys.executable, "-m", "bench.processes", *PROCESSES], check=True)
            continue
        for title, point, sizes in GROWTHS[name]:
            about = ", ".join(
                f"{value:,} {field}" if isinstance(value, int) else str(value)
                for field, value in dataclasses.asdict(point).items()
                if field != name and value is not None
            )
            print(f"\n{name}: {title} ({about}), load {os.getloadavg()[0]:.1f}\n", flush=True)
            grown(name, point, sizes)


def grown(name: str, point: Point, sizes: Sequence[int]) -> None:
    """Measure a point at each size, and print what came of it."""
    seconds: dict[int, Row] = {}
    memory: dict[int, Row] = {}
    totals: list[float] = []
    for size in sizes:
        predicted = expected(totals)
        if predicted > LONGEST:
            print(f"{size:,}: left out, it would take some {predicted:.0f} s")
            break
        try:
            figures = measured(point.of_size(name, size))
        except subprocess.TimeoutExpired:
            print(f"{size:,}: stopped after {STOPPED} s")
            break
        totals.append(figures["total"])
        seconds[size] = {**figures["seconds"], "process": figures["total"]}
        memory[size] = {**figures["memory"], "process": figures["peak"]}
    _print(f"{name}, seconds", seconds, (*PARTS, "process"), LEAST_SECONDS, 1.0)
    kept = [part for part in (*PARTS, "run") if part in memory[sizes[0]]]
    _print(f"{name}, GiB", memory, (*kept, "process"), LEAST_BYTES, 2.0**30)


def expected(totals: Sequence[float]) -> float:
    """Return the seconds of the next point: what was added by the last one grows as it did.

    Of the first points most is the start; growth is taken to be at least linear.
    """
    if len(totals) < 2:
        return 0.0
    added = max(0.0, totals[-1] - totals[-2])
    before = max(0.0, totals[-2] - totals[-3]) if len(totals) > 2 else 0.0
    return totals[-1] + added * max(10.0, added / before if before > 1 else 0.0)


def measured(point: Point) -> dict[str, Any]:
    """Return the figures of a point, from a separate process."""
    code = "import sys; from bench.growth_point import work; work(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(dataclasses.asdict(point))],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        check=True, stdout=subprocess.PIPE, text=True, timeout=STOPPED,
    )  # fmt: skip
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _print(
    head: str, rows: Mapping[int, Row], parts: Sequence[str], least: float, unit: float
) -> None:
    print(f"| {head} | {' | '.join(parts)} |")
    print("|" + "---|" * (len(parts) + 1))
    for size, row in rows.items():
        print(f"| {size:,} | {' | '.join(f'{row[part] / unit:.2g}' for part in parts)} |")
    slopes = [_slope(rows, part, least) for part in parts]
    print(f"| exponent | {' | '.join(slopes)} |\n", flush=True)


def _slope(rows: Mapping[int, Row], part: str, least: float) -> str:
    """Return the exponent of the growth between the last two points as text."""
    if len(rows) < 2:
        return "-"
    (small, first), (large, last) = list(rows.items())[-2:]
    if not (first[part] > 0 and last[part] > least):
        return "-"
    return f"{math.log(last[part] / first[part]) / math.log(large / small):.1f}"


if __name__ == "__main__":
    main(sys.argv[1:])
