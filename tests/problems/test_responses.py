"""Losses of regression tables: derivatives, constants, convexity, and the coding of times."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.errors import InputError
from taciturn.problems import (
    CumulativeLogistic,
    DiscreteCloglog,
    DiscreteLogistic,
    Gamma,
    Huber,
    MultinomialLogistic,
    NegativeBinomial,
    PiecewiseExponential,
    SmoothedQuantile,
    Survival,
    loss_named,
    survival_target,
)
from taciturn.problems.responses import _times

CUTS = (0.2, 0.5)
KINDS = (PiecewiseExponential, DiscreteLogistic, DiscreteCloglog)
SURVIVAL = [kind(1.0, 2.0, CUTS) for kind in KINDS]
SEVERAL = [*SURVIVAL, CumulativeLogistic(4), MultinomialLogistic(3)]
SINGLE = [NegativeBinomial(0.0, 9.0, 0.7), Gamma(0.5, 8.0), Huber(0.6), SmoothedQuantile(0.8, 0.1)]
BOUNDED = [*SEVERAL, *SINGLE]


def times(count, seed=0):
    draw = np.random.default_rng(seed)
    leaving = draw.choice([0.0, 0.1, 0.2, 0.35, 0.5, 0.9, 1.0], count)
    entry = draw.choice([0.0, 0.05, 0.2, 0.6], count)
    return jnp.asarray(survival_target(entry, leaving, draw.random(count) < 0.5))


def tried(loss, count=4000, spread=2.0, seed=0):
    draw = np.random.default_rng(seed)
    shape = (count,) if loss.outputs is None else (count, loss.outputs)
    margins = jnp.asarray(draw.normal(size=shape) * spread)
    if isinstance(loss, Survival):
        return margins, times(count)
    if loss.outputs is not None:
        return margins, jnp.asarray(draw.integers(0, 3, count))
    return margins, jnp.asarray(draw.uniform(-1, 1, count))


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_the_coefficient_is_the_derivative_of_the_value(loss):
    margins, targets = tried(loss, 500)
    if isinstance(loss, Survival):  # where no record is stopped
        margins = jnp.minimum(margins, -1.2)
    exact = jax.grad(lambda z: jnp.sum(loss.value(z, targets)))(margins)
    if isinstance(loss, Gamma):  # linear beyond the range of its mean
        inside = np.abs(margins) < math.log(2)
        margins, targets, exact = margins[inside], targets[inside], exact[inside]
    np.testing.assert_allclose(loss.coefficient(margins, targets), exact, atol=1e-9)


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_losses_are_convex(loss):
    (first, targets), (last, _) = tried(loss, seed=1), tried(loss, seed=2)
    middle = loss.value((first + last) / 2, targets)
    assert np.all(middle <= (loss.value(first, targets) + loss.value(last, targets)) / 2 + 1e-9)


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_the_constants_bound_every_coefficient_and_are_nearly_reached(loss):
    largest, total = 0.0, 0.0
    for spread in (0.1, 1.0, 10.0, 300.0):
        found = np.reshape(loss.coefficient(*tried(loss, 20_000, spread)), (20_000, -1))
        largest = max(largest, np.linalg.norm(found, axis=1).max())
        total = max(total, np.abs(found.sum(axis=1)).max())
    assert 0.85 * loss.lipschitz <= largest <= loss.lipschitz * (1 + 1e-9)
    assert total <= loss.largest_sum * (1 + 1e-9)


@pytest.mark.parametrize("loss", SEVERAL, ids=repr)
def test_the_root_of_the_curvature_is_bounded_and_no_smaller_than_the_curvature(loss):
    for spread in (0.3, 2.0, 30.0):
        margins, targets = tried(loss, 1000, spread)
        if isinstance(loss, Survival):
            margins = jnp.minimum(margins, -1.2)
        roots = np.asarray(loss.curvature_root(margins, targets))
        assert np.all(np.sum(roots**2, axis=(1, 2)) <= loss.largest_trace * (1 + 1e-9))
        sums = np.sum(np.sum(roots, axis=1) ** 2, axis=1)
        assert np.all(sums <= loss.largest_trace * (1 + 1e-9))
        if isinstance(loss, DiscreteCloglog):  # the expected second derivative
            continue
        hessians = jax.vmap(jax.hessian(lambda z, y: loss.value(z[None], y[None])[0]))
        apart = roots @ np.swapaxes(roots, 1, 2) - hessians(margins, targets)
        assert np.linalg.eigvalsh(apart).min() > -1e-9


@pytest.mark.parametrize("loss", [kind(1.0, 0.8, CUTS) for kind in KINDS], ids=repr)
def test_a_stopped_score_has_mean_zero_where_the_model_is_true(loss):
    """Of records whose masses are often beyond the limit, some of them watched from later on."""
    draw, count = np.random.default_rng(0), 200_000
    margins = np.array([0.4, 0.9, 0.2]) + 0.3 * draw.standard_normal((count, 1))
    ends, hazards = loss.ends, np.asarray(loss.hazards(jnp.asarray(margins)))
    if isinstance(loss, PiecewiseExponential):
        needed = draw.exponential(size=count)
        before = np.concatenate([np.zeros((count, 1)), np.cumsum(hazards, axis=1)], axis=1)
        lived = np.array([np.interp(n, b, ends) for n, b in zip(needed, before, strict=True)])
        died = needed < before[:, -1]
    else:  # events at the ends of intervals
        dies = draw.random((count, 3)) < -np.expm1(-hazards)
        died, first = dies.any(axis=1), np.argmax(dies, axis=1)
        lived = np.where(died, ends[first + 1] - 1e-6, 1.0)
    left = draw.choice(ends[1:], count)
    targets = survival_target(np.zeros(count), np.minimum(lived, left), died & (lived <= left))
    found = np.asarray(loss.coefficient(jnp.asarray(margins), jnp.asarray(targets)))
    error = found.std(axis=0) / math.sqrt(count)
    assert np.all(np.abs(found.mean(axis=0)) <= 4 * error)
    roots = np.asarray(loss.curvature_root(jnp.asarray(margins), jnp.asarray(targets)))
    expected = np.mean(roots @ np.swapaxes(roots, 1, 2), axis=0)
    apart = expected - np.cov(found.T)
    assert np.linalg.eigvalsh(apart).min() > -0.005
    assert np.abs(apart).max() < (0.005 if isinstance(loss, PiecewiseExponential) else 0.15)


@pytest.mark.parametrize("loss", [*SINGLE, *SURVIVAL], ids=repr)
def test_expected_derivatives_are_means_of_the_second_ones(loss):
    """Over responses of the model; for the others both are one function."""
    draw, z = np.random.default_rng(0), 0.3
    if isinstance(loss, NegativeBinomial):
        a, mean = loss.dispersion, math.exp(z)
        counts = draw.negative_binomial(1 / a, 1 / (1 + a * mean), 200_000)
        targets = jnp.asarray(2 * np.minimum(counts, 9) / 9 - 1)
        exact = jax.grad(lambda z: jnp.mean(loss.coefficient(jnp.full(len(targets), z), targets)))(
            z
        )
        found = np.mean(loss.curvature(jnp.full(len(targets), z), targets))
        assert found == pytest.approx(float(exact), rel=0.02)
    elif isinstance(loss, DiscreteCloglog):
        p = 1 - math.exp(-math.exp(z))
        margins = jnp.full((2, 3), z)
        both = jnp.asarray(survival_target(np.zeros(2), np.full(2, 0.1), np.array([True, False])))
        roots = np.asarray(loss.curvature_root(margins, both))[:, 0, 0] ** 2
        hessians = jax.vmap(jax.hessian(lambda z, y: loss.value(z[None], y[None])[0]))(
            margins, both
        )
        seconds = np.asarray(hessians)[:, 0, 0]
        assert p * roots[0] + (1 - p) * roots[1] == pytest.approx(
            p * seconds[0] + (1 - p) * seconds[1]
        )


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_times_survive_their_coding(entry, leaving, died):
    code = survival_target(np.array([entry]), np.array([leaving]), np.array([died]))
    assert code[0] < 2**53
    found = _times(jnp.asarray(code))
    assert abs(float(found.entry[0]) - entry) <= 2**-24
    assert abs(float(found.leaving[0]) - leaving) <= 2**-24
    assert bool(found.died[0]) == (died and float(found.leaving[0]) < 1)


def test_a_time_at_a_cut_belongs_to_the_interval_that_ends_there():
    for longest in (1.0, 3.0, 7.0, 365.0, 1e6):
        cuts = tuple(longest * part for part in (0.1, 0.3, 0.7))
        loss = PiecewiseExponential(longest, 2.0, cuts)
        at = survival_target(np.zeros(3), np.array(cuts) / longest, np.full(3, True))
        np.testing.assert_array_equal(loss.deaths(_times(jnp.asarray(at))), np.eye(3, 4))


def test_cuts_that_do_not_increase_are_refused():
    for cuts in ((0.5, 0.2), (0.0, 0.5), (0.5, 1.0), (0.5, 0.5)):
        with pytest.raises(InputError, match="increase"):
            PiecewiseExponential(1.0, 2.0, cuts)
    found = loss_named("piecewise-exponential", (5.0, 2.0, 1.0, 3.0), "regression", None)
    assert found == PiecewiseExponential(5.0, 2.0, (1.0, 3.0))
    with pytest.raises(InputError, match="LONGEST"):
        loss_named("piecewise-exponential", (5.0,), "regression", None)
