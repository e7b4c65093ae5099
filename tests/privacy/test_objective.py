"""The curve of noise inside an objective against closed forms and against brute force."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    GaussianAnswer,
    PerturbedAnswer,
    ReplaceOne,
    Sampled,
    ZeroOut,
    account,
    delta_of,
    objective_deltas,
)
from taciturn.kernel.privacy.objective import _smooth_tail


def curve(shift, jacobian, *, replaced, step=0.01, reach=600):
    values = objective_deltas(step, reach, shift=shift, jacobian=jacobian, replaced=replaced)
    return step * np.arange(-reach, reach + 1), values


def redberg(epsilon, shift, jacobian):
    """Theorem 4.1 of Redberg, Koskela and Wang 2023, with J as here."""
    e = epsilon - jacobian

    def hockey(x, m):
        return norm.cdf(m / 2 - x / m) - math.exp(x) * norm.cdf(-m / 2 - x / m)

    half = shift**2 / 2
    if e >= half:
        return 2 * hockey(e, shift)
    return 1 - math.exp(e - half) + 2 * math.exp(e - half) * hockey(half, shift)


@pytest.mark.parametrize(("shift", "jacobian"), [(0.1, 0.7), (0.3, 1.0), (2.0, 3.0)])
def test_where_the_hessian_dominates_the_curve_is_the_published_one(shift, jacobian):
    epsilons, values = curve(shift, jacobian, replaced=True, reach=1500)
    for epsilon in (jacobian + shift**2 / 2 + k * shift for k in (2, 3, 4)):
        k = int(np.argmin(np.abs(epsilons - epsilon)))
        truth = redberg(epsilons[k], shift, jacobian)
        assert truth * (1 - 1e-9) <= values[k] <= truth * 1.01


@pytest.mark.parametrize(("shift", "jacobian"), [(0.3, 0.05), (1.0, 0.0), (2.0, 0.5)])
@pytest.mark.parametrize("replaced", [True, False])
def test_the_curve_is_nowhere_above_the_published_one(shift, jacobian, replaced):
    epsilons, values = curve(shift, jacobian, replaced=replaced, reach=1500)
    for epsilon, value in zip(epsilons[1500:], values[1500:], strict=True):
        assert value <= redberg(epsilon, shift, jacobian) * 1.02 + 1e-9


def true_deltas(slope, other, sigma, epsilons):
    """Hockey-stick divergences of y, b = -G(y), for G and G' on the line, by quadrature."""
    y = np.linspace(-60, 60, 400_001)
    step = y[1] - y[0]

    def density(g):
        values = g(y)
        return norm.pdf(values / sigma) / sigma * np.gradient(values, step)

    p, q = density(slope), density(other)
    assert np.sum(p) * step == pytest.approx(1, abs=1e-6)
    return [np.sum(np.maximum(p - math.exp(e) * q, 0)) * step for e in epsilons]


def sigmoid_term(size, sharpness, sign):
    """Gradient of a logistic term in one dimension: bounded by size, of slope size sharpness/4."""
    return lambda y: -sign * size / (1 + np.exp(np.clip(sign * sharpness * y, -500, 500)))


CASES = [
    # lam, size of a term's gradient, sharpness, sigma
    (1.0, 0.5, 1.0, 1.0),
    (0.5, 0.1, 20.0, 3.0),  # the Hessian dominates: beta / lam = 1
    (1.0, 1.0, 4.0, 0.7),
]


@pytest.mark.parametrize(("lam", "size", "sharpness", "sigma"), CASES)
@pytest.mark.parametrize("replaced", [True, False])
def test_no_true_divergence_exceeds_the_curve(lam, size, sharpness, sigma, replaced):
    jacobian = math.log1p(size * sharpness / 4 / lam)
    shift = (2 if replaced else 1) * size / sigma
    epsilons, values = curve(shift, jacobian, replaced=replaced, reach=1000)
    keep = slice(500, None, 50)
    one = sigmoid_term(size, sharpness, 1.0)
    two = sigmoid_term(size, sharpness, -1.0) if replaced else (lambda y: 0 * y)
    for first, second in ((one, two), (two, one)):
        truth = true_deltas(
            lambda y, f=first: lam * y + f(y), lambda y, f=second: lam * y + f(y), sigma,
            epsilons[keep],
        )  # fmt: skip
        assert np.all(np.array(truth) <= values[keep] + 1e-7)


def test_forgetting_the_hessian_is_caught_by_the_same_quadrature():
    """Planted: J = 0. One term, sharp against the curvature around it."""
    lam, size, sharpness, sigma = 0.5, 0.1, 20.0, 3.0
    epsilons, values = curve(size / sigma, 0.0, replaced=False, step=0.01, reach=100)
    truth = true_deltas(
        lambda y: lam * y + sigmoid_term(size, sharpness, 1.0)(y), lambda y: lam * y, sigma,
        epsilons[100:],
    )  # fmt: skip
    assert np.max(np.array(truth) - values[100:]) > 0.005


