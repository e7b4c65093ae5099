"""Private optimal power flow: one question, and nothing of a demand but through its answer."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from taciturn.audit import replay
from taciturn.engine import records_for_door, run
from taciturn.errors import InputError
from taciturn.kernel.door.door import Private
from taciturn_power import bundled_case, chosen_zones, network, parse_case
from taciturn_power.delivery import folder_texts
from taciturn_power.dispatch import export as export_room
from taciturn_power.dispatch.asking import (
    demand_shards,
    noise_of,
    plan_demand,
    read_beta,
    records,
    size_warnings,
)
from taciturn_power.dispatch.page import opf_page
from taciturn_power.dispatch.results import OpfReport, opf_warnings, price_of_privacy
from taciturn_power.dispatch.study import OpfProposal, solve_opf
from taciturn_power.methods import TargetsOnce, shared_coordinates
from taciturn_power.models.cost import costs

BETA = 0.1
BUDGET = {"beta": BETA, "epsilon": 1.0, "delta": 1e-3}
CASE = bundled_case("case14")
NET = network(CASE)
ZONES = chosen_zones(NET, None)
SLOW = pytest.mark.slow


def proposal_of(net=NET, **changes):
    settings = {"hide": "demand", "model": "dc", "eta": 0.05, **BUDGET} | changes
    return OpfProposal.of(net, costs(CASE), ZONES, **settings)


@pytest.fixture(scope="module")
def study():
    return solve_opf(NET, proposal_of(beta=0.01), seed=1)


@pytest.mark.slow
def test_replay_of_one_question_keeps_its_bound_and_saturates_it():
    plan = plan_demand(NET, ZONES, hide="bus", **BUDGET)
    rows = plan.terms.adjacency.rows_per_person
    shards = demand_shards(NET, ZONES, NET.demand[None], rows_per_person=rows)
    done = run(plan, shards, runtime="simulate", seed=0, keep=frozenset({"answers", "messages"}))
    private, zone = records_for_door(plan, shards), int(ZONES.of_bus[3])
    which = np.flatnonzero(np.isin(records(NET, ZONES)[zone], [3, 3 + NET.buses]))
    targets = private.shard.targets.at[zone, which].add(BETA)
    other = Private(dataclasses.replace(private.shard, targets=targets), private.records)
    seen = replay(plan, plan.program.oracles, done.trace, private, other)
    assert seen.bounds_hold
    assert seen.messages_hold
    assert seen.realised_mu == pytest.approx(plan.certificate.mu, rel=1e-6)


@pytest.mark.slow
def test_without_noise_the_answers_are_the_demands():
    exact = solve_opf(NET, proposal_of(epsilon=math.inf, eta=0.05), seed=None)
    np.testing.assert_array_equal(exact.answers[0], NET.demand)
    np.testing.assert_array_equal(exact.noise, 0)
    assert exact.needed == exact.steps[0].kept == 0
    assert price_of_privacy(exact, NET.demand)[:2] == pytest.approx((0, 0), abs=1e-3)


def test_the_noise_of_every_bus_is_that_of_its_zone():
    plan = plan_demand(NET, ZONES, hide="zone", **BUDGET)
    held = np.array([len(place) for place in records(NET, ZONES)])
    deviation = noise_of(plan, ZONES)[0] / np.sqrt(held[ZONES.of_bus])
    np.testing.assert_allclose(deviation, deviation[0], rtol=1e-6)


# what is written


def another_state():
    """The same public network with other demands, and solved for them."""
    bus, gen = CASE.bus.copy(), CASE.gen.copy()
    bus[:, 2:4] += 3.7
    bus[:, 7:9] += 0.003
    gen[:, 1:3] += 1.9
    gen[:, 5] *= 1.001
    return dataclasses.replace(CASE, bus=bus, gen=gen)


def told(study, case=CASE, demand=None, *, page=False):
    """All that a run on a file of one's own writes; its page takes long to draw."""
    report = OpfReport(study, opf_warnings(study), case, demand)
    texts, certificate = folder_texts(report, opf_page(report).html() if page else "", Path("out"))
    return {**texts, "certificate": certificate}


@pytest.mark.parametrize("page", [False, pytest.param(True, marks=SLOW)])
def test_nothing_that_is_written_depends_on_a_demand_but_through_its_answer(
    study, page, monkeypatch
):
    ours = told(study, page=page)
    assert ours == told(study, another_state(), page=page)
    assert {"dispatch.m", "buses.csv", "lines.csv", "generators.csv", "ties.csv"} < set(ours)
    honest = export_room.matpower
    for column in (7, 8):  # planted: the exported case keeps a voltage or an angle that was read
        leaking = lambda s, c, k=column: honest(s, c) + f"% {c.bus[:, k].tolist()}\n"  # noqa: E731
        monkeypatch.setattr(export_room, "matpower", leaking)
        assert told(study, page=page) != told(study, another_state(), page=page)


