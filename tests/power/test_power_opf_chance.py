"""Chance constraints: the room that they keep for the noise, and how often it suffices."""

import dataclasses

import numpy as np
import pytest
from scipy.special import ndtr

from taciturn.errors import InputError
from taciturn_power import bundled_case, network
from taciturn_power.models.cost import costs
from taciturn_power.models.dc import (
    dc_model,
    line_spread,
    multiplier_of,
    of_multiplier,
    realised,
    solve_dc,
    tightening,
    widest,
)

ETA = 0.05


def modelled(name):
    case = bundled_case(name)
    net = network(case)
    return dc_model(net, costs(case)), net.demand[:, 0]


@pytest.fixture(scope="module")
def fourteen():
    return modelled("case14")


@pytest.fixture(scope="module")
def large():
    return modelled("case118")


def breaches(model, demand, sigma, draws, *, tighten):
    """How often a dispatch was returned that does not serve the demand, and how often none was."""
    draw = np.random.default_rng(0)
    broken = nothing = 0
    for _ in range(draws):
        answered = demand + sigma * draw.standard_normal(len(demand))
        dispatch = solve_dc(model, answered, tighten)
        nothing += dispatch is None
        if dispatch is not None:
            broken += not realised(model, dispatch, answered, demand).served
    return broken, nothing


def sigma_of(model, mw):
    return np.full(model.network.buses, mw / 100)


def test_the_promise_holds_in_draws_and_breaks_without_room_for_the_noise(large):
    """The planted fault, a dispatch without room, breaks it in most draws."""
    model, demand = large
    sigma = sigma_of(model, 3)
    tight = tightening(model, sigma, ETA)
    assert breaches(model, demand, sigma, 10, tighten=tight) == (0, 0)
    assert breaches(model, demand, sigma, 3, tighten=None)[0] == 3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mw"), [("case14", 10), ("case118", 3)])
def test_the_promise_holds_in_a_thousand_draws(name, mw):
    """The share of breaches is at most eta, whether or not the answers always leave a dispatch."""
    model, demand = modelled(name)
    sigma = sigma_of(model, mw)
    broken, nothing = breaches(model, demand, sigma, 1000, tighten=tightening(model, sigma, ETA))
    assert broken <= 1000 * ETA
    if mw < 10:
        assert nothing == 0


@pytest.mark.slow
def test_the_promise_is_not_kept_by_room_for_half_of_the_noise(large):
    """Planted: the noise is twice what the limits were tightened by, and more than eta break."""
    model, demand = large
    half = tightening(model, sigma_of(model, 1.0), ETA)
    assert breaches(model, demand, sigma_of(model, 6.0), 50, tighten=half)[0] > 50 * ETA


def test_on_the_event_every_limit_holds_whatever_the_answers(fourteen):
    """Noise on the very edge of the event, chosen against the dispatch, breaks no limit."""
    model, demand = fourteen
    sigma = sigma_of(model, 2)
    tight = tightening(model, sigma, ETA)
    draw = np.random.default_rng(1)
    for sign in (1, -1) * 5:
        noise = draw.standard_normal(len(demand)) * sigma
        noise *= sign * tight.reserve / abs(noise.sum())
        # within the event for lines too, else nothing is said
        net = model.network
        across = np.linalg.pinv((model.incidence.T @ model.flows).toarray())
        moved = np.abs((model.flows @ across) @ noise)
        noise *= min(1.0, float(np.min(tight.margin / np.maximum(moved, 1e-12))))
        answered = demand + noise
        dispatch = solve_dc(model, answered, tight)
        assert realised(model, dispatch, answered, demand).served
        assert net.buses == len(noise)


def test_the_spread_of_a_line_is_that_of_simulated_noise(fourteen):
    model, demand = fourteen
    sigma = 0.01 + 0.05 * np.random.default_rng(2).random(len(demand))
    laplacian = (model.incidence.T @ model.flows).toarray()
    factors = model.flows @ np.linalg.pinv(laplacian)
    np.testing.assert_allclose(
        line_spread(model, sigma), np.linalg.norm(factors * sigma, axis=1), rtol=1e-9
    )


