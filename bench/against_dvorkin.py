"""`taciturn grid` beside the mechanism of Dvorkin et al., on their own grid.

`python -m bench.against_dvorkin [DRAWS]` prints tables in Markdown; it needs cvxpy.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import NamedTuple

import cvxpy as cp
import numpy as np

import taciturn_power as power
from bench.feeder import (
    KINDS,
    Feeder,
    Limits,
    active_only,
    case_of,
    cheapest,
    feeder,
    generation_cost,
    limits,
)
from bench.opf import outcomes
from bench.randomised import (
    CHANGED,
    LEAST,
    PUBLISHED,
    drawn,
    flows,
    leak,
    published_noise,
    randomised,
    read_off,
)
from taciturn.calibration import gaussian_multiplier
from taciturn.typing import HostArray
from taciturn_power.models.cost import costs
from taciturn_power.models.dc import dc_model, multiplier_of, tightening

BASE = 100.0  # MVA; the published numbers are per unit
EPSILON, ETA = 1.0, 0.05
# what an interior point leaves
TOLERANCE = 1e-6


class Outcome(NamedTuple):
    """Of draws: cost over the optimum, share that failed, the worst share of each kind of limit."""

    cost: float
    fails: float
    kinds: tuple[float, ...]


def outcome(beyond: HostArray, kind: HostArray, cost: float) -> Outcome:
    """Return what became of draws, of which `beyond` has a row each."""
    bad = beyond > TOLERANCE
    worst = (bad[:, kind == k].mean(axis=0).max(initial=0) for k in range(len(KINDS)))
    return Outcome(cost, float(bad.any(axis=1).mean()), tuple(map(float, worst)))


def theirs(grid: Feeder, sigma: HostArray, draws: int, *, at_once: bool) -> Outcome | None:
    """Return the outcome of the mechanism; `at_once` splits `ETA` over all limits (Boole)."""
    rows = limits(grid)
    etas = (ETA / len(rows.kind),) * 3 if at_once else PUBLISHED
    made = randomised(grid, sigma, etas)
    if made is None:
        return None
    beyond = rows.beyond(drawn(made, sigma, draws), grid.active)
    return outcome(beyond, rows.kind, made.cost / cheapest(grid) - 1)


class Room(NamedTuple):
    """What happens on the events, for each limit: room for z |sigma| and for the rest of the noise.

    The noise is split as in `taciturn_power.models.dc`: xi = 1'n, of which every node has an equal
    part, and the rest, which is independent of xi where all noise is of one size.
    """

    reserve: float
    whole: HostArray
    rest: HostArray


def room(grid: Feeder, rows: Limits, sigma: HostArray) -> Room:
    """Return the room that `ETA` needs: one event for xi, each line and each node's voltage."""
    events = grid.nodes * (2 if np.any(grid.resistance) else 1)
    z, centre = multiplier_of(ETA, events), rows.of_demand.mean(axis=1)
    reserve = z * float(np.linalg.norm(sigma))
    rest = np.linalg.norm((rows.of_demand - centre[:, None]) * sigma, axis=1)
    return Room(reserve, centre * reserve, z * rest)


@dataclass(frozen=True, eq=False)
class Answering:
    """The dispatch of `taciturn_power.models.dc` in the model of a feeder, of the answers."""

    problem: cp.Problem
    answers: cp.Parameter
    generation: cp.Variable
    reserve: cp.Variable
    total: float


def answering(grid: Feeder, sigma: HostArray) -> Answering:
    """Return the problem; generator k moves by -share_k xi, the substation's share comes first."""
    rows = limits(grid)
    kept = room(grid, rows, sigma)
    answers, generation = cp.Parameter(grid.nodes), cp.Variable(grid.nodes)
    reserve = cp.Variable(grid.nodes + 1, nonneg=True)
    moved = cp.abs(rows.of_generation @ reserve[1:] + kept.whole)
    held = rows.offset + rows.of_generation @ generation + rows.of_demand @ answers
    problem = cp.Problem(
        cp.Minimize(generation_cost(grid, generation, answers)),
        [held + moved + kept.rest <= 0, cp.sum(reserve) == kept.reserve],
    )
    return Answering(problem, answers, generation, reserve, kept.reserve)


