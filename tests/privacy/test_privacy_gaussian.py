import math
import time

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from taciturn.calibration import gaussian_multiplier, mu_of
from taciturn.errors import InputError
from taciturn.kernel.privacy import GaussianAnswer, ReplaceOne, account, delta_of, epsilon_of
from taciturn.kernel.privacy.gaussian import true_positive_rate

MUS = np.geomspace(1e-4, 60, 21)
DELTAS = (1e-12, 1e-9, 1e-6, 1e-5, 1e-3, 0.1)


def exact_delta(epsilon, mu):
    with mpmath.workdps(60):
        e, m = mpmath.mpf(float(epsilon)), mpmath.mpf(float(mu))
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        (0.1, 0.39686),
        (0.25, 1.0607),
        (0.5, 2.25408),
        (1.0, 4.88655),
        (2.0, 10.99715),
        (4.0, 26.35696),
    ],
)
def test_published_epsilons_at_delta_one_in_a_million(mu, epsilon):
    assert epsilon_of(1e-6, mu) == pytest.approx(epsilon, abs=6e-6)


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [(0.1, 0.032521), (0.5, 0.142211), (1.0, 0.268051), (3.0, 0.719117), (8.0, 1.666031)],
)
def test_published_mus_at_delta_one_in_a_hundred_thousand(epsilon, mu):
    assert mu_of(epsilon, 1e-5) == pytest.approx(mu, abs=6e-7)


@pytest.mark.parametrize(("epsilon", "sigma"), [(1.0, 944.66692), (8.0, 146.00079)])
def test_published_noise_for_fifty_thousand_answers(epsilon, sigma):
    assert gaussian_multiplier(epsilon, 1e-6, 50_000) == pytest.approx(sigma, abs=6e-6)


def test_delta_matches_high_precision_wherever_it_matters():
    for mu in MUS:
        for z in (-3.0, 0.0, 1.0, 4.0, 6.5):
            epsilon = max(0.0, mu * (mu / 2 + z))
            truth = exact_delta(epsilon, mu)
            assert truth <= delta_of(epsilon, float(mu)) <= truth * (1 + 1e-8) + 1e-300


def test_delta_is_not_below_the_truth_where_epsilon_is_large():
    """The rounding of epsilon / mu alone made it smaller by up to 3e-12 of it."""
    draw = np.random.default_rng(0)
    for mu in (127.1876983771008, *10 ** draw.uniform(1, 4, 40)):
        for z in (-2.0, 1.0, 3.76, 6.0):
            epsilon = max(0.0, mu * (mu / 2 + z))
            assert exact_delta(epsilon, mu) <= delta_of(epsilon, float(mu))


@pytest.mark.parametrize("delta", [1e-60, 1e-40, 1e-13])
@pytest.mark.parametrize("mu", [1e-9, 1.5e-9, 1e-7, 1e-5])
def test_delta_is_not_below_the_truth_where_its_terms_cancel(mu, delta):
    """Without rounding it up it is, by up to 1.4e-5 of it."""
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


def test_arrays_agree_with_scalars():
    together = epsilon_of(1e-6, MUS)
    assert together.tolist() == [epsilon_of(1e-6, float(mu)) for mu in MUS]
    assert mu_of(together, 1e-6)[5:] == pytest.approx(MUS[5:], rel=1e-9)
    assert delta_of(together[:, None], MUS[None, :]).shape == (21, 21)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 60), st.sampled_from(DELTAS))
def test_mu_and_epsilon_are_inverse(mu, delta):
    epsilon = epsilon_of(delta, mu)
    if epsilon > 0:
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-8)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(1e-12, 0.5))
def test_both_inverses_round_to_the_private_side(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta
    assert delta_of(epsilon_of(delta, mu), mu) <= delta


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


def test_count_equals_loop_equals_an_independent_accountant():
    multiplier, rounds = 20.0, 300
    by_count = account([(GaussianAnswer(multiplier), rounds)], delta=1e-6, relation=ReplaceOne())
    by_loop = account([(GaussianAnswer(multiplier), 1)] * rounds, delta=1e-6, relation=ReplaceOne())
    by_ratios = epsilon_of(1e-6, np.linalg.norm(np.full(rounds, 1 / multiplier)))
    other = PLDAccountant(value_discretization_interval=1e-4)
    other.compose(dp_accounting.GaussianDpEvent(multiplier), rounds)
    assert by_loop.epsilon == pytest.approx(by_count.epsilon, rel=1e-12)
    assert by_ratios == pytest.approx(by_count.epsilon, rel=1e-12)
    assert other.get_epsilon(1e-6) == pytest.approx(by_count.epsilon, rel=1e-5)


@pytest.mark.unchecked
def test_five_thousand_different_scales_take_under_ten_milliseconds():
    ratios = np.random.default_rng(0).uniform(0.001, 0.1, 5000)

    def seconds():
        start = time.perf_counter()
        epsilon_of(1e-6, np.linalg.norm(ratios))
        return time.perf_counter() - start

    assert min(seconds() for _ in range(10)) < 0.01


def test_halved_noise_changes_epsilon():
    honest = epsilon_of(1e-6, np.linalg.norm(np.full(100, 0.1)))
    halved = epsilon_of(1e-6, np.linalg.norm(np.full(100, 0.2)))
    assert halved > 2 * honest


def test_the_best_attack_is_the_likelihood_ratio_test():
    mu, rate = 1.5, 0.01
    draws = np.random.default_rng(1).standard_normal(400_000)
    threshold = np.quantile(draws, 1 - rate)
    measured = np.mean(draws + mu > threshold)
    assert true_positive_rate(mu, rate) == pytest.approx(measured, abs=0.01)
    assert true_positive_rate(0.0, rate) == pytest.approx(rate, rel=1e-9)
    assert true_positive_rate(math.inf, rate) == 1
