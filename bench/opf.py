"""What privacy costs an optimal power flow: cases by epsilon by beta, with room for noise or not.

`python -m bench.opf [DRAWS] [CASE ...]` prints a table in Markdown. Cases that do not come with the
package are read from TACITURN_DATA_DIR. A beta in per cent is of the largest demand of the case,
which is published.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import taciturn_power as power
from taciturn.typing import HostArray
from taciturn_power.dispatch.asking import noise_of, plan_demand, read_beta
from taciturn_power.models.cost import costs
from taciturn_power.models.dc import (
    DcModel,
    Realised,
    Tightening,
    dc_model,
    realised,
    solve_dc,
    tightening,
)

CASES = (
    "case14",
    "pglib_opf_case30_ieee",
    "pglib_opf_case39_epri",
    "pglib_opf_case57_ieee",
    "case118",
)
EPSILONS, BETAS = (0.1, 1.0, 10.0), ("1MW", "10MW", "5%")
DELTA, ETA, DRAWS = 1e-3, 0.05, 1000


def chosen(name: str) -> power.Case:
    if name in power.BUNDLED:
        return power.bundled_case(name)
    folder = Path(os.environ["TACITURN_DATA_DIR"]) / "power" / "pglib"
    return power.read_case(folder / f"{name}.m")


def outcomes(
    model: DcModel, demand: HostArray, sigma: HostArray, draws: int, tight: Tightening | None
) -> list[Realised]:
    """Return what became of the dispatches that there were, with the same noise for every call."""
    draw, found = np.random.default_rng(0), []
    for _ in range(draws):
        answered = demand + sigma * draw.standard_normal(len(demand))
        dispatch = solve_dc(model, answered, tight)
        if dispatch is not None:
            found.append(realised(model, dispatch, answered, demand))
    return found


def cell(found: list[Realised], draws: int, optimum: float) -> str:
    served = [one.cost for one in found if one.served]
    over = "- | -"
    if served:
        more = float(np.mean(served)) - optimum
        over = f"{more:,.2f} | {100 * more / optimum:.2f} %"
    shares = (f"{100 * count / draws:.1f} %" for count in (len(found), len(served)))
    return f"{' | '.join(shares)} | {over}"


def noise(net: power.Network, zones: power.Zones, epsilon: float, beta: float) -> HostArray:
    """Return the deviation on the demand of every bus, per unit, as `taciturn grid` has."""
    planned = plan_demand(net, zones, hide="demand", beta=beta, epsilon=epsilon, delta=DELTA)
    noise: HostArray = noise_of(planned, zones)[0]
    return noise


def rows_of(name: str, draws: int) -> None:
    """Print the rows of a case."""
    case = chosen(name)
    net = power.network(case)
    zones, demand = power.chosen_zones(net, None), net.demand[:, 0]
    model = dc_model(net, costs(case))
    best = solve_dc(model, demand)
    if best is None:
        raise SystemExit(f"{name} has no dispatch at its own demand")
    largest = str(float(demand.max()))
    for epsilon in EPSILONS:
        for text in BETAS:
            of = largest if "%" in text else None
            beta = read_beta(text, base_mva=net.base_mva, largest=of)
            sigma = noise(net, zones, epsilon, beta)
            without = outcomes(model, demand, sigma, draws, None)
            within = outcomes(model, demand, sigma, draws, tightening(model, sigma, ETA))
            off = float(np.linalg.norm(sigma)) * net.base_mva * np.sqrt(2 / np.pi)
            failed = sum(not one.served for one in within)
            print(
                f"| {name} | {epsilon:g} | {text} | {sigma[0] * net.base_mva:.3g} | {off:.3g} | "
                f"{cell(without, draws, best.cost)} | {cell(within, draws, best.cost)} | "
                f"{failed}/{draws} |",
                flush=True,
            )


def main(draws: int, cases: list[str]) -> None:
    print(
        "| case | epsilon | beta | noise per demand, MW | imbalance, MW | found, no room | served "
        "| $/h over optimum | of it | found, with room | served | $/h over optimum | of it | fail |"
    )
    print("|" + "---|" * 14)
    for name in cases:
        rows_of(name, draws)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS, sys.argv[2:] or list(CASES))
