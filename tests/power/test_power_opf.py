"""Private optimal power flow: one question, and nothing of a demand but through its answer."""

import dataclasses
import json
import math
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import attacked_mu, computed
from taciturn.audit import replay
from taciturn.engine import behind_the_door, run
from taciturn.engine.planning import plan
from taciturn.errors import DataError, InputError
from taciturn.kernel.door.door import Private
from taciturn.kernel.privacy import Messages, Terms
from taciturn.kernel.questions import Targets
from taciturn_power import bundled_case, chosen_zones, network, parse_case
from taciturn_power.delivery import folder_texts
from taciturn_power.dispatch import export as export_room
from taciturn_power.dispatch.asking import (
    demand_shards,
    hidden_adjacency,
    noise_of,
    plan_demand,
    read_beta,
    records,
    size_warnings,
)
from taciturn_power.dispatch.page import opf_page
from taciturn_power.dispatch.results import (
    OpfReport,
    opf_warnings,
    price_of_privacy,
)
from taciturn_power.dispatch.study import OpfProposal, solve_opf, solved_at
from taciturn_power.methods import (
    TargetsOnce,
    shared_coordinates,
)
from taciturn_power.models.cost import costs

BETA, EPSILON, DELTA = 0.1, 1.0, 1e-3
BUDGET = {"beta": BETA, "epsilon": EPSILON, "delta": DELTA}


@pytest.fixture(scope="module")
def fourteen():
    case = bundled_case("case14")
    return case, network(case), chosen_zones(network(case), None)


def proposal_of(fourteen, **changes):
    case, net, zones = fourteen
    settings = {"hide": "demand", "model": "dc", "eta": 0.05, **BUDGET} | changes
    return OpfProposal.of(net, costs(case), zones, **settings)


@pytest.fixture(scope="module")
def study(fourteen):
    return solve_opf(fourteen[1], proposal_of(fourteen, beta=0.01), seed=1)


def moved(private, net, zones, hide, bus=3):
    """The neighbour: the demands that `hide` lets move, each by beta."""
    place = {"demand": [bus], "bus": [bus, bus + net.buses]}.get(hide)
    zone = int(zones.of_bus[bus])
    held = records(net, zones)[zone]
    which = np.arange(len(held)) if place is None else np.flatnonzero(np.isin(held, place))
    targets = private.shard.targets.at[zone, which].add(BETA)
    return Private(dataclasses.replace(private.shard, targets=targets), private.records)


def replayed(planned, fourteen, hide):
    _, net, zones = fourteen
    shards = demand_shards(
        net, zones, net.demand[None], rows_per_person=planned.terms.adjacency.rows_per_person
    )
    keep = frozenset({"answers", "messages"})
    done = run(planned, shards, runtime="simulate", seed=0, keep=keep)
    private = behind_the_door(planned, shards)
    other = moved(private, net, zones, hide)
    return replay(planned, planned.program.oracles, done.trace, private, other)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "hide", [pytest.param("demand", marks=SLOW), "bus", pytest.param("zone", marks=SLOW)]
)
def test_replay_of_the_question_keeps_its_bound_and_saturates_it(fourteen, hide):
    _, net, zones = fourteen
    planned = plan_demand(net, zones, hide=hide, **BUDGET)
    seen = replayed(planned, fourteen, hide)
    assert seen.bounds_hold
    assert seen.messages_hold
    assert seen.realised_mu == pytest.approx(planned.certificate.mu, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("hide", "factor"), [("bus", math.sqrt(2)), ("zone", math.sqrt(10))])
def test_noise_for_one_demand_is_seen_to_be_too_little_for_more(fourteen, hide, factor):
    """Planted: a bus or a zone hidden with the noise of a single demand."""
    _, net, zones = fourteen
    planned = plan_demand(net, zones, hide="demand", **BUDGET)
    seen = replayed(planned, fourteen, hide)
    assert not seen.bounds_hold
    assert seen.worst_ratio == pytest.approx(factor, rel=1e-6)


class Clear(TargetsOnce):
    """Planted fault: what is sent carries something that no answer told."""

    def send(self, state, inbox, turn):
        state, message = super().send(state, inbox, turn)
        return state, message + 1e-3 * turn.scale * jnp.arange(message.shape[0])


