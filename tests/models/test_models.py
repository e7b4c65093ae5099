"""Models: coefficients in the user's units, files that come back equal, refusals."""

import json
import math
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from taciturn.errors import InputError
from taciturn.estimators import PrivateLogisticRegression
from taciturn.features import feature_map_named
from taciturn.models import (
    Model,
    Term,
    effects,
    feature_terms,
    load_model,
    model_text,
    predict,
    save_model,
    table_terms,
)
from taciturn.problems import Logistic
from taciturn.tables import Bounds, Categories, Numeric, encode, inputs_of

COLUMNS = {
    "age": Numeric(20.0, 70.0),
    "town": Categories(("a", "b", "c")),
    "pay": Numeric(-1e4, 3e4),
}
TARGETS = {
    "binary": (Categories(("no", "yes")), "logistic"),
    "multiclass": (Categories(("x", "y", "z")), "multinomial"),
    "regression": (Numeric(100.0, 300.0), "squared"),
}


def bounds_for(task):
    return Bounds("public", "goal", TARGETS[task][0], COLUMNS, ("id",))


def weights_for(task):
    shape = (6, 3) if task == "multiclass" else (6,)
    return np.random.default_rng(3).normal(size=shape)


def model_for(task, **changes):
    bounds = bounds_for(task)
    target, loss = TARGETS[task]
    values = {
        "data": "t.csv",
        "task": task,
        "loss": loss,
        "clip": math.inf,
        "target": "goal",
        "labels": target.values if isinstance(target, Categories) else None,
        "bounds": bounds,
        "terms": table_terms(bounds, weights_for(task)),
        "certificate": {"epsilon": 1.0},
        "statement": ("epsilon = 1.0000",),
        "taciturn_version": "0",
    }
    return Model(**{**values, **changes})


def rows(count=50):
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "town": draw.choice(["a", "b", "c"], count),
            "pay": [repr(float(v)) for v in draw.uniform(-2e4, 5e4, count)],
            "age": [repr(float(v)) for v in draw.uniform(0, 100, count)],
        },
        dtype=object,
    )


def scores(model, frame):
    """The score written out in the user's own columns and units."""
    total = []
    for _, row in frame.iterrows():
        z = np.array(model.terms[0].coefficient)
        for term in model.terms[1:]:
            if term.value is None:
                fact = COLUMNS[term.column]
                x = min(max(float(row[term.column]), fact.minimum), fact.maximum)
                z = z + x * np.array(term.coefficient)
            elif row[term.column] == term.value:
                z = z + np.array(term.coefficient)
        total.append(z)
    return np.array(total)


