"""What opening, reserving, marking and closing cost: wall and processor time, by size of account.

`python -m bench.accounts [FOLDER]`
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from taciturn.budget import Account, AccountTerms, Charge, Guarantee, Purpose, open_account
from taciturn.kernel.privacy import GaussianAnswer

PURPOSE = Purpose("a run", None, "0" * 64, 0.1, 1e-6, 1e-3, 200)


def main(folder: Path) -> None:
    os.environ["TACITURN_STATE_DIR"] = str(folder / "state")
    charge = Charge(
        "replace_one", "record", (((GaussianAnswer(1000.0), 1),),) * 10, values=1, least_scale=2**24
    )
    account = open_account("one", Guarantee(8.0, 1e-5), AccountTerms(), folder=folder)
    print(f"{'runs':>5} {'wall ms':>8} {'cpu ms':>7}")
    for runs in (20, 100, 300):
        taken = [once(account, charge) for _ in range(runs)][-20:]
        wall, cpu = (statistics.median(column) * 1e3 for column in zip(*taken, strict=True))
        print(f"{len(account.state().runs):>5} {wall:>8.1f} {cpu:>7.1f}")


def once(account: Account, charge: Charge) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    reservation = account.reserve(charge, PURPOSE)
    reservation.begin()
    reservation.close(released=True)
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as made:
        main(Path(made))
