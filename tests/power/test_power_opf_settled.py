"""Networks built to break the arithmetic of a dispatch: short lines, and solvers that err."""

import numpy as np
import pytest

from taciturn.errors import SolverError
from taciturn_power import network, parse_case
from taciturn_power.models import dc as settling_room
from taciturn_power.models.cost import costs
from taciturn_power.models.dc import dc_model, realised, restored, settled, solve_dc, tightening

MESH = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 0 0 0 0 1 1 0 1 1 1.1 .9;
3 1 150 0 0 0 1 1 0 1 1 1.1 .9; 4 1 30 0 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 0 0 99 -99 1 1 1 200 0; 2 0 0 99 -99 1 1 1 100 0];
mpc.branch = [1 2 0 SHORT 0 60 0 0 0 0 1; 2 3 0 .1 0 100 0 0 0 0 1; 1 3 0 .1 0 100 0 0 0 0 1;
3 4 0 SHORT 0 60 0 0 0 0 1; 1 4 0 .3 0 100 0 0 0 0 1];
mpc.gencost = [2 0 0 3 0 10 0; 2 0 0 3 0 20 0];
"""


def mesh(short):
    case = parse_case(MESH.replace("SHORT", f"{short:g}"), name="mesh", source="mesh.m")
    net = network(case)
    return dc_model(net, costs(case)), net.demand[:, 0]


def broken(short, draws):
    model, demand = mesh(short)
    sigma = np.full(4, 0.03)
    tight = tightening(model, sigma, 0.05)
    draw, failures = np.random.default_rng(0), 0
    for _ in range(draws):
        answered = demand + sigma * draw.standard_normal(4)
        dispatch = solve_dc(model, answered, tight)
        failures += not realised(model, dispatch, answered, demand).served
    return failures


def test_lines_of_hardly_any_reactance_are_dispatched_at_the_cost_of_the_limit():
    """As x goes to 0 the first line still binds at 60 MW: 20 (180 - p) + 10 p with p = 1140 / 7."""
    for short in (1e-4, 1e-6, 1e-8):
        model, demand = mesh(short)
        found = solve_dc(model, demand)
        assert found.cost == pytest.approx(3600 - 11400 / 7, abs=0.4)
        assert found.flow[0, 0] == pytest.approx(60, abs=1e-3)
        assert found.generation[:, 0].sum() == pytest.approx(180, abs=1e-9)
        assert realised(model, found, demand, demand).served


def test_the_promise_holds_where_lines_are_short():
    assert broken(1e-6, 5) == 0


@pytest.mark.slow
@pytest.mark.parametrize("short", [5e-5, 1e-5, 1e-7])
def test_the_promise_holds_in_draws_where_lines_are_short(short):
    assert broken(short, 100) == 0


def test_a_dispatch_that_breaks_a_limit_is_refused_however_the_solver_calls_it():
    """Planted: generation of which the first line would carry 10 MW more than it may."""
    model, demand = mesh(1e-2)
    found = solve_dc(model, demand)
    wrong = found.generation[:, 0] / 100 + [0.2, -0.2]
    with pytest.raises(SolverError, match="MW off a limit"):
        settled(model, wrong, found.share, demand, None)
    right = settled(model, found.generation[:, 0] / 100, found.share, demand, None)
    np.testing.assert_allclose(100 * right.flow, found.flow[:, 0], atol=1e-9)


def test_a_dispatch_without_the_room_that_it_should_keep_is_refused():
    model, demand = mesh(1e-2)
    plain = solve_dc(model, demand)
    tight = tightening(model, np.full(4, 0.03), 0.05)
    with pytest.raises(SolverError, match="MW off a limit"):
        settled(model, plain.generation[:, 0] / 100, plain.share, demand, tight)
    assert settling_room.TOLERANCE_MW == 1e-3


def test_demands_are_moved_no_further_than_they_must_and_the_move_has_no_price():
    """One radial line of 60 MW feeds 110 MW at bus 4: 50 MW less there, and nothing elsewhere."""
    text = MESH.replace("1 4 0 .3 0 100", "1 2 0 .3 0 100").replace("4 1 30", "4 1 110")
    case = parse_case(text.replace("SHORT", ".1"), name="mesh", source="mesh.m")
    net = network(case)
    demand = net.demand[:, 0] - [0, 0, 0.9, 0]
    found, near = restored(dc_model(net, costs(case)), demand)
    np.testing.assert_allclose(100 * (demand - near), [0, 0, 0, 50], atol=2e-3)
    assert np.all(np.isnan(found.price))
