"""Private estimators against scikit-learn's own, and as parts of it."""

import math
import pickle

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from taciturn.algorithms import METHODS
from taciturn.errors import InputError
from taciturn.estimators import PrivateLinearRegression, PrivateLogisticRegression, PrivateSVC
from taciturn.problems import MarginLoss, Squared

LOW, HIGH = np.array([20.0, -1.0]), np.array([80.0, 3.0])
EXACT = {"epsilon": math.inf, "delta": 1e-6, "bounds": (LOW, HIGH), "rounds": 20_000}
NOISY = {"epsilon": 8.0, "delta": 1e-6, "bounds": (LOW, HIGH), "rounds": 20, "random_state": 0}


def records(rows=240, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.uniform(LOW, HIGH, (rows, 2))
    return x, 0.1 * x[:, 0] - x[:, 1] + 1.5 * draw.standard_normal(rows)


def two_labels(rows=240):
    x, score = records(rows)
    return x, np.where(score > 4, "ill", "fit")


def three_labels():
    x, score = records()
    return x, np.digitize(score, [3, 5]) * 10


def encoded(x):
    """Return columns in [-1, 1] and a constant, by a formula of this file's own."""
    return np.column_stack([(2 * x - LOW - HIGH) / (HIGH - LOW), np.ones(len(x))])


def test_without_noise_two_classes_are_scikit_learns_logistic_regression():
    x, y = two_labels()
    ours = PrivateLogisticRegression(**EXACT, l2=0.0, classes=["fit", "ill"]).fit(x, y)
    theirs = LogisticRegression(C=math.inf, tol=1e-12, max_iter=10_000).fit(x, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-5)
    assert ours.score(x, y) == theirs.score(x, y)
    assert ours.classes_.tolist() == ["fit", "ill"]
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape


def test_without_noise_three_classes_are_the_regularised_multinomial_optimum():
    x, y = three_labels()
    ours = PrivateLogisticRegression(**EXACT, l2=1e-2, classes=[20, 10, 0]).fit(x, y)
    theirs = LogisticRegression(C=1 / (1e-2 * len(x)), fit_intercept=False, tol=1e-12)
    theirs.set_params(max_iter=10_000).fit(encoded(x), y)
    np.testing.assert_allclose(
        ours.decision_function(x), theirs.decision_function(encoded(x)), atol=1e-6
    )
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(encoded(x)), atol=1e-6)
    assert ours.predict(x).tolist() == theirs.predict(encoded(x)).tolist()
    assert (ours.coef_.shape, ours.intercept_.shape) == ((3, 2), (3,))


def test_without_noise_linear_regression_is_least_squares_and_ridge():
    x, y = records()
    public = {**EXACT, "target_bounds": (-10.0, 20.0)}
    ours = PrivateLinearRegression(**public, l2=0.0).fit(x, y)
    theirs = LinearRegression().fit(x, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-6)
    assert ours.coef_.shape == (2,)
    assert ours.score(x, y) == pytest.approx(theirs.score(x, y))
    ours.set_params(l2=0.05).fit(x, y)
    ridge = Ridge(alpha=0.05 * len(x), fit_intercept=False).fit(encoded(x), (y - 5) / 15)
    np.testing.assert_allclose(ours.predict(x), 5 + 15 * ridge.predict(encoded(x)), rtol=1e-8)


