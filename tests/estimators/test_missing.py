"""Estimators on missing cells, sparse rows and bounds by name; scalers and pipelines."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from taciturn.errors import InputError, PrivacyWarning, PublicFactsWarning
from taciturn.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStructuredClassifier,
    PublicBounds,
    check_pipeline,
    validation,
)
from taciturn.estimators.ranges import Ranges

LOW, HIGH = np.array([20.0, -1.0, 0.0]), np.array([80.0, 3.0, 1.0])
PUBLIC = {"delta": 1e-6, "bounds": (LOW, HIGH)}
NOISY = {**PUBLIC, "epsilon": 1.0, "rounds": 3, "random_state": 0, "classes": [0, 1], "clip": 1.0}


def records(rows=300):
    """Return rows of which some cells are missing, and targets that depend on which."""
    draw = np.random.default_rng(0)
    x = draw.uniform(LOW, HIGH, (rows, 3))
    score = 0.1 * x[:, 0] - x[:, 1] + draw.standard_normal(rows)
    holes = draw.uniform(size=rows) < 0.3
    x[holes, 1] = np.nan
    return x, score + 2 * holes


def labels(score):
    return (score > 4).astype(int)


# missing cells


def test_without_noise_indicators_are_least_squares_on_the_middle_and_a_column_that_says_so():
    x, y = records()
    exact = {**PUBLIC, "epsilon": math.inf, "rounds": 20_000, "l2": 0.0}
    model = PrivateLinearRegression(**exact, target_bounds=(-10, 20), missing={1: "indicator"}).fit(
        x, y
    )
    holes = np.isnan(x[:, 1])
    middle = np.where(np.isnan(x), (LOW + HIGH) / 2, x)
    truth = np.column_stack([middle, holes, np.ones(len(x))])
    w = np.linalg.lstsq(truth, y, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, w[:3], rtol=1e-5)
    np.testing.assert_allclose(model.missing_coef_, [0, w[3], 0], rtol=1e-5)
    assert model.intercept_ == pytest.approx(w[4], rel=1e-5)
    np.testing.assert_allclose(model.predict(x), truth @ w, rtol=1e-5)
    assert model.indicators_ == (1,)
    assert any("missing=" in line for line in model.certificate_.conditions)


def test_indicators_of_all_columns_cost_no_norm_and_no_noise():
    x, score = records()
    filled = np.where(np.isnan(x), 1.0, x)
    plain = PrivateLogisticRegression(**NOISY).fit(filled, labels(score))
    marked = PrivateLogisticRegression(**NOISY, missing="indicator").fit(x, labels(score))
    assert marked.plan_.spec.record_norm == plain.plan_.spec.record_norm == 2.0
    # an indicator is one coordinate more, and so is its rounding to the lattice of the noise
    np.testing.assert_allclose(
        marked.plan_.ledger.scale, plain.plan_.ledger.scale, rtol=1e-6, atol=0
    )
    assert marked.coef_.shape == marked.missing_coef_.shape == (1, 3)
    assert np.all(marked.missing_coef_ != 0)
    assert marked.certificate_.conditions == plain.certificate_.conditions


def test_filling_in_is_the_middle_without_a_column_and_may_be_said_per_column():
    x, score = records()
    middle = np.where(np.isnan(x), (LOW + HIGH) / 2, x)
    by_hand = PrivateLogisticRegression(**NOISY).fit(middle, labels(score))
    model = PrivateLogisticRegression(**NOISY, missing="fill").fit(x, labels(score))
    assert model.plan_.spec.record_norm == 2.0
    assert (model.indicators_, model.filled_) == ((), (0, 1, 2))
    np.testing.assert_array_equal(model.coef_, by_hand.coef_)
    np.testing.assert_allclose(model.predict_proba(x), by_hand.predict_proba(middle))
    model.set_params(missing={0: "indicator", 1: "fill"}).fit(x, labels(score))
    assert (model.indicators_, model.filled_) == ((0,), (1,))
    with pytest.raises(InputError, match="missing cells in 2, which"):
        model.predict(np.full((1, 3), np.nan))


def extreme_rows():
    """Return every row of cells at an end, beyond it, in the middle, or missing."""
    cells = [
        [low, high, (low + high) / 2, np.nan, 1e300] for low, high in zip(LOW, HIGH, strict=True)
    ]
    return np.stack(np.meshgrid(*cells), axis=-1).reshape(-1, 3)


def test_no_row_is_longer_than_the_norm_whatever_is_missing():
    ranges = Ranges(LOW, HIGH, (0, 1), (2,))
    norms = np.linalg.norm(ranges.encoded(extreme_rows()), axis=1)
    assert norms.max() == ranges.record_norm == 2.0


def test_a_missing_cell_that_keeps_a_number_beside_its_indicator_is_caught(monkeypatch):
    ranges = Ranges(LOW, HIGH, (0, 1, 2))

    def at_the_end(self, rows):
        return np.where(np.isnan(rows), self.maximum, np.clip(rows, self.minimum, self.maximum))

    def encoded(self, rows):
        holes = np.isnan(rows).astype(np.float64)
        return np.concatenate([self.scaled(rows), holes, np.ones((len(rows), 1))], axis=1)

    monkeypatch.setattr(Ranges, "clipped", at_the_end)
    monkeypatch.setattr(Ranges, "encoded", encoded)
    assert np.linalg.norm(ranges.encoded(extreme_rows()), axis=1).max() > 1.3 * ranges.record_norm


def test_a_missing_cell_is_an_error_that_names_the_option_unless_it_is_asked_for():
    x, score = records()
    y = labels(score)
    model = PrivateLogisticRegression(**NOISY)
    with pytest.raises(InputError, match=r'NaN.*missing="indicator"') as caught:
        model.fit(x, y)
    assert "mputer" not in str(caught.value)  # one that learns is no cure here
    with pytest.raises(InputError, match="X has missing cells in 1, which missing= does not"):
        model.set_params(missing={0: "indicator"}).fit(x, y)
    model.set_params(missing={1: "indicator"}).fit(x, y)
    with pytest.raises(InputError, match="X has missing cells in 0, 2, which"):
        model.predict(np.full((1, 3), np.nan))
    for wrong, words in (
        ({1: "mean"}, 'missing is \'mean\'; write "indicator" or "fill"'),
        (3, 'missing is 3; it must be "indicator" or "fill" for all columns, or a mapping'),
        ([1], r"missing is \[1\]; it must be"),
        ({"age": "fill"}, "missing names columns, and X has no names"),
        ({3: "fill"}, "missing names 3"),
    ):
        with pytest.raises(InputError, match=words):
            model.set_params(missing=wrong).fit(x, y)


def test_ranges_read_off_the_records_pass_over_missing_cells():
    x, score = records()
    model = PrivateLogisticRegression(**{**NOISY, "bounds": None}, missing="indicator")
    with pytest.warns(PublicFactsWarning, match="bounds"):
        model.fit(x, labels(score))
    np.testing.assert_array_equal(model.bounds_[0], np.nanmin(x, axis=0))
    x[:, 1] = np.nan
    with pytest.raises(InputError, match="every cell of column 1 of X is missing; state its"):
        model.fit(x, labels(score))


# bounds by name


def named():
    x, score = records()
    frame = pd.DataFrame(x, columns=["age", "level", "share"])
    return frame, labels(score)


BY_NAME = {"share": (0, 1), "age": (20, 80), "level": (-1, 3)}


def test_bounds_and_missing_columns_are_given_by_name_in_any_order():
    frame, y = named()
    model = PrivateLogisticRegression(
        **{**NOISY, "bounds": BY_NAME}, missing={"level": "indicator"}
    )
    same = PrivateLogisticRegression(**NOISY, missing={1: "indicator"})
    np.testing.assert_array_equal(model.fit(frame, y).coef_, same.fit(frame.to_numpy(), y).coef_)
    with pytest.raises(InputError, match="X has missing cells in 'age', which"):
        model.predict(frame.assign(age=np.nan))
    with pytest.raises(InputError, match="missing names 'levle', which X does not have as"):
        model.set_params(missing={"levle": "indicator"}).fit(frame, y)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({**BY_NAME, "agee": (0, 1), "x": (0, 1)}, "bounds names 'agee', 'x', which X does not"),
        ({"age": (0, 1)}, "bounds lacks 'level', 'share'; give"),
        ({**BY_NAME, "age": 3}, "bounds of column 'age' must be a pair"),
    ],
)
def test_bounds_that_do_not_name_the_columns_are_one_clear_error(bounds, words):
    frame, y = named()
    model = PrivateLogisticRegression(**{**NOISY, "bounds": bounds}, missing="indicator")
    with pytest.raises(InputError, match=words) as caught:
        model.fit(frame, y)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="X has no names"):
        model.fit(frame.to_numpy(), y)


# sparse rows


def sparse_records():
    draw = np.random.default_rng(1)
    x = np.where(draw.uniform(size=(200, 5)) < 0.2, draw.uniform(0, 4, (200, 5)), 0.0)
    return x, (x.sum(axis=1) > 2).astype(int)


@pytest.mark.parametrize("made", [sparse.csr_matrix, sparse.coo_array])
def test_sparse_rows_are_fitted_and_predicted_as_dense_ones(made, monkeypatch):
    x, y = sparse_records()
    model = PrivateLogisticRegression(**{**NOISY, "bounds": (-1, 4)})
    dense = model.fit(x, y)
    coef, odds = dense.coef_, dense.predict_proba(x)
    monkeypatch.setattr(validation, "PIECE_CELLS", 64)  # some twelve rows at a time
    model.fit(made(x), y)
    np.testing.assert_array_equal(model.coef_, coef)
    np.testing.assert_allclose(model.predict_proba(made(x)), odds, rtol=1e-12)


def test_sparse_rows_need_bounds_that_contain_what_is_not_stored():
    x, y = sparse_records()
    model = PrivateLogisticRegression(**{**NOISY, "bounds": ([-1, 1, 0, 0, 0], 4)})
    model.fit(x, y)
    with pytest.raises(InputError, match="bounds of column 1 leave out 0, and X is sparse"):
        model.fit(sparse.csr_array(x), y)
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(x), columns=[*"abcde"])
    with pytest.raises(InputError, match="bounds of column 'b' leave out 0, and X is sparse"):
        model.fit(frame, y)


def test_sparse_rows_with_too_many_cells_are_refused_before_they_fill_the_memory():
    wide = sparse.csr_array((np.ones(2), ([0, 1], [0, 9])), shape=(2, 10**8))
    model = PrivateLogisticRegression(**{**NOISY, "bounds": (0, 1)})
    with pytest.raises(InputError, match=r"2 rows of 100,000,000 columns.*keep fewer columns"):
        model.fit(wide, [0, 1])


# scalers and pipelines


def test_public_bounds_scale_by_what_is_declared_and_learn_nothing():
    x, _ = records()
    scaler = PublicBounds(bounds=(LOW, HIGH)).fit(x)
    middle, half = (LOW + HIGH) / 2, (HIGH - LOW) / 2
    np.testing.assert_allclose(scaler.transform(x), (x - middle) / half, rtol=1e-12)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(x)), x, rtol=1e-12)
    assert scaler.transform([[1e9, -1e9, 0.5]]).tolist() == [[1, -1, 0]]
    other = PublicBounds(bounds=(LOW, HIGH)).fit(x[:1] * 0)
    assert vars(other).keys() == vars(scaler).keys() == {"bounds", "n_features_in_"}
    np.testing.assert_array_equal(other.transform(x), scaler.transform(x))
    with pytest.raises(InputError, match="bounds is not set"):
        PublicBounds().fit(x)


def test_an_estimator_behind_public_bounds_is_the_one_without_them():
    frame, y = named()
    plain = PrivateLogisticRegression(**NOISY, missing="indicator").fit(frame, y)
    behind = PrivateLogisticRegression(**{**NOISY, "bounds": (-1, 1)}, missing="indicator")
    pipe = make_pipeline(PublicBounds(bounds=BY_NAME), behind).fit(frame, y)
    np.testing.assert_allclose(pipe.predict_proba(frame), plain.predict_proba(frame), rtol=1e-9)
    assert check_pipeline(pipe) == ()


def private():
    return PrivateLogisticRegression(**NOISY)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (StandardScaler(), "'standardscaler' (StandardScaler) may learn"),
        (SimpleImputer(strategy="constant", fill_value=0), "(SimpleImputer) may learn"),
        (OneHotEncoder(categories=[["a", "b"]], min_frequency=3), "(OneHotEncoder) may learn"),
        (FunctionTransformer(np.log1p), "cannot be inspected"),
        (make_union(Normalizer(), StandardScaler()), "(StandardScaler) may learn"),
        (
            ColumnTransformer([("x", "passthrough", [0])], remainder=StandardScaler()),
            "'remainder' (StandardScaler) may learn",
        ),
    ],
)
def test_a_step_that_may_learn_from_the_records_is_reported(step, words):
    (said,) = check_pipeline(make_pipeline(step, private()))
    assert words in said


@pytest.mark.parametrize(
    "step",
    [
        PublicBounds(bounds=(0, 1)),
        FunctionTransformer(),
        PolynomialFeatures(),
        OneHotEncoder(categories=[["a", "b"]]),
        SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
        ColumnTransformer([("x", PublicBounds(bounds=(0, 1)), [0])], remainder="drop"),
        "passthrough",
    ],
)
def test_a_step_that_changes_rows_by_public_settings_alone_passes(step):
    assert check_pipeline(make_pipeline(step, private())) == ()


def test_whatever_fits_an_estimator_more_than_once_is_reported():
    (said,) = check_pipeline(BaggingClassifier(private()))
    assert "each fit spends its own budget" in said
    first, second = check_pipeline(GridSearchCV(make_pipeline(StandardScaler(), private()), {}))
    assert "own budget" in first
    assert "may learn" in second
    (said,) = check_pipeline(make_pipeline(StandardScaler()))
    assert "not a private estimator" in said


def test_columns_as_behind_a_standard_scaler_are_warned_of_and_others_are_not():
    x, score = records()
    y = labels(score)
    model = PrivateLogisticRegression(**{**NOISY, "bounds": (-3, 3)}, missing="indicator")
    with pytest.warns(PrivacyWarning, match="column 0 of X and 2 more have mean 0 and variance 1"):
        make_pipeline(StandardScaler(), model).fit(x, y)
    scaled = StandardScaler().fit_transform(x)
    frame = pd.DataFrame({"age": scaled[:, 0], "level": x[:, 1]})
    with pytest.warns(PrivacyWarning, match="column 'age' of X has mean 0") as seen:
        model.fit(frame, y)
    assert len([one for one in seen if "excess risk" not in str(one.message)]) == 1
    assert "mean" not in " ".join(model.certificate_.lines())  # it is shown and not stored
    # warnings are errors in this suite: neither halves of -1 and 1, nor public numbers, warn
    signs = np.where(np.arange(len(x)) % 2, 1.0, -1.0)[:, None]
    model.fit(np.concatenate([x - 3, signs], axis=1), y)


def test_a_target_that_is_missing_is_refused_as_any_other_that_is_no_number():
    """Planted fault: None, of which NumPy makes NaN, taken for the middle of the range."""
    model = PrivateLinearRegression(**PUBLIC, epsilon=1.0, rounds=2, target_bounds=(0, 1))
    with pytest.raises(InputError, match="a target is not a number"):
        model.fit(np.full((4, 3), 0.5), [0.1, None, 0.2, 0.3])


def test_a_structure_is_one_of_the_columns_and_not_of_their_indicators():
    x, score = records(100)
    model = PrivateStructuredClassifier(**NOISY, missing="indicator")
    model.fit(x, labels(score))
    assert model.plan_.spec.shape == (7,)
    rows = [[1.0, -1.0, 0.0]]
    model.set_params(structure="generalized-lasso", graph=rows).fit(x, labels(score))
    with pytest.raises(InputError, match="columns are 0 to 2"):
        model.set_params(structure="fused-lasso", graph=[[0, 3]]).fit(x, labels(score))
