"""The side of diffprivlib in `bench.against_peers`: one trusted holder of all records.

    python diffprivlib_side.py TASK.npz OUT.npz

Its logistic regression perturbs the objective and releases the minimum, so there are no rounds: a
model and an end stand for a whole fit. It imports nothing of taciturn.
"""

import sys
import time
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression

FITS = 7


def main(task_file: str, out: str) -> None:
    """Fit at the library's default several times, after a first fit that warms up."""
    with np.load(task_file) as task:
        features = task["features"].reshape(-1, task["features"].shape[-1])
        targets, epsilon = task["targets"].ravel(), float(task["epsilon"])
    models, ends = [], []
    for seed in range(FITS + 1):
        method = LogisticRegression(
            epsilon=epsilon, data_norm=1.0, fit_intercept=False, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that its limit of iterations ends says so
            method.fit(features, targets)
        ends.append(time.perf_counter())
        models.append(method.coef_[0])
    np.savez(out, models=np.stack(models), ends=np.array(ends))


if __name__ == "__main__":
    main(*sys.argv[1:3])
