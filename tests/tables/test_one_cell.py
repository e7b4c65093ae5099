"""What a cell is read as follows from that cell alone."""

import math
import random
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from taciturn.errors import InputError
from taciturn.tables import (
    Bounds,
    Categories,
    Form,
    Numeric,
    Source,
    encode,
    load_table,
    read_files,
)
from taciturn.tables.bounds import bounds_from_dict
from taciturn.tables.cells import spelled
from taciturn.tables.form import read_number, read_numbers
from taciturn.tables.pieces import _as_numbers

ILL = Categories(("no", "yes"))
ODD = ["", " 7 ", "1_000", "\u0663", "nan", "1" * 1001, "\u00a01", "\x1c1", "1e400"]


def bits(values):
    return np.asarray(values, np.float64).view(np.int64)


def bounds_of(fact, form=None):
    return Bounds("public", "ill", ILL, {"a": fact}, (), form or Form())


def encoded(cells, fact, dtype=object, form=None):
    frame = pd.DataFrame({"a": pd.Series(cells, dtype=dtype)})
    return encode(frame, bounds_of(fact, form), with_target=False).features


@pytest.mark.parametrize("odd", [None, *ODD])
def test_a_text_is_the_number_that_python_reads_whatever_stands_beside_it(odd):
    """`pandas.to_numeric` before 3.1.1 rounds a quarter of those of 17 digits otherwise."""
    draw = random.Random(0)
    texts = [f"{draw.uniform(-99, 99):.{digits}g}" for digits in (15, 16, 17) for _ in range(500)]
    found = read_numbers([*texts, *([] if odd is None else [odd])])[: len(texts)]
    assert np.array_equal(bits(found), bits([float(text) for text in texts]))
    assert odd is None or bits(read_numbers([*texts, odd])[-1]) == bits(read_number(odd))


@pytest.mark.parametrize("cell", [-9, -9.0, "-9", "-9.00", "-09", " -9 ", "-9e0"])
def test_a_number_that_spells_a_missing_cell_is_that_number_however_it_is_written(cell):
    """What stores -9 as a whole number stores -9.0 once another cell of the column is empty."""
    fact = Numeric(-50, 50, missing=("NA", "-9"), indicator=True)
    assert encoded([cell], fact)[0, :2].tolist() == [0, 1]
    assert encoded(["-9.5"], fact)[0, 1] == 0


def test_a_number_that_spells_a_missing_cell_is_read_in_the_form_of_the_file():
    fact, form = Numeric(-50, 50, missing=("-9",), indicator=True), Form(delimiter=";", decimal=",")
    assert encoded(["-9,0", "-9,5"], fact, form=form)[:, 1].tolist() == [1, 0]


@pytest.mark.parametrize("first", [True, False])
def test_texts_that_differ_behind_a_zero_byte_are_not_taken_for_one(first):
    """To `pandas.factorize` of pandas 2.2 a text ends at a zero byte."""
    cells = ["a\0", "a"] if first else ["a", "a\0"]
    with pytest.raises(InputError, match=f"row {2 - first} is empty or not one of"):
        encoded(cells, Categories(("a", "b")))
    assert encoded(cells, Categories(("a", "a\0")))[:, 0].tolist() == [1 - first, first]


@pytest.mark.parametrize("cell", [pd.Timestamp(2024, 1, 1), [1], 10**400, 1j])
def test_what_is_neither_text_nor_number_is_refused(cell):
    with pytest.raises(InputError, match="'a'"):
        encoded([cell, "1"], Numeric(0, 1))


@pytest.mark.parametrize("hole", [None, math.nan, pd.NA, pd.NaT])
def test_a_hole_is_a_hole_in_a_column_of_any_type(hole):
    fact = Numeric(0, 1, indicator=True)
    assert encoded([hole, "1"], fact)[:, 1].tolist() == [1, 0]


def test_a_hole_among_whole_numbers_is_one():
    assert encoded([1, pd.NA], Numeric(0, 1, indicator=True), "Int64")[:, 1].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["iso2022_jp", "ISO-2022-KR", "hz", "utf-7", "unicode_escape"])
def test_an_encoding_in_which_a_row_may_change_the_next_one_is_refused(name):
    """After ESC ( J every backslash of the rows behind is a yen sign."""
    assert b"1\x1b(J\n\\".decode("iso2022_jp") == "1\n\u00a5"
    assert b"1,a\\\n2,b".decode("unicode_escape") == "1,a2,b"
    with pytest.raises(InputError, match="save the file in UTF-8"):
        Form(encoding=name)


