"""The classifier with structured weights: against an independent optimum, and its disclosures."""

import math

import cvxpy
import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.estimators import PrivateStructuredClassifier

PUBLIC = {"delta": 1e-6, "bounds": (0, 1), "classes": [0, 1]}
EDGES = [[0, 2]]


def records():
    draw = np.random.default_rng(0)
    x = draw.uniform(0, 1, (120, 3))
    x[:, 2] = np.clip(x[:, 0] + 0.1 * draw.standard_normal(120), 0, 1)
    return x, (x[:, 0] - x[:, 1] + 0.5 * draw.standard_normal(120) > 0).astype(int)


@pytest.fixture(scope="module")
def fitted():
    """The fused lasso along one edge, without noise."""
    model = PrivateStructuredClassifier(
        **PUBLIC, epsilon=math.inf, rounds=2_000, graph=EDGES, l1=0.02, l2=1e-3
    )
    return model.fit(*records())


def test_without_noise_it_is_the_fused_lasso_of_a_conic_solver(fitted):
    x, y = records()
    rows, signs = np.column_stack([2 * x - 1, np.ones(len(x))]), 2.0 * y - 1
    w = cvxpy.Variable(4)
    loss = cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(signs, rows @ w))) / len(y)
    structure = cvxpy.norm1(w) + cvxpy.abs(w[0] - w[2])  # of the constant only its size counts
    problem = cvxpy.Problem(cvxpy.Minimize(loss + 0.02 * structure + 0.5e-3 * cvxpy.sum_squares(w)))
    problem.solve(solver=cvxpy.CLARABEL)
    slopes = fitted.coef_[0] / 2  # per column mapped to [-1, 1], the middle of [0, 1] to 0
    found = np.append(slopes, fitted.intercept_ + slopes.sum())
    np.testing.assert_allclose(found, w.value, atol=2e-3)
    assert abs(w.value[0] - w.value[2]) < 1e-4 < abs(w.value[0])  # the edge makes them equal
    assert any("graph=" in line for line in fitted.certificate_.conditions)


def test_graphs_that_do_not_fit_name_the_fix():
    x, y = records()
    for options, words in (
        ({"structure": "ring"}, "choose from lasso"),
        ({"graph": [[0, 3]]}, "columns are 0 to 2"),
        ({"graph": "ring"}, '"chain" or public pairs'),
        ({"structure": "generalized-lasso"}, "needs the rows of A"),
        ({"structure": "generalized-lasso", "graph": [[1.0, 2.0]]}, "X has 3"),
    ):
        with pytest.raises(InputError, match=words):
            PrivateStructuredClassifier(**PUBLIC, epsilon=1.0, **options).fit(x, y)