def test_without_noise_the_support_vector_classifier_minimises_the_smoothed_hinge():
    x, y = two_labels()
    ours = PrivateSVC(**EXACT, l2=0.05, smoothing=0.3, classes=["fit", "ill"]).fit(x, y)
    rows, sign = encoded(x), np.where(y == "ill", 1, -1)

    def objective(w):
        gap = 1 - sign * (rows @ w)
        bent = np.where(gap > 0.3, gap, np.where(gap < -0.3, 0, (gap + 0.3) ** 2 / 1.2))
        return bent.mean() + 0.025 * w @ w

    w = minimize(objective, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(ours.decision_function(x), rows @ w, atol=1e-4)
    assert not hasattr(ours, "predict_proba")


@pytest.mark.parametrize(
    ("made", "whole", "loss", "clip"),
    [(two_labels, 1.0, "logistic", "0.5"), (three_labels, 1.42, "multinomial", "0.816497")],
)
def test_a_clipped_fit_has_no_probabilities_and_says_what_gives_some(made, whole, loss, clip):
    x, y = made()
    given = {**EXACT, "epsilon": 5.0, "rounds": 2, "random_state": 0, "classes": sorted(set(y))}
    default = PrivateLogisticRegression(**given).fit(x, y)
    np.testing.assert_allclose(default.predict_proba(x).sum(axis=1), 1)
    given["loss"] = loss
    clipped = PrivateLogisticRegression(**given).fit(x, y)
    assert str(clipped.loss_) == f"robust {loss}, clip {clip}"
    assert not hasattr(clipped, "predict_proba")
    with pytest.raises(AttributeError, match=rf"no probabilities.*clip={whole:g}"):
        clipped.predict_proba(x)
    full = PrivateLogisticRegression(**given, clip=whole).fit(x, y)
    np.testing.assert_allclose(full.predict_proba(x).sum(axis=1), 1)
    assert "robust" not in str(full.loss_)
    with pytest.raises(NotFittedError):
        PrivateLogisticRegression(**given).predict_proba(x)


def test_agents_count_alike_whatever_their_number_of_records():
    x, y = two_labels()
    owner = np.repeat(["b", "a", "c"], [20, 180, 40])
    model = PrivateLogisticRegression(**EXACT, l2=1e-2, classes=["fit", "ill"])
    model.fit(x, y, agents=owner)
    assert model.plan_.spec.counts == (180, 20, 40)
    weight = (1 / np.array([20, 180, 40])).repeat([20, 180, 40]) / 3
    truth = LogisticRegression(C=1 / 1e-2, fit_intercept=False, tol=1e-12, max_iter=10_000)
    truth.fit(encoded(x), y, sample_weight=weight)
    np.testing.assert_allclose(
        model.decision_function(x), truth.decision_function(encoded(x)), atol=1e-6
    )
    as_frame = clone(model).fit(x, y, agents=pd.Series(owner, dtype=object))
    np.testing.assert_array_equal(as_frame.coef_, model.coef_)


def test_a_number_of_agents_deals_the_rows_out_by_a_public_seed():
    x, y = two_labels()
    model = PrivateLogisticRegression(**NOISY, classes=["fit", "ill"])
    one, again = (clone(model).fit(x, y, agents=7) for _ in range(2))
    assert sorted(one.plan_.spec.counts) == [34] * 5 + [35] * 2
    np.testing.assert_array_equal(one.coef_, again.coef_)
    other = clone(model).set_params(split_seed=1).fit(x, y, agents=7)
    assert not np.array_equal(one.coef_, other.coef_)


def test_coefficients_in_the_users_units_reproduce_the_scores_and_outside_rows_are_clipped():
    x, y = three_labels()
    model = PrivateLogisticRegression(**NOISY, classes=[0, 10, 20]).fit(x, y)
    by_hand = x @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(x), by_hand, rtol=1e-12)
    outside = np.array([[1e9, 0.0], [50.0, -1e9]])
    inside = np.array([[80.0, 0.0], [50.0, -1.0]])
    np.testing.assert_array_equal(model.decision_function(outside), model.decision_function(inside))
    np.testing.assert_array_equal(model.bounds_, (LOW, HIGH))


class Softened(MarginLoss):
    """The logistic loss, whose slope is found by differentiation."""

    smoothness = 0.25

    def value(self, margins, targets):
        return jnp.logaddexp(0.0, -targets * margins)


def test_a_loss_of_the_users_stands_in_place_of_the_estimators():
    x, y = two_labels()
    given = {**NOISY, "classes": ["fit", "ill"], "clip": 1.0}
    ours = PrivateLogisticRegression(**given, loss="logistic").fit(x, y)
    theirs = PrivateSVC(**given, loss=Softened).fit(x, y)
    np.testing.assert_allclose(theirs.coef_, ours.coef_, rtol=1e-9)
    assert str(theirs.loss_).endswith(":Softened")
    assert any("Softened" in condition for condition in theirs.certificate_.conditions)
    with pytest.raises(InputError, match="loss is 'squared'; choose from capped-exponential"):
        PrivateSVC(**given, loss="squared").fit(x, y)


