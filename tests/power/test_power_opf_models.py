"""Optimal power flow against formulations and solvers of others, and costs as case files say."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from taciturn.errors import DataError
from taciturn_power import bundled_case, network, parse_case, read_case, relax
from taciturn_power.models.cost import costs, has_costs
from taciturn_power.models.dc import dc_model, restored, solve_dc
from taciturn_power.models.soc import solve_soc

FILES = Path(os.environ.get("TACITURN_DATA_DIR", "")) / "power"
PUBLISHED = {  # PGLib-OPF's baseline: the AC cost, and the gap of its relaxation in per cent
    "pglib/pglib_opf_case14_ieee": (2.1781e3, 0.11),
    "pglib/pglib_opf_case30_ieee": (8.2085e3, 18.84),
    "pglib/pglib_opf_case39_epri": (1.3842e5, 0.56),
    "pglib/pglib_opf_case118_ieee": (9.7214e4, 0.91),
}

PANDAPOWER = {  # rundcopp of pandapower 3.5.6, which solves by PYPOWER's interior point, $/h
    "pglib/pglib_opf_case14_ieee": 2051.526309131318,
    "pglib/pglib_opf_case30_ieee": 7504.44046204221,
    "pglib/pglib_opf_case39_epri": 136816.15607413,
    "pglib/pglib_opf_case118_ieee": 93132.67928800615,
    "matpower/case30": 565.2059663999221,
    "matpower/case118": 125947.88141790972,
    "matpower/case1354pegase": 73059.6699999998,
}


def of_file(name):
    file = FILES / f"{name}.m"
    if not file.is_file():
        pytest.skip("the case is not under TACITURN_DATA_DIR")
    return read_case(file)


def by_injections(net, cost):
    """The DC problem without angles: flows from a dense matrix of injections, solved by HiGHS."""
    assert not np.any(cost.quadratic)
    b = 1 / (net.impedance.imag * net.tap)
    line = np.arange(net.lines)
    incidence = np.zeros((net.lines, net.buses))
    incidence[line, net.ends[:, 0]], incidence[line, net.ends[:, 1]] = 1, -1
    factors = (b[:, None] * incidence) @ np.linalg.pinv(incidence.T @ (b[:, None] * incidence))
    shifted = -b * net.shift
    fixed = -net.demand[:, 0] - net.shunt[:, 0] - incidence.T @ shifted
    constant = factors @ fixed + shifted
    angle_range = b[:, None] * (net.angle - net.shift[:, None])
    high = np.minimum(net.limit, angle_range.max(axis=1))
    low = np.maximum(-net.limit, angle_range.min(axis=1))
    by_generator = factors[:, net.generator_bus]
    rows, bounds = (
        np.vstack([by_generator, -by_generator]),
        np.concatenate([high - constant, constant - low]),
    )
    used = np.isfinite(bounds)
    found = linprog(
        cost.linear * net.base_mva, A_ub=rows[used], b_ub=bounds[used],
        A_eq=np.ones((1, len(cost.linear))), b_eq=[-fixed.sum()],
        bounds=net.generator_range[:, :2], method="highs",
    )  # fmt: skip
    return found.fun + cost.constant.sum()


def solved(case):
    net, cost = network(case), costs(case)
    return solve_dc(dc_model(net, cost), net.demand[:, 0]), net, cost


@pytest.mark.parametrize("name", ["case118"])
def test_the_dc_cost_is_that_of_another_formulation_and_solver(name):
    ours, net, cost = solved(bundled_case(name))
    assert ours.cost == pytest.approx(by_injections(net, cost), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "theirs"), list(PANDAPOWER.items()))
def test_the_dc_cost_is_that_of_pandapower(name, theirs):
    assert solved(of_file(name))[0].cost == pytest.approx(theirs, rel=1e-6)


@pytest.mark.slow
def test_a_network_of_more_than_a_thousand_buses_has_the_cost_of_another_solver():
    ours, net, cost = solved(of_file("matpower/case1354pegase"))
    assert ours.cost == pytest.approx(by_injections(net, cost), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rounded"), list(PUBLISHED.items()))
def test_the_gap_of_the_cone_relaxation_is_the_published_one(name, rounded):
    case = of_file(name)
    net = network(case)
    found = solve_soc(relax(net), costs(case), net.demand)
    published, gap = rounded
    # the published cost has five digits and the gap two decimals
    assert 100 * (1 - found.dispatch.cost / published) == pytest.approx(gap, abs=0.01)
    assert relax(net).violation(found.x) < 1e-5


def test_prices_are_the_derivative_of_the_cost_with_respect_to_demand():
    case = bundled_case("case118")
    net, cost = network(case), costs(case)
    model, step = dc_model(net, cost), 1e-3
    ours = solve_dc(model, net.demand[:, 0])
    assert np.ptp(ours.price) > 1  # lines bind, so buses differ
    for bus in (0, 59, 117):
        more = net.demand[:, 0] + step * (np.arange(net.buses) == bus)
        slope = (solve_dc(model, more).cost - ours.cost) / (step * net.base_mva)
        assert ours.price[bus] == pytest.approx(slope, rel=1e-3)


def test_prices_of_the_cone_relaxation_are_derivatives_too():
    case = bundled_case("case14")
    net, cost, step = network(case), costs(case), 1e-2
    ours = solve_soc(relax(net), cost, net.demand)
    more = net.demand + step * np.outer(np.arange(net.buses) == 13, [1, 0])
    slope = (solve_soc(relax(net), cost, more).dispatch.cost - ours.dispatch.cost) / (step * 100)
    assert ours.dispatch.price[13] == pytest.approx(slope, rel=1e-2)
    assert not ours.exactness.holds  # the angles of its loops do not add up to 0


def test_the_relaxation_is_exact_without_loops():
    case = parse_case(THREE, name="three", source="three.m")
    found = solve_soc(relax(network(case)), costs(case), network(case).demand)
    assert found.exactness.holds


THREE = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 40 10 0 0 1 1 0 1 1 1.1 .9;
3 1 30 5 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 0 0 90 -90 1 1 1 200 0; 3 0 0 90 -90 1 1 1 50 0];
mpc.branch = [1 2 .01 .1 0 0 0 0 0 0 1; 2 3 .01 .1 0 0 0 0 0 0 1];
mpc.gencost = [
2 0 0 3 0.1 10 5;
1 0 0 3 0 0 10 100 50 1000];
"""


