import math
import random

import pytest
from certificate_makers import curve_gaussian, epsilon_gaussian
from mpmath import mp, mpf

from taciturn_verify.gaussian import Lattice, choose_mu, solve_epsilon
from taciturn_verify.losses import Event, bound_epsilon, convert, grow_batches, transform


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 1.0, 7.0, 100.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 0.1])
def test_epsilon_of_a_gaussian_inverts_its_curve(mu, delta):
    epsilon = solve_epsilon(mu, delta)
    assert epsilon == pytest.approx(epsilon_gaussian(mu, delta), rel=1e-12)
    if epsilon:
        assert float(curve_gaussian(mu, epsilon) / mpf(delta)) == pytest.approx(1, rel=1e-6)


def test_the_curve_of_a_gaussian_is_its_hockey_stick_integral():
    with mp.workdps(30):
        found = mp.quad(
            lambda x: max(mpf(0), mp.npdf(x, 1) - mp.exp(1) * mp.npdf(x)), [1.5, 3, 6, 20]
        )
        assert float(found) == pytest.approx(float(curve_gaussian(1.0, 1.0)), rel=1e-12)


def test_an_attacker_does_not_beat_the_best_test():
    assert Lattice().rate_mu(0.0, 1e-6) == pytest.approx(0.01, rel=1e-12)
    assert Lattice().rate_mu(2.3263478740408408, 1e-6) == pytest.approx(0.5, rel=1e-12)
    assert Lattice().rate_mu(math.inf, 1e-6) == 1


def test_a_choice_is_randomised_response_at_half_its_range():
    mu = choose_mu(1.0, "replace_one")
    p = 1 / (1 + math.exp(-1.0))
    assert math.erfc(-mu / 2 / math.sqrt(2)) / 2 == pytest.approx(p)
    assert choose_mu(2.0, "zero_out") == pytest.approx(mu)


def test_a_coarse_lattice_gives_no_guarantee():
    assert Lattice(10, 0.9, False).find_etas() == (math.inf, math.inf)
    assert Lattice(10, 0.9, True).find_etas() == (math.inf, math.inf)
    assert Lattice(10**9, 2.0, False).lift([1.0], 1e-6) == [math.inf]
    eta1, eta2 = Lattice(1000, 1e6, True).find_etas()
    k = eta1 * 4 * 1e6
    assert k * (math.log(k) - 1 - math.log(1000 / 2e6)) >= 100
    assert eta2 == pytest.approx(1000 / 8e12)


def test_the_transform_is_the_sum_that_defines_it():
    values = [complex(random.random(), random.random()) for _ in range(16)]
    for k, value in enumerate(transform(values)):
        direct = sum(
            x * complex(math.cos(2 * math.pi * j * k / 16), -math.sin(2 * math.pi * j * k / 16))
            for j, x in enumerate(values)
        )
        assert abs(value - direct) < 1e-12


def enclose(events, delta, truth, gap=0.0102):
    low, high = bound_epsilon(tuple(events), delta)
    assert low <= truth * (1 + 1e-9) + 1e-12
    assert truth * (1 - 1e-9) - 1e-12 <= high <= low * (1 + gap) + 1e-9


@pytest.mark.parametrize(
    ("mu", "delta"),
    [(1.0, 1e-6), (0.01, 1e-6), (5.0, 1e-60), (20.0, 1e-12), (0.3, 1e-2), (3.0, 0.5)],
)
def test_bounds_of_a_gaussian_enclose_its_closed_form(mu, delta):
    enclose([(Event("gaussian", mu), 1)], delta, epsilon_gaussian(mu, delta))


def test_plain_gaussians_are_one():
    both = [(Event("gaussian", 0.3), 4), (Event("gaussian", 0.4), 9)]
    enclose(both, 1e-5, epsilon_gaussian(math.sqrt(1.8), 1e-5))


@pytest.mark.parametrize(("u", "delta"), [(1.0, 1e-6), (0.1, 0.01), (3.0, 0.2), (0.731, 1e-9)])
def test_bounds_of_a_laplace_event_enclose_its_closed_form(u, delta):
    enclose([(Event("laplace", u), 1)], delta, u + 2 * math.log1p(-delta))


