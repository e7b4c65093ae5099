"""Epsilon, delta and mu: closed forms in high precision, published figures, other accountants."""

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from taciturn.calibration import gaussian_multiplier, mu_of, multiplier_for
from taciturn.errors import InputError
from taciturn.kernel.noise import Label, Stream
from taciturn.kernel.privacy import (
    BoundedChange,
    Exact,
    FixedSize,
    Gaussian,
    GaussianAnswer,
    Laplace,
    LaplaceAnswer,
    NoNoise,
    ReplaceOne,
    Sampled,
    TargetChange,
    ZeroOut,
    account,
    delta_of,
    epsilon_of,
)
from taciturn.kernel.privacy.gaussian import true_positive_rate

ZERO, REPLACE = ZeroOut(), ReplaceOne()
MUS = np.geomspace(1e-4, 60, 21)
DELTAS = (1e-12, 1e-9, 1e-6, 1e-5, 1e-3, 0.1)


def epsilon(event, count, relation, delta=1e-6):
    return account([(event, count)], delta=delta, relation=relation).epsilon


# the Gaussian curve


def exact_delta(epsilon, mu):
    with mpmath.workdps(60):
        e, m = mpmath.mpf(float(epsilon)), mpmath.mpf(float(mu))
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


def test_published_figures_of_gaussian_noise():
    for mu, expected in ((0.1, 0.39686), (1.0, 4.88655), (4.0, 26.35696)):
        assert epsilon_of(1e-6, mu) == pytest.approx(expected, abs=6e-6)
    for budget, mu in ((0.1, 0.032521), (1.0, 0.268051), (8.0, 1.666031)):
        assert mu_of(budget, 1e-5) == pytest.approx(mu, abs=6e-7)
    assert gaussian_multiplier(1.0, 1e-6, 50_000) == pytest.approx(944.66692, abs=6e-6)


def test_delta_matches_high_precision_and_is_never_below_it():
    """The rounding of epsilon / mu alone made it smaller by up to 3e-12 of it for large epsilon."""
    for mu in MUS:
        for z in (-3.0, 0.0, 1.0, 4.0, 6.5):
            epsilon = max(0.0, mu * (mu / 2 + z))
            truth = exact_delta(epsilon, mu)
            assert truth <= delta_of(epsilon, float(mu)) <= truth * (1 + 1e-8) + 1e-300
    draw = np.random.default_rng(0)
    for mu in (127.1876983771008, *10 ** draw.uniform(1, 4, 40)):
        for z in (-2.0, 1.0, 3.76, 6.0):
            epsilon = max(0.0, mu * (mu / 2 + z))
            assert exact_delta(epsilon, mu) <= delta_of(epsilon, float(mu))


@pytest.mark.parametrize("delta", [1e-60, 1e-40, 1e-13])
def test_delta_is_not_below_the_truth_where_its_terms_cancel(delta):
    """Without rounding it up it is, by up to 1.4e-5 of it."""
    for mu in (1e-9, 1.5e-9, 1e-7, 1e-5):
        epsilon = epsilon_of(delta, mu)
        if epsilon > 0:
            assert 0.99 * delta <= exact_delta(epsilon, mu) <= delta


def test_epsilon_attains_delta_in_high_precision_on_the_whole_grid():
    solved = 0
    for mu in MUS:
        for delta in DELTAS:
            epsilon = epsilon_of(delta, float(mu))
            if epsilon == 0:
                assert exact_delta(0, mu) <= delta
            else:
                solved += 1
                assert 1 - 1e-8 <= exact_delta(epsilon, mu) / delta <= 1
    assert solved > 80
    together = epsilon_of(1e-6, MUS)
    assert together.tolist() == [epsilon_of(1e-6, float(mu)) for mu in MUS]
    assert delta_of(together[:, None], MUS[None, :]).shape == (21, 21)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 60), st.sampled_from(DELTAS), st.floats(1e-3, 1e3), st.floats(1e-12, 0.5))
def test_mu_and_epsilon_are_inverse_and_round_to_the_private_side(mu, delta, budget, any_delta):
    epsilon = epsilon_of(delta, mu)
    if epsilon > 0:
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-8)
    found = mu_of(budget, any_delta)
    assert delta_of(budget, found) <= any_delta
    assert delta_of(epsilon_of(any_delta, found), found) <= any_delta


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 50), st.floats(1e-4, 10), st.floats(1.001, 2))
def test_delta_falls_in_epsilon_and_grows_in_mu(epsilon, mu, factor):
    # but for what is rounded up
    one, up = delta_of(epsilon, mu), 1 + 1e-8
    assert delta_of(epsilon * factor, mu) <= one * up
    assert one <= delta_of(epsilon, mu * factor) * up


def test_limits_are_zero_or_infinity():
    assert epsilon_of(1e-6, 0.0) == 0
    assert epsilon_of(1e-6, math.inf) == math.inf
    assert mu_of(math.inf, 1e-6) == math.inf
    assert mu_of(0.0, 0.1) == pytest.approx(2 * stats.norm.ppf(0.55), rel=1e-9)
    assert (delta_of(3.0, 0.0), delta_of(3.0, math.inf), delta_of(math.inf, 3.0)) == (0, 1, 0)
    assert gaussian_multiplier(math.inf, 1e-6, 7) == 0


