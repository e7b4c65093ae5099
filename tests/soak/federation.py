"""`python -m tests.soak.federation`: five sites under two hundred seeds of random faults.

`--seed N` repeats one of them.
"""

import argparse
import os
import tempfile
import traceback
from pathlib import Path

from tests.federation.faults import RUNS, make_studies, run_seed


def separate_places(folder):
    """Keep heads and accounts in a folder of this run."""
    folder.mkdir()
    os.environ |= {
        "TACITURN_STATE_DIR": str(folder / "state"),
        "XDG_DATA_HOME": str(folder / "data"),
    }
    return folder


def failures(seeds):
    """Return the seeds whose run did not end as it should; what failed is printed."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        separate_places(Path(folder) / "studies")
        studies = make_studies(Path(folder) / "studies")
        for seed in seeds:
            try:
                run_seed(studies, separate_places(Path(folder) / str(seed)), seed)
            except Exception:
                found.append(seed)
                print(f"seed {seed}\n{traceback.format_exc()}", flush=True)
    return found


def main():
    """Run the list."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.federation")
    parser.add_argument("--seed", type=int, help="repeat the run of this seed, and nothing else")
    seed = parser.parse_args().seed
    seeds = range(RUNS) if seed is None else [seed]
    found = failures(seeds)
    print(f"of {len(seeds)} runs among five sites {len(found)} failed: {found}")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
