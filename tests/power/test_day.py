"""A day of demands: what is asked and what it costs; nothing is told but through the answers."""

import dataclasses
import math
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from conftest import attacked_mu, computed
from taciturn.audit import replay
from taciturn.engine import records_for_door, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.door import Private
from taciturn.kernel.privacy import epsilon_of
from taciturn.kernel.questions import Targets
from taciturn_power import bundled_case, chosen_zones, network
from taciturn_power.delivery import folder_texts
from taciturn_power.dispatch import asking
from taciturn_power.dispatch.asking import (
    demand_shards,
    hidden_adjacency,
    noise_of,
    plan_demand,
    records,
    shares,
)
from taciturn_power.dispatch.page import opf_page
from taciturn_power.dispatch.results import DayReport, opf_warnings
from taciturn_power.dispatch.series import Series, smoothed
from taciturn_power.dispatch.study import DayProposal, OpfProposal, solve_at_answers, solve_opf
from taciturn_power.models.cost import costs

BETA, DELTA, EPSILON = 0.01, 1e-3, 10.0
WEIGHTS = np.array([1.0, 4.0, 4.0, 2.0, 1.0])
STEPS, BUS = len(WEIGHTS), 3
CASE = bundled_case("case14")
NET = network(CASE)
ZONES = chosen_zones(NET, None)
ZONE = ZONES.of_bus == ZONES.of_bus[BUS]
TOGETHER = {"demand": 1, "bus": 2, "zone": 10}  # the largest zone of case14 has five buses
DAY = NET.demand[None] * np.array([0.6, 0.8, 0.9, 0.8, 0.7])[:, None, None]
SERIES = Series(np.arange(STEPS) * 6.0, DAY)
SLOW = pytest.mark.slow


def planned(hide="demand", epsilon=1.0, weights=WEIGHTS):
    budget = {"beta": BETA, "epsilon": epsilon, "delta": DELTA}
    return plan_demand(NET, ZONES, weights=weights, hide=hide, **budget)


def proposal_of(**changes):
    settings = {"hide": "demand", "model": "dc", "eta": 0.05, "beta": BETA, "epsilon": 20.0}
    settings |= {"delta": DELTA, "first_hour": 0.0, "step_hours": 6.0, "smooth": True}
    settings |= {"weights": tuple(WEIGHTS.tolist())} | changes
    return DayProposal.of(NET, costs(CASE), ZONES, **settings)


@pytest.fixture(scope="module")
def study():
    return solve_opf(NET, proposal_of(), SERIES, seed=1)


@pytest.fixture(scope="module")
def exact():
    return solve_opf(NET, proposal_of(epsilon=math.inf), SERIES, seed=None)


def shards_of(plan, demand=DAY):
    rows = plan.terms.adjacency.rows_per_person
    return demand_shards(NET, ZONES, demand, rows_per_person=rows)


# behind the door: replay, likelihood ratios and the composition of the steps


def neighbour(private, hide, times=range(STEPS)):
    """The demands that `hide` lets move do so, each by beta, at these steps."""
    zone = int(ZONES.of_bus[BUS])
    held = records(NET, ZONES)[zone]
    places = {"demand": [BUS], "bus": [BUS, BUS + NET.buses]}.get(hide, held)
    width = private.shard.targets.shape[1] // STEPS
    rows = np.array(list(times))[:, None] * width + np.flatnonzero(np.isin(held, places))
    targets = private.shard.targets.at[zone, rows.ravel()].add(BETA)
    return Private(dataclasses.replace(private.shard, targets=targets), private.records)


def replayed(plan, hide, oracles=None, algorithm=None):
    private = records_for_door(plan, shards_of(plan))
    program = plan.program
    if algorithm is not None:
        program = eqx.tree_at(lambda p: p.algorithm, program, algorithm)
    _, trace = computed(program, private, seed=5, keep=frozenset({"answers", "messages"}))
    return replay(plan, oracles or program.oracles, trace, private, neighbour(private, hide))