@pytest.mark.parametrize("bad", [math.nan, -1.0])
def test_nan_and_negative_numbers_are_refused(bad):
    for call in (
        lambda: delta_of(bad, 1.0),
        lambda: delta_of(1.0, bad),
        lambda: epsilon_of(1e-6, bad),
        lambda: epsilon_of(bad, 1.0),
        lambda: mu_of(bad, 1e-6),
        lambda: true_positive_rate(bad, 0.01),
        lambda: true_positive_rate(1.0, bad),
        lambda: gaussian_multiplier(bad, 1e-6, 3),
    ):
        with pytest.raises(InputError):
            call()


def test_the_rate_of_the_best_attack_is_that_of_the_likelihood_ratio_test():
    rate = stats.norm.sf(stats.norm.isf(0.01) - 1.5)
    assert true_positive_rate(1.5, 0.01) == pytest.approx(rate, rel=1e-9)
    assert true_positive_rate(0.0, 0.01) == pytest.approx(0.01, rel=1e-9)
    assert true_positive_rate(math.inf, 0.01) == 1


def test_count_equals_loop_equals_an_independent_accountant():
    multiplier, rounds = 20.0, 300
    by_count = account([(GaussianAnswer(multiplier), rounds)], delta=1e-6, relation=REPLACE)
    by_loop = account([(GaussianAnswer(multiplier), 1)] * rounds, delta=1e-6, relation=REPLACE)
    by_ratios = epsilon_of(1e-6, np.linalg.norm(np.full(rounds, 1 / multiplier)))
    other = PLDAccountant(value_discretization_interval=1e-4)
    other.compose(dp_accounting.GaussianDpEvent(multiplier), rounds)
    assert by_loop.epsilon == pytest.approx(by_count.epsilon, rel=1e-12)
    assert by_ratios == pytest.approx(by_count.epsilon, rel=1e-12)
    assert other.get_epsilon(1e-6) == pytest.approx(by_count.epsilon, rel=1e-5)


# the numerical accountant


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


@pytest.mark.parametrize(
    ("rounds", "expected"), [(1000, 2.1245), pytest.param(10_000, 6.9074, marks=pytest.mark.slow)]
)
def test_published_sampled_gaussian_numbers(rounds, expected):
    event = Sampled(GaussianAnswer(1.0), 0.01)
    assert epsilon(event, rounds, ZERO) == pytest.approx(expected, abs=6e-5)


def test_published_and_closed_numbers_of_laplace_noise():
    assert epsilon(LaplaceAnswer(30.0), 100, ZERO) == pytest.approx(1.4159, abs=6e-5)
    # delta(e) = 1 - exp((e - 1/b)/2), so e = 1/b + 2 log(1 - delta)
    closed = 0.5 + 2 * math.log(0.95)
    assert epsilon(LaplaceAnswer(2.0), 1, REPLACE, 0.05) == pytest.approx(closed, abs=2e-5)


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


@pytest.mark.parametrize("relation", [ZERO, REPLACE])
def test_sampling_at_a_rate_near_one_joins_the_closed_form(relation):
    closed = epsilon(GaussianAnswer(10.0), 100, relation)
    near = epsilon(Sampled(GaussianAnswer(10.0), 1 - 1e-9), 100, relation)
    assert near == pytest.approx(closed, rel=1e-4)
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


def test_nothing_costs_nothing_and_an_exact_or_unresolvable_answer_everything():
    assert account([], delta=1e-6, relation=ZERO).epsilon == 0
    assert account([(Exact(), 0)], delta=1e-6, relation=ZERO).epsilon == 0
    spent = account([(GaussianAnswer(9.0), 3), (Exact(), 1)], delta=1e-6, relation=ZERO)
    assert (spent.epsilon, spent.mu) == (math.inf, math.inf)
    assert epsilon(Sampled(LaplaceAnswer(30.0), 0.5), 100_000, ZERO, 1e-12) == math.inf
    assert epsilon(Sampled(GaussianAnswer(1e-3), 0.01), 10, ZERO) == math.inf
    assert epsilon(LaplaceAnswer(0.002), 1, ZERO) == pytest.approx(500, rel=1e-3)


def test_laplace_answers_never_cost_more_than_basic_composition():
    assert epsilon(LaplaceAnswer(30.0), 100_000, ZERO, 1e-12) == pytest.approx(100_000 / 30)
    assert epsilon(LaplaceAnswer(1e-6), 10, ZERO) == pytest.approx(1e7)
    assert epsilon(LaplaceAnswer(30.0), 100, ZERO) < 100 / 30


# batches of a fixed size


def spent(*events, delta=1e-5, relation=REPLACE):
    return account(events, delta=delta, relation=relation).epsilon


