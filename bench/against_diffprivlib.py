"""Test accuracy against diffprivlib's LogisticRegression: the same rows, splits and epsilons.

    python -m bench.against_diffprivlib PYTHON

PYTHON is an interpreter that has diffprivlib (`make bench-diffprivlib` builds its environment).

What is the same: the splits, and rows scaled by public constants and clipped to norm 1 by the same
code. One trusted agent holds all training rows. Nothing is tuned for taciturn: its column is the
settings that `taciturn train` uses. diffprivlib is run at its default and at eleven other settings
of C and the intercept; its best column, picked *on the test records*, is shown too, which no honest
user could do.

What differs:

- diffprivlib promises pure epsilon (delta = 0), taciturn epsilon at delta = 1e-5. Pure is stronger.
- diffprivlib perturbs the objective (Chaudhuri, Monteleoni and Sarwate 2011) with a vector of
  density proportional to exp(-eps' |b| / (2 R)): neighbours differ in the value of one record, as
  under `replace_one`, with the number of records public. `zero_out` is a weaker promise and stands
  in a column of its own.
- Objective perturbation needs the exact minimum of a strongly convex objective; diffprivlib takes
  what L-BFGS returns. Its L2 term leaves the intercept out, and its Hessian allowance takes R where
  the proof needs R^2 (R = sqrt(2) with an intercept). taciturn's answers are private one by one,
  however far the run got.
- Ten digits: diffprivlib fits ten one-against-rest models at epsilon / 10 each, taciturn one
  multinomial model.
- diffprivlib adds an intercept by default, which raises R to sqrt(2). taciturn has none here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from taciturn.datasets import load, split
from taciturn.kernel.records import clip_rows
from taciturn.training import Request, train_on

NAMES = ("breast_cancer", "digits")
EPSILONS = (1.0, 5.0)
DELTA = 1e-5
SEEDS = range(20)
REQUEST = Request(epsilon=1.0, delta=DELTA)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        theirs = _theirs(sys.argv[1], Path(folder))
    print(f"test accuracy in %, mean (standard deviation) over {len(SEEDS)} splits")
    for name in NAMES:
        for epsilon in EPSILONS:
            print(f"\n{name}, epsilon {epsilon:g}")
            for label, values in (_ours(name, epsilon) | _columns(theirs, name, epsilon)).items():
                print(f"  {label:<52}{_percent(values)}")


def _ours(name: str, epsilon: float) -> dict[str, list[float]]:
    dataset = load(name, interval="unit")

    def accuracies(relation: str, epsilon: float) -> list[float]:
        request = replace(REQUEST, epsilon=epsilon, relation=relation)
        runs = (train_on(dataset, replace(request, split_seed=seed), agents=1) for seed in SEEDS)
        return [1 - run.metrics.test_error for run in runs]

    return {
        f"taciturn, replace_one, delta {DELTA:g}": accuracies("replace_one", epsilon),
        f"taciturn, zero_out, delta {DELTA:g}": accuracies("zero_out", epsilon),
        "taciturn, the same rounds without noise": accuracies("replace_one", float("inf")),
    }


def _columns(theirs: dict[str, list[float]], name: str, epsilon: float) -> dict[str, list[float]]:
    """Return diffprivlib at its default, at its best setting, and at all others, best first."""
    start = f"{name}/{epsilon}/"
    found = {key.removeprefix(start): v for key, v in theirs.items() if key.startswith(start)}
    default = found.pop("1.0/True")
    ranked = sorted(found.items(), key=lambda item: -float(np.mean(item[1])))
    return {"diffprivlib, default (C 1, intercept)": default} | {
        f"diffprivlib, C {weight:g}, {'' if intercept == 'True' else 'no '}intercept": values
        for key, values in ranked
        for weight, intercept in [(float(key.split("/")[0]), key.split("/")[1])]
    }


def _theirs(python: str, folder: Path) -> dict[str, list[float]]:
    arrays: dict[str, np.ndarray] = {"names": np.array(NAMES), "seeds": np.array(SEEDS)}
    for name in NAMES:
        for seed in SEEDS:
            parts = split(load(name, interval="unit"), seed=seed)
            for index, part in enumerate(parts):
                rows = clip_rows(part, 1.0, "float64") if part.ndim == 2 else part
                arrays[f"{name}/{seed}/{index}"] = rows
    np.savez(folder / "splits.npz", **arrays)  # type: ignore[arg-type]
    script = Path(__file__).with_name("diffprivlib_side.py")
    files = [str(folder / "splits.npz"), str(folder / "scores.json")]
    subprocess.run([python, str(script), *files], check=True)
    scores: dict[str, list[float]] = json.loads((folder / "scores.json").read_text())
    return scores


def _percent(values: list[float]) -> str:
    return f"{100 * np.mean(values):5.1f} ({100 * np.std(values, ddof=1):.1f})"


if __name__ == "__main__":
    main()
