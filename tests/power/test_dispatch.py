"""Optimal dispatch: formulations of others, room for the noise, and grids made to break it."""

import dataclasses
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr

from taciturn.errors import DataError, InputError, SolverError
from taciturn_power import Case, bundled_case, chosen_zones, network, parse_case, read_case, relax
from taciturn_power.dispatch.results import met, optimum, price_of_privacy
from taciturn_power.dispatch.study import OpfProposal, solve_opf
from taciturn_power.models.cost import costs, has_costs
from taciturn_power.models.dc import (
    dc_model,
    line_spread,
    multiplier_of,
    realised,
    restored,
    settled,
    solve_dc,
    tightening,
    tightening_by,
    widest,
)
from taciturn_power.models.soc import solve_soc

ETA = 0.05
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
THREE = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 40 10 0 0 1 1 0 1 1 1.1 .9;
3 1 30 5 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 0 0 90 -90 1 1 1 200 0; 3 0 0 90 -90 1 1 1 50 0];
mpc.branch = [1 2 .01 .1 0 0 0 0 0 0 1; 2 3 .01 .1 0 0 0 0 0 0 1];
mpc.gencost = [
2 0 0 3 0.1 10 5;
1 0 0 3 0 0 10 100 50 1000];
"""
MESH = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 2 1 0 0 0 0 1 1 0 1 1 1.1 .9;
3 1 150 0 0 0 1 1 0 1 1 1.1 .9; 4 1 30 0 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 0 0 99 -99 1 1 1 200 0; 2 0 0 99 -99 1 1 1 100 0];
mpc.branch = [1 2 0 SHORT 0 60 0 0 0 0 1; 2 3 0 .1 0 100 0 0 0 0 1; 1 3 0 .1 0 100 0 0 0 0 1;
3 4 0 SHORT 0 60 0 0 0 0 1; 1 4 0 .3 0 100 0 0 0 0 1];
mpc.gencost = [2 0 0 3 0 10 0; 2 0 0 3 0 20 0];
"""


def of_file(name):
    if not (FILES / f"{name}.m").is_file():
        pytest.skip("the case is not under TACITURN_DATA_DIR")
    return read_case(FILES / f"{name}.m")


def parsed(text):
    return parse_case(text, name="three", source="three.m")


def mesh(short):
    return parsed(MESH.replace("SHORT", f"{short:g}"))


def modelled(case):
    net = network(case)
    return dc_model(net, costs(case)), net.demand[:, 0]


def solved(case):
    return solve_dc(*modelled(case))


@pytest.fixture(scope="module")
def fourteen():
    return modelled(bundled_case("case14"))


@pytest.fixture(scope="module")
def large():
    return modelled(bundled_case("case118"))


# cost and prices


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
    rows = np.vstack([by_generator, -by_generator])
    bounds = np.concatenate([high - constant, constant - low])
    used = np.isfinite(bounds)
    found = linprog(
        cost.linear * net.base_mva, A_ub=rows[used], b_ub=bounds[used],
        A_eq=np.ones((1, len(cost.linear))), b_eq=[-fixed.sum()],
        bounds=net.generator_range[:, :2], method="highs",
    )  # fmt: skip
    return found.fun + cost.constant.sum()


@pytest.mark.parametrize(
    "of",
    [
        lambda: bundled_case("case118"),
        pytest.param(lambda: of_file("matpower/case1354pegase"), marks=pytest.mark.slow),
    ],
)
def test_the_dc_cost_is_that_of_another_formulation_and_solver(of):
    case = of()
    assert solved(case).cost == pytest.approx(by_injections(network(case), costs(case)), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "theirs"), list(PANDAPOWER.items()))
