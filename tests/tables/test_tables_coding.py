"""Scale, bins, centre and weight of a column: what is encoded, its norm, what is refused."""

import json
import math
from dataclasses import replace
from importlib import import_module
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import bounds_of_ill
from taciturn.errors import InputError
from taciturn.features import feature_map_named
from taciturn.models import Model, load_model, predict, save_model, table_terms
from taciturn.tables import (
    Bounds,
    Categories,
    Numeric,
    bounds_text,
    encode,
    encoded_names,
    encoded_norm,
    inputs_of,
    read_bounds,
)
from taciturn.tables.bounds import bounds_from_dict, bounds_to_dict
from taciturn.training import DataFacts

module = import_module("taciturn.tables.encode")
LABELS = Categories(("no", "yes"))
FILE = bounds_of_ill(
    pay='min = 1\nmax = 1000\nscale = "log"\nbins = 3\nmissing = "indicator"',
    cost='min = 0\nmax = 99\nscale = "log"\nbins = [1, 5.5, 20]\ncentre = 9',
    age="min = 20\nmax = 70\ncentre = 30\nweight = 0.5",
    seen='date = "%d.%m.%Y"\nmin = 2020-01-01\nmax = 2020-12-31\nbins = [2020-07-01]',
    town='values = ["a", "b b"]\nmissing = "indicator"\ncentre = { "b b" = 0.25 }\nweight = 2',
    sex='values = ["f", "m"]\ncentre = "uniform"',
)
FULL = {"pay": "10", "cost": "9", "age": "70", "seen": "1.7.2020", "town": "a", "sex": "m"}


@pytest.fixture(scope="module")
def bounds(tmp_path_factory):
    path = tmp_path_factory.mktemp("bounds") / "b.toml"
    path.write_text(FILE)
    return read_bounds(path)


def coded(bounds, **changes):
    """Return the encoded columns of one row, by name."""
    frame = pd.DataFrame([{**FULL, **changes}], dtype=object)
    rows = encode(frame, bounds, with_target=False).features
    return dict(zip(encoded_names(bounds), rows[0].tolist(), strict=True))


def test_the_file_says_how_a_column_is_encoded_and_is_written_as_it_is_read(bounds, tmp_path):
    pay, cost, age, seen, town, sex = bounds.columns.values()
    assert (pay.scale, pay.bins, pay.edges) == ("log", 3, (10.0, 100.0))
    assert (cost.bins, cost.centre, age.weight) == ((1.0, 5.5, 20.0), 9.0, 0.5)
    assert seen.bins == (18444.0,)
    assert (town.centre, town.weight, sex.centre) == ((0.0, 0.0, 0.25), 2.0, "uniform")
    (tmp_path / "b.toml").write_text(bounds_text(bounds))
    assert read_bounds(tmp_path / "b.toml") == bounds
    assert bounds_from_dict(json.loads(json.dumps(bounds_to_dict(bounds)))) == bounds
    facts = DataFacts.of(bounds)
    assert facts.table.bounds == bounds
    assert DataFacts.model_validate_json(facts.model_dump_json()) == facts
    assert facts.record_norm == encoded_norm(bounds)


def test_cells_become_the_numbers_that_the_definition_gives(bounds):
    row = coded(bounds)
    assert row["pay"] == pytest.approx(2 * math.log(10) / math.log(1000) - 1)
    assert [row[f"pay={b}"] for b in ("1 to 10", "10 to 100", "100 to 1000")] == [0, 1, 0]
    assert row["cost"] == 0  # its centre
    assert row["cost=5.5 to 20"] == 1
    assert coded(bounds, cost="99")["cost"] == 1
    assert coded(bounds, cost="0")["cost"] == pytest.approx(-1)  # log 10 from both ends
    assert (row["age"], coded(bounds, age="30")["age"]) == (0.5, 0)
    assert coded(bounds, age="20")["age"] == pytest.approx(-0.5 * 10 / 40)
    assert row["seen=2020-07-01 to 2020-12-31"] == 1
    assert [row[f"town={v}"] for v in ("missing", "a", "b b")] == [0, 2, -0.5]
    assert [row[f"sex={v}"] for v in "fm"] == [-0.5, 0.5]
    gone = coded(bounds, pay="", town="")
    assert [gone[name] for name in gone if name.startswith("pay")] == [0, 1, 0, 0, 0]
    assert gone["town=missing"] == 2


def test_bins_of_a_column_are_those_of_the_feature_map():
    column = {"x": Numeric(0.0, 100.0)}
    plain, binned = (
        Bounds("public", "ill", LABELS, {"x": replace(column["x"], bins=bins)})
        for bins in (None, 10)
    )
    cells = pd.DataFrame({"x": [*map(str, range(-5, 106)), "29.999"]}, dtype=object)
    rows = encode(cells, plain, with_target=False).features
    mapped = feature_map_named("bins:10", inputs_of(plain)).apply(rows)
    own = encode(cells, binned, with_target=False).features
    np.testing.assert_array_equal(own[:, 1:-1], mapped[:, 2:])
    assert encoded_norm(binned) == math.sqrt(3)


