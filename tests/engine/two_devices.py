"""Functions of test modules, called in a process that sees two devices."""

import json
import os
import subprocess
import sys
from pathlib import Path


def printed(call):
    """What `module.function(arguments)`, of a module of this folder, prints: its last line."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", f"import {call.partition('.')[0]}; {call}"], cwd=here.parent,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