@pytest.mark.parametrize("hide", ["demand", pytest.param("bus", marks=SLOW), "zone"])
def test_replay_of_the_day_keeps_its_bounds_and_the_steps_together_saturate_the_certificate(hide):
    plan = planned(hide)
    seen = replayed(plan, hide)
    assert seen.bounds_hold
    assert seen.messages_hold
    assert seen.realised_mu == pytest.approx(plan.certificate.mu, rel=1e-6)


class TwoAtOnce(Targets):
    """Planted fault: an answer about one step tells of the step before, too."""

    def private_part(self, shard, count, query):
        before = query._replace(step=query.step - 1)
        parts = (super(TwoAtOnce, self).private_part(shard, count, q) for q in (query, before))
        return sum(parts)


def test_an_answer_of_another_step_and_noise_for_fewer_demands_are_seen():
    plan = planned()
    leaking = tuple(
        TwoAtOnce(one.records, one.steps, one.relative_multiplier) for one in plan.program.oracles
    )
    for hide, oracles, factor in (("demand", leaking, 2), ("bus", None, math.sqrt(2))):
        seen = replayed(plan, hide, oracles)
        assert not seen.bounds_hold
        assert seen.worst_ratio == pytest.approx(factor, rel=1e-6)


@pytest.mark.slow
def test_a_message_of_more_than_the_answer_is_seen():
    plan = planned()
    algorithm = plan.program.algorithm

    class Clear(type(algorithm)):
        """Planted fault: what is sent carries something that no answer told."""

        def send(self, state, inbox, turn):
            state, message = super().send(state, inbox, turn)
            return state, message + 1e-3 * turn.scale * jnp.arange(message.shape[0])

    fields = {f.name: getattr(algorithm, f.name) for f in dataclasses.fields(algorithm)}
    assert not replayed(plan, "demand", algorithm=Clear(**fields)).messages_hold


def test_a_step_that_is_asked_and_not_charged_ends_the_run():
    """Planted: the ledger says that the third step was not asked."""
    plan = planned()
    kind = plan.ledger.kind.copy()
    kind[:, 2] = -1
    free = dataclasses.replace(plan, ledger=dataclasses.replace(plan.ledger, kind=kind))
    with pytest.raises(PrivacyError, match="not the planned ones"):
        run(free, shards_of(plan), runtime="simulate", seed=0)


def test_noise_for_a_moment_is_refused_for_a_day(monkeypatch):
    """Planted: every step has the noise of a single question."""
    one = plan_demand(NET, ZONES, hide="demand", beta=BETA, epsilon=1.0, delta=DELTA)
    honest = asking.plan
    cheap = lambda *given, **how: honest(*given, **how, multiplier=one.multiplier)  # noqa: E731
    monkeypatch.setattr(asking, "plan", cheap)
    with pytest.raises(PrivacyError, match="would spend epsilon"):
        planned()


def epsilon_at(mu, delta):
    """The epsilon of Gaussian noise, by bisection: an accountant of its own."""
    low, high = 0.0, 100.0
    for _ in range(200):
        epsilon = (low + high) / 2
        spent = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        low, high = (epsilon, high) if spent > delta else (low, epsilon)
    return high


@pytest.mark.parametrize("hide", TOGETHER)
def test_the_steps_compose_to_the_budget_and_share_it_by_weight(hide, monkeypatch):
    plan, share = planned(hide), WEIGHTS / WEIGHTS.sum()
    bus = int(np.flatnonzero(ZONES.of_bus == np.argmax(np.bincount(ZONES.of_bus)))[0])
    each = BETA * math.sqrt(TOGETHER[hide]) / noise_of(plan, ZONES)[:, bus]
    assert epsilon_at(np.linalg.norm(each), DELTA) == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(each**2 / np.sum(each**2), share, rtol=1e-6)
    np.testing.assert_allclose(shares(plan), share, rtol=1e-6)
    # planted: noise in proportion to 1/w and not to its root
    monkeypatch.setattr(asking, "relative_noise", lambda weights: np.max(weights) / weights)
    plan = planned(hide)
    assert plan.certificate.epsilon <= 1
    assert np.max(np.abs(shares(plan) - share)) > 0.05


