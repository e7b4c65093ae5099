"""`python -m tests.attacks`: a minute; `--full`: all sizes, hours."""

import argparse

from tests.attacks.constructions import FULL, QUICK, constructions, table_of, verdict_on

parser = argparse.ArgumentParser(prog="python -m tests.attacks")
parser.add_argument("--full", action="store_true", help="up to 400,000 records, 784 columns: hours")
parser.add_argument("--seed", type=int, default=0, help="of the random data and queries")
given = parser.parse_args()
size = FULL if given.full else QUICK
found = tuple(finding for made in constructions(size, given.seed) for finding in made())
print(f"{table_of(found)}\n\nVerdict: {verdict_on(found)}")
raise SystemExit(0 if all(finding.holds for finding in found) else 1)
