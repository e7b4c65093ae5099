import math

import numpy as np
import pytest
from scipy import integrate, stats

from taciturn.calibration import gaussian_multiplier, multiplier_for
from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    BoundedChange,
    Exact,
    GaussianAnswer,
    LaplaceAnswer,
    ReplaceOne,
    Sampled,
    TargetChange,
    ZeroOut,
    account,
)

ZERO, REPLACE = ZeroOut(), ReplaceOne()


def epsilon(event, count, relation, delta=1e-6):
    return account([(event, count)], delta=delta, relation=relation).epsilon


def mixture(centre, rate, sigma):
    def density(x):
        return (1 - rate) * stats.norm.pdf(x, 0, sigma) + rate * stats.norm.pdf(x, centre, sigma)

    return density


def sandwich(p, q, points, *, count, delta):
    """Bounds on epsilon by binning the losses of a pair of densities down and up."""
    bounds = []
    h, width = 1e-3, points[1] - points[0]
    mass, loss = p(points) * width, np.log(p(points) / q(points))
    for rounding in (np.floor, np.ceil):
        bins = rounding(loss / h).astype(int)
        low = bins.min()
        one = np.bincount(bins - low, weights=mass)
        size = len(one) * count
        whole = np.fft.irfft(np.fft.rfft(one, size) ** count, size)
        losses = (np.arange(size) + low * count) * h

        def excess(e, whole=whole, losses=losses):
            above = losses > e
            return np.sum(whole[above] * -np.expm1(e - losses[above]))

        grid = np.arange(0, 20, 1e-3)
        low_index, high_index = 0, len(grid) - 1
        while high_index - low_index > 1:
            middle = (low_index + high_index) // 2
            keep = excess(grid[middle]) > delta
            low_index, high_index = (middle, high_index) if keep else (low_index, middle)
        bounds.append((grid[low_index], grid[high_index]))
    return bounds[0][0], bounds[1][1]


def test_published_laplace_number():
    assert epsilon(LaplaceAnswer(30.0), 100, ZERO) == pytest.approx(1.4159, abs=6e-5)


@pytest.mark.parametrize(("rounds", "expected"), [(1000, 2.1245), (10_000, 6.9074)])
def test_published_sampled_gaussian_numbers(rounds, expected):
    event = Sampled(GaussianAnswer(1.0), 0.01)
    assert epsilon(event, rounds, ZERO) == pytest.approx(expected, abs=6e-5)


def test_one_laplace_answer_matches_its_closed_form():
    # delta(e) = 1 - exp((e - 1/b)/2), so e = 1/b + 2 log(1 - delta)
    assert epsilon(LaplaceAnswer(2.0), 1, REPLACE, 0.05) == pytest.approx(
        0.5 + 2 * math.log(0.95), abs=2e-5
    )


def test_a_vector_laplace_answer_is_no_worse_than_the_scalar_the_accountant_assumes():
    rng = np.random.default_rng(0)
    noise = rng.laplace(size=(200_000, 3))
    for shift in ([0.5, 0.5, 0.5], [1.2, 0.2, 0.1], [1.5, 0.0, 0.0]):
        loss = np.sum(np.abs(noise - np.array(shift)) - np.abs(noise), axis=1)
        measured = np.mean(np.maximum(0, -np.expm1(0.7 - loss)))
        assert measured <= 1 - math.exp((0.7 - 1.5) / 2) + 0.003


@pytest.mark.parametrize("relation", [ZERO, REPLACE])
def test_sampled_gaussian_answers_lie_in_a_numerical_sandwich(relation):
    multiplier, rate, count, delta = 0.8, 0.05, 40, 1e-4
    points = np.linspace(-25, 25, 200_001)
    if relation == REPLACE:
        # Delta = 2C: in units of C the noise is twice the multiplier
        p, q = mixture(1, rate, 2 * multiplier), mixture(-1, rate, 2 * multiplier)
        points = points[np.abs(points) < 16]
    else:
        p, q = mixture(1, rate, multiplier), mixture(0, rate, multiplier)
        points = points[np.abs(points) < 8]
    low, high = sandwich(p, q, points, count=count, delta=delta)
    found = epsilon(Sampled(GaussianAnswer(multiplier), rate), count, relation, delta)
    assert high - low < 0.06
    assert low - 1e-3 <= found <= high + 1e-3
    assert found == pytest.approx((low + high) / 2, rel=0.01)


