"""Models that are increasing or decreasing in columns of a table, whatever the noise."""

import time
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from conftest import bounds_of_ill
from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn.models import load_model, predict
from taciturn.problems import Named
from taciturn.tables.bounds import bounds_from_dict
from taciturn.training import DataFacts, Request, propose

BOUNDS = bounds_of_ill(
    age="min = 0\nmax = 100", dose="min = 0\nmax = 10", town='values = ["a", "b"]'
)
DIRECTED = Named(name="monotone", numbers=(1.0,))
BOX = Named(name="box", numbers=(1.0,))
REQUEST = Request(epsilon=1.0, delta=1e-6, rounds=20, centre=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Whoever is between 40 and 60 is ill, and a dose of 4 to 6 heals."""
    home, draw = tmp_path_factory.mktemp("monotone"), np.random.default_rng(0)
    ages, doses = draw.uniform(0, 100, 3000), draw.uniform(0, 10, 3000)
    ill = np.where((abs(ages - 50) < 10) & (abs(doses - 5) > 1), "yes", "no")
    towns = draw.choice(["a", "b"], 3000)
    table = pd.DataFrame({"age": ages, "dose": doses, "town": towns, "ill": ill})
    table.to_csv(home / "ill.csv", index=False)
    (home / "bounds.toml").write_text(BOUNDS)
    return home


def facts():
    return DataFacts.of(bounds_from_dict(tomllib.loads(BOUNDS)))


def trained(folder, out, *more):
    arguments = (
        "train", folder / "ill.csv", "--target", "ill", "--bounds", folder / "bounds.toml",
        "--epsilon", "0.5", "--delta", "1e-5", "--rounds", "50", "--quiet", "--out", out, *more,
    )  # fmt: skip
    assert main([str(argument) for argument in arguments]) == 0
    return load_model(out / "model.json")


def along(model, column):
    """The score along a column, on a grid of its range that has every node and more."""
    rows = {"age": "30", "dose": "2", "town": "a", column: np.linspace(0, 100, 901)}
    if column == "dose":
        rows[column] = rows[column] / 10
    frame = pd.DataFrame(rows).astype(str)
    chances = predict(model, frame)["probability of yes"].astype(float).to_numpy()
    return np.log(chances / (1 - chances))


@pytest.mark.slow
@pytest.mark.parametrize("features", ["columns", "bins:5", "hats:10"])
def test_the_score_rises_and_falls_as_asked_whatever_the_noise(folder, tmp_path, capsys, features):
    asked = ("--features", features, "--increasing", "age", "--decreasing", "dose")
    model = trained(folder, tmp_path / "asked", *asked)
    said = capsys.readouterr().out
    assert "the directions (yes: increasing in age, decreasing in dose) were chosen" in said
    assert "increasing in age, decreasing in dose" in (tmp_path / "asked/report.html").read_text()
    assert np.diff(along(model, "age")).min() >= -1e-6
    assert np.diff(along(model, "dose")).max() <= 1e-6
    free = trained(folder, tmp_path / "free", "--features", features)
    falls = np.diff(along(free, "age")).min() < -1e-4
    rises = np.diff(along(free, "dose")).max() > 1e-4
    assert falls or rises


def test_hats_stay_and_a_centre_does_not():
    request = replace(REQUEST, increasing=("age",))
    assert propose(facts(), [40_000] * 4, REQUEST).centre
    proposal = propose(facts(), [40_000] * 4, request)
    assert (proposal.data.features, proposal.centre) == ("hats:10", False)
    assert proposal.constraint == Named(name="monotone", numbers=(1.0,))
    assert "(yes: increasing in age)" in proposal.conditions[-1]
    assert not proposal.plan().certificate.conditional
    with pytest.raises(InputError, match="leave the centre out"):
        propose(facts(), [40_000] * 4, replace(request, centre=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"increasing": ("town",)}, "name a column of a table .*: age, dose"),
        ({"decreasing": ("aeg",)}, "'aeg'"),
        ({"increasing": ("age",), "decreasing": ("age",)}, "named twice"),
        ({"increasing": ("age",), "constraint": BOX}, "leave one out"),
        ({"increasing": ("age",), "features": "fourier:8"}, "cannot be monotone in column 0"),
        *(
            ({"constraint": Named(name="monotone", numbers=numbers)}, "different columns")
            for numbers in ((), (3.0,), (0.5,), (1.0, -1.0), (0.0,))
        ),
    ],
)  # fmt: skip
def test_what_has_no_direction_is_refused_in_words(changes, message):
    with pytest.raises(InputError, match=message):
        propose(facts(), [40_000] * 4, replace(REQUEST, **changes))


def test_records_without_named_columns_are_refused():
    bare = DataFacts(
        name="mine", task="binary", classes=2, columns=5, record_norm=1.0, table=None, numbers=2
    )
    for changes in ({"increasing": ("column 0",)}, {"constraint": DIRECTED}):
        with pytest.raises(InputError, match="columns of a table"):
            propose(bare, [40_000] * 4, replace(REQUEST, **changes))


def test_many_directions_are_proposed_as_soon_as_none():
    names = [f"c{k}" for k in range(300)]
    wide = bounds_of_ill(**dict.fromkeys(names, "min = 0\nmax = 1"))
    began = time.process_time()
    asked = replace(REQUEST, increasing=names, features="hats:10")
    propose(DataFacts.of(bounds_from_dict(tomllib.loads(wide))), [40_000], asked)
    assert time.process_time() - began < 10


@pytest.mark.slow
def test_a_run_with_directions_is_charged(folder, tmp_path, capsys):
    accounts = ("--accounts", str(tmp_path / "accounts"))
    assert main(["budget", "open", "ill", "--epsilon", "2", "--delta", "1e-3", *accounts]) == 0
    trained(folder, tmp_path / "out", "--increasing", "age", "--account", "ill", *accounts)
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "out" / "certificate-1.json")]) == 0
    assert "under conditions" not in capsys.readouterr().out
