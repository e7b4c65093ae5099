"""`python -m tests.soak --seconds 3600`, or `--seed N` to repeat one case."""

import argparse
import itertools
import secrets

from tests.soak.search import search

parser = argparse.ArgumentParser(prog="python -m tests.soak")
parser.add_argument("--seconds", type=float, default=3600.0)
parser.add_argument("--seed", type=int, help="repeat the case of this seed, and nothing else")
given = parser.parse_args()
single = given.seed is not None
seeds = itertools.count(given.seed if single else secrets.randbelow(2**31))
failures = search(seeds, seconds=given.seconds, most=1 if single else None)
print(f"{len(failures)} seeds failed: {failures}" if failures else "no seed failed")
raise SystemExit(1 if failures else 0)