def test_an_algorithm_that_samples_draws_batches_at_the_rate_that_is_given():
    x, y = two_labels()
    model = PrivateLogisticRegression(**{**EXACT, "rounds": 5}, classes=["fit", "ill"])
    model.set_params(algorithm="dp-sgd", sampling_rate=0.2).fit(x, y)
    np.testing.assert_array_equal(model.plan_.ledger.rate, 0.2)


@pytest.mark.slow
def test_an_estimator_lives_in_pipelines_grids_and_pickles():
    x, y = two_labels()
    frame = pd.DataFrame(x, columns=["age", "level"])
    model = PrivateLogisticRegression(**NOISY, classes=["fit", "ill"])
    pipe = make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), model)
    grid = GridSearchCV(pipe, {"privatelogisticregression__clip": [0.1, 0.5]}, cv=2)
    grid.fit(frame, y, privatelogisticregression__agents=np.arange(len(y)) % 2)
    best = grid.best_estimator_[-1]
    assert best.feature_names_in_.tolist() == ["age", "level"]
    assert best.plan_.spec.counts == (120, 120)
    loaded = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(loaded.decision_function(frame), best.decision_function(frame))
    assert loaded.certificate_ == best.certificate_
    assert loaded.plan_.digest == best.plan_.digest
    assert repr(clone(best)) == repr(best)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"epsilon": None}, "epsilon and delta are not both set"),
        ({"algorithm": "dp-sgd", "batches": "large"}, "choose from poisson, fixed"),
        ({"batches": "fixed"}, "no option batches.*dp-sgd"),
        ({"bounds": (0, 1, 2)}, "pair"),
        ({"bounds": (0, [1, 2, 3])}, "2 numbers, one per column"),
        ({"bounds": (0, [1, 0])}, "bounds of column 1: min is 0 and max is 0"),
        ({"classes": ["fit"]}, "at least two"),
        ({"classes": ["fit", "dead"]}, "not in classes"),
        ({"relation": "bounded_change"}, "relation"),
        ({"algorithm": "dp-sgd", "sampling_rate": 2.0}, "sampling-rate is 2"),
        ({"clip": 0.0}, "clip is 0"),
        ({"random_state": -1}, "random_state is -1"),
    ],
)
@pytest.mark.unchecked
def test_a_setting_out_of_range_is_refused_by_fit_and_by_nothing_before(change, match):
    x, y = two_labels(20)
    model = PrivateLogisticRegression(**{**NOISY, "classes": ["fit", "ill"], **change})
    with pytest.raises(InputError, match=match):
        model.fit(x, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("agents", "match"),
    [
        (21, "21"),
        ("me", "agents is 'me'"),
        (["a"] * 19, "one label for each of the 20 rows"),
        (["a"] * 19 + [None], "no owner"),
    ],
)
def test_owners_that_do_not_fit_the_rows_are_refused(agents, match):
    model = PrivateLogisticRegression(**NOISY, classes=["fit", "ill"])
    with pytest.raises(InputError, match=match):
        model.fit(*two_labels(20), agents=agents)


def test_a_residual_is_bounded_by_an_eighth_of_the_range_where_gradients_are_asked_for():
    clips = {
        name: METHODS[name].clip_for(Squared(), 1.0)
        for name in ("noisy-gradient", "dp-admm", "dp-sgd", "nids", "one-question", "pvp")
    }
    assert clips == {
        **dict.fromkeys(("noisy-gradient", "dp-admm", "dp-sgd", "nids"), 0.25),
        **dict.fromkeys(("one-question", "pvp"), 1.0),
    }
    assert METHODS["noisy-gradient"].clip_for(Squared(), math.inf) == math.inf


def test_a_wide_range_of_the_target_costs_less_than_its_width():
    """At clip 1 the noise of half the range hides a target that fills a fifth of it."""
    draw, found = np.random.default_rng(0), {}
    x = draw.uniform(-1, 1, (4_000, 5))
    y = x @ draw.standard_normal(5) + 0.3 * draw.standard_normal(4_000)
    for clip in (None, 1.0):
        fit = PrivateLinearRegression(
            epsilon=0.5, delta=1e-6, bounds=(-1, 1), target_bounds=(-25, 25), random_state=0,
            clip=clip,
        )  # fmt: skip
        found[clip] = fit.fit(x, y).score(x, y)
    assert found[None] > 0.5
    assert found[None] > found[1.0] + 0.2
