"""Estimators on public feature maps: the same maps as after `taciturn train --features`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

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
        plain = PrivateLogisticRegression(**SETTINGS, classes=[0, 1]).fit(x, y)
        assert plain.score(x, y) < 0.85
        assert plain.feature_map_ is None


def test_regressions_and_missing_cells_go_through_a_map_and_names_are_those_of_the_columns(between):
    x, y = between
    holes = np.random.default_rng(1).uniform(size=len(x)) < 0.2
    frame = pd.DataFrame({"age": np.where(holes, np.nan, x[:, 0])})
    model = PrivateLinearRegression(
        **{**SETTINGS, "bounds": {"age": (0, 100)}},
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
    with pytest.raises(InputError, match="do not go together"):
        model.fit(*between)
    assert model.set_params(structure="lasso").fit(*between).coef_.shape == (1, 5)
