"""`taciturn grid` beside released demands that are repaired so that the optimum costs what it did.

`python -m bench.against_mak [DRAWS] [CASE ...]` prints a table in Markdown; it needs cvxpy. After
Mak, Fioretto, Shi and Van Hentenryck (IEEE Trans. Power Systems 35, 2020; arXiv 1910.04250 is its
distributed form) formulated again for the DC model: demands get Laplace noise, and are then moved
as little as possible, in the sum of squares, to where the optimal cost C is within `FIDELITY` of
the true one, which is taken as public.

C is convex in the demand. So C(d) <= (1 + f) C* is a convex constraint, kept as it is. The other
half, C(d) >= (1 - f) C*, is not; it follows from C(e) + C'(e)(d - e) >= (1 - f) C* at a point e,
the repaired demands without it. What is found meets both, and need not be the nearest that does.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

import taciturn_power as power
from bench.opf import DELTA, ETA, chosen, noise
from taciturn.typing import HostArray
from taciturn_power.models.cost import costs
from taciturn_power.models.dc import DcModel, dc_model, realised, restored, solve_dc, tightening
from taciturn_power.models.dispatch import Dispatch

CASES = ("case14", "pglib_opf_case30_ieee", "pglib_opf_case39_epri", "case118")
SETTINGS = ((0.1, 1.0), (1.0, 1.0), (1.0, 10.0), (10.0, 1.0), (10.0, 10.0))  # epsilon, MW
FIDELITY, DRAWS = 0.01, 100


class Repair:
    """The repair of a model, per unit; demand is moved and may not be refused."""

    def __init__(self, model: DcModel, optimum: float) -> None:
        self.model, self.optimum, net = model, optimum, model.network
        low, high = net.generator_range[:, :2].T
        self.stated, self.demand = cp.Parameter(net.buses), cp.Variable(net.buses)
        generation, angle = cp.Variable(len(low)), cp.Variable(net.buses)
        flow = model.flows @ angle - model.offset
        injected = model.places @ generation - self.demand - net.shunt[:, 0]
        limited = model.limited
        self.held = [
            injected == model.incidence.T @ flow,
            generation >= low,
            generation <= high,
            flow[limited] <= model.high[limited],
            flow[limited] >= model.low[limited],
            self._cost(generation * net.base_mva) / optimum <= 1 + FIDELITY,
        ]
        self.move = cp.Minimize(cp.sum_squares(self.demand - self.stated))
        self.first = cp.Problem(self.move, self.held)

    def _cost(self, generation: cp.Expression) -> cp.Expression:
        priced = self.model.costs
        if len(priced.owner):
            raise SystemExit("piecewise linear costs are not repaired")
        smooth = cp.multiply(priced.quadratic, cp.square(generation))
        return cp.sum(smooth + cp.multiply(priced.linear, generation) + priced.constant)

    def near(self, stated: HostArray) -> HostArray | None:
        """Return demands near those told whose optimum costs what the true ones' does."""
        self.stated.value = stated
        if (found := self._moved(self.first)) is None:
            return None
        best = solved(self.model, found)
        if best is None or best.cost >= (1 - FIDELITY) * self.optimum:
            return found
        base = self.model.network.base_mva
        risen = best.cost + base * best.price @ (self.demand - found)
        enough = risen / self.optimum >= 1 - FIDELITY
        return self._moved(cp.Problem(self.move, [*self.held, enough]))

    def _moved(self, problem: cp.Problem) -> HostArray | None:
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return None
        moved: HostArray | None = self.demand.value
        return moved


def solved(model: DcModel, demand: HostArray) -> Dispatch | None:
    """Return the cheapest dispatch, of the nearest demands that have one."""
    found = solve_dc(model, demand)
    if found is not None:
        return found
    near = restored(model, demand)
    return None if near is None else near[0]


@dataclass
class Tally:
    """Of one way to tell demands: cost errors, load errors (MW), dispatches that serve, draws."""

    cost: list[float]
    load: list[float]
    served: int = 0
    found: int = 0

    def text(self, draws: int) -> str:
        """Return the cells of a row."""
        if not self.found:
            return "- | - | 0 % | 0 %"
        shares = (f"{100 * count / draws:.0f} %" for count in (self.found, self.served))
        cost = f"{100 * float(np.mean(self.cost)):.2f} %"
        return f"{cost} | {float(np.mean(self.load)):.2f} | {' | '.join(shares)}"


def stated(model: DcModel, stated: HostArray | None, demand: HostArray, optimum: float,
         tally: Tally) -> None:  # fmt: skip
    """Add the dispatch for the demands that were told to the tally."""
    dispatch = None if stated is None else solve_dc(model, stated)
    if stated is None or dispatch is None:
        return
    tally.found += 1
    tally.cost.append(abs(dispatch.cost / optimum - 1))
    tally.load.append(float(np.sqrt(np.mean((stated - demand) ** 2))) * model.network.base_mva)
    tally.served += realised(model, dispatch, stated, demand).served


def compare(name: str, draws: int, epsilon: float, beta: float) -> dict[str, Tally]:
    """Return tallies of Laplace-noised demands, repaired as by `taciturn grid`, and with room."""
    case = chosen(name)
    net = power.network(case)
    model, demand = dc_model(net, costs(case)), net.demand[:, 0]
    best = solve_dc(model, demand)
    if best is None:
        raise SystemExit(f"{name} has no dispatch at its own demand")
    sigma = noise(net, power.chosen_zones(net, None), epsilon, beta / net.base_mva)
    tight, repair = tightening(model, sigma, ETA), Repair(model, best.cost)
    found = {kind: Tally([], []) for kind in ("Laplace", "repaired", "Gaussian", "with room")}
    draw = np.random.default_rng(0)
    for _ in range(draws):
        scale = beta / net.base_mva / epsilon
        stated(model, rough := demand + draw.laplace(0, scale, net.buses), demand, best.cost,
             found["Laplace"])  # fmt: skip
        stated(model, repair.near(rough), demand, best.cost, found["repaired"])
        answered = demand + sigma * draw.standard_normal(net.buses)
        stated(model, answered, demand, best.cost, found["Gaussian"])
        dispatch = solve_dc(model, answered, tight)
        if dispatch is not None:
            within = found["with room"]
            within.found += 1
            within.load.append(float(np.sqrt(np.mean((answered - demand) ** 2))) * net.base_mva)
            after = realised(model, dispatch, answered, demand)
            within.cost.append(abs(after.cost / best.cost - 1))
            within.served += after.served
    return found


def main(draws: int, cases: list[str]) -> None:
    print(f"delta {DELTA:g} of Gaussian noise, 0 of Laplace noise; fidelity {100 * FIDELITY:g} %")
    print("| case | epsilon | beta, MW | told | cost error | load error, MW | found | serves |")
    print("|" + "---|" * 8)
    for name in cases:
        for epsilon, beta in SETTINGS:
            for kind, tally in compare(name, draws, epsilon, beta).items():
                row = f"| {name} | {epsilon:g} | {beta:g} | {kind} | {tally.text(draws)} |"
                print(row, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS, sys.argv[2:] or list(CASES))
