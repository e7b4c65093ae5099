"""`python -m tacit.cli`: the same as `tacit`."""

import os
import sys

from tacit.cli.cluster import WORKER
from tacit.cli.main import main

if __name__ == "__main__":
    code = main()
    if WORKER in os.environ:
        # an orderly end would wait for the other processes, of which one may be lost
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)
