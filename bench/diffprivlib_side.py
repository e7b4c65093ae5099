"""The other library's side of `bench.against_diffprivlib`, run in a separate environment.

    python diffprivlib_side.py SPLITS.npz SCORES.json

reads the splits (rows of norm at most 1 already) and writes the test accuracy of diffprivlib's
LogisticRegression for every data set, epsilon, C, intercept and split. It imports nothing of
taciturn.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LogisticRegression

EPSILONS = (1.0, 5.0)
# C is the inverse regularisation weight; 1 is the library's default, as is an intercept
WEIGHTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


def main() -> None:
    """Score every setting on every split."""
    splits = np.load(sys.argv[1])
    scores: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        # strong noise makes the solver stop at its limit of iterations, which it says each time
        warnings.simplefilter("ignore")
        for name in splits["names"]:
            for setting in itertools.product(EPSILONS, WEIGHTS, (True, False)):
                key = "/".join(map(str, (name, *setting)))
                scores[key] = [
                    _accuracy(splits, f"{name}/{seed}", *setting) for seed in splits["seeds"]
                ]
    Path(sys.argv[2]).write_text(json.dumps(scores), encoding="utf-8")


def _accuracy(
    splits: np.lib.npyio.NpzFile, part: str, epsilon: float, weight: float, intercept: bool
) -> float:
    model = LogisticRegression(epsilon=epsilon, data_norm=1.0, C=weight, fit_intercept=intercept)
    model.fit(splits[f"{part}/0"], splits[f"{part}/1"])
    return float(model.score(splits[f"{part}/2"], splits[f"{part}/3"]))


if __name__ == "__main__":
    main()
