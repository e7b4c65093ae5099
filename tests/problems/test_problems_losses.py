import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import sklearn.metrics

from taciturn.errors import InputError
from taciturn.problems import (
    ClassWeighted,
    ClippedLoss,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    Squared,
    clip_coefficient,
)

SCALAR = [Squared(), Logistic(), HuberHinge(smoothing=0.5), HuberHinge(smoothing=2.0)]
LOSSES = [*SCALAR, MultinomialLogistic(classes=4)]


def draw(loss, records, spread, seed=0, dtype=np.float64):
    random = np.random.default_rng(seed)
    if loss.outputs is None:
        margins = random.normal(size=records) * spread
        return jnp.asarray(margins, dtype), jnp.asarray(random.choice([-1.0, 1.0], records), dtype)
    margins = random.normal(size=(records, loss.outputs)) * spread
    return jnp.asarray(margins, dtype), jnp.asarray(random.integers(0, loss.outputs, records))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_coefficient_is_the_derivative_of_the_value(loss):
    margins, targets = draw(loss, 500, 3.0)
    exact = jax.jit(jax.grad(lambda z: jnp.sum(loss.value(z, targets))))(margins)
    np.testing.assert_allclose(loss.coefficient(margins, targets), exact, atol=1e-12)


def test_the_logistic_value_matches_sklearn():
    margins, targets = draw(Logistic(), 300, 2.0)
    ours = Logistic().value(margins, targets).mean()
    theirs = sklearn.metrics.log_loss(np.asarray(targets), scipy.special.expit(margins))
    assert float(ours) == pytest.approx(theirs, rel=1e-12)


def test_the_multinomial_value_matches_sklearn():
    loss = MultinomialLogistic(classes=4)
    margins, targets = draw(loss, 300, 2.0)
    probabilities = scipy.special.softmax(np.asarray(margins), axis=1)
    theirs = sklearn.metrics.log_loss(np.asarray(targets), probabilities, labels=range(4))
    assert float(loss.value(margins, targets).mean()) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.1, 0.5, 2.0])
def test_the_huber_hinge_follows_its_three_pieces(smoothing):
    margins = np.linspace(-5, 5, 401)
    for target in (-1.0, 1.0):
        pieces = [
            0.0
            if target * z > 1 + smoothing
            else (1 + smoothing - target * z) ** 2 / (4 * smoothing)
            if abs(1 - target * z) <= smoothing
            else 1 - target * z
            for z in margins
        ]
        ours = HuberHinge(smoothing).value(jnp.asarray(margins), jnp.full(401, target))
        np.testing.assert_allclose(ours, pieces, atol=1e-13)


@pytest.mark.parametrize("loss", LOSSES[1:])
def test_the_lipschitz_constant_is_respected_and_reached(loss):
    sizes = []
    for spread in (0.1, 1.0, 10.0, 1000.0):
        coefficient = loss.coefficient(*draw(loss, 2000, spread))
        sizes.append(np.linalg.norm(np.reshape(coefficient, (2000, -1)), axis=1).max())
    assert max(sizes) <= loss.lipschitz * (1 + 1e-15)
    assert max(sizes) >= 0.99 * loss.lipschitz


def curvatures(loss, margins, targets):
    def single(z, y):
        return loss.value(z[None], y[None])[0]

    hessians = np.asarray(jax.jit(jax.vmap(jax.hessian(single)))(margins, targets))
    size = loss.outputs or 1
    return np.linalg.eigvalsh(hessians.reshape(-1, size, size))[:, -1]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_smoothness_constant_is_respected_and_reached(loss):
    margins, targets = draw(loss, 3000, 3.0)
    if loss.outputs is not None:
        # two classes far ahead of the others, where the bound is reached
        tied = jnp.asarray([[9.0, 9.0] + [0.0] * (loss.outputs - 2)])
        margins = jnp.concatenate([margins, tied])
        targets = jnp.concatenate([targets, jnp.zeros(1, targets.dtype)])
    largest = curvatures(loss, margins, targets).max()
    assert largest <= loss.smoothness * (1 + 1e-12)
    assert largest >= 0.99 * loss.smoothness


@pytest.mark.parametrize("loss", LOSSES[1:])
def test_the_start_coefficient_is_the_norm_at_margin_zero(loss):
    margins, targets = draw(loss, 20, 0.0)
    norms = np.linalg.norm(np.reshape(loss.coefficient(margins, targets), (20, -1)), axis=1)
    np.testing.assert_allclose(norms, loss.start_coefficient, rtol=1e-14)


def test_the_squared_loss_has_no_public_start_and_no_bound():
    assert Squared().start_coefficient is None
    assert math.isinf(Squared().lipschitz)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_margins_stay_finite_and_keep_their_type(loss, dtype):
    everything = jax.jit(lambda m, z, y: (m.value(z, y), m.coefficient(z, y), m.error(z, y)))
    for spread in (0.0, 1.0, 1e4):
        margins, targets = draw(loss, 50, spread, dtype=dtype)
        margins = jnp.sign(margins) * spread if spread == 1e4 else margins
        for result in everything(loss, margins, targets):
            assert result.dtype == dtype
            assert np.all(np.isfinite(result))


