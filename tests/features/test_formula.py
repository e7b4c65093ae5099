"""Formulas: which terms they have, in which order, and what they refuse."""

import dataclasses
import re
import tomllib

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from conftest import bounds_of_ill
from taciturn.errors import InputError
from taciturn.features import Formula, feature_map_named
from taciturn.features.formula import simplex
from taciturn.problems import survival_target
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
    found = Formula(INPUTS, text).effects
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


@pytest.mark.parametrize("text", ["age*dose*sex", 'age*C(town, Treatment("b")) + sex', "sex*town"])
def test_effects_of_any_weights_are_those_of_the_columns_of_statsmodels(text):
    frame = table()
    made = feature_map_named("formula:" + text, INPUTS)
    weights = np.random.default_rng(1).standard_normal(made.columns)
    scores = made.apply(encode(frame, BOUNDS, with_target=False).features) @ weights
    other = smf.ols("score ~ " + text, frame.assign(score=scores)).fit().params
    found = pd.Series(made.to_effects() @ weights, made.effects)
    names = other.index.str.replace(r"C\(town, Treatment\(\"b\"\)\)", "town", regex=True)
    names = names.str.replace(r"\[T\.(\w)\]", r"=\1", regex=True)
    names = names.str.replace("Intercept", "(intercept)")
    found.index, other.index = (
        [":".join(sorted(one.split(":"))) for one in index] for index in (found.index, names)
    )
    np.testing.assert_allclose(found[other.index], other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("values", [2, 3, 7])
def test_corners_of_a_simplex_are_unit_vectors_at_equal_angles(values):
    corners = simplex(values)
    angles = np.where(np.eye(values), 1, -1 / (values - 1))
    np.testing.assert_allclose(corners @ corners.T, angles, atol=1e-14)
    np.testing.assert_allclose(corners.sum(axis=0), 0, atol=1e-14)


def test_a_missing_cell_that_counts_as_an_end_of_the_range_lengthens_a_row_as_stated():
    bounds = bounds_from_dict(tomllib.loads(bounds_of_ill(
        age='min = 0\nmax = 100\nmissing = {as = "indicator", fill = 100}',
        dose='min = 0\nmax = 10\nmissing = {as = "indicator", fill = 0}',
    )))  # fmt: skip
    frame = pd.DataFrame({"age": [None, 100.0, 50.0], "dose": [None, 10.0, None]})
    made = feature_map_named("formula:age*dose", inputs_of(bounds))
    found = made.apply(encode(frame, bounds, with_target=False).features)
    assert made.names[:4] == ("age", "age=missing", "dose", "dose=missing")
    lengths = np.linalg.norm(found, axis=1)
    assert made.record_norm == pytest.approx(3) == lengths[0]
    assert np.all(lengths <= made.record_norm)


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


TIMED = bounds_from_dict({
    "source": "public", "target": {"name": "days", "min": 0, "max": 100},
    "columns": {
        "died": {"values": ["no", "yes"]}, "why": {"values": ["alive", "flu", "other"]},
        "state": {"min": 1, "max": 2}, "from": {"min": 0, "max": 50},
        "age": {"min": 20, "max": 80}, "spent": {"min": 1, "max": 10, "scale": "log"},
    },
})  # fmt: skip
LIVES = pd.DataFrame({
    "days": [10.0, 50.0, 100.0], "died": ["yes", "no", "yes"], "why": ["flu", "alive", "other"],
    "state": [1, 2, 2], "from": [0.0, 25.0, 0.0], "age": [30.0, 40.0, 50.0],
    "spent": [1.0, 2.0, 10.0],
})  # fmt: skip


@pytest.mark.parametrize(
    ("response", "entries", "events"),
    [
        ("Surv(days, died)", [0, 0, 0], [1, 0, 0]),  # at the end of the range nobody dies
        ('Surv(days, died == "no")', [0, 0, 0], [0, 1, 0]),
        ('Surv(days, why == "flu")', [0, 0, 0], [1, 0, 0]),
        ("Surv(`from`, days, state == 2)", [0, 0.25, 0], [0, 1, 0]),
    ],
)
@pytest.mark.parametrize("interval", ["symmetric", "unit"])
def test_a_survival_time_is_made_of_its_columns(response, entries, events, interval):
    bounds = dataclasses.replace(TIMED, interval=interval)
    encoded = encode(LIVES, bounds, with_target=True)
    made = Formula(inputs_of(bounds), f"{response} ~ age")
    found = made.respond(encoded.features, encoded.targets)
    expected = survival_target(
        np.array(entries, float), LIVES.days.to_numpy() / 100, np.array(events) > 0
    )
    np.testing.assert_array_equal(found, expected)
    assert made.names == ("age", "(intercept)")


def test_an_offset_has_the_coefficient_one_per_unit_and_every_column_leaves_out_the_response():
    made = Formula(inputs_of(TIMED), "Surv(days, died) ~ offset(log(spent)) + age")
    assert made.names == ("age", "offset(spent)", "(intercept)")
    ((place, value),) = made.fixed
    rows = made.apply(encode(LIVES, TIMED, with_target=False).features)
    apart = np.diff(value * rows[:, place])
    np.testing.assert_allclose(apart, np.diff(np.log(LIVES.spent)))
    every = Formula(inputs_of(TIMED), "Surv(`from`, days, died) ~ .")
    assert {"died=yes", "from"}.isdisjoint(every.names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Surv(age, died) ~ state", "must be the target"),
        ("Surv(days) ~ age", "not understood"),
        ("Surv(days, gone) ~ age", "names 'gone'"),
        ("Surv(days, why) ~ age", "one of its values"),
        ("Surv(days, state) ~ age", "say which one"),
        ("Surv(days, state == 7) ~ age", "say which one"),
        ("Surv(died, days, died) ~ age", "must be a number"),
        ("Surv(days, died) ~ died", "no column"),
        ("Surv(days, died) ~ offset(spent)", "offset(log(spent))"),
        ("Surv(days, died) ~ offset(why)", "is a category"),
        ("Surv(days, died) ~ (age + state)**999999", "too many columns"),
    ],
)
def test_what_is_no_survival_time_or_offset_is_refused(text, said):
    with pytest.raises(InputError, match=re.escape(said)):
        Formula(inputs_of(TIMED), text)
