"""Smoothing and room for a day: against formulas of another kind, and with planted faults."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from taciturn_power import bundled_case, network
from taciturn_power.dispatch import study as room
from taciturn_power.dispatch.series import smoothed
from taciturn_power.dispatch.study import dispatched, needed_by_day
from taciturn_power.models.cost import costs
from taciturn_power.models.dc import dc_model, line_spread, realised, state_at

STEPS = 24
HOURS = np.arange(STEPS)


def a_day(buses, seed=0, sigma=0.05):
    draw = np.random.default_rng(seed)
    level = draw.uniform(0.1, 0.6, buses)
    shape = 0.8 - 0.2 * np.cos(2 * np.pi * (HOURS - 4) / 24)
    demand = shape[:, None, None] * np.stack([level, level / 3], axis=1)
    noise = np.full((STEPS, buses), sigma) * np.sqrt(1 + HOURS % 3)[:, None]
    return demand, noise, demand + noise[:, :, None] * draw.standard_normal(demand.shape)


def test_smoothing_of_one_bus_is_the_most_likely_curve_of_the_model():
    """Against the normal equations, with the roughness that the dense likelihood likes best."""
    _, noise, answers = a_day(1)
    found = smoothed(answers, noise)[:, 0, 0]
    variance, second = noise[:, 0] ** 2, np.diff(np.eye(STEPS), 2, axis=0)
    spread = second @ np.diag(variance) @ second.T
    seen = second @ answers[:, 0, 0]

    def likelihood(q):
        return multivariate_normal(cov=q * np.eye(STEPS - 2) + spread).logpdf(seen)

    def curve(q):
        return np.linalg.solve(
            np.diag(1 / variance) + second.T @ second / q, answers[:, 0, 0] / variance
        )

    sizes = np.geomspace(1e-9, 1e2, 600)
    best = sizes[np.argmax([likelihood(q) for q in sizes])]
    near = [np.max(np.abs(found - curve(q))) for q in (0.7 * best, best, 1.4 * best)]
    assert near[1] < 0.1 * np.std(found - answers[:, 0, 0])
    assert near[1] < max(near)


def lines_of(values, noise):
    """The weighted level and slope of every demand of a day."""
    basis = np.stack([np.ones(STEPS), HOURS.astype(float)], axis=1)
    weighted = (basis / noise[:, :1] ** 2).T
    return np.linalg.solve(weighted @ basis, weighted @ values[:, :, 0])


def test_smoothing_takes_no_level_and_no_slope_from_anywhere_but_the_answers():
    demand, noise, answers = a_day(12)
    found = smoothed(answers, noise)
    np.testing.assert_allclose(lines_of(found, noise), lines_of(answers, noise), atol=1e-10)
    # planted: a smoothing that is pulled towards the true series
    pulled = 0.9 * found + 0.1 * demand
    assert np.max(np.abs(lines_of(pulled, noise) - lines_of(answers, noise))) > 1e-3


def test_smoothing_leaves_a_fraction_of_the_noise_where_demand_is_smooth():
    demand, noise, answers = a_day(40, sigma=0.1)
    off, before = smoothed(answers, noise) - demand, answers - demand
    for error, share in (
        (lambda x: np.sqrt(np.mean(x**2)), 0.5),
        (lambda x: np.sqrt(np.mean(x[:, :, 0].sum(axis=1) ** 2)), 0.7),
    ):
        assert error(off) < share * error(before)
    # straight lines stay, and so do answers without noise or of two steps
    line = (1 + HOURS[:, None, None] / 7) * np.array([[0.2, 0.1], [0.5, 0.3]])
    np.testing.assert_allclose(smoothed(line, np.full((STEPS, 2), 0.1)), line, atol=1e-10)
    assert smoothed(line, np.zeros((STEPS, 2))) is line
    assert smoothed(line[:2], np.ones((2, 2))).shape == (2, 2, 2)
    np.testing.assert_array_equal(smoothed(0 * line, np.ones((STEPS, 2))), 0)


@pytest.fixture(scope="module")
def fourteen():
    case = bundled_case("case14")
    net = network(case)
    return dc_model(net, costs(case)), net.demand[:, 0]


def test_the_multiplier_is_for_all_limits_of_all_steps_at_once(fourteen):
    model = fourteen[0]
    for steps in (1, 96):
        z = needed_by_day(model, 0.05, steps)
        slabs = steps * (1 + len(model.limited))
        assert (2 * ndtr(z) - 1) ** slabs == pytest.approx(0.95)


def at_the_edge(model, sigma, multiplier, seed):
    """Noise as large as the event allows: |1'n| <= z |sigma| and |(X n)_l| <= z s_l, one equal."""
    noise = sigma * np.random.default_rng(seed).standard_normal(len(sigma))
    flow = state_at(model, noise - np.mean(noise), shifted=False).flow
    used = [abs(noise.sum()) / np.linalg.norm(sigma), *np.abs(flow) / line_spread(model, sigma)]
    return noise * multiplier / max(used)


