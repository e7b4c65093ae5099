"""What privacy costs an optimal power flow: cases by epsilon by beta, with room for noise or not.

`python -m bench.opf [DRAWS] [CASE ...]` prints a table in Markdown. Cases that do not come with the
package are read from TACIT_DATA_DIR.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from tacit import power
from tacit.power.asking import noise_of, plan_demand
from tacit.power.cost import costs
from tacit.power.dc import solve_dc
from tacit.power.dc_network import DcModel, dc_model
from tacit.power.recourse import Realised, Tightening, realised, tightening
from tacit.typing import HostArray

CASES = ("case14", "pglib_opf_case30_ieee", "pglib_opf_case39_epri", "case118")
EPSILONS, BETAS_MW = (0.1, 1.0, 10.0), (1.0, 5.0, 10.0)
DELTA, ETA, DRAWS = 1e-3, 0.05, 30


def chosen(name: str) -> power.Case:
    if name in power.BUNDLED:
        return power.bundled_case(name)
    folder = Path(os.environ["TACIT_DATA_DIR"]) / "power" / "pglib"
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
    served = [one for one in found if one.served]
    over = "-"
    if served:
        over = f"{100 * (np.mean([one.cost for one in served]) / optimum - 1):.2f} %"
    return f"{len(found)}/{draws} | {len(served)}/{draws} | {over}"


def main(draws: int, cases: list[str]) -> None:
    print(
        "| case | epsilon | beta, MW | noise per demand, MW | imbalance, MW | found, no room | "
        "served | cost over optimum | found, with room | served | cost over optimum |"
    )
    print("|" + "---|" * 11)
    for name in cases:
        case = chosen(name)
        net = power.network(case)
        zones, demand = power.chosen_zones(net, None), net.demand[:, 0]
        model = dc_model(net, costs(case))
        best = solve_dc(model, demand)
        if best is None:
            raise SystemExit(f"{name} has no dispatch at its own demand")
        for epsilon in EPSILONS:
            for beta in BETAS_MW:
                planned = plan_demand(
                    net, zones, hide="demand", beta=beta / net.base_mva, epsilon=epsilon,
                    delta=DELTA,
                )  # fmt: skip
                sigma = noise_of(planned, zones)
                without = outcomes(model, demand, sigma, draws, None)
                within = outcomes(model, demand, sigma, draws, tightening(model, sigma, ETA))
                off = sigma[0] * net.base_mva * np.sqrt(2 * net.buses / np.pi)
                print(
                    f"| {name} | {epsilon:g} | {beta:g} | {sigma[0] * net.base_mva:.3g} | "
                    f"{off:.3g} | {cell(without, draws, best.cost)} | "
                    f"{cell(within, draws, best.cost)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS, sys.argv[2:] or list(CASES))