def test_the_dc_cost_is_that_of_pandapower(name, theirs):
    assert solved(of_file(name)).cost == pytest.approx(theirs, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rounded"), list(PUBLISHED.items()))
def test_the_gap_of_the_cone_relaxation_is_the_published_one(name, rounded):
    case = of_file(name)
    net = network(case)
    found, (published, gap) = solve_soc(relax(net), costs(case), net.demand), rounded
    # the published cost has five digits and the gap two decimals
    assert 100 * (1 - found.dispatch.cost / published) == pytest.approx(gap, abs=0.01)
    assert relax(net).violation(found.x) < 1e-5


def test_prices_are_the_derivative_of_the_cost_with_respect_to_demand(large):
    model, demand = large
    ours, step = solve_dc(model, demand), 1e-3
    assert np.ptp(ours.price) > 1  # lines bind, so buses differ
    for bus in (0, 59, 117):
        more = demand + step * (np.arange(len(demand)) == bus)
        slope = (solve_dc(model, more).cost - ours.cost) / (step * model.network.base_mva)
        assert ours.price[bus] == pytest.approx(slope, rel=1e-3)


def test_prices_of_the_cone_relaxation_are_derivatives_too_and_it_is_exact_without_loops():
    case = bundled_case("case14")
    net, cost, step = network(case), costs(case), 1e-2
    ours = solve_soc(relax(net), cost, net.demand)
    more = net.demand + step * np.outer(np.arange(net.buses) == 13, [1, 0])
    slope = (solve_soc(relax(net), cost, more).dispatch.cost - ours.dispatch.cost) / (step * 100)
    assert ours.dispatch.price[13] == pytest.approx(slope, rel=1e-2)
    assert not ours.exactness.holds  # the angles of its loops do not add up to 0
    net = network(parsed(THREE))
    assert solve_soc(relax(net), costs(parsed(THREE)), net.demand).exactness.holds


def test_piecewise_linear_costs_are_met_at_their_cheapest():
    """20 MW or less of the second unit cost 10 to 22.5 a MWh; the first has slope 10 + 0.2 p."""
    case = parsed(THREE)
    ours, net, cost = solved(case), network(case), costs(case)
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
        ("1 2 .01 .1", "1 2 .01 0", "x = 0"),
        ("1000];", "1000];\nmpc.branch(:, 3) = mpc.branch(:, 3) / 16;", "is changed by code"),
        ("1 1 200 0; 3 0 0 90 -90 1 1 1", "1 0 200 0; 3 0 0 90 -90 1 1 0", "no generator is in"),
    ],
)
def test_a_case_that_cannot_be_dispatched_is_named(old, new, says):
    assert old in THREE
    with pytest.raises(DataError, match="three") as caught:
        modelled(parsed(THREE.replace(old, new)))
    assert says in str(caught.value)
    assert has_costs(parsed(THREE + "% mpc.bus(1) = 3;\n"))


@pytest.mark.parametrize(
    ("text", "demand", "less", "priced"),
    [
        (THREE, [0.0, 2.0, 1.1], [0.2] * 3, True),  # 60 MW more than there is
        (  # one radial line of 60 MW feeds 110 MW at bus 4: less there, and nothing elsewhere
            MESH.replace("1 4 0 .3 0 100", "1 2 0 .3 0 100").replace("SHORT", ".1"),
            [0, 0, 0.6, 1.1], [0, 0, 0, 0.5], False,
        ),
    ],
)  # fmt: skip
def test_demand_that_cannot_be_served_is_moved_as_little_as_needed(text, demand, less, priced):
    model, _ = modelled(parsed(text))
    assert solve_dc(model, np.array(demand)) is None
    dispatch, near = restored(model, np.array(demand))
    np.testing.assert_allclose(demand - near, less, atol=1e-3 if priced else 2e-5)
    assert dispatch.generation[:, 0].sum() == pytest.approx(100 * near.sum(), rel=1e-6)
    assert priced or np.all(np.isnan(dispatch.price))  # the move has no price


# room for the noise


def sigma_of(model, mw):
    return np.full(model.network.buses, mw / model.network.base_mva)


def breaches(model, demand, mw, draws, *, part=1.0, room=None):
    """How often a dispatch that keeps a part of the room needed does not serve the demand.

    And how often there was no dispatch; `room` is for noise of other MW.
    """
    sigma = sigma_of(model, mw)
    needed = tightening(model, sigma_of(model, mw if room is None else room), ETA)
    tight = tightening_by(model, sigma, part * needed.multiplier) if room is None else needed
    draw, broken, nothing = np.random.default_rng(0), 0, 0
    for _ in range(draws):
        answered = demand + sigma * draw.standard_normal(len(demand))
        dispatch = solve_dc(model, answered, tight if part else None)
        nothing += dispatch is None
        if dispatch is not None:
            broken += not realised(model, dispatch, answered, demand).served
    return broken, nothing


def test_the_promise_holds_in_draws_and_breaks_without_room_for_the_noise(large):
    """The planted fault, a dispatch without room, breaks it in most draws."""
    assert breaches(*large, 3, 10) == (0, 0)
    assert breaches(*large, 3, 3, part=0)[0] == 3
    assert breaches(*modelled(mesh(1e-6)), 3, 5) == (0, 0)


