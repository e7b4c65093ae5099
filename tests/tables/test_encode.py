"""Encoding of cells, whole or missing, however they are coded; norms that no row exceeds."""

import json
import math
import time
import tracemalloc
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import get_args

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
from taciturn.tables.columns import USUAL_MISSING, Scale
from taciturn.training import DataFacts

BOUNDS = Bounds(
    "public",
    "ill",
    Categories(("no", "yes")),
    {"age": Numeric(20.0, 70.0), "town": Categories(("a", "b", "c"))},
    ("id",),
)


AGE = Bounds("public", "age", Numeric(20.0, 70.0), {"town": Categories(("a", "b", "c"))}, ("ill",))


FRAME = pd.DataFrame(
    {"town": ["b", "c", "a"], "age": ["45", "10", "70"], "ill": ["yes", "no", "no"]}, dtype=object
)


def test_numbers_and_categories_become_what_the_definition_gives():
    coded = encode(FRAME, BOUNDS, with_target=True)
    assert coded.features.tolist() == [[0, 0, 1, 0, 1], [-1, 0, 0, 1, 1], [1, 1, 0, 0, 1]]
    assert coded.targets.tolist() == [1, -1, -1]
    assert coded.clipped == 1
    assert encoded_names(BOUNDS) == ("age", "town=a", "town=b", "town=c", "(intercept)")


def test_numbers_are_mapped_to_0_to_1_where_the_bounds_ask_for_it_and_targets_are_not():
    unit = encode(FRAME, replace(BOUNDS, interval="unit"), with_target=True)
    assert unit.features[:, 0].tolist() == [0.5, 0, 1]
    assert (
        unit.features[:, 1:].tolist()
        == encode(FRAME, BOUNDS, with_target=True).features[:, 1:].tolist()
    )
    age = encode(FRAME, replace(AGE, interval="unit"), with_target=True)
    assert age.targets.tolist() == [0.0, -1.0, 1.0]


def test_numeric_targets_fill_the_interval_and_many_labels_are_counted():
    assert encode(FRAME, AGE, with_target=True).targets.tolist() == [0.0, -1.0, 1.0]
    towns = Bounds("public", "town", BOUNDS.columns["town"], {"age": Numeric(0, 1)}, ("ill",))
    targets = encode(FRAME, towns, with_target=True).targets
    assert targets.tolist() == [1, 2, 0]
    assert np.issubdtype(targets.dtype, np.integer)


def test_one_changed_record_changes_one_row_only():
    other = FRAME.copy()
    other.loc[1] = ["a", "99", "yes"]
    same = encode(FRAME, BOUNDS, with_target=True), encode(other, BOUNDS, with_target=True)
    assert [k for k in range(3) if (same[0].features[k] != same[1].features[k]).any()] == [1]


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("age", "", "'age', row 2 is empty"),
        ("age", "old", "'age', row 2"),
        ("age", "inf", "'age', row 2"),
        ("town", "secret place", "'town', row 2.*add the value there if it is public"),
        ("ill", "perhaps", "'ill', row 2"),
        ("ill", "", "'ill', row 2"),
    ],
)
def test_a_bad_cell_is_refused_by_column_and_row_without_repeating_it(column, cell, words):
    frame = FRAME.copy()
    frame.loc[1, column] = cell
    with pytest.raises(InputError, match=words) as caught:
        encode(frame, BOUNDS, with_target=True)
    assert "secret" not in str(caught.value)


def test_missing_and_unknown_columns_are_named():
    with pytest.raises(InputError, match="no column 'ill'"):
        encode(FRAME.drop(columns="ill"), BOUNDS, with_target=True)
    with pytest.raises(InputError, match="no column 'town'"):
        encode(FRAME.drop(columns="town"), BOUNDS, with_target=False)
    with pytest.raises(InputError, match=r"'height'.*bounds file"):
        encode(FRAME.assign(height="1"), BOUNDS, with_target=True)
    encode(FRAME.assign(id="1"), BOUNDS, with_target=True)


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


WHOLE = {"age": "45", "pay": "200", "seen": "1.1.2020", "town": "a", "ill": "no"}
FULL = {"pay": "10", "cost": "9", "age": "70", "seen": "1.7.2020", "town": "a", "sex": "m"}


