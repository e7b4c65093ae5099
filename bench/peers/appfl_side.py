"""The side of APPFL, by the authors of one of the papers: IIADMM, one full gradient step a round.

    python appfl_side.py TASK.npz OUT.npz

Trainers and aggregator are APPFL's own, called in turn. It imports nothing of taciturn.
"""

import sys
import time
from collections import OrderedDict

import numpy as np
import torch
from appfl.algorithm.aggregator import IIADMMAggregator
from appfl.algorithm.trainer import IIADMMTrainer
from omegaconf import DictConfig
from torch.utils.data import TensorDataset


class Silent:
    """A logger that keeps nothing."""

    def __getattr__(self, _name):
        return lambda *_given, **_named: None


def linear(columns: int) -> torch.nn.Module:
    """Return the model 0, in double precision."""
    layer = torch.nn.Linear(columns, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)
    return layer


def main(task_file: str, out: str) -> None:
    """Run all rounds and write the model after each, and when that was."""
    with np.load(task_file) as task:
        features, targets = task["features"], task["targets"]
        step, rounds = float(task["step_size"]), int(task["rounds"])
    agents, rows, columns = features.shape
    configs = {
        "mode": "step",
        "num_local_steps": 1,
        "train_batch_size": rows,
        "train_data_shuffle": False,
        "optim": "SGD",
        "optim_args": {"lr": step},
        "init_penalty": 1 / step,
    }
    trainers = []
    for own, labels in zip(features, targets, strict=True):
        data = TensorDataset(torch.from_numpy(own), torch.from_numpy((labels > 0) * 1.0)[:, None])
        trainer = IIADMMTrainer(
            model=linear(columns),
            loss_fn=torch.nn.BCEWithLogitsLoss(),
            metric=lambda _true, _predicted: 0.0,
            train_dataset=data,
            train_configs=DictConfig(dict(configs)),
            logger=Silent(),
        )
        trainer.set_weight(1 / agents)
        trainers.append(trainer)
    server = IIADMMAggregator(linear(columns), DictConfig({}), Silent())
    models, ends = [], []
    for _ in range(rounds):
        whole = server.get_parameters()
        parameters_by_number = OrderedDict()
        for number, trainer in enumerate(trainers):
            trainer.load_parameters(whole)
            trainer.train()
            parameters_by_number[number] = trainer.get_parameters()
        server.aggregate(parameters_by_number)
        ends.append(time.perf_counter())
        models.append(server.get_parameters()["weight"].numpy().ravel().copy())
    np.savez(out, models=np.stack(models), ends=np.array(ends))


if __name__ == "__main__":
    main(*sys.argv[1:3])
