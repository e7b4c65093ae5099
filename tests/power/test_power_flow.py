"""Private power flow: convergence, replay of every arm, planted faults, load inference."""

import dataclasses
import math

import numpy as np
import pytest

from taciturn.audit import replay
from taciturn.engine import behind_the_door, run
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.door.door import Private
from taciturn.kernel.privacy import Adjacency, Messages, TargetChange, Terms
from taciturn.kernel.questions import TargetGradient
from taciturn_papers.attacks import infer_demand
from taciturn_power import (
    Settings,
    bundled_case,
    chosen_zones,
    grid,
    grown_zones,
    network,
    plan_grid,
    relax,
    solve_privately,
)

pytestmark = pytest.mark.slow

NOISELESS = {"beta": 0.01, "epsilon": math.inf, "delta": 1e-2, "seed": None}
BETA = 0.01


def made(name, **options):
    net = network(bundled_case(name))
    return grid(relax(net), chosen_zones(net, None), **options)


@pytest.fixture(scope="module")
def small():
    return made("case14")


@pytest.fixture(scope="module")
def large():
    return made("case118")


@pytest.fixture(scope="module")
def flows(small, large):
    return [solve_privately(one, Settings("demand", 40), **NOISELESS) for one in (small, large)]


@pytest.mark.parametrize("case", [0, 1])
def test_the_zones_reach_the_central_optimum_in_forty_rounds(flows, case):
    flow = flows[case]
    assert flow.objective[-1] < 1e-6  # the central optimum is 0
    assert flow.consensus_residual[-1] < 1e-3
    assert flow.violation[-1] < 1e-3


def test_linearised_steps_and_several_local_updates_converge_too(small):
    linear = solve_privately(made("case14", linearised=True), Settings("residual", 60), **NOISELESS)
    exact = solve_privately(small, Settings("residual", 25, updates=3), **NOISELESS)
    assert linear.objective[-1] < 0.2 * linear.objective[0]
    assert linear.consensus_residual[-1] < 5e-3
    assert exact.objective[-1] < 1e-5
    for flow in (linear, exact):
        with pytest.raises(InputError, match="one local update and the public Hessian"):
            infer_demand(flow, 1)


def test_one_zone_of_everything_is_the_central_problem(small):
    alone = grid(small.relaxation, grown_zones(small.relaxation.network, 1))
    flow = solve_privately(alone, Settings("demand", 10), **NOISELESS)
    assert flow.objective[-1] < 1e-8
    assert flow.consensus_residual[-1] == 0


def neighbour(private, zone, record):
    """The same zones with one demand moved by beta."""
    targets = private.shard.targets.at[zone, record].add(-BETA)
    return Private(dataclasses.replace(private.shard, targets=targets), private.records)


def longest_row(prepared):
    norms = np.linalg.norm(np.asarray(prepared.shards.stacked.features), axis=2)
    return np.unravel_index(norms.argmax(), norms.shape)


@pytest.mark.parametrize(
    ("question", "average"), [("demand", True), ("residual", True), ("gradient", False)]
)
def test_replay_of_every_arm_keeps_the_bound_and_the_messages(small, question, average):
    settings = Settings(question, 2, updates=2, average=average)
    planned = plan_grid(small, settings, beta=BETA, epsilon=1.0, delta=1e-2)
    keep = frozenset({"answers", "messages"})
    done = run(planned, small.shards, runtime="simulate", seed=0, keep=keep)
    private = behind_the_door(planned, small.shards)
    other = neighbour(private, *longest_row(small))
    seen = replay(planned, planned.program.oracles, done.trace, private, other)
    assert seen.bounds_hold
    assert seen.messages_hold
    assert seen.realised_mu == pytest.approx(planned.certificate.mu, rel=1e-6)  # saturated


class AsPublished(TargetGradient):
    """The published sensitivity: that of one residual, without |a_i|."""

    def facts(self, spec):
        return {**super().facts(spec), "row": 1.0}


def test_the_published_sensitivity_is_caught_as_a_violation(small):
    honest = plan_grid(small, Settings("gradient", 1), beta=BETA, epsilon=1.0, delta=1e-2)
    terms = Terms(1.0, 1e-2, Adjacency(TargetChange(BETA), "record"), Messages())
    planned = plan(
        small.spec, honest.program.algorithm, (AsPublished(),), terms, rounds=1,
        precision="float64",
    )  # fmt: skip
    keep = frozenset({"answers", "messages"})
    done = run(planned, small.shards, runtime="simulate", seed=0, keep=keep)
    private = behind_the_door(planned, small.shards)
    other = neighbour(private, *longest_row(small))
    seen = replay(planned, planned.program.oracles, done.trace, private, other)
    assert not seen.bounds_hold
    assert seen.worst_ratio == pytest.approx(math.sqrt(5), rel=1e-6)
    assert seen.realised_mu == pytest.approx(math.sqrt(5) * planned.certificate.mu, rel=1e-6)


def test_equal_budgets_make_averaged_residuals_as_good_as_demand_and_gradients_worse(small):
    def scale_of_knowledge(question, rounds):
        planned = plan_grid(small, Settings(question, rounds), beta=BETA, epsilon=1, delta=1e-2)
        asked = planned.ledger.asked[0].sum()
        return float(planned.ledger.scale.max()) / math.sqrt(asked)

    demand = scale_of_knowledge("demand", 30)
    assert scale_of_knowledge("residual", 30) == pytest.approx(demand, rel=1e-6)
    assert scale_of_knowledge("gradient", 30) == pytest.approx(math.sqrt(5) * demand, rel=1e-6)


@pytest.mark.parametrize("case", [0, 1])
def test_demand_is_read_off_the_messages_of_a_run_without_noise(flows, case):
    flow = flows[case]
    found = infer_demand(flow, 4)  # five rounds are enough, and so is one
    assert found.readable.all()
    assert found.error < 1e-5
    np.testing.assert_allclose(found.demand, flow.grid.relaxation.demand, atol=1e-4)


@pytest.mark.parametrize("question", ["demand", "residual"])
def test_what_is_left_of_the_attack_is_the_noise_and_a_seed_fixes_the_bits(small, question):
    # as many rounds as the run without noise had: the compiled program is the same
    settings = Settings(question, 40 if question == "demand" else 12)
    first, second = (
        solve_privately(small, settings, beta=BETA, epsilon=1.0, delta=1e-2, seed=3) for _ in "ab"
    )
    np.testing.assert_array_equal(first.state, second.state)
    assert first.run.plan.digest == second.run.plan.digest
    found = infer_demand(first, settings.rounds - 1)
    ledger = first.run.ledger
    knowledge = float(ledger.scale.max()) / math.sqrt(ledger.asked[0].sum())
    # 28 demands: the root mean square of the noise is within 40 % of its scale
    assert found.error == pytest.approx(knowledge, rel=0.4)


@pytest.mark.parametrize(
    "change", [{"question": "load"}, {"rounds": 0}, {"updates": 0}, {"rho": -1.0}]
)
@pytest.mark.unchecked
def test_bad_settings_are_refused(small, change):
    def planned():
        settings = Settings(**{"question": "demand", "rounds": 2, **change})
        return plan_grid(small, settings, beta=BETA, epsilon=1.0, delta=1e-2)

    with pytest.raises(InputError):
        planned()
