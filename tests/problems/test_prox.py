"""Optimality conditions of every proximal map and projection, and faults they must catch."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.isotonic import isotonic_regression

from taciturn.errors import InputError
from taciturn.problems import (
    L1,
    L2,
    Ball,
    Box,
    Direction,
    ElasticNet,
    Logistic,
    Monotone,
    NoRegulariser,
    Problem,
    Simplex,
    WholeSpace,
    isotonic,
    soft_threshold,
)

SIZE = 6
BOUNDS = (np.array([-1.0, 0.2, -2.0, 0.0, -0.5, -1.0]), np.array([1.0, 0.9, -0.3, 0.0, 2.0, 0.7]))
REGULARISERS = [NoRegulariser(), L1(0.7), L2(1.3), ElasticNet(l1=0.4, l2=0.9)]
MONOTONE = Monotone((Direction(1, 0), Direction(-1, 5, (2, 3, 4))))  # entry 1 is free
SETS = [WholeSpace(), Box(-0.5, 0.8), Box(*BOUNDS), Ball(1.2), Simplex(1.5), MONOTONE]
PAIRS = list(itertools.product(REGULARISERS, SETS))


def vertices_and_more(constraint, random, count=300):
    """Return points of the set, drawn without its own projection, boundary included."""
    wild = random.normal(size=(count, SIZE)) * 2
    match constraint:
        case WholeSpace():
            return wild
        case Box():
            lower, upper = (np.broadcast_to(b, SIZE) for b in (constraint.lower, constraint.upper))
            return lower + (upper - lower) * random.choice([0, 1, random.random()], (count, SIZE))
        case Ball():
            lengths = constraint.radius * random.choice([0.3, 1.0], (count, 1))
            return lengths * wild / np.linalg.norm(wild, axis=1, keepdims=True)
        case Simplex():
            corners = np.eye(SIZE)[random.integers(0, SIZE, count // 2)]
            inner = random.dirichlet(np.full(SIZE, 0.5), count - count // 2)
            return constraint.total * np.concatenate([corners, inner])
        case Monotone():
            wild[:, 0], wild[:, 5] = abs(wild[:, 0]), -abs(wild[:, 5])
            wild[:, 2:5] = -np.sort(-wild[:, 2:5])
            wild[: count // 2, 3] = wild[: count // 2, 2]
            wild[count // 4 :, 0] = wild[count // 4 :, 5] = 0
            return wild
    raise AssertionError(constraint)


def weights(regulariser):
    match regulariser:
        case NoRegulariser():
            return 0.0, 0.0
        case L1():
            return regulariser.weight, 0.0
        case L2():
            return 0.0, regulariser.weight
        case ElasticNet():
            return regulariser.l1, regulariser.l2
    raise AssertionError(regulariser)


def violation(regulariser, constraint, v, step, x, random):
    """Return how far x is from optimal: the steepest descent over directions into the set.

    x minimises the convex r(x) + |x - v|^2 / (2 step) over C if and only if its directional
    derivative along y - x is >= 0 for every y in C.
    """
    assert bool(constraint.contains(x, 1e-9))
    l1, l2 = weights(regulariser)
    x, v = np.asarray(x), np.asarray(v)
    ways = vertices_and_more(constraint, random) - x
    if isinstance(constraint, WholeSpace):
        ways = np.concatenate([ways, np.eye(SIZE), -np.eye(SIZE)])
    smooth = ways @ (l2 * x + (x - v) / step)
    kink = l1 * np.where(np.abs(x) < 1e-14, np.abs(ways), np.sign(x) * ways).sum(1)
    return float(-(smooth + kink).min())


@pytest.mark.parametrize(("regulariser", "constraint"), PAIRS)
def test_the_prox_meets_its_optimality_condition(regulariser, constraint):
    random = np.random.default_rng(0)
    problem = Problem(Logistic(), regulariser, constraint)
    prox = jax.jit(lambda module, v, step: module.prox(v, step))
    for scale in (0.3, 1.0, 5.0):
        for step in (0.1, 1.0, 3.0):
            v = jnp.asarray(random.normal(size=SIZE) * scale)
            x = prox(problem, v, step)
            assert violation(regulariser, constraint, v, step, x, random) <= 1e-9


def half_threshold(v, step):
    return soft_threshold(v, 0.5 * step * 0.7)


def l1_after_the_ball(v, step):
    return soft_threshold(Ball(1.2).project(v), step * 0.7)


def square_forgotten(v, step):
    return Box(-0.5, 0.8).project(v)


@pytest.mark.parametrize(
    ("regulariser", "constraint", "wrong"),
    [
        (L1(0.7), WholeSpace(), half_threshold),
        (L1(0.7), Ball(1.2), l1_after_the_ball),
        (L2(1.3), Box(-0.5, 0.8), square_forgotten),
    ],
)
def test_a_wrong_prox_is_caught_by_the_same_condition(regulariser, constraint, wrong):
    random = np.random.default_rng(0)
    v = jnp.asarray([3.0, -2.0, 0.6, 0.2, -0.9, 1.1])
    x = wrong(v, 0.5)
    assert violation(regulariser, constraint, v, 0.5, x, random) > 1e-2


@pytest.mark.parametrize("constraint", SETS)
def test_the_projection_meets_its_variational_inequality(constraint):
    random = np.random.default_rng(2)
    feasible = vertices_and_more(constraint, random)
    for scale in (0.1, 1.0, 10.0):
        for x in random.normal(size=(20, SIZE)) * scale:
            p = np.asarray(constraint.project(jnp.asarray(x)))
            assert bool(constraint.contains(jnp.asarray(p), 1e-12))
            assert float(((feasible - p) @ (x - p)).max()) <= 1e-11


def test_a_wrong_projection_is_caught_by_the_same_inequality():
    random = np.random.default_rng(2)
    x = np.array([1.0, 0.8, 0.1, -0.2, -2.0, 0.0])
    p = np.maximum(x, 0)
    p = 1.5 * p / p.sum()
    feasible = vertices_and_more(Simplex(1.5), random)
    assert ((feasible - p) @ (x - p)).max() > 1e-2


def test_a_large_common_offset_does_not_disturb_the_simplex_projection():
    x = jnp.asarray([1e9, 1e9, 0.0], jnp.float32)
    np.testing.assert_allclose(Simplex(1.0).project(x), [0.5, 0.5, 0.0])


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_values_and_subgradients_agree(regulariser):
    random = np.random.default_rng(4)
    l1, l2 = weights(regulariser)
    for _ in range(20):
        x, y = jnp.asarray(random.normal(size=(2, 3, 2)))
        exact = l1 * np.abs(x).sum() + l2 / 2 * np.square(x).sum()
        assert float(regulariser.value(x)) == pytest.approx(exact, rel=1e-13)
        slope = regulariser.subgradient(x)
        support = regulariser.value(x) + jnp.sum(slope * (y - x))
        assert float(regulariser.value(y)) >= float(support) - 1e-12
        assert np.linalg.norm(slope) <= regulariser.gradient_bound(6) + 1e-12
        if math.isfinite(regulariser.smoothness):
            rise = slope - regulariser.subgradient(y)
            reach = regulariser.smoothness * np.linalg.norm(x - y)
            assert np.linalg.norm(rise) == pytest.approx(reach, abs=1e-12)
    assert not np.any(regulariser.subgradient(jnp.zeros(3)))


def test_the_constants_are_those_of_the_definitions():
    constants = [(r.gradient_bound(4), r.smoothness, r.strong_convexity) for r in REGULARISERS]
    inf = math.inf
    assert constants == [(0, 0, 0), (1.4, inf, 0), (inf, 1.3, 1.3), (inf, inf, 0.9)]


def test_a_point_outside_is_not_contained():
    outside = jnp.array([2.0, 0.0])
    for constraint in (Box(-1.0, 1.0), Ball(1.0), Simplex(1.0)):
        assert not bool(constraint.contains(outside, 0.5))
        assert bool(constraint.contains(jnp.array([1.0, 0.0]), 0.0))
    assert not bool(Simplex(1.0).contains(jnp.array([1.5, -0.5]), 0.1))
    assert not bool(WholeSpace().contains(jnp.array([jnp.nan]), 1.0))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Box(1.0, 0.0),
        lambda: Box(math.nan, 0.0),
        lambda: Box(np.array([0.0, 2.0]), 1.0),
        lambda: Ball(0.0),
        lambda: Ball(math.nan),
        lambda: Simplex(-1.0),
        lambda: L1(-1.0),
        lambda: L2(math.nan),
        lambda: ElasticNet(l1=1.0, l2=math.inf),
    ],
)
def test_impossible_sets_and_weights_are_refused(build):
    with pytest.raises(InputError):
        build()


def test_an_isotonic_regression_is_that_of_scikit_learn_and_in_order_as_computed():
    random = np.random.default_rng(3)
    for size in (1, 2, 10, 57):
        for dtype in (np.float32, np.float64):
            y = (random.normal(size=size) + np.linspace(-1, 1, size)).astype(dtype)
            found = np.asarray(isotonic(jnp.asarray(y)))
            assert (np.diff(found) >= 0).all()
            np.testing.assert_allclose(found, isotonic_regression(y), atol=1e-5)


def test_two_directions_of_one_column_are_refused():
    with pytest.raises(InputError, match="two directions"):
        Monotone((Direction(1, 0), Direction(-1, 0)))
