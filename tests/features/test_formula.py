"""Formulas: which terms they have, in which order, and what they refuse."""

import tomllib

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from conftest import bounds_of_ill
from taciturn.errors import InputError
from taciturn.features import Formula, feature_map_named
from taciturn.regression import sides
from taciturn.tables import encode, encoded_norm, inputs_of
from taciturn.tables.bounds import bounds_from_dict

BOUNDS = bounds_from_dict(tomllib.loads(bounds_of_ill(
    age="min = 0\nmax = 100", dose="min = 0\nmax = 10", town='values = ["a", "b", "c"]',
    sex='values = ["f", "m"]', **{'"blood pressure"': "min = 60\nmax = 200"},
)))  # fmt: skip
INPUTS = inputs_of(BOUNDS)


def table(count=200):
    draw = np.random.default_rng(0)
    return pd.DataFrame({
        "age": draw.uniform(0, 100, count), "dose": draw.uniform(0, 10, count),
        "town": draw.choice(["a", "b", "c"], count), "sex": draw.choice(["f", "m"], count),
        "blood pressure": draw.uniform(60, 200, count),
    })  # fmt: skip


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("age", "age"),
        ("town + age", "age town=b town=c"),
        ("C(town)", "town=b town=c"),
        ('C(town, Treatment("b"))', "town=a town=c"),
        ("age * sex", "age sex=m age:sex=m"),
        ("age:dose + dose + age", "age dose age:dose"),
        ("town*sex", "town=b town=c sex=m town=b:sex=m town=c:sex=m"),
        ("`blood pressure` + age", "age blood&pressure"),
        ("1 + age + age", "age"),
        (". - dose - town - sex", "age blood&pressure"),
        ("1", ""),
    ],
)
def test_terms_are_in_the_order_of_the_columns_and_the_constant_is_last(text, names):
    found = Formula(INPUTS, text).names
    assert found == (*(name.replace("&", " ") for name in names.split()), "(intercept)")


@pytest.mark.parametrize("text", ["age*dose*sex", "age*town + sex", "town*sex + dose"])
def test_features_span_the_columns_of_statsmodels_and_are_no_longer_than_stated(text):
    frame = table()
    rows = encode(frame, BOUNDS, with_target=False).features
    made = feature_map_named("formula:" + text, INPUTS)
    found = made.apply(rows)
    other = smf.ols("one ~ " + text, frame.assign(one=1.0)).exog
    assert found.shape == other.shape
    apart = found - other @ np.linalg.lstsq(other, found, rcond=None)[0]
    assert np.abs(apart).max() < 1e-9
    assert np.all(np.linalg.norm(found, axis=1) <= made.record_norm)
    assert made.record_norm <= np.sqrt(found.shape[1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("income", "no column"), ("age:sex + age", "without"), ("age - 1", "constant"),
        ("0 + age", "constant"), ("log(age)", "function log"), ("bs(age, df=4)", "function bs"),
        ("scale(age)", "function scale"), ("I(age)", "function I"), ("{age + 1}", "write columns"),
        ('C(town, Treatment("x"))', "no value"), ("C(town, Sum)", "function C"),
        ('C(town, Treatment("a")) + C(town, Treatment("b"))', "two references"),
        ("age +", "not understood"), ("ill ~ age", "one side"), ("age | dose", "one side"),
        ("2 + age", "not understood"),
    ],
)  # fmt: skip
def test_what_is_no_formula_here_is_refused_by_name(text, said):
    with pytest.raises(InputError, match=said):
        Formula(INPUTS, text)


def test_a_column_that_is_prepared_otherwise_is_refused():
    bins = bounds_of_ill(age="min = 0\nmax = 100\nbins = 4")
    with pytest.raises(InputError, match="bins"):
        Formula(inputs_of(bounds_from_dict(tomllib.loads(bins))), "age")


def test_both_sides_of_a_formula_are_read():
    assert sides("ill ~ age + dose") == ("ill", "age + dose")
    assert sides(" `very ill` ~ age") == ("very ill", "age")
    assert sides("age") == (None, "age")
    assert encoded_norm(BOUNDS) > 0
