"""The relaxation against complex arithmetic and against a second formulation in cvxpy."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest

from taciturn.errors import DataError
from taciturn_power import bundled_case, central, network, parse_case, relax

pytestmark = pytest.mark.slow


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
        for kind, value in enumerate(
            (power_from.real, power_from.imag, power_to.real, power_to.imag)
        ):
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


def test_power_balance_is_that_of_complex_arithmetic(relaxed):
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


def test_true_voltages_lie_on_the_boundary_of_every_cone(relaxed):
    draw, net = np.random.default_rng(1), relaxed.network
    v = (1 + 0.1 * draw.standard_normal(net.buses)) * np.exp(0.3j * draw.standard_normal(net.buses))
    x = state_of(relaxed, v, np.zeros(2 * len(net.generator_bus)))
    inside = (relaxed.cones[-1].rows @ x).reshape(-1, 4)
    np.testing.assert_allclose(np.linalg.norm(inside[:, 1:], axis=1), inside[:, 0], rtol=1e-12)


def test_rows_have_the_norms_that_the_sensitivity_rests_on(relaxed):
    rows = relaxed.balance.toarray()
    longest = {14: (5.0, np.sqrt(5)), 118: (13.0, np.sqrt(13))}[relaxed.network.buses]
    assert np.abs(rows).sum(axis=1).max() == pytest.approx(longest[0], abs=1e-12)
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(longest[1], rel=1e-12)


def test_the_central_optimum_is_zero_and_meets_every_limit(relaxed):
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
