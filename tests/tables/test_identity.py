"""A person is one person however the files store the column that says so."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from taciturn.errors import InputError
from taciturn.tables import Source, read_files
from taciturn.tables.cells import canonical
from taciturn.tables.form import Form

BOUNDS = """
source = "public"
ignore = ["who"]
[target]
name = "y"
values = ["a", "b"]
[columns.x]
min = 0.0
max = 1.0
"""


def frame(who):
    return pd.DataFrame({"who": who, "x": 0.5, "y": "a"})


def persons(folder, parts):
    """Return the number of the person in each row of a folder with these files."""
    (folder / "data").mkdir()
    (folder / "b.toml").write_text(BOUNDS)
    for number, who in enumerate(parts):
        file = folder / "data" / f"f{number}"
        if isinstance(who, str):
            rows = [f"{one},0.5,a" for one in who.split()]
            file.with_suffix(".csv").write_text("\n".join(["who,x,y", *rows]))
        else:
            frame(who).to_parquet(file.with_suffix(".parquet"))
    bounds = folder / "b.toml"
    source = Source(path=folder / "data", target="y", bounds=bounds, person_column="who")
    return read_files(source).persons.tolist()


@pytest.mark.parametrize(
    "stored",
    [
        np.array([7, 10, 300], np.uint16),
        np.array([7, 10, 300], np.float64),  # as pandas stores them where a cell was missing once
        [Decimal("7.00"), Decimal("10.00"), Decimal("300.00")],
        ["007", "010", "300"],
        pd.Categorical(["7", "10", "300"]),
        "7 10.0 300",
    ],
)
def test_one_person_is_the_same_in_files_of_any_column_type(stored, tmp_path):
    """Planted fault: the text of the cells, by which a person would be two."""
    texts = ["7", "10", "300"]
    found = persons(tmp_path, [texts, stored, [*texts, "7a"]])
    assert found == [2, 0, 1, 2, 0, 1, 2, 0, 1, 3]  # in the order of the texts


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([["7", "8"], [2.0**53, 3.0]], "not whole or not exact"),
        ([np.array([2.0**24, 3.0], np.float32)], "not whole or not exact"),
        ([[0.5, 2.0]], "not whole or not exact"),
        ([["7", "8"], [b"7", b"8"]], "cannot be compared"),
        ([["2020-01-01"], [datetime.date(2020, 1, 1)]], "cannot be compared"),
        ([["True"], [True]], "cannot be compared"),
    ],
)
def test_columns_of_persons_that_cannot_be_compared_are_refused(parts, said, tmp_path):
    with pytest.raises(InputError, match=said) as told:
        persons(tmp_path, parts)
    assert "\n" not in str(told.value)


def test_text_that_reads_as_a_number_is_that_number_and_other_text_is_itself():
    point, comma = Form(), Form(decimal=",", delimiter=";")
    alike = ["7", "7.0", "+7", "007", "7e0", "70E-1"]
    assert {canonical(text, point) for text in alike} == {"7"}
    assert canonical("7,0", comma) == "7"
    long = "1" * 39  # more digits than a decimal context keeps by itself
    assert canonical(long, point) != canonical(long[:-1] + "2", point)
    for text in ("7a", "a7", "a07", "nan", "sNaN", "inf", "-", "1e999999999", "1" * 401, "zq;7"):
        assert canonical(text, point) == text


@pytest.mark.parametrize(
    ("form", "alike"),
    [
        (Form(thousands=",", delimiter=";"), ["1234567", "1,234,567", "1,234,567.0", "12,34,567"]),
        (Form(decimal=",", thousands=".", delimiter=";"), ["1234", "1.234", "1.234,0", "1234,00"]),
        (Form(thousands=" "), ["1234", "1 234", "1\u00a0234", "1\u202f234"]),
        (Form(thousands="'"), ["1234", "1'234", "1\u2019234"]),
    ],
)
def test_a_number_in_groups_of_digits_is_that_number(form, alike):
    """Planted fault: such a text by itself, by which a person would have twice the places."""
    assert len({canonical(text, form) for text in alike}) == 1
    assert canonical("1,5,7", form) == "1,5,7"
    assert canonical("7", form) == "7"


def test_an_accent_that_is_written_apart_is_the_same_name(tmp_path):
    together, apart = "Jos\u00e9", "Jose\u0301"
    assert persons(tmp_path, [f"{together} Ann", f"{apart} Ann"]) == [1, 0, 1, 0]


def test_files_that_all_store_them_alike_may_store_them_in_any_way(tmp_path):
    assert persons(tmp_path, [[b"7", b"8"], [b"8", b"9"]]) == [0, 1, 1, 2]