@pytest.mark.slow
def test_a_message_of_more_than_the_answer_is_seen(fourteen):
    _, net, zones = fourteen
    planned = plan_demand(net, zones, hide="demand", **BUDGET)
    program = planned.program
    private = behind_the_door(
        planned,
        demand_shards(
            net, zones, net.demand[None], rows_per_person=planned.terms.adjacency.rows_per_person
        ),
    )
    leaking = eqx.tree_at(lambda p: p.algorithm, program, Clear(program.algorithm.sharing))
    _, trace = computed(leaking, private, seed=5, keep=frozenset({"answers", "messages"}))
    other = moved(private, net, zones, "demand")
    assert not replay(planned, program.oracles, trace, private, other).messages_hold


@pytest.mark.slow
def test_the_likelihood_attack_on_a_bus_stays_below_the_certificate_and_comes_close(fourteen):
    _, net, zones = fourteen
    planned = plan_demand(net, zones, hide="bus", beta=BETA, epsilon=6.0, delta=1e-5)
    program, first = (
        planned.program,
        behind_the_door(
            planned,
            demand_shards(
                net,
                zones,
                net.demand[None],
                rows_per_person=planned.terms.adjacency.rows_per_person,
            ),
        ),
    )
    second = moved(first, net, zones, "bus")

    found = attacked_mu(program, first, second)
    assert 0.75 * planned.certificate.mu < found <= planned.certificate.mu


@pytest.mark.slow
def test_without_noise_the_answers_are_the_demands(fourteen):
    _, net, _ = fourteen
    exact = solve_opf(net, proposal_of(fourteen, epsilon=math.inf, eta=0.05), seed=None)
    np.testing.assert_array_equal(exact.answers[0], net.demand)
    np.testing.assert_array_equal(exact.noise, 0)
    assert exact.needed == exact.steps[0].kept == 0
    assert price_of_privacy(exact, net.demand)[:2] == pytest.approx((0, 0), abs=1e-3)


def test_the_noise_of_every_bus_is_that_of_its_zone(fourteen):
    _, net, zones = fourteen
    planned = plan_demand(net, zones, hide="zone", **BUDGET)
    held = np.array([len(place) for place in records(net, zones)])
    deviation = noise_of(planned, zones)[0] / np.sqrt(held[zones.of_bus])
    np.testing.assert_allclose(deviation, deviation[0], rtol=1e-6)


def another_state(case):
    """The same public network with other demands, and solved for them."""
    bus, gen = case.bus.copy(), case.gen.copy()
    bus[:, 2:4] += 3.7
    bus[:, 7:9] += 0.003
    gen[:, 1:3] += 1.9
    gen[:, 5] *= 1.001
    return dataclasses.replace(case, bus=bus, gen=gen)


def told(study, case, *, page=False):
    """All that a run on a file of one's own writes; its page takes long to draw."""
    report = OpfReport(study, opf_warnings(study), case)
    page_text = opf_page(report).html() if page else ""
    texts, certificate = folder_texts(report, page_text, Path("out"))
    return {**texts, "certificate": certificate}


def test_nothing_that_is_written_depends_on_a_demand_but_through_its_answer(fourteen, study):
    case, _, _ = fourteen
    ours, theirs = told(study, case), told(study, another_state(case))
    assert ours == theirs
    assert {"dispatch.m", "buses.csv", "lines.csv", "generators.csv", "ties.csv"} < set(ours)


@pytest.mark.slow
def test_nothing_on_the_page_depends_on_a_demand_but_through_its_answer(fourteen, study):
    case, _, _ = fourteen
    ours, theirs = (told(study, one, page=True) for one in (case, another_state(case)))
    assert ours["report.html"] == theirs["report.html"]


@pytest.mark.parametrize("column", [7, 8])
def test_a_state_copied_from_the_case_is_seen(fourteen, study, monkeypatch, column):
    """Planted: the exported case keeps a voltage or an angle of the one that was read."""
    case, _, _ = fourteen
    honest = export_room.matpower

    def leaking(study, case):
        return honest(study, case) + f"% {case.bus[:, column].tolist()}\n"

    monkeypatch.setattr(export_room, "matpower", leaking)
    assert told(study, case) != told(study, another_state(case))


