"""Private power flow: its relaxation, convergence, replay of every arm, load inference."""

import dataclasses
import math

import cvxpy as cp
import numpy as np
import pytest

from taciturn.audit import replay
from taciturn.engine import records_for_door, run
from taciturn.engine.planning import plan
from taciturn.errors import DataError, InputError
from taciturn.kernel.door.door import Private
from taciturn.kernel.privacy import Adjacency, Messages, TargetChange, Terms
from taciturn.kernel.questions import TargetGradient
from taciturn_papers.attacks import infer_demand
from taciturn_power import (
    Settings,
    bundled_case,
    central,
    chosen_zones,
    grid,
    grown_zones,
    network,
    parse_case,
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
def test_the_zones_reach_the_central_optimum_in_forty_rounds_and_their_messages_tell_demands(
    flows, case
):
    flow = flows[case]
    assert flow.objective[-1] < 1e-6  # the central optimum is 0
    assert flow.consensus_residual[-1] < 1e-3
    assert flow.violation[-1] < 1e-3
    found = infer_demand(flow, 4)  # without noise five rounds are enough, and so is one
    assert found.readable.all()
    assert found.error < 1e-5
    np.testing.assert_allclose(found.demand, flow.grid.relaxation.demand, atol=1e-4)


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


def replayed(planned, prepared):
    keep = frozenset({"answers", "messages"})
    done = run(planned, prepared.shards, runtime="simulate", seed=0, keep=keep)
    private = records_for_door(planned, prepared.shards)
    other = neighbour(private, *longest_row(prepared))
    return replay(planned, planned.program.oracles, done.trace, private, other)


@pytest.mark.parametrize(
    ("question", "average"), [("demand", True), ("residual", True), ("gradient", False)]
)
def test_replay_of_every_arm_keeps_the_bound_and_the_messages(small, question, average):
    settings = Settings(question, 2, updates=2, average=average)
    planned = plan_grid(small, settings, beta=BETA, epsilon=1.0, delta=1e-2)
    seen = replayed(planned, small)
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
    method = honest.program.algorithm
    planned = plan(small.spec, method, (AsPublished(),), terms, rounds=1, precision="float64")
    seen = replayed(planned, small)
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


# the relaxation, against complex arithmetic and a second formulation in cvxpy


@pytest.fixture(scope="module", params=["case14", "case118"])
def relaxed(request):
    return relax(network(bundled_case(request.param)))


def state_of(relaxation, v, generation):
    """The relaxation's variables from complex voltages, line by line in complex arithmetic."""
    net, layout = relaxation.network, relaxation.layout
    x = np.zeros(layout.size)
    x[: layout.buses] = np.abs(v) ** 2
    for line, (i, j) in enumerate(net.ends):
        low, high = min(i, j), max(i, j)
        product = v[low] * np.conj(v[high])
        pair = relaxation.pair[line : line + 1]
        x[layout.cosine(pair)], x[layout.sine(pair)] = product.real, product.imag
        # the textbook pi model with an ideal transformer of complex ratio t at the from side
        t = net.tap[line] * np.exp(1j * net.shift[line])
        inner = v[i] / t
        y, b = 1 / net.impedance[line], 0.5j * net.charging[line]
        into = (inner - v[j]) * y
        power_from = inner * np.conj(into + b * inner)
        power_to = v[j] * np.conj(-into + b * v[j])
        parts = (power_from.real, power_from.imag, power_to.real, power_to.imag)
        for kind, value in enumerate(parts):
            x[layout.flow(kind, np.array([line]))] = value
    half = len(generation) // 2
    x[layout.generation(0, np.arange(half))] = generation[:half]
    x[layout.generation(1, np.arange(half))] = generation[half:]
    return x


def bus_admittance(net):
    """Y_bus as MATPOWER assembles it."""
    y_bus = np.zeros((net.buses, net.buses), complex)
    for line, (i, j) in enumerate(net.ends):
        y, b = 1 / net.impedance[line], 0.5j * net.charging[line]
        t = net.tap[line] * np.exp(1j * net.shift[line])
        y_bus[i, i] += (y + b) / np.abs(t) ** 2
        y_bus[i, j] += -y / np.conj(t)
        y_bus[j, i] += -y / t
        y_bus[j, j] += y + b
    return y_bus + np.diag(net.shunt[:, 0] + 1j * net.shunt[:, 1])


def test_the_relaxation_is_that_of_complex_arithmetic(relaxed):
    """Power balance, and true voltages on the boundary of every cone."""
    draw, net = np.random.default_rng(0), relaxed.network
    v = (1 + 0.1 * draw.standard_normal(net.buses)) * np.exp(0.3j * draw.standard_normal(net.buses))
    generation = draw.standard_normal(2 * len(net.generator_bus))
    x = state_of(relaxed, v, generation)
    assert np.max(np.abs(relaxed.equal @ x)) < 1e-12 * np.max(np.abs(x))
    injected = v * np.conj(bus_admittance(net) @ v)
    half = len(generation) // 2
    np.subtract.at(injected, net.generator_bus, generation[:half] + 1j * generation[half:])
    injected += net.demand[:, 0] + 1j * net.demand[:, 1]
    ours = relaxed.balance @ x + relaxed.demand
    np.testing.assert_allclose(ours, np.concatenate([injected.real, injected.imag]), atol=1e-10)
    inside = (relaxed.cones[-1].rows @ x).reshape(-1, 4)
    np.testing.assert_allclose(np.linalg.norm(inside[:, 1:], axis=1), inside[:, 0], rtol=1e-12)


def test_rows_have_the_norms_that_the_sensitivity_rests_on(relaxed):
    rows = relaxed.balance.toarray()
    longest = {14: (5.0, np.sqrt(5)), 118: (13.0, np.sqrt(13))}[relaxed.network.buses]
    assert np.abs(rows).sum(axis=1).max() == pytest.approx(longest[0], abs=1e-12)
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(longest[1], rel=1e-12)
    # the central optimum is zero and meets every limit
    optimum = central(relaxed, relaxed.demand)
    assert optimum.objective < 1e-12
    assert relaxed.violation(optimum.x) < 1e-8


def second_formulation(net, demand):
    """(D.2) written down once more, with complex variables, in cvxpy."""
    w = cp.Variable(net.buses)
    pairs = sorted({(min(i, j), max(i, j)) for i, j in net.ends.tolist()})
    product = {pair: cp.Variable(complex=True) for pair in pairs}
    generated = cp.Variable(len(net.generator_bus), complex=True)
    rules = [w >= net.voltage[:, 0] ** 2, w <= net.voltage[:, 1] ** 2]
    ranges = net.generator_range
    rules += [cp.real(generated) >= ranges[:, 0], cp.real(generated) <= ranges[:, 1]]
    rules += [cp.imag(generated) >= ranges[:, 2], cp.imag(generated) <= ranges[:, 3]]
    out = [0j] * net.buses
    for (i, j), p in product.items():
        flat = cp.hstack([2 * cp.real(p), 2 * cp.imag(p), w[i] - w[j]])
        rules.append(cp.SOC(w[i] + w[j], flat))
    for line, (i, j) in enumerate(net.ends.tolist()):
        cross = product[(i, j)] if i < j else cp.conj(product[(j, i)])  # V_i conj(V_j)
        y, b = 1 / net.impedance[line], 0.5j * net.charging[line]
        t = net.tap[line] * np.exp(1j * net.shift[line])
        to = np.conj((y + b) / abs(t) ** 2) * w[i] + np.conj(-y / np.conj(t)) * cross
        back = np.conj(y + b) * w[j] + np.conj(-y / t) * cp.conj(cross)
        rules += [cp.abs(to) <= net.limit[line], cp.abs(back) <= net.limit[line]]
        least, most = np.tan(net.angle[line])
        rules += [cp.imag(cross) >= least * cp.real(cross), cp.imag(cross) <= most * cp.real(cross)]
        out[i], out[j] = out[i] + to, out[j] + back
    shunt = net.shunt[:, 0] - 1j * net.shunt[:, 1]
    loss = 0
    for bus in range(net.buses):
        made = sum((generated[g] for g in np.flatnonzero(net.generator_bus == bus)), 0j)
        off = out[bus] - made + demand[bus, 0] + 1j * demand[bus, 1] + shunt[bus] * w[bus]
        loss += cp.square(cp.real(off)) + cp.square(cp.imag(off))
    problem = cp.Problem(cp.Minimize(loss), rules)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("factor", [1.0, 2.5])
def test_a_second_formulation_has_the_same_optimum(factor):
    net = network(bundled_case("case14"))
    heavier = dataclasses.replace(net, demand=factor * net.demand)
    relaxation = relax(heavier)
    ours = central(relaxation, relaxation.demand).objective
    theirs = second_formulation(heavier, heavier.demand)
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-8)
    if factor > 1:  # else both are zero, which says little
        assert ours > 0.1