def test_equal_weights_give_the_noise_of_a_moment_times_the_root_of_the_steps():
    one = plan_demand(NET, ZONES, hide="bus", beta=BETA, epsilon=1.0, delta=DELTA)
    day = planned("bus", weights=np.full(9, 0.2))
    assert len(day.program.oracles) == 1
    np.testing.assert_allclose(day.ledger.scale, 3 * np.max(one.ledger.scale), rtol=1e-6)


def test_a_relation_says_that_every_step_moves():
    for steps, moved in ((96, [[96, 96], [192, 192], [960, 192]]), (1, [[1, 1], [2, 2], [10, 2]])):
        for hide, counts in zip(TOGETHER, moved, strict=True):
            relation = hidden_adjacency(hide, 0.1, steps)
            assert relation.changed((10 * steps, 2 * steps)).tolist() == counts
    assert "at each of 96 steps" in hidden_adjacency("bus", 0.1, 96).describe()
    # targets that cannot lie evenly count as standing in one step
    for steps, together in ((2 * STEPS, 2), (7, 7)):
        near = hidden_adjacency("demand", BETA, steps)
        bound = Targets(10, STEPS).bound(planned().spec, near, norm="l2")
        np.testing.assert_allclose(bound.value, math.sqrt(together) * BETA)


@pytest.mark.slow
def test_the_likelihood_attack_on_a_day_stays_below_the_certificate_and_comes_close():
    plan = planned("bus", epsilon=6.0)
    first = records_for_door(plan, shards_of(plan))
    found = attacked_mu(plan.program, first, neighbour(first, "bus"))
    assert 0.75 * plan.certificate.mu < found <= plan.certificate.mu
    # one step alone tells its share
    share = math.sqrt(WEIGHTS[1] / WEIGHTS.sum())
    alone = attacked_mu(plan.program, first, neighbour(first, "bus", times=[1]))
    assert alone <= share * plan.certificate.mu * (1 + 1e-6)


# what is released, by runs as users make them

TIMES = {
    "every step": np.ones(STEPS),
    "up and down": (-1.0) ** np.arange(STEPS),
    "one step": np.eye(STEPS)[1],
}
# five standard errors of a realised mu: of 130 runs both halves are tried, with what the other
# taught, which is as good as one half of 260
RUNS, ERROR = 130, 0.9


def moved(hide, times, demand=DAY):
    """The neighbour: what `hide` lets move does so by beta, up or down, at these times."""
    change = np.zeros_like(demand)
    change[:, BUS, 0] = BETA
    if hide != "demand":
        change[:, BUS, 1] = -BETA
    if hide == "zone":
        change[:, ZONE] = BETA
    return demand + change * times[:, None, None]


def answers(plan, demand, seed=None):
    """What one run releases: demands of every step, bus and kind."""
    done = run(plan, shards_of(plan, demand), runtime="simulate", seed=seed)
    return np.asarray(done.model).reshape(STEPS, 2, -1).transpose(0, 2, 1)


def released(plan, demand):
    return np.stack([answers(plan, demand) for _ in range(RUNS)])


def realised_mu(first, second):
    """How far apart an attacker tells two days at one bus, who learns how from half of the runs.

    The direction in which demands are told apart best is learned from some runs, of which means and
    covariance are taken; by how many standard deviations the days differ in it, from the others.
    """
    sides = [np.array_split(side[:, :, BUS].reshape(len(side), -1), 2) for side in (first, second)]
    found = []
    for known in (0, 1):
        (learned, tried), (other, new) = (side[::1] if known else side[::-1] for side in sides)
        shift = np.mean(other, axis=0) - np.mean(learned, axis=0)
        spread = np.cov(learned, rowvar=False) + np.cov(other, rowvar=False)
        direction = np.linalg.solve(spread, shift)
        seen, moved_by = tried @ direction, new @ direction
        size = math.sqrt((np.var(seen, ddof=1) + np.var(moved_by, ddof=1)) / 2)
        found.append((np.mean(moved_by) - np.mean(seen)) / size)
    return np.mean(found)


@pytest.fixture(scope="module")
def runs():
    plan = planned("bus", EPSILON)
    return plan, released(plan, DAY)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["up and down", "one step"])