def made(demand, generators, lines, base=100.0):
    """A case: generators (bus, least, most, c2, c1) and lines (from, to, x, rating[, angles])."""
    bus, gen = np.zeros((len(demand), 13)), np.zeros((len(generators), 10))
    cost, branch = np.zeros((len(generators), 7)), np.zeros((len(lines), 13))
    bus[:, 0], bus[:, 1], bus[:, 2] = np.arange(1, len(demand) + 1), 1, demand
    bus[:, 7], bus[:, 11], bus[:, 12] = 1, 1.1, 0.9
    for row, (at, least, most, *priced) in enumerate(generators):
        gen[row, [0, 9, 8, 7, 5, 6, 3, 4]] = [at, least, most, 1, 1, base, 1e3, -1e3]
        cost[row, [0, 3, 4, 5]] = [2, 3, *priced]
    for row, (one, other, x, rating, *angles) in enumerate(lines):
        branch[row, :4] = [one, other, 0.01, x]
        branch[row, [5, 10, 11, 12]] = [rating, 1, *(angles or (-360, 360))]
    return Case("made", base, bus, gen, branch, cost)


FEEDER = [(1, 2, 0.1, 120), (2, 3, 0.1, 80), (3, 4, 0.1, 60), (4, 5, 0.1, 40)]
FED, FIRST = [0, 20, 30, 15, 25], (1, 0, 200, 0.01, 20)
TRIANGLE = [(1, 2, 0.1, 60), (2, 3, 0.1, 30), (1, 3, 0.1, 40)]
CAPACITOR = [(1, 2, -0.05, 60), (2, 3, 0.1, 30), (1, 3, 0.1, 80)]
FREE = [(1, 2, 0.1, 0), (2, 3, 0.1, 0), (1, 4, 0.1, 0)]
GRIDS = {
    "radial": made(FED, [FIRST, (4, 0, 30, 0, 10)], FEEDER),
    "radial and congested": made(
        FED, [FIRST, (4, 0, 60, 0, 30)], [(1, 2, 0.1, 91), *FEEDER[1:]]
    ),
    "a generator that cannot move": made(FED, [FIRST, (4, 30, 30, 0, 10)], FEEDER),
    "a line at its limit": made([0, 50, 50], [(1, 0, 200, 0, 10), (3, 0, 200, 0, 40)], TRIANGLE),
    "a series capacitor": made([0, 50, 50], [(1, -50, 200, 0, 10), (3, 0, 200, 0, 40)], CAPACITOR),
    "one generator": made([0, 20, 30, 15], [(1, 0, 500, 0.02, 20)], FREE),
    "little room": made([0, 100], [(1, 80, 120, 0, 10)], FREE[:1]),
    "no more than demand": made([0, 299.9], [(1, 0, 150, 0, 10), (2, 0, 150, 0, 20)], FREE[:1]),
}  # fmt: skip
DRAWN = {
    **{(name, mw): GRIDS[name] for name in GRIDS for mw in (0.5, 4.0)},
    **{("short lines", short): mesh(short) for short in (5e-5, 1e-5, 1e-7)},
    ("case14", 10): bundled_case("case14"),
    ("case118", 3): bundled_case("case118"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN, ids=str)
def test_no_grid_breaks_the_promise_in_draws(name):
    """A share of eta at most, whether or not the answers always leave a dispatch.

    Of grids that break it in a tenth of all runs, 200 draws would let 1 % through.
    """
    mw = 3.0 if name[0] == "short lines" else name[1]
    broken, nothing = breaches(*modelled(DRAWN[name]), mw, 200)
    assert broken <= (0 if name[0] == "short lines" else 200 * ETA)
    assert nothing == 0 or name[0] not in ("case118", "short lines")


@pytest.mark.slow
def test_the_promise_is_not_kept_by_room_for_half_of_the_noise(large):
    """Planted: more than eta break on a congested grid, and where limits keep a sixth."""
    assert breaches(*modelled(GRIDS["a line at its limit"]), 2.0, 300, part=0.5)[0] > 300 * ETA
    assert breaches(*large, 6.0, 50, room=1.0)[0] > 50 * ETA


def factors_of(model):
    """The flows of injections, densely."""
    return model.flows @ np.linalg.pinv((model.incidence.T @ model.flows).toarray())


def test_on_the_event_every_limit_holds_whatever_the_answers(fourteen):
    """Noise on the very edge of the event, chosen against the dispatch, breaks no limit."""
    model, demand = fourteen
    sigma = sigma_of(model, 2)
    tight, draw = tightening(model, sigma, ETA), np.random.default_rng(1)
    for sign in (1, -1) * 5:
        noise = draw.standard_normal(len(demand)) * sigma
        noise *= sign * tight.reserve / abs(noise.sum())
        # within the event for lines too, else nothing is said
        moved = np.abs(factors_of(model) @ noise)
        noise *= min(1.0, float(np.min(tight.margin / np.maximum(moved, 1e-12))))
        dispatch = solve_dc(model, demand + noise, tight)
        assert realised(model, dispatch, demand + noise, demand).served


def test_flows_split_into_a_part_of_the_policy_and_a_part_of_the_noise(fourteen):
    """The identity that the event rests on, f - h xi + X n for any noise; and the spread of X n."""
    model, demand = fourteen
    factors, draw = factors_of(model), np.random.default_rng(3)
    sigma = 0.01 + 0.05 * draw.random(len(demand))
    spread = np.linalg.norm(factors * sigma, axis=1)
    np.testing.assert_allclose(line_spread(model, sigma), spread, rtol=1e-9)
    noise = 0.05 * draw.standard_normal(len(demand))
    dispatch = solve_dc(model, demand + noise)
    nominal = dispatch.flow[:, 0] / 100
    policy = factors @ (model.places @ dispatch.share)
    injected = model.places @ dispatch.generation[:, 0] / 100
    after = injected - noise.sum() * (model.places @ dispatch.share) - demand
    after = after - model.network.shunt[:, 0] + model.incidence.T @ model.offset
    flows = factors @ after - model.offset
    np.testing.assert_allclose(flows, nominal - policy * noise.sum() + factors @ noise, atol=1e-7)


@pytest.mark.parametrize("eta", [1e-6, 0.05, 0.5])
def test_the_multiplier_is_exactly_what_independent_events_would_need(eta):
    for lines in (0, 20, 5000):
        z = multiplier_of(eta, lines)
        log_probability = (1 + lines) * np.log1p(-2 * ndtr(-z))
        assert -np.expm1(log_probability) == pytest.approx(eta, rel=1e-9)
        assert multiplier_of(eta / 2, lines) > z
    for bad in (-0.1, 1.0, float("nan")):
        with pytest.raises(InputError, match="eta"):
            multiplier_of(bad, 3)


def test_the_reserve_is_held_by_generators_that_have_room_and_costs_more_the_more_it_is(large):
    model, demand = large
    sigma = sigma_of(model, 3)
    tight = tightening(model, sigma, ETA)
    dispatch = solve_dc(model, demand, tight)
    assert dispatch.reserve.sum() == pytest.approx(100 * tight.reserve, rel=1e-6)
    assert dispatch.share.sum() == pytest.approx(1)
    low, high = 100 * model.network.generator_range[:, :2].T
    assert np.all(dispatch.generation[:, 0] + dispatch.reserve <= high + 1e-3)
    assert np.all(dispatch.generation[:, 0] - dispatch.reserve >= low - 1e-3)
    found = [solve_dc(model, demand, tightening_by(model, sigma, z)).cost for z in (0.5, 2.0, 4.0)]
    assert all(less < more for less, more in pairwise([solve_dc(model, demand).cost, *found]))


def test_the_largest_room_is_found_and_more_is_not_there(fourteen):
    model, demand = fourteen
    sigma = sigma_of(model, 10)
    most = widest(model, demand, sigma)
    assert solve_dc(model, demand, tightening_by(model, sigma, most)) is not None
    assert solve_dc(model, demand, tightening_by(model, sigma, 1.02 * most)) is None


def test_quadratic_costs_share_the_reserve_as_their_expectation_says(fourteen):
    """Two equal units at one bus, one with twice the curvature: it moves half as far."""
    model, demand = fourteen
    twice = dataclasses.replace(
        model.network, generator_bus=np.array([0, 0]), limit=np.full(model.network.lines, np.inf),
        generator_range=np.array([[0, 9, -9, 9.0]] * 2),
    )  # fmt: skip
    cost = dataclasses.replace(
        model.costs, quadratic=np.array([0.1, 0.2]), linear=np.zeros(2), constant=np.zeros(2)
    )
    free = dc_model(twice, cost)
    dispatch = solve_dc(free, demand, tightening(free, sigma_of(free, 1), ETA))
    assert dispatch.share == pytest.approx([2 / 3, 1 / 3], rel=1e-3)


# the price of privacy, units, and solvers that err


def studied(case, seed=3):
    net = network(case)
    settings = {"hide": "demand", "model": "dc", "eta": ETA, "beta": 0.02, "epsilon": 1.0}
    zones = chosen_zones(net, "2")
    proposal = OpfProposal.of(net, costs(case), zones, **settings, delta=1e-3)
    return net, solve_opf(net, proposal, seed=seed)


@pytest.mark.parametrize("name", ["radial and congested", "a line at its limit"])
def test_the_parts_of_the_price_add_up_to_what_privacy_costs(name):
    net, study = studied(GRIDS[name])
    price = price_of_privacy(study, net.demand)
    cost = met(study, net.demand).cost - optimum(study, net.demand)
    assert price.total == pytest.approx(cost, abs=1e-6)
    assert price.noise + price.tightening + price.recourse == pytest.approx(price.total, abs=1e-6)
    if name == "radial and congested":  # the third part is not nothing
        assert abs(price.total - price.noise - price.tightening) > 0.01
    # nothing that reads the true demand is told without it
    hidden = price_of_privacy(study)
    assert (hidden.noise, hidden.recourse, hidden.total) == (None, None, None)
    assert hidden.tightening is not None


def on(case, base):
    """The same network in MW and ohm, per unit of another base."""
    factor, branch = base / case.base_mva, case.branch.copy()
    branch[:, 2:4] *= factor
    branch[:, 4] /= factor
    return dataclasses.replace(case, base_mva=base, branch=branch)


@pytest.mark.parametrize("base", [0.01, pytest.param(1e8, marks=pytest.mark.slow)])
def test_a_dispatch_does_not_depend_on_the_base_of_its_file(base):
    def dc(case):
        model, demand = modelled(case)
        sigma = sigma_of(model, 2)
        tight, near = tightening(model, sigma, ETA), restored(model, 3 * demand)
        kept = solve_dc(model, demand, tight)
        moved = np.sum(near[1] - 3 * demand) * case.base_mva
        found = [kept.cost, *kept.generation[:, 0], near[0].cost, moved]
        return [*found, kept.price.max(), 100 * widest(model, demand, sigma)]

    def soc(case):
        found = solve_soc(relax(network(case)), costs(case), network(case).demand).dispatch
        return [found.cost, found.price.max(), *found.generation.ravel()]

    for name, of, rtol, atol in (("case118", dc, 1e-5, 2e-3), ("case14", soc, 1e-6, 1e-3)):
        case = bundled_case(name)
        np.testing.assert_allclose(of(case), of(on(case, base)), rtol=rtol, atol=atol)


def test_limits_that_leave_a_single_flow_are_no_lack_of_a_dispatch():
    """There is no room for any noise: nothing is promised, and the dispatch is the plain one."""
    lines = [(1, 2, 0.1, 0), (2, 3, 0.1, 0, -1, -1), (1, 3, 0.1, 0)]
    _, study = studied(made([0, 50, 50], [(1, 0, 200, 0, 10), (3, 0, 200, 0, 40)], lines), seed=0)
    (step,) = study.steps
    assert study.promised == (False,)
    assert step.moved == 0
    assert step.dispatch.cost == pytest.approx(study.plain.cost, rel=1e-6)


def test_lines_of_hardly_any_reactance_are_dispatched_at_the_cost_of_the_limit():
    """As x goes to 0 the first line still binds at 60 MW: 20 (180 - p) + 10 p with p = 1140 / 7."""
    for short in (1e-4, 1e-6, 1e-8):
        model, demand = modelled(mesh(short))
        found = solve_dc(model, demand)
        assert found.cost == pytest.approx(3600 - 11400 / 7, abs=0.4)
        assert found.flow[0, 0] == pytest.approx(60, abs=1e-3)
        assert found.generation[:, 0].sum() == pytest.approx(180, abs=1e-9)
        assert realised(model, found, demand, demand).served


def test_a_dispatch_that_breaks_a_limit_or_keeps_no_room_is_refused_however_the_solver_calls_it():
    """Planted: generation of which the first line would carry 10 MW more than it may, and 1 kW."""
    model, demand = modelled(mesh(1e-2))
    found = solve_dc(model, demand)
    generation, tight = found.generation[:, 0] / 100, tightening(model, np.full(4, 0.03), ETA)
    wrong = [generation + np.array([mw, -mw]) / 100 for mw in (20, 2e-3)]
    for given, room in (*((one, None) for one in wrong), (generation, tight)):
        with pytest.raises(SolverError, match="MW off a limit"):
            settled(model, given, found.share, demand, room)
    right = settled(model, generation, found.share, demand, None)
    np.testing.assert_allclose(100 * right.flow, found.flow[:, 0], atol=1e-9)