def test_demand_is_in_no_constraint(relaxed):
    other = relax(dataclasses.replace(relaxed.network, demand=relaxed.network.demand + 7.0))
    for name in ("balance", "equal", "angle"):
        assert (getattr(relaxed, name) != getattr(other, name)).nnz == 0
    np.testing.assert_array_equal(relaxed.lower, other.lower)
    np.testing.assert_array_equal(relaxed.upper, other.upper)
    for ours, theirs in zip(relaxed.cones, other.cones, strict=True):
        np.testing.assert_array_equal(ours.constant, theirs.constant)
        assert (ours.rows != theirs.rows).nnz == 0
    np.testing.assert_array_equal(relaxed.flat(), other.flat())


def test_limits_that_contradict_one_another_are_named():
    text = """mpc.baseMVA = 100;
    mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 1.09; 2 1 0 0 0 0 1 1 0 1 1 0.5 0.4];
    mpc.gen = [1 0 0 9 -9 1 1 1 9 0];
    mpc.branch = [1 2 0.01 0.1 0 1 0 0 0 0 1 -30 30];"""
    relaxation = relax(network(parse_case(text, name="tight", source="tight.m")))
    with pytest.raises(DataError, match="tight: no state meets all limits"):
        central(relaxation, relaxation.demand)