def test_the_true_demand_is_shown_to_its_owner_and_to_nobody_else(study):
    hidden, shown = (
        json.loads(told(study, demand=demand)["results.json"])
        for demand in (None, NET.demand[None])
    )
    assert (hidden["true"], hidden["price"]["noise"]) == (None, None)
    assert shown["true"]["served"] is True
    assert shown["price"]["noise"] is not None


def test_the_exported_case_is_the_network_with_the_answers(study):
    back = network(parse_case(told(study)["dispatch.m"], name="case14", source="dispatch.m"))
    np.testing.assert_allclose(back.demand, study.answers[0], rtol=1e-12)
    for name in ("numbers", "shunt", "voltage", "generator_range", "impedance", "limit", "angle"):
        np.testing.assert_array_equal(getattr(back, name), getattr(NET, name))


@pytest.mark.slow
def test_a_proposal_is_read_back_and_plans_the_same_without_any_demand(study):
    again = OpfProposal.from_json(study.proposal.to_json())
    assert again == study.proposal == proposal_of(network(another_state()), beta=0.01)
    assert again.plan().digest == study.run.plan.digest


def test_a_dispatch_for_other_demands_is_never_called_promised_nor_served(study):
    """Planted: the room is kept, but for demands that nobody answered."""
    step = study.steps[0]
    moved = step._replace(served=step.served - 0.1, moved=0.1 * len(step.served))
    elsewhere = dataclasses.replace(study, steps=(moved,))
    assert (study.promised, elsewhere.promised) == ((True,), (False,))
    for one, said in ((elsewhere, "no:"), (study, "at most 5 % of all runs")):
        assert said in dict(OpfReport(one, (), CASE).rows())["Serves the true demand"]


@pytest.mark.slow
def test_answers_that_leave_no_room_are_told_and_nothing_is_promised():
    noisy = solve_opf(NET, proposal_of(beta=0.2), seed=2)
    assert noisy.promised == (False,)
    assert noisy.steps[0].kept < noisy.needed
    assert any("nothing is promised" in text for text in opf_warnings(noisy))


# what is refused, and how a change is written


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: proposal_of(eta=0.6), "eta is 0.6"),
        (lambda: proposal_of(eta=0.0), "eta is 0"),
        (lambda: proposal_of(model="soc"), "model soc"),
        (lambda: proposal_of(hide="city"), "hide"),
        (
            lambda: TargetsOnce(shared_coordinates([np.array([0, 1]), np.array([1])], 2)),
            "several agents",
        ),
        (
            lambda: TargetsOnce(shared_coordinates([np.array([0, 1])], 2)).questions(2),
            "plan 1 round",
        ),
        (  # noise so little that answers would be clipped
            lambda: plan_demand(NET, ZONES, hide="demand", beta=1e-12, epsilon=50.0, delta=0.01),
            "cannot be represented",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_asked(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_beta_is_read_as_operators_write_it():
    for text, largest, value in (
        ("10MW", None, 0.1), (" 10 mw ", None, 0.1), ("3MVAr", None, 0.03), ("0.05", None, 0.05),
        ("2e-2pu", None, 0.02), ("5%", "200MW", 0.1), ("5 %", "2", 0.1), ("5MW", "200MW", 0.05),
    ):  # fmt: skip
        assert read_beta(text, base_mva=100.0, largest=largest) == pytest.approx(value)
    for text, largest, says in (
        ("ten", None, "write 10MW, 5% or"), ("10kW", None, "write 10MW, 5% or"),
        ("-1MW", None, "beta is -1"), ("nan", None, "beta is nan"), ("infMW", None, "beta is inf"),
        ("5%", None, "its base is missing"), ("5%", "5%", "in MW or per unit"),
        ("e", None, "write 10MW"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=says):
            read_beta(text, base_mva=100.0, largest=largest)


def test_beta_is_compared_with_the_load_of_a_published_case_and_with_public_capacity_else():
    assert "median load" in size_warnings(CASE, 0.001, bundled=True)[0]
    assert size_warnings(CASE, 0.1, bundled=True) == ()
    assert "larger than any demand" in size_warnings(CASE, 5.0, bundled=True)[0]
    ours, theirs = (size_warnings(one, 0.001, bundled=False) for one in (CASE, another_state()))
    assert ours == theirs
    assert "capacity" in ours[0]
