import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.special
from sklearn.linear_model import LogisticRegression

from conftest import packed
from taciturn.audit import zero_record
from taciturn.errors import InputError
from taciturn.problems import (
    L1,
    L2,
    Ball,
    Box,
    ElasticNet,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    Squared,
    WholeSpace,
    minimise,
)


def data(classes=None, rows=120, seed=0, features=5):
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, features)) * np.array(
        [1, 0.3, 2.0, 0.05, 1.0] + [1] * (features - 5)
    )
    signal = x @ random.normal(size=features) + random.normal(size=rows)
    y = np.where(signal > 0, 1.0, -1.0)
    if classes:
        y = np.digitize(signal, np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1]))
    parts = np.split(np.arange(rows), [rows // 5, rows // 2])
    return x, y, packed(x, y, parts, record_norm=1e3)


def row_weights(shards, rows):
    return np.repeat([1 / (shards.agents * count) for count in shards.counts], shards.counts)


def ridge_gradient(x, y, weights, w):
    """Return the gradient of the weighted logistic loss with weight 0.01 on |w|^2 / 2."""
    w = np.asarray(w)
    return x.T @ (weights * -y * scipy.special.expit(-y * (x @ w))) + 0.01 * w


def test_the_multinomial_optimum_matches_sklearn():
    x, y, shards = data(classes=3)
    weight = 1e-2
    solution = minimise(Problem(MultinomialLogistic(3), L2(weight)), shards)
    theirs = LogisticRegression(C=1 / weight, fit_intercept=False, tol=1e-12, max_iter=5000)
    theirs.fit(x, y, sample_weight=row_weights(shards, len(y)))
    np.testing.assert_allclose(solution.w.T, theirs.coef_, atol=1e-5)


def test_the_least_squares_optimum_matches_the_normal_equations():
    x, y, shards = data()
    solution = minimise(Problem(Squared()), shards)
    root = np.sqrt(row_weights(shards, len(y)))
    theirs = np.linalg.lstsq(root[:, None] * x, root * y)[0]
    np.testing.assert_allclose(solution.w, theirs, atol=1e-9)
    assert math.isinf(solution.gap_bound)


def conic_value(loss, l1, l2, rules, x, y, weights):
    w = cp.Variable(x.shape[1])
    fit = {
        "logistic": lambda: cp.logistic(-cp.multiply(y, x @ w)),
        "squared": lambda: cp.square(x @ w - y) / 2,
    }[loss]()
    goal = weights @ fit + l1 * cp.norm1(w) + l2 / 2 * cp.sum_squares(w)
    problem = cp.Problem(cp.Minimize(goal), rules(w))
    problem.solve(solver=cp.CLARABEL)
    return w.value, problem.value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "regulariser", "constraint", "rules"),
    [
        ("logistic", L1(0.05), WholeSpace(), lambda w: []),
        ("squared", ElasticNet(l1=0.05, l2=0.1), WholeSpace(), lambda w: []),
        ("logistic", NoRegulariser(), Box(-0.3, 0.2), lambda w: [w >= -0.3, w <= 0.2]),
        ("logistic", L1(0.02), Ball(0.5), lambda w: [cp.norm(w) <= 0.5]),
        ("squared", L2(0.1), Simplex(1.0), lambda w: [w >= 0, cp.sum(w) == 1]),
    ],
)
def test_constrained_and_non_smooth_optima_match_a_conic_solver(
    name, regulariser, constraint, rules
):
    x, y, shards = data()
    loss = {"logistic": Logistic(), "squared": Squared()}[name]
    l1 = getattr(regulariser, "l1", regulariser.weight if isinstance(regulariser, L1) else 0.0)
    problem = Problem(loss, regulariser, constraint)
    solution = minimise(problem, shards)
    w, value = conic_value(
        name, l1, regulariser.strong_convexity, rules, x, y, row_weights(shards, len(y))
    )
    np.testing.assert_allclose(solution.w, w, atol=2e-4)
    assert solution.value == pytest.approx(value, abs=1e-7)
    assert float(problem.objective(solution.w, shards)) == pytest.approx(solution.value, rel=1e-13)
    assert bool(constraint.contains(solution.w, 1e-12))


def test_both_solvers_find_the_same_huber_optimum():
    shards = data()[2]
    loss = HuberHinge(0.5)
    free = minimise(Problem(loss, L2(0.01)), shards)
    boxed = minimise(Problem(loss, L2(0.01), Box(-1e6, 1e6)), shards)
    np.testing.assert_allclose(free.w, boxed.w, atol=1e-6)


def test_the_gap_bound_holds_at_a_rough_tolerance():
    shards = data()[2]
    problem = Problem(Logistic(), ElasticNet(l1=0.01, l2=0.01))
    rough, fine = minimise(problem, shards, tol=1e-2), minimise(problem, shards, tol=1e-10)
    assert 1e-12 < rough.value - fine.value <= rough.gap_bound


@pytest.mark.slow
def test_more_features_than_the_whitening_takes_are_solved_too():
    x, y, shards = data(features=1003, rows=60)
    solution = minimise(Problem(Logistic(), L2(0.01)), shards)
    assert np.linalg.norm(ridge_gradient(x, y, row_weights(shards, 60), solution.w)) <= 1e-9


def test_a_zeroed_record_keeps_its_place_in_the_mean():
    x, y, shards = data()
    solution = minimise(Problem(Logistic(), L2(0.01)), zero_record(shards, 0, 3))
    weights = row_weights(shards, len(y))
    assert np.linalg.norm(ridge_gradient(x, y, weights, solution.w)) > 1e-4
    weights[3] = 0
    assert np.linalg.norm(ridge_gradient(x, y, weights, solution.w)) <= 1e-9


def test_an_optimum_at_infinity_has_no_gap_bound():
    x = np.array([[1.0], [-1.0]])
    shards = packed(x, x[:, 0], [np.array([0, 1])])
    solution = minimise(Problem(Logistic()), shards)
    assert float(solution.w[0]) > 15
    assert math.isinf(solution.gap_bound)


def test_a_tolerance_below_rounding_is_not_certified():
    shards = data()[2]
    with pytest.raises(InputError, match="residual"):
        minimise(Problem(Logistic(), L2(0.01)), shards, tol=1e-30)


def test_too_few_iterations_are_not_certified():
    shards = data()[2]
    with pytest.raises(InputError, match="residual"):
        minimise(Problem(Logistic(), L1(0.01)), shards, max_iterations=2)