def test_two_records_at_any_angle_stay_below_the_curve():
    """Monte Carlo of E (1 - exp(e - J - M))_+ with M the largest of the four corners."""
    draw, shift, jacobian = np.random.default_rng(0), 0.8, 2.0
    epsilons, values = curve(shift, jacobian, replaced=True)
    g = draw.standard_normal((400_000, 2))
    for angle in np.linspace(0, np.pi, 7):
        x, z = np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)])
        corners = [(s * x + t * z) * shift / 2 for s in (1, -1) for t in (1, -1)]
        worst = np.max([g @ d + d @ d / 2 for d in corners], axis=0)
        for k in range(870, 1200, 60):
            losses = np.maximum(0, -np.expm1(epsilons[k] - jacobian - worst))
            mean, error = losses.mean(), losses.std() / math.sqrt(len(g))
            # below the hull the pointwise bound is not the truth: compare where the two agree
            if epsilons[k] >= jacobian + shift**2:
                assert mean <= values[k] + 4 * error


@pytest.mark.slow
def test_the_accountant_agrees_with_the_curve_for_one_answer():
    event, delta = PerturbedAnswer(2.0, 2.0, 0.0), 1e-5
    truth = brentq(lambda e: redberg(e, 0.5, 2.0) - delta, 2.3, 10)
    spent = account([(event, 1)], delta=delta, relation=ReplaceOne()).epsilon
    assert truth * (1 - 1e-9) <= spent <= truth * 1.005


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
def test_without_a_hessian_composition_costs_what_plain_noise_does(relation):
    """J = 0: the gradients differ by a constant vector, so the answers are Gaussian."""
    perturbed, plain = (
        account([(event, 100)], delta=1e-5, relation=relation).epsilon
        for event in (PerturbedAnswer(40.0, 0.0, 0.0), GaussianAnswer(40.0))
    )
    assert plain * (1 - 1e-9) <= perturbed < 1.02 * plain


@pytest.mark.parametrize(("records", "stretch"), [(1, 1.0), (2, 0.1)])
def test_no_slope_brings_differences_above_the_tail_unless_it_is_forgotten(records, stretch):
    """m(N) = m_0 + k N, cut off at length u: the field that gains most. Planted: k = 0."""
    shift = 0.4
    g = np.random.default_rng(0).standard_normal((1_000_000, records))
    t = np.linspace(0, 1.2, 13)
    tail = _smooth_tail(t, shift, stretch, replaced=records == 2)
    forgotten = _smooth_tail(t, shift, 0.0, replaced=records == 2)
    excess = []
    for part in (0.0, 0.5, 0.8, 1.0):
        start = np.zeros(records)
        start[0] = part * shift
        m = start + stretch * g
        m /= np.maximum(1, np.linalg.norm(m, axis=1, keepdims=True) / shift)
        gain = np.sum(m * g, axis=1)
        seen = np.array([np.mean(gain > value) for value in t])
        error = np.sqrt(seen / len(g))
        assert np.all(seen <= tail + 4 * error)
        excess.append(np.max((seen - forgotten) / (error + 1e-9)))
    assert max(excess) > 20


def true_losses(first, second, sigma):
    """Probabilities and privacy losses of y on a grid, b = -G(y)."""
    y = np.linspace(-25, 25, 2501)
    p, q = (norm.pdf(f(y) / sigma) / sigma * np.gradient(f(y), y) for f in (first, second))
    kept = (p > 1e-14) & (q > 0)
    return p[kept] / p.sum(), np.log(p[kept] / q[kept])


@pytest.mark.slow
@pytest.mark.parametrize("sharpness", [0.02, 2.0])
def test_two_answers_cost_no_more_than_the_curve_composed_with_itself(sharpness):
    """Two answers of one record's term, their losses added up over all pairs of outcomes."""
    lam, size, sigma = 1.0, 0.5, 1.0
    event = PerturbedAnswer(sigma / size, math.log1p(size * sharpness / 4 / lam), 0.0)
    term = sigmoid_term(size, sharpness, 1.0)
    for pair in (
        (lambda y: lam * y + term(y), lambda y: lam * y),
        (lambda y: lam * y, lambda y: lam * y + term(y)),
    ):
        p, loss = true_losses(*pair, sigma)
        sums, weights = loss[:, None] + loss, p[:, None] * p
        for delta in (1e-2, 1e-4):
            spent = account([(event, 2)], delta=delta, relation=ZeroOut()).epsilon
            assert np.sum(weights * np.maximum(0, -np.expm1(spent - sums))) <= delta * (1 + 1e-6)


@pytest.mark.slow
def test_noise_on_the_output_is_one_more_gaussian_answer():
    """With a Hessian and a shift next to nothing, only the output noise is left."""
    event = PerturbedAnswer(1e6, 0.0, 1e6)
    spent = account([(event, 4)], delta=1e-5, relation=ReplaceOne()).epsilon
    assert float(delta_of(spent, 2.0)) == pytest.approx(1e-5, rel=0.02)


@pytest.mark.unchecked
def test_senseless_events_are_refused():
    for bad in ((0.0, 0.1, 0.0), (1.0, -0.1, 0.0), (1.0, math.nan, 0.0), (1.0, 0.0, math.inf)):
        with pytest.raises(InputError):
            PerturbedAnswer(*bad)
    with pytest.raises(InputError, match="sampled"):
        Sampled(PerturbedAnswer(1.0, 0.0, 0.0), 0.5)