def test_two_laplace_events_are_enclosed_by_their_integral():
    u, w, epsilon = 0.8, 0.5, 0.9

    def survive(ratio, loss):  # P and Q of a loss above
        if loss >= ratio:
            return 0.0, 0.0
        if loss < -ratio:
            return 1.0, 1.0
        return 1 - math.exp((loss - ratio) / 2) / 2, math.exp((-loss - ratio) / 2) / 2

    def rest(loss):
        p, q = survive(w, epsilon - loss)
        return p - math.exp(epsilon - loss) * q

    # the first loss has atoms at u and -u, and between the density e^((l-u)/2)/4 under P
    inner = mp.quad(
        lambda loss: mp.exp((loss - u) / 2) / 4 * rest(float(loss)), [-u, epsilon - w, u]
    )
    delta = float(inner) + rest(u - 1e-15) / 2 + rest(-u) * math.exp(-u) / 2
    enclose([(Event("laplace", u), 1), (Event("laplace", w), 1)], delta, epsilon)


@pytest.mark.parametrize("turned", [False, True])
def test_one_poisson_batch_is_enclosed_by_its_closed_form(turned):
    q, u, epsilon = 0.2, 1.3, 0.15
    # amplification: δ(log(1 + q(e^ε' - 1))) = q δ'(ε'); the other order is δ of q-mixtures below 1
    if not turned:
        inner = math.log1p(math.expm1(epsilon) / q)
        delta = q * float(curve_gaussian(u, inner))
        enclose([(Event("gaussian", u, q), 1)], delta, epsilon)
    else:

        def excess(x):
            return mp.npdf(x) - mp.exp(epsilon) * ((1 - q) * mp.npdf(x) + q * mp.npdf(x, u))

        root = float(mp.findroot(excess, -0.3))
        delta = float(mp.quad(excess, [-20, root]))
        assert bound_epsilon(((Event("gaussian", u, q), 1),), delta)[1] >= epsilon


def estimate(sample, times, epsilon, count=4000):
    """Return δ(ε) of a composition by Monte Carlo, and the error of it."""
    random.seed(7)
    values = [
        max(0.0, -math.expm1(epsilon - sum(sample() for _ in range(times)))) for _ in range(count)
    ]
    mean = math.fsum(values) / count
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values)) / count


@pytest.mark.slow
def test_poisson_batches_agree_with_monte_carlo():
    u, q, times, epsilon = 1.0, 0.2, 10, 0.7

    def zero_out():
        x = random.gauss(u if random.random() < q else 0, 1)
        return math.log1p(q * math.expm1(u * x - u * u / 2))

    def replace_one():
        x = random.gauss(u / 2 if random.random() < q else 0, 1)
        return math.log(
            (1 - q + q * math.exp(u * x / 2 - u * u / 8))
            / (1 - q + q * math.exp(-u * x / 2 - u * u / 8))
        )

    for sample, two in ((zero_out, False), (replace_one, True)):
        delta, error = estimate(sample, times, epsilon)
        assert error < delta / 10
        event = ((Event("gaussian", u, q, two), times),)
        low, high = (bound_epsilon(event, delta + k * error)[k < 0] for k in (4, -4))
        assert low <= epsilon <= high


@pytest.mark.slow
def test_ten_thousand_answers_are_bounded_within_seconds():
    low, high = bound_epsilon(
        ((Event("gaussian", 1.0, 0.01), 6000), (Event("gaussian", 0.5, 0.02), 4000)), 1e-5
    )
    assert 3 < low <= high < 1.0102 * low


def test_the_order_of_events_does_not_matter():
    events = (
        (Event("laplace", 0.3, 0.5), 3),
        (Event("gaussian", 0.3), 2),
        (Event("laplace", 0.2), 2),
    )
    assert bound_epsilon(events, 1e-5) == pytest.approx(bound_epsilon(events[::-1], 1e-5))


def test_nothing_costs_nothing_and_no_noise_everything():
    assert bound_epsilon((), 1e-5) == (0, 0)
    free = ((Event("gaussian", math.inf), 1),)
    assert bound_epsilon(free, 1e-5) == (math.inf, math.inf)


