"""Encoding: numbers by hand, norms that no row can exceed, and refusals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taciturn.errors import InputError
from taciturn.tables import (
    Bounds,
    Categories,
    Numeric,
    encode,
    encoded_names,
    encoded_norm,
    read_table,
    read_tables,
)

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


def test_cells_become_the_numbers_that_the_definition_gives():
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


@given(ages=st.lists(st.floats(-1e308, 1e308), min_size=1, max_size=5), low=st.floats(-1e9, 1e9))
def test_no_row_is_longer_than_the_public_norm_and_none_is_lost_by_clipping(ages, low):
    bounds = Bounds(
        "public",
        "ill",
        BOUNDS.target,
        {"age": Numeric(low, low + 7.0), "town": BOUNDS.columns["town"]},
    )
    frame = pd.DataFrame({"age": map(repr, ages), "town": ["a"] * len(ages)}, dtype=object)
    rows = encode(frame, bounds, with_target=False).features
    assert np.all(np.linalg.norm(rows, axis=1) <= encoded_norm(bounds))
    assert np.all(np.abs(rows) <= 1)
    assert encoded_norm(bounds) == pytest.approx(3**0.5)


@pytest.mark.parametrize("age", ["70", "20"])
def test_the_norm_is_reached_at_both_ends(age):
    rows = encode(FRAME.assign(age=age), BOUNDS, with_target=False).features
    assert np.linalg.norm(rows, axis=1) == pytest.approx(encoded_norm(BOUNDS))


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
        ("age", "nan", "'age', row 2"),
        ("town", "secret place", "'town', row 2.*add the value there if it is public"),
        ("town", "", "'town', row 2"),
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


# reading


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "no rows"),
        (b"a,b\n1,2\n3\n", "row 2 has 1 cells and the header 2"),
        (b"a,b\n1,2,3\n", "row 1 has 3 cells"),
        (b"a,a\n1,2\n", "two columns called 'a'"),
        (b'a,b\n1,"2\n', "not a valid CSV"),
        (b"a,b\n\xff,2\n", "UTF-8"),
        (b"a,b\n\x00,2\n3", "cells|valid CSV"),
    ],
)
def test_files_that_are_not_tables_are_refused(tmp_path, content, words):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_table(tmp_path / "t.csv")
    assert "t.csv" in str(caught.value)


def test_marks_blanks_and_quotes_are_read_as_meant(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'\xef\xbb\xbfa, "b, c"\n 1 , x\n\n2,"y,z"\n')
    frame = read_table(tmp_path / "t.csv")
    assert frame.to_dict(orient="list") == {"a": ["1", "2"], "b, c": ["x", "y,z"]}


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"no \.csv"):
        read_tables(tmp_path)


def test_agents_come_by_name_with_the_columns_of_the_first(tmp_path):
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    (tmp_path / "a.csv").write_text("x,y\n3,4\n")
    (tmp_path / "notes.txt").write_text("no table")
    first, second = read_tables(tmp_path).values()
    assert first.to_dict(orient="list") == {"x": ["3"], "y": ["4"]}
    assert second.to_dict(orient="list") == {"x": ["2"], "y": ["1"]}
    (tmp_path / "c.csv").write_text("x,z\n3,4\n")
    with pytest.raises(InputError, match=r"c\.csv and a\.csv have different columns: 'y'"):
        read_tables(tmp_path)


def test_suffixes_count_in_any_case_of_their_letters(tmp_path, monkeypatch):
    (tmp_path / "b.CSV").write_text("y,x\n1,2\n")
    (tmp_path / "a.csv").write_text("x,y\n3,4\n")
    (tmp_path / "c.Parquet").write_bytes(b"PAR1")
    table = pd.DataFrame({"x": [5], "y": [6]})
    monkeypatch.setattr("taciturn.tables.pieces.stored_pieces", lambda *_: iter([table]))
    found = read_tables(tmp_path)
    assert [(file.name, len(frame)) for file, frame in found.items()] == [
        ("a.csv", 1), ("b.CSV", 1), ("c.Parquet", 1),
    ]  # fmt: skip
    assert read_table(tmp_path / "c.Parquet").to_dict(orient="list") == {"x": ["5"], "y": ["6"]}


def test_a_parquet_table_is_read_as_the_same_text(tmp_path, monkeypatch):
    table = pd.DataFrame({"a": [1.5, None], "b": ["x ", "y"], "c": [1, 2]})
    monkeypatch.setattr(
        "taciturn.tables.pieces.stored_pieces", lambda *_: iter([table[:1], table[1:]])
    )
    (tmp_path / "t.parquet").touch()
    frame = read_table(tmp_path / "t.parquet")
    assert frame.to_dict(orient="list") == {"a": ["1.5", ""], "b": ["x", "y"], "c": ["1", "2"]}
