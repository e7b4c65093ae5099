"""Estimators on public feature maps and structures; arrays that are dealt to agents row by row."""

import math

import cvxpy
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import taciturn
from taciturn.errors import InputError
from taciturn.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStructuredClassifier,
)
from taciturn.features import Inputs, feature_map_named

SETTINGS = {"epsilon": 8.0, "delta": 1e-6, "bounds": (0, 100), "rounds": 50, "random_state": 0}


@pytest.fixture(scope="module")
def between():
    """Whoever is between 40 and 60 is ill: no line in age can tell."""
    ages = np.random.default_rng(0).uniform(0, 100, (3000, 1))
    return ages, (np.abs(ages[:, 0] - 50) < 10).astype(int)


@pytest.mark.parametrize("features", ["bins:10", "fourier:20"])
def test_a_fit_on_a_feature_map_scores_by_that_map_and_its_certificate_names_it(between, features):
    x, y = between
    model = PrivateLogisticRegression(**SETTINGS, features=features, classes=[0, 1])
    model = clone(model).fit(x, y)
    mapped = feature_map_named(features, Inputs(("0", "(intercept)"), np.sqrt(2), (0,), 1))
    assert model.plan_.spec.record_norm == pytest.approx(mapped.record_norm)
    assert model.feature_map_.names == mapped.names
    constant = mapped.names.index("(intercept)")
    rows = mapped.apply(np.column_stack([x[:, 0] / 50 - 1, np.ones(len(x))]))
    weights = np.insert(model.coef_[0], constant, model.intercept_[0])
    np.testing.assert_allclose(model.decision_function(x), rows @ weights, atol=1e-12)
    assert any(features in line for line in model.certificate_.conditions)
    if features == "bins:10":
        assert model.score(x, y) > 0.95
        plain = PrivateLogisticRegression(**SETTINGS, features="columns", classes=[0, 1]).fit(x, y)
        assert plain.score(x, y) < 0.85
        assert plain.feature_map_ is None


def test_regressions_and_missing_cells_go_through_a_map_and_names_are_those_of_the_columns(between):
    x, y = between
    holes = np.random.default_rng(1).uniform(size=len(x)) < 0.2
    frame = pd.DataFrame({"age": np.where(holes, np.nan, x[:, 0])})
    model = PrivateLinearRegression(
        **{**SETTINGS, "bounds": {"age": (0, 100)}, "rounds": 200},
        features="bins:10", target_bounds=(0, 1), missing="indicator",
    ).fit(frame, y)  # fmt: skip
    assert model.feature_map_.names[:3] == ("age", "age=missing", "(intercept)")
    assert model.coef_.shape == (12,)
    assert model.predict(pd.DataFrame({"age": [50.0, 5.0]})) @ [1, -1] > 0.5
    assert np.isfinite(model.predict(pd.DataFrame({"age": [np.nan]}))).all()


@pytest.mark.parametrize("features", ["bins", "bins:1", "mean", 10, "scattering"])
def test_a_map_that_cannot_be_is_one_clear_error(between, features):
    model = PrivateLogisticRegression(**SETTINGS, classes=[0, 1]).set_params(features=features)
    with pytest.raises(InputError) as caught:
        model.fit(*between)
    assert "\n" not in str(caught.value)


def test_a_structure_of_the_columns_is_refused_on_their_features(between):
    model = PrivateStructuredClassifier(**SETTINGS, features="bins:4", classes=[0, 1])
    with pytest.raises(InputError, match="excludes the structure"):
        model.fit(*between)
    assert model.set_params(structure="lasso").fit(*between).coef_.shape == (1, 5)


FACTS = {"delta": 1e-6, "bounds": (0, 1), "classes": [0, 1]}


EDGES = [[0, 2]]


def related():
    draw = np.random.default_rng(0)
    x = draw.uniform(0, 1, (120, 3))
    x[:, 2] = np.clip(x[:, 0] + 0.1 * draw.standard_normal(120), 0, 1)
    return x, (x[:, 0] - x[:, 1] + 0.5 * draw.standard_normal(120) > 0).astype(int)


@pytest.fixture(scope="module")
def fitted():
    """The fused lasso along one edge, without noise."""
    model = PrivateStructuredClassifier(
        **FACTS, epsilon=math.inf, rounds=2_000, graph=EDGES, l1=0.02, l2=1e-3
    )
    return model.fit(*related())