@pytest.fixture(scope="module")
def bounds(tmp_path_factory):
    path = tmp_path_factory.mktemp("bounds") / "b.toml"
    path.write_text(FILE)
    return read_bounds(path)


def coded(bounds, **changes):
    """Return the encoded columns of one row, by name."""
    row = FULL if "sex" in bounds.columns else WHOLE
    frame = pd.DataFrame([{**row, **changes}], dtype=object)
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
    values = json.loads(json.dumps(bounds_to_dict(bounds)))
    assert bounds_from_dict(values) == bounds
    # stated one by one: a later version may have another list of usual spellings
    assert values["columns"]["pay"]["missing"]["spellings"] == list(USUAL_MISSING)
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


def test_a_bound_that_forgets_bins_weights_indicators_or_shares_is_exceeded(monkeypatch):
    faults = {
        "bins": (Numeric(20, 70, bins=2), lambda fact, interval: 1.0),
        "weight": (Numeric(20, 70, weight=2), lambda fact, interval: 1.0),
        "indicator": (Numeric(20, 70, indicator=True, fill=70.0), lambda fact, interval: 1.0),
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


@given(
    low=st.sampled_from([0.0, 1e-9, 0.5, 3e7]),
    width=st.floats(1.0, 1e9),
    centre=st.one_of(st.none(), st.floats(0, 1)),
    share=st.one_of(st.none(), st.floats(0, 1)),
    marked=st.booleans(),
    bins=st.one_of(st.none(), st.integers(2, 9)),
    scale=st.sampled_from(get_args(Scale)),
    cells=st.lists(st.one_of(st.just(""), st.floats(-1e308, 1e308).map(repr)), min_size=1),
)
def test_no_cell_exceeds_its_share_at_any_scale(
    low, width, centre, share, marked, bins, scale, cells
):
    high = low + width
    middle = None if centre is None else min(low + centre * width, high)
    fill = None if share is None else min(low + share * width, high)
    fact = Numeric(
        low, high, indicator=marked or fill is None, fill=fill, scale=scale, bins=bins,
        centre=middle,
    )  # fmt: skip
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


def test_a_proposal_with_a_coding_of_the_other_kind_is_refused(bounds):
    columns = DataFacts.of(bounds).table.columns
    for place, field, value in (
        (0, "centre", "uniform"), (0, "centre", (0.5,)), (0, "bins", 1), (0, "weight", -1.0),
        (5, "bins", 2), (5, "scale", "log"), (5, "centre", 0.5), (5, "centre", (0.5,)),
    ):  # fmt: skip
        with pytest.raises(InputError):
            columns[place].model_copy(update={field: value}).fact  # noqa: B018


DATES = 'date = "%d.%m.%Y"\nmin = 2020-01-01\nmax = 2020-12-31\n'
HOLES = bounds_of_ill(
    age='min = 20\nmax = 70\nmissing = "indicator"',
    pay='min = 0\nmax = 400\nmissing = { as = "indicator", spellings = ["k.A.", -9], fill = 100 }',
    seen=DATES + 'missing = { as = "indicator", fill = 2020-12-31 }',
    town='values = ["a", "b"]\nmissing = "indicator"',
)


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    path = tmp_path_factory.mktemp("bounds") / "b.toml"
    path.write_text(HOLES)
    return read_bounds(path)


def test_the_file_says_what_a_missing_cell_counts_as_and_is_written_as_it_is_read(marked, tmp_path):
    assert marked.columns == {
        "age": Numeric(20.0, 70.0, missing=USUAL_MISSING, indicator=True),
        "pay": Numeric(0.0, 400.0, missing=("k.A.", "-9"), indicator=True, fill=100.0),
        "seen": Numeric(18262.0, 18627.0, "%d.%m.%Y", USUAL_MISSING, True, 18627.0),
        "town": Categories(("", "a", "b")),
    }
    text = bounds_text(marked)
    assert text.count('missing = "indicator"') == 2
    (tmp_path / "b.toml").write_text(text)
    assert read_bounds(tmp_path / "b.toml") == marked


@pytest.mark.parametrize("cell", ["", None, math.nan, "n/a", "?"])
def test_an_empty_cell_counts_as_the_middle_and_sets_its_indicator(marked, cell):
    filled, missing = coded(marked), coded(marked, age=cell)
    assert filled["age=missing"] == 0
    assert missing["age=missing"] == 1
    assert missing["age"] == filled["age"]  # 45 is the middle of 20 to 70
    assert {k: v for k, v in missing.items() if k != "age=missing"} == {
        k: v for k, v in filled.items() if k != "age=missing"
    }


def test_given_fills_and_spellings_are_kept_to(marked):
    for cell in ("", "k.a.", "-9"):
        assert coded(marked, pay=cell) == {**coded(marked, pay="100"), "pay=missing": 1}
    with pytest.raises(InputError, match="'pay', row 1 is empty, infinite or not a number"):
        coded(marked, pay="n/a")  # the list that is given stands in place of the usual one
    assert coded(marked, seen="-") == {
        **coded(marked, seen="31.12.2020"),
        "seen=missing": 1,
    }
    with pytest.raises(InputError, match="'seen', row 1 is no date"):
        coded(marked, seen="31.2.2020")
    one = coded(marked, town="")
    assert (one["town=missing"], one["town=a"], one["town=b"]) == (1, 0, 0)
    with pytest.raises(InputError, match="'town', row 1"):
        coded(marked, town="NA")  # which may be a category


def test_a_target_may_not_be_missing(marked):
    for target in (Numeric(0, 1, indicator=True), Numeric(0, 1, fill=0.5)):
        with pytest.raises(InputError, match=r"target 'cost' is \"indicator\" or \"fill\""):
            replace(marked, target_name="cost", target=target)


FILLED = bounds_of_ill(
    ignore=["town"],
    age='min = 20\nmax = 70\nmissing = "fill"',
    pay='min = 0\nmax = 400\nmissing = { as = "fill", spellings = ["k.A."], fill = 0 }',
    seen=DATES + 'missing = { as = "fill", fill = 2020-12-31 }',
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("bounds") / "b.toml"
    path.write_text(FILLED)
    return read_bounds(path)


def test_a_missing_cell_may_be_filled_in_without_an_indicator(filled, tmp_path):
    assert encoded_names(filled) == ("age", "pay", "seen", "(intercept)")
    whole = coded(filled)
    assert whole["age"] == 0  # 45 is the middle of 20 to 70
    for cell in ("", None, "NA", "?"):
        assert coded(filled, age=cell) == whole
    for cell in ("", "K.a."):
        assert coded(filled, pay=cell)["pay"] == -1
    assert coded(filled, seen="")["seen"] == 1
    text = bounds_text(filled)
    assert "missing" not in bounds_text(replace(filled, columns={"age": Numeric(0, 1)}))
    (tmp_path / "b.toml").write_text(text)
    assert read_bounds(tmp_path / "b.toml") == filled
    assert DataFacts.of(filled).table.bounds == filled


@pytest.mark.parametrize("share", [0, 0.3, 0.5, 1])
def test_filling_in_takes_no_norm_and_an_indicator_that_slips_in_is_caught(share):
    plain = {"x": Numeric(20.0, 70.0), "town": Categories(("a", "b"))}
    filled = plain | {"x": replace(plain["x"], fill=20 + 50 * share)}
    marked = plain | {"x": replace(filled["x"], indicator=True)}
    labels = Categories(("no", "yes"))
    one, two, three = (Bounds("public", "ill", labels, c) for c in (plain, filled, marked))
    assert encoded_norm(one) == encoded_norm(two) == math.sqrt(3)
    assert longest(two) == encoded_norm(two)
    assert (longest(three) > encoded_norm(two)) == (share != 0.5)  # the planted fault


def test_a_long_list_of_categories_costs_no_more_than_its_rows():
    values = tuple(map(str, range(30_000)))
    began = time.perf_counter()
    bounds = Bounds("public", "y", Numeric(0, 1), {"c": Categories(values)})
    frame = pd.DataFrame({"c": ["7", "29999"], "y": ["0", "1"]}, dtype=object)
    tracemalloc.start()
    rows = encode(frame, bounds, with_target=True).features
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.flatnonzero(rows[1]).tolist() == [29_999, 30_000]
    assert peak < 100e6  # an identity matrix would take 7.2 GB
    assert time.perf_counter() - began < 5  # counting each value in the list takes a minute


def test_a_missing_cell_is_not_counted_as_clipped(marked):
    frame = pd.DataFrame([{**WHOLE, "age": "", "pay": "k.A.", "seen": ""}], dtype=object)
    assert encode(frame, marked, with_target=True).clipped == 0