def test_released_days_are_told_apart_as_far_as_certified_and_no_further(runs, name):
    plan, first = runs
    second, times = released(plan, moved("bus", TIMES[name])), TIMES[name]
    granted = plan.certificate.mu * math.sqrt(np.sum(WEIGHTS * times**2) / np.sum(WEIGHTS))
    assert realised_mu(first, second) == pytest.approx(granted, abs=ERROR)
    noise = noise_of(plan, ZONES)
    curves = [np.stack([smoothed(day, noise) for day in side]) for side in (first, second)]
    assert realised_mu(*curves) <= granted + ERROR


@pytest.mark.slow
def test_noise_as_for_one_step_or_that_steps_share_is_told_apart_further_than_certified(runs):
    """Planted: every step has the noise of a day of one step; the noise of one serves all."""
    plan, first = runs
    needed = plan.certificate.mu * math.sqrt(STEPS)
    cheap = planned("bus", epsilon_of(DELTA, needed), np.ones(STEPS))
    one = plan_demand(NET, ZONES, hide="bus", beta=BETA, epsilon=EPSILON, delta=DELTA)
    np.testing.assert_allclose(cheap.ledger.scale, np.max(one.ledger.scale), rtol=1e-4)
    sides = [released(cheap, day) for day in (DAY, moved("bus", TIMES["every step"]))]
    assert realised_mu(*sides) > plan.certificate.mu + ERROR
    scale = noise_of(plan, ZONES)
    rounding = np.random.default_rng(0).normal(0, 1e-6, first.shape)
    shared = DAY + (first[:, :1] - DAY[:1]) * (scale / scale[0])[None, :, :, None] + rounding
    change, half = moved("bus", TIMES["up and down"]) - DAY, RUNS // 2
    assert realised_mu(shared[:half], shared[half:] + change) > 10


@pytest.mark.slow
def test_noise_of_steps_buses_and_zones_is_independent_and_of_the_planned_size(runs):
    plan, first = runs
    noise = (first - DAY) / noise_of(plan, ZONES)[None, :, :, None]
    flat = noise.reshape(RUNS, -1)
    assert np.std(flat) == pytest.approx(1, abs=5 / math.sqrt(2 * flat.size))
    for step in range(STEPS):
        assert np.std(noise[:, step]) == pytest.approx(1, abs=5 / math.sqrt(2 * noise[:, 0].size))
    correlation = np.corrcoef(flat, rowvar=False) - np.eye(flat.shape[1])
    assert np.max(np.abs(correlation)) < 6 / math.sqrt(RUNS)


