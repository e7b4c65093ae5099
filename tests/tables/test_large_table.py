"""A table of a million rows is trained on in memory that its numbers account for."""

import random
import subprocess
import sys

import pytest

ROWS, COLUMNS = 1_000_000, 19
# 4 bytes a cell for the table, 4 for the agents' rows and 8 behind the door, in 20 columns with the
# constant; the rest is the interpreter, the compiled program and some dozen bytes a row
MOST = 16 * 20 * ROWS + 700 * 2**20


@pytest.mark.slow
def test_a_million_rows_are_trained_on_within_what_their_numbers_need(tmp_path):
    names = [f"c{k}" for k in range(COLUMNS)]
    described = "".join(f"[columns.{name}]\nmin = 0\nmax = 1000\n" for name in names)
    target = '[target]\nname = "ill"\nvalues = ["no", "yes"]\n'
    (tmp_path / "bounds.toml").write_text(f'source = "public"\n{target}{described}')
    draw = random.Random(0)
    some = [
        ",".join([f"{1000 * draw.random():.3f}" for _ in names] + [draw.choice(["no", "yes"])])
        for _ in range(10_000)
    ]
    with (tmp_path / "t.csv").open("w") as file:
        file.write(",".join([*names, "ill"]) + "\n")
        for _ in range(ROWS // len(some)):
            file.write("\n".join(some) + "\n")
    code = (
        "import re, sys\nfrom pathlib import Path\nfrom taciturn.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        # ru_maxrss would be at least that of the process which started this one
        "    status = Path('/proc/self/status').read_text()\n"
        "    print(re.search(r'VmHWM:\\s+(\\d+)', status)[1], file=sys.stderr)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, "train", str(tmp_path / "t.csv"), "--target", "ill",
         "--bounds", str(tmp_path / "bounds.toml"), "--epsilon", "1", "--delta", "1e-8",
         "--features", "columns", "--rounds", "5", "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert f'"records": {ROWS}' in told.stdout
    assert 1024 * int(told.stderr.split()[-1]) < MOST