def test_piecewise_linear_costs_are_met_at_their_cheapest():
    """20 MW or less of the second unit cost 10 to 22.5 a MWh; the first has slope 10 + 0.2 p."""
    ours, net, cost = solved(parse_case(THREE, name="three", source="three.m"))
    power = np.linspace(20, 70, 50001)
    total = 0.1 * power**2 + 10 * power + 5
    other = 70 - power
    total += np.maximum(10 * other, 22.5 * other - 125)
    assert ours.cost == pytest.approx(total.min(), rel=1e-6)
    assert ours.generation[0, 0] == pytest.approx(power[total.argmin()], abs=0.01)
    np.testing.assert_allclose(cost.of_each(np.array([10.0, 20.0])), [115, 325])
    soc = solve_soc(relax(net), cost, net.demand)
    assert ours.cost < soc.dispatch.cost < 1.02 * ours.cost  # it has losses too


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("2 0 0 3 0.1", "2 0 0 3 -0.1", "row 1 of mpc.gencost is not convex"),
        ("10 100 50 1000", "10 100 50 200", "row 2 of mpc.gencost is not convex"),
        ("2 0 0 3 0.1 10 5", "2 0 0 4 1 0.1 10 5", "degree 3 or more"),
        ("1 0 0 3 0 0", "7 0 0 3 0 0", "cost model 7"),
        ("1 0 0 3 0 0", "1 0 0 9 0 0", "announces 9 entries"),
        ("0.1 10 5;\n", "0.1 10 Inf;\n", "holds an infinite number"),
        ("2 0 0 3 0.1 10 5;\n", "", "1 rows for 2 generators"),
        ("50 1000]", "50 1000; 2 0 0 1 5; 2 0 0 1 0]", "gives reactive power a cost"),
        ("mpc.gencost", "mpc.dcline = [1];\nmpc.gencost", "mpc.dcline cannot be taken"),
        ("1 200 0", "1 0 -20", "dispatchable load"),
    ],
)
def test_costs_that_cannot_be_used_are_named(old, new, says):
    assert old in THREE
    with pytest.raises(DataError, match="three") as caught:
        costs(parse_case(THREE.replace(old, new), name="three", source="three.m"))
    assert says in str(caught.value)


def test_code_that_changes_a_matrix_is_refused_and_not_ignored():
    text = THREE + "mpc.branch(:, 3) = mpc.branch(:, 3) / 16;\n"
    with pytest.raises(DataError, match=r"mpc\.branch is changed by code"):
        parse_case(text, name="three", source="three.m")
    assert has_costs(parse_case(THREE + "% mpc.bus(1) = 3;\n", name="three", source="three.m"))


def test_a_line_without_reactance_is_refused_in_dc():
    case = parse_case(THREE.replace("1 2 .01 .1", "1 2 .01 0"), name="three", source="three.m")
    with pytest.raises(DataError, match="x = 0"):
        dc_model(network(case), costs(case))


def test_demand_that_cannot_be_served_is_told_and_moved_as_little_as_needed():
    case = parse_case(THREE, name="three", source="three.m")
    model = dc_model(network(case), costs(case))
    demand = np.array([0.0, 2.0, 1.1])  # 60 MW more than there is
    assert solve_dc(model, demand) is None
    dispatch, near = restored(model, demand)
    np.testing.assert_allclose(demand - near, 0.2, atol=1e-3)
    assert dispatch.generation[:, 0].sum() == pytest.approx(100 * near.sum(), rel=1e-6)
