"""The 15-node distribution grid of Dvorkin et al., and its linearised power flow (LinDistFlow).

Line l enters node l, l = 1..14; node 0 is the substation. Below a line lies what it feeds. With
`below` (lines by nodes), generation g and demand d,

    f = below (d - g),      u = 1 - 2 below' (r f^p + x f^q),      |(f^p, f^q)_l| <= most_l,

the last by the twelve sides of a polygon inside the circle. Reactive generation is 0.5 g except at
the substation. Per unit; money per unit of power and hour.

The numbers are those of the folder testcase/feeder15 beside the code of the paper
(github.com/wdvorkin/DP_CC_OPF, commit 907e047).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np

from taciturn.typing import HostArray
from taciturn_power import Case

# from, r, x, rating of the line that enters node 1, 2, ..
LINES = (
    (0, 0.001, 0.12, 2.0),
    (1, 0.0883, 0.1262, 0.512),
    (2, 0.1384, 0.1978, 0.512),
    (3, 0.0191, 0.0273, 0.256),
    (4, 0.0175, 0.0251, 0.256),
    (5, 0.0482, 0.0689, 0.256),
    (8, 0.0523, 0.0747, 0.256),
    (3, 0.0407, 0.0582, 0.256),
    (8, 0.01, 0.0143, 0.256),
    (9, 0.0241, 0.0345, 0.256),
    (10, 0.0103, 0.0148, 0.256),
    (0, 0.001, 0.12, 1.0),
    (12, 0.1559, 0.1119, 0.204),
    (13, 0.0953, 0.0684, 0.204),
)
# active and reactive demand, and what generation costs, at node 1, 2, ..
NODES = (
    (0.0201, 0.0008, 11.9151853),
    (0.0201, 0.0084, 13.35214144),
    (0.0201, 0.0084, 9.119819407),
    (0.0173, 0.0043, 6.517090587),
    (0.0291, 0.0073, 10.83767287),
    (0.0219, 0.0055, 11.74423033),
    (0.0235, 0.0033, 8.71063386),
    (0.0235, 0.0059, 11.49565367),
    (0.0229, 0.0008, 12.17559338),
    (0.0217, 0.0065, 8.916856664),
    (0.0132, 0.0033, 10.54907505),
    (0.0201, 0.0033, 10.37523049),
    (0.0224, 0.0083, 11.28177245),
    (0.0224, 0.0083, 10.40924863),
)
SUBSTATION_COST, SUBSTATION_MOST = 20.0, 1000.0
MOST, RATIO, VOLTAGE = 0.8, 0.5, (0.81, 1.21)
# the sides a f^p + b f^q <= c of the polygon, of a circle of radius 1
SIDES = tuple(
    (np.cos(turn) / np.cos(np.pi / 12), np.sin(turn) / np.cos(np.pi / 12), 1.0)
    for turn in np.pi / 12 + np.arange(12) * np.pi / 6
)


@dataclass(frozen=True, eq=False)
class Feeder:
    """A radial grid; arrays over nodes 1.. or the lines that enter them, but `cost` and `most`.

    Attributes
    ----------
    below
        `(N, N)`: 1 where the node lies below the line.
    active, reactive
        `(N,)`: demand.
    resistance, reactance, rating
        `(N,)`: of the lines.
    cost, most
        `(N + 1,)`: of generation, the substation first.
    ratio
        Reactive over active generation, except at the substation.
    """

    below: HostArray
    active: HostArray
    reactive: HostArray
    resistance: HostArray
    reactance: HostArray
    rating: HostArray
    cost: HostArray
    most: HostArray
    ratio: float

    @property
    def nodes(self) -> int:
        """Number of nodes beside the substation."""
        return len(self.active)


def feeder() -> Feeder:
    """Return the grid as published."""
    lines, nodes = np.array(LINES), np.array(NODES)
    count = len(lines)
    below = np.eye(count)
    for node in range(1, count + 1):
        above = int(lines[node - 1, 0])
        while above > 0:
            below[above - 1, node - 1] = 1
            above = int(lines[above - 1, 0])
    return Feeder(
        below,
        nodes[:, 0],
        nodes[:, 1],
        lines[:, 1],
        lines[:, 2],
        lines[:, 3],
        np.concatenate([[SUBSTATION_COST], nodes[:, 2]]),
        np.concatenate([[SUBSTATION_MOST], np.full(count, MOST)]),
        RATIO,
    )


def active_only(grid: Feeder) -> Feeder:
    """Return the grid as the DC model has it: no reactive power, no voltages."""
    zero = np.zeros(grid.nodes)
    return replace(grid, reactive=zero, resistance=zero, reactance=zero, ratio=0.0)


KINDS = ("generator", "line", "voltage")


@dataclass(frozen=True, eq=False)
class Limits:
    """Every limit of a grid as rows: offset + of_generation g + of_demand d <= 0.

    g is the active generation at nodes 1.., d the active demand there; the substation takes what
    is left. `kind` is that of `KINDS`, by place.
    """

    kind: HostArray
    offset: HostArray
    of_generation: HostArray
    of_demand: HostArray

    def beyond(self, generation: HostArray, demand: HostArray) -> HostArray:
        """Return by how much each limit is exceeded, `(.., R)`; below 0 where it is not."""
        found: HostArray = (
            self.offset + generation @ self.of_generation.T + demand @ self.of_demand.T
        )
        return found


def limits(grid: Feeder) -> Limits:
    """Return the limits of generators, lines and voltages."""
    groups = (_of_generators(grid), _of_lines(grid), _of_voltages(grid))
    rows = [row for group in groups for row in group]
    kind = [k for k, group in enumerate(groups) for row in group for _ in row[0]]
    parts = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Limits(np.array(kind), *parts)


Rows = list[tuple[HostArray, HostArray, HostArray]]  # offset, of generation, of demand


def _of_generators(grid: Feeder) -> Rows:
    eye, ones, zero = np.eye(grid.nodes), np.ones((1, grid.nodes)), np.zeros((1, grid.nodes))
    rows: Rows = [
        (-grid.most[1:], eye, 0 * eye),
        (np.zeros(grid.nodes), -eye, 0 * eye),
        (-grid.most[:1], -ones, ones),
        (np.zeros(1), ones, -ones),
    ]
    if grid.ratio > 0:  # the substation gives reactive power and takes none
        rest = grid.reactive.sum(keepdims=True)
        rows += [(-rest, grid.ratio * ones, zero), (rest - grid.most[0], -grid.ratio * ones, zero)]
    return rows


def _of_lines(grid: Feeder) -> Rows:
    sides = SIDES if grid.ratio > 0 else ((1.0, 0.0, 1.0), (-1.0, 0.0, 1.0))
    fixed = grid.below @ grid.reactive
    return [
        (b * fixed - c * grid.rating, -(a + b * grid.ratio) * grid.below, a * grid.below)
        for a, b, c in sides
    ]


def _of_voltages(grid: Feeder) -> Rows:
    if not np.any(grid.resistance):
        return []
    drop_p = 2 * grid.below.T @ (grid.resistance[:, None] * grid.below)
    drop_q = 2 * grid.below.T @ (grid.reactance[:, None] * grid.below)
    (least, most), level = VOLTAGE, 1 - drop_q @ grid.reactive
    raised = drop_p + grid.ratio * drop_q
    return [(level - most, raised, -drop_p), (least - level, -raised, drop_p)]


def generation_cost(grid: Feeder, generation: Any, demand: Any) -> Any:
    """Return the cost an hour; `(.., N)` arrays or cvxpy expressions of one vector."""
    spread = grid.cost[1:] - grid.cost[0]
    if isinstance(generation, cp.Expression):
        return spread @ generation + grid.cost[0] * cp.sum(demand)
    return generation @ spread + grid.cost[0] * np.sum(demand, axis=-1)


def cheapest(grid: Feeder) -> float:
    """Return the cost of the cheapest dispatch at the demand itself."""
    generation = cp.Variable(grid.nodes)
    rows = limits(grid)
    held = rows.offset + rows.of_generation @ generation + rows.of_demand @ grid.active <= 0
    cost = generation_cost(grid, generation, grid.active)
    return float(cp.Problem(cp.Minimize(cost), [held]).solve(solver=cp.CLARABEL))


def case_of(grid: Feeder, base: float) -> Case:
    """Return the case that `taciturn grid` reads: buses in their order, the substation last."""
    count = grid.nodes + 1
    ends = np.where(np.array(LINES)[:, 0] > 0, np.array(LINES)[:, 0], count)
    bus, gen = np.zeros((count, 13)), np.zeros((count, 10))
    bus[:, 0], bus[:, 1], bus[-1, 1] = np.arange(1, count + 1), 1, 3
    bus[:-1, 2], bus[:-1, 3] = base * grid.active, base * grid.reactive
    bus[:, 7], bus[:, 11], bus[:, 12] = 1, np.sqrt(VOLTAGE[1]), np.sqrt(VOLTAGE[0])
    gen[:, 0], gen[:, 5:8] = [count, *range(1, count)], [1, base, 1]
    gen[:, 8], gen[:, 3] = base * grid.most, base * grid.most * RATIO
    branch = np.zeros((grid.nodes, 13))
    branch[:, :4] = np.stack([ends, np.arange(1, count), *np.array(LINES)[:, 1:3].T], axis=1)
    branch[:, 5], branch[:, 10], branch[:, 11:13] = base * grid.rating, 1, [-360, 360]
    gencost = np.stack([np.full(count, v) for v in (2.0, 0, 0, 2, 0, 0)], axis=1)
    gencost[:, 4] = grid.cost
    return Case("feeder15", base, bus, gen, branch, gencost)
