"""A day of demands: what is asked and what it costs; nothing is told but through the answers."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from conftest import attacked_mu
from taciturn.audit import replay
from taciturn.engine import behind_the_door, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.door import Private
from taciturn.kernel.questions import Targets
from taciturn_power import bundled_case, chosen_zones, network
from taciturn_power.delivery import folder_texts
from taciturn_power.dispatch import asking as asking_room
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
from taciturn_power.dispatch.series import Series
from taciturn_power.dispatch.study import DayProposal, OpfProposal, solve_opf, solved_at
from taciturn_power.models.cost import costs

BETA, DELTA = 0.01, 1e-3
WEIGHTS = np.array([1.0, 4.0, 4.0, 2.0, 1.0])
STEPS = len(WEIGHTS)
CHANGED = {"demand": 1, "bus": 2, "zone": 10}  # the largest zone of case14 has five buses
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def fourteen():
    case = bundled_case("case14")
    return case, network(case), chosen_zones(network(case), None)


@pytest.fixture(scope="module")
def series(fourteen):
    load = np.array([0.6, 0.8, 0.9, 0.8, 0.7])
    return Series(np.arange(STEPS) * 6.0, fourteen[1].demand[None] * load[:, None, None])


def planned_of(fourteen, hide="demand", epsilon=1.0, weights=WEIGHTS):
    budget = {"beta": BETA, "epsilon": epsilon, "delta": DELTA}
    return plan_demand(fourteen[1], fourteen[2], weights=weights, hide=hide, **budget)


def proposal_of(fourteen, **changes):
    case, net, zones = fourteen
    settings = {"hide": "demand", "model": "dc", "eta": 0.05, "beta": BETA, "epsilon": 20.0}
    settings |= {"delta": DELTA, "first_hour": 0.0, "step_hours": 6.0, "smooth": True}
    settings |= {"weights": tuple(WEIGHTS.tolist())} | changes
    return DayProposal.of(net, costs(case), zones, **settings)


@pytest.fixture(scope="module")
def study(fourteen, series):
    return solve_opf(fourteen[1], proposal_of(fourteen), series, seed=1)


def moved(private, net, zones, hide, bus=3, times=range(STEPS)):
    """The neighbour: the demands that `hide` lets move, each by beta, at these steps."""
    places = {"demand": [bus], "bus": [bus, bus + net.buses]}.get(hide)
    zone = int(zones.of_bus[bus])
    held = records(net, zones)[zone]
    which = np.arange(len(held)) if places is None else np.flatnonzero(np.isin(held, places))
    width = private.shard.targets.shape[1] // STEPS
    rows = (np.array(list(times))[:, None] * width + which).ravel()
    targets = private.shard.targets.at[zone, rows].add(BETA)
    return Private(dataclasses.replace(private.shard, targets=targets), private.records)


def replayed(planned, fourteen, series, hide, oracles=None):
    _, net, zones = fourteen
    shards = demand_shards(
        net, zones, series.demand, rows_per_person=planned.terms.adjacency.rows_per_person
    )
    keep = frozenset({"answers", "messages"})
    done = run(planned, shards, runtime="simulate", seed=0, keep=keep)
    private = behind_the_door(planned, shards)
    other = moved(private, net, zones, hide)
    return replay(planned, oracles or planned.program.oracles, done.trace, private, other)


@pytest.mark.parametrize("hide", ["demand", pytest.param("bus", marks=SLOW), "zone"])
def test_replay_of_the_day_keeps_its_bounds_and_the_steps_together_saturate_the_certificate(
    fourteen, series, hide
):
    planned = planned_of(fourteen, hide)
    seen = replayed(planned, fourteen, series, hide)
    assert seen.bounds_hold
    assert seen.messages_hold
    assert seen.realised_mu == pytest.approx(planned.certificate.mu, rel=1e-6)


class TwoAtOnce(Targets):
    """Planted fault: an answer about one step tells of the step before, too."""

    def private_part(self, shard, count, query):
        before = query._replace(step=query.step - 1)
        return super().private_part(shard, count, query) + super().private_part(
            shard, count, before
        )


def test_an_answer_that_tells_of_another_step_is_seen(fourteen, series):
    planned = planned_of(fourteen)
    leaking = tuple(
        TwoAtOnce(one.records, one.steps, one.relative_multiplier)
        for one in planned.program.oracles
    )
    seen = replayed(planned, fourteen, series, "demand", leaking)
    assert not seen.bounds_hold
    assert seen.worst_ratio == pytest.approx(2, rel=1e-6)


def test_a_step_that_is_asked_and_not_charged_ends_the_run(fourteen, series):
    """Planted: the ledger says that the third step was not asked."""
    planned = planned_of(fourteen)
    kind = planned.ledger.kind.copy()
    kind[:, 2] = -1
    free = dataclasses.replace(planned, ledger=dataclasses.replace(planned.ledger, kind=kind))
    shards = demand_shards(
        fourteen[1],
        fourteen[2],
        series.demand,
        rows_per_person=planned.terms.adjacency.rows_per_person,
    )
    with pytest.raises(PrivacyError, match="not the planned ones"):
        run(free, shards, runtime="simulate", seed=0)


def test_noise_for_a_moment_is_refused_for_a_day(fourteen, monkeypatch):
    """Planted: every step has the noise of a single question."""
    _, net, zones = fourteen
    one = plan_demand(net, zones, hide="demand", beta=BETA, epsilon=1.0, delta=DELTA)
    honest = asking_room.plan

    def cheap(*given, **named):
        return honest(*given, **named, multiplier=one.multiplier)

    monkeypatch.setattr(asking_room, "plan", cheap)
    with pytest.raises(PrivacyError, match="would spend epsilon"):
        planned_of(fourteen)


def epsilon_at(mu, delta):
    """The epsilon of Gaussian noise, by bisection: an accountant of its own."""
    low, high = 0.0, 100.0
    for _ in range(200):
        epsilon = (low + high) / 2
        spent = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        low, high = (epsilon, high) if spent > delta else (low, epsilon)
    return high


@pytest.mark.parametrize("hide", CHANGED)
def test_the_steps_compose_to_the_budget_and_share_it_by_weight(fourteen, hide):
    planned = planned_of(fourteen, hide)
    zone = int(np.argmax(np.bincount(fourteen[2].of_bus)))
    bus = int(np.flatnonzero(fourteen[2].of_bus == zone)[0])
    noise = noise_of(planned, fourteen[2])[:, bus]
    each = BETA * math.sqrt(CHANGED[hide]) / noise
    assert epsilon_at(np.linalg.norm(each), DELTA) == pytest.approx(1, rel=1e-5)
    share = WEIGHTS / WEIGHTS.sum()
    np.testing.assert_allclose(each**2 / np.sum(each**2), share, rtol=1e-6)
    np.testing.assert_allclose(shares(planned), share, rtol=1e-6)
    assert np.sum(shares(planned)) == pytest.approx(1)


def test_a_rule_that_does_not_share_by_weight_is_seen(fourteen, monkeypatch):
    """Planted: noise in proportion to 1/w and not to its root."""
    monkeypatch.setattr(asking_room, "relative_noise", lambda weights: np.max(weights) / weights)
    planned = planned_of(fourteen)
    assert planned.certificate.epsilon <= 1
    assert np.max(np.abs(shares(planned) - WEIGHTS / WEIGHTS.sum())) > 0.05


def test_equal_weights_give_the_noise_of_a_moment_times_the_root_of_the_steps(fourteen):
    _, net, zones = fourteen
    one = plan_demand(net, zones, hide="bus", beta=BETA, epsilon=1.0, delta=DELTA)
    day = planned_of(fourteen, "bus", weights=np.full(9, 0.2))
    assert len(day.program.oracles) == 1
    np.testing.assert_allclose(day.ledger.scale, 3 * np.max(one.ledger.scale), rtol=1e-6)


def test_a_relation_says_that_every_step_moves(fourteen):
    assert hidden_adjacency("demand", 0.1, 96).changed((960, 192)).tolist() == [96, 96]
    assert hidden_adjacency("bus", 0.1, 96).changed((960, 192)).tolist() == [192, 192]
    assert hidden_adjacency("zone", 0.1, 96).changed((960, 192)).tolist() == [960, 192]
    assert "at each of 96 steps" in hidden_adjacency("bus", 0.1, 96).describe()


def test_targets_that_cannot_lie_evenly_count_as_standing_in_one_step(fourteen):
    spec = planned_of(fourteen).spec
    bound = Targets(10, STEPS).bound(spec, hidden_adjacency("demand", BETA, 2 * STEPS), norm="l2")
    np.testing.assert_allclose(bound.value, math.sqrt(2) * BETA)
    bound = Targets(10, STEPS).bound(spec, hidden_adjacency("demand", BETA, 7), norm="l2")
    np.testing.assert_allclose(bound.value, math.sqrt(7) * BETA)


@pytest.mark.slow
def test_the_likelihood_attack_on_a_day_stays_below_the_certificate_and_comes_close(
    fourteen, series
):
    _, net, zones = fourteen
    planned = planned_of(fourteen, "bus", epsilon=6.0)
    program = planned.program
    first = behind_the_door(
        planned,
        demand_shards(
            net, zones, series.demand, rows_per_person=planned.terms.adjacency.rows_per_person
        ),
    )
    second = moved(first, net, zones, "bus")
    assert attacked_mu(program, first, second) > 0.75 * planned.certificate.mu
    assert attacked_mu(program, first, second) <= planned.certificate.mu
    # one step alone tells its share
    alone = moved(first, net, zones, "bus", times=[1])
    share = math.sqrt(WEIGHTS[1] / WEIGHTS.sum())
    assert attacked_mu(program, first, alone) <= share * planned.certificate.mu * (1 + 1e-6)


def test_without_noise_the_answers_are_the_demands_and_are_not_smoothed(fourteen, series):
    exact = solve_opf(fourteen[1], proposal_of(fourteen, epsilon=math.inf), series, seed=None)
    np.testing.assert_allclose(exact.answers, series.demand, rtol=1e-15)
    np.testing.assert_array_equal(exact.planned, exact.answers)
    assert exact.needed == 0
    cost = DayReport(exact, (), fourteen[0]).results(None)["cost"]
    assert cost == pytest.approx(6 * sum(s.dispatch.cost for s in exact.steps))


def test_without_noise_no_promise_is_called_a_share_of_runs(fourteen, series):
    exact = solve_opf(fourteen[1], proposal_of(fourteen, epsilon=math.inf), series, seed=None)
    assert opf_warnings(exact) == ()


def test_what_follows_the_answers_is_a_function_of_the_answers(study):
    again = solved_at(study.proposal, study.run, study.answers)
    for field in ("noise", "planned", "needed"):
        np.testing.assert_array_equal(getattr(again, field), getattr(study, field))
    for ours, theirs in zip(again.steps, study.steps, strict=True):
        np.testing.assert_array_equal(ours.dispatch.generation, theirs.dispatch.generation)


def told(study, case, demand=None, *, page=False):
    report = DayReport(study, opf_warnings(study), case, demand)
    page_text = opf_page(report).html() if page else ""
    texts, certificate = folder_texts(report, page_text, Path("out"))
    return {**texts, "certificate": certificate}


def another(case):
    """The same public network, with other demands."""
    bus = case.bus.copy()
    bus[:, 2:4] += 2
    return dataclasses.replace(case, bus=bus)


def test_nothing_that_is_written_depends_on_a_demand_but_through_its_answer(
    fourteen, series, study
):
    ours = told(study, fourteen[0])
    assert ours == told(study, another(fourteen[0]))
    assert {"steps.csv", "buses.csv", "lines.csv", "generators.csv"} < set(ours)
    assert ours["buses.csv"].count("\n") == 1 + STEPS * fourteen[1].buses


@pytest.mark.slow
def test_nothing_on_the_page_depends_on_a_demand_but_through_its_answer(fourteen, series, study):
    ours, theirs = (told(study, one, page=True) for one in (fourteen[0], another(fourteen[0])))
    assert ours["report.html"] == theirs["report.html"]


def test_a_file_with_a_true_demand_is_seen(fourteen, series, study):
    """Planted: the report of a private run holds the true series."""
    ours, theirs = (told(study, fourteen[0], demand) for demand in (None, series.demand))
    assert ours != theirs


def test_the_true_demand_is_shown_to_its_owner_and_to_nobody_else(fourteen, series, study):
    assert DayReport(study, (), fourteen[0]).results(None)["true"] is None
    shown = DayReport(study, (), fourteen[0], series.demand).results(None)["true"]
    assert shown["served_steps"] == STEPS
    assert shown["cost"] >= shown["optimum"] - 0.01
    error = np.sqrt(np.mean((study.answers - series.demand) ** 2)) * 100
    assert shown["answers_error_mw"] == pytest.approx(error)


def test_a_proposal_is_read_back_and_plans_the_same_without_any_demand(fourteen, study):
    again = DayProposal.from_json(study.proposal.to_json())
    assert again == study.proposal
    assert again.plan().digest == study.run.plan.digest
    with pytest.raises(InputError, match=r"format is 'taciturn\.opf\.day'"):
        OpfProposal.from_json(study.proposal.to_json())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weights": (1.0, 0.0)}, "a weight is 0"),
        ({"weights": (1.0, -2.0)}, "a weight is -2"),
        ({"weights": (1.0,)}, "1 steps"),
        ({"weights": (1.0,) * 1441}, "1441 steps"),
        ({"weights": (1e-30, 1e30)}, "noise would have scale"),
        ({"weights": (1e-308, 1e308)}, "bring them closer together"),
        ({"weights": (1e-320, 1.0)}, "bring them closer together"),
        ({"step_hours": 0.0}, "step_hours is 0"),
        ({"first_hour": -1.0}, "first_hour is -1"),
    ],
)
def test_a_day_that_cannot_be_asked_is_refused(fourteen, change, says):
    with pytest.raises(InputError, match=says):
        proposal_of(fourteen, **change).plan()


def test_a_series_of_other_steps_is_refused_before_anything_is_asked(fourteen, series):
    later = Series(series.hours + 1.0, series.demand)
    shorter = Series(series.hours[:3], series.demand[:3])
    for other in (later, shorter):
        with pytest.raises(InputError, match="propose again"):
            solve_opf(fourteen[1], proposal_of(fourteen), other, seed=1)


def test_a_demand_of_any_size_is_asked_for_and_none_is_refused(fourteen):
    _, net, zones = fourteen
    demand = np.zeros((2, net.buses, 2))
    demand[0, 3], demand[1, 4] = 1e300, -1e9
    targets = np.asarray(demand_shards(net, zones, demand).stacked.targets)
    assert (np.min(targets), np.max(targets)) == (-1e6, 1e6)
