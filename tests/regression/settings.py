"""The settings whose certificates and numbers are recorded: command lines and estimator fits."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

COMMANDS: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("commands.toml").read_text(encoding="utf-8")
)

_FIT = {"epsilon": 2.0, "delta": 1e-4, "random_state": 1, "rounds": 20}

FITS: dict[str, tuple[str, str, dict[str, object], int | None]] = {
    "fit logistic": ("PrivateLogisticRegression", "cancer", _FIT, None),
    "fit logistic agents": ("PrivateLogisticRegression", "cancer", {**_FIT, "observer": "sum"}, 5),
    "fit logistic dp-admm":
        ("PrivateLogisticRegression", "cancer", {**_FIT, "algorithm": "dp-admm"}, 5),
    "fit logistic pvp": ("PrivateLogisticRegression", "cancer", {**_FIT, "algorithm": "pvp"}, 5),
    "fit logistic dp-sgd": (
        "PrivateLogisticRegression", "cancer",
        {**_FIT, "algorithm": "dp-sgd", "sampling_rate": 0.2, "batches": "fixed"}, 3,
    ),
    "fit multinomial": ("PrivateLogisticRegression", "wine", _FIT, 3),
    "fit svc": ("PrivateSVC", "cancer", {**_FIT, "relation": "zero_out"}, 3),
    "fit linear": ("PrivateLinearRegression", "diabetes", _FIT, 3),
    "fit one-question": (
        "PrivateLinearRegression", "diabetes",
        {**_FIT, "algorithm": "one-question", "rounds": 1}, 3,
    ),
    "fit structured": ("PrivateStructuredClassifier", "cancer", _FIT, 3),
    "fit structured sadmm": (
        "PrivateStructuredClassifier", "cancer",
        {**_FIT, "algorithm": "sadmm", "sampling_rate": 0.2, "smoothing": 1.0}, 3,
    ),
}  # fmt: skip


def write_tables(folder: Path) -> dict[str, str]:
    """Write the tables and files that the commands name; return the path of each."""
    wine, diabetes = load_wine(), load_diabetes(scaled=False)
    rows = [
        [*map(repr, map(float, row)), wine.target_names[label], f"estate {k % 4}"]
        for k, (row, label) in enumerate(zip(wine.data, wine.target, strict=True))
    ]
    columns = [name.replace("/", "_") for name in wine.feature_names]
    _write(folder / "wine.csv", [*columns, "cultivar"], [row[:-1] for row in rows])
    _write(folder / "estates.csv", [*columns, "cultivar", "estate"], rows)
    _write(folder / "wine_test.csv", [*columns, "cultivar", "estate"], rows[::5])
    _bounds(
        folder / "wine.toml", columns, wine.data,
        f'name = "cultivar"\nvalues = {list(map(str, wine.target_names))}'.replace("'", '"'),
    )  # fmt: skip
    numbers = [[*map(repr, map(float, row)), repr(float(y))]
               for row, y in zip(diabetes.data, diabetes.target, strict=True)]  # fmt: skip
    _write(folder / "diabetes.csv", [*diabetes.feature_names, "progression"], numbers)
    progression = 'name = "progression"\nmin = 0.0\nmax = 350.0'
    _bounds(folder / "diabetes.toml", diabetes.feature_names, diabetes.data, progression)
    (folder / "edges.csv").write_text("\n".join(f"{k},{k + 10}" for k in range(20)))
    draw = np.random.default_rng(0).integers(-1, 2, (12, 30))
    (folder / "matrix.csv").write_text("\n".join(",".join(map(str, row)) for row in draw.tolist()))
    names = {
        "wine": "wine.csv",
        "estates": "estates.csv", "wine_test": "wine_test.csv", "wine_bounds": "wine.toml",
        "diabetes": "diabetes.csv", "diabetes_bounds": "diabetes.toml",
        "edges": "edges.csv", "matrix": "matrix.csv",
    }  # fmt: skip
    return {name: str(folder / file) for name, file in names.items()}


def records_of(name: str) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return features, targets and public bounds of one of scikit-learn's data sets."""
    load = {"cancer": load_breast_cancer, "wine": load_wine, "diabetes": load_diabetes}[name]
    data = load()
    x = data.data
    return x, data.target, (np.floor(x.min(0) - 1e-6), np.ceil(x.max(0) + 1e-6))


def _write(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def _bounds(path: Path, columns: list[str], values: np.ndarray, target: str) -> None:
    ends = zip(columns, values.min(0).tolist(), values.max(0).tolist(), strict=True)
    parts = [
        f'[columns."{name}"]\nmin = {low - 1!r}\nmax = {high + 1!r}' for name, low, high in ends
    ]
    path.write_text("\n\n".join(['source = "public"', f"[target]\n{target}", *parts]) + "\n")
