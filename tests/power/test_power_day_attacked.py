"""The answers of a day as they are released, attacked: many runs on neighbouring days."""

import math

import numpy as np
import pytest

from taciturn.engine import run
from taciturn.errors import InputError
from taciturn.kernel.privacy import epsilon_of
from taciturn_power import bundled_case, chosen_zones, network
from taciturn_power.dispatch import asking
from taciturn_power.dispatch.asking import demand_shards, noise_of, plan_demand
from taciturn_power.dispatch.series import Series, smoothed
from taciturn_power.dispatch.study import DayProposal, solve_opf
from taciturn_power.models.cost import costs

BETA, DELTA, EPSILON = 0.01, 1e-3, 10.0
WEIGHTS = np.array([1.0, 4.0, 4.0, 2.0, 1.0])
STEPS, BUS, RUNS = len(WEIGHTS), 3, 250
ERROR = 0.9  # of a realised mu: five standard errors at these runs
CASE = bundled_case("case14")
NET = network(CASE)
ZONES = chosen_zones(NET, None)
DAY = NET.demand[None] * np.array([0.6, 0.8, 0.9, 0.8, 0.7])[:, None, None]
TIMES = {
    "every step": np.ones(STEPS),
    "up and down": (-1.0) ** np.arange(STEPS),
    "one step": np.eye(STEPS)[1],
}


def planned(hide, epsilon=EPSILON, weights=WEIGHTS):
    budget = {"beta": BETA, "epsilon": epsilon, "delta": DELTA}
    return plan_demand(NET, ZONES, weights=weights, hide=hide, **budget)


def moved(demand, hide, times, bus=BUS):
    """The neighbour: what `hide` lets move does so by beta, up or down, at these times."""
    change = np.zeros_like(demand)
    change[:, bus, 0] = BETA
    if hide != "demand":
        change[:, bus, 1] = -BETA
    if hide == "zone":
        change[:, ZONES.of_bus == ZONES.of_bus[bus]] = BETA
    return demand + change * times[:, None, None]


def answers(plan, demand, seed=None):
    """What one run releases: demands of every step, bus and kind."""
    done = run(
        plan,
        demand_shards(NET, ZONES, demand, rows_per_person=plan.terms.adjacency.rows_per_person),
        runtime="simulate",
        seed=seed,
    )
    return np.asarray(done.model).reshape(STEPS, 2, -1).transpose(0, 2, 1)


def released(plan, demand, runs=RUNS):
    """What many private runs release."""
    return np.stack([answers(plan, demand) for _ in range(runs)])


def realised_mu(first, second):
    """How far apart an attacker tells two days, who learns how from half of the runs.

    The direction in which demands are told apart best is learned from some runs, of which means and
    covariance are taken; by how many standard deviations the days differ in it, from the others.
    """
    (learned, tried), (other, new) = (np.array_split(side, 2) for side in (first, second))
    shift = np.mean(other, axis=0) - np.mean(learned, axis=0)
    spread = np.cov(learned - np.mean(learned, axis=0), rowvar=False)
    spread += np.cov(other - np.mean(other, axis=0), rowvar=False)
    direction = np.linalg.solve(spread, shift)
    seen, moved_by = tried @ direction, new @ direction
    size = math.sqrt((np.var(seen, ddof=1) + np.var(moved_by, ddof=1)) / 2)
    return (np.mean(moved_by) - np.mean(seen)) / size


def of_bus(values):
    """The demands of the bus that moves, a row for each run."""
    return values[:, :, BUS].reshape(len(values), -1)


@pytest.fixture(scope="module")
def runs():
    """Private runs on the day and on neighbours of it, with the plan."""
    plan = planned("bus")
    neighbours = {name: moved(DAY, "bus", times) for name, times in TIMES.items()}
    return plan, released(plan, DAY), {n: released(plan, d) for n, d in neighbours.items()}


def certified(plan, times):
    """What the certificate grants an attacker for these times, by the share of each step."""
    return plan.certificate.mu * math.sqrt(np.sum(WEIGHTS * times**2) / np.sum(WEIGHTS))


@pytest.mark.slow
@pytest.mark.parametrize("name", TIMES)
def test_released_days_are_told_apart_as_far_as_certified_and_no_further(runs, name):
    plan, first, seconds = runs
    realised = realised_mu(of_bus(first), of_bus(seconds[name]))
    granted = certified(plan, TIMES[name])
    assert realised == pytest.approx(granted, abs=ERROR)
    curves = [
        np.stack([smoothed(day, noise_of(plan, ZONES)) for day in side])
        for side in (first, seconds[name])
    ]
    assert realised_mu(*map(of_bus, curves)) <= granted + ERROR


