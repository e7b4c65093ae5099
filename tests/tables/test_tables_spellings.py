"""Spellings: case, white space, missing cells and dates, as the bounds file states them."""

import pandas as pd
import pytest

from taciturn.errors import InputError
from taciturn.tables import Bounds, Categories, Numeric, bounds_text, encode, read_bounds

GOOD = """
source = "public"

[target]
name = "ill"
values = ["no", "yes"]
fold_case = true
missing = ["-"]

[columns.town]
values = ["Aa", "New York"]
fold_case = true
strip = true

[columns.seen]
date = "%d.%m.%Y"
min = 2020-01-01
max = 2020-12-31

[columns.age]
min = 0
max = 100
missing = ["NA", -9]
"""
FACTS = {
    "town": Categories(("Aa", "New York"), fold_case=True, strip=True),
    "seen": Numeric(18262.0, 18627.0, date="%d.%m.%Y"),
    "age": Numeric(0.0, 100.0, missing=("NA", "-9")),
}
BOUNDS = Bounds("public", "ill", Categories(("no", "yes"), fold_case=True, missing=("-",)), FACTS)
FRAME = pd.DataFrame(
    {
        "town": ["aa", "NEW \u00a0york\u200b"],
        "seen": ["1.1.2020", "31.12.2020"],
        "age": ["50", "25"],
        "ill": ["No", "YES"],
    },
    dtype=object,
)


def test_the_file_says_how_cells_are_spelled_and_is_written_as_it_is_read(tmp_path):
    path = tmp_path / "b.toml"
    path.write_text(GOOD)
    assert read_bounds(path) == BOUNDS
    path.write_text(bounds_text(BOUNDS))
    assert read_bounds(path) == BOUNDS
    assert "max = 18627.0  # 2020-12-31" in path.read_text()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("strip = true", "stripp = true", "'town': it has 'stripp'; it may have centre, fold_case"),
        ("strip = true", "min = 0", "'town' needs min and max"),
        ("strip = true", 'strip = "yes"', "'town': strip must be true or false"),
        ("strip = true", 'date = "%Y"', "'town': it has 'date'"),
        ("min = 0\n", "min = 0\nfold_case = true\n", "'age': it has 'fold_case'"),
        ('["Aa", "New York"]', '["Aa", "AA"]', "'town': the value 'aa' is listed twice, with fold"),
        ('["NA", -9]', '"NA"', "'age': missing is 'NA'; write \"indicator\", \"fill\", or"),
        ('["NA", -9]', "7", "'age': missing must be a list"),
        ('["NA", -9]', '{as = "indicator", fil = 7}', "'age': missing must be a list"),
        ('["NA", -9]', '{as = "mean"}', "'age': missing is 'mean'; write"),
        ('["NA", -9]', "{fill = 7}", "'age': fill is given without"),
        ('["NA", -9]', '{as = "indicator", fill = 101}', "'age': fill is 101 and the range is fr"),
        ('["NA", -9]', '{as = "indicator", fill = "7"}', "'age': fill must be a number, without"),
        ("strip = true", "missing = {as = 'indicator', fill = 1}", "'town': fill is for numbers"),
        (
            'missing = ["-"]',
            'missing = "indicator"',
            "missing of the target 'ill' is \"indicator\"",
        ),
        ('["NA", -9]', '[""]', "'age': missing has \"\""),
        ('["NA", -9]', '["x", "x"]', "'age': missing has 'x' twice"),
        ('missing = ["-"]', 'missing = ["NO"]', "'ill': 'no' is one of values and of missing"),
        ('"%d.%m.%Y"', '"%d.%m."', "'seen': date is"),
        ('"%d.%m.%Y"', '"%Y%"', "'seen': date is"),
        ('"%d.%m.%Y"', '"%Y %!"', "'seen': date is"),
        ('"%d.%m.%Y"', '"%Y %Y"', "'seen': date is"),
        ('"%d.%m.%Y"', "7", "'seen': date must be text"),
        ('date = "%d.%m.%Y"\n', "", "'seen': min and max must be numbers"),
        ("[columns.age]", "[format]\ndelimeter = ';'\n[columns.age]", "format has 'delimeter'"),
        ("[columns.age]", "[format]\ndecimal = ';'\n[columns.age]", "decimal is ';'"),
        ('source = "public"', 'source = "public"\nformat = 1', "format is a section"),
    ],
)
def test_a_bad_spelling_of_the_file_is_one_clear_error(tmp_path, old, new, words):
    assert old in GOOD
    (tmp_path / "b.toml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(InputError, match=words) as caught:
        read_bounds(tmp_path / "b.toml")
    assert "\n" not in str(caught.value)


def test_cells_are_compared_as_the_file_says_and_dates_are_days():
    coded = encode(FRAME, BOUNDS, with_target=True)
    assert coded.features.tolist() == [[1, 0, -1, 0, 1], [0, 1, 1, -0.5, 1]]
    assert coded.targets.tolist() == [-1, 1]
    strict = Bounds("public", "ill", Categories(("No", "YES")), {"town": Categories(("aa",))})
    with pytest.raises(InputError, match="'town', row 2 is empty or not one of"):
        encode(FRAME[["town", "ill"]], strict, with_target=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"age": "NA"}, "column 'age', row 2 is empty; drop"),
        ({"age": "-9"}, "column 'age', row 2 is empty; drop"),
        ({"age": None}, "column 'age', row 2 is empty; drop"),
        ({"ill": "-"}, "column 'ill', row 2 is empty; drop"),
        (
            {"age": "NA", "ill": "-", "town": ""},
            r"column 'town', row 2 is empty, and so are cells of 'age' \(row 2\), 'ill' \(row 2\)",
        ),
        ({"seen": "31.2.2020"}, "'seen', row 2 is no date written as %d.%m.%Y"),
        ({"seen": "secret"}, "'seen', row 2 is no date"),
    ],
)
def test_missing_cells_are_errors_that_name_every_column(changes, words):
    frame = FRAME.copy()
    for name, cell in changes.items():
        frame.loc[1, name] = cell
    with pytest.raises(InputError, match=words) as caught:
        encode(frame, BOUNDS, with_target=True)
    assert "secret" not in str(caught.value)


def test_a_list_with_the_empty_text_makes_missing_cells_a_category():
    bounds = Bounds(
        "public", "ill", BOUNDS.target, {"town": Categories(("", "aa"), missing=("NA", "?"))}
    )
    frame = pd.DataFrame({"town": ["aa", "", "NA", "?", None]}, dtype=object)
    rows = encode(frame, bounds, with_target=False).features
    assert rows[:, 0].tolist() == [0, 1, 1, 1, 1]
