"""Simulated coverage of the intervals of noised counts, and the level of their tests."""

from typing import NamedTuple

import numpy as np
import pytest

from taciturn.counting import grouped_table, reconciled, survival_curves
from taciturn.features import Axis, Block, Grid

pytestmark = pytest.mark.slow

ROWS = np.array([0.1, 0.3, 0.6])


class Case(NamedTuple):
    """A population: records, noise of a count, intervals, shares of the groups, hazard."""

    records: int
    noise: float
    intervals: int
    groups: tuple[float, ...]
    hazard: float


CASES = [
    Case(2000, 8.0, 10, (0.5, 0.5), 0.1),
    Case(2000, 8.0, 10, (0.2, 0.8), 0.1),
    Case(5000, 20.0, 12, (0.4, 0.6), 0.05),
    Case(800, 5.0, 8, (0.3, 0.3, 0.4), 0.15),
    Case(2000, 20.0, 10, (0.5, 0.5), 0.1),
    Case(600, 0.0, 10, (0.3, 0.7), 0.05),
]


def blocks_of(case):
    ends = tuple(float(k + 1) for k in range(case.intervals))
    group = Axis("g", tuple(map(str, range(len(case.groups)))))
    axes = Axis("t", tuple(map(str, ends))), Axis("e", ("censored", "event"))
    return Block(axes, group, Grid("t", "e", ends)), Block((Axis("x", ("u", "v", "w")),), group)


def drawn(case, draw):
    """Counts of records with one hazard in all groups, censored at ends of intervals."""
    count, last = case.records, case.intervals
    group = draw.choice(len(case.groups), count, p=case.groups)
    dying = draw.exponential(1 / case.hazard, count)
    leaving = np.minimum(np.ceil(draw.uniform(0, 1.5 * last, count)), last)
    place = np.ceil(np.minimum(dying, leaving)).astype(int) - 1
    life = np.zeros((last, 2, len(case.groups)))
    np.add.at(life, (place, (dying <= leaving).astype(int), group), 1)
    table = np.zeros((3, len(case.groups)))
    np.add.at(table, (draw.choice(3, count, p=ROWS), group), 1)
    exact = np.concatenate([life.ravel(), table.ravel()])
    return exact + draw.normal(0, case.noise, len(exact)) if case.noise else exact


def simulated(case, runs=600):
    """Shares of runs: curves and table cells covered, and tests rejected at 5 %."""
    draw, blocks = np.random.default_rng(0), blocks_of(case)
    truth = np.exp(-case.hazard * np.arange(1, case.intervals + 1))
    curves, cells, log_rank, homogeneity = [], [], [], []
    for _ in range(runs):
        life, table = reconciled(blocks, drawn(case, draw), case.records, case.noise**2)
        found = survival_curves(life)
        curve = found.curves[0]
        known = truth[: len(curve.times)]
        inside = (np.array(curve.low) <= known) & (known <= np.array(curve.high))
        curves.append([inside[1], inside[len(inside) // 2], inside[-1]])
        of_table = grouped_table(table, case.records)
        cells += [
            one[0].share_low <= share <= one[0].share_high
            for one, share in zip(of_table.cells, ROWS, strict=True)
        ]
        for tests, test in ((log_rank, found.test), (homogeneity, of_table.test)):
            if test.p_value is not None:
                tests.append(test.p_value < 0.05)
    return np.mean(curves, axis=0), np.mean(cells), np.mean(log_rank), np.mean(homogeneity)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_intervals_cover_and_tests_reject_as_they_say(case):
    curves, cells, log_rank, homogeneity = simulated(case)
    print(case, curves, cells, log_rank, homogeneity)
    assert np.all((curves >= 0.93) & (curves <= 0.975)), curves
    assert 0.93 <= cells <= 0.975
    assert 0.025 <= log_rank <= 0.075
    assert 0.025 <= homogeneity <= 0.075
