"""Run every benchmark; `--json` prints figures as JSON, `--quick` leaves accuracy out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import jax

from bench import (
    accuracy,
    federation,
    grid,
    images,
    masks,
    networks,
    regression,
    settings,
    speed,
    structured,
)
from taciturn.errors import DataError, MissingPackageError

PARTS: dict[str, Callable[[], object]] = {
    "one run of noisy-gradient, Adult, 100 rounds, float32": lambda: speed.one_run(
        "noisy-gradient"
    ),
    "one run of dp-admm, Adult, 100 rounds, float32": lambda: speed.one_run("dp-admm"),
    "40 runs of noisy-gradient as one program, float64": lambda: speed.forty_runs("noisy-gradient"),
    "40 runs of dp-admm as one program, float64": lambda: speed.forty_runs("dp-admm"),
    "a gradient round at the size of MNIST, 10 agents, float32": images.gradient_rounds,
    "power flow, case14, 3 zones, 100 rounds": lambda: grid.rounds_of("case14", 100),
    "power flow, case118, 3 zones, 100 rounds": lambda: grid.rounds_of("case118", 100),
    "power flow, 1,354 buses in 30 zones, 10 rounds": grid.large_case,
    "stochastic ADMM, w8a, batches of 20, float32": structured.sadmm_epoch,
    "its step against batch and columns": structured.sadmm_scaling,
    "taciturn train adult, cold": speed.cold_start,
    "2,400 hops of RECAL, 8 agents, ijcnn1, float32": lambda: networks.relay("ijcnn1"),
    "400 hops of RECAL, 8 agents of 1,500 x 784, float32": lambda: networks.relay("images"),
    "50 rounds of NIDS, 1,000 agents of 50 x 100, float32": networks.gossip,
    "masks of a site and round, 7,840 numbers": masks.masked_rounds,
    "a round of a study over TLS, 10 sites, 104 numbers": federation.star_rounds,
    "the same, 7,840 numbers": lambda: federation.star_rounds(columns=784, classes=10),
    "the same, 100,000 numbers": lambda: federation.star_rounds(
        columns=10_000, classes=10, rounds=20
    ),
    "the same, 50 sites, 104 numbers": lambda: federation.star_rounds(sites=50),
    "a hop of a relay over TLS, 8 sites, 104 numbers": federation.relay_hops,
    "taciturn site check, a start and all that a site derives": federation.check_of_a_site,
    "accounting": speed.accounting,
    "test error on Adult, 100 agents, delta 1e-5, replace-one": accuracy.adult_errors,
    "settings on synthetic problems": settings.synthetic_errors,
    "one question or many: excess risk, no test error": regression.regression_risks,
}


def main() -> None:
    """Print the table, or JSON: of every part that could be measured, however the last one ends."""
    figures: dict[str, object] = {
        "machine": f"{os.cpu_count()} cores, {jax.devices()[0].device_kind}, "
        f"load {os.getloadavg()[0]:.1f}"
    }
    try:
        for name, part in PARTS.items():
            if "--quick" in sys.argv and ("error" in name or "settings" in name):
                continue
            figures[name] = measured(part)
            if "--json" not in sys.argv:
                print(f"\n{name}", flush=True)
                _print(figures[name])
    finally:
        if "--json" in sys.argv:
            print(json.dumps(figures, indent=1), flush=True)


def measured(part: Callable[[], object]) -> object:
    """Return the figures of a part; why there are none where data or a package cannot be had."""
    try:
        return part()
    except (DataError, MissingPackageError, OSError) as error:
        return {"not measured": str(error)}


def _print(figures: object, indent: str = "  ") -> None:
    if not isinstance(figures, dict):
        return
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{indent}{name:<44}" + "  ".join(f"{k} {_text(v)}" for k, v in value.items()))
        else:
            print(f"{indent}{name:<44}{_text(value):>12}")


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
