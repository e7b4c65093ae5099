"""The mechanism of Dvorkin et al. on their grid, as the comparison with it has it."""

from dataclasses import replace

import numpy as np
import pytest
from bench.against_dvorkin import EPSILON, shipped, theirs
from bench.feeder import (
    LINES,
    MOST,
    NODES,
    RATIO,
    SUBSTATION_COST,
    VOLTAGE,
    active_only,
    cheapest,
    feeder,
    limits,
)
from bench.randomised import (
    PUBLISHED,
    delta_between,
    drawn,
    flows,
    leak,
    published_noise,
    randomised,
    read_off,
)
from scipy.optimize import linprog
from scipy.stats import norm

from taciturn.calibration import gaussian_multiplier

DELTA = 1 / 14


@pytest.fixture(scope="module")
def grid():
    return feeder()


def node_by_node():
    """The optimum as a linear problem in generation, flows and voltages, balanced at every node.

    An independent formulation: p, q of 15 generators, flows P, Q of 14 lines, 15 squared voltages.
    """
    lines, nodes = np.array(LINES), np.array(NODES)
    p, q, flow_p, flow_q, u = 0, 15, 30, 44, 58
    equal, right, below, bound = [], [], [], []
    for start, flow, column in ((p, flow_p, 0), (q, flow_q, 1)):
        for node in range(15):
            row = np.zeros(73)
            row[start + node] = 1
            for line, (above, *_) in enumerate(lines):
                row[flow + line] += (line + 1 == node) - float(int(above) == node)
            equal.append(row)
            right.append(nodes[node - 1, column] if node else 0.0)
    for node in range(1, 15):
        row = np.zeros(73)
        row[q + node], row[p + node] = 1, -RATIO
        equal.append(row)
        above, r, x, _ = lines[node - 1]
        drop = np.zeros(73)
        drop[u + int(above)], drop[u + node] = 0.5, -0.5
        drop[flow_p + node - 1], drop[flow_q + node - 1] = -r, -x
        equal.append(drop)
        right += [0.0, 0.0]
        for k in range(12):  # the twelve-sided polygon inside the circle of the rating
            side = np.zeros(73)
            angle = np.pi / 12 + k * np.pi / 6
            side[flow_p + node - 1], side[flow_q + node - 1] = np.cos(angle), np.sin(angle)
            below.append(side)
            bound.append(np.cos(np.pi / 12) * lines[node - 1, 3])
    box = [(0, 1000)] + [(0, MOST)] * 14 + [(0, 1000)] + [(0, MOST * RATIO)] * 14
    box += [(None, None)] * 28 + [(1, 1)] + [VOLTAGE] * 14
    cost = np.zeros(73)
    cost[:15] = [SUBSTATION_COST, *nodes[:, 2]]
    return linprog(cost, below, bound, np.array(equal), right, bounds=box).fun


def test_the_optimum_of_the_feeder_is_that_of_a_formulation_node_by_node(grid):
    exact = node_by_node()
    assert cheapest(grid) == pytest.approx(exact, rel=1e-6)
    assert 100 * cheapest(grid) == pytest.approx(395.97, abs=0.01)
    # planted: the cheapest dispatch without reactive power costs half
    assert cheapest(active_only(grid)) < 0.6 * exact


def test_the_divergence_between_two_laws_is_the_exact_one():
    law, other = (np.zeros(2), np.eye(2)), (np.array([0.6, 0.8]), np.eye(2))
    exact = norm.cdf(0.5 - 1) - np.e * norm.cdf(-0.5 - 1)
    assert delta_between(law, other, 1.0) == pytest.approx(exact, abs=2e-3)
    # a direction without noise tells everything
    law = (np.zeros(2), np.diag([1.0, 0.0]))
    assert delta_between(law, (np.array([0.0, 1e-3]), law[1]), 1.0) == pytest.approx(1)
    assert delta_between(law, law, 1.0) == 0


@pytest.fixture(scope="module")
def published(grid):
    sigma = published_noise(grid, EPSILON, DELTA)
    return sigma, randomised(grid, sigma)


@pytest.mark.slow
def test_their_dispatch_keeps_each_limit_as_often_as_it_says_and_carries_its_noise(grid, published):
    sigma, made = published
    rows = limits(grid)
    broken = (rows.beyond(drawn(made, sigma, 5000), grid.active) > 1e-6).mean(axis=0)
    for kind, eta in enumerate(PUBLISHED):
        assert broken[rows.kind == kind].max() <= eta + 3 * np.sqrt(eta / 5000)
    own = -np.diag(grid.below @ made.moves)
    np.testing.assert_allclose(own, 1, atol=1e-7)
    assert np.all(np.sqrt(np.diag(flows(grid, sigma)[1])) >= sigma * (1 - 1e-6))
    assert made.cost / cheapest(grid) - 1 == pytest.approx(0.0808, abs=2e-4)


@pytest.mark.slow
def test_one_flow_hides_what_all_flows_tell(grid):
    """Each flow alone keeps the promise by far; the substation's total has no noise at all."""
    seen = leak(grid, 4, -0.1 * grid.active[4], epsilon=EPSILON, delta=DELTA, own_noise=True)
    assert seen.single <= DELTA
    assert seen.all == pytest.approx(1)


@pytest.mark.slow
def test_demands_are_read_off_flows_and_generation_whatever_the_noise(grid, published):
    sigma, made = published
    assert read_off(grid, made, sigma, 100) < 1e-12
    assert read_off(grid, replace(made, moves=7 * made.moves), sigma, 100) < 1e-12


@pytest.mark.slow
def test_answers_cost_less_than_randomised_dispatch_at_the_same_promise(grid):
    plain = active_only(grid)
    scale = 0.1 * grid.active.max() * gaussian_multiplier(EPSILON, DELTA, 1)
    sigma = np.full(grid.nodes, scale)
    ours, found = shipped(plain, sigma, 200)
    assert found == 1
    assert ours.fails <= 0.05
    assert ours.cost < theirs(plain, sigma, 200, at_once=True).cost
