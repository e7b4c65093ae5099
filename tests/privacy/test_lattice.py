"""The discrete Gaussian against the curve of the Gaussian: ratios and curves in high precision."""

import math
from functools import partial

import numpy as np
import pytest
from mpmath import mp, mpf

from taciturn.kernel.privacy import delta_of, epsilon_of
from taciturn.kernel.privacy.mechanisms import lattice_epsilon


def tail(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def log_ratio(x, s):
    """ln(p_r / p_d) at x."""
    s = mpf(s)
    rounded = tail((mpf(x) - mpf(1) / 2) / s) - tail((mpf(x) + mpf(1) / 2) / s)
    theta = 2 * mp.nsum(lambda k: mp.exp(-2 * (mp.pi * k * s) ** 2), [1, mp.inf])
    discrete = mp.exp(-((mpf(x) / s) ** 2) / 2) / (s * mp.sqrt(2 * mp.pi) * (1 + theta))
    return mp.log(rounded / discrete)


POINTS = [(s, x) for s in (1, 1.5, 3, 8, 100) for x in (0, 1, 2, 5, 17)] + [
    (2**24, int(t * 2**24)) for t in (0, 0.3, 1, 3, 8)
]


@pytest.mark.parametrize(("s", "x"), POINTS)
def test_the_ratio_of_rounded_and_discrete_noise_is_within_its_bounds(s, x):
    with mp.workprec(400):
        ratio, square = log_ratio(x, s), mpf(s) ** 2
        upper = (mpf(x) / s) ** 2 / (24 * square) + 3 * mp.exp(-2 * mp.pi**2 * square)
        assert -1 / (24 * square) <= ratio <= upper


def test_the_bounds_of_the_ratio_are_not_loose():
    with mp.workprec(400):
        s = mpf(2**24)
        assert log_ratio(0, s) < -0.999 / (24 * s**2)
        assert log_ratio(int(8 * s), s) > 0.9 * 64 / (24 * s**2)


def exact_delta(epsilon, shift, s):
    """The delta of one discrete Gaussian number whose answer moves by `shift`, by summation."""
    reach = int(40 * s) + shift
    x = np.arange(-reach, reach + 1, dtype=float)
    here = np.exp(-(x**2) / (2 * s**2))
    there = np.exp(-((x - shift) ** 2) / (2 * s**2))
    return float(np.sum(np.maximum(there - math.exp(epsilon) * here, 0)) / np.sum(here))


@pytest.mark.parametrize("s", [8.0, 50.0, 300.0])
@pytest.mark.parametrize("mu", [0.25, 1.0, 3.0])
def test_the_corrected_epsilon_holds_for_the_discrete_law(s, mu):
    shift = max(1, round(mu * s))
    for delta in (1e-2, 1e-6, 1e-9):
        curve = partial(epsilon_of, mu=shift / s)
        epsilon = lattice_epsilon(curve, delta, values=1, scale=s)
        assert exact_delta(epsilon, shift, s) <= delta


def test_without_a_correction_the_discrete_law_breaks_the_gaussian_curve():
    """At a coarse scale the plain curve is too small, so that the correction is not idle."""
    s, worst = 1.0, 0.0
    for epsilon in np.linspace(0.05, 4, 400):
        worst = max(worst, exact_delta(float(epsilon), 1, s) / delta_of(float(epsilon), 1 / s))
    assert worst > 1.001


@pytest.mark.parametrize(("values", "mu"), [(1, 0.2), (20_800, 0.27), (7_840 * 200, 1.4)])
def test_at_the_scales_of_a_plan_the_correction_is_nil(values, mu):
    for delta in (1e-5, 1e-9, 1e-12):
        plain = epsilon_of(delta, mu)
        gap = lattice_epsilon(partial(epsilon_of, mu=mu), delta, values=values, scale=2**24) - plain
        assert 0 <= gap < 1e-8


def test_the_correction_is_that_of_the_formula_in_high_precision():
    values, s, mu, delta = 1_568_000, 2.0**24, 1.4, 1e-6
    epsilon = lattice_epsilon(partial(epsilon_of, mu=mu), delta, values=values, scale=s)
    with mp.workprec(300):
        n, square = mpf(values), mpf(s) ** 2
        tau = 100 + mpf(epsilon_of(delta, mu))
        kappa = (mp.sqrt(1 + 2 * mp.sqrt(tau / n) + 2 * tau / n) + 1 / (2 * mpf(s))) ** 2
        shift = n / (24 * square) * (1 + kappa)
        gaussian = tail(-mpf(mu) / 2 + (mpf(epsilon) - shift) / mu) - mp.exp(
            mpf(epsilon) - shift
        ) * tail(mpf(mu) / 2 + (mpf(epsilon) - shift) / mu)
        bound = mp.exp(n / (24 * square)) * (gaussian + mp.exp(mpf(epsilon) - tau))
    assert float(bound) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("case", [{"values": 10, "scale": 0.9}, {"values": 10**9, "scale": 100.0}])
def test_a_lattice_that_is_too_coarse_has_no_epsilon(case):
    assert lattice_epsilon(lambda _: 1.0, 1e-6, **case) == math.inf


def test_a_delta_below_what_the_tails_leave_has_no_epsilon():
    assert lattice_epsilon(lambda _: 1.0, 1e-44, values=10, scale=2**24) == math.inf


def discrete(scale, reach):
    """The discrete Gaussian of a scale, on -reach to reach."""
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    return weights / np.sum(weights)


def ratio_of_sum(scales):
    """The largest |ln| of the ratio of a sum's law to the discrete Gaussian of joint variance."""
    joint, total = math.hypot(*scales), np.ones(1)
    for scale in scales:
        total = np.convolve(total, discrete(scale, int(12 * scale)))
    reach, middle = int(5 * joint), len(total) // 2
    other = discrete(joint, int(12 * joint))
    about = slice(len(other) // 2 - reach, len(other) // 2 + reach + 1)
    return np.max(np.abs(np.log(total[middle - reach : middle + reach + 1] / other[about])))


def test_a_sum_of_discrete_gaussians_of_unequal_scales_is_one_of_the_joint_variance():
    assert ratio_of_sum((8.0, 8.0)) < 1e-12
    assert ratio_of_sum((8.0, 9.5, 17.0, 12.25)) < 1e-12
    assert ratio_of_sum((0.5, 0.6)) > 1e-3  # the steps of a coarse lattice do not line up
