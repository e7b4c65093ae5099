"""Law 1: on neighbouring shards and adversarial queries an answer moves by at most its bound."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.audit import replace_record, zero_record
from taciturn.kernel.door.door import Private
from taciturn.kernel.privacy import Adjacency, ReplaceOne, ZeroOut
from taciturn.kernel.questions import Gradient, Point
from taciturn.kernel.records import pack
from taciturn.problems import (
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    public_facts,
)

LOSSES = [
    (Logistic(), 1.0),
    (Logistic(), 0.5),
    (Logistic(), math.inf),
    (HuberHinge(0.5), math.inf),
    (MultinomialLogistic(3), math.inf),
    (MultinomialLogistic(3), 0.7),
    (Squared(), 2.0),
]


def target(loss, draw):
    if loss.outputs:
        return int(draw.integers(0, loss.outputs))
    return float(draw.choice([-1.0, 1.0])) * (100.0 if isinstance(loss, Squared) else 1.0)


def shards_of(loss, draw, records=3, features=2):
    x = draw.standard_normal((records, features)) * 3
    y = np.array([target(loss, draw) for _ in range(records)])
    return pack(x, y, [np.arange(records)], record_norm=1.5, precision="float64", enforce="clip")


@jax.jit
def answer(oracle, shards, x):
    private = Private(shards.stacked, jnp.asarray(shards.counts, jnp.float64))
    return jax.vmap(oracle.exact, (0, 0, None))(private.shard, private.records, Point(x))[0]


def bound(oracle, loss, clip, shards, relation, norm="l2"):
    problem = Problem(loss, NoRegulariser(), WholeSpace())
    spec = public_facts(problem, shards, clip=clip)
    made = oracle.bound(spec, Adjacency(relation, "record"), norm=norm)
    return float(made.value[0, 0, 0]), spec.shape


def moved(oracle, first, second, x, norm=2):
    return float(
        np.linalg.norm(np.ravel(answer(oracle, first, x) - answer(oracle, second, x)), norm)
    )


def boundary(draw, features, radius):
    row = draw.standard_normal(features)
    return row / np.linalg.norm(row) * radius * (1 - 1e-9)


@pytest.mark.parametrize(("loss", "clip"), LOSSES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([0.0, 1.0, 1e3, 1e308, math.inf, math.nan]))
def test_no_neighbour_moves_the_gradient_beyond_its_bound(loss, clip, seed, size):
    draw = np.random.default_rng(seed)
    oracle, first = Gradient(loss, clip), shards_of(loss, draw)
    limit, shape = bound(oracle, loss, clip, first, ReplaceOne())
    wide, _ = bound(oracle, loss, clip, first, ReplaceOne(), norm="l1")
    x = jnp.asarray(draw.standard_normal(shape)) * size
    second = replace_record(first, 0, 1, boundary(draw, 2, 1.5), target(loss, draw))
    assert moved(oracle, first, second, x) <= limit * (1 + 1e-9)
    assert moved(oracle, first, second, x, norm=1) <= wide * (1 + 1e-9)
    half, _ = bound(oracle, loss, clip, first, ZeroOut())
    assert half == pytest.approx(limit / 2)
    assert moved(oracle, first, zero_record(first, 0, 1), x) <= half * (1 + 1e-9)


def worst(oracle, loss, relation, rounds=200):
    """Search for the largest movement: one row, opposite targets or signs, a large query."""
    best, draw = 0.0, np.random.default_rng(0)
    for _ in range(rounds):
        first = shards_of(loss, draw, records=2)
        row = boundary(draw, 2, 1.5)
        labels = (
            (0, 1) if loss.outputs else ((-100.0, 100.0) if isinstance(loss, Squared) else (-1, 1))
        )
        aligned = row[:, None] * np.array([1.0, 1.0, -2.0]) if loss.outputs else row
        x = jnp.asarray(aligned * draw.choice([0.0, 1.0, 50.0]))
        first = replace_record(first, 0, 0, row, labels[0])
        opposite = replace_record(first, 0, 0, -row, labels[0])
        flipped = replace_record(first, 0, 0, row, labels[1])
        gone = zero_record(first, 0, 0)
        others = (gone,) if isinstance(relation, ZeroOut) else (opposite, flipped)
        best = max(best, *(moved(oracle, first, other, x) for other in others))
    return best


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
@pytest.mark.parametrize(
    ("loss", "clip"), [(HuberHinge(0.5), math.inf), (Squared(), 2.0), (Logistic(), 0.5)]
)
def test_a_saturating_problem_reaches_the_bound(loss, clip, relation):
    oracle = Gradient(loss, clip)
    limit, _ = bound(oracle, loss, clip, shards_of(loss, np.random.default_rng(0), 2), relation)
    reached = worst(oracle, loss, relation, rounds=30)
    assert 0.9 * limit <= reached <= limit * (1 + 1e-9)


def test_an_oracle_that_forgets_to_clip_is_caught_by_the_same_search():
    loss, clip = Squared(), 2.0
    limit, _ = bound(
        Gradient(loss, clip), loss, clip, shards_of(loss, np.random.default_rng(0), 2), ReplaceOne()
    )
    assert worst(Gradient(loss, math.inf), loss, ReplaceOne(), rounds=5) > 2 * limit


@pytest.mark.parametrize("extreme", [math.inf, -math.inf, math.nan, 3.3e38])
@pytest.mark.parametrize(("loss", "clip"), LOSSES)
def test_no_query_lets_a_record_turn_the_answer_into_nan(loss, clip, extreme):
    draw = np.random.default_rng(0)
    shards = shards_of(loss, draw)
    shape = Problem(loss, NoRegulariser(), WholeSpace()).model_shape(2)
    x = jnp.asarray(draw.standard_normal(shape)).at[0].set(extreme)
    assert np.all(np.isfinite(answer(Gradient(loss, clip), shards, x)))


def test_targets_outside_the_losss_domain_cannot_break_the_bound():
    """The Lipschitz constant is enforced, not believed: here a logistic target of 1000."""
    draw = np.random.default_rng(0)
    loss, oracle = Logistic(), Gradient(Logistic(), math.inf)
    first = shards_of(loss, draw)
    second = replace_record(first, 0, 0, boundary(draw, 2, 1.5), 1000.0)
    limit, _ = bound(oracle, loss, math.inf, first, ReplaceOne())
    assert moved(oracle, first, second, jnp.zeros(2)) <= limit * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "clip"), LOSSES)
def test_the_unclipped_gradient_is_the_derivative_of_the_mean_loss(loss, clip):
    if math.isfinite(clip) and clip < loss.lipschitz:
        pytest.skip("this one is clipped on purpose")
    draw = np.random.default_rng(3)
    shards = shards_of(loss, draw, records=4)
    problem = Problem(loss, NoRegulariser(), WholeSpace())
    x = jnp.asarray(draw.standard_normal(problem.model_shape(2)))
    truth = jax.grad(lambda w: problem.objective(w, shards))(x)
    np.testing.assert_allclose(answer(Gradient(loss, clip), shards, x), truth, atol=1e-12)