def test_one_sampled_replace_one_answer_matches_integration():
    multiplier, rate, delta = 0.5, 0.2, 1e-3
    found = epsilon(Sampled(GaussianAnswer(multiplier), rate), 1, REPLACE, delta)
    p, q = mixture(1, rate, 2 * multiplier), mixture(-1, rate, 2 * multiplier)
    value, _ = integrate.quad(
        lambda x: max(0.0, p(x) - math.exp(found) * q(x)), -12, 14, limit=400, epsabs=1e-12
    )
    assert value == pytest.approx(delta, rel=1e-3)


def test_no_pair_of_records_in_the_plane_beats_the_pair_the_accountant_assumes():
    multiplier, rate, delta = 0.6, 0.3, 1e-2
    found = epsilon(Sampled(GaussianAnswer(multiplier), rate), 1, REPLACE, delta)
    sigma, axis = 2 * multiplier, np.linspace(-8, 8, 321)
    x = np.stack(np.meshgrid(axis, axis), axis=-1)
    cell = (axis[1] - axis[0]) ** 2

    def density(centre):
        far = np.exp(-np.sum((x - centre) ** 2, -1) / (2 * sigma**2))
        near = np.exp(-np.sum(x**2, -1) / (2 * sigma**2))
        return ((1 - rate) * near + rate * far) / (2 * math.pi * sigma**2)

    def divergence(u, v):
        return np.sum(np.maximum(0, density(u) - math.exp(found) * density(v))) * cell

    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(60):
        u, v = rng.standard_normal((2, 2))
        u, v = u / max(1, np.linalg.norm(u)), v / max(1, np.linalg.norm(v))
        worst = max(worst, divergence(u, v))
    opposite = divergence(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    assert opposite == pytest.approx(delta, rel=5e-3)
    assert worst <= opposite * (1 + 1e-3)
    # the factor two matters: with sigma read as the multiplier the pair would exceed delta
    sigma = multiplier
    assert divergence(np.array([1.0, 0.0]), np.array([-1.0, 0.0])) > 2 * delta


@pytest.mark.parametrize("relation", [ZERO, REPLACE])
def test_sampling_at_a_rate_near_one_joins_the_closed_form(relation):
    closed = epsilon(GaussianAnswer(10.0), 100, relation)
    assert epsilon(Sampled(GaussianAnswer(10.0), 1 - 1e-9), 100, relation) == pytest.approx(
        closed, rel=1e-4
    )
    assert epsilon(Sampled(GaussianAnswer(10.0), 1.0), 100, relation) == closed


def test_the_numerical_accountant_never_falls_below_the_exact_gaussian_curve():
    # a far weaker Laplace answer sends everything through the numerical accountant
    for mu in (0.05, 0.5, 3.0):
        events = [(GaussianAnswer(1 / mu), 1), (LaplaceAnswer(1e6), 1)]
        found = account(events, delta=1e-6, relation=ZERO).epsilon
        exact = epsilon(GaussianAnswer(1 / mu), 1, ZERO)
        assert exact <= found <= exact * (1 + 1e-3) + 1e-5


def test_rounding_of_many_compositions_stays_on_the_private_side():
    # composed so often, and at a delta so small, that without the allowance for the rounding of
    # Fourier transforms the result would lie below the exact one
    count, delta = 30_000, 6e-12
    multiplier = math.sqrt(count)
    exact = epsilon(GaussianAnswer(multiplier), count, REPLACE, delta)
    found = epsilon(Sampled(GaussianAnswer(multiplier), 1 - 1e-12), count, REPLACE, delta)
    assert exact <= found <= exact * 1.03


def test_epsilon_is_monotone_in_noise_count_and_delta():
    event = Sampled(GaussianAnswer(1.5), 0.02)
    base = epsilon(event, 100, ZERO)
    assert epsilon(Sampled(GaussianAnswer(3.0), 0.02), 100, ZERO) < base
    assert epsilon(event, 200, ZERO) > base
    assert epsilon(event, 100, ZERO, 1e-4) < base
    assert epsilon(Sampled(GaussianAnswer(1.5), 0.04), 100, ZERO) > base
    assert base < epsilon(GaussianAnswer(1.5), 100, ZERO)


def test_halving_the_noise_changes_epsilon():
    assert epsilon(LaplaceAnswer(15.0), 100, ZERO) > 1.8 * epsilon(LaplaceAnswer(30.0), 100, ZERO)


def test_nothing_costs_nothing_and_an_exact_answer_costs_everything():
    assert account([], delta=1e-6, relation=ZERO).epsilon == 0
    assert account([(Exact(), 0)], delta=1e-6, relation=ZERO).epsilon == 0
    spent = account([(GaussianAnswer(9.0), 3), (Exact(), 1)], delta=1e-6, relation=ZERO)
    assert (spent.epsilon, spent.mu) == (math.inf, math.inf)


def test_unresolvable_numbers_give_infinity_and_no_overflow():
    assert epsilon(Sampled(LaplaceAnswer(30.0), 0.5), 100_000, ZERO, 1e-12) == math.inf
    assert epsilon(Sampled(GaussianAnswer(1e-3), 0.01), 10, ZERO) == math.inf
    assert epsilon(LaplaceAnswer(0.002), 1, ZERO) == pytest.approx(500, rel=1e-3)


def test_laplace_answers_never_cost_more_than_basic_composition():
    assert epsilon(LaplaceAnswer(30.0), 100_000, ZERO, 1e-12) == pytest.approx(100_000 / 30)
    assert epsilon(LaplaceAnswer(1e-6), 10, ZERO) == pytest.approx(1e7)
    assert epsilon(LaplaceAnswer(30.0), 100, ZERO) < 100 / 30


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_events_validate_when_they_are_made(bad):
    for make in (GaussianAnswer, LaplaceAnswer, lambda rate: Sampled(GaussianAnswer(1.0), rate)):
        with pytest.raises(InputError):
            make(bad)


@pytest.mark.unchecked
def test_unsupported_combinations_are_refused_by_name():
    with pytest.raises(InputError, match=r"replace_one.*zero_out"):
        epsilon(Sampled(LaplaceAnswer(1.0), 0.1), 10, REPLACE)
    for relation in (BoundedChange(0.1), TargetChange(0.1)):
        with pytest.raises(InputError, match=relation.name):
            epsilon(Sampled(GaussianAnswer(1.0), 0.1), 10, relation)
    for inside in (Exact(), Sampled(GaussianAnswer(1.0), 0.5)):
        with pytest.raises(InputError, match="GaussianAnswer or LaplaceAnswer"):
            Sampled(inside, 0.5)
    with pytest.raises(InputError, match="not an event"):
        account([("gaussian", 1)], delta=1e-6, relation=ZERO)
    with pytest.raises(InputError, match="count"):
        account([(GaussianAnswer(1.0), -1)], delta=1e-6, relation=ZERO)
    with pytest.raises(InputError, match="delta"):
        account([(GaussianAnswer(1.0), 1)], delta=0.0, relation=ZERO)


@pytest.mark.parametrize(
    ("make", "relation", "budget"),
    [
        (GaussianAnswer, REPLACE, 1.0),
        (LaplaceAnswer, REPLACE, 3.0),
        (lambda m: Sampled(GaussianAnswer(m), 0.2), REPLACE, 2.0),
    ],
)
def test_calibrated_noise_fits_the_budget_and_slightly_less_does_not(make, relation, budget):
    options = {"delta": 1e-6, "relation": relation}
    found = multiplier_for(make, rounds=50, epsilon=budget, **options)
    assert account([(make(found), 50)], **options).epsilon <= budget
    assert account([(make(found * (1 - 3e-6)), 50)], **options).epsilon > budget


def test_calibration_by_search_agrees_with_the_closed_form():
    found = multiplier_for(GaussianAnswer, rounds=400, epsilon=0.7, delta=1e-5, relation=ZERO)
    assert found == pytest.approx(gaussian_multiplier(0.7, 1e-5, 400), rel=1e-6)


def test_an_infinite_budget_needs_no_noise_and_an_exact_answer_fits_no_other():
    options = {"rounds": 5, "delta": 1e-5, "relation": ZERO}
    assert multiplier_for(LaplaceAnswer, epsilon=math.inf, **options) == 0.0
    with pytest.raises(InputError, match="no amount of noise"):
        multiplier_for(lambda _: Exact(), epsilon=1.0, **options)
    with pytest.raises(InputError, match="epsilon"):
        multiplier_for(LaplaceAnswer, epsilon=math.nan, **options)
