"""Flower's side of `bench.against_peers`: federated averaging, one full gradient step a round.

    python flower_side.py TASK.npz OUT.npz

Every agent is a client of Flower's simulation. It imports nothing of taciturn.
"""

import logging
import os
import sys
import time

import numpy as np
from flower_client import TASK, client
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

logging.getLogger("flwr").setLevel(logging.ERROR)
server = ServerApp()


class Watched(FedAvg):
    """Federated averaging that notes when each round ends, and with which model."""

    def aggregate_train(self, server_round, replies):
        """Return the average, as the base class."""
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.models.append(arrays.to_numpy_ndarrays()[0])
        self.ends.append(time.perf_counter())
        return arrays, metrics


@server.main()
def main(grid: Grid, _context: Context) -> None:
    """Run all rounds and write what was noted."""
    with np.load(os.environ[TASK]) as task:
        agents, _, columns = task["features"].shape
        rounds, dtype = int(task["rounds"]), task["features"].dtype
    strategy = Watched(fraction_evaluate=0.0, min_train_nodes=agents, min_available_nodes=agents)
    strategy.models, strategy.ends = [], []
    strategy.start(grid, ArrayRecord([np.zeros(columns, dtype)]), num_rounds=rounds)
    np.savez(sys.argv[2], models=np.stack(strategy.models), ends=np.array(strategy.ends))


if __name__ == "__main__":
    os.environ[TASK] = sys.argv[1]
    with np.load(os.environ[TASK]) as given:
        clients = len(given["features"])
    run_simulation(server, client, num_supernodes=clients)
