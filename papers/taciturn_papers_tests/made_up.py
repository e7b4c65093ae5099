"""Records that several tests make up, and data sets that are there or not."""

import numpy as np
import pytest

from taciturn.datasets import load
from taciturn.errors import DataError
from taciturn.kernel.records import pack


def make_shards(*, agents=4, records=12, features=3, seed=0, precision="float64", classes=None):
    draw = np.random.default_rng(seed)
    rows = agents * records
    x = draw.standard_normal((rows, features))
    y = draw.integers(0, classes, rows) if classes else np.sign(draw.standard_normal(rows))
    parts = np.split(np.arange(rows), agents)
    return pack(x, y, parts, record_norm=1.0, precision=precision)


def published(name):
    """A published data set, or the test is skipped where its files cannot be had."""
    try:
        return load(name, interval="unit")
    except DataError:
        pytest.skip(f"{name}: neither under TACITURN_DATA_DIR nor to be had from its site")