def failures(model, demand):
    """How many promised steps fail at the edge of the event, smoothed far from the answers."""
    sigma, needed = np.full(len(demand), 0.02), needed_by_day(model, 0.05, 4)
    draw, failed, promised = np.random.default_rng(3), 0, 0
    true = demand[None] * np.array([0.5, 0.6, 0.7, 0.8])[:, None]
    noise = np.stack([at_the_edge(model, sigma, needed, seed) for seed in range(4)])
    answers = true + noise
    pulled = answers + 0.03 * np.sign(noise) * draw.uniform(0.5, 1, answers.shape)
    for step, served in zip(
        dispatched(model, answers, np.tile(sigma, (4, 1)), pulled, needed), true, strict=True
    ):
        if step.kept >= needed:
            promised += 1
            after = realised(model, step.dispatch, step.served, served)
            failed += not after.served
    return promised, failed


def test_on_the_event_every_promised_step_serves_wherever_smoothing_moved_it(fourteen):
    promised, failed = failures(*fourteen)
    assert promised >= 2
    assert failed == 0


def test_room_that_forgets_what_smoothing_moved_is_seen(fourteen, monkeypatch):
    """Planted: the limits keep room for the noise alone, around the smoothed demands."""
    model, demand = fourteen
    answers, sigma, needed = 0.5 * demand, np.full(len(demand), 0.01), 3.0
    smooth = answers - 0.02
    room_for_noise = needed * np.linalg.norm(sigma)
    true = answers + room_for_noise / len(demand)  # on the edge of the event, and no line moves
    ranges = np.zeros_like(model.network.generator_range)
    ranges[0, 1] = smooth.sum() + model.network.shunt[:, 0].sum() + 1.01 * room_for_noise
    ranges[:, 2:] = model.network.generator_range[:, 2:]
    one = replace(model, network=replace(model.network, generator_range=ranges))

    def served():
        given = (answers[None], sigma[None], smooth[None], needed)
        (step,) = dispatched(one, *given)
        return step.kept >= needed, realised(one, step.dispatch, step.served, true).served

    assert served() == (False, False)
    honest = room._with_known_change
    monkeypatch.setattr(
        room, "_with_known_change", lambda m, known, *sizes: honest(m, 0 * known, *sizes)
    )
    assert served() == (True, False)


@pytest.mark.slow
def test_of_all_days_few_have_a_promised_step_that_fails(fourteen):
    model, demand = fourteen
    sigma, needed = np.full(len(demand), 0.05), needed_by_day(model, 0.3, 3)
    true, draw, failed = demand[None] * np.array([[0.6], [0.8], [0.9]]), np.random.default_rng(1), 0
    for _ in range(60):
        answers = true + sigma * draw.standard_normal(true.shape)
        steps = dispatched(model, answers, np.tile(sigma, (3, 1)), answers, needed)
        failed += any(
            step.kept >= needed
            and step.dispatch is not None
            and not realised(model, step.dispatch, step.served, served).served
            for step, served in zip(steps, true, strict=True)
        )
    assert failed <= 18  # three in ten days
