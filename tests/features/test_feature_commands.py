"""Feature maps from the command to the prediction: the same map, named everywhere."""

import json

import numpy as np
import pandas as pd
import pytest

from conftest import bounds_of_ill
from taciturn.cli.main import main
from taciturn.datasets import FACTS, load
from taciturn.errors import InputError
from taciturn.models import load_model, predict
from taciturn.tables import read_bounds
from taciturn.training import (
    DataFacts,
    Proposal,
    Request,
    StructureRequest,
    check_data,
    divide,
    proposal_for,
)
from taciturn.training.records import inputs_for

BOUNDS = bounds_of_ill(age="min = 0\nmax = 100", town='values = ["a", "b"]')


@pytest.fixture
def taciturn_(capsys):
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Whoever is between 40 and 60 is ill: no line in age can tell."""
    home, draw = tmp_path_factory.mktemp("features"), np.random.default_rng(0)
    for name, rows in (("train", 3000), ("test", 400)):
        ages = draw.uniform(0, 100, rows)
        ill = np.where(abs(ages - 50) < 10, "yes", "no")
        table = {"age": ages, "town": draw.choice(["a", "b"], rows), "ill": ill}
        pd.DataFrame(table).to_csv(home / f"{name}.csv", index=False)
    (home / "bounds.toml").write_text(BOUNDS)
    return home


def train(folder, *more, out):
    return (
        "train", folder / "train.csv", "--target", "ill", "--bounds", folder / "bounds.toml",
        "--test", folder / "test.csv", "--agents", "2", "--epsilon", "8", "--delta", "1e-5",
        "--quiet", "--out", out, *more,
    )  # fmt: skip


@pytest.mark.slow
def test_a_model_on_bins_tells_what_no_line_can_and_predicts_as_it_was_tested(
    folder, taciturn_, tmp_path
):
    out_folder = tmp_path / "run"
    code, out, err = taciturn_(
        *train(folder, "--features", "bins:10", "--no-centre", out=out_folder)
    )
    assert (code, err) == (0, "")
    assert "the features (bins:10) are public" in out
    model = load_model(tmp_path / "run" / "model.json")
    rows = pd.read_csv(folder / "test.csv", dtype=str)
    wrong = float((predict(model, rows)["prediction"] != rows["ill"]).mean())
    stated = json.loads((tmp_path / "run" / "model.json").read_text())["assessment"]
    assert wrong == pytest.approx(stated["error"], abs=1e-9)
    assert wrong < 0.05
    assert len(model.terms) == 1 + (1 + 2) + 10
    shown = taciturn_("show", tmp_path / "run" / "model.json")[1]
    assert "per feature of bins:10" in shown
    assert "50 (reference)" in shown


@pytest.mark.slow
def test_a_proposal_with_features_plans_and_trains_the_same(folder, taciturn_, tmp_path):
    file = tmp_path / "proposal.json"
    told = taciturn_(
        "plan", "--bounds", folder / "bounds.toml", "--records", "3000", "--agents", "2",
        "--epsilon", "8", "--delta", "1e-5", "--features", "bins:10", "--rounds", "20",
        "--no-centre", "--out", file, "--json",
    )[1]  # fmt: skip
    proposal = Proposal.from_json(file.read_text())
    # age, two towns, the constant, ten bins; age, town, constant and bin: norm 2
    assert json.loads(told)["coordinates"] == proposal.data.coordinates == 14
    assert proposal.plan().spec.record_norm == pytest.approx(2)
    code, out, _ = taciturn_(
        "train", folder / "train.csv", "--proposal", file, "--test", folder / "test.csv", "--quiet"
    )
    assert code == 0
    assert "(bins:10)" in out


CODED = bounds_of_ill(
    age="min = 0\nmax = 100\nbins = [40, 60]", town='values = ["a", "b"]\ncentre = "uniform"'
)


@pytest.mark.slow
def test_bins_of_a_bounds_file_are_planned_trained_shown_and_predicted(folder, taciturn_, tmp_path):
    (tmp_path / "coded.toml").write_text(CODED)
    budget = ("--epsilon", "8", "--delta", "1e-5", "--no-centre", "--features", "columns")
    shared = (*budget, "--bounds", tmp_path / "coded.toml")
    told = taciturn_(
        "plan", *shared, "--records", "3000", "--agents", "2", "--rounds", "20", "--json"
    )
    # age, three bins, two towns, the constant
    assert json.loads(told[1])["coordinates"] == 7
    code, out, err = taciturn_(
        "train", folder / "train.csv", "--target", "ill", "--test", folder / "test.csv",
        "--agents", "2", "--quiet", "--out", tmp_path / "run", *shared,
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "scales, bins, centres and weights of columns are public" in out
    model = load_model(tmp_path / "run" / "model.json")
    rows = pd.read_csv(folder / "test.csv", dtype=str)
    wrong = float((predict(model, rows)["prediction"] != rows["ill"]).mean())
    assert wrong == pytest.approx(model.assessment["error"], abs=1e-9)
    assert wrong < 0.05
    shown = taciturn_("show", tmp_path / "run" / "model.json")[1]
    assert "age=40 to 60" in shown
    assert "bins [40.0, 60.0]" in shown
    assert "centre uniform" in shown


def test_records_with_other_features_than_proposed_are_refused():
    dataset = load("digits")
    request = Request(epsilon=8.0, delta=1e-5, rounds=2)
    with_bins = divide(dataset, 2, split_seed=0, features="bins:3")
    proposal = proposal_for(with_bins, request, StructureRequest())
    check_data(with_bins, proposal)
    with pytest.raises(InputError, match="facts differ"):
        check_data(divide(dataset, 2, split_seed=0), proposal)


@pytest.mark.slow
def test_planning_without_records_knows_the_same_columns_and_norm():
    for name, features in (("digits", "scattering"), ("digits", "bins:4"), ("adult", "bins:10")):
        data = divide(load(name), 2, split_seed=0, features=features)
        facts = FACTS[name]
        assert facts.numbers == len(inputs_for(data.dataset).numbers)
        assert facts.picture == data.dataset.picture
        assert data.facts.coordinates == data.parts.train_features.shape[1]
        assert data.facts.row_norm == data.features.record_norm


@pytest.mark.parametrize(
    ("name", "why"), [("scattering", "pictures"), ("bins:1", "bins"), ("waves", "no feature map")]
)
def test_features_that_do_not_suit_a_table_are_one_line(name, why, folder, taciturn_, tmp_path):
    code, out, err = taciturn_(*train(folder, "--features", name, out=tmp_path / "run"))
    assert (code, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("features", ["columns", "bins:10"])
def test_a_model_around_a_centre_predicts_as_it_was_tested(features, folder, taciturn_, tmp_path):
    named = ("--features", features)
    code, _, err = taciturn_(*train(folder, "--centre", *named, out=tmp_path / "run"))
    assert (code, err) == (0, "")
    model = load_model(tmp_path / "run" / "model.json")
    rows = pd.read_csv(folder / "test.csv", dtype=str)
    wrong = float((predict(model, rows)["prediction"] != rows["ill"]).mean())
    assert wrong == pytest.approx(model.assessment["error"], abs=1e-9)
    assert len(model.centre) == (4 if features == "columns" else 14)
    assert len(model.terms) == 1 + len(model.centre) + 1
    assert "around the centre" in taciturn_("show", tmp_path / "run" / "model.json")[1]


@pytest.mark.slow
def test_a_centre_that_is_mostly_noise_is_warned_of(folder, taciturn_, tmp_path):
    _, _, err = taciturn_(*train(folder, "--centre", "--epsilon", "0.01", out=tmp_path / "run"))
    assert "say --no-centre" in err


@pytest.mark.parametrize("features", ["bins:1000000000", "fourier:1000000000", "bins:9" * 200])
def test_more_features_than_a_model_holds_are_refused_before_they_are_made(features, folder):
    data = read_bounds(folder / "bounds.toml")
    with pytest.raises(InputError):
        DataFacts.of(data).with_features(features)
