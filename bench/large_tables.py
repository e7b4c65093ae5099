"""Time and memory of `taciturn train` on tables of growing length, each in a separate process.

    python -m bench.large_tables [--rounds T] [--parquet] ROWS...

A table has 19 columns of numbers from 0 to 999.999 and a label. It is drawn anew for each number of
rows, written as CSV, or as Parquet in double precision, to a folder that is removed, and read back
from there: 20,000,000 rows take 3.1 GB of disk as CSV. Seconds are of the whole command from a cold
start; memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from taciturn.typing import HostArray

_COLUMNS, _AT_ONCE = 19, 100_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--parquet", action="store_true")
    parser.add_argument("rows", type=int, nargs="+")
    given = parser.parse_args()
    print("| rows | file, MB | seconds | bytes of memory a row, beyond the smallest table | GiB |")
    print("|---|---|---|---|---|")
    first: tuple[int, float] | None = None
    for rows in sorted(given.rows):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / ("table.parquet" if given.parquet else "table.csv")
            size = write_table(table, rows)
            seconds, peak = trained(table, given.rounds)
        first = first or (rows, peak)
        more = rows - first[0]
        slope = f"{(peak - first[1]) / more:.0f}" if more else "-"
        print(f"| {rows:,} | {size / 1e6:.0f} | {seconds:.0f} | {slope} | {peak / 2**30:.2f} |")


def write_table(table: Path, rows: int) -> int:
    """Write a table and, beside it, its bounds; return its size in bytes."""
    names = [f"c{k}" for k in range(_COLUMNS)]
    columns = "".join(f"[columns.{name}]\nmin = 0\nmax = 1000\n" for name in names)
    target = '[target]\nname = "ill"\nvalues = ["no", "yes"]\n'
    table.with_name("bounds.toml").write_text(f'source = "public"\n{target}{columns}')
    (_write_parquet if table.suffix == ".parquet" else _write_csv)(table, names, rows)
    return table.stat().st_size


def _pieces(rows: int) -> Iterator[tuple[HostArray, HostArray]]:
    """Yield some rows after others: their numbers in thousandths, and whether they are ill."""
    draws, weights = np.random.default_rng(0), np.linspace(-1, 1, _COLUMNS)
    for start in range(0, rows, _AT_ONCE):
        size = (min(_AT_ONCE, rows - start), _COLUMNS)
        thousandths = draws.integers(0, 1_000_000, size)
        yield thousandths, (thousandths / 500_000 - 1) @ weights + draws.normal(size=size[0]) > 0


def _write_csv(table: Path, names: Sequence[str], rows: int) -> None:
    with table.open("wb") as file:
        file.write((",".join([*names, "ill"]) + "\n").encode())
        for thousandths, ill in _pieces(rows):
            file.write(_lines(thousandths, ill))


def _write_parquet(table: Path, names: Sequence[str], rows: int) -> None:
    numbers = [(name, pa.float64()) for name in names]
    with parquet.ParquetWriter(table, pa.schema([*numbers, ("ill", pa.string())])) as file:
        for thousandths, ill in _pieces(rows):
            columns = [*(thousandths / 1000).T, np.where(ill, "yes", "no")]
            file.write_table(pa.table(dict(zip([*names, "ill"], columns, strict=True))))


def _lines(thousandths: HostArray, ill: HostArray) -> bytes:
    """Return the text of some rows, each cell in as many digits as it has."""
    places = 10 ** np.arange(5, -1, -1)
    digits = (thousandths[:, :, None] // places % 10 + ord("0")).astype(np.uint8)
    for place in range(2):
        digits[:, :, place][thousandths < places[place]] = ord(" ")
    text = np.full((*thousandths.shape, 8), ord(","), np.uint8)
    text[:, :, :3], text[:, :, 3], text[:, :, 4:7] = digits[:, :, :3], ord("."), digits[:, :, 3:]
    labels = np.where(ill, b"yes\n", b" no\n").astype("S4").view(np.uint8).reshape(-1, 4)
    rows = np.concatenate([text.reshape(len(text), -1), labels], axis=1)
    return rows.tobytes().translate(None, b" ")


def trained(table: Path, rounds: int) -> tuple[float, float]:
    """Return the seconds and the peak memory, in bytes, of a training on a table."""
    command = [sys.executable, "-m", "taciturn", "train", str(table), "--target", "ill"]
    command += ["--bounds", str(table.with_name("bounds.toml")), "--epsilon", "1"]
    command += ["--delta", "1e-9", "--agents", "10", "--rounds", str(rounds)]
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=2)"
    code += "; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    began = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - began, float(finished.stdout) * 1024


if __name__ == "__main__":
    main()
