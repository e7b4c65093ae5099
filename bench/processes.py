"""One run among several processes of this machine: seconds a round, and memory of each.

    python -m bench.processes [adult|mnist] 1 2 4

Each number of processes is started anew, in single precision, without an account. Two runs of
different length differ in rounds alone, compiling and packing excluded.
"""

import json
import os
import socket
import subprocess
import sys
import time

AGENTS = {"adult": 100, "mnist": 10}
ROUNDS = (20, 120)


def work(data: str, address: str, count: int, index: int) -> None:
    """Print what one process measures, once it has met the others."""
    from taciturn.datasets import load  # noqa: PLC0415
    from taciturn.engine import run  # noqa: PLC0415
    from taciturn.engine.processes import connect  # noqa: PLC0415
    from taciturn.kernel.records import Devices  # noqa: PLC0415
    from taciturn.training import Request, StructureRequest, divide, local_part, proposal_for  # noqa: PLC0415  # noqa: PLC0415

    if count > 1:
        connect(address, count, index)
    divided = divide(load(data), AGENTS[data], split_seed=0)
    devices = None if count == 1 else Devices()
    if devices is not None:
        divided = local_part(divided, devices)
    took = []
    for rounds in ROUNDS:
        request = Request(epsilon=1.0, delta=1e-6, rounds=rounds)
        plan = proposal_for(divided, request, StructureRequest()).plan()
        for _ in range(2):  # the first time it is compiled
            shards = divided.shards("float32")
            done = run(plan, shards, runtime="simulate", devices=devices, seed=1)
        took.append(done.seconds)
    each = 1000 * (took[1] - took[0]) / (ROUNDS[1] - ROUNDS[0])
    print(json.dumps({"ms": each, **memory()}), flush=True)


def memory() -> dict[str, float]:
    """Return memory in MiB: now, and the most that there was."""
    with open("/proc/self/status", encoding="utf-8") as status:
        lines = dict(line.split(":", 1) for line in status)
    return {name: int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}


def main() -> None:
    data, *numbers = sys.argv[1:]
    for count in map(int, numbers):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        load_before = os.getloadavg()[0]
        started = [
            subprocess.Popen(
                [sys.executable, "-c", f"from bench.processes import work; work{given!r}"],
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
                stdout=subprocess.PIPE if given[-1] == 0 else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for given in [(data, address, count, index) for index in range(count)]
        ]
        assert started[0].stdout is not None
        first = started[0].stdout.read()
        print(data, count, f"load {load_before:.1f}", first.strip(), flush=True)
        for one in started:
            one.wait()


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")
