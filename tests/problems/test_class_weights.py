"""Class weights: the weighted loss by hand, its constants, and what would break them."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.audit import check_oracle
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient
from taciturn.problems import (
    ClassWeighted,
    HuberHinge,
    Logistic,
    MarginLoss,
    MultinomialLogistic,
    Squared,
    default_clip,
)

WEIGHTS = (0.25, 1.0)
CASES = [
    (Logistic(), WEIGHTS),
    (Logistic(), (0.5, 0.125)),
    (HuberHinge(0.5), WEIGHTS),
    (MultinomialLogistic(3), (0.25, 1.0, 0.5)),
    (MultinomialLogistic(3), (0.25, 0.5, 0.125)),
]


def grid(loss):
    """Margins of all sizes with every class, and the weights of these records."""
    draw = np.random.default_rng(0)
    size = 10.0 ** draw.uniform(-3, 3, 4000)
    if loss.outputs is None:
        targets = draw.choice([-1.0, 1.0], 4000)
        margins = size * draw.choice([-1, 1], 4000)
        return jnp.array(margins), jnp.array(targets), (targets > 0).astype(int)
    targets = draw.integers(0, loss.outputs, 4000)
    margins = size[:, None] * draw.standard_normal((4000, loss.outputs))
    return jnp.array(margins), jnp.array(targets), targets


@pytest.mark.parametrize(("loss", "weights"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_and_coefficient_are_those_of_the_loss_times_the_weight_of_the_class(
    loss, weights, dtype
):
    z, y, code = grid(loss)
    z, v = jnp.asarray(z, dtype), np.array(weights, dtype)[code]
    y = y if loss.outputs else jnp.asarray(y, dtype)
    ours = ClassWeighted(loss, weights)
    np.testing.assert_array_equal(ours.value(z, y), v * loss.value(z, y))
    each = v if loss.outputs is None else v[:, None]
    np.testing.assert_array_equal(ours.coefficient(z, y), each * loss.coefficient(z, y))
    assert ours.value(z, y).dtype == ours.coefficient(z, y).dtype == dtype
    np.testing.assert_array_equal(ours.predict(z), loss.predict(z))
    np.testing.assert_array_equal(ours.error(z, y), loss.error(z, y))


@pytest.mark.parametrize(("loss", "weights"), CASES)
def test_its_constants_are_the_largest_weight_times_those_of_the_loss_and_hold(loss, weights):
    ours, most = ClassWeighted(loss, weights), max(weights)
    assert ours.lipschitz == most * loss.lipschitz <= loss.lipschitz
    assert ours.smoothness == most * loss.smoothness <= loss.smoothness
    assert default_clip(ours) == most * default_clip(loss)
    z, y, _ = grid(loss)
    sizes = (
        jnp.abs(ours.coefficient(z, y))
        if loss.outputs is None
        else jnp.linalg.norm(ours.coefficient(z, y), axis=-1)
    )
    assert 0.99 * ours.lipschitz < sizes.max() <= ours.lipschitz * (1 + 1e-12)
    z = jnp.clip(z, -100, 100)  # beyond, a derivative of exponentials is no number
    bend = jax.jacfwd(lambda z, y: ours.coefficient(z[None], y[None])[0])
    bends = jax.vmap(bend)(z, y)
    norms = jnp.abs(bends) if loss.outputs is None else jnp.linalg.norm(bends, 2, axis=(1, 2))
    assert norms.max() <= ours.smoothness * (1 + 1e-9)


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


@pytest.mark.parametrize(
    ("loss", "weights", "words"),
    [
        (Logistic(), (1.0, 30.0), "is 30; weights must lie above 0 and at most 1.*the largest"),
        (Logistic(), (0.0, 1.0), "is 0; weights"),
        (Logistic(), (math.nan, 1.0), "is nan; weights"),
        (Logistic(), (-1.0, 1.0), "is -1; weights"),
        (Logistic(), (1.0,), "1 class weights are given for 2 classes"),
        (MultinomialLogistic(3), (1.0, 1.0), "2 class weights are given for 3 classes"),
        (Squared(), (1.0, 1.0), "losses of classes"),
    ],
)
def test_other_weights_are_refused(loss, weights, words):
    with pytest.raises(InputError, match=words):
        ClassWeighted(loss, weights)


class Costly(MarginLoss):
    """A loss of one's own, with an error of its own: a missed second class costs half as much."""

    smoothness = 0.25

    def value(self, margins, targets):
        return Logistic().value(margins, targets)

    def coefficient(self, margins, targets):
        return Logistic().coefficient(margins, targets)

    def error(self, margins, targets):
        return super().error(margins, targets) * jnp.where(targets > 0, 0.5, 1.0)


@pytest.mark.parametrize("loss", [Logistic(), MultinomialLogistic(3), Costly()])
def test_the_error_is_that_of_the_loss_without_weights(loss):
    z, y, _ = grid(loss)
    ours = ClassWeighted(loss, WEIGHTS if loss.outputs is None else (0.25, 1.0, 0.5))
    np.testing.assert_array_equal(ours.error(z, y), loss.error(z, y))


class Unbounded(eqx.Module):
    """Planted fault: weights above 1 with the constants of the loss without weights."""

    inner: Logistic = Logistic()
    outputs: None = None

    lipschitz = property(lambda self: self.inner.lipschitz)
    smoothness = property(lambda self: self.inner.smoothness)
    start_coefficient = property(lambda self: self.inner.start_coefficient)
    within_domain = property(lambda self: self.inner.within_domain)

    def coefficient(self, margins, targets):
        return jnp.where(targets > 0, 30.0, 1.0) * self.inner.coefficient(margins, targets)


class Trusting(Gradient):
    """Planted fault: believes the constants of the loss and clips nothing."""

    def exact(self, shard, count, query):
        coefficient = self.loss.coefficient(shard.features @ query.x, shard.targets)
        return shard.features.T @ (shard.mask * coefficient) / count


def test_no_record_moves_a_weighted_gradient_beyond_its_bound():
    assert check_oracle(Gradient(ClassWeighted(Logistic(), WEIGHTS), 0.5)).passes


@pytest.mark.unchecked
def test_weights_above_1_would_break_the_bound_and_the_search_sees_it():
    seen = check_oracle(Trusting(Unbounded(), 1.0))
    assert "sensitivity, replace_one, record" in seen.violated
