"""A day of demands, dispatched privately: budgets shared equally or by weight, smoothed or not.

`python -m bench.day [DRAWS]` prints a table in Markdown; `python -m bench.day FILE` writes the
series as CSV, for `taciturn grid case118 --series FILE`.

The shape is public arithmetic: bus i of case118 has its published demand times g(h - l_i) at hour
h, with

    g(h) = 0.75 - 0.17 cos(2 pi (h - 4) / 24) - 0.08 cos(4 pi (h - 2) / 24)

(least at night, 0.52 at 2:30, a shoulder at 9:00, most in the evening, 0.94 at 18:30) and buses
that are up to an hour early or late, l_i = ((i mod 5) - 2) / 2.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import taciturn_power as power
from taciturn.typing import HostArray
from taciturn_power.dispatch.results import DayReport
from taciturn_power.dispatch.series import Series, clock
from taciturn_power.dispatch.study import DayProposal, OpfStudy, solve_opf
from taciturn_power.grids.network import Network
from taciturn_power.models.cost import costs

STEPS, DRAWS, DELTA, BETA_MW, ETA = 96, 3, 1e-3, 1.0, 0.05
EPSILONS = (10.0, 1.0)


def load(hour: HostArray) -> HostArray:
    """Return g of the module's docstring."""
    slow, fast = (hour - 4) / 24, 2 * (hour - 2) / 24
    shape: HostArray = 0.75 - 0.17 * np.cos(2 * np.pi * slow) - 0.08 * np.cos(2 * np.pi * fast)
    return shape


def day(network: Network, steps: int) -> Series:
    """Return the day of so many steps."""
    hours = np.arange(steps) * 24 / steps
    late = ((network.numbers % 5) - 2) / 2
    shape = load(hours[:, None] - late)
    return Series(hours, network.demand[None] * shape[:, :, None])


def csv(network: Network, series: Series) -> str:
    lines = ["bus,time,MW,MVAr"]
    for hour, demand in zip(series.hours, series.demand * network.base_mva, strict=True):
        for bus, (mw, mvar) in zip(network.numbers, demand.tolist(), strict=True):
            lines.append(f"{bus},{clock(hour)},{mw:.6f},{mvar:.6f}")
    return "\n".join(lines) + "\n"


def row(study: OpfStudy, case: power.Case, series: Series) -> list[float]:
    true = DayReport(study, (), case, series.demand).values()["true"]
    return [
        true["planned_error_mw"],
        true["planned_total_error_mw"],
        sum(study.promised),
        true["served_steps"],
        100 * (true["cost"] / true["optimum"] - 1),
    ]


def main(draws: int) -> None:
    case = power.bundled_case("case118")
    network = power.network(case)
    zones, series = power.chosen_zones(network, None), day(network, STEPS)
    rules = {"equal": np.ones(STEPS), "by load": load(series.hours) ** 4}
    print(
        "| epsilon | budget | smoothed | noise per demand, MW | error per demand, MW | "
        "error in all, MW | steps promised | steps served | cost over optimum | seconds a day |"
    )
    print("|" + "---|" * 10)
    for epsilon in EPSILONS:
        for name, weights in rules.items():
            for smooth in (False, True):
                proposal = DayProposal.of(
                    network, costs(case), zones, hide="demand", model="dc", eta=ETA,
                    beta=BETA_MW / network.base_mva, epsilon=epsilon, delta=DELTA, first_hour=0.0,
                    step_hours=24 / STEPS, weights=tuple(weights.tolist()), smooth=smooth,
                )  # fmt: skip
                began = time.perf_counter()
                studies = [solve_opf(network, proposal, series, seed=k) for k in range(draws)]
                seconds = (time.perf_counter() - began) / draws
                mean = np.mean([row(study, case, series) for study in studies], axis=0)
                noise = studies[0].noise[:, 0] * network.base_mva
                print(
                    f"| {epsilon:g} | {name} | {'yes' if smooth else 'no'} | {noise.min():.3g} to "
                    f"{noise.max():.3g} | {mean[0]:.3g} | {mean[1]:.3g} | {mean[2]:.1f} | "
                    f"{mean[3]:.1f} | {mean[4]:.2f} % | {seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else str(DRAWS)
    if given.isdigit():
        main(int(given))
    else:
        net = power.network(power.bundled_case("case118"))
        Path(given).write_text(csv(net, day(net, STEPS)), encoding="utf-8")
