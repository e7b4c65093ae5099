"""What stands beside a test error, against scikit-learn, by simulation, and for useless models."""

import dataclasses
import json
import math

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import (
    balanced_accuracy_score,
    brier_score_loss,
    r2_score,
    recall_score,
    roc_auc_score,
)

from taciturn.datasets import Dataset
from taciturn.models import Model, predict, table_terms
from taciturn.problems import (
    ClassWeighted,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
)
from taciturn.tables import Source, load_table
from taciturn.training import divide
from taciturn.training.assessment import MOST_NAMED, assess, measure


@pytest.fixture
def draw():
    return np.random.default_rng(0)


def records(targets, *, classes=2, hidden=(1,)):
    """Test records with these targets, behind private training records."""
    task = {None: "regression", 2: "binary"}.get(classes, "multiclass")
    both = np.concatenate([np.asarray(hidden, np.asarray(targets).dtype), targets])
    return divide(
        Dataset(
            name="made", title="made", features=np.ones((len(both), 1)), targets=both,
            task=task, classes=classes, feature_names=("a",), train_rows=len(hidden),
            fixed_test=True, public=True, licence="CC0", source="here", record_norm=1.0,
            conditions=(),
        ),
        1,
        split_seed=0,
    )  # fmt: skip


def assessed(targets, margins, *, loss=None, classes=2, hidden=(1,), clip=math.inf):
    data, loss = records(targets, classes=classes, hidden=hidden), loss or Logistic()
    scores = np.asarray(margins, float)
    wrong = loss.error(jnp.asarray(scores), data.test.targets)
    error = float(np.mean(wrong))
    found = math.sqrt(error) if classes is None else error
    return assess(data, loss, scores, found, clip=clip)


def labelled(draw, count, share):
    """Labels -1 and 1, and scores with many ties that tell something of them."""
    y = np.where(draw.uniform(size=count) < share, 1.0, -1.0)
    return y, np.round(0.5 * y + draw.standard_normal(count), 1)


def test_the_figures_of_two_labels_are_those_of_scikit_learn(draw):
    y, z = labelled(draw, 500, 0.3)
    found = assessed(y, z)
    constant = DummyClassifier(strategy="most_frequent").fit(np.zeros((500, 1)), y)
    assert found.baseline_error == pytest.approx(1 - constant.score(np.zeros((500, 1)), y))
    assert found.baseline == "-1"
    assert found.auc == pytest.approx(roc_auc_score(y, z))
    recall = recall_score(y, np.where(z >= 0, 1, -1), average=None)
    assert [share for _, share in found.recall] == pytest.approx(recall.tolist())
    assert found.gain == pytest.approx(found.baseline_error - found.error)
    assert found.ranks


def test_the_figures_of_many_labels_are_those_of_scikit_learn(draw):
    y = draw.integers(0, 4, 300)
    z = draw.standard_normal((300, 4)) + np.eye(4)[y]
    found = assessed(y, z, loss=MultinomialLogistic(classes=4), classes=4)
    likely = softmax(z, axis=1)
    assert found.auc == pytest.approx(roc_auc_score(y, likely, multi_class="ovr"))
    recall = recall_score(y, z.argmax(axis=1), average=None)
    assert [share for _, share in found.recall] == pytest.approx(recall.tolist())
    assert found.baseline == str(np.bincount(y).argmax())
    assert found.better
    assert found.ranks
    assert found.warnings == ()


def plain_calibration_error(likely, hits, bins=15):
    ends = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(ends, likely, side="right") - 1, 0, bins - 1)
    found = 0.0
    for k in range(bins):
        here = place == k
        if here.any():
            found += here.mean() * abs(likely[here].mean() - hits[here].mean())
    return found


def test_the_scores_of_probabilities_are_those_of_scikit_learn_and_of_the_definition(draw):
    y, z = labelled(draw, 700, 0.4)
    found = assessed(y, z).probabilities
    likely = 1 / (1 + np.exp(-z))
    assert found.brier == pytest.approx(brier_score_loss(y, likely))
    constant = np.full(700, np.mean(y > 0))
    assert found.baseline_brier == pytest.approx(brier_score_loss(y, constant))
    assert found.calibration_error == pytest.approx(plain_calibration_error(likely, y > 0))
    codes = draw.integers(0, 4, 300)
    many = draw.standard_normal((300, 4)) + np.eye(4)[codes]
    found = assessed(codes, many, loss=MultinomialLogistic(classes=4), classes=4).probabilities
    likely = softmax(many, axis=1)
    wrong = np.mean(np.sum((likely - np.eye(4)[codes]) ** 2, axis=1))
    assert found.brier == pytest.approx(wrong)
    hits = likely.argmax(axis=1) == codes
    expected = plain_calibration_error(likely.max(axis=1), hits)
    assert found.calibration_error == pytest.approx(expected)


