"""A client of Flower's simulation; in a file of its own, so that Ray's workers can import it."""

import os
from functools import cache

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

TASK = "BENCH_TASK"  # names the file in the environment
client = ClientApp()


@cache
def shard(agent: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return an agent's records and the step."""
    with np.load(os.environ[TASK]) as task:
        return task["features"][agent], task["targets"][agent], float(task["step_size"])


@client.train()
def train(message: Message, context: Context) -> Message:
    """Answer with the model after one step along the gradient of all records."""
    features, targets, step = shard(int(context.node_config["partition-id"]))
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    slope = -targets / (1 + np.exp(targets * (features @ model)))
    model = model - step * (features.T @ slope) / len(targets)
    content = {
        "arrays": ArrayRecord([model]),
        "metrics": MetricRecord({"num-examples": len(targets)}),
    }
    return Message(content=RecordDict(content), reply_to=message)