def test_predictions_and_errors_count_what_they_should():
    margins, targets = jnp.array([2.0, -1.0, 0.0]), jnp.array([1.0, 1.0, -1.0])
    for loss in (Logistic(), HuberHinge(0.5)):
        np.testing.assert_array_equal(loss.predict(margins), [1, -1, 1])
        np.testing.assert_array_equal(loss.error(margins, targets), [0, 1, 1])
    np.testing.assert_array_equal(Squared().error(margins, targets), [1, 4, 1])
    multinomial = MultinomialLogistic(classes=3)
    scores = jnp.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    np.testing.assert_array_equal(multinomial.predict(scores), [1, 0])
    np.testing.assert_array_equal(multinomial.error(scores, jnp.array([1, 2])), [0, 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bound", [0.1, 1 / 3, 0.7])
def test_clipped_coefficients_are_bounded_with_rounding_included(dtype, bound):
    random = np.random.default_rng(0)
    for shape in ((2000,), (2000, 3), (2000, 50)):
        coefficient = jnp.asarray(random.normal(size=shape), dtype)
        clipped = np.asarray(clip_coefficient(coefficient, bound))
        assert clipped.dtype == dtype
        wide = clipped.astype(np.longdouble).reshape(2000, -1)
        norms = np.sqrt((wide**2).sum(1))
        assert norms.max() <= np.longdouble(bound)
        assert norms.max() >= bound * (1 - 1e-4)


def test_plain_clipping_would_break_the_bound_that_the_shipped_one_keeps():
    coefficient = jnp.asarray(np.random.default_rng(0).normal(size=(2000, 3)), jnp.float32)
    norms = jnp.linalg.norm(coefficient, axis=-1, keepdims=True)
    careless = np.asarray(coefficient * jnp.minimum(1, 0.1 / norms)).astype(np.longdouble)
    assert np.sqrt((careless**2).sum(1)).max() > np.longdouble(0.1)


def test_clipping_keeps_direction_small_rows_and_everything_under_an_infinite_bound():
    coefficient = jnp.array([[3.0, 4.0], [0.1, 0.0], [0.0, 0.0]])
    expected = [[0.6, 0.8], [0.1, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(clip_coefficient(coefficient, 1.0), expected, atol=1e-14)
    np.testing.assert_array_equal(clip_coefficient(coefficient, math.inf), coefficient)
    np.testing.assert_array_equal(clip_coefficient(coefficient[:, 0], math.inf), [3.0, 0.1, 0.0])
    np.testing.assert_array_equal(jax.jit(clip_coefficient)(coefficient[:, 0], 1.0), [1, 0.1, 0])


@pytest.mark.unchecked
def test_a_coefficient_without_records_is_not_clipped():
    with pytest.raises(InputError, match="one row per record"):
        clip_coefficient(jnp.zeros(()), 1.0)


def test_targets_that_would_break_the_lipschitz_constant_are_refused():
    with pytest.raises(InputError, match="neither -1 nor 1"):
        Logistic().check_targets(np.array([0, 1]))
    with pytest.raises(InputError, match="neither -1 nor 1"):
        HuberHinge(0.5).check_targets(np.array([1.0, np.nan]))
    with pytest.raises(InputError, match=r"0\.\.2"):
        MultinomialLogistic(classes=3).check_targets(np.array([0, 3]))
    with pytest.raises(InputError, match="integers"):
        MultinomialLogistic(classes=3).check_targets(np.array([0.0, 1.0]))
    with pytest.raises(InputError, match="finite"):
        Squared().check_targets(np.array([np.inf]))
    Logistic().check_targets(np.array([-1, 1]))
    MultinomialLogistic(classes=3).check_targets(np.array([0, 2]))


@pytest.mark.parametrize("smoothing", [0.0, -1.0, math.nan, math.inf])
def test_a_smoothing_that_is_not_positive_is_refused(smoothing):
    with pytest.raises(InputError, match="smoothing"):
        HuberHinge(smoothing=smoothing)


def test_one_class_is_refused():
    with pytest.raises(InputError, match="classes"):
        MultinomialLogistic(classes=1)


@pytest.mark.parametrize(
    ("loss", "reached"),
    [
        (Logistic(), 1.0),
        (MultinomialLogistic(classes=3), math.sqrt(2)),
        (ClassWeighted(Logistic(), (0.1, 0.5)), 0.5),
    ],
)
def test_scores_are_log_odds_from_the_largest_coefficient_on_and_not_below(loss, reached):
    targets = jnp.array([0, 1]) if loss.outputs else jnp.array([-1.0, 1.0])
    margins = jnp.array([[-50.0, 50.0, 0.0], [50.0, -50.0, 0.0]]) if loss.outputs else -50 * targets
    coefficients = np.asarray(loss.coefficient(margins, targets)).reshape(2, -1)
    assert np.linalg.norm(coefficients, axis=1).max() == pytest.approx(reached)
    assert ClippedLoss("name", loss, reached).log_odds
    assert not ClippedLoss("name", loss, reached * (1 - 1e-9)).log_odds
    assert not ClippedLoss("name", loss, None).log_odds


def test_losses_that_nothing_bounds_are_not_called_robust():
    assert str(ClippedLoss("squared", Squared(), 1.0)) == "squared"
    assert str(ClippedLoss("hinge:0.5", HuberHinge(smoothing=0.5), 0.5)).startswith("robust hinge")
    assert not ClippedLoss("squared", Squared(), math.inf).log_odds


def test_the_clip_of_one_half_minimises_another_loss_than_the_logistic_one():
    # of a population whose log-odds are 2: the mean of the clipped coefficient is 0 elsewhere
    share = scipy.special.expit(2.0)
    z, both = jnp.linspace(0, 6, 60_001), (-jnp.ones(1), jnp.ones(1))
    roots = []
    for clip in (0.5, 1.0):
        pull = [clip_coefficient(Logistic().coefficient(z, y), clip) for y in both]
        roots.append(float(z[jnp.argmin(jnp.abs((1 - share) * pull[0] + share * pull[1]))]))
    assert roots[1] == pytest.approx(2.0, abs=1e-3)
    assert roots[0] > 2.5