def ours(grid: Feeder, sigma: HostArray, draws: int) -> tuple[Outcome, float]:
    """Return the outcome of the dispatches that there were, and the share of draws with one."""
    made, rows, draw = answering(grid, sigma), limits(grid), np.random.default_rng(0)
    beyond, cost = [], []
    for _ in range(draws):
        noise = sigma * draw.standard_normal(grid.nodes)
        made.answers.value = grid.active + noise
        made.problem.solve(solver=cp.CLARABEL)
        if made.problem.status != cp.OPTIMAL:
            continue
        share = made.reserve.value[1:] / made.total
        generation = made.generation.value - share * noise.sum()
        beyond.append(rows.beyond(generation, grid.active))
        cost.append(generation_cost(grid, generation, grid.active))
    over = float(np.mean(cost)) / cheapest(grid) - 1
    return outcome(np.array(beyond), rows.kind, over), len(cost) / draws


def shipped(grid: Feeder, sigma: HostArray, draws: int) -> tuple[Outcome, float]:
    """Return what `taciturn grid` itself makes of the grid, in DC."""
    case = case_of(grid, BASE)
    net = power.network(case)
    model = dc_model(net, costs(case))
    noise = np.concatenate([sigma, [0.0]])  # nobody stands at the substation, which comes last
    found = outcomes(model, net.demand[:, 0], noise, draws, tightening(model, noise, ETA))
    cost = float(np.mean([one.cost for one in found])) / BASE
    failed = float(np.mean([not one.served for one in found]))
    return Outcome(cost / cheapest(grid) - 1, failed, ()), len(found) / draws


def line(name: str, noise: HostArray, result: Outcome | None, found: float = 1.0) -> str:
    scale = f"{noise.min() * BASE:.3f} to {noise.max() * BASE:.3f}"
    if result is None:
        return f"| {name} | {scale} | none | | | |"
    kinds = ", ".join(f"{100 * share:.1f} %" for share in result.kinds) or "-"
    return (
        f"| {name} | {scale} | {100 * result.cost:.2f} % | {kinds} | {100 * result.fails:.2f} % | "
        f"{100 * found:.1f} % |"
    )


def main(draws: int) -> None:
    grid = feeder()
    delta = 1 / grid.nodes
    largest = CHANGED * grid.active.max()
    equal = np.full(grid.nodes, largest * gaussian_multiplier(EPSILON, delta, 1))
    print(f"Optimum: {BASE * cheapest(grid):.2f}; in DC {BASE * cheapest(active_only(grid)):.2f}")
    print("| | noise, MW | cost over optimum | a limit breaks | any breaks | found |")
    print("|" + "---|" * 6)
    for name, one in (("LinDistFlow", grid), ("DC", active_only(grid))):
        own = published_noise(one, EPSILON, delta)
        print(line(f"{name}, theirs, as published", own, theirs(one, own, draws, at_once=False)))
        print(line(f"{name}, theirs", equal, theirs(one, equal, draws, at_once=False)))
        print(line(f"{name}, theirs, at once", equal, theirs(one, equal, draws, at_once=True)))
        print(line(f"{name}, answers", equal, *ours(one, equal, draws)))
    print(line("DC, taciturn grid", equal, *shipped(active_only(grid), equal, draws)))
    leaks(grid, delta, draws)


def leaks(grid: Feeder, delta: float, draws: int) -> None:
    """Print what the flows of the published mechanism tell of demands that are 10 % smaller."""
    sigma = published_noise(grid, EPSILON, delta)
    made = randomised(grid, sigma)
    if made is None:
        return
    print(f"\nRead off flows and generation: to {read_off(grid, made, sigma, draws):.1e}")
    total = float(np.linalg.norm(made.moves.sum(axis=0) * sigma))
    print(f"Standard deviation of what the substation delivers: {total * BASE:.1e} MW")
    deviations = np.sqrt(np.clip(np.linalg.eigvalsh(flows(grid, sigma)[1]), 0, None))
    print(f"Directions of the flows without noise: {np.sum(deviations < LEAST)} of {grid.nodes}")
    print(f"\ndelta at epsilon {EPSILON:g}, promised {delta:.4f}; the worst of all nodes")
    print("| noise scaled to | line of the node | worst line | all flows | flow over demand |")
    print("|" + "---|" * 5)
    for own in (True, False):
        seen = [
            leak(
                grid, node, -CHANGED * grid.active[node], epsilon=EPSILON, delta=delta,
                own_noise=own,
            )
            for node in range(grid.nodes)
        ]  # fmt: skip
        worst = [max(getattr(one, name) for one in seen) for name in ("own", "single", "all")]
        moved = max(one.moved for one in seen)
        text = " | ".join(f"{value:.2g}" for value in worst)
        print(f"| {'each data set' if own else 'one of the two'} | {text} | {moved:.3f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