def test_batches_of_a_fixed_size_cost_what_an_independent_accountant_says():
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    inner = dp_event.GaussianDpEvent(2.0)
    accountant.compose(dp_event.SampledWithoutReplacementDpEvent(1000, 20, inner), 500)
    accountant.compose(dp_event.GaussianDpEvent(30.0), 3)
    ours = spent((FixedSize(GaussianAnswer(2.0), 20, 1000), 500), (GaussianAnswer(30.0), 3))
    assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-12)
    plain = spent((GaussianAnswer(5.0), 10))
    assert spent((FixedSize(GaussianAnswer(5.0), 1000, 1000), 10)) == plain


def test_the_bound_holds_for_the_exact_divergence_of_one_batch_of_a_fixed_size():
    """One record of n = 10, b = 3: a mixture of N(0, s) and N(+-1/2, s) in units of Delta."""
    multiplier, share, delta = 0.7, 0.3, 1e-3
    epsilon = spent((FixedSize(GaussianAnswer(multiplier), 3, 10), 1), delta=delta)
    grid = np.linspace(-12, 12, 200_001)
    first, second = (mixture(side, share, multiplier)(grid) for side in (0.5, -0.5))
    excess = np.maximum(first - np.exp(epsilon) * second, 0)
    assert np.sum(excess) * (grid[1] - grid[0]) <= delta


# events


def test_mechanisms_name_their_event_and_norm():
    assert (Gaussian().event(2.0), Gaussian().norm) == (GaussianAnswer(2.0), "l2")
    assert (Laplace().event(2.0), Laplace().norm) == (LaplaceAnswer(2.0), "l1")
    assert Gaussian().event(0.0) == Laplace().event(0.0) == NoNoise().event(3.0) == Exact()
    assert not np.any(NoNoise().integers(Stream.fresh(), [Label(0, 0, 0)], 4, 1.0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_events_validate_when_they_are_made(bad):
    for make in (GaussianAnswer, LaplaceAnswer, lambda rate: Sampled(GaussianAnswer(1.0), rate)):
        with pytest.raises(InputError):
            make(bad)
    with pytest.raises(InputError, match=r"multiplier is|must be"):
        FixedSize(GaussianAnswer(bad), 1, 5)


@pytest.mark.unchecked
def test_events_without_an_accountant_are_refused_by_name():
    fixed, one = FixedSize(GaussianAnswer(5.0), 10, 1000), GaussianAnswer(1.0)
    for call, words in (
        (lambda: epsilon(Sampled(LaplaceAnswer(1.0), 0.1), 10, REPLACE), r"replace_one.*zero_out"),
        (lambda: epsilon(Sampled(one, 0.1), 10, BoundedChange(0.1)), "bounded_change"),
        (lambda: epsilon(Sampled(one, 0.1), 10, TargetChange(0.1)), "target_change"),
        (lambda: Sampled(Exact(), 0.5), "GaussianAnswer or LaplaceAnswer"),
        (lambda: Sampled(Sampled(one, 0.5), 0.5), "GaussianAnswer or LaplaceAnswer"),
        (lambda: account([("gaussian", 1)], delta=1e-6, relation=ZERO), "not an event"),
        (lambda: account([(one, -1)], delta=1e-6, relation=ZERO), "count"),
        (lambda: account([(one, 1)], delta=0.0, relation=ZERO), "delta"),
        (lambda: spent((fixed, 1), relation=ZERO), "replace_one only"),
        (lambda: spent((fixed, 1), (Sampled(one, 0.1), 1)), "one kind of sampling"),
        (lambda: FixedSize(one, 10, 5), "larger than the 5 records"),
        (lambda: FixedSize(LaplaceAnswer(1.0), 1, 5), "must be GaussianAnswer"),
    ):
        with pytest.raises(InputError, match=words):
            call()


# calibration


@pytest.mark.parametrize(
    ("make", "budget"),
    [
        (GaussianAnswer, 1.0),
        pytest.param(LaplaceAnswer, 3.0, marks=pytest.mark.slow),
        pytest.param(lambda m: Sampled(GaussianAnswer(m), 0.2), 2.0, marks=pytest.mark.slow),
    ],
)
def test_calibrated_noise_fits_the_budget_and_slightly_less_does_not(make, budget):
    options = {"delta": 1e-6, "relation": REPLACE}
    found = multiplier_for(make, rounds=50, epsilon=budget, **options)
    assert account([(make(found), 50)], **options).epsilon <= budget
    assert account([(make(found * (1 - 3e-6)), 50)], **options).epsilon > budget


def test_calibration_by_search_agrees_with_the_closed_form_and_has_limits():
    options = {"rounds": 400, "delta": 1e-5, "relation": ZERO}
    found = multiplier_for(GaussianAnswer, epsilon=0.7, **options)
    assert found == pytest.approx(gaussian_multiplier(0.7, 1e-5, 400), rel=1e-6)
    assert multiplier_for(LaplaceAnswer, epsilon=math.inf, **options) == 0.0
    with pytest.raises(InputError, match="no amount of noise"):
        multiplier_for(lambda _: Exact(), epsilon=1.0, **options)
    with pytest.raises(InputError, match="epsilon"):
        multiplier_for(LaplaceAnswer, epsilon=math.nan, **options)