NUMBERS = ["", "0", "20", "30", "45", "70", "-1e300", "1e300", "33.3"]


def longest(bounds):
    """Return the largest norm of an encoded row, searched over cells at every end."""
    cells = {
        name: NUMBERS[not fact.accepts_missing :] if isinstance(fact, Numeric) else fact.values
        for name, fact in bounds.columns.items()
    }
    rows = pd.DataFrame(list(product(*cells.values())), columns=list(cells), dtype=object)
    return np.linalg.norm(encode(rows, bounds, with_target=False).features, axis=1).max()


def of(*facts, interval="symmetric"):
    columns = {f"c{k}": fact for k, fact in enumerate(facts)}
    return Bounds("public", "ill", LABELS, columns, interval=interval)


CODINGS = [
    {"bins": 4},
    {"bins": (21.0, 69.0), "weight": 0.3},
    {"scale": "log"},
    {"scale": "log", "bins": 3, "centre": 20.0},
    {"centre": 30.0},
    {"centre": 30.0, "weight": 2.0},
    {"centre": 70.0, "bins": 2},
]
MISSING = [{}, {"indicator": True}, {"indicator": True, "fill": 66.0}, {"fill": 20.0}]


@pytest.mark.parametrize("coding", CODINGS, ids=str)
def test_the_norm_of_a_number_is_reached_and_not_exceeded_however_it_is_coded(coding):
    for (low, missing), interval in product(product((20.0, 0.0), MISSING), ("symmetric", "unit")):
        bounds = of(Numeric(low, 70.0, **coding, **missing), interval=interval)
        assert longest(bounds) == pytest.approx(encoded_norm(bounds), rel=1e-14), (missing, low)


@pytest.mark.parametrize(
    "fact",
    [
        Categories(("a", "b", "c"), centre="uniform"),
        Categories(("a", "b", "c"), centre=(0.7, 0.1, 0.2), weight=0.5),
        Categories(("", "a"), centre=(0.0, 0.5)),
        Categories(("a",), centre="uniform"),
    ],
)
def test_the_norm_of_a_category_is_reached_and_not_exceeded(fact):
    assert longest(of(fact)) == pytest.approx(encoded_norm(of(fact)), rel=1e-14)
    both = of(fact, Numeric(20.0, 70.0, bins=3, indicator=True))
    assert longest(both) == pytest.approx(encoded_norm(both), rel=1e-14)


def test_a_bound_that_forgets_bins_weights_or_shares_is_exceeded(monkeypatch):
    faults = {
        "bins": (Numeric(20, 70, bins=2), lambda fact, interval: 1.0),
        "weight": (Numeric(20, 70, weight=2), lambda fact, interval: 1.0),
        "shares": (
            Categories(("a", "b"), centre=(1.0, 0.0)),
            lambda fact, interval: 1 + sum(p * p for p in fact.shares) - 2 * max(fact.shares),
        ),
    }
    for fact, fault in faults.values():
        assert longest(of(fact)) <= encoded_norm(of(fact)) * (1 + 1e-14)
        with monkeypatch.context() as patched:
            patched.setattr(module, "_most", fault)
            assert longest(of(fact)) > 1.1 * encoded_norm(of(fact))


def test_a_missing_cell_that_sets_a_bin_beside_its_indicator_is_caught():
    fact = Numeric(20.0, 70.0, bins=2, indicator=True, fill=70.0)
    rows = encode(pd.DataFrame({"c0": ["", "70"]}), of(fact), with_target=False).features
    assert encoded_norm(of(fact)) == math.sqrt(3)
    rows[0, 3] = 1.0  # the planted fault: the bin of 70
    assert np.linalg.norm(rows[0]) > encoded_norm(of(fact))


@given(
    low=st.sampled_from([0.0, 1e-9, 0.5, 3e7]),
    width=st.floats(1.0, 1e9),
    centre=st.one_of(st.none(), st.floats(0, 1)),
    bins=st.one_of(st.none(), st.integers(2, 9)),
    scale=st.sampled_from(["linear", "log"]),
    cells=st.lists(st.one_of(st.just(""), st.floats(-1e308, 1e308).map(repr)), min_size=1),
)
def test_no_cell_exceeds_its_share_at_any_scale(low, width, centre, bins, scale, cells):
    high = low + width
    middle = None if centre is None else min(low + centre * width, high)
    fact = Numeric(low, high, indicator=True, scale=scale, bins=bins, centre=middle)
    rows = encode(pd.DataFrame({"c0": cells}, dtype=object), of(fact), with_target=False).features
    assert (np.linalg.norm(rows, axis=1) <= encoded_norm(of(fact)) * (1 + 1e-14)).all()
    assert np.abs(rows).max() <= 1
    if bins is not None:
        assert (rows[:, 1:-1].sum(axis=1) == 1).all()