@pytest.mark.parametrize("interval", ["symmetric", "unit"])
@pytest.mark.parametrize("task", TARGETS)
def test_coefficients_in_the_users_units_score_as_the_weights_do_on_encoded_rows(task, interval):
    bounds = replace(bounds_for(task), interval=interval)
    model = model_for(task, bounds=bounds, terms=table_terms(bounds, weights_for(task)))
    frame = rows()
    margins = encode(frame, bounds, with_target=False).features @ weights_for(task)
    if task == "regression":
        margins = 200 + 100 * margins  # the middle and half the width of 100 to 300
    assert scores(model, frame) == pytest.approx(margins.reshape(50, -1), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("features", ["hats:4", "bins:3", None])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_effects_are_differences_of_the_scores_that_predictions_are_made_from(task, features):
    model = model_for(task)
    if features is not None:
        map_ = feature_map_named(features, inputs_of(bounds_for(task)))
        shape = (map_.columns, *weights_for(task).shape[1:])
        terms = feature_terms(model.bounds, map_, np.random.default_rng(3).normal(size=shape))
        model = replace(model, features=features, terms=terms)
    found = effects(model)
    assert [[one.value for one in column] for column in found] == [
        ["45", "20", "32.5", "57.5", "70"], ["a", "b", "c"],
        ["10000", "-10000", "0", "20000", "30000"],
    ]  # fmt: skip
    reference = {"age": 45.0, "town": "a", "pay": 1e4}
    for column in found:
        assert column[0].change == (0.0,) * model.outputs
        for one in column[1:]:
            moved = one.value if one.column == "town" else float(one.value)
            pair = pd.DataFrame([reference, reference | {one.column: moved}])
            chances = predict(model, pair).filter(like="probability").to_numpy()
            odds = np.log(chances / chances[:, :1])
            change = np.array([0.0, *one.change] if task == "binary" else one.change)
            np.testing.assert_allclose(odds[1] - odds[0], change - change[0], atol=1e-9)


def test_values_of_a_narrow_range_far_from_0_are_told_apart():
    bounds = replace(bounds_for("binary"), columns={"stamp": Numeric(1e9, 1e9 + 2)})
    terms = feature_terms(bounds, feature_map_named("hats:2", inputs_of(bounds)), np.ones(4))
    (column,) = effects(model_for("binary", bounds=bounds, features="hats:2", terms=terms))
    values = ["1000000001", "1000000000", "1000000000.5", "1000000001.5", "1000000002"]
    assert [one.value for one in column] == values


def test_effects_of_a_date_and_of_a_missing_cell_are_stated_in_its_form():
    day = Numeric(0.0, 364.0, date="%d.%m.%Y", indicator=True)
    bounds = replace(bounds_for("binary"), columns={"day": day})
    map_ = feature_map_named("hats:2", inputs_of(bounds))
    terms = feature_terms(bounds, map_, np.arange(1.0, map_.columns + 1))
    (column,) = effects(model_for("binary", bounds=bounds, features="hats:2", terms=terms))
    dates = ["02.07.1970", "01.01.1970", "02.04.1970", "01.10.1970", "31.12.1970", ""]
    assert [one.value for one in column] == dates
    np.testing.assert_allclose([one.change[0] for one in column], [0, -1.5, -0.75, 0.75, 1.5, 2])


@pytest.mark.parametrize("interval", ["symmetric", "unit"])
def test_a_coefficient_is_how_far_one_unit_of_its_column_moves_the_prediction(interval):
    bounds = replace(bounds_for("regression"), interval=interval)
    weights = 0.1 * weights_for("regression")
    model = model_for("regression", bounds=bounds, terms=table_terms(bounds, weights))
    here = pd.DataFrame({"town": ["b"], "pay": ["5e3"], "age": ["40"]}, dtype=object)
    for column, step in (("age", "41"), ("pay", "5001")):
        moved = predict(model, here.assign(**{column: step})) - predict(model, here)
        (term,) = (term for term in model.terms if term.column == column)
        assert moved.iloc[0, 0] == pytest.approx(term.coefficient[0], rel=1e-6)


OLD = Path(__file__).parent / "old"  # written when numbers were mapped to [0, 1]


def test_a_model_file_of_the_time_of_0_to_1_predicts_as_it_did_then():
    model = load_model(OLD / "model.json")
    assert model.bounds.interval == "unit"
    table = predict(model, pd.read_csv(OLD / "rows.csv", dtype=object))
    expected = pd.read_csv(OLD / "predictions.csv")
    assert table["prediction"].tolist() == expected["prediction"].tolist()
    # files of that time state no clip, and so whether scores are log-odds is not known
    assert model.clip is None
    assert list(table) == ["prediction"]
    known = predict(replace(model, clip=1.0), pd.read_csv(OLD / "rows.csv", dtype=object))
    np.testing.assert_allclose(known.iloc[:, 1:], expected.iloc[:, 1:], rtol=1e-12)


def test_a_binary_model_predicts_labels_with_probabilities():
    model, frame = model_for("binary"), rows()
    table, z = predict(model, frame), scores(model_for("binary"), frame)[:, 0]
    assert list(table) == ["prediction", "probability of no", "probability of yes"]
    assert table["prediction"].tolist() == ["yes" if v >= 0 else "no" for v in z]
    assert table["probability of yes"].to_numpy() == pytest.approx(1 / (1 + np.exp(-z)))
    assert table.iloc[:, 1:].sum(axis=1).to_numpy() == pytest.approx(1)
    assert set(table["prediction"]) == {"no", "yes"}


def test_a_score_of_0_is_the_second_label_wherever_labels_are_predicted():
    model, frame = model_for("binary"), rows()
    blank = replace(model, terms=tuple(term._replace(coefficient=(0.0,)) for term in model.terms))
    assert set(predict(blank, frame)["prediction"]) == {"yes"}
    assert Logistic().predict(jnp.zeros(1)) == 1
    estimator = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, bounds=(0, 1), classes=[0, 1])
    estimator.set_params(rounds=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
    estimator.coef_, estimator.intercept_ = np.zeros((1, 1)), np.zeros(1)
    assert estimator.predict([[0.5]]) == [1]


def test_a_model_of_many_classes_predicts_the_likeliest():
    table = predict(model_for("multiclass"), rows())
    z = scores(model_for("multiclass"), rows())
    chances = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert table.iloc[:, 1:].to_numpy() == pytest.approx(chances)
    assert table["prediction"].tolist() == [("x", "y", "z")[k] for k in z.argmax(axis=1)]


def test_a_regression_predicts_numbers_and_a_hinge_no_probabilities():
    numbers = predict(model_for("regression"), rows())
    assert list(numbers) == ["prediction"]
    inside = np.clip(scores(model_for("regression"), rows())[:, 0], 100, 300)  # the target's range
    assert numbers["prediction"].to_numpy() == pytest.approx(inside)
    assert list(predict(model_for("binary", loss="hinge:0.5"), rows())) == ["prediction"]


@pytest.mark.parametrize("task", TARGETS)
def test_a_saved_model_comes_back_equal_and_predicts_the_same(task, tmp_path):
    model = model_for(task)
    save_model(model, tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    assert again == model
    assert predict(again, rows()).equals(predict(model, rows()))
    assert [p.name for p in tmp_path.iterdir()] == ["m.json"]


def test_other_columns_than_the_models_are_refused_and_the_target_is_not_read():
    model, frame = model_for("binary"), rows()
    with pytest.raises(InputError, match="no column 'age'"):
        predict(model, frame.drop(columns="age"))
    with pytest.raises(InputError, match="nothing is known of the column 'height'"):
        predict(model, frame.assign(height="1"))
    with pytest.raises(InputError, match="'town', row 1"):
        predict(model, frame.assign(town="elsewhere"))
    assert predict(model, frame.assign(goal="?", id="?")).equals(predict(model, frame))


def test_columns_are_kept_or_passed_over_only_when_asked():
    model, frame = model_for("binary"), rows(3)
    more = frame.assign(id=["i", "j", "k"], ward="w", height="1")
    with pytest.raises(InputError, match="nothing is known of the column 'height'"):
        predict(model, more, keep=["ward"])
    kept = predict(model, more, keep=["ward", "town"], ignore_extra=True)
    assert list(kept)[:3] == ["ward", "town", "prediction"]
    assert kept["town"].tolist() == frame["town"].tolist()
    assert kept.iloc[:, 2:].equals(predict(model, frame))
    with pytest.raises(InputError, match="no column 'ill' to keep"):
        predict(model, frame, keep=["ill"])
    with pytest.raises(
        InputError, match="the column 'prediction' to keep is also a column of the result"
    ):
        predict(model, frame.assign(prediction="1"), keep=["prediction"])


@pytest.mark.parametrize(
    ("task", "clip", "name", "needed"),
    [
        ("binary", 0.5, "robust logistic, clip 0.5", "--clip 1,"),
        ("binary", None, "logistic, clip unknown", "--clip 1,"),
        ("multiclass", 1.0, "robust multinomial, clip 1", "--clip 1.42,"),
    ],
)
def test_a_clipped_logistic_loss_is_named_robust_and_gives_no_probabilities(
    task, clip, name, needed, tmp_path
):
    save_model(model_for(task, clip=clip), tmp_path / "m.json")
    model = load_model(tmp_path / "m.json")
    assert str(model.clipped_loss) == name
    assert list(predict(model, rows())) == ["prediction"]
    with pytest.raises(InputError, match=f"{name}.*no probabilities.*{needed}"):
        predict(model, rows(), probabilities=True)


@pytest.mark.parametrize(("task", "clip"), [("binary", 1.0), ("multiclass", 2**0.5)])
def test_a_clip_that_no_coefficient_reaches_leaves_probabilities(task, clip):
    model = model_for(task, clip=clip)
    assert str(model.clipped_loss) == model.loss
    assert predict(model, rows()).equals(predict(model_for(task), rows()))


def test_a_model_of_weighted_classes_is_clipped_at_a_fraction_of_its_weights():
    weighted = model_for("binary", class_weights=(0.1, 0.5), clip=0.5)
    assert weighted.clipped_loss.log_odds
    assert not replace(weighted, clip=0.4).clipped_loss.log_odds


def test_a_model_reads_its_tables_in_the_form_that_its_file_states(tmp_path):
    model = model_for("binary").with_form({"decimal": ",", "thousands": "."})
    save_model(model, tmp_path / "m.json")
    assert load_model(tmp_path / "m.json") == model
    frame = rows()
    other = frame.assign(
        age=frame["age"].str.replace(".", ","), pay=frame["pay"].str.replace(".", ",")
    )
    assert predict(model, other).equals(predict(model_for("binary"), frame))


def test_a_model_of_a_bundled_data_set_is_not_for_tables():
    bare = model_for("binary", bounds=None, terms=(Term("age", None, (1.0,)),))
    with pytest.raises(InputError, match="bundled data set"):
        predict(bare, rows())


def broken(change):
    values = json.loads(model_text(model_for("binary")))
    change(values)
    return json.dumps(values)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        (model_text(model_for("binary"))[:-40], "not valid JSON"),
        ("[]", "of the wrong kind"),
        (broken(lambda v: v.pop("certificate")), "missing"),
        (broken(lambda v: v.update(task="poetry")), "format 1"),
        (broken(lambda v: v["terms"].pop()), "do not match"),
        (broken(lambda v: v["terms"][0].update(coefficient=[1, 2])), "another number"),
        (broken(lambda v: v["terms"][0].update(coefficient=["inf"])), "not finite"),
        (broken(lambda v: v.update(labels=None)), "labels"),
        (broken(lambda v: v["preprocessing"]["columns"]["age"].update(min=99)), "min must be"),
    ],
)
def test_a_damaged_model_is_refused_in_one_line_that_names_the_file(text, words, tmp_path):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        load_model(tmp_path / "m.json")
    assert "m.json" in str(caught.value)


def test_probabilities_are_left_out_or_insisted_on():
    assert list(predict(model_for("binary"), rows(), probabilities=False)) == ["prediction"]
    assert len(predict(model_for("multiclass"), rows(), probabilities=True).columns) == 4
    for model in (model_for("regression"), model_for("binary", loss="hinge:0.5")):
        with pytest.raises(InputError, match="has no probabilities"):
            predict(model, rows(), probabilities=True)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_probabilities_of_weighted_classes_are_those_without_the_weights(task):
    weights = (0.05, 1.0) if task == "binary" else (0.05, 1.0, 0.5)
    plain = replace(model_for(task), clip=math.inf)
    weighted = replace(plain, class_weights=weights)
    here = pd.DataFrame(
        {"town": ["b", "a"], "pay": ["5e3", "1e3"], "age": ["40", "70"]}, dtype=object
    )
    first, second = predict(plain, here), predict(weighted, here)
    assert first["prediction"].tolist() == second["prediction"].tolist()  # by the scores alone
    odds = first.filter(like="probability").to_numpy() / weights
    found = second.filter(like="probability").to_numpy()
    np.testing.assert_allclose(found, odds / odds.sum(axis=1, keepdims=True), rtol=1e-12)