HARD_DAYS = {
    "plain": DAY,
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
    together = 2 * np.sum(ZONE) if hide == "zone" else TOGETHER[hide]
    for demand in HARD_DAYS.values():
        before = answers(plan, demand, seed=1)
        for times in TIMES.values():
            change = answers(plan, moved(hide, times, demand), seed=1) - before
            sizes = np.linalg.norm(change, axis=(1, 2)) / (math.sqrt(together) * BETA)
            largest = max(largest, np.max(sizes))
            still = change[:, ~ZONE] if hide == "zone" else np.delete(change, BUS, axis=1)
            elsewhere = max(elsewhere, np.max(np.abs(still)), np.max(sizes[times == 0], initial=0))
    return largest, elsewhere


@pytest.mark.parametrize("hide", [pytest.param("demand", marks=SLOW), "bus"])
def test_no_neighbour_of_a_hard_day_moves_an_answer_beyond_its_bound(hide, monkeypatch):
    largest, elsewhere = furthest(hide)
    assert largest == pytest.approx(1, rel=1e-6)
    assert elsewhere < 1e-9
    if hide == "demand":  # planted: a bound that is read off the day, a part of the largest demand
        monkeypatch.setattr(asking, "bounded", lambda x: np.clip(x, None, 0.3 * np.max(x)))
        largest, elsewhere = furthest(hide)
        assert max(largest - 1, elsewhere) > 1e-4


def test_a_demand_of_any_size_is_asked_for_and_none_is_refused():
    """Else the refusal would tell it; clipping moves no two demands apart."""
    demand = np.zeros((2, NET.buses, 2))
    demand[0, 3], demand[0, 4], demand[1, 4] = 1e300, np.inf, -1e9
    targets = np.asarray(demand_shards(NET, ZONES, demand).stacked.targets)
    assert (np.min(targets), np.max(targets)) == (-1e6, 1e6)


# what is computed and written from the answers


def test_without_noise_the_answers_are_the_demands_and_nothing_is_smoothed_or_promised(exact):
    np.testing.assert_allclose(exact.answers, DAY, rtol=1e-15)
    np.testing.assert_array_equal(exact.planned, exact.answers)
    assert exact.needed == 0
    assert opf_warnings(exact) == ()  # no promise is called a share of runs
    cost = DayReport(exact, (), CASE).results(None)["cost"]
    assert cost == pytest.approx(6 * sum(s.dispatch.cost for s in exact.steps))


def test_what_follows_the_answers_is_a_function_of_the_answers(study):
    again = solve_at_answers(study.proposal, study.run, study.answers)
    for field in ("noise", "planned", "needed"):
        np.testing.assert_array_equal(getattr(again, field), getattr(study, field))
    for ours, theirs in zip(again.steps, study.steps, strict=True):
        np.testing.assert_array_equal(ours.dispatch.generation, theirs.dispatch.generation)


def told(study, case=CASE, demand=None, *, page=False):
    report = DayReport(study, opf_warnings(study), case, demand)
    texts, certificate = folder_texts(report, opf_page(report).html() if page else "", Path("out"))
    return {**texts, "certificate": certificate}


@pytest.mark.parametrize("page", [False, pytest.param(True, marks=SLOW)])
def test_nothing_that_is_written_depends_on_a_demand_but_through_its_answer(study, page):
    bus = CASE.bus.copy()
    bus[:, 2:4] += 2  # the same public network, with other demands
    ours = told(study, page=page)
    assert ours == told(study, dataclasses.replace(CASE, bus=bus), page=page)
    assert ours["buses.csv"].count("\n") == 1 + STEPS * NET.buses
    # planted: the report of a private run holds the true series
    assert ours != told(study, demand=DAY, page=page)


def test_the_true_demand_is_shown_to_its_owner_and_to_nobody_else(study):
    assert DayReport(study, (), CASE).results(None)["true"] is None
    shown = DayReport(study, (), CASE, DAY).results(None)["true"]
    assert shown["served_steps"] == STEPS
    assert shown["cost"] >= shown["optimum"] - 0.01
    error = np.sqrt(np.mean((study.answers - DAY) ** 2)) * 100
    assert shown["answers_error_mw"] == pytest.approx(error)


def test_a_proposal_is_read_back_and_plans_the_same_without_any_demand(study):
    again = DayProposal.from_json(study.proposal.to_json())
    assert again == study.proposal
    assert again.plan().digest == study.run.plan.digest
    with pytest.raises(InputError, match=r"format is 'taciturn\.opf\.day'"):
        OpfProposal.from_json(study.proposal.to_json())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weights": (1.0, 0.0)}, "a weight is 0"),
        ({"weights": (1.0,)}, "1 steps"),
        ({"weights": (1.0,) * 1441}, "1441 steps"),
        ({"weights": (1e-30, 1e30)}, "noise would have scale"),
        ({"weights": (1e-308, 1e308)}, "bring them closer together"),
        ({"step_hours": 0.0}, "step_hours is 0"),
        ({"first_hour": -1.0}, "first_hour is -1"),
    ],
)
def test_a_day_that_cannot_be_asked_is_refused(change, says):
    with pytest.raises(InputError, match=says):
        proposal_of(**change).plan()


@pytest.mark.parametrize(
    ("series", "says"),
    [
        (Series(SERIES.hours + 1.0, DAY), "propose again"),
        (Series(SERIES.hours[:3], DAY[:3]), "propose again"),
        (Series(SERIES.hours, DAY[:, :13]), "demands of 5 steps and 14 buses"),
    ],
)
def test_a_series_of_other_steps_or_buses_is_refused_before_anything_is_asked(series, says):
    with pytest.raises(InputError, match=says):
        solve_opf(NET, proposal_of(), series, seed=1)
