"""Seconds a round, and to equal accuracy, beside other libraries on the same work.

    python -m bench.against_peers FLOWER APPFL DECENT DIFFPRIVLIB

They are interpreters of environments that have `flwr[simulation]`, `appfl`, `decent-bench` and
`diffprivlib` (`make bench-peers` builds them).

The task is logistic regression on UCI Adult, ten agents of 4,000 records, every agent's full
gradient once a round, in double precision. Flower averages on a server, APPFL runs IIADMM, the
inexact ADMM of the authors of Ryu and Kim (2023), and decent-bench NIDS and EXTRA on a ring. They
step by 1 / L from public facts and draw no noise, so the line to hold them against is taciturn
without noise; the other line draws the noise of a total epsilon of 1.

What differs: Flower's simulation runs processes of Ray and serialises what its clients say, as the
same code would over a network; APPFL collects a batch row by row through PyTorch's loader, and
decent-bench loops over agents, both in one process; taciturn compiles all rounds into one program
and chooses its own steps, from the same public facts.

diffprivlib has no agents and no rounds: one trusted holder of all 40,000 records fits once, at an
epsilon of 1 with delta 0 and the library's default C of 1. Beside it stands taciturn with one agent
that has all records, for the same neighbours (`replace_one`), at delta 1e-6.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from taciturn.datasets import load, split
from taciturn.engine import records_for_door, reproduction, simulate
from taciturn.kernel.records import Shards, pack
from taciturn.problems import contiguous_partition
from taciturn.training import DataFacts, NetworkRequest, Request, propose

AGENTS, ROUNDS, NEAR = 10, 100, 0.1
SIDES = Path(__file__).with_name("peers")


def main() -> None:
    """Print the table."""
    shards = adult()
    features, targets = (np.asarray(leaf) for leaf in _leaves(shards))
    best = objective(optimum(features, targets)[None], features, targets)[0]
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.npz"
        np.savez(
            task, features=features, targets=targets, step_size=4.0, rounds=ROUNDS, epsilon=1.0
        )
        flower = _theirs(sys.argv[1], "flower_side.py", task)
        appfl = _theirs(sys.argv[2], "appfl_side.py", task)
        decent = _theirs(sys.argv[3], "decent_side.py", task)
        fitted = _theirs(sys.argv[4], "diffprivlib_side.py", task)
    rows = {
        "Flower, federated averaging, one step": (flower["models"], _round(flower["ends"])),
        "APPFL, IIADMM, one step": (appfl["models"], _round(appfl["ends"])),
        "taciturn, noisy-gradient without noise": _ours(shards, "noisy-gradient", np.inf),
        "taciturn, noisy-gradient, epsilon 1": _ours(shards, "noisy-gradient", 1.0),
    }
    for name in ("nids", "extra"):
        theirs = decent[f"{name}_models"], _round(decent[f"{name}_ends"])
        rows |= {
            f"decent-bench, {name}, ring": theirs,
            f"taciturn, {name}, ring, without noise": _ours(shards, name, np.inf),
            f"taciturn, {name}, ring, epsilon 1": _ours(shards, name, 1.0),
        }
    rows["taciturn, noisy-gradient, one agent, epsilon 1"] = _ours(adult(1), "noisy-gradient", 1.0)
    print(f"UCI Adult, {AGENTS} agents of {features.shape[1]} records, {ROUNDS} rounds")
    print(f"{'':<44}{'ms a round':>12}{'final gap':>12}{f's to a gap of {NEAR:g}':>20}")
    for label, (models, seconds) in rows.items():
        gaps = objective(models, features, targets) - best
        reached = np.flatnonzero(gaps <= NEAR)
        needed = f"{(reached[0] + 1) * seconds:.3f}" if len(reached) else "not reached"
        print(f"{label:<44}{1000 * seconds:>12.3f}{gaps[-1]:>12.2g}{needed:>20}")
    gaps = objective(fitted["models"], features, targets) - best
    print(
        f"diffprivlib, one holder, epsilon 1: {_round(fitted['ends']):.3f} s for a fit, gaps",
        end=" ",
    )
    print(f"{gaps.min():.2g} to {gaps.max():.2g} in {len(gaps)} fits")


def adult(agents: int = AGENTS) -> Shards:
    """Return the records of so many agents, rows of norm at most 1, in double precision."""
    parts = split(load("adult", interval="unit"), seed=0)
    owners = contiguous_partition(len(parts.train_targets), agents)
    return pack(
        parts.train_features,
        parts.train_targets,
        owners,
        record_norm=1.0,
        precision="float64",
    )


def _leaves(shards: Shards) -> tuple[jax.Array, jax.Array]:
    return shards.stacked.features, shards.stacked.targets


def _ours(shards: Shards, name: str, epsilon: float) -> tuple[np.ndarray, float]:
    """Return the models after every round, and the seconds of one, of which models cost nothing."""
    facts = DataFacts(
        name="bench",
        task="binary",
        classes=2,
        columns=shards.dimension,
        record_norm=shards.record_norm,
        table=None,
    )
    network = NetworkRequest(network=None if name == "noisy-gradient" else "ring")
    request = Request(
        epsilon=epsilon, delta=1e-6, algorithm=name, rounds=ROUNDS, precision="float64",
        network=network,
    )  # fmt: skip
    plan = propose(facts, shards.counts, request).plan()
    program, private = plan.program, records_for_door(plan, shards)
    drawn = reproduction(program, private, 0)
    models = simulate(program, *drawn, keep=frozenset({"models"}))[1].models

    def run() -> None:
        drawn = reproduction(program, private, 0)
        simulate(program, *drawn, keep=frozenset())[0].block_until_ready()

    return np.asarray(models), _median(run) / ROUNDS


def _median(run: Callable[[], None], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))


def _theirs(python: str, side: str, task: Path) -> dict[str, np.ndarray]:
    out = task.with_name(f"{side}.npz")
    subprocess.run([python, str(SIDES / side), str(task), str(out)], check=True)
    with np.load(out) as found:
        return dict(found)


def _round(ends: np.ndarray) -> float:
    """Return the median seconds of a round; the first is not counted, for it warms up."""
    return float(np.median(np.diff(ends)))


def objective(models: np.ndarray, features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the mean loss of all records for every model, `(T,)`."""
    rows, labels = features.reshape(-1, features.shape[-1]), targets.ravel()
    return np.array([np.mean(np.logaddexp(0, -labels * (rows @ model))) for model in models])


def optimum(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the minimum of `objective` by Newton's method, with a ridge of 1e-9."""
    rows, labels = features.reshape(-1, features.shape[-1]), targets.ravel()
    model = np.zeros(rows.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(labels * (rows @ model)))
        gradient = -rows.T @ (labels * chance) / len(labels) + 1e-9 * model
        hessian = (rows.T * (chance * (1 - chance))) @ rows / len(labels)
        model = model - np.linalg.solve(hessian + 1e-9 * np.eye(len(model)), gradient)
    return model


if __name__ == "__main__":
    main()