@pytest.mark.slow
def test_noise_as_for_one_step_is_told_apart_further_than_certified(runs):
    """Planted: every step has the noise of a day of one step."""
    honest = runs[0]
    needed = honest.certificate.mu * math.sqrt(STEPS)
    cheap = planned("bus", epsilon=epsilon_of(DELTA, needed), weights=np.ones(STEPS))
    one = plan_demand(NET, ZONES, hide="bus", beta=BETA, epsilon=EPSILON, delta=DELTA)
    np.testing.assert_allclose(cheap.ledger.scale, np.max(one.ledger.scale), rtol=1e-4)
    sides = [released(cheap, day) for day in (DAY, moved(DAY, "bus", TIMES["every step"]))]
    assert realised_mu(*map(of_bus, sides)) > honest.certificate.mu + ERROR


@pytest.mark.slow
def test_noise_that_steps_share_is_told_apart_further_than_certified(runs):
    """Planted: the noise of the first step, to the size of each, serves all of them."""
    plan, first, _ = runs
    scale = noise_of(plan, ZONES)
    relative = (scale / scale[0])[None, :, :, None]
    rounding = np.random.default_rng(0).normal(0, 1e-6, first.shape)
    shared = DAY + (first[:, :1] - DAY[:1]) * relative + rounding
    change = moved(DAY, "bus", TIMES["up and down"]) - DAY
    half = RUNS // 2
    assert realised_mu(of_bus(shared[:half]), of_bus(shared[half:] + change)) > 10


@pytest.mark.slow
def test_noise_of_steps_buses_and_zones_is_independent_and_of_the_planned_size(runs):
    plan, first, _ = runs
    noise = (first - DAY) / noise_of(plan, ZONES)[None, :, :, None]
    flat = noise.reshape(RUNS, -1)
    assert np.std(flat) == pytest.approx(1, abs=5 / math.sqrt(2 * flat.size))
    for step in range(STEPS):
        assert np.std(noise[:, step]) == pytest.approx(1, abs=5 / math.sqrt(2 * noise[:, 0].size))
    correlation = np.corrcoef(flat, rowvar=False) - np.eye(flat.shape[1])
    assert np.max(np.abs(correlation)) < 6 / math.sqrt(RUNS)


HARD_DAYS = {
    "plain": DAY,
    "nothing": 0 * DAY,
    "negative": -DAY,
    "a spike": DAY + 50 * (np.arange(STEPS) == 2)[:, None, None] * np.eye(NET.buses)[BUS][:, None],
    "at the bound": 0 * DAY + 1e6 - BETA / 2,
    "beyond the bound": 0 * DAY - 3e7,
    "up and down": 1e3 * DAY * TIMES["up and down"][:, None, None],
}


def furthest(hide):
    """The largest move of an answer to a step over sqrt(c) beta, and of one that may not move.

    With a seed the noise is the same on neighbouring days, so the answers differ by their demands.
    """
    plan, largest, elsewhere = planned(hide), 0.0, 0.0
    zone = ZONES.of_bus == ZONES.of_bus[BUS]
    together = {"demand": 1, "bus": 2, "zone": 2 * np.max(np.bincount(ZONES.of_bus))}[hide]
    for demand in HARD_DAYS.values():
        before = answers(plan, demand, seed=1)
        for times in TIMES.values():
            change = answers(plan, moved(demand, hide, times), seed=1) - before
            sizes = np.linalg.norm(change, axis=(1, 2)) / (math.sqrt(together) * BETA)
            largest = max(largest, np.max(sizes))
            still = change[:, ~zone] if hide == "zone" else np.delete(change, BUS, axis=1)
            elsewhere = max(elsewhere, np.max(np.abs(still)), np.max(sizes[times == 0], initial=0))
    return largest, elsewhere


@pytest.mark.parametrize("hide", ["demand", "bus", pytest.param("zone", marks=pytest.mark.slow)])
def test_no_neighbour_of_a_hard_day_moves_an_answer_beyond_its_bound(hide):
    largest, elsewhere = furthest(hide)
    assert largest == pytest.approx(1, rel=1e-6)
    assert elsewhere < 1e-9


def test_a_bound_on_demands_that_is_read_off_the_day_is_seen(monkeypatch):
    """Planted: demands are cut at a part of the largest one."""

    def cut(demand):
        return np.clip(demand, None, 0.3 * np.max(demand))

    monkeypatch.setattr(asking, "bounded", cut)
    largest, elsewhere = furthest("demand")
    assert max(largest - 1, elsewhere) > 1e-4


def test_a_day_of_other_buses_is_refused_before_anything_is_asked():
    settings = {"hide": "demand", "model": "dc", "eta": 0.05, "beta": BETA, "epsilon": EPSILON}
    settings |= {"delta": DELTA, "first_hour": 0.0, "step_hours": 6.0, "smooth": True}
    proposal = DayProposal.of(NET, costs(CASE), ZONES, weights=tuple(WEIGHTS.tolist()), **settings)
    with pytest.raises(InputError, match="demands of 5 steps and 14 buses"):
        solve_opf(NET, proposal, Series(np.arange(STEPS) * 6.0, DAY[:, :13]), seed=1)
