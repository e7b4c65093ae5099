"""Missing cells with an indicator: what they are encoded as, and the norm that no row exceeds."""

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
from taciturn.models import Model, predict, table_terms
from taciturn.tables import (
    Bounds,
    Categories,
    Numeric,
    bounds_text,
    encode,
    encoded_names,
    encoded_norm,
    read_bounds,
)
from taciturn.tables.bounds import bounds_from_dict, bounds_to_dict
from taciturn.tables.columns import USUAL_MISSING
from taciturn.training import DataFacts

module = import_module("taciturn.tables.encode")
DATES = 'date = "%d.%m.%Y"\nmin = 2020-01-01\nmax = 2020-12-31\n'
FILE = bounds_of_ill(
    age='min = 20\nmax = 70\nmissing = "indicator"',
    pay='min = 0\nmax = 400\nmissing = { as = "indicator", spellings = ["k.A.", -9], fill = 100 }',
    seen=DATES + 'missing = { as = "indicator", fill = 2020-12-31 }',
    town='values = ["a", "b"]\nmissing = "indicator"',
)
FULL = {"age": "45", "pay": "200", "seen": "1.1.2020", "town": "a", "ill": "no"}


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


def test_the_file_says_what_a_missing_cell_counts_as_and_is_written_as_it_is_read(bounds, tmp_path):
    assert bounds.columns == {
        "age": Numeric(20.0, 70.0, missing=USUAL_MISSING, indicator=True),
        "pay": Numeric(0.0, 400.0, missing=("k.A.", "-9"), indicator=True, fill=100.0),
        "seen": Numeric(18262.0, 18627.0, "%d.%m.%Y", USUAL_MISSING, True, 18627.0),
        "town": Categories(("", "a", "b")),
    }
    text = bounds_text(bounds)
    assert text.count('missing = "indicator"') == 2
    (tmp_path / "b.toml").write_text(text)
    assert read_bounds(tmp_path / "b.toml") == bounds


@pytest.mark.parametrize("cell", ["", None, math.nan, "NA", "n/a", "NaN", "?", "-", "NULL"])
def test_an_empty_cell_counts_as_the_middle_and_sets_its_indicator(bounds, cell):
    filled, missing = coded(bounds), coded(bounds, age=cell)
    assert filled["age=missing"] == 0
    assert missing["age=missing"] == 1
    assert missing["age"] == filled["age"]  # 45 is the middle of 20 to 70
    assert {k: v for k, v in missing.items() if k != "age=missing"} == {
        k: v for k, v in filled.items() if k != "age=missing"
    }


def test_given_fills_and_spellings_are_kept_to(bounds):
    for cell in ("", "k.a.", "-9"):
        assert coded(bounds, pay=cell) == {**coded(bounds, pay="100"), "pay=missing": 1}
    with pytest.raises(InputError, match="'pay', row 1 is empty, infinite or not a number"):
        coded(bounds, pay="n/a")  # the list that is given stands in place of the usual one
    assert coded(bounds, seen="-") == {**coded(bounds, seen="31.12.2020"), "seen=missing": 1}
    with pytest.raises(InputError, match="'seen', row 1 is no date"):
        coded(bounds, seen="31.2.2020")
    one = coded(bounds, town="")
    assert (one["town=missing"], one["town=a"], one["town=b"]) == (1, 0, 0)
    with pytest.raises(InputError, match="'town', row 1"):
        coded(bounds, town="NA")  # which may be a category


def test_a_missing_cell_is_not_counted_as_clipped(bounds):
    frame = pd.DataFrame([{**FULL, "age": "", "pay": "k.A.", "seen": ""}], dtype=object)
    assert encode(frame, bounds, with_target=True).clipped == 0


def test_without_an_indicator_the_error_names_it(bounds):
    plain = replace(bounds, columns={**bounds.columns, "age": Numeric(20, 70)})
    with pytest.raises(InputError, match=r"'age', row 1 is empty; drop.*missing = \"indicator\""):
        coded(plain, age="")


def test_a_target_may_not_be_missing(bounds):
    for target in (Numeric(0, 1, indicator=True), Numeric(0, 1, fill=0.5)):
        with pytest.raises(InputError, match=r"target 'cost' is \"indicator\" or \"fill\""):
            replace(bounds, target_name="cost", target=target)


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


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("{ fill = 3 }", 'without as; add as = "fill"'),
        ('{ as = "fill", fill = 71 }', "fill is 71 and the range is from 20 to 70"),
        ('{ as = "fill", fill = "3" }', "fill must be a number"),
        ('"mean"', 'missing is \'mean\'; write "indicator", "fill"'),
    ],
)
def test_a_bad_fill_is_one_clear_error(tmp_path, missing, words):
    path = tmp_path / "b.toml"
    path.write_text(FILLED.replace('missing = "fill"', f"missing = {missing}"))
    with pytest.raises(InputError, match=words):
        read_bounds(path)