@pytest.mark.slow
def test_what_follows_the_answers_is_a_function_of_the_answers(fourteen, study):
    again = solved_at(study.proposal, study.run, study.answers)
    assert again.needed == study.needed
    assert again.promised == study.promised
    (ours,), (theirs,) = again.steps, study.steps
    assert ours.kept == theirs.kept
    np.testing.assert_array_equal(ours.dispatch.generation, theirs.dispatch.generation)


def test_the_true_demand_is_shown_to_its_owner_and_to_nobody_else(fourteen, study):
    case, net, _ = fourteen
    hidden = json.loads(told(study, case)["results.json"])
    assert hidden["true"] is None
    assert hidden["price"]["noise"] is None
    report = OpfReport(study, (), case, net.demand[None])
    shown = json.loads(folder_texts(report, "", Path("out"))[0]["results.json"])
    assert shown["true"]["served"] is True
    assert shown["price"]["noise"] is not None


@pytest.mark.slow
def test_the_exported_case_is_the_network_with_the_answers(fourteen, study):
    case, net, _ = fourteen
    text = told(study, case)["dispatch.m"]
    back = network(parse_case(text, name="case14", source="dispatch.m"))
    np.testing.assert_allclose(back.demand, study.answers[0], rtol=1e-12)
    for name in ("numbers", "shunt", "voltage", "generator_range", "impedance", "limit", "angle"):
        np.testing.assert_array_equal(getattr(back, name), getattr(net, name))


@pytest.mark.slow
def test_a_proposal_is_read_back_and_plans_the_same_without_any_demand(fourteen, study):
    again = OpfProposal.from_json(study.proposal.to_json())
    assert again == study.proposal
    assert again.plan().digest == study.run.plan.digest
    other = network(another_state(fourteen[0]))
    assert proposal_of((fourteen[0], other, fourteen[2]), beta=0.01) == study.proposal


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"eta": 0.6}, "eta is 0.6"),
        ({"eta": 0.0}, "eta is 0"),
        ({"model": "soc"}, "model soc"),
        ({"hide": "city"}, "hide"),
    ],
)
def test_a_proposal_that_contradicts_itself_is_refused(fourteen, change, says):
    with pytest.raises(InputError, match=says):
        proposal_of(fourteen, **change)


@pytest.mark.slow
def test_answers_that_leave_no_room_are_told_and_nothing_is_promised(fourteen):
    noisy = solve_opf(fourteen[1], proposal_of(fourteen, beta=0.2), seed=2)
    assert noisy.promised == (False,)
    assert noisy.steps[0].kept < noisy.needed
    assert any("nothing is promised" in text for text in opf_warnings(noisy))


def test_a_target_of_two_agents_and_a_second_round_are_refused():
    with pytest.raises(InputError, match="several agents"):
        TargetsOnce(shared_coordinates([np.array([0, 1]), np.array([1])], 2))
    alone = TargetsOnce(shared_coordinates([np.array([0, 1])], 2))
    with pytest.raises(InputError, match="plan 1 round"):
        alone.questions(2)


@pytest.mark.parametrize(
    ("text", "largest", "value"),
    [
        ("10MW", None, 0.1),
        (" 10 mw ", None, 0.1),
        ("3MVAr", None, 0.03),
        ("0.05", None, 0.05),
        ("2e-2pu", None, 0.02),
        ("5%", "200MW", 0.1),
        ("5 %", "2", 0.1),
        ("5MW", "200MW", 0.05),
    ],
)
def test_beta_is_read_as_operators_write_it(text, largest, value):
    assert read_beta(text, base_mva=100.0, largest=largest) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "largest", "says"),
    [
        ("ten", None, "write 10MW, 5% or"),
        ("10kW", None, "write 10MW, 5% or"),
        ("-1MW", None, "beta is -1"),
        ("nan", None, "beta is nan"),
        ("infMW", None, "beta is inf"),
        ("5%", None, "its base is missing"),
        ("5%", "5%", "in MW or per unit"),
        ("e", None, "write 10MW"),
    ],
)
def test_a_beta_that_says_nothing_is_one_line(text, largest, says):
    with pytest.raises(InputError) as caught:
        read_beta(text, base_mva=100.0, largest=largest)
    assert says in str(caught.value)