def test_an_agent_with_a_long_name_costs_memory_once_and_a_zero_byte_is_part_of_a_name(tmp_path):
    """Planted fault: an array of numpy's texts, each as long as the longest."""
    path = tmp_path / "t.csv"
    names = [*["a"] * 4_000, "x" * 100_000, "a\0"]
    path.write_text("\n".join(["site,a,ill", *(f"{name},1,no" for name in names)]))
    source = Source(path=path, target="ill", bounds=None, agent_column="site")
    tracemalloc.start()
    files = read_files(source, bounds_of(Numeric(0, 1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [len(rows) for rows in files.owners] == [4_000, 1, 1]
    assert peak < 50e6


def test_one_cell_does_not_send_the_others_another_way():
    """Its own time is its own; that of 8,000 others, read again, would tell that it is there."""
    texts = [f"{k / 7:.6f}" for k in range(100)]
    read = []

    class Counted(str):
        def strip(self):
            read.append(self)
            return str(self)

    for odd in ("NA", "", "1_0", "\u2212", "x", "-", "nan", "+-1", "9" * 2_000):
        read.clear()
        read_numbers([*map(Counted, texts), Counted(odd), *map(Counted, texts)])
        assert len(read) <= 1, odd


def test_blanks_around_a_number_do_not_send_a_piece_the_slow_way():
    plain = pa.array(["1", "-2.5", "3e4"])
    np.testing.assert_array_equal(_as_numbers(plain), [1.0, -2.5, 3e4])
    for code in range(sys.maxunicode + 1):
        blank = chr(code)
        if blank.isspace():
            np.testing.assert_array_equal(_as_numbers(pa.array([blank + "1" + blank, "7"])), [1, 7])
    assert _as_numbers(pa.array(["1 2", "7"])) is None


def places(cells, values, form=None, **how):
    return np.argmax(encoded(cells, Categories(values, **how), form=form)[:, :-1], axis=1).tolist()


def test_a_whole_number_is_the_same_label_however_it_is_written():
    cells = ["0", "0.0", "0.", " 0.00 ", "-0.0", 0, 0.0, False, "False", "1", 1.0, True, "TRUE"]
    assert places(cells, ("0", "1")) == [0] * 9 + [1] * 4
    assert places(["10", "-3.0", 7.0, "7."], ("-3", "7.0", "10.")) == [2, 0, 1, 1]
    assert places(["3", "-9.0", ""], ("", "3"), missing=("-9",)) == [1, 0, 0]


def test_a_label_is_read_in_the_form_of_the_file():
    form = Form(delimiter=";", decimal=",", thousands=".")
    assert places(["1,0", "1.000", "1000", "1"], ("1", "1000"), form) == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("0.5", ("0", "1")),
        ("01", ("0", "1")),  # a code such as 007 is no number
        ("1e0", ("0", "1")),
        ("\u0661", ("0", "1")),
        ("1.0", ("1", "x")),  # with other labels, texts
        ("1.0", ("1", "02")),
        (True, ("1", "2")),  # coded otherwise, perhaps
        ("true", ("", "2")),
    ],
)
def test_another_text_is_another_label(cell, values):
    with pytest.raises(InputError, match="row 1 is empty or not one of"):
        places([cell], values)


def test_two_labels_that_are_one_number_are_refused():
    with pytest.raises(InputError, match=r"'0' is listed twice, as 0 and 0\.0 are one number"):
        Categories(("0", "0.0"))
    with pytest.raises(InputError, match="one of values and of missing"):
        Categories(("0", "9"), missing=("9.0",))
    assert Categories(("0", "0.0", "x")).values == ("0", "0.0", "x")


STORED = {
    "whole": pa.array([0, 1, 1], pa.int64()),
    "floats": pa.array([0.0, 1.0, 1.0], pa.float64()),
    "halves": pa.array([0.0, 1.0, 1.0], pa.float32()),
    "truths": pa.array([False, True, True]),
    "texts": pa.array(["0", "1.0", "1."]),
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_labels_stored_as_numbers_or_truths_are_those_of_the_bounds(stored, kind, tmp_path):
    (tmp_path / "b.toml").write_text(
        'source = "public"\n[target]\nname = "ill"\nvalues = [0, 1]\n'
        '[columns]\na = { values = ["1", "0"] }\n'
    )
    table, path = pa.table({"ill": stored, "a": stored}), tmp_path / f"t.{kind}"
    if kind == "csv":
        table.to_pandas().to_csv(path, index=False)
    else:
        parquet.write_table(table, path)
    read = load_table(Source(path=path, target="ill", bounds=tmp_path / "b.toml"))
    assert read.targets.tolist() == [-1, 1, 1]
    assert read.features[:, 0].tolist() == [0, 1, 1]


def test_a_point_is_no_decimal_one_in_a_file_with_a_decimal_comma():
    """1.000 is a thousand there, or nothing; it was taken for 1."""
    bounds = {
        "source": "public", "format": {"decimal": ",", "delimiter": ";"},
        "target": {"name": "y", "min": 0, "max": 1},
        "columns": {"code": {"values": ["1", "1000"]}},
    }  # fmt: skip
    code = bounds_from_dict(bounds)
    found = spelled(pd.Series(["1,0", "1000", "1.000", "1", "x"]), code.columns["code"], code.form)
    assert found == ["1", "1000", "1.000", "1", "x"]
    stored = spelled(pd.Series([1.0, 1000.0]), code.columns["code"], code.form)
    assert stored == ["1", "1000"]
