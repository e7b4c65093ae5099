"""Losses, alone and weighted by class: derivatives, constants, clipping, what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import sklearn.metrics

from conftest import make_shards
from taciturn.audit import check_oracle
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient, Point, ProximalStep
from taciturn.kernel.records import pack
from taciturn.problems import (
    L2,
    BoundedMultinomial,
    CappedExponential,
    ClassWeighted,
    ClippedLoss,
    HuberHinge,
    Logistic,
    MarginLoss,
    MultinomialLogistic,
    Problem,
    Squared,
    clip_coefficient,
    default_clip,
    likelihood,
    minimise,
)

HINGES = [HuberHinge(smoothing=0.5), HuberHinge(smoothing=2.0)]
SCALAR = [Squared(), Logistic(), CappedExponential(), *HINGES]
LOSSES = [*SCALAR, MultinomialLogistic(classes=4), BoundedMultinomial(classes=4)]


def draw(loss, records, spread, seed=0, dtype=np.float64):
    random = np.random.default_rng(seed)
    if loss.outputs is None:
        margins = random.normal(size=records) * spread
        return jnp.asarray(margins, dtype), jnp.asarray(random.choice([-1.0, 1.0], records), dtype)
    margins = random.normal(size=(records, loss.outputs)) * spread
    return jnp.asarray(margins, dtype), jnp.asarray(random.integers(0, loss.outputs, records))


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.is_gradient])
def test_the_coefficient_is_the_derivative_of_the_value(loss):
    margins, targets = draw(loss, 500, 3.0)
    exact = jax.jit(jax.grad(lambda z: jnp.sum(loss.value(z, targets))))(margins)
    np.testing.assert_allclose(loss.coefficient(margins, targets), exact, atol=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), MultinomialLogistic(classes=4)])
def test_the_value_is_the_log_loss_of_sklearn(loss):
    margins, targets = draw(loss, 300, 2.0)
    if loss.outputs is None:
        chances = scipy.special.expit(np.asarray(margins))
    else:
        chances = scipy.special.softmax(np.asarray(margins), axis=1)
    labels = None if loss.outputs is None else range(4)
    theirs = sklearn.metrics.log_loss(np.asarray(targets), chances, labels=labels)
    assert float(loss.value(margins, targets).mean()) == pytest.approx(theirs, rel=1e-12)


def expected(loss, scores, chance, clip=math.inf):
    """The mean coefficient at each score, of records whose probability of 1 is `chance`."""
    scores = jnp.asarray(scores)
    ones = jnp.ones_like(scores)
    of_one, of_other = (loss.coefficient(scores, y * ones) for y in (1, -1))
    return chance * jnp.clip(of_one, -clip, clip) + (1 - chance) * jnp.clip(of_other, -clip, clip)


@pytest.mark.parametrize("chance", [0.02, 0.3, 0.5, 0.9])
def test_the_expected_loss_is_least_at_the_log_odds_alone(chance):
    log_odds = math.log(chance / (1 - chance))
    away = np.array([-3.0, -0.1, -1e-3, 1e-3, 0.1, 3.0])
    for loss in (Logistic(), CappedExponential()):
        assert float(expected(loss, [log_odds], chance)[0]) == pytest.approx(0, abs=1e-15)
        assert np.all(np.sign(expected(loss, log_odds + away, chance)) == np.sign(away))
    # the planted fault: a logistic loss clipped at 1/2, whose probabilities are not true
    if chance != 0.5:
        assert abs(float(expected(Logistic(), [log_odds], chance, clip=0.5)[0])) > 1e-3


def test_the_capped_loss_is_the_clipped_logistic_score_without_its_mean_weighed_to_the_bound():
    scores = np.linspace(-6, 6, 241)
    chance = scipy.special.expit(scores)
    one, other = np.clip(chance - 1, -0.5, 0.5), np.clip(chance, -0.5, 0.5)
    mean = chance * one + (1 - chance) * other
    weight = 0.5 / np.maximum(abs(one - mean), abs(other - mean))
    for target, score in ((1.0, one), (-1.0, other)):
        ours = CappedExponential().coefficient(jnp.asarray(scores), jnp.full(241, target))
        np.testing.assert_allclose(ours, weight * (score - mean), atol=1e-15)


def test_coefficients_of_a_simulated_population_are_true_with_the_capped_loss():
    """Planted fault: the clipped logistic loss, whose coefficients are 41 % too large."""
    draw_, truth = np.random.default_rng(0), np.array([1.0, -0.5, 0.25])
    rows = draw_.standard_normal((200_000, 3))
    targets = np.where(draw_.random(len(rows)) < scipy.special.expit(rows @ truth), 1.0, -1.0)

    def minimiser(loss, clip):
        def slope(model):
            found = loss.coefficient(jnp.asarray(rows @ model), jnp.asarray(targets))
            return rows.T @ np.clip(found, -clip, clip) / len(rows)

        return scipy.optimize.root(slope, truth).x

    # the asymptotic standard error: M^-1 S M^-1 / n, with M the curvature and S the scores' size
    chance = scipy.special.expit(rows @ truth)
    less = np.minimum(chance, 1 - chance) / 2
    weights = (less, less / (2 * np.maximum(chance, 1 - chance)))
    curvature, sizes = ((rows.T * weight) @ rows / len(rows) for weight in weights)
    inverse = np.linalg.inv(curvature)
    error = np.sqrt(np.diag(inverse @ sizes @ inverse) / len(rows))
    assert np.all(abs(minimiser(CappedExponential(), 0.5) - truth) < 4 * error)
    assert np.all(abs(minimiser(Logistic(), 0.5) / truth - 1) > 0.3)


def scores_of_classes(classes, draws=2000):
    """Probabilities, and psi_y at each, of every class y: (draws, K) and (draws, K, K)."""
    random = np.random.default_rng(0)
    scores = random.normal(size=(draws, classes)) * random.choice([0.1, 1, 10], (draws, 1))
    scores[::4, 2:] -= 20  # two classes alone
    targets = jnp.arange(classes)[None].repeat(draws, axis=0)
    margins = jnp.asarray(scores)[:, None].repeat(classes, axis=1)
    psi = BoundedMultinomial(classes).coefficient(margins, targets)
    return scores, scipy.special.softmax(scores, axis=1), np.asarray(psi)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_score_of_classes_has_mean_zero_and_at_each_point_the_largest_size(classes):
    _, chances, psi = scores_of_classes(classes)
    bound = BoundedMultinomial(classes).lipschitz
    np.testing.assert_allclose(np.einsum("ny,nyk->nk", chances, psi), 0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(psi, axis=2).max(axis=1), bound, rtol=1e-14)
    # the planted fault: the clipped gradient of the likelihood
    gradients = chances[:, None] - np.eye(classes)
    sizes = np.linalg.norm(gradients, axis=2, keepdims=True)
    clipped = gradients * np.minimum(1, bound / sizes)
    assert abs(np.einsum("ny,nyk->nk", chances, clipped)).max() > 0.02


@pytest.mark.parametrize("classes", [3, 10])
def test_the_score_of_classes_points_to_the_truth_from_everywhere(classes):
    scores, _, psi = scores_of_classes(classes)
    random = np.random.default_rng(1)
    for spread in (0.01, 1.0, 10.0):
        away = random.normal(size=scores.shape) * spread
        truth = scipy.special.softmax(scores - away, axis=1)
        toward = np.einsum("nk,ny,nyk->n", away, truth, psi)
        assert np.all(toward > -1e-15)
        assert np.mean(toward > 0) > 0.99


def test_the_expected_slope_of_the_score_of_classes_is_symmetric_and_bounded():
    classes = 5
    scores, chances, _ = scores_of_classes(classes, draws=500)
    loss = BoundedMultinomial(classes)

    def psi(margins, target):
        return loss.coefficient(margins[None], target[None])[0]

    slopes = jax.vmap(jax.vmap(jax.jacobian(psi), (None, 0)), (0, None))
    mean = np.einsum("ny,nykl->nkl", chances, slopes(jnp.asarray(scores), jnp.arange(classes)))
    np.testing.assert_allclose(mean, mean.transpose(0, 2, 1), atol=1e-14)
    sizes = np.linalg.eigvalsh(mean)
    assert sizes.min() > -1e-14
    assert sizes.max() <= loss.lipschitz / math.sqrt(2)


def test_the_score_of_two_classes_is_the_derivative_of_the_capped_loss():
    scores = np.linspace(-6, 6, 241)
    margins = jnp.stack([jnp.zeros(241), jnp.asarray(scores)], axis=1)
    for target in (0, 1):
        psi = BoundedMultinomial(2).coefficient(margins, jnp.full(241, target))
        ours = CappedExponential().coefficient(jnp.asarray(scores), jnp.full(241, 2.0 * target - 1))
        np.testing.assert_allclose(psi[:, 1], ours, atol=1e-15)
        np.testing.assert_allclose(psi[:, 0], -ours, atol=1e-15)


def test_probabilities_of_a_simulated_population_are_true_with_the_bounded_score():
    """Planted fault: the clipped likelihood, whose coefficients are off by many errors."""
    random, classes = np.random.default_rng(0), 4
    truth = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, 0.5], [0.5, 1.0, -2.0]])  # class 0 is at 0
    rows = random.standard_normal((40_000, 3))
    chances = scipy.special.softmax(np.pad(rows @ truth, ((0, 0), (1, 0))), axis=1)
    drawn = (random.random((len(rows), 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
    x, y = jnp.asarray(rows), jnp.asarray(drawn)

    def root(loss, clip):
        @jax.jit
        def each(model):
            scores = jnp.pad(x @ model.reshape(truth.shape), ((0, 0), (1, 0)))
            psi = clip_coefficient(loss.coefficient(scores, y), clip)[:, 1:]
            return (x[:, :, None] * psi[:, None, :]).reshape(len(x), -1)

        @jax.jit
        def mean(model):
            return each(model).mean(axis=0)

        slope = jax.jit(jax.jacobian(mean))
        found = scipy.optimize.root(mean, truth.ravel(), jac=slope)
        assert found.success
        terms, inverse = np.asarray(each(found.x)), np.linalg.inv(np.asarray(slope(found.x)))
        spread = inverse @ (terms.T @ terms) @ inverse.T / len(rows) ** 2
        return (found.x - truth.ravel()) / np.sqrt(np.diag(spread))

    bounded = BoundedMultinomial(classes)
    assert np.all(abs(root(bounded, 2.0)) < 4)
    assert np.max(abs(root(MultinomialLogistic(classes), bounded.lipschitz))) > 10


def test_a_score_that_is_no_gradient_is_not_minimised():
    loss = BoundedMultinomial(3)
    problem = Problem(loss, L2(0.1))
    shards = pack(np.eye(3), np.arange(3), [np.arange(3)], record_norm=1.0, precision="float64")
    with pytest.raises(InputError, match="gradient of no function"):
        minimise(problem, shards)
    with pytest.raises(InputError, match="no gradient"):
        ProximalStep(problem, math.inf, 1.0, 1.0)
    weighted_ = ClassWeighted(loss, (1.0, 0.5, 0.5))
    with pytest.raises(InputError, match="no gradient"):
        ProximalStep(Problem(weighted_, L2(0.1)), math.inf, 1.0, 1.0)
    assert likelihood(weighted_) == ClassWeighted(MultinomialLogistic(3), (1.0, 0.5, 0.5))
    assert minimise(Problem(likelihood(weighted_), L2(0.1)), shards).residual < 1e-9
    assert likelihood(Logistic()) == Logistic()


@pytest.mark.parametrize("smoothing", [0.1, 2.0])
def test_the_huber_hinge_follows_its_three_pieces(smoothing):
    margins = np.linspace(-5, 5, 401)
    for target in (-1.0, 1.0):
        away = 1 - target * margins
        curved = (away + smoothing) ** 2 / (4 * smoothing)
        pieces = np.select([away < -smoothing, away <= smoothing], [0.0, curved], away)
        ours = HuberHinge(smoothing).value(jnp.asarray(margins), jnp.full(401, target))
        np.testing.assert_allclose(ours, pieces, atol=1e-13)


def largest_curvature(loss, margins, targets):
    slopes = jax.jit(jax.vmap(jax.jacobian(lambda z, y: loss.coefficient(z[None], y[None])[0])))
    size = loss.outputs or 1
    found = np.reshape(slopes(margins, targets), (-1, size, size))
    return np.linalg.norm(found, ord=2, axis=(1, 2)).max()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_constants_are_respected_and_reached(loss):
    sizes = []
    for spread in (0.0, 0.1, 1.0, 10.0, 1000.0):
        coefficient = np.reshape(loss.coefficient(*draw(loss, 2000, spread)), (2000, -1))
        sizes.append(np.linalg.norm(coefficient, axis=1))
    if isinstance(loss, Squared):  # no public start and no bound
        assert (loss.start_coefficient, loss.lipschitz) == (None, math.inf)
    else:
        np.testing.assert_allclose(sizes[0], loss.start_coefficient, rtol=1e-14)
        assert 0.99 * loss.lipschitz <= np.max(sizes) <= loss.lipschitz * (1 + 1e-15)
    margins, targets = draw(loss, 3000, 3.0)
    if loss.outputs is not None:
        # two classes far ahead of the others, where the bound is reached
        tied = jnp.asarray([[9.0, 9.0] + [0.0] * (loss.outputs - 2)])
        margins = jnp.concatenate([margins, tied])
        targets = jnp.concatenate([targets, jnp.zeros(1, targets.dtype)])
    largest = largest_curvature(loss, margins, targets)
    assert 0.99 * loss.smoothness <= largest <= loss.smoothness * (1 + 1e-12)


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
    for loss in (Logistic(), CappedExponential(), HuberHinge(0.5)):
        np.testing.assert_array_equal(loss.predict(margins), [1, -1, 1])
        np.testing.assert_array_equal(loss.error(margins, targets), [0, 1, 1])
    np.testing.assert_array_equal(Squared().error(margins, targets), [1, 4, 1])
    multinomial = MultinomialLogistic(classes=3)
    scores = jnp.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    np.testing.assert_array_equal(multinomial.predict(scores), [1, 0])
    np.testing.assert_array_equal(multinomial.error(scores, jnp.array([1, 2])), [0, 1])


# clipping


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipped_coefficients_are_bounded_with_rounding_included(dtype):
    random = np.random.default_rng(0)
    for shape in ((2000,), (2000, 3), (2000, 50)):
        for bound in (0.1, 1 / 3, 0.7):
            coefficient = jnp.asarray(random.normal(size=shape), dtype)
            clipped = np.asarray(clip_coefficient(coefficient, bound))
            assert clipped.dtype == dtype
            norms = np.sqrt((clipped.astype(np.longdouble).reshape(2000, -1) ** 2).sum(1))
            assert bound * (1 - 1e-4) <= norms.max() <= np.longdouble(bound)
    # the planted fault: plain clipping in single precision
    rows = jnp.asarray(random.normal(size=(2000, 3)), jnp.float32)
    plain = rows * jnp.minimum(1, 0.1 / jnp.linalg.norm(rows, axis=-1, keepdims=True))
    assert np.sqrt((np.asarray(plain).astype(np.longdouble) ** 2).sum(1)).max() > np.longdouble(0.1)


@pytest.mark.unchecked
def test_clipping_keeps_direction_small_rows_and_everything_under_an_infinite_bound():
    coefficient = jnp.array([[3.0, 4.0], [0.1, 0.0], [0.0, 0.0]])
    expected = [[0.6, 0.8], [0.1, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(clip_coefficient(coefficient, 1.0), expected, atol=1e-14)
    np.testing.assert_array_equal(clip_coefficient(coefficient, math.inf), coefficient)
    np.testing.assert_array_equal(clip_coefficient(coefficient[:, 0], math.inf), [3.0, 0.1, 0.0])
    np.testing.assert_array_equal(jax.jit(clip_coefficient)(coefficient[:, 0], 1.0), [1, 0.1, 0])
    with pytest.raises(InputError, match="one row per record"):
        clip_coefficient(jnp.zeros(()), 1.0)


def test_a_clipped_squared_loss_has_the_gradient_of_the_huber_loss():
    shard, c = make_shards(agents=1, records=30).shard(0), 0.7
    x, y, w = shard.features, 3 * shard.targets, jnp.array([0.5, -2.0, 1.0])

    def huber(v):
        r = jnp.abs(x @ v - y)
        return jnp.mean(jnp.where(r <= c, r**2 / 2, c * r - c**2 / 2))

    far = shard.__class__(x, y, shard.mask)
    ours = Gradient(Squared(), c).exact(far, jnp.asarray(30.0), Point(w))
    np.testing.assert_allclose(ours, jax.grad(huber)(w), atol=1e-12)


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


# weights by class

WEIGHTED = [
    (Logistic(), (0.25, 1.0)),
    (HuberHinge(0.5), (0.5, 0.125)),
    (MultinomialLogistic(3), (0.25, 0.5, 0.125)),
    (BoundedMultinomial(3), (0.25, 0.5, 0.125)),
]


class Costly(MarginLoss):
    """A loss with an error of its own: a missed second class costs half as much."""

    smoothness = 0.25

    def value(self, margins, targets):
        return Logistic().value(margins, targets)

    def coefficient(self, margins, targets):
        return Logistic().coefficient(margins, targets)

    def error(self, margins, targets):
        return super().error(margins, targets) * jnp.where(targets > 0, 0.5, 1.0)


@pytest.mark.parametrize(("loss", "weights"), [*WEIGHTED, (Costly(), (0.25, 1.0))])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_value_and_coefficient_are_those_of_the_loss_times_the_weight_of_the_class(
    loss, weights, dtype
):
    z, y = draw(loss, 4000, 30.0, dtype=dtype)
    v = np.array(weights, dtype)[np.asarray(y) if loss.outputs else (np.asarray(y) > 0).astype(int)]
    ours = ClassWeighted(loss, weights)
    np.testing.assert_array_equal(ours.value(z, y), v * loss.value(z, y))
    each = v if loss.outputs is None else v[:, None]
    np.testing.assert_array_equal(ours.coefficient(z, y), each * loss.coefficient(z, y))
    assert ours.value(z, y).dtype == ours.coefficient(z, y).dtype == dtype
    np.testing.assert_array_equal(ours.predict(z), loss.predict(z))
    np.testing.assert_array_equal(ours.error(z, y), loss.error(z, y))


@pytest.mark.parametrize(("loss", "weights"), WEIGHTED)
def test_the_constants_of_a_weighted_loss_are_the_largest_weight_times_those_of_the_loss(
    loss, weights
):
    ours, most = ClassWeighted(loss, weights), max(weights)
    assert ours.lipschitz == most * loss.lipschitz <= loss.lipschitz
    assert ours.smoothness == most * loss.smoothness <= loss.smoothness
    assert default_clip(ours) == most * default_clip(loss)
    sizes = np.reshape(ours.coefficient(*draw(loss, 4000, 30.0)), (4000, -1))
    assert 0.99 * ours.lipschitz < np.linalg.norm(sizes, axis=1).max() <= ours.lipschitz + 1e-12
    assert largest_curvature(ours, *draw(loss, 3000, 3.0)) <= ours.smoothness * (1 + 1e-9)


@pytest.mark.parametrize("target", [-np.inf, -7.0, 0.0, 0.5, 9.0, np.nan])
def test_a_target_that_is_no_class_has_the_weight_of_a_class(target):
    ours = ClassWeighted(Logistic(), (0.5, 0.25))
    targets = ours.within_domain(jnp.array([target]))
    assert not jnp.abs(ours.coefficient(jnp.array([0.3]), targets)) > ours.lipschitz


def test_a_weight_that_single_precision_cannot_hold_is_rounded_down():
    ours = ClassWeighted(Logistic(), (0.1, 0.9))
    one = jnp.array([-1e4], jnp.float32)
    assert float(ours.coefficient(-one, jnp.array([-1.0]))[0]) <= 0.1
    assert float(-ours.coefficient(one, jnp.array([1.0]))[0]) <= 0.9


@pytest.mark.slow
def test_no_record_moves_a_weighted_gradient_beyond_its_bound():
    assert check_oracle(Gradient(ClassWeighted(Logistic(), (0.25, 1.0)), 0.5), trials=500).passes


# what is refused


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ClassWeighted(Logistic(), (1.0, 30.0)), "is 30; .* at most 1.*the largest"),
        (lambda: ClassWeighted(Logistic(), (0.0, 1.0)), "is 0; weights"),
        (lambda: ClassWeighted(Logistic(), (math.nan, 1.0)), "is nan; weights"),
        (lambda: ClassWeighted(Logistic(), (1.0,)), "1 class weights are given for 2 classes"),
        (lambda: ClassWeighted(MultinomialLogistic(3), (1.0, 1.0)), "2 class .* for 3 classes"),
        (lambda: ClassWeighted(Squared(), (1.0, 1.0)), "classification losses"),
        (lambda: Logistic().check_targets(np.array([0, 1])), "neither -1 nor 1"),
        (lambda: HuberHinge(0.5).check_targets(np.array([1.0, np.nan])), "neither -1 nor 1"),
        (lambda: MultinomialLogistic(3).check_targets(np.array([0, 3])), r"0\.\.2"),
        (lambda: MultinomialLogistic(3).check_targets(np.array([0.0, 1.0])), "integers"),
        (lambda: Squared().check_targets(np.array([np.inf])), "finite"),
        (lambda: HuberHinge(smoothing=0.0), "smoothing"),
        (lambda: HuberHinge(smoothing=math.inf), "smoothing"),
        (lambda: MultinomialLogistic(classes=1), "classes"),
    ],
)
def test_other_weights_targets_and_parameters_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
    Logistic().check_targets(np.array([-1, 1]))
    MultinomialLogistic(classes=3).check_targets(np.array([0, 2]))