@pytest.mark.parametrize("zero_out", [False, True])
def test_the_curve_of_an_objective_is_the_smaller_of_its_integrals(zero_out):
    u, jump, step = 0.4, 0.05, 0.01
    grown, far = math.expm1(jump), 6.0
    curve = Event("inside", u, two=not zero_out, jump=jump).trace_inside(step, 1e-12)

    def tail(t, a):
        return math.erfc(max(0, t / a - a / 2) / math.sqrt(2))

    def second(m):
        t = m - jump - u * u / 2
        if t < 0:
            return 1.0
        if zero_out:
            farther = max(t / u, math.sqrt(t / grown))
            return (math.erfc(t / u / math.sqrt(2)) + math.erfc(farther / math.sqrt(2))) / 2
        radii = [t / u + (2 * i / 48) ** 2 for i in range(49)]
        total = math.exp(-(radii[48] ** 2) / 2)
        for i in range(1, 49):
            cosine = (t - grown * radii[i] ** 2) / (u * radii[i])
            share = 1 if cosine <= 0 else math.acos(min(1, cosine)) / math.pi
            total += (math.exp(-(radii[i - 1] ** 2) / 2) - math.exp(-(radii[i] ** 2) / 2)) * share
        return total

    def integrate(p, e):
        points = [e + (far - e) * (i + 0.5) / 4000 for i in range(4000)]
        return sum(math.exp(e - m) * p(m) for m in points) * (far - e) / 4000

    for k in (0, 10, 60, 150):
        e = k * step
        best = integrate(second, e)
        if not zero_out:
            firsts = []
            for j in range(16):
                a, b = u * math.cos(j * math.pi / 64), u * math.sin((j + 1) * math.pi / 64)
                both = lambda m, a=a, b=b: (1 - tail(m - jump, a)) * (1 - tail(m - jump, b))  # noqa: E731
                firsts.append(integrate(lambda m, both=both: 1 - both(m), e))
            best = min(best, max(firsts))
        assert curve[k] == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("zero_out", [False, True])
def test_one_objective_is_enclosed_by_its_curve(zero_out):
    curve = Event("inside", 0.4, two=not zero_out, jump=0.05).trace_inside(0.001, 1e-14)
    low, high = bound_epsilon(((Event("inside", 0.4, two=not zero_out, jump=0.05), 1),), curve[900])
    assert low <= 0.9 <= high <= 1.0102 * low


def test_many_objectives_cost_what_their_hull_costs():
    low, high = bound_epsilon(((Event("inside", 0.694, two=True, jump=0.05), 20),), 5.7e-3)
    assert 14.78 < low < 14.93 < high < 15.01


def growth(u, gamma, order):
    """Return the terms of a batch by the sum that defines them, with 200 digits."""
    rho = [mpf(j) * mpf(u) ** 2 / 2 for j in range(order + 4)]
    b = [
        mp.fsum((-1) ** i * mp.binomial(n, i) * mp.exp((i - 1) * rho[i]) for i in range(n + 1))
        for n in range(order + 4)
    ]
    rest = min(4 * mp.expm1(rho[2]), 2 * mp.exp(rho[2]))
    total = 1 + mpf(gamma) ** 2 * mp.binomial(order, 2) * rest
    for j in range(3, order + 1):
        mixed = 4 * mp.sqrt(b[2 * (j // 2)] * b[2 * ((j + 1) // 2)])
        power = min(mixed, 2 * mp.exp((j - 1) * rho[j]))
        total += mpf(gamma) ** j * mp.binomial(order, j) * power
    return mp.log(total)


def test_a_batch_grows_by_the_sum_that_defines_it():
    for u, gamma in ((0.01, 0.3), (0.3, 0.02), (1.5, 0.9)):
        logs = grow_batches(u, gamma, 20)
        with mp.workdps(200):
            for order in (2, 3, 8, 20):
                assert logs[order] == pytest.approx(float(growth(u, gamma, order)), rel=1e-9)


def test_batches_cost_the_least_over_all_orders():
    u, gamma, times, delta = 0.8, 0.1, 40, 1e-5
    with mp.workdps(60):
        best = min(
            times * growth(u, gamma, a) / (a - 1)
            + mp.log(1 - mpf(1) / a)
            - mp.log(delta * a) / (a - 1)
            for a in range(2, 24)
        )
    epsilon = convert(((u, gamma, times),), 0.0, delta)
    assert 0.97 * best < epsilon <= best * (1 + 1e-12)
    assert convert(((u, gamma, times),), 0.25, delta) > epsilon
    assert convert(((1e-3, 0.1, 1),), 0.0, 0.5) == 0
