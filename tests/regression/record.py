"""Run every setting and write what came out: `python -m tests.regression.record FILE`."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tests.regression.settings import COMMANDS, FITS, records_of, write_tables

# what may differ between two runs of one setting: digests cover the version of the library too,
# and the data of a table are the path of a temporary folder
LEFT_OUT = {
    "seconds",
    "out",
    "version",
    "plan",
    "proposal",
    "taciturn_version",
    "data",
    "drawn_p_values",  # of what is drawn without a seed
}


def command(text: str, folder: Path, names: dict[str, str]) -> dict[str, Any]:
    """Return what a command line prints, and the weights of its model."""
    from taciturn.cli.main import main

    arguments = text.format(**names).split()
    out = folder / "report"
    writes = arguments[0] == "train"
    extra = ["--out", str(out), "--force"] if writes else []
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main([*arguments, *extra, "--json"])
    if code != 0:
        raise RuntimeError(f"{text}: exit code {code}")
    values = {k: v for k, v in json.loads(printed.getvalue()).items() if k not in LEFT_OUT}
    if writes:
        model = json.loads((out / "model.json").read_text(encoding="utf-8"))
        values["model"] = [number for term in model["terms"] for number in _numbers(term)]
    return values


def _numbers(term: dict[str, Any]) -> list[float]:
    return [n for key, v in term.items() if key != "level" and isinstance(v, list)
            for n in v if isinstance(n, float)]  # fmt: skip


def fit(name: str) -> dict[str, Any]:
    """Return certificate and coefficients of an estimator's fit."""
    from taciturn.certificates import stated

    kind, data, settings, agents = FITS[name]
    x, y, bounds = records_of(data)
    facts = (
        {"target_bounds": (0.0, 350.0)}
        if data == "diabetes"
        else {"classes": sorted(set(y.tolist()))}
    )
    model = _estimators(kind)(**settings, **facts, bounds=bounds).fit(x, y, agents=agents)
    return {
        "certificate": stated(model.certificate_),
        "multiplier": model.plan_.multiplier,
        "coef": np.ravel(model.coef_).tolist(),
        "intercept": np.ravel(model.intercept_).tolist(),
    }


def _estimators(kind: str) -> Any:
    return getattr(importlib.import_module("taciturn.estimators"), kind)


def outcome(name: str, folder: Path, tables: dict[str, str]) -> dict[str, Any]:
    """Return what comes of a setting now; `tables` are the files of `write_tables`."""
    text = COMMANDS.get(name)
    return fit(name) if text is None else command(text, folder, tables)


def record(names: list[str], file: Path) -> None:
    """Add what came out of each of the settings `names` to a file."""
    results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(scratch)
        tables = write_tables(folder)
        for name in names:
            if name in results:
                continue
            results[name] = outcome(name, folder, tables)
            file.write_text(json.dumps(results, indent=1), encoding="utf-8")
            print(name, file=sys.stderr)


if __name__ == "__main__":
    record([*COMMANDS, *FITS], Path(sys.argv[1]))