def test_without_noise_it_is_the_fused_lasso_of_a_conic_solver(fitted):
    x, y = related()
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
    stated = "\n".join(fitted.certificate_.conditions)
    assert "graph or matrix of the structure" in stated


def test_graphs_that_do_not_fit_name_the_fix():
    x, y = related()
    for options, words in (
        ({"structure": "ring"}, "choose from lasso"),
        ({"graph": [[0, 3]]}, "columns are 0 to 2"),
        ({"graph": "ring"}, '"chain" or public pairs'),
        ({"structure": "generalized-lasso"}, "needs the rows of A"),
        ({"structure": "generalized-lasso", "graph": [[1.0, 2.0]]}, "X has 3"),
    ):
        with pytest.raises(InputError, match=words):
            PrivateStructuredClassifier(**FACTS, epsilon=1.0, **options).fit(x, y)


RANGES = ([0.0, -1.0], [10.0, 1.0])


def dealt_records(rows=40):
    draw = np.random.default_rng(0)
    return draw.uniform([0, -1], [10, 1], (rows, 2)), np.where(draw.random(rows) < 0.5, -1, 1)


def test_cells_are_cut_to_public_ranges_and_a_constant_follows():
    x, y = np.array([[5.0, 0.0], [40.0, -3.0]]), np.array([1, -1])
    owners = taciturn.deal(x, y, bounds=RANGES)
    assert (owners.facts.counts, owners.facts.dealt) == ((2,), False)
    np.testing.assert_array_equal(owners.features, [[0, 0, 1], [1, -1, 1]])
    assert owners.record_norm == np.sqrt(3)


def test_rows_are_dealt_in_secret_unless_a_seed_or_owners_are_given():
    x, y = dealt_records()
    one, two = (taciturn.deal(x, y, agents=4, bounds=RANGES) for _ in range(2))
    assert any((a != b).any() for a, b in zip(one.parts, two.parts, strict=True))
    assert one.facts.dealt
    owned = taciturn.deal(x, y, agents=np.repeat(["a", "b"], 20), bounds=RANGES)
    assert owned.facts.counts == (20, 20)
    assert not owned.facts.dealt
    problem = taciturn.Problem(taciturn.Logistic())
    plan = taciturn.plan(problem, one.facts, epsilon=1, delta=1e-4, rounds=2)
    certificate = plan.run(two).certificate
    assert not certificate.reproduction
    assert any("bounds of the columns are public" in one for one in certificate.conditions)
    seeded = taciturn.deal(x, y, agents=4, bounds=RANGES, seed=5)
    assert plan.run(seeded).certificate.reproduction


def test_test_records_are_encoded_alike():
    x, y = dealt_records()
    owners = taciturn.deal(x, y, agents=2, bounds=RANGES, test=(x[:5], y[:5]))
    np.testing.assert_array_equal(owners.test_features, owners.features[:5])
    assert "5 test records" in repr(owners)


@pytest.mark.parametrize(
    ("x", "y", "settings", "words"),
    [
        ([[1.0, 0.0]], ["ill"], {}, "one number for each row"),
        ([[1.0, 0.0]], [1, 1], {}, "1 rows and 2 targets"),
        ([[np.nan, 0.0]], [1], {}, "missing cells"),
        ([[1.0, 0.0]], [1], {"bounds": (1.0, 1.0)}, "bounds of column 0"),
        ([[1.0, 0.0]], [1], {"agents": 2}, "2 agents"),
    ],
)
def test_arrays_that_do_not_suit_are_refused(x, y, settings, words):
    given = {"agents": 1, "bounds": RANGES} | settings
    with pytest.raises(InputError, match=words):
        taciturn.deal(x, y, **given)


def test_no_cell_is_quoted():
    with pytest.raises((InputError, TypeError)) as caught:
        taciturn.deal([["secret", 0.0]], [1], agents=1, bounds=RANGES)
    assert "secret" not in str(caught.value)


def test_a_row_of_another_does_not_move_a_row():
    x, y = dealt_records()
    moved = x.copy()
    moved[3] = [9.0, 0.9]
    first, second = (taciturn.deal(rows, y, agents=4, bounds=RANGES, seed=0) for rows in (x, moved))
    rows = np.flatnonzero((first.features != second.features).any(axis=1))
    assert rows.tolist() == [3]
    assert first.facts == second.facts