def test_the_calibration_error_of_true_probabilities_is_that_of_chance(draw):
    z = 2 * draw.standard_normal(400)
    labels = [np.where(draw.uniform(size=400) < 1 / (1 + np.exp(-z)), 1.0, -1.0) for _ in range(60)]
    found = [assessed(y, z).probabilities for y in labels]
    mean = np.mean([one.calibration_error for one in found])
    assert mean == pytest.approx(found[0].calibration_chance, rel=0.1)
    wrong = assessed(labels[0], 3 * z).probabilities
    assert wrong.calibration_error > 2 * wrong.calibration_chance


def test_only_a_loss_whose_scores_are_log_odds_has_scores_of_probabilities(draw):
    y, z = labelled(draw, 300, 0.4)
    assert any(line.startswith("Brier score 0.") for line in assessed(y, z).lines())
    clipped = assessed(y, z, clip=0.5)
    assert clipped.probabilities is None
    assert not any("Brier" in line or "Calibration" in line for line in clipped.lines())
    assert assessed(y, np.full(300, np.nan)).probabilities is None


def test_the_probabilities_of_a_weighted_loss_are_scored_without_the_weights(draw):
    z = draw.standard_normal(4000) - 2
    y = np.where(draw.uniform(size=4000) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    weighted = ClassWeighted(Logistic(), (0.1, 1.0))
    found = assessed(y, z + np.log(10), loss=weighted).probabilities
    plain = assessed(y, z).probabilities
    assert found.brier == pytest.approx(plain.brier)
    assert found.calibration_error == pytest.approx(plain.calibration_error)
    assert assessed(y, z + np.log(10)).probabilities.calibration_error > 0.2


def test_the_figures_of_numbers_are_those_of_scikit_learn(draw):
    y = draw.uniform(-1, 1, 200)
    z = 0.7 * y + 0.3 * draw.standard_normal(200)
    found = assessed(y, z, loss=Squared(), classes=None, hidden=(0.5,))
    mean = DummyRegressor().fit(np.zeros((200, 1)), y).predict(np.zeros((200, 1)))
    assert found.baseline == pytest.approx(np.mean(y))
    assert found.baseline_error == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert found.r2 == pytest.approx(r2_score(y, z))
    assert found.better
    assert (found.auc, found.recall, found.warnings) == (None, None, ())


def test_a_model_that_always_gives_the_commonest_label_is_said_to_be_useless(draw):
    y = np.where(np.arange(1000) < 23, 1.0, -1.0)
    found = assessed(y, draw.uniform(-2, -1, 1000) - 0.3 * (y > 0))
    assert (found.error, found.baseline_error) == (0.023, pytest.approx(0.023))
    assert found.auc < 0.5
    assert not found.better
    assert not found.ranks
    useless, ranks = found.warnings
    assert "no better than always answering '-1'" in useless
    assert "2.30%" in useless
    assert "no better than chance" in ranks
    assert "Recall: '-1' 100.00%, '1' 0.00%" in found.lines()


def test_with_class_weights_a_model_is_held_to_the_error_that_the_weights_aim_at(draw):
    y = np.where(np.arange(2000) < 60, 1.0, -1.0)
    z = y * np.where(draw.uniform(size=2000) < 0.75, 1.0, -1.0)  # right in three of four cases
    balanced = ClassWeighted(Logistic(), (60 / 1940, 1.0))
    plain, found = assessed(y, z), assessed(y, z, loss=balanced)
    assert found.error == plain.error > plain.baseline_error == found.baseline_error
    assert not plain.better  # the planted fault: plain errors of a model that aims at another
    assert found.better
    assert found.warnings == ()
    truth = 1 - balanced_accuracy_score(y, z)
    assert found.weighted.error == pytest.approx(truth)
    assert found.weighted.baseline_error == pytest.approx(0.5)
    assert found.gain == pytest.approx(0.5 - truth)
    assert any(line.startswith("Error with the class weights") for line in found.lines())
    assert json.loads(json.dumps(found.to_dict()))["weighted"]["error"] == found.weighted.error
    (useless, _) = assessed(y, draw.standard_normal(2000), loss=balanced).warnings
    assert "its error with the class weights of" in useless
    even = assessed(y, z, loss=ClassWeighted(Logistic(), (1.0, 1.0)))
    assert (even, even.weighted) == (plain, None)


def test_of_scores_that_know_nothing_few_pass_as_ranking_and_the_error_is_the_permuted_one(draw):
    y = np.where(np.arange(120) < 30, 1.0, -1.0)
    found = [assessed(y, draw.standard_normal(120)) for _ in range(100)]
    areas = [one.auc for one in found]
    assert np.std(areas) == pytest.approx(found[0].auc_error, rel=0.2)
    assert np.mean([one.ranks for one in found]) < 0.08
    even = np.where(np.arange(120) < 60, 1.0, -1.0)
    guesses = [assessed(even, draw.standard_normal(120)) for _ in range(100)]
    assert np.mean([one.better for one in guesses]) < 0.08


def test_nothing_of_the_training_records_enters_the_constant_answer(draw):
    y, z = labelled(draw, 60, 0.4)
    few, many = assessed(y, z, hidden=(-1,)), assessed(y, z, hidden=(1,) * 500)
    assert few == many
    numbers = draw.uniform(-1, 1, 60)
    asked = {"loss": Squared(), "classes": None}
    low = assessed(numbers, z, hidden=(-1.0,) * 9, **asked)
    assert low == assessed(numbers, z, hidden=(1.0,), **asked)


@pytest.mark.parametrize(
    ("y", "asked"),
    [
        (np.ones(9), {}),
        (np.full(9, 0.25), {"loss": Squared(), "classes": None, "hidden": (0.0,)}),
    ],
)
def test_records_that_are_all_alike_cannot_praise_a_model(y, asked):
    found = assessed(y, np.ones(9), **asked)
    assert (found.auc, found.r2) == (None, None)
    (warning,) = found.warnings
    assert "all test records have the same target" in warning


def test_a_single_record_proves_nothing_and_is_still_json():
    found = assessed(np.array([1.0]), np.array([2.0]))
    assert found.gain_error == math.inf
    assert not found.better
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert values["gain_error"] is None
    assert values["recall"] == {"-1": None, "1": 1.0}


BOUNDS = (
    'source = "public"\n[target]\nname = "y"\nmin = 0\nmax = 10\n[columns.x]\nmin = 0\nmax = 1\n'
)


def test_the_error_of_a_regression_is_that_of_what_predict_answers(tmp_path):
    for name, seed in (("t.csv", 1), ("u.csv", 2)):
        rows = np.random.default_rng(seed).uniform(0, 1, (50, 2)) * [1, 10]
        pd.DataFrame(rows, columns=["x", "y"]).to_csv(tmp_path / name, index=False)
    (tmp_path / "b.toml").write_text(BOUNDS)
    files = {"bounds": tmp_path / "b.toml", "test": tmp_path / "u.csv"}
    table = load_table(Source(path=tmp_path / "t.csv", target="y", **files))
    data = divide(table, 1, split_seed=0)
    weights = np.array([6.0, -2.0])  # scores from -2 to 4, far beyond [-1, 1]
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    found = measure(problem, data, data.shards("float64"), weights)
    model = Model(
        data="t", task="regression", loss="squared", target="y", labels=None, bounds=table.bounds,
        terms=table_terms(table.bounds, weights), certificate={}, statement=(),
        taciturn_version="0",
    )  # fmt: skip
    for name, error in (("u.csv", found.test_error), ("t.csv", found.train_error)):
        frame = pd.read_csv(tmp_path / name, dtype=str)
        answers = predict(model, frame)["prediction"]
        assert set(answers) >= {0.0, 10.0}
        assert error == pytest.approx(np.sqrt(np.mean((answers - frame["y"].astype(float)) ** 2)))
    truth = pd.read_csv(tmp_path / "u.csv")["y"]
    assert found.assessment.baseline == pytest.approx(truth.mean())
    assert found.assessment.baseline_error == pytest.approx(truth.std(ddof=0))
    assert found.assessment.r2 == pytest.approx(1 - found.test_error**2 / truth.var(ddof=0))
    assert dataclasses.asdict(found)["test_loss"] > 0


def test_scores_that_rank_well_are_told_of_where_labels_are_useless(draw):
    y = np.where(np.arange(1000) < 23, 1.0, -1.0)
    (warning,) = assessed(y, draw.uniform(-2, -1, 1000) + 0.9 * (y > 0)).warnings
    assert "no better than always answering" in warning
    assert "choose a threshold" in warning


def test_a_regression_that_is_worse_than_the_mean_is_said_to_be_useless(draw):
    y = draw.uniform(-1, 1, 200)
    (warning,) = assessed(
        y, draw.uniform(-1, 1, 200), loss=Squared(), classes=None, hidden=(0.5,)
    ).warnings
    assert "no better than always answering the mean" in warning


def test_of_many_labels_those_with_the_least_recall_are_named():
    y = np.arange(400) % 40
    z = np.eye(40)[np.where(y == 7, 0, y)]
    found = assessed(y, z, loss=MultinomialLogistic(classes=40), classes=40)
    assert len(found.named()) == MOST_NAMED
    assert found.named()[0] == ("7", 0.0)
    assert len(found.to_dict()["recall"]) == 40
    assert "'7' 0.00%" in found.lines()[-1]
