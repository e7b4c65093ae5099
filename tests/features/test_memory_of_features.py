"""Features of published pictures are held twice at most, in single precision, however they come."""

import os
import subprocess
import sys

import pytest

PICTURES, PIXELS, FEATURES = 12_000, 784, 3969
# 8 bytes a pixel for the data set, 4 a feature for the agents' rows and 4 behind the door; the rest
# are a test part in double precision, the compiled program and blocks of rows
MOST = PICTURES * (8 * PIXELS + 2 * 4 * FEATURES) + 100 * 2**20

CODE = f"""
import re
from pathlib import Path

import numpy as np

from taciturn.datasets import Dataset
from taciturn.datasets.pictures import pixel_names
from taciturn.training import Request, train_on


def run(pictures):
    draw = np.random.default_rng(0)
    dataset = Dataset(
        name="squares", title="Squares", features=draw.uniform(0, 1, (pictures, {PIXELS})),
        targets=draw.integers(0, 10, pictures), task="multiclass", classes=10,
        feature_names=pixel_names(28), train_rows=pictures * 6 // 7, fixed_test=True, public=True,
        licence="", source="", conditions=(), numbers=tuple(range({PIXELS})), interval="unit",
        picture=(28, 28, 1),
    )
    request = Request(epsilon=3.0, delta=1e-5, rounds=2, centre=True, features="scattering")
    train_on(dataset, request, agents=10, seed=1)
    # ru_maxrss would be at least that of the process which started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])


few = run(400)  # the memory of the library and of its programs
print(1024 * (run({PICTURES}) - few))
"""


@pytest.mark.slow
def test_pictures_are_trained_on_within_two_copies_of_their_features(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for how in ("computed", "read from the cache"):
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            check=True, capture_output=True, text=True, env=environment,
        )  # fmt: skip
        assert int(done.stdout) < MOST, how
    assert len(list(tmp_path.rglob("*.npy"))) == 2