def test_flows_split_into_a_part_of_the_policy_and_a_part_of_the_noise(fourteen):
    """The identity that the event rests on: f - h xi + X n, for any noise."""
    model, demand = fourteen
    draw = np.random.default_rng(3)
    noise = 0.05 * draw.standard_normal(len(demand))
    answered = demand + noise
    dispatch = solve_dc(model, answered)
    factors = model.flows @ np.linalg.pinv((model.incidence.T @ model.flows).toarray())
    nominal = dispatch.flow[:, 0] / 100
    policy = factors @ (model.places @ dispatch.share)
    injected = model.places @ dispatch.generation[:, 0] / 100
    after = injected - noise.sum() * (model.places @ dispatch.share) - demand
    after = after - model.network.shunt[:, 0] + model.incidence.T @ model.offset
    flows = factors @ after - model.offset
    np.testing.assert_allclose(flows, nominal - policy * noise.sum() + factors @ noise, atol=1e-7)


@pytest.mark.parametrize("lines", [0, 20, 5000])
@pytest.mark.parametrize("eta", [1e-6, 0.05, 0.5])
def test_the_multiplier_is_exactly_what_independent_events_would_need(eta, lines):
    z = multiplier_of(eta, lines)
    log_probability = (1 + lines) * np.log1p(-2 * ndtr(-z))
    assert -np.expm1(log_probability) == pytest.approx(eta, rel=1e-9)
    assert multiplier_of(eta / 2, lines) > z


def test_the_reserve_is_held_by_generators_that_have_room(large):
    model, demand = large
    tight = tightening(model, sigma_of(model, 3), ETA)
    dispatch = solve_dc(model, demand, tight)
    assert dispatch.reserve.sum() == pytest.approx(100 * tight.reserve, rel=1e-6)
    assert dispatch.share.sum() == pytest.approx(1)
    low, high = 100 * model.network.generator_range[:, :2].T
    assert np.all(dispatch.generation[:, 0] + dispatch.reserve <= high + 1e-3)
    assert np.all(dispatch.generation[:, 0] - dispatch.reserve >= low - 1e-3)


def test_the_largest_room_is_found_and_more_is_not_there(fourteen):
    model, demand = fourteen
    sigma = sigma_of(model, 10)
    most = widest(model, demand, sigma)
    assert solve_dc(model, demand, of_multiplier(model, sigma, most)) is not None
    assert solve_dc(model, demand, of_multiplier(model, sigma, 1.02 * most)) is None


def test_a_dispatch_costs_more_the_more_room_it_keeps(large):
    model, demand = large
    costs_of = [
        solve_dc(model, demand, of_multiplier(model, sigma_of(model, 3), z)).cost
        for z in (0.5, 2.0, 4.0)
    ]
    assert solve_dc(model, demand).cost < costs_of[0] < costs_of[1] < costs_of[2]


@pytest.mark.parametrize("eta", [-0.1, 1.0, float("nan")])
def test_an_eta_that_is_no_probability_is_refused(eta):
    with pytest.raises(InputError, match="eta"):
        multiplier_of(eta, 3)


def test_quadratic_costs_share_the_reserve_as_their_expectation_says(fourteen):
    """Two equal units at one bus, one with twice the curvature: it moves half as far."""
    model, demand = fourteen
    net = model.network
    twice = dataclasses.replace(
        net, generator_bus=np.array([0, 0]), generator_range=np.array([[0, 9, -9, 9.0]] * 2),
        limit=np.full(net.lines, np.inf),
    )  # fmt: skip
    cost = dataclasses.replace(
        model.costs, quadratic=np.array([0.1, 0.2]), linear=np.zeros(2), constant=np.zeros(2)
    )
    free = dc_model(twice, cost)
    dispatch = solve_dc(free, demand, tightening(free, sigma_of(free, 1), ETA))
    assert dispatch.share == pytest.approx([2 / 3, 1 / 3], rel=1e-3)