def test_beta_is_compared_with_the_load_of_a_published_case_and_with_public_capacity_else(fourteen):
    case = fourteen[0]
    assert "median load" in size_warnings(case, 0.001, bundled=True)[0]
    assert size_warnings(case, 0.1, bundled=True) == ()
    assert "larger than any demand" in size_warnings(case, 5.0, bundled=True)[0]
    ours, theirs = (size_warnings(one, 0.001, bundled=False) for one in (case, another_state(case)))
    assert ours == theirs
    assert "capacity" in ours[0]


def test_a_relation_names_what_is_hidden():
    assert hidden_adjacency("bus", 0.1).changed((8, 2, 1)).tolist() == [2, 2, 1]
    assert hidden_adjacency("zone", 0.1).changed((8, 2)).tolist() == [8, 2]


def test_a_plan_with_more_targets_than_answers_is_no_plan(fourteen):
    _, net, zones = fourteen
    places = records(net, zones)
    terms = Terms(1.0, 1e-3, hidden_adjacency("demand", 0.1), Messages())
    spec = plan_demand(net, zones, hide="demand", **BUDGET).spec
    method = TargetsOnce(shared_coordinates(places, 2 * net.buses))
    with pytest.raises(InputError, match="plan 1 round"):
        plan(spec, method, (Targets(12),), terms, rounds=2, precision="float64")


def test_a_demand_of_any_size_is_asked_for_and_none_is_refused(fourteen):
    """Else the refusal would tell it; clipping moves no two demands apart."""
    case, _, zones = fourteen
    bus = case.bus.copy()
    bus[3, 2], bus[4, 2] = 1.1e8 * 100, np.inf
    large = network(dataclasses.replace(case, bus=bus))
    targets = np.asarray(demand_shards(large, zones, large.demand[None]).stacked.targets)
    assert np.all(np.isfinite(targets))
    assert np.max(targets) == 1e6


def test_a_malformed_demand_is_not_quoted():
    text = "mpc.baseMVA = 1;\nmpc.bus = [1 3 94.2*7 0 0 0 1 1 0 1 1 1.1 .9];\n"
    with pytest.raises(DataError) as caught:
        parse_case(text, name="own", source="own.m")
    assert "a demand in row 1" in str(caught.value)
    assert "94.2" not in str(caught.value)


def test_noise_so_little_that_answers_would_be_clipped_is_refused_before_they_are_asked(fourteen):
    _, net, zones = fourteen
    with pytest.raises(InputError, match="does not fit"):
        plan_demand(net, zones, hide="demand", beta=1e-12, epsilon=50.0, delta=0.01)


def test_a_dispatch_for_other_demands_is_never_called_promised_nor_served(fourteen, study):
    """Planted: the room is kept, but for demands that nobody answered."""
    step = study.steps[0]
    moved = step._replace(served=step.served - 0.1, moved=0.1 * len(step.served))
    elsewhere = dataclasses.replace(study, steps=(moved,))
    assert study.promised == (True,)
    assert elsewhere.promised == (False,)
    rows = dict(OpfReport(elsewhere, (), fourteen[0]).rows())
    assert rows["Serves the true demand"].startswith("no:")
    marked = dict(OpfReport(study, (), fourteen[0]).rows())
    assert "of all runs, at most 5 %" in marked["Serves the true demand"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("0.9];", "0.9] * 2;", "followed by"),
        ("0.9];", "0.9]';", "followed by"),
        ("0.9];", "0.9];\nmpc.bus = [1];", "assigned twice"),
    ],
)
def test_a_matrix_that_is_computed_or_assigned_twice_is_refused(old, new, says):
    text = "mpc.baseMVA = 1;\nmpc.bus = [1 3 9 0 0 0 1 1 0 1 1 1.1 0.9];\n"
    with pytest.raises(DataError, match=says):
        parse_case(text.replace(old, new), name="own", source="own.m")