def test_predictions_and_model_files_encode_as_training_does(bounds, tmp_path):
    weights = np.random.default_rng(0).standard_normal(len(encoded_names(bounds)))
    model = Model(
        data="t", task="binary", loss="logistic", clip=1.0, target="ill", labels=("no", "yes"),
        bounds=bounds, terms=table_terms(bounds, weights), certificate={}, statement=(),
        taciturn_version="0",
    )  # fmt: skip
    save_model(model, tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert loaded == model
    rows = [FULL, {**FULL, "pay": "k"}, {**FULL, "cost": "1", "town": "", "age": "1000"}]
    rows[1]["pay"] = ""
    frame = pd.DataFrame(rows, dtype=object)
    scores = encode(frame, bounds, with_target=False).features @ weights
    odds = predict(loaded, frame)["probability of yes"].to_numpy()
    np.testing.assert_allclose(odds, 1 / (1 + np.exp(-scores)), rtol=1e-10)
    named = {(term.column, term.value): term.coefficient for term in model.terms}
    at = dict(zip(encoded_names(bounds), weights.tolist(), strict=True))
    assert named["pay", "10 to 100"] == (at["pay=10 to 100"],)
    assert named["town", "a"] == pytest.approx((2 * at["town=a"],))
    # per unit of the logarithm
    assert named["pay", None] == pytest.approx((at["pay"] * 2 / math.log(1000),))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("min = 1\n", "min = -1\n", "'pay': scale is \"log\" and min is -1; numbers below 0"),
        ('scale = "log"\nbins = 3', 'scale = "ln"', "'pay': scale must be \"linear\" or \"log\""),
        ("bins = 3", "bins = 1", "'pay': bins is 1; give a number from 2 to 1000"),
        ("bins = 3", "bins = 1001", "'pay': bins is 1001"),
        ("bins = 3", "bins = true", "'pay': bins must be a whole number, or inner edges"),
        ("bins = 3", "bins = 2.5", "'pay': bins must be a whole number, or inner edges"),
        ("bins = 3", 'bins = ["1"]', "'pay': edges in bins must be numbers, without quotes"),
        ("bins = 3", "bins = []", "'pay': bins has 0 edges"),
        ("[1, 5.5, 20]", "[5, 1]", "'cost': bins has 2 edges that do not increase"),
        ("[1, 5.5, 20]", "[0, 1]", "'cost': bins has 2 edges that do not increase from above min"),
        ("[1, 5.5, 20]", "[1, nan]", "'cost': bins has 2 edges"),
        ("centre = 9", "centre = 100", "'cost': centre is 100 and the range is from 0 to 99"),
        ("centre = 9", 'centre = "uniform"', "'cost': centre of a range must be a number"),
        ("weight = 0.5", "weight = 0", "'age': weight is 0; give a number above 0, at most 1000"),
        ("weight = 0.5", "weight = nan", "'age': weight is nan"),
        ("weight = 0.5", 'weight = "1"', "'age': weight must be a number, without quotes"),
        ("bins = [2020", 'scale = "log"\nbins = [2020', "'seen': scale is \"log\" and date is"),
        ('centre = "uniform"', "centre = 1", "'sex': centre of a list must be \"uniform\""),
        ('centre = "uniform"', "centre = { x = 1 }", "'sex': centre has 'x', which is not one of"),
        ('centre = "uniform"', 'centre = { f = "1" }', "'sex': shares in centre must be numbers"),
        ('centre = "uniform"', "centre = { f = -1 }", "'sex': centre has 2 shares for 2 values"),
        ('centre = "uniform"', "centre = { f = 1, m = 1 }", "'sex': centre has shares that sum to"),
        ('centre = "uniform"', "bins = 2", "'sex': it has 'bins'"),
        ('name = "ill"', 'name = "ill"\nweight = 2', "weight is given for the target 'ill'"),
    ],
)  # fmt: skip
def test_a_bad_coding_is_one_clear_error(tmp_path, old, new, words):
    assert old in FILE
    (tmp_path / "b.toml").write_text(FILE.replace(old, new, 1))
    with pytest.raises(InputError, match=words) as caught:
        read_bounds(tmp_path / "b.toml")
    assert "\n" not in str(caught.value)


def test_a_proposal_with_a_coding_of_the_other_kind_is_refused(bounds):
    columns = DataFacts.of(bounds).table.columns
    for place, field, value in (
        (0, "centre", "uniform"), (0, "centre", (0.5,)), (0, "bins", 1), (0, "weight", -1.0),
        (5, "bins", 2), (5, "scale", "log"), (5, "centre", 0.5), (5, "centre", (0.5,)),
    ):  # fmt: skip
        with pytest.raises(InputError):
            columns[place].model_copy(update={field: value}).fact  # noqa: B018
