"""The side of decent-bench in `bench.against_peers`: NIDS and EXTRA on a ring.

    python decent_side.py TASK.npz OUT.npz

It imports nothing of taciturn.
"""

import sys
import time

import networkx as nx
import numpy as np
from decent_array import interoperability as iop
from decent_bench.agents import Agent
from decent_bench.algorithms.p2p import EXTRA, NIDS
from decent_bench.costs import LogisticRegressionCost
from decent_bench.networks import P2PNetwork

METHODS = {"nids": NIDS, "extra": EXTRA}


def main(task_file: str, out: str) -> None:
    """Run both methods and write the mean model after every round, and when that was."""
    iop.set_backend("numpy")
    with np.load(task_file) as task:
        features, targets = task["features"], task["targets"]
        step, rounds = float(task["step_size"]), int(task["rounds"])
    kept = {}
    for name, method in METHODS.items():
        network = ring(features, targets)
        algorithm = method(step_size=step)
        algorithm.initialize(network)
        models, ends = [], []
        for number in range(rounds):
            network._step(number)
            algorithm.step(network, number)
            ends.append(time.perf_counter())
            models.append(np.mean([iop.to_numpy(agent.x) for agent in network.agents()], axis=0))
        kept |= {f"{name}_models": np.stack(models), f"{name}_ends": np.array(ends)}
    np.savez(out, **kept)


def ring(features: np.ndarray, targets: np.ndarray) -> P2PNetwork:
    """Return a ring whose agents hold the records."""
    agents = []
    for rows, labels in zip(features, targets, strict=True):
        pairs = [
            (iop.from_numpy(row), iop.from_numpy(np.array([label > 0], float)))
            for row, label in zip(rows, labels, strict=True)
        ]
        agents.append(Agent(LogisticRegressionCost(pairs)))
    return P2PNetwork(nx.cycle_graph(len(agents)), agents)


if __name__ == "__main__":
    main(*sys.argv[1:3])