def test_a_category_cannot_be_filled_in(tmp_path):
    path = tmp_path / "b.toml"
    path.write_text(FILE.replace('["a", "b"]\nmissing = "indicator"', '["a"]\nmissing = "fill"'))
    with pytest.raises(InputError, match="column 'town': fill is for numbers"):
        read_bounds(path)


NUMBERS = ["", "20", "45", "70", "-1e300", "1e300", "33.3"]


def longest(bounds):
    """Return the largest norm of an encoded row, searched over cells at every end."""
    cells = {
        name: NUMBERS if isinstance(fact, Numeric) else list(fact.values)
        for name, fact in bounds.columns.items()
    }
    rows = pd.DataFrame(list(product(*cells.values())), columns=list(cells), dtype=object)
    return np.linalg.norm(encode(rows, bounds, with_target=False).features, axis=1).max()


FILLS = [(None, None), (20.0, 70.0), (45.0, None), (None, 57.5), (70.0, 33.3)]


def with_fills(first, second):
    columns = {
        "x": Numeric(20.0, 70.0, indicator=True, fill=first),
        "z": Numeric(20.0, 70.0, indicator=True, fill=second),
        "town": Categories(("", "a")),
    }
    return Bounds("public", "ill", Categories(("no", "yes")), columns)


@pytest.mark.parametrize("fills", FILLS)
def test_the_norm_bound_holds_for_every_row_and_is_reached(fills):
    bounds = with_fills(*fills)
    assert longest(bounds) == pytest.approx(encoded_norm(bounds), rel=1e-15)


def test_with_the_middle_as_fill_an_indicator_costs_no_norm():
    plain = {"x": Numeric(20.0, 70.0), "town": Categories(("a", "b"))}
    marked = plain | {"x": replace(plain["x"], indicator=True)}
    labels = Categories(("no", "yes"))
    one, two = (Bounds("public", "ill", labels, columns) for columns in (plain, marked))
    assert encoded_norm(one) == encoded_norm(two) == math.sqrt(3)


def test_a_forgotten_indicator_in_the_bound_is_caught(monkeypatch):
    bounds = with_fills(70.0, 20.0)
    assert longest(bounds) <= encoded_norm(bounds) * (1 + 1e-15)
    monkeypatch.setattr(module, "_most", lambda fact, interval: 1.0)
    assert longest(bounds) > 1.2 * encoded_norm(bounds)


@given(
    low=st.floats(-1e9, 1e9),
    width=st.floats(10.0, 1e9),
    share=st.one_of(st.none(), st.floats(0, 1)),
    marked=st.booleans(),
    cells=st.lists(st.one_of(st.just(""), st.floats(-1e308, 1e308).map(repr)), min_size=1),
)
def test_no_cell_that_may_be_missing_exceeds_its_share(low, width, share, marked, cells):
    high = low + width
    fill = None if share is None else min(low + share * width, high)
    fact = Numeric(low, high, indicator=marked or fill is None, fill=fill)
    bounds = Bounds("public", "ill", Categories(("no", "yes")), {"x": fact})
    rows = encode(pd.DataFrame({"x": cells}, dtype=object), bounds, with_target=False).features
    assert (np.linalg.norm(rows, axis=1) <= encoded_norm(bounds) * (1 + 1e-15)).all()
    assert np.abs(rows).max() <= 1


def test_proposals_and_model_files_record_the_indicator_and_the_spellings(bounds):
    facts = DataFacts.of(bounds)
    assert facts.table.bounds == bounds
    assert facts.columns == 3 * 2 + 3 + 1
    assert facts.record_norm == encoded_norm(bounds)
    values = json.loads(json.dumps(bounds_to_dict(bounds)))
    assert bounds_from_dict(values) == bounds
    # stated one by one: a later version may have another list of usual spellings
    assert values["columns"]["age"]["missing"]["spellings"] == list(USUAL_MISSING)


def test_predictions_treat_missing_cells_as_training_does(bounds):
    weights = np.random.default_rng(0).standard_normal(len(encoded_names(bounds)))
    model = Model(
        data="t",
        task="binary",
        loss="logistic",
        target="ill",
        labels=("no", "yes"),
        bounds=bounds,
        terms=table_terms(bounds, weights),
        certificate={},
        statement=(),
        taciturn_version="0",
        clip=1.0,
    )
    rows = [
        FULL,
        {**FULL, "age": "?"},
        {**FULL, "age": "", "pay": "k.A."},
        {**FULL, "seen": "", "town": ""},
    ]
    frame = pd.DataFrame(rows, dtype=object)
    scores = encode(frame, bounds, with_target=False).features @ weights
    odds = predict(model, frame)["probability of yes"].to_numpy()
    np.testing.assert_allclose(odds, 1 / (1 + np.exp(-scores)), rtol=1e-10)
    named = {(term.column, term.value): term.coefficient for term in model.terms}
    at = dict(zip(encoded_names(bounds), weights.tolist(), strict=True))
    assert named["age", ""] == (at["age=missing"],)
    assert named["town", ""] == (at["town=missing"],)
